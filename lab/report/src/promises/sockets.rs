//! The promises about com-sockets: S1 of requests and connections, S2 of throughput. S3 is about
//! the preload library.

use std::ops::RangeInclusive;

use super::promise::Bound::{AtLeast, AtMost, Stated};
use super::promise::{Promise, Unit};
use crate::names::SOCK_FIRST;
use crate::results::{Results, Row};
use crate::schema::Placement;

/// Size of the request that compares with a message of IPC2, in bytes.
pub(super) const REQUEST_BYTES: usize = 48;
/// Sizes of the messages of S2, in bytes.
pub(super) const MIDDLE_BYTES: RangeInclusive<usize> = 1 << 10..=64 << 10;
const LARGE_BYTES: usize = 512 << 10;

/// The promises.
pub const PROMISES: [Promise; 15] = [
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
    Promise::ratio("S3", "ring share under libm3sock in epoll, 1,000 TCP", AtLeast(0.99), |r| {
        ring_share(r, 1_000)
    })
    .unit(Unit::Share)
    .missing(|r| left_out(r, "shim-tcp")),
    Promise::ratio("S3", "ring share under libm3sock in epoll, 10,000 TCP", AtLeast(0.99), |r| {
        ring_share(r, 10_000)
    })
    .unit(Unit::Share)
    .missing(|r| left_out(r, "shim-tcp").or_else(|| left_out(r, "n 10000:"))),
    Promise::ratio("S3", "rate of iperf3 under libm3sock / native, bulk", AtLeast(1.0), |r| {
        let of = |name| rows(r, "sock-bulk", name).next().map(Row::ns);
        Some(of("iperf3")? / of("shim-iperf3")?)
    })
    .stretch(1.5)
    .missing(|r| left_out(r, "iperf3")),
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

/// The share of the bytes that went through rings, over so many connections.
fn ring_share(results: &Results, count: u32) -> Option<f64> {
    rows(results, "sock-epoll", "shim-tcp").find(|row| row.record.pairs == count)?.ring_share
}

/// The reason for a measurement that was left out: the note that has this word.
fn left_out(results: &Results, word: &str) -> Option<String> {
    results.skipped.iter().find(|note| note.contains(word)).cloned()
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
    use super::super::promise::Verdict;
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

    /// The promises about the preload library.
    fn shim(results: &Results) -> Vec<(Verdict, String)> {
        let judge = |promise: &Promise| {
            let judged = promise.judge(results);
            (judged.verdict, judged.text())
        };
        PROMISES.iter().filter(|promise| promise.id == "S3").map(judge).collect()
    }

    #[test]
    fn rings_hold_almost_all_bytes_and_a_bulk_stream_is_not_slower() {
        let ours = |test: &str, name: &str, pairs, share, ns: u64| {
            let mut row = row(test, name, Family::Ours, Placement::TwoCpus, Wait::Block, ns);
            (row.record.pairs, row.record.per_s, row.ring_share) = (pairs, 1e9 / ns as f64, share);
            row
        };
        let rows = vec![
            ours("sock-epoll", "shim-tcp", 64, Some(0.5), 900),
            ours("sock-epoll", "shim-tcp", 1_000, Some(0.999), 900),
            ours("sock-epoll", "shim-tcp", 10_000, Some(0.98), 900),
            ours("sock-bulk", "shim-iperf3", 1, Some(1.0), 100),
            ours("sock-bulk", "iperf3", 1, None, 120),
        ];
        let verdicts: Vec<Verdict> =
            shim(&Results { rows, ..Results::default() }).iter().map(|it| it.0).collect();
        assert_eq!(verdicts, [Verdict::Holds, Verdict::FallsShort, Verdict::Holds]);
    }

    #[test]
    fn a_missing_program_is_the_reason_of_a_missing_figure() {
        let skipped = vec![
            "shim-unix, shim-tcp, shim-iperf3: no library".into(),
            "sock-epoll n 10000: too few files".into(),
        ];
        let found = shim(&Results { skipped, ..Results::default() });
        let wanted = "not measured here: shim-unix, shim-tcp, shim-iperf3: no library";
        assert!(found.iter().all(|it| *it == (Verdict::NotMeasured, wanted.into())), "{found:?}");
        assert!(shim(&Results::default()).iter().all(|it| it.1 == "not measured"));
        let skipped = vec!["sock-epoll n 10000: too few files".into()];
        let found = shim(&Results { skipped, ..Results::default() });
        assert_eq!(found[1].1, "not measured here: sock-epoll n 10000: too few files");
    }
}
