//! The promises about com-sockets: S1 of requests and connections, S2 of throughput.

use std::ops::RangeInclusive;

use super::promise::Bound::{AtLeast, AtMost, Stated};
use super::promise::Promise;
use crate::names::SOCK_FIRST;
use crate::results::{Results, Row};
use crate::schema::Placement;

/// Size of the request that compares with a message of IPC2, in bytes.
pub(super) const REQUEST_BYTES: usize = 48;
/// Sizes of the messages of S2, in bytes.
pub(super) const MIDDLE_BYTES: RangeInclusive<usize> = 1 << 10..=64 << 10;
const LARGE_BYTES: usize = 512 << 10;

/// The promises.
pub const PROMISES: [Promise; 12] = [
    Promise::ratio("S1", "com-socket round trip / IPC2, 48 B, awake", AtMost(2.5), |r| {
        ratio(r, "sock-trip", ["com-socket", "ipc2"], REQUEST_BYTES)
    }),
    Promise::ratio("S1", "1 com-socket in a poller / IPC2, 48 B, awake", AtMost(3.0), |r| {
        polled(r, 1)
    }),
    Promise::ratio("S1", "64 com-sockets in a poller / IPC2, 48 B", AtMost(3.0), |r| polled(r, 64)),
    Promise::ratio("S1", "1,000 com-sockets in a poller / IPC2, 48 B", AtMost(3.0), |r| {
        polled(r, 1_000)
    }),
    Promise::ratio("S1", "10,000 com-sockets in a poller / IPC2, 48 B", AtMost(3.0), |r| {
        polled(r, 10_000)
    }),
    Promise::ratio("S1", "TCP / com-socket round trip, 48 B, awake", AtLeast(10.0), |r| {
        ratio(r, "sock-trip", ["tcp", "com-socket"], REQUEST_BYTES)
    }),
    Promise::ratio("S1", "connect of a com-socket / of a Unix stream", AtMost(2.0), |r| {
        ratio(r, "sock-connect", ["com-socket", "unix-stream"], 1)
    }),
    Promise::ratio("S1", "connect to first answer / of a Unix stream", Stated, |r| {
        ratio(r, SOCK_FIRST, ["com-socket", "unix-stream"], 1)
    }),
    Promise::ratio(
        "S2",
        "rate of a com-socket / Unix stream, 1 to 64 KB, worst",
        AtLeast(2.0),
        |results| worst(results, "unix-stream"),
    ),
    Promise::ratio("S2", "rate of a com-socket / Unix stream, 512 KB", AtLeast(1.2), |r| {
        rate(r, "unix-stream", LARGE_BYTES)
    }),
    Promise::ratio("S2", "rate of a com-socket / memcpy, 1 to 64 KB, worst", Stated, |r| {
        worst(r, "memcpy")
    }),
    Promise::ratio("S2", "rate of a com-socket / memcpy, 512 KB", Stated, |r| {
        rate(r, "memcpy", LARGE_BYTES)
    }),
];

/// The rows of a test on two CPUs, and the rows within one process.
fn rows<'a>(results: &'a Results, test: &'a str, name: &'a str) -> impl Iterator<Item = &'a Row> {
    results.of_test(test).filter(move |row| {
        row.record.mechanism == name && row.record.placement != Placement::SameCpu
    })
}

/// The time of the first mechanism against that of the second.
fn ratio(results: &Results, test: &str, names: [&str; 2], bytes: usize) -> Option<f64> {
    let of = |name| rows(results, test, name).find(|row| row.record.bytes == bytes).map(Row::ns);
    Some(of(names[0])? / of(names[1])?)
}

/// The time of a trip on one of several com-sockets whose server polls, against the floor of the
/// same test.
fn polled(results: &Results, count: u32) -> Option<f64> {
    let of = |name| {
        rows(results, "sock-epoll", name)
            .find(|row| row.record.bytes == REQUEST_BYTES && row.record.pairs == count)
            .map(Row::ns)
    };
    Some(of("com-socket")? / of("ipc2")?)
}

/// The rate of a com-socket against that of another mechanism.
fn rate(results: &Results, other: &str, bytes: usize) -> Option<f64> {
    ratio(results, "sock-stream", [other, "com-socket"], bytes)
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
    use super::*;
    use crate::fixture::row;
    use crate::schema::{Family, Wait};

    #[test]
    fn the_worst_of_the_promised_sizes_counts() {
        let stream = |name: &str, bytes, ns: u64| {
            let (family, two) = (Family::Kernel, Placement::TwoCpus);
            let mut row = row("sock-stream", name, family, two, Wait::Block, ns);
            row.record.bytes = bytes;
            row
        };
        let rows = [(64, 9, 1), (1 << 10, 10, 2), (64 << 10, 30, 10), (512 << 10, 110, 100)]
            .into_iter()
            .flat_map(|(bytes, unix, com)| {
                let ns = [("unix-stream", unix), ("com-socket", com)];
                ns.map(|(name, ns)| stream(name, bytes, ns * 1_000))
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
