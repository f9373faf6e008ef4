//! Limits of this process and of the machine.

use super::finding::{Finding, read};
use rustix::process::{Resource, getrlimit};

/// Descriptors of a daemon with 1,000 endpoints, at one and a half per endpoint, and a reserve.
const ENOUGH_FILES: u64 = 4_096;
/// Twice the mappings of an endpoint with 1,000 peers.
const ENOUGH_MAPPINGS: u64 = 10_000;

/// Runs the checks of this group.
pub fn examine() -> Vec<Finding> {
    vec![files(), mappings(), memory()]
}

fn files() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    let shown =
        |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let is = format!(
        "{} now, {} at most (the daemon raises its own limit)",
        shown(limit.current),
        shown(limit.maximum)
    );
    if limit.maximum.is_none_or(|most| most >= ENOUGH_FILES) {
        return Finding::ok("open files", is);
    }
    Finding::off(
        "open files",
        is,
        "the node has fewer than 1,000 endpoints; raise the hard limit (ulimit -Hn)",
    )
}

fn mappings() -> Finding {
    let name = "max_map_count";
    match read("/proc/sys/vm/max_map_count").and_then(|text| text.parse::<u64>().ok()) {
        Some(most) if most >= ENOUGH_MAPPINGS => {
            Finding::ok(name, format!("{most} mappings per process; a link takes one"))
        }
        Some(most) => Finding::off(
            name,
            format!("{most} mappings per process"),
            "an endpoint has at most about as many peers; raise vm.max_map_count",
        ),
        None => Finding::note(name, "unknown: /proc/sys/vm has no such file"),
    }
}

fn memory() -> Finding {
    let limit = getrlimit(Resource::Memlock).current;
    let shown = limit.map_or("unlimited".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
    Finding::note("locked memory", format!("{shown}; m3ipc locks no memory"))
}
