//! Counter files: one per `m3 sock run`, in which the program and its children count.
//!
//! The files lie beside the runtime directory, in `DIRECTORY.sock-run`, because the daemon creates
//! and removes the runtime directory itself. The name of a file is the process number of the
//! program. The next listing or the next start removes a file without living processes.

use m3ipc_shim::counters::{PAGE_BYTES, Snapshot, process_of, process_word};
use m3ipc_sys::{CheckedPath, Errno, PathFault, UserNames};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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

/// Creates a counter file, and replaces an existing file of this user.
pub fn create(path: &Path) -> io::Result<()> {
    // Beyond this limit the kernel would end this process by a signal.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|bytes| bytes < PAGE_BYTES as u64) {
        return Err(Errno::FBIG.into());
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    // The program maps the file. Another user could cut it, and so end the program.
    let meta = file.metadata()?;
    if !meta.is_file() || !is_own(meta.uid()) || meta.mode() & 0o022 != 0 || meta.nlink() > 1 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // Never shorter than a page: a running program may have mapped the file.
    file.set_len(PAGE_BYTES as u64)?;
    let own = std::process::id();
    file.write_all(&Snapshot::empty_page(process_word(own, started(own).unwrap_or(0))))
}

/// Whether this is the number of this process's effective user.
fn is_own(uid: u32) -> bool {
    uid == m3ipc_sys::user_id() && UserNames::read().names_one(uid)
}

/// Creates the counter file of this process beside the runtime directory.
pub fn create_own(runtime: &Path) -> io::Result<PathBuf> {
    let directory = directory(runtime);
    let made = m3ipc::runtime::make(&directory, 0o700);
    made.map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error))?;
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

/// All programs with living processes; removes the files of all others from a directory of this
/// user. Nothing in a directory that other users could write is read or removed.
///
/// # Errors
/// The reason why an existing directory is not read, for people.
pub fn programs(runtime: &Path) -> Result<Vec<CountedProgram>, String> {
    let path = directory(runtime);
    let refused = |why: &dyn Display| {
        format!(
            "programs under m3 sock run are not shown: {} is not read: {why}; run the command as \
             the owner of that directory or as root, and let no other user write there",
            path.display()
        )
    };
    let place = match CheckedPath::open_for_reading(&path) {
        Ok(place) => place,
        Err(PathFault::System { errno: Errno::NOENT, .. }) => return Ok(Vec::new()),
        Err(PathFault::System { errno, .. }) => return Err(refused(&errno)),
        Err(PathFault::Link { path, uid } | PathFault::Parent { path, uid, .. }) => {
            return Err(refused(&format_args!("user {uid} can replace {}", path.display())));
        }
    };
    if !place.is_directory() || !place.is_own() || place.others_may_write() {
        let (uid, mode) = (place.user(), place.mode());
        return Err(refused(&format_args!("it belongs to user {uid} (mode {mode:o})")));
    }
    let may_remove = is_own(place.user());
    let entries = std::fs::read_dir(&path).map_err(|cause| refused(&cause))?;
    let mut found = Vec::new();
    for name in entries.filter_map(|entry| Some(entry.ok()?.file_name())) {
        let Some(snapshot) = read(&place, &name) else { continue };
        let is_alive = |(pid, at): &(u32, u64)| started(*pid) == Some(*at);
        let pids: Vec<u32> = snapshot
            .processes
            .iter()
            .map(|word| process_of(*word))
            .filter(is_alive)
            .map(|(pid, _)| pid)
            .collect();
        match pids.first() {
            None if may_remove => drop(std::fs::remove_file(path.join(&name))),
            None => {}
            Some(first) => {
                let name = read_lossy(&format!("/proc/{first}/comm")).unwrap_or_default();
                found.push(CountedProgram { name: name.trim().to_owned(), pids, snapshot });
            }
        }
    }
    found.sort_by(|one, other| one.pids.cmp(&other.pids));
    Ok(found)
}

/// The counters in a file of this directory and of its owner: a name in it may lead to a file of
/// another user.
fn read(place: &CheckedPath, name: &OsStr) -> Option<Snapshot> {
    let file = place.open_file(name).ok()?;
    if file.metadata().ok()?.uid() != place.user() {
        return None;
    }
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    file.take(PAGE_BYTES as u64).read_to_end(&mut bytes).ok()?;
    Snapshot::of(&bytes)
}

/// A file as text: a process may give itself any name.
fn read_lossy(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned())
}

/// The start time of a process, in clock ticks after boot; `None` for a dead process.
fn started(pid: u32) -> Option<u64> {
    let stat = read_lossy(&format!("/proc/{pid}/stat"))?;
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
        let found = programs(&runtime).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pids, [std::process::id()]);
        assert!(own.exists() && !dead.exists());
        std::fs::remove_dir_all(directory(&runtime)).unwrap();
    }
}
