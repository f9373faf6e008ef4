//! The promises about messages, deaths and costs: P1 to P7 and P12 to P15.
//!
//! Equal wait modes compare: a spinning side with a spinning floor. Against a kernel mechanism,
//! which blocks, m3ipc waits as its users do by default.

use super::promise::Bound::{AtLeast, AtMost};
use super::promise::{Promise, Unit};
use crate::names::{BIND, HEAVY_DEATH};
use crate::results::{Results, Row};
use crate::schema::{Family, Placement, Wait};

/// Wait modes of m3ipc in the order of preference: as a user's default, and with both sides awake.
const DEFAULT: [Wait; 2] = [Wait::Adaptive, Wait::Block];
const AWAKE: [Wait; 2] = [Wait::Spin, Wait::Adaptive];

/// The promises.
pub const PROMISES: [Promise; 19] = [
    Promise::ratio("P1", "IPC2, two CPUs, spin, / bounce", AtMost(1.5), |r| to_bounce(r, "ipc2"))
        .stretch(1.2),
    Promise::ratio("P2", "best of the kernel / IPC2, two CPUs, awake", AtLeast(25.0), two_cpus)
        .stretch(40.0),
    Promise::ratio("P3", "IPC2, one CPU, / best of the kernel", AtMost(0.95), same_cpu)
        .stretch(0.7),
    Promise::ratio("P4", "IPC2 to a sleeping server / bare futex wake", AtMost(1.15), asleep)
        .stretch(1.0),
    Promise::ratio("P5", "IPC1, two CPUs, spin, / bounce", AtMost(1.8), |r| to_bounce(r, "ipc1"))
        .stretch(1.3),
    Promise::ratio("P5", "IPC3, two CPUs, spin, / bounce", AtMost(1.6), |r| to_bounce(r, "ipc3"))
        .stretch(1.3),
    Promise::ratio("P6", "messages/s, pairs that fit the CPUs / kernel", AtLeast(10.0), |r| {
        pairs(r, true)
    })
    .stretch(25.0),
    Promise::ratio("P6", "messages/s, more pairs than that / kernel", AtLeast(1.25), |r| {
        pairs(r, false)
    })
    .stretch(1.6),
    Promise::ratio("P7", "IPC2 among the most clients / with 1", AtMost(1.5), clients).stretch(1.1),
    Promise::ratio("P12", "kill -9 to the client's error, p99", AtMost(1e6), |r| death(r, "death"))
        .stretch(1e5)
        .unit(Unit::Ns),
    Promise::ratio("P12", "the same, a server with 256 MB of its own", AtMost(1e6), |r| {
        death(r, HEAVY_DEATH)
    })
    .stretch(1e5)
    .unit(Unit::Ns),
    Promise::ratio("P13", "first contact", AtMost(300e3), |r| median_of(r, "contact"))
        .stretch(100e3)
        .unit(Unit::Ns),
    Promise::ratio("P13", "bind", AtMost(200e3), |r| median_of(r, BIND))
        .stretch(100e3)
        .unit(Unit::Ns),
    Promise::ratio("P14", "instructions per IPC2, both sides", AtMost(700.0), |r| {
        r.count("instructions", "per trip")
    })
    .stretch(400.0)
    .unit(Unit::Instructions),
    Promise::ratio("P15", "memory of a link", AtMost(4096.0), |r| r.count("memory", "link"))
        .unit(Unit::Bytes),
    Promise::ratio("P15", "memory of an endpoint", AtMost(16384.0), |r| {
        r.count("memory", "endpoint")
    })
    .unit(Unit::Bytes),
    Promise::ratio("P15", "memory of the daemon with 10,000 links", AtMost(16_777_216.0), |r| {
        r.count("memory", "daemon")
    })
    .unit(Unit::Bytes),
    Promise::ratio("P15", "links that the daemon had", AtLeast(10_000.0), |r| {
        r.count("memory", "daemon links")
    }),
    Promise::ratio("P15", "idle CPU of a sleeping endpoint", AtMost(0.0), |r| {
        r.count("memory", "idle cpu")
    })
    .unit(Unit::Ppm),
];

/// The spinning m3ipc against the bounce of the same test.
fn to_bounce(results: &Results, test: &str) -> Option<f64> {
    let ours = ours(results, test, Placement::TwoCpus, 1, &AWAKE[..1])?;
    let bounce = named(results, test, "bounce")?;
    Some(ours.trip_ns() / bounce.trip_ns())
}

fn two_cpus(results: &Results) -> Option<f64> {
    let ours = ours(results, "ipc2", Placement::TwoCpus, 1, &AWAKE)?;
    Some(fastest(results, "ipc2", Placement::TwoCpus)? / ours.trip_ns())
}

fn same_cpu(results: &Results) -> Option<f64> {
    let ours = ours(results, "ipc2", Placement::SameCpu, 1, &DEFAULT)?;
    Some(ours.trip_ns() / fastest(results, "ipc2", Placement::SameCpu)?)
}

fn asleep(results: &Results) -> Option<f64> {
    let ours = ours(results, "ipc2-paced", Placement::TwoCpus, 1, &DEFAULT)?;
    Some(ours.trip_ns() / named(results, "ipc2-paced", "futex-wake")?.trip_ns())
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

/// The worst time among many clients against one client, in the same wait mode.
fn clients(results: &Results) -> Option<f64> {
    let ours = || results.of_test("clients").filter(|row| row.family == Family::Ours);
    let alone = ours().find(|row| row.record.pairs == 1)?;
    ours()
        .filter(|row| row.record.pairs > 1 && row.record.wait == alone.record.wait)
        .map(|row| row.trip_ns() / alone.trip_ns())
        .max_by(f64::total_cmp)
}

/// The worst 99th percentile from kill -9 to the error, over the wait modes of m3ipc.
fn death(results: &Results, test: &str) -> Option<f64> {
    let ours = results.of_test(test).filter(|row| row.family == Family::Ours);
    ours.map(|row| row.record.p99_ns as f64).max_by(f64::total_cmp)
}

fn median_of(results: &Results, test: &str) -> Option<f64> {
    let ours = results.of_test(test).find(|row| row.family == Family::Ours)?;
    Some(ours.record.p50_ns as f64)
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

fn named<'a>(results: &'a Results, test: &'a str, mechanism: &str) -> Option<&'a Row> {
    rows(results, test, Placement::TwoCpus, 1).find(|row| row.record.mechanism == mechanism)
}

fn fastest(results: &Results, test: &str, placement: Placement) -> Option<f64> {
    let kernel = rows(results, test, placement, 1).filter(|row| row.family == Family::Kernel);
    kernel.map(Row::trip_ns).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, all, text};
    use super::*;
    use crate::fixture::row;
    use crate::schema::Count;

    fn two(test: &str, mechanism: &str, family: Family, wait: Wait, p50_ns: u64) -> Row {
        row(test, mechanism, family, Placement::TwoCpus, wait, p50_ns)
    }

    fn of(rows: Vec<Row>) -> Results {
        Results { rows, ..Results::default() }
    }

    fn judged(results: &Results, number: usize) -> (Option<f64>, Verdict) {
        PROMISES[number].judge(results)
    }

    #[test]
    fn without_results_nothing_is_measured_and_nothing_falls_short() {
        let results = Results::default();
        assert!(PROMISES.iter().all(|it| it.judge(&results) == (None, Verdict::NotMeasured)));
        let (text, short) = text(&results);
        assert_eq!(short, 0);
        assert_eq!(text.matches("not measured").count(), all().len());
    }

    #[test]
    fn a_ratio_to_the_bounce_is_of_spin_with_spin() {
        let bounce = two("ipc2", "bounce", Family::Floor, Wait::Spin, 100);
        let with =
            |wait, ns| of(vec![two("ipc2", "m3ipc", Family::Ours, wait, ns), bounce.clone()]);
        assert_eq!(judged(&with(Wait::Spin, 110), 0), (Some(1.1), Verdict::Stretch));
        assert_eq!(judged(&with(Wait::Spin, 140), 0), (Some(1.4), Verdict::Holds));
        assert_eq!(judged(&with(Wait::Spin, 151), 0), (Some(1.51), Verdict::FallsShort));
        assert_eq!(judged(&with(Wait::Block, 110), 0), (None, Verdict::NotMeasured));
    }

    #[test]
    fn below_a_microsecond_the_blocks_decide() {
        let mut ours = two("ipc2", "m3ipc", Family::Ours, Wait::Spin, 200);
        ours.block_ns = Some(120.0);
        let bounce = two("ipc2", "bounce", Family::Floor, Wait::Spin, 100);
        assert_eq!(judged(&of(vec![ours, bounce]), 0), (Some(1.2), Verdict::Stretch));
    }

    #[test]
    fn the_best_mechanism_stands_for_the_kernel() {
        let results = of(vec![
            two("ipc2", "m3ipc", Family::Ours, Wait::Spin, 1_000),
            two("ipc2", "pipe", Family::Kernel, Wait::Block, 26_000),
            two("ipc2", "tcp", Family::Kernel, Wait::Block, 60_000),
            two("ipc2", "bounce", Family::Floor, Wait::Spin, 1_000),
        ]);
        assert_eq!(judged(&results, 1), (Some(26.0), Verdict::Holds));
    }

    #[test]
    fn pairs_are_judged_by_their_worst_number_and_by_their_fit() {
        let pair = |mechanism, family, pairs, per_s| {
            let mut row = row("pairs", mechanism, family, Placement::Any, Wait::Adaptive, 1_000);
            (row.record.pairs, row.record.per_s) = (pairs, per_s);
            row
        };
        let rows = vec![
            pair("m3ipc", Family::Ours, 1, 3_000.0),
            pair("pipe", Family::Kernel, 1, 100.0),
            pair("m3ipc", Family::Ours, 2, 150.0),
            pair("pipe", Family::Kernel, 2, 100.0),
            pair("m3ipc", Family::Ours, 4, 120.0),
            pair("pipe", Family::Kernel, 4, 100.0),
        ];
        let results = Results { rows, cpus: 2, ..Results::default() };
        assert_eq!(pairs(&results, true), Some(30.0));
        assert_eq!(pairs(&results, false), Some(1.2));
        let (text, short) = text(&results);
        assert_eq!(short, 1);
        assert!(text.contains("FALLS SHORT") && text.contains("1 fall short"), "{text}");
    }

    #[test]
    fn many_clients_compare_with_one_in_the_same_mode() {
        let client = |wait, pairs, ns| {
            let mut row = two("clients", "m3ipc", Family::Ours, wait, ns);
            row.record.pairs = pairs;
            row
        };
        let results = of(vec![
            client(Wait::Spin, 1, 1_000),
            client(Wait::Block, 1, 9_000),
            client(Wait::Spin, 1_000, 1_200),
            client(Wait::Block, 1_000, 30_000),
        ]);
        assert_eq!(clients(&results), Some(1.2));
    }

    #[test]
    fn counts_are_bounded() {
        let count = |test: &str, what: &str, value| Count {
            test: test.into(),
            mechanism: "m3ipc".into(),
            what: what.into(),
            value,
            unit: String::new(),
        };
        let counts = vec![count("instructions", "per trip", 420.0), count("memory", "link", 8e3)];
        let results = Results { counts, ..Results::default() };
        let of = |what: &str| {
            PROMISES.iter().find(|it| it.what.contains(what)).map(|it| it.judge(&results))
        };
        assert_eq!(of("instructions"), Some((Some(420.0), Verdict::Holds)));
        assert_eq!(of("memory of a link"), Some((Some(8e3), Verdict::FallsShort)));
    }
}
