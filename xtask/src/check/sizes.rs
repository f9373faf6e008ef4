//! The installed programs and the library stay small.
//!
//! The limits are promised for what users install: built with the profile `dist` and stripped. The
//! long tier builds and measures that. The gate builds another profile, which is larger.

use std::fs;

use crate::error::Error;

use super::finding::{Finding, Report};
use super::input::Tree;

/// The folder that the CI step `install-dist` fills.
const DIST: &str = "ci/install-dist/usr";

const MB: u64 = 1_000_000;

/// A file from the prefix, and its most bytes.
const LIMITS: &[(&str, u64)] = &[
    ("bin/m3", 6 * MB),
    ("bin/m3d", 5 * MB),
    ("bin/m3-supervise", 5 * MB),
    ("bin/m3-proxy", 8 * MB),
    ("bin/m3-registry", 8 * MB),
    ("lib/libm3ipc.so", 2 * MB),
];

/// Measures what users install.
pub fn report(tree: &Tree) -> Result<Report, Error> {
    let mut sizes = Vec::new();
    for (name, limit) in LIMITS {
        let path = tree.workspace.target_dir.join(DIST).join(name);
        let bytes = fs::metadata(&path).map_err(|e| Error::read(&path, e))?.len();
        sizes.push((*name, bytes, *limit));
    }
    let figure = sizes
        .iter()
        .map(|(name, bytes, limit)| format!("{name} {} of {} MB", in_mb(*bytes), in_mb(*limit)));
    let figure = figure.collect::<Vec<_>>().join(", ");
    Ok(Report { findings: sizes.iter().filter_map(check).collect(), figure })
}

fn check((name, bytes, limit): &(&str, u64, u64)) -> Option<Finding> {
    (bytes > limit).then(|| Finding {
        location: (*name).to_owned(),
        problem: format!("{} MB, more than {} MB", in_mb(*bytes), in_mb(*limit)),
        next: "Find the cause with `nm --size-sort --radix=d` on target/dist.",
    })
}

fn in_mb(bytes: u64) -> String {
    format!("{}.{}", bytes / MB, bytes % MB / (MB / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_program_fails() {
        assert_eq!(check(&("bin/m3", 6 * MB, 6 * MB)), None);
        let found = check(&("bin/m3", 6 * MB + 1, 6 * MB)).expect("one byte too many");
        assert!(found.problem.contains("6.0 MB"), "{found}");
        assert_eq!(in_mb(5_250_000), "5.2");
    }
}
