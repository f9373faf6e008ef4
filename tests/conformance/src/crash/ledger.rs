//! The ledger of a process: what it holds, counted by kind.

use std::collections::BTreeMap;
use std::path::Path;

/// Descriptors, mappings of ours and threads of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// Open descriptors by kind.
    pub fds: BTreeMap<String, usize>,
    /// Mappings of memory of ours, by name.
    pub maps: BTreeMap<String, usize>,
    /// Threads.
    pub threads: usize,
    /// Resident memory in kB.
    pub rss_kb: u64,
}

impl Ledger {
    /// What this process holds now.
    ///
    /// # Panics
    /// Where it is gone.
    #[must_use]
    pub fn of(pid: i32) -> Self {
        let process = format!("/proc/{pid}");
        let mut fds = BTreeMap::new();
        let open = std::fs::read_dir(format!("{process}/fd")).expect("a living process");
        for fd in open.flatten() {
            // A descriptor that was closed meanwhile is none.
            if let Ok(target) = std::fs::read_link(fd.path()) {
                *fds.entry(kind(&target.to_string_lossy())).or_default() += 1;
            }
        }
        let mut maps = BTreeMap::new();
        let text = std::fs::read_to_string(format!("{process}/maps")).unwrap_or_default();
        for line in text.lines().filter(|line| line.contains("/memfd:m3-")) {
            let name =
                line.split("/memfd:").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("");
            *maps.entry(name.to_owned()).or_default() += 1;
        }
        let threads = std::fs::read_dir(format!("{process}/task")).map_or(0, Iterator::count);
        Self { fds, maps, threads, rss_kb: status_kb(pid, "VmRSS:") }
    }

    /// How many mappings of this name there are.
    #[must_use]
    pub fn mapped(&self, name: &str) -> usize {
        self.maps.get(name).copied().unwrap_or(0)
    }

    /// How many descriptors there are.
    #[must_use]
    pub fn open(&self) -> usize {
        self.fds.values().sum()
    }

    /// What another holds and this does not, or the other way; memory left out. Empty where they agree.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        compare("descriptors", &self.fds, &other.fds, &mut found);
        compare("mappings", &self.maps, &other.maps, &mut found);
        if self.threads != other.threads {
            found.push(format!("threads: {} became {}", self.threads, other.threads));
        }
        found
    }
}

fn compare(
    what: &str,
    before: &BTreeMap<String, usize>,
    after: &BTreeMap<String, usize>,
    found: &mut Vec<String>,
) {
    let kinds: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for kind in kinds {
        let (had, has) = (before.get(kind).unwrap_or(&0), after.get(kind).unwrap_or(&0));
        if had != has {
            found.push(format!("{what} of {kind}: {had} became {has}"));
        }
    }
}

/// `socket:[123]` and `socket:[124]` are of one kind.
fn kind(target: &str) -> String {
    match target.split_once(":[") {
        Some((kind, _)) if kind != "anon_inode" => kind.to_owned(),
        _ => target.to_owned(),
    }
}

fn status_kb(pid: i32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Names of ours in /dev/shm: there are to be none.
#[must_use]
pub fn left_in_shm() -> Vec<String> {
    // The memory of `m3 sock run` is one file for each user, and stays (CAVEATS).
    let ours = |name: &String| name.starts_with("m3") && !name.starts_with("m3sock-");
    names(Path::new("/dev/shm")).into_iter().filter(ours).collect()
}

/// What lies in a runtime directory beyond what a living daemon needs: there is to be nothing.
#[must_use]
pub fn left_in_directory(directory: &Path) -> Vec<String> {
    let needed = ["lock", "journal", "m3d.sock", "doorbells", "sockets"];
    let mut left: Vec<_> =
        names(directory).into_iter().filter(|name| !needed.contains(&name.as_str())).collect();
    left.extend(names(&directory.join("doorbells")));
    left.extend(names(&directory.join("sockets")));
    left
}

/// The sockets of a runtime directory that the kernel knows.
#[must_use]
pub fn unix_sockets(directory: &Path) -> usize {
    let all = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let name = directory.to_string_lossy();
    all.lines().filter(|line| line.contains(name.as_ref())).count()
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
