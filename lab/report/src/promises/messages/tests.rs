//! Tests of the promises about messages.

use super::super::{Verdict, all, text};
use super::*;
use crate::fixture::{rounds, row};
use crate::results::Results;

fn two(test: &str, mechanism: &str, family: Family, wait: Wait, p50_ns: u64) -> Row {
    row(test, mechanism, family, Placement::TwoCpus, wait, p50_ns)
}

fn of(rows: Vec<Row>) -> Results {
    Results { rows, ..Results::default() }
}

fn judged(results: &Results, number: usize) -> (Option<f64>, Verdict) {
    let judged = PROMISES[number].judge(results);
    (judged.figure, judged.verdict)
}

#[test]
fn without_results_nothing_is_measured_and_nothing_falls_short() {
    let results = Results::default();
    assert!(all().iter().all(|it| it.judge(&results).verdict == Verdict::NotMeasured));
    let (text, short) = text(&results);
    assert_eq!(short, 0);
    assert_eq!(text.matches("not measured").count(), all().len());
}

#[test]
fn a_ratio_to_the_bounce_is_of_spin_with_spin() {
    let bounce = two("ipc2", "bounce", Family::Floor, Wait::Spin, 400);
    let with = |wait, ns| of(vec![two("ipc2", "m3ipc", Family::Ours, wait, ns), bounce.clone()]);
    assert_eq!(judged(&with(Wait::Spin, 440), 0), (Some(1.1), Verdict::Stretch));
    assert_eq!(judged(&with(Wait::Spin, 480), 0), (Some(1.2), Verdict::Holds));
    assert_eq!(judged(&with(Wait::Spin, 484), 0), (Some(1.21), Verdict::FallsShort));
    assert_eq!(judged(&with(Wait::Block, 440), 0), (None, Verdict::NotMeasured));
}

#[test]
fn what_the_host_cannot_judge_has_a_figure_and_a_reason() {
    let on = |bounces: &[&[u64]]| {
        let ours = two("ipc2", "m3ipc", Family::Ours, Wait::Spin, 120);
        let sketch = two("ipc2", "sketch", Family::Floor, Wait::Spin, 80);
        let mut bounce = rounds("bounce", Family::Floor, bounces);
        bounce.record.wait = Wait::Spin;
        of(vec![ours, sketch, bounce])
    };
    let threads = on(&[&[60], &[60], &[60]]);
    assert_eq!(judged(&threads, 0), (Some(2.0), Verdict::NotJudged));
    assert_eq!(judged(&threads, 1), (Some(1.5), Verdict::Holds));
    let changing = on(&[&[60], &[400], &[70]]);
    assert_eq!(judged(&changing, 1), (Some(1.5), Verdict::NotJudged));
    let (text, short) = text(&changing);
    assert_eq!(short, 0);
    assert!(text.contains("not judged here: the two CPUs were now two cores"), "{text}");
}

#[test]
fn one_cpu_has_three_rows() {
    let one =
        |mechanism, family, wait, ns| row("ipc2", mechanism, family, Placement::SameCpu, wait, ns);
    let results = of(vec![
        one("m3ipc", Family::Ours, Wait::Adaptive, 3_300),
        one("m3ipc", Family::Ours, Wait::Block, 4_400),
        one("sched-yield", Family::Floor, Wait::Yield, 3_000),
        one("futex", Family::Floor, Wait::Block, 4_000),
        one("pipe", Family::Kernel, Wait::Block, 5_000),
    ]);
    assert_eq!(judged(&results, 4), (Some(1.1), Verdict::Stretch));
    assert_eq!(judged(&results, 5), (Some(1.1), Verdict::Holds));
    assert_eq!(judged(&results, 6), (Some(0.66), Verdict::Stretch));
}

#[test]
fn below_a_microsecond_the_blocks_decide() {
    let mut ours = two("ipc2", "m3ipc", Family::Ours, Wait::Spin, 500);
    ours.block_ns = Some(320.0);
    let bounce = two("ipc2", "bounce", Family::Floor, Wait::Spin, 320);
    assert_eq!(judged(&of(vec![ours, bounce]), 0), (Some(1.0), Verdict::Stretch));
}

#[test]
fn c_is_judged_beside_rust_and_never_stands_for_it() {
    let results = of(vec![
        two("ipc2", "m3ipc", Family::Ours, Wait::Spin, 1_000),
        two("ipc2", "m3ipc-c", Family::Ours, Wait::Spin, 1_080),
        two("ipc2", "bounce", Family::Floor, Wait::Spin, 1_000),
    ]);
    assert_eq!(judged(&results, 0), (Some(1.0), Verdict::Stretch));
    assert_eq!(judged(&results, 2), (Some(1.08), Verdict::Holds));
}

#[test]
fn the_best_mechanism_stands_for_the_kernel() {
    let results = of(vec![
        two("ipc2", "m3ipc", Family::Ours, Wait::Spin, 1_000),
        two("ipc2", "pipe", Family::Kernel, Wait::Block, 26_000),
        two("ipc2", "tcp", Family::Kernel, Wait::Block, 60_000),
        two("ipc2", "bounce", Family::Floor, Wait::Spin, 1_000),
    ]);
    assert_eq!(judged(&results, 3), (Some(26.0), Verdict::Holds));
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
        client(Wait::Block, 1_000, 9_900),
        client(Wait::Adaptive, 1_000, 99_000),
    ]);
    assert_eq!(clients(&results, Row::trip_ns), Some(1.2));
}
