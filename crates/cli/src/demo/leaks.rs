//! The search for leaks: processes, descriptors, mappings and files after the end.
//!
//! While the processes live, their shared memory is recorded by inode number. At the end no process
//! may map that memory or hold a descriptor of it, as far as /proc shows. No process may be left,
//! no new descriptor of this process, and no new file.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The prefix of m3ipc's memory in /proc.
const MEMORY_PREFIX: &str = "/memfd:m3-";
/// The directory of named shared memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// The state before the start, and the recorded memory.
#[derive(Debug)]
pub struct LeakCheck {
    descriptors: usize,
    shared: BTreeSet<String>,
    memory: BTreeSet<u64>,
}

/// The leaks, and the extent of the search.
///
/// The names of the fields are the keys of the JSON output.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LeakReport {
    /// Processes that were started and still exist.
    pub processes: usize,
    /// New descriptors of this process, and descriptors of the memory in any process.
    pub descriptors: usize,
    /// Mappings of the memory in any process.
    pub mappings: usize,
    /// New files in /dev/shm.
    pub shared_files: usize,
    /// Whether the directory still exists.
    pub directory: bool,
    /// The number of processes that were started.
    pub processes_started: usize,
    /// The number of memory objects that were recorded.
    pub memory_objects: usize,
    /// The number of processes that the search could read.
    pub processes_scanned: usize,
}

impl LeakReport {
    /// Whether there are no leaks.
    pub fn is_clean(&self) -> bool {
        (self.processes, self.descriptors, self.mappings, self.shared_files, self.directory)
            == (0, 0, 0, 0, false)
    }
}

impl LeakCheck {
    /// Records the state before the start.
    pub fn start() -> Self {
        Self { descriptors: own_descriptors(), shared: shared_files(), memory: BTreeSet::new() }
    }

    /// Records the memory that these processes hold now.
    pub fn record(&mut self, pids: &[i32]) {
        for pid in pids {
            self.memory.extend(mapped(*pid).into_iter().flatten());
            self.memory.extend(open(*pid));
        }
    }

    /// Searches for leaks of these processes and of this directory.
    pub fn search(&self, pids: &[i32], directory: &Path) -> LeakReport {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut report = LeakReport {
            processes: pids
                .iter()
                .filter(|pid| Path::new(&format!("/proc/{pid}")).exists())
                .count(),
            descriptors: own_descriptors().saturating_sub(self.descriptors),
            shared_files: shared_files().difference(&self.shared).count(),
            directory: directory.exists(),
            processes_started: pids.len(),
            memory_objects: self.memory.len(),
            ..LeakReport::default()
        };
        for pid in processes() {
            if let Some(mapped) = mapped(pid) {
                report.processes_scanned += 1;
                // This process must hold no memory of m3ipc, recorded or not.
                let is_leaked = |inode: &&u64| pid == own || self.memory.contains(inode);
                report.mappings += mapped.iter().filter(is_leaked).count();
                report.descriptors += open(pid).iter().filter(is_leaked).count();
            }
        }
        report
    }
}

fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Inode numbers of m3ipc's memory that a process maps; `None` without permission to read them.
fn mapped(pid: i32) -> Option<Vec<u64>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let found = maps.lines().filter(|line| line.contains(MEMORY_PREFIX));
    Some(found.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).collect())
}

/// Inode numbers of m3ipc's memory that a process has descriptors of.
fn open(pid: i32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let found = entries.filter(|entry| {
        fs::read_link(entry.path())
            .is_ok_and(|link| link.to_string_lossy().starts_with(MEMORY_PREFIX))
    });
    found.filter_map(|entry| fs::metadata(entry.path()).ok()).map(|meta| meta.ino()).collect()
}

fn own_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Names in /dev/shm that m3ipc may have created.
fn shared_files() -> BTreeSet<String> {
    let entries = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("m3")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaked_memory_is_found() {
        let memory = m3ipc_sys::create_memory("m3-leak", 4096).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let mut check = LeakCheck::start();
        check.record(&[own]);
        let report = check.search(&[own], Path::new("/proc/self"));
        assert!(report.descriptors > 0 && report.memory_objects > 0);
        assert!(report.directory && !report.is_clean());
        drop(memory);
    }

    #[test]
    fn without_processes_there_are_no_leaks() {
        let check = LeakCheck::start();
        assert_eq!(check.search(&[], Path::new("/no such directory")).shared_files, 0);
    }
}
