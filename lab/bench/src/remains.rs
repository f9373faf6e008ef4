//! What has a name on this machine and could be left behind by processes that were killed.

use std::collections::BTreeSet;
use std::path::Path;

/// Where named shared memory and message queues lie.
const SHARED: [&str; 2] = ["/dev/shm", "/dev/mqueue"];
/// Where iceoryx2 keeps its nodes and services.
const ICEORYX: &str = "/tmp/iceoryx2";
/// Lists of System V objects, with what they are called here.
const SYSTEM_V: [(&str, &str); 3] = [
    ("/proc/sysvipc/shm", "shm"),
    ("/proc/sysvipc/msg", "queue"),
    ("/proc/sysvipc/sem", "semaphore"),
];
/// Folders deeper than this are not looked into.
const DEPTH: u32 = 4;

/// Everything there is now: files by their paths, System V objects by kind and id; of the directory for temporary
/// files only what bears this process's number, since others write there too.
#[must_use]
pub fn look() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for place in SHARED.into_iter().chain([ICEORYX]) {
        list(Path::new(place), DEPTH, &mut found, &|_| true);
    }
    let mark = format!("m3-bench-{}", std::process::id());
    list(&std::env::temp_dir(), 1, &mut found, &|name| name.contains(&mark));
    for (path, kind) in SYSTEM_V {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let ids = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
        found.extend(ids.map(|id| format!("{kind} {id}")));
    }
    found
}

/// What came since.
#[must_use]
pub fn since(before: &BTreeSet<String>) -> Vec<String> {
    look().difference(before).cloned().collect()
}

fn list(place: &Path, depth: u32, found: &mut BTreeSet<String>, counts: &dyn Fn(&str) -> bool) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten().filter(|entry| counts(&entry.file_name().to_string_lossy())) {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        found.insert(entry.path().display().to_string());
        if is_folder && depth > 1 {
            list(&entry.path(), depth - 1, found, counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_this_process_is_seen_and_one_of_others_is_not() {
        let before = look();
        let name = |mark: &str| std::env::temp_dir().join(format!("{mark}-left-behind"));
        let (ours, others) = (
            name(&format!("m3-bench-{}", std::process::id())),
            name(&format!("somebody-{}", std::process::id())),
        );
        for file in [&ours, &others] {
            std::fs::write(file, "").expect("a file can be written");
        }
        let left = since(&before);
        for file in [&ours, &others] {
            std::fs::remove_file(file).expect("it can be removed");
        }
        assert!(
            left.contains(&ours.display().to_string())
                && !left.contains(&others.display().to_string())
        );
    }
}
