//! The promises as data: what is compared with what, the bound, and whether it holds.
//!
//! A figure comes from results of one run only. A row without results says
//! "not measured"; that is no failure, and no success either.

mod blocks;
mod figures;
mod socks;
mod table;

use figures as f;
pub use table::{amount, print};

use crate::record::Results;

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Only stated.
    Stated,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A ratio of two figures of this run.
    Times,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Instructions.
    Instructions,
    /// A share of one CPU, in millionths.
    Ppm,
}

/// One row of the table of promises.
pub struct Promise {
    /// Its id.
    pub id: &'static str,
    /// What is compared with what.
    pub what: &'static str,
    /// What is promised.
    pub bound: Bound,
    /// What is hoped for.
    pub stretch: Option<f64>,
    /// What the figure is counted in.
    pub unit: Unit,
    /// Computes it.
    pub figure: fn(&Results) -> Option<f64>,
}

/// How a promise stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds, and so does its stretch.
    Stretch,
    /// It holds.
    Holds,
    /// It does not.
    FallsShort,
    /// Nothing was promised about the figure.
    Stated,
    /// There are no results for it.
    NotMeasured,
}

impl Verdict {
    /// What a table says.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stretch => "holds, stretch too",
            Self::Holds => "holds",
            Self::FallsShort => "FALLS SHORT",
            Self::Stated => "stated",
            Self::NotMeasured => "not measured",
        }
    }
}

impl Promise {
    /// The figure and how the promise stands with it.
    #[must_use]
    pub fn judge(&self, results: &Results) -> (Option<f64>, Verdict) {
        let Some(figure) = (self.figure)(results).filter(|figure| figure.is_finite()) else {
            return (None, Verdict::NotMeasured);
        };
        let meets = |limit: f64| match self.bound {
            Bound::AtMost(_) => figure <= limit,
            Bound::AtLeast(_) => figure >= limit,
            Bound::Stated => true,
        };
        let verdict = match self.bound {
            Bound::Stated => Verdict::Stated,
            Bound::AtMost(limit) | Bound::AtLeast(limit) if !meets(limit) => Verdict::FallsShort,
            _ if self.stretch.is_some_and(meets) => Verdict::Stretch,
            _ => Verdict::Holds,
        };
        (Some(figure), verdict)
    }
}

/// A row of the table.
macro_rules! promise {
    ($id:literal, $what:literal, $bound:ident $(($limit:expr))?, $stretch:expr, $unit:ident, $figure:expr) => {
        Promise {
            id: $id,
            what: $what,
            bound: Bound::$bound $(($limit))?,
            stretch: $stretch,
            unit: Unit::$unit,
            figure: $figure,
        }
    };
}

/// All promises, in order of their ids; those about sockets last.
#[must_use]
pub fn all() -> Vec<&'static Promise> {
    let number =
        |promise: &&Promise| promise.id.trim_start_matches('P').parse().unwrap_or(u32::MAX);
    let mut all: Vec<&Promise> = PROMISES.iter().chain(&blocks::PROMISES).collect();
    all.sort_by_key(number);
    all.extend(&socks::PROMISES);
    all
}

/// The promises about messages. Those about blocks and areas (P8 to P11) are in `blocks`, those about sockets in `socks`.
pub const PROMISES: [Promise; 19] = [
    promise!("P1", "IPC2, two CPUs, spin, / bounce", AtMost(1.5), Some(1.2), Times, |r| {
        f::to_bounce(r, "ipc2")
    }),
    promise!(
        "P2",
        "best of the kernel / IPC2, two CPUs, awake",
        AtLeast(25.0),
        Some(40.0),
        Times,
        f::kernel_two_cpus
    ),
    promise!(
        "P3",
        "IPC2, one CPU, / best of the kernel",
        AtMost(0.95),
        Some(0.7),
        Times,
        f::kernel_same_cpu
    ),
    promise!(
        "P4",
        "IPC2 to a sleeping server / bare futex wake",
        AtMost(1.15),
        Some(1.0),
        Times,
        f::asleep
    ),
    promise!("P5", "IPC1, two CPUs, spin, / bounce", AtMost(1.8), Some(1.3), Times, |r| {
        f::to_bounce(r, "ipc1")
    }),
    promise!("P5", "IPC3, two CPUs, spin, / bounce", AtMost(1.6), Some(1.3), Times, |r| {
        f::to_bounce(r, "ipc3")
    }),
    promise!(
        "P6",
        "messages/s, pairs that fit the CPUs / kernel",
        AtLeast(10.0),
        Some(25.0),
        Times,
        |r| { f::pairs(r, true) }
    ),
    promise!(
        "P6",
        "messages/s, more pairs than that / kernel",
        AtLeast(1.25),
        Some(1.6),
        Times,
        |r| { f::pairs(r, false) }
    ),
    promise!(
        "P7",
        "IPC2 among the most clients / with 1",
        AtMost(1.5),
        Some(1.1),
        Times,
        f::clients
    ),
    promise!(
        "P12",
        "kill -9 to the client's error, p99",
        AtMost(1e6),
        Some(1e5),
        Ns,
        |r| f::death(r, "death")
    ),
    promise!("P12", "the same, a server with 256 MB of its own", AtMost(1e6), Some(1e5), Ns, |r| {
        f::death(r, crate::plan::HEAVY_DEATH)
    }),
    promise!("P13", "first contact", AtMost(300e3), Some(100e3), Ns, |r| f::median_of(
        r, "contact"
    )),
    promise!("P13", "bind", AtMost(200e3), Some(100e3), Ns, |r| f::median_of(r, "bind")),
    promise!("P14", "instructions per IPC2, both sides", Stated, None, Instructions, |r| r
        .count("instructions", "per trip")),
    promise!("P15", "memory of a link", AtMost(4096.0), None, Bytes, |r| r.count("memory", "link")),
    promise!("P15", "memory of an endpoint", AtMost(16384.0), None, Bytes, |r| r
        .count("memory", "endpoint")),
    promise!(
        "P15",
        "memory of the daemon with 10,000 links",
        AtMost(16_777_216.0),
        None,
        Bytes,
        f::daemon
    ),
    promise!("P15", "links that the daemon had", AtLeast(10_000.0), None, Times, |r| r
        .count("memory", "daemon links")),
    promise!("P15", "idle CPU of a sleeping endpoint", AtMost(0.0), None, Ppm, |r| r
        .count("memory", "idle cpu")),
];

#[cfg(test)]
mod tests;
