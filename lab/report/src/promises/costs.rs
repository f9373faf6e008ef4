//! The promises about deaths, contacts and what an endpoint costs: P12 to P15.

use super::promise::Bound::{AtLeast, AtMost, Stated};
use super::promise::{Promise, Unit};
use crate::names::{BIND, HEAVY_DEATH};
use crate::results::{Results, Row};
use crate::schema::{Family, Wait};

/// The promises.
pub const PROMISES: [Promise; 13] = [
    Promise::ratio("P12", "kill -9 to the client's error / Unix, median", AtMost(0.8), |r| {
        to_end_of_file(r, "death", |row| row.record.p50_ns)
    })
    .stretch(0.5),
    Promise::ratio("P12", "kill -9 to the client's error / Unix, p99", AtMost(1.0), |r| {
        to_end_of_file(r, "death", |row| row.record.p99_ns)
    }),
    Promise::ratio("P12", "kill -9 to the client's error, p99", Stated, |r| {
        death(r, "death", |row| row.record.p99_ns)
    })
    .stretch(1e5)
    .unit(Unit::Ns),
    Promise::ratio("P12", "a server with 256 MB of its own / Unix, median", Stated, |r| {
        to_end_of_file(r, HEAVY_DEATH, |row| row.record.p50_ns)
    }),
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
    Promise::ratio("P14", "instructions per IPC2, in C / in Rust", AtMost(1.1), |r| {
        Some(r.count("instructions", "per trip in C")? / r.count("instructions", "per trip")?)
    })
    .missing(|r| r.skipped.iter().find(|note| note.starts_with("instructions")).cloned()),
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
    })
    .unit(Unit::Number),
    Promise::ratio("P15", "idle CPU of a sleeping endpoint", AtMost(0.0), |r| {
        r.count("memory", "idle cpu")
    })
    .unit(Unit::Ppm),
];

/// The worst time from kill -9 to the error, over the wait modes of m3ipc that sleep.
///
/// A kernel's mechanism sleeps, too. A client that spins keeps one CPU of those that the end of the
/// server needs.
fn death(results: &Results, test: &str, figure: impl Fn(&Row) -> u64) -> Option<f64> {
    let sleeping = |row: &&Row| row.family == Family::Ours && row.record.wait != Wait::Spin;
    let ours = results.of_test(test).filter(sleeping);
    ours.map(|row| figure(row) as f64).max_by(f64::total_cmp)
}

/// The same against the end of file of a Unix stream.
fn to_end_of_file(results: &Results, test: &str, figure: impl Fn(&Row) -> u64) -> Option<f64> {
    let stream = results.of_test(test).find(|row| row.record.mechanism == "unix-stream")?;
    Some(death(results, test, &figure)? / figure(stream) as f64)
}

fn median_of(results: &Results, test: &str) -> Option<f64> {
    let ours = results.of_test(test).find(|row| row.family == Family::Ours)?;
    Some(ours.record.p50_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::fixture::row;
    use crate::schema::{Count, Placement};

    #[test]
    fn a_death_compares_with_the_end_of_file_by_the_worst_mode_that_sleeps() {
        let death = |mechanism, family, wait, ns| {
            row("death", mechanism, family, Placement::TwoCpus, wait, ns)
        };
        let rows = vec![
            death("m3ipc", Family::Ours, Wait::Spin, 900_000),
            death("m3ipc", Family::Ours, Wait::Adaptive, 280_000),
            death("m3ipc", Family::Ours, Wait::Block, 200_000),
            death("unix-stream", Family::Kernel, Wait::Block, 400_000),
        ];
        let results = Results { rows, ..Results::default() };
        let judged = |number: usize| PROMISES[number].judge(&results);
        assert_eq!((judged(0).figure, judged(0).verdict), (Some(0.7), Verdict::Holds));
        assert_eq!((judged(1).figure, judged(1).verdict), (Some(0.7), Verdict::Holds));
        assert_eq!((judged(2).figure, judged(2).verdict), (Some(560_000.0), Verdict::Stated));
        assert_eq!(judged(3).verdict, Verdict::NotMeasured);
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
        let counts = vec![
            count("instructions", "per trip", 420.0),
            count("instructions", "per trip in C", 483.0),
            count("memory", "link", 8e3),
        ];
        let results = Results { counts, ..Results::default() };
        let of = |what: &str| {
            PROMISES
                .iter()
                .find(|it| it.what.contains(what))
                .map(|it| it.judge(&results))
                .map(|it| (it.figure, it.verdict))
        };
        assert_eq!(of("instructions"), Some((Some(420.0), Verdict::Holds)));
        assert_eq!(of("in C / in Rust"), Some((Some(1.15), Verdict::FallsShort)));
        assert_eq!(of("memory of a link"), Some((Some(8e3), Verdict::FallsShort)));
    }
}
