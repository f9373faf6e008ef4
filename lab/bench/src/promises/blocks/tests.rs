use super::*;
use crate::job::Wait;
use crate::mechanism::Family;
use crate::promises::Verdict;
use crate::record::Record;

fn row(test: &str, mechanism: &str, bytes: usize, p50_ns: u64) -> Row {
    let record = Record {
        test: test.into(),
        mechanism: mechanism.into(),
        placement: Placement::TwoCpus,
        wait: Wait::Block,
        bytes,
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
        family: Family::Kernel,
        spread_ns: (p50_ns, p50_ns),
        block_ns: None,
        switches_per_op: 0.0,
        bells_per_op: None,
        ring_share: None,
        rounds: vec![],
    }
}

fn judged(number: usize, rows: &[Row]) -> (Option<f64>, Verdict) {
    PROMISES[number].judge(&Results { rows: rows.to_vec(), ..Results::default() })
}

#[test]
fn the_worst_size_decides_and_its_slack_is_taken_off() {
    let rows = [
        row("copy1", "vcopy", 64, 2_300),
        row("copy1", "process-vm", 64, 2_000),
        row("copy1", "vcopy", 4_096, 10_800),
        row("copy1", "process-vm", 4_096, 10_000),
    ];
    assert_eq!(judged(0, &rows), (Some(1.05), Verdict::Holds));
    assert_eq!(judged(0, &rows[..2]), (Some(1.0), Verdict::Holds));
    let slow = [row("copy1", "vcopy", 64, 3_300), row("copy1", "process-vm", 64, 2_000)];
    assert_eq!(judged(0, &slow), (Some(1.5), Verdict::FallsShort));
}

#[test]
fn only_copies_of_the_same_size_and_test_are_compared() {
    let rows = [row("copy1", "vcopy", 64, 2_300), row("copy1", "process-vm", 4_096, 2_000)];
    assert_eq!(judged(0, &rows), (None, Verdict::NotMeasured));
    let rows = [row("copy1", "vcopy", 64, 2_300), row("stream", "process-vm", 64, 2_000)];
    assert_eq!(judged(0, &rows), (None, Verdict::NotMeasured));
}

#[test]
fn the_faster_of_pipe_and_socket_counts_from_512_bytes_on() {
    let rows = [
        row("copy1", "vcopy", 64, 5_000),
        row("copy1", "pipe", 64, 2_000),
        row("copy1", "vcopy", 512, 2_000),
        row("copy1", "pipe", 512, 6_000),
        row("copy1", "unix-stream", 512, 5_000),
    ];
    assert_eq!(judged(1, &rows), (Some(2.5), Verdict::Holds));
    assert_eq!(judged(1, &rows[..2]), (None, Verdict::NotMeasured));
}

#[test]
fn areas_are_compared_at_4_kb() {
    let rows = [
        row("copy1", "memcpy", 4_096, 95_000),
        row("copy1", "vcopy-areas", 4_096, 100_000),
        row("copy1", "memcpy", 64, 1),
    ];
    assert_eq!(judged(2, &rows), (Some(0.95), Verdict::Holds));
    assert_eq!(judged(2, &rows[1..]), (None, Verdict::NotMeasured));
}

#[test]
fn hand_over_is_flat_over_two_sizes_at_least() {
    let rows = [
        row("handover", "block", 4_096, 1_000),
        row("handover", "block", 1 << 30, 1_200),
        row("handover", "sendrec", 4_096, 500),
        row("handover", "sendrec", 1 << 30, 500),
    ];
    assert_eq!(judged(3, &rows), (Some(1.2), Verdict::FallsShort));
    assert_eq!(judged(3, &rows[..1]), (None, Verdict::NotMeasured));
    assert_eq!(judged(4, &rows), (Some(1.2), Verdict::Stated));
}

#[test]
fn an_attach_is_judged_by_what_each_page_adds() {
    let rows = [
        row("attach", "area", 4_096, 300_000),
        row("attach", "area", 101 * 4_096, 340_000),
        row("attach", "file-write", 4_096, 10_000),
        row("attach", "file-write", 101 * 4_096, 110_000),
    ];
    assert_eq!(judged(5, &rows), (Some(0.4), Verdict::Holds));
    assert_eq!(judged(5, &rows[..3]), (None, Verdict::NotMeasured));
    assert_eq!(judged(6, &rows), (None, Verdict::NotMeasured));
}
