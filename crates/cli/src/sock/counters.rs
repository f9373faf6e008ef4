//! Files of counters: one for each `m3 sock run`, in which the program and its children count.
//!
//! They lie in `sock-run` of the runtime directory, named after the process that became the program. A file of which no
//! process lives any more is removed by whoever looks next, or starts the next program.

use m3ipc_shim::counters::{Snapshot, process_of, process_word};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const FOLDER: &str = "sock-run";

/// One `m3 sock run`.
pub struct Program {
    /// The name of a process that counts there.
    pub name: String,
    /// Those of its processes that live, and have, or had, sockets of ours.
    pub pids: Vec<u32>,
    /// What they counted.
    pub snapshot: Snapshot,
}

/// Makes a file for counting in, over whatever lies there.
pub fn begin(path: &Path) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    let own = std::process::id();
    file.write_all(&Snapshot::empty_page(process_word(own, started(own).unwrap_or(0))))
}

/// The same for this process in the runtime directory.
pub fn begin_own(runtime: &Path) -> io::Result<PathBuf> {
    let folder = folder(runtime);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    // Who could put a link there could have files of ours written over.
    let meta = std::fs::symlink_metadata(&folder)?;
    if !meta.is_dir()
        || meta.uid() != rustix::process::geteuid().as_raw()
        || meta.mode() & 0o022 != 0
    {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let _ = programs(runtime);
    let path = folder.join(std::process::id().to_string());
    let _ = std::fs::remove_file(&path);
    begin(&path).map(|()| path)
}

fn folder(runtime: &Path) -> PathBuf {
    // The daemon makes its directory itself, and takes it away with its last VM.
    let mut name = runtime.as_os_str().to_owned();
    name.push(".");
    name.push(FOLDER);
    name.into()
}

/// All whose processes live; files of others are removed.
pub fn programs(runtime: &Path) -> Vec<Program> {
    let Ok(entries) = std::fs::read_dir(folder(runtime)) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let Some(snapshot) = std::fs::read(&path).ok().and_then(|bytes| Snapshot::of(&bytes))
        else {
            continue;
        };
        let lives = |(pid, at): &(u32, u64)| started(*pid) == Some(*at);
        let pids: Vec<u32> = snapshot
            .processes
            .iter()
            .map(|word| process_of(*word))
            .filter(lives)
            .map(|(pid, _)| pid)
            .collect();
        match pids.first() {
            None => drop(std::fs::remove_file(&path)),
            Some(first) => {
                let name =
                    std::fs::read_to_string(format!("/proc/{first}/comm")).unwrap_or_default();
                found.push(Program { name: name.trim().to_owned(), pids, snapshot });
            }
        }
    }
    found.sort_by(|one, other| one.pids.cmp(&other.pids));
    found
}

/// When a process started, in clock ticks after boot.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_name, after) = stat.rsplit_once(')')?;
    let mut words = after.split_ascii_whitespace();
    // A dead one that nobody has asked for counts no more.
    let state = words.next()?;
    if state == "Z" || state == "X" { None } else { words.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_counters_are_found_and_those_of_the_dead_removed() {
        let runtime = std::env::temp_dir().join(format!("m3-counters-{}", std::process::id()));
        let own = begin_own(&runtime).unwrap();
        let dead = own.with_file_name("1");
        std::fs::write(&dead, Snapshot::empty_page(process_word(1, 1 << 40))).unwrap();
        let found = programs(&runtime);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pids, [std::process::id()]);
        assert!(own.exists() && !dead.exists());
        std::fs::remove_dir_all(folder(&runtime)).unwrap();
    }
}
