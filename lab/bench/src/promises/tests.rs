use super::*;
use crate::job::{Placement, Wait};
use crate::mechanism::Family;
use crate::record::{Count, Record, Row};

pub fn row(
    test: &str,
    mechanism: &str,
    family: Family,
    placement: Placement,
    wait: Wait,
    p50_ns: u64,
) -> Row {
    let record = Record {
        test: test.into(),
        mechanism: mechanism.into(),
        placement,
        wait,
        bytes: 48,
        pairs: 1,
        p50_ns,
        p99_ns: 2 * p50_ns,
        p999_ns: 3 * p50_ns,
        max_ns: 4 * p50_ns,
        per_s: 1e9 / p50_ns as f64,
        cpu_ns_per_op: 1.0,
        rounds: 7,
    };
    Row {
        record,
        family,
        spread_ns: (p50_ns, p50_ns),
        block_ns: None,
        switches_per_op: 0.0,
        bells_per_op: None,
        ring_share: None,
        rounds: vec![],
    }
}

fn two_cpus(test: &str, mechanism: &str, family: Family, wait: Wait, p50_ns: u64) -> Row {
    row(test, mechanism, family, Placement::TwoCpus, wait, p50_ns)
}

fn judged(results: &Results, number: usize) -> (Option<f64>, Verdict) {
    PROMISES[number].judge(results)
}

#[test]
fn without_results_nothing_is_measured_and_nothing_falls_short() {
    let results = Results::default();
    assert!(PROMISES.iter().all(|promise| promise.judge(&results) == (None, Verdict::NotMeasured)));
    let (text, short) = print(&results);
    assert_eq!(short, 0);
    assert_eq!(text.matches("not measured").count(), all().len());
}

#[test]
fn a_ratio_to_the_bounce_is_of_spin_with_spin() {
    let ours = |wait, ns| two_cpus("ipc2", "m3ipc", Family::Ours, wait, ns);
    let bounce = two_cpus("ipc2", "bounce", Family::Floor, Wait::Spin, 100);
    let with =
        |wait, ns| Results { rows: vec![ours(wait, ns), bounce.clone()], ..Results::default() };
    assert_eq!(judged(&with(Wait::Spin, 110), 0), (Some(1.1), Verdict::Stretch));
    assert_eq!(judged(&with(Wait::Spin, 140), 0), (Some(1.4), Verdict::Holds));
    assert_eq!(judged(&with(Wait::Spin, 151), 0), (Some(1.51), Verdict::FallsShort));
    assert_eq!(judged(&with(Wait::Block, 110), 0), (None, Verdict::NotMeasured));
}

#[test]
fn below_a_microsecond_the_blocks_decide() {
    let mut ours = two_cpus("ipc2", "m3ipc", Family::Ours, Wait::Spin, 200);
    ours.block_ns = Some(120.0);
    let bounce = two_cpus("ipc2", "bounce", Family::Floor, Wait::Spin, 100);
    let results = Results { rows: vec![ours, bounce], ..Results::default() };
    assert_eq!(judged(&results, 0), (Some(1.2), Verdict::Stretch));
}

#[test]
fn the_kernel_is_represented_by_its_best() {
    let results = Results {
        rows: vec![
            two_cpus("ipc2", "m3ipc", Family::Ours, Wait::Spin, 1_000),
            two_cpus("ipc2", "pipe", Family::Kernel, Wait::Block, 26_000),
            two_cpus("ipc2", "tcp", Family::Kernel, Wait::Block, 60_000),
            two_cpus("ipc2", "bounce", Family::Floor, Wait::Spin, 1_000),
        ],
        ..Results::default()
    };
    assert_eq!(judged(&results, 1), (Some(26.0), Verdict::Holds));
}

#[test]
fn pairs_are_judged_by_their_worst_number_and_by_whether_they_fit() {
    let pair = |mechanism, family, pairs, per_s| {
        let mut row = row("pairs", mechanism, family, Placement::Any, Wait::Adaptive, 1_000);
        (row.record.pairs, row.record.per_s) = (pairs, per_s);
        row
    };
    let results = Results {
        rows: vec![
            pair("m3ipc", Family::Ours, 1, 3_000.0),
            pair("pipe", Family::Kernel, 1, 100.0),
            pair("m3ipc", Family::Ours, 2, 150.0),
            pair("pipe", Family::Kernel, 2, 100.0),
            pair("m3ipc", Family::Ours, 4, 120.0),
            pair("pipe", Family::Kernel, 4, 100.0),
        ],
        cpus: 2,
        ..Results::default()
    };
    assert_eq!(figures::pairs(&results, true), Some(30.0));
    assert_eq!(figures::pairs(&results, false), Some(1.2));
    let (text, short) = print(&results);
    assert_eq!(short, 1);
    assert!(text.contains("FALLS SHORT") && text.contains("1 fall short"), "{text}");
}

#[test]
fn many_clients_are_compared_with_one_in_the_same_mode() {
    let client = |wait, pairs, ns| {
        let mut row = two_cpus("clients", "m3ipc", Family::Ours, wait, ns);
        row.record.pairs = pairs;
        row
    };
    let rows = vec![
        client(Wait::Spin, 1, 1_000),
        client(Wait::Block, 1, 9_000),
        client(Wait::Spin, 1_000, 1_200),
        client(Wait::Block, 1_000, 30_000),
    ];
    let results = Results { rows, ..Results::default() };
    assert_eq!(figures::clients(&results), Some(1.2));
}

#[test]
fn counts_are_stated_or_bounded() {
    let count = |test: &str, what: &str, value| Count {
        test: test.into(),
        mechanism: "m3ipc".into(),
        what: what.into(),
        value,
        unit: String::new(),
    };
    let results = Results {
        counts: vec![count("instructions", "per trip", 420.0), count("memory", "link", 8_192.0)],
        ..Results::default()
    };
    let of = |what: &str| {
        PROMISES.iter().find(|promise| promise.what.contains(what)).map(|p| p.judge(&results))
    };
    assert_eq!(of("instructions"), Some((Some(420.0), Verdict::Stated)));
    assert_eq!(of("memory of a link"), Some((Some(8_192.0), Verdict::FallsShort)));
}
