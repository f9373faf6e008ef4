//! The promises about blocks of data: P8 to P11.
//!
//! Copies compare at each measured size; the worst size gives the figure.

use std::ops::RangeInclusive;

use super::promise::Bound::{AtLeast, AtMost, Stated};
use super::promise::Promise;
use crate::PAGE_BYTES;
use crate::results::{Results, Row};
use crate::schema::Placement;

/// Allowance of vcopy beyond the bare system call, in nanoseconds.
const SLACK_NS: f64 = 300.0;
/// Size of the block of P9.
pub(super) const AREA_COPY_BYTES: usize = 4096;
/// Sizes of an attach whose difference gives the time per page: less than a huge page, and more.
pub(super) const ATTACH_BYTES: RangeInclusive<usize> = 1 << 20..=64 << 20;
/// From this size on vcopy is faster than mechanisms that copy twice.
const FASTER_BYTES: usize = 512;

/// The promises.
pub const PROMISES: [Promise; 7] = [
    Promise::ratio(
        "P8",
        "vcopy less 0.3 us / process_vm_writev, worst size",
        AtMost(1.1),
        |results| {
            let less = |ours: f64, bare: f64| (ours - SLACK_NS) / bare;
            of_sizes(results, 0, "process-vm", less).max_by(f64::total_cmp)
        },
    ),
    Promise::ratio(
        "P8",
        "pipe, Unix stream / vcopy, awaited, 512 B on, worst",
        AtLeast(1.0),
        |results| {
            let to = |name| of_sizes(results, FASTER_BYTES, name, |ours, other| other / ours);
            to("pipe").chain(to("unix-stream")).min_by(f64::total_cmp)
        },
    ),
    Promise::ratio("P9", "rate of vcopy between areas, 4 KB, / memcpy", AtLeast(0.8), |results| {
        let of = |name| {
            let mut rows = named(results, "copy1", name);
            rows.find(|row| row.record.bytes == AREA_COPY_BYTES).map(Row::ns)
        };
        Some(of("memcpy")? / of("vcopy-areas")?)
    })
    .stretch(0.97),
    Promise::ratio(
        "P10",
        "hand-over there and back, slowest / fastest size",
        AtMost(1.1),
        flatness,
    ),
    Promise::ratio(
        "P10",
        "hand-over one way / IPC2 round trip, worst size",
        Stated,
        hand_over_to_trip,
    )
    .stretch(1.0),
    Promise::ratio("P11", "attach per 4 KB / file pages, to read and write", AtMost(0.47), |r| {
        attach(r, "file-write")
    })
    .stretch(0.1),
    Promise::ratio("P11", "attach per 4 KB / file pages, to read only", Stated, |r| {
        attach(r, "file-populate")
    }),
];

fn named<'a>(results: &'a Results, test: &'a str, name: &'a str) -> impl Iterator<Item = &'a Row> {
    results.of_test(test).filter(move |row| row.record.mechanism == name)
}

/// The slowest size against the fastest, of at least two.
fn flatness(results: &Results) -> Option<f64> {
    let times = || named(results, "handover", "block").map(Row::trip_ns);
    if times().count() < 2 {
        return None;
    }
    Some(times().max_by(f64::total_cmp)? / times().min_by(f64::total_cmp)?)
}

/// Half of a trip with a block against the empty trip of the same group.
fn hand_over_to_trip(results: &Results) -> Option<f64> {
    let ratio = |block: &Row| {
        let beside = |row: &&Row| row.record.bytes == block.record.bytes;
        let trip = named(results, "handover", "sendrec").find(beside)?;
        Some(block.trip_ns() / 2.0 / trip.trip_ns())
    };
    named(results, "handover", "block").filter_map(ratio).max_by(f64::total_cmp)
}

/// Time per 4 KB of an area against that of a file, as AnT's paper measures attach.
fn attach(results: &Results, file: &str) -> Option<f64> {
    Some(per_page(results, "area")? / per_page(results, file)?)
}

/// Time per page between the least and the greatest size of [`ATTACH_BYTES`], in nanoseconds.
fn per_page(results: &Results, name: &str) -> Option<f64> {
    let rows = || {
        let attaches = named(results, "attach", name);
        attaches.filter(|row| ATTACH_BYTES.contains(&row.record.bytes))
    };
    let least = rows().min_by_key(|row| row.record.bytes)?;
    let most = rows().max_by_key(|row| row.record.bytes)?;
    let pages = (most.record.bytes - least.record.bytes) / PAGE_BYTES;
    (pages > 0).then(|| (most.trip_ns() - least.trip_ns()) / pages as f64)
}

/// Compares vcopy with another mechanism at each size that both were measured with.
fn of_sizes<'a>(
    results: &'a Results,
    least: usize,
    other: &'a str,
    compare: impl Fn(f64, f64) -> f64 + 'a,
) -> impl Iterator<Item = f64> + 'a {
    let rows = move |name: &'a str| {
        named(results, "copy1", name).filter(move |row| {
            let here = [Placement::TwoCpus, Placement::Any].contains(&row.record.placement);
            here && row.record.bytes >= least
        })
    };
    rows("vcopy").filter_map(move |ours| {
        let other = rows(other).find(|row| row.record.bytes == ours.record.bytes)?;
        Some(compare(ours.ns(), other.ns()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::promise::Verdict;
    use super::*;
    use crate::fixture;
    use crate::schema::{Family, Wait};

    fn row(test: &str, mechanism: &str, bytes: usize, p50_ns: u64) -> Row {
        let (family, two) = (Family::Kernel, Placement::TwoCpus);
        let mut row = fixture::row(test, mechanism, family, two, Wait::Block, p50_ns);
        row.record.bytes = bytes;
        row
    }

    fn judged(number: usize, rows: &[Row]) -> (Option<f64>, Verdict) {
        let results = Results { rows: rows.to_vec(), ..Results::default() };
        let judged = PROMISES[number].judge(&results);
        (judged.figure, judged.verdict)
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
    fn only_copies_of_the_same_size_and_test_compare() {
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
    fn areas_compare_at_4_kb() {
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
    fn an_attach_is_judged_by_its_time_per_page() {
        let rows = [
            row("attach", "area", 4_096, 1),
            row("attach", "area", 1 << 20, 300_000),
            row("attach", "area", (1 << 20) + 100 * 4_096, 340_000),
            row("attach", "file-write", 1 << 20, 10_000),
            row("attach", "file-write", (1 << 20) + 100 * 4_096, 110_000),
        ];
        assert_eq!(judged(5, &rows), (Some(0.4), Verdict::Holds));
        assert_eq!(judged(5, &rows[..4]), (None, Verdict::NotMeasured));
        assert_eq!(judged(6, &rows), (None, Verdict::NotMeasured));
    }
}
