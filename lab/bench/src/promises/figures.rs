//! The figures of the promises. Wait modes are compared like with like: a
//! spinning side with a spinning floor; where the kernel blocks, ours may wait
//! as its users do by default.

use crate::job::{Placement, Wait};
use crate::mechanism::Family;
use crate::record::{Results, Row};

/// What ours is taken for where a user's default is compared.
const DEFAULT: [Wait; 2] = [Wait::Adaptive, Wait::Block];
/// Both sides awake.
const AWAKE: [Wait; 2] = [Wait::Spin, Wait::Adaptive];

/// Ours, both sides spinning, against the bounce that took turns with it in the same test.
pub fn to_bounce(results: &Results, test: &str) -> Option<f64> {
    let ours = ours(results, test, Placement::TwoCpus, 1, &AWAKE[..1])?;
    let bounce =
        rows(results, test, Placement::TwoCpus, 1).find(|row| row.record.mechanism == "bounce")?;
    Some(ours.trip_ns() / bounce.trip_ns())
}

/// The kernel's best against ours on two CPUs.
pub fn kernel_two_cpus(results: &Results) -> Option<f64> {
    let ours = ours(results, "ipc2", Placement::TwoCpus, 1, &AWAKE)?;
    Some(fastest(results, "ipc2", Placement::TwoCpus)? / ours.trip_ns())
}

/// Ours against the kernel's best on one CPU.
pub fn kernel_same_cpu(results: &Results) -> Option<f64> {
    let ours = ours(results, "ipc2", Placement::SameCpu, 1, &DEFAULT)?;
    Some(ours.trip_ns() / fastest(results, "ipc2", Placement::SameCpu)?)
}

/// Ours to a sleeping server against a bare futex wake.
pub fn asleep(results: &Results) -> Option<f64> {
    let ours = ours(results, "ipc2-paced", Placement::TwoCpus, 1, &DEFAULT)?;
    let floor = rows(results, "ipc2-paced", Placement::TwoCpus, 1)
        .find(|row| row.record.mechanism == "futex-wake")?;
    Some(ours.trip_ns() / floor.trip_ns())
}

/// The least ratio of messages per second to the kernel's best, over the numbers of
/// pairs for which each process has a CPU (`fit`), or over the others.
pub fn pairs(results: &Results, fit: bool) -> Option<f64> {
    let mut numbers: Vec<u32> = results
        .rows
        .iter()
        .filter(|row| row.record.test == "pairs")
        .map(|row| row.record.pairs)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let fits = |pairs: u32| usize::try_from(2 * pairs).is_ok_and(|sides| sides <= results.cpus);
    let ratio = |pairs: u32| {
        let ours = ours(results, "pairs", Placement::Any, pairs, &DEFAULT)?;
        let best = rows(results, "pairs", Placement::Any, pairs)
            .filter(|row| row.family == Family::Kernel)
            .map(|row| row.record.per_s)
            .max_by(f64::total_cmp)?;
        Some(ours.record.per_s / best)
    };
    numbers.into_iter().filter(|&pairs| fits(pairs) == fit).filter_map(ratio).min_by(f64::total_cmp)
}

/// The worst time among many clients against that with one, both in the same way of waiting.
pub fn clients(results: &Results) -> Option<f64> {
    let of = |row: &&Row| row.record.test == "clients" && row.family == Family::Ours;
    let alone = results.rows.iter().filter(of).find(|row| row.record.pairs == 1)?;
    results
        .rows
        .iter()
        .filter(of)
        .filter(|row| row.record.pairs > 1 && row.record.wait == alone.record.wait)
        .map(|row| row.trip_ns() / alone.trip_ns())
        .max_by(f64::total_cmp)
}

/// The worst 99th percentile of ours from kill -9 to the error, over its ways of waiting.
pub fn death(results: &Results, test: &str) -> Option<f64> {
    let ours =
        results.rows.iter().filter(|row| row.record.test == test && row.family == Family::Ours);
    ours.map(|row| row.record.p99_ns as f64).max_by(f64::total_cmp)
}

/// The median of ours in a test that has one row.
pub fn median_of(results: &Results, test: &str) -> Option<f64> {
    let row =
        results.rows.iter().find(|row| row.record.test == test && row.family == Family::Ours)?;
    Some(row.record.p50_ns as f64)
}

/// The daemon's memory.
pub fn daemon(results: &Results) -> Option<f64> {
    results.count("memory", "daemon")
}

fn rows<'a>(
    results: &'a Results,
    test: &'a str,
    placement: Placement,
    pairs: u32,
) -> impl Iterator<Item = &'a Row> {
    results.rows.iter().filter(move |row| {
        row.record.test == test && row.record.placement == placement && row.record.pairs == pairs
    })
}

/// Ours in the first of these ways of waiting that was measured.
fn ours<'a>(
    results: &'a Results,
    test: &'a str,
    placement: Placement,
    pairs: u32,
    waits: &[Wait],
) -> Option<&'a Row> {
    waits.iter().find_map(|&wait| {
        rows(results, test, placement, pairs)
            .find(|row| row.family == Family::Ours && row.record.wait == wait)
    })
}

fn fastest(results: &Results, test: &str, placement: Placement) -> Option<f64> {
    rows(results, test, placement, 1)
        .filter(|row| row.family == Family::Kernel)
        .map(Row::trip_ns)
        .min_by(f64::total_cmp)
}
