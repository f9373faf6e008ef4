//! Counter files: one per `m3 sock run`, in which the program and its children count.
//!
//! The files lie beside the runtime directory, in `DIRECTORY.sock-run`, because the daemon creates
//! and removes the runtime directory itself. The name of a file is the process number of the
//! program. The next listing or the next start removes a file without living processes.

use m3ipc_shim::counters::{Snapshot, process_of, process_word};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The suffix of the directory.
const SUFFIX: &str = "sock-run";

/// A program under `m3 sock run`.
pub struct CountedProgram {
    /// The name of a process of the program.
    pub name: String,
    /// Its living processes that have or had sockets in shared memory.
    pub pids: Vec<u32>,
    /// The counters.
    pub snapshot: Snapshot,
}

/// Creates a counter file, and replaces an existing file.
pub fn create(path: &Path) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    let own = std::process::id();
    file.write_all(&Snapshot::empty_page(process_word(own, started(own).unwrap_or(0))))
}

/// Creates the counter file of this process beside the runtime directory.
pub fn create_own(runtime: &Path) -> io::Result<PathBuf> {
    let directory = directory(runtime);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    // A user who can write to the directory could plant a link to another file.
    let meta = std::fs::symlink_metadata(&directory)?;
    if !meta.is_dir()
        || meta.uid() != rustix::process::geteuid().as_raw()
        || meta.mode() & 0o022 != 0
    {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let _ = programs(runtime);
    let path = directory.join(std::process::id().to_string());
    let _ = std::fs::remove_file(&path);
    create(&path).map(|()| path)
}

fn directory(runtime: &Path) -> PathBuf {
    let mut name = runtime.as_os_str().to_owned();
    name.push(".");
    name.push(SUFFIX);
    name.into()
}

/// All programs with living processes; removes the files of all others.
pub fn programs(runtime: &Path) -> Vec<CountedProgram> {
    let Ok(entries) = std::fs::read_dir(directory(runtime)) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let Some(snapshot) = std::fs::read(&path).ok().and_then(|bytes| Snapshot::of(&bytes))
        else {
            continue;
        };
        let is_alive = |(pid, at): &(u32, u64)| started(*pid) == Some(*at);
        let pids: Vec<u32> = snapshot
            .processes
            .iter()
            .map(|word| process_of(*word))
            .filter(is_alive)
            .map(|(pid, _)| pid)
            .collect();
        match pids.first() {
            None => drop(std::fs::remove_file(&path)),
            Some(first) => {
                let name =
                    std::fs::read_to_string(format!("/proc/{first}/comm")).unwrap_or_default();
                found.push(CountedProgram { name: name.trim().to_owned(), pids, snapshot });
            }
        }
    }
    found.sort_by(|one, other| one.pids.cmp(&other.pids));
    found
}

/// The start time of a process, in clock ticks after boot; `None` for a dead process.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_name, after) = stat.rsplit_once(')')?;
    let mut words = after.split_ascii_whitespace();
    // A zombie counts no more.
    let state = words.next()?;
    if state == "Z" || state == "X" { None } else { words.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_living_processes_are_found_and_others_removed() {
        let runtime = std::env::temp_dir().join(format!("m3-counters-{}", std::process::id()));
        let own = create_own(&runtime).unwrap();
        let dead = own.with_file_name("1");
        std::fs::write(&dead, Snapshot::empty_page(process_word(1, 1 << 40))).unwrap();
        let found = programs(&runtime);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pids, [std::process::id()]);
        assert!(own.exists() && !dead.exists());
        std::fs::remove_dir_all(directory(&runtime)).unwrap();
    }
}
