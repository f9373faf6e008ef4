//! Named objects of the machine that killed processes may leave behind.

use std::collections::BTreeSet;
use std::path::Path;

/// Directories of named shared memory and message queues.
const SHARED: [&str; 2] = ["/dev/shm", "/dev/mqueue"];
/// The directory of nodes and services of iceoryx2.
const ICEORYX: &str = "/tmp/iceoryx2";
/// Lists of System V objects, with a word for each.
const SYSTEM_V: [(&str, &str); 3] = [
    ("/proc/sysvipc/shm", "shm"),
    ("/proc/sysvipc/msg", "queue"),
    ("/proc/sysvipc/sem", "semaphore"),
];
/// The greatest depth of directories.
const DEPTH: u32 = 4;

/// All named objects: files by path, System V objects by word and id.
///
/// In the directory of temporary files only names with the number of this process count, but for
/// the runtime directory of its node, which lives on.
pub fn list() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for directory in SHARED.into_iter().chain([ICEORYX]) {
        add(Path::new(directory), DEPTH, &mut found, &|_| true);
    }
    let mark = format!("m3-bench-{}", std::process::id());
    add(&std::env::temp_dir(), 1, &mut found, &|name| name.contains(&mark) && name != mark);
    for (path, kind) in SYSTEM_V {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let ids = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
        found.extend(ids.map(|id| format!("{kind} {id}")));
    }
    found
}

/// The objects that came since.
pub fn since(before: &BTreeSet<String>) -> Vec<String> {
    list().difference(before).cloned().collect()
}

fn add(path: &Path, depth: u32, found: &mut BTreeSet<String>, counts: &dyn Fn(&str) -> bool) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten().filter(|entry| counts(&entry.file_name().to_string_lossy())) {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        found.insert(entry.path().display().to_string());
        if is_directory && depth > 1 {
            add(&entry.path(), depth - 1, found, counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_this_process_counts_and_another_file_does_not() {
        let before = list();
        let name = |mark: &str| std::env::temp_dir().join(format!("{mark}-left-behind"));
        let (own, other) = (
            name(&format!("m3-bench-{}", std::process::id())),
            name(&format!("somebody-{}", std::process::id())),
        );
        for file in [&own, &other] {
            std::fs::write(file, "").expect("a file can be written");
        }
        let left = since(&before);
        for file in [&own, &other] {
            std::fs::remove_file(file).expect("it can be removed");
        }
        assert!(
            left.contains(&own.display().to_string())
                && !left.contains(&other.display().to_string())
        );
    }
}
