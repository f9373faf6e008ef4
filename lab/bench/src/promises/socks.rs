//! The promises about com-sockets: S1 of requests and connections, S2 of throughput.

use super::{Bound, Promise, Unit};
use crate::copy::copy_ns;
use crate::job::Placement;
use crate::record::{Results, Row};

/// Size of the request that is compared with a message of IPC2, in bytes.
const REQUEST_BYTES: usize = 48;
/// Sizes of messages that S2 is about, in bytes.
const MIDDLE_BYTES: core::ops::RangeInclusive<usize> = 1 << 10..=64 << 10;
const LARGE_BYTES: usize = 512 << 10;

/// The rows.
pub const PROMISES: [Promise; 8] = [
    row("S1", "com-socket round trip / IPC2, 48 B, awake", Bound::AtMost(2.5), |results| {
        Some(
            ns(results, "sock-trip", "com-socket", REQUEST_BYTES)?
                / ns(results, "sock-trip", "ipc2", REQUEST_BYTES)?,
        )
    }),
    row("S1", "TCP / com-socket round trip, 48 B, awake", Bound::AtLeast(10.0), |results| {
        Some(
            ns(results, "sock-trip", "tcp", REQUEST_BYTES)?
                / ns(results, "sock-trip", "com-socket", REQUEST_BYTES)?,
        )
    }),
    row("S1", "connect of a com-socket / of a Unix stream", Bound::AtMost(2.0), |results| {
        Some(
            ns(results, "sock-connect", "com-socket", 1)?
                / ns(results, "sock-connect", "unix-stream", 1)?,
        )
    }),
    row("S1", "connect to first answer / of a Unix stream", Bound::Stated, |results| {
        Some(
            ns(results, "sock-first", "com-socket", 1)?
                / ns(results, "sock-first", "unix-stream", 1)?,
        )
    }),
    row(
        "S2",
        "rate of a com-socket / Unix stream, 1 to 64 KB, worst",
        Bound::AtLeast(2.0),
        |results| worst(results, "unix-stream"),
    ),
    row("S2", "rate of a com-socket / Unix stream, 512 KB", Bound::AtLeast(1.2), |results| {
        rate(results, "unix-stream", LARGE_BYTES)
    }),
    row("S2", "rate of a com-socket / memcpy, 1 to 64 KB, worst", Bound::Stated, |results| {
        worst(results, "memcpy")
    }),
    row("S2", "rate of a com-socket / memcpy, 512 KB", Bound::Stated, |results| {
        rate(results, "memcpy", LARGE_BYTES)
    }),
];

const fn row(
    id: &'static str,
    what: &'static str,
    bound: Bound,
    figure: fn(&Results) -> Option<f64>,
) -> Promise {
    Promise { id, what, bound, stretch: None, unit: Unit::Times, figure }
}

/// The rows of a test on two CPUs, and those within one process.
fn rows<'a>(results: &'a Results, test: &'a str, name: &'a str) -> impl Iterator<Item = &'a Row> {
    results.rows.iter().filter(move |row| {
        let record = &row.record;
        record.test == test && record.mechanism == name && record.placement != Placement::SameCpu
    })
}

fn ns(results: &Results, test: &str, name: &str, bytes: usize) -> Option<f64> {
    rows(results, test, name).find(|row| row.record.bytes == bytes).map(Row::trip_ns)
}

/// How many times another's rate that of a com-socket is, with messages of this size.
fn rate(results: &Results, other: &str, bytes: usize) -> Option<f64> {
    let of = |name| {
        rows(results, "sock-stream", name).find(|row| row.record.bytes == bytes).map(copy_ns)
    };
    Some(of(other)? / of("com-socket")?)
}

fn worst(results: &Results, other: &str) -> Option<f64> {
    rows(results, "sock-stream", "com-socket")
        .map(|row| row.record.bytes)
        .filter(|bytes| MIDDLE_BYTES.contains(bytes))
        .filter_map(|bytes| rate(results, other, bytes))
        .min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use crate::job::Wait;
    use crate::mechanism::Family;

    #[test]
    fn the_worst_of_the_sizes_that_are_promised_counts() {
        let stream = |name: &str, bytes, ns: u64| {
            let mut row =
                row("sock-stream", name, Family::Kernel, Placement::TwoCpus, Wait::Block, ns);
            row.record.bytes = bytes;
            row
        };
        let rows = [(64, 9, 1), (1 << 10, 10, 2), (64 << 10, 30, 10), (512 << 10, 110, 100)]
            .into_iter()
            .flat_map(|(bytes, unix, com)| {
                [
                    stream("unix-stream", bytes, unix * 1_000),
                    stream("com-socket", bytes, com * 1_000),
                ]
            })
            .collect();
        let results = Results { rows, ..Results::default() };
        let near =
            |figure: Option<f64>, wanted: f64| figure.is_some_and(|is| (is - wanted).abs() < 0.01);
        assert!(near(worst(&results, "unix-stream"), 3.0));
        assert!(near(rate(&results, "unix-stream", LARGE_BYTES), 1.1));
        assert_eq!(rate(&results, "memcpy", LARGE_BYTES), None);
    }
}
