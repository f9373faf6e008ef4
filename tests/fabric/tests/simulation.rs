//! Many histories, and the planted mistakes that the simulation must notice.
//!
//! `M3_FABRIC_RUNS` sets the number of histories, `M3_FABRIC_SEED` the first seed,
//! `M3_FABRIC_FAULT` the one mistake to plant, `M3_FABRIC_FAULT_RUNS` its histories.

use std::sync::atomic::{AtomicU64, Ordering};

use m3ipc_fabric::Fault;
use m3ipc_test_fabric::run;

/// Histories in which a planted mistake must be noticed.
const RUNS_PER_FAULT: u64 = 5_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn the_promises_hold_in_each_history() {
    let first = setting("M3_FABRIC_SEED", 0);
    let end = first + setting("M3_FABRIC_RUNS", 10_000);
    let next = AtomicU64::new(first);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    if let Err(broken) = run(seed, None) {
                        panic!("{broken}; repeat with M3_FABRIC_SEED={seed} M3_FABRIC_RUNS=1");
                    }
                }
            });
        }
    });
}

#[test]
fn each_planted_fault_is_noticed() {
    let runs = setting("M3_FABRIC_FAULT_RUNS", RUNS_PER_FAULT);
    let mut missed = Vec::new();
    let only = std::env::var("M3_FABRIC_FAULT").ok();
    let is_chosen = |fault: &&Fault| only.as_ref().is_none_or(|it| *it == format!("{fault:?}"));
    for fault in Fault::ALL.iter().filter(is_chosen) {
        match (0..runs).find_map(|seed| Some((seed, run(seed, Some(*fault)).err()?))) {
            Some((_, broken)) => println!("{fault:?}: {broken:.140}"),
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
