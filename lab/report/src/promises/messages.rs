//! The promises about messages: P1 to P7.
//!
//! Equal wait modes compare: a spinning side with a spinning floor. Against a kernel mechanism,
//! which blocks, m3ipc waits as its users do by default.

use super::promise::Bound::{AtLeast, AtMost};
use super::promise::Promise;
use crate::host::HostKind;
use crate::names::{BOUNCE, C_CALLS, SKETCH};
use crate::results::{Results, Row};
use crate::schema::{Family, Placement, Wait};

/// Wait modes of m3ipc in the order of preference: as a user's default, and with both sides awake.
const DEFAULT: [Wait; 2] = [Wait::Adaptive, Wait::Block];
const AWAKE: [Wait; 2] = [Wait::Spin, Wait::Adaptive];

/// The promises.
pub const PROMISES: [Promise; 15] = [
    Promise::ratio("P1", "(a) IPC2, two cores, spin, / bounce", AtMost(1.2), |r| {
        to_floor(r, "ipc2", BOUNCE)
    })
    .stretch(1.1)
    .unless(no_two_cores),
    Promise::ratio("P1", "(b) IPC2, two CPUs, spin, / sketch", AtMost(2.0), |r| {
        to_floor(r, "ipc2", SKETCH)
    })
    .stretch(1.3)
    .unless(|r| changing(r, "ipc2")),
    Promise::ratio("P1", "(c) IPC2 in C / in Rust, two CPUs, spin", AtMost(1.1), c_to_rust)
        .stretch(1.0)
        .unless(|r| changing(r, "ipc2")),
    Promise::ratio("P2", "best of the kernel / IPC2, two CPUs, awake", AtLeast(25.0), two_cpus)
        .stretch(40.0),
    Promise::ratio("P3", "(a) IPC2, one CPU, adaptive, / sched_yield", AtMost(1.2), |r| {
        on_one_cpu(r, Wait::Adaptive, "sched-yield")
    })
    .stretch(1.1),
    Promise::ratio("P3", "(b) IPC2, one CPU, block, / futex", AtMost(1.15), |r| {
        on_one_cpu(r, Wait::Block, "futex")
    })
    .stretch(1.0),
    Promise::ratio("P3", "(c) IPC2, one CPU, / best of the kernel", AtMost(0.95), same_cpu)
        .stretch(0.7),
    Promise::ratio("P4", "IPC2 to a sleeping server / bare futex wake", AtMost(1.1), asleep)
        .stretch(1.0),
    Promise::ratio("P5", "IPC1, two CPUs, spin, / bounce", AtMost(1.8), |r| {
        to_floor(r, "ipc1", BOUNCE)
    })
    .stretch(1.3)
    .unless(|r| changing(r, "ipc1")),
    Promise::ratio("P5", "IPC3, two CPUs, spin, / bounce", AtMost(1.6), |r| {
        to_floor(r, "ipc3", BOUNCE)
    })
    .stretch(1.3)
    .unless(|r| changing(r, "ipc3")),
    Promise::ratio("P6", "messages/s, pairs that fit the CPUs / kernel", AtLeast(10.0), |r| {
        pairs(r, true)
    })
    .stretch(25.0),
    Promise::ratio("P6", "messages/s, more pairs than that / kernel", AtLeast(1.25), |r| {
        pairs(r, false)
    })
    .stretch(1.6),
    Promise::ratio("P7", "time of IPC2 among many clients / with 1", AtMost(1.2), |r| {
        clients(r, Row::trip_ns)
    })
    .stretch(1.05),
    Promise::ratio("P7", "CPU time of IPC2 among many clients / with 1", AtMost(1.5), |r| {
        clients(r, |row| row.record.cpu_ns_per_op)
    }),
    Promise::ratio("P7", "1,000 clients at once, slowest / median client", AtMost(3.0), |r| {
        let wait = |client| r.count("fairness", client);
        Some(wait("wait of the slowest client")? / wait("wait of the median client")?)
    }),
];

/// The spinning m3ipc against a floor of the same test that spins, too.
fn to_floor(results: &Results, test: &str, floor: &str) -> Option<f64> {
    let ours = ours(results, test, Placement::TwoCpus, 1, &AWAKE[..1])?;
    let mut floors = rows(results, test, Placement::TwoCpus, 1);
    let floor =
        floors.find(|row| row.record.mechanism == floor && row.record.wait == Wait::Spin)?;
    Some(ours.trip_ns() / floor.trip_ns())
}

/// The spinning m3ipc by its C library against the same by its Rust API.
fn c_to_rust(results: &Results) -> Option<f64> {
    let rust = ours(results, "ipc2", Placement::TwoCpus, 1, &AWAKE[..1])?;
    let mut rows = rows(results, "ipc2", Placement::TwoCpus, 1);
    let is_c = |row: &&Row| row.record.mechanism == C_CALLS && row.record.wait == Wait::Spin;
    Some(rows.find(is_c)?.trip_ns() / rust.trip_ns())
}

/// Why nothing is judged that needs two cores.
fn no_two_cores(results: &Results) -> Option<String> {
    match HostKind::of(results, Some("ipc2")) {
        HostKind::OneCore => Some("the two CPUs are two threads of one core".into()),
        _ => changing(results, "ipc2"),
    }
}

/// Why nothing is judged that compares times of cache lines: the host moved its CPUs meanwhile.
fn changing(results: &Results, test: &str) -> Option<String> {
    let kind = HostKind::of(results, Some(test));
    (kind == HostKind::Changing).then(|| format!("the two CPUs were {kind}"))
}

fn two_cpus(results: &Results) -> Option<f64> {
    let ours = ours(results, "ipc2", Placement::TwoCpus, 1, &AWAKE)?;
    Some(fastest(results, "ipc2", Placement::TwoCpus)? / ours.trip_ns())
}

/// m3ipc in this wait mode against a floor of one CPU.
fn on_one_cpu(results: &Results, wait: Wait, floor: &str) -> Option<f64> {
    let ours = ours(results, "ipc2", Placement::SameCpu, 1, &[wait])?;
    let mut floors = rows(results, "ipc2", Placement::SameCpu, 1);
    Some(ours.trip_ns() / floors.find(|row| row.record.mechanism == floor)?.trip_ns())
}

fn same_cpu(results: &Results) -> Option<f64> {
    let ours = ours(results, "ipc2", Placement::SameCpu, 1, &DEFAULT)?;
    Some(ours.trip_ns() / fastest(results, "ipc2", Placement::SameCpu)?)
}

fn asleep(results: &Results) -> Option<f64> {
    let ours = ours(results, "ipc2-paced", Placement::TwoCpus, 1, &DEFAULT)?;
    let mut floors = rows(results, "ipc2-paced", Placement::TwoCpus, 1);
    Some(ours.trip_ns() / floors.find(|row| row.record.mechanism == "futex-wake")?.trip_ns())
}

/// The least ratio of messages per second to the best of the kernel.
///
/// Over the numbers of pairs for which each process has a CPU (`fit`), or over the others.
fn pairs(results: &Results, fit: bool) -> Option<f64> {
    let mut numbers: Vec<u32> = results.of_test("pairs").map(|row| row.record.pairs).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let fits = |pairs: u32| usize::try_from(2 * pairs).is_ok_and(|sides| sides <= results.cpus);
    let ratio = |pairs: u32| {
        let ours = ours(results, "pairs", Placement::Any, pairs, &DEFAULT)?;
        let kernel = rows(results, "pairs", Placement::Any, pairs)
            .filter(|row| row.family == Family::Kernel)
            .map(|row| row.record.per_s);
        Some(ours.record.per_s / kernel.max_by(f64::total_cmp)?)
    };
    numbers.into_iter().filter(|&pairs| fits(pairs) == fit).filter_map(ratio).min_by(f64::total_cmp)
}

/// The worst figure among many clients against one client, over the wait modes that have both.
fn clients(results: &Results, figure: impl Fn(&Row) -> f64) -> Option<f64> {
    let ours = || results.of_test("clients").filter(|row| row.family == Family::Ours);
    let ratio = |many: &Row| {
        let alone =
            ours().find(|row| row.record.pairs == 1 && row.record.wait == many.record.wait)?;
        Some(figure(many) / figure(alone))
    };
    ours().filter(|row| row.record.pairs > 1).filter_map(ratio).max_by(f64::total_cmp)
}

fn rows<'a>(
    results: &'a Results,
    test: &'a str,
    placement: Placement,
    pairs: u32,
) -> impl Iterator<Item = &'a Row> {
    let is = move |row: &&Row| row.record.placement == placement && row.record.pairs == pairs;
    results.of_test(test).filter(is)
}

/// m3ipc in the first of these wait modes that was measured.
fn ours<'a>(
    results: &'a Results,
    test: &'a str,
    placement: Placement,
    pairs: u32,
    waits: &[Wait],
) -> Option<&'a Row> {
    waits.iter().find_map(|&wait| {
        let mut rows = rows(results, test, placement, pairs);
        rows.find(|row| row.family == Family::Ours && row.record.wait == wait)
    })
}

fn fastest(results: &Results, test: &str, placement: Placement) -> Option<f64> {
    let kernel = rows(results, test, placement, 1).filter(|row| row.family == Family::Kernel);
    kernel.map(Row::trip_ns).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests;
