//! Where the time of one round trip goes: `m3 bench phases`, the table of the M3K and Fiasco study.
//!
//! ```text
//! T1 prepare   T2 deliver to the receiver   T3 find the message   T4 handle it: copy, sender
//! T5 the two switches: publish to wake, wake to run, run to read     server: its own work in between
//! ```
//! In each row trips without stamps, for the total, and trips with them, for the parts, take turns block by block. The stamps of m3ipc are those of `m3 trace`, written by the library's own path; those of the
//! kernel's mechanisms stand around their system calls, so what the kernel does inside (T3, T4, the switch) is one.
//! The sum of the parts must be the total plus the stated cost of the stamps, within 5 %: that is printed. What stamps cost is measured in place: how much longer the
//! client's own clock finds the trips with stamps than those without; what they cost in a loop by themselves is printed beside it.
//!
//! What it does not do: stamp inside the kernel. `m3 bench ipc` says how the totals compare.

pub mod cut;
mod kernel;
mod measure;
mod plan;
pub mod record;
mod table;
pub(crate) mod window;

use serde::{Deserialize, Serialize};

use crate::args::BenchArgs;
use crate::error::Error;
use crate::job::{Placement, Report, Side, Wait};
use crate::measure::Bench;
use crate::mechanism::Inherited;
use crate::ours;
use crate::peer::Run;
use crate::progress::Progress;
use crate::record::Results;

pub use plan::cells;
pub use table::table;

/// What a round trip carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carries {
    /// The 48 bytes of a message, inline.
    Short,
    /// A long payload beside the message, in the link.
    Long,
    /// A block of an area, handed over and back.
    Block,
    /// A message that says where the server is to copy from.
    Vcopy,
    /// Nothing but that it happened.
    Nothing,
}

impl Carries {
    /// Its name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long",
            Self::Block => "block",
            Self::Vcopy => "vcopy",
            Self::Nothing => "none",
        }
    }
}

/// Software choices whose price can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Experiment {
    /// The sender known by the message alone, against a queue of senders sorted by time
    Sender,
    /// Forty bytes inline in the message's cache line, against the same beside it in memory
    Copy,
    /// On one CPU: handing it over by sched_yield, against sleeping on a futex
    Switch,
}

impl Experiment {
    /// Its name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Copy => "copy",
            Self::Switch => "switch",
        }
    }

    /// Its sides: what the library does, and what it is compared with.
    #[must_use]
    pub const fn variants(self) -> [&'static str; 2] {
        match self {
            Self::Sender => ["header", "queue"],
            Self::Copy => ["inline", "memory"],
            Self::Switch => ["yield", "futex"],
        }
    }
}

/// What one side of a trip is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// What it carries.
    pub carries: Carries,
    /// How many bytes.
    pub bytes: usize,
    /// For how long it is measured.
    pub span_ns: u64,
    /// Whether the server goes through the queue of senders also where one speaks alone.
    pub queued: bool,
}

/// What is measured: one row.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// By what.
    pub mechanism: &'static str,
    /// The trip.
    pub shape: Shape,
    /// Where its sides run.
    pub placement: Placement,
    /// How they wait.
    pub wait: Wait,
    /// The experiment and its side, where it is one.
    pub experiment: Option<(Experiment, &'static str)>,
}

/// The name of m3ipc among the mechanisms.
pub const OURS: &str = "m3ipc";

/// Is one side of a trip, in a peer process.
///
/// # Errors
/// Where the mechanism fails or a payload is wrong.
pub fn peer(run: &Run, inherited: Inherited, shape: &Shape) -> Result<Report, Error> {
    if run.job().mechanism == OURS {
        return match run.job().side {
            Side::Client => ours::phases::client(&inherited, run, shape),
            _ => ours::phases::server(&inherited, run, shape),
        };
    }
    kernel::peer(run, inherited, shape)
}

/// Measures the cells in turn and gives what a person reads.
///
/// # Errors
/// Where no ring can be made to know what a stamp costs.
pub fn run(
    bench: &Bench,
    args: &BenchArgs,
    cells: &[Cell],
    progress: &mut Progress,
    results: &mut Results,
) -> Result<String, Error> {
    let costs = measure::Costs::find()?;
    let found = measure::rounds(bench, cells, costs.scale, args.rounds(), progress, results);
    let rows = cells.iter().zip(&found).filter(|(_, found)| !found.is_empty());
    let records: Vec<_> = rows.map(|(cell, found)| found.record(cell, &costs)).collect();
    let text = table(&records, &costs);
    results.phases.extend(records);
    Ok(text)
}
