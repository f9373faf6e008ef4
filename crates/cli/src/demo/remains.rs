//! What is left of it: looked for everywhere where something could be.
//!
//! While the parts live, the memory that they hold is noted by its inode
//! numbers. At the end nobody on this machine may map it or hold a
//! descriptor of it, as far as /proc lets us see; no process may be left, no
//! descriptor of our own more than before, no file.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How memory of ours is named in /proc.
const NAME: &str = "/memfd:m3-";
/// Where named shared memory would lie.
const SHARED: &str = "/dev/shm";

/// What there was before, and what came.
#[derive(Debug)]
pub struct Before {
    descriptors: usize,
    shared: BTreeSet<String>,
    memory: BTreeSet<u64>,
}

/// What is left.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Left {
    /// Processes of all that were started.
    pub processes: usize,
    /// Descriptors of this process beyond those it had, and of anybody on the memory.
    pub descriptors: usize,
    /// Mappings of the memory by anybody.
    pub mappings: usize,
    /// Files in /dev/shm that were not there before.
    pub shared_files: usize,
    /// Whether the directory is still there.
    pub directory: bool,
    /// How many processes were started.
    pub of_processes: usize,
    /// How many pieces of memory were seen.
    pub of_memory: usize,
    /// How many processes were looked into.
    pub looked_into: usize,
}

impl Left {
    /// Whether that is nothing.
    pub fn is_nothing(&self) -> bool {
        (self.processes, self.descriptors, self.mappings, self.shared_files, self.directory)
            == (0, 0, 0, 0, false)
    }
}

impl Before {
    /// Before anything is started.
    pub fn look() -> Self {
        Self { descriptors: own_descriptors(), shared: shared_files(), memory: BTreeSet::new() }
    }

    /// Notes the memory that these processes hold now.
    pub fn note(&mut self, pids: &[i32]) {
        for pid in pids {
            self.memory.extend(mapped(*pid).into_iter().flatten());
            self.memory.extend(open(*pid));
        }
    }

    /// What is left now of these processes and this directory.
    pub fn left(&self, pids: &[i32], directory: &Path) -> Left {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut left = Left {
            processes: pids
                .iter()
                .filter(|pid| Path::new(&format!("/proc/{pid}")).exists())
                .count(),
            descriptors: own_descriptors().saturating_sub(self.descriptors),
            shared_files: shared_files().difference(&self.shared).count(),
            directory: directory.exists(),
            of_processes: pids.len(),
            of_memory: self.memory.len(),
            ..Left::default()
        };
        for pid in processes() {
            if let Some(mapped) = mapped(pid) {
                left.looked_into += 1;
                // This process itself holds nothing of that kind, noted or not.
                let ours = |inode: &&u64| pid == own || self.memory.contains(inode);
                left.mappings += mapped.iter().filter(ours).count();
                left.descriptors += open(pid).iter().filter(ours).count();
            }
        }
        left
    }
}

fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Inode numbers of our kind of memory that a process maps; `None` where it may not be seen.
fn mapped(pid: i32) -> Option<Vec<u64>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let ours = maps.lines().filter(|line| line.contains(NAME));
    Some(ours.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).collect())
}

/// Inode numbers of our kind of memory that a process has descriptors of.
fn open(pid: i32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy().starts_with(NAME))
    });
    ours.filter_map(|entry| fs::metadata(entry.path()).ok()).map(|found| found.ino()).collect()
}

fn own_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Names in /dev/shm that could be ours.
fn shared_files() -> BTreeSet<String> {
    let entries = fs::read_dir(SHARED).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("m3")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_stays_is_found() {
        let memory = m3ipc_sys::create_memory("m3-left", 4096).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let mut before = Before::look();
        before.note(&[own]);
        let left = before.left(&[own], Path::new("/proc/self"));
        assert!(left.descriptors > 0 && left.of_memory > 0 && left.directory && !left.is_nothing());
        drop(memory);
    }

    #[test]
    fn where_nothing_was_nothing_is_left() {
        let before = Before::look();
        assert!(before.left(&[], Path::new("/no such directory")).shared_files == 0);
    }
}
