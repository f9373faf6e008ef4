//! What a measurement of phases says, in tables and in JSON.

use serde::{Deserialize, Serialize};

use crate::job::{Placement, Wait};

/// Parts that a round trip is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Part {
    /// T1: the call is entered, the other side found, rights checked.
    Prepare = 0,
    /// T2: the message is written and published; for the kernel's mechanisms the call that takes it.
    Deliver = 1,
    /// T3: the message is found.
    Find = 2,
    /// T4: it is copied.
    Copy = 3,
    /// T4: who sent it, and the return to the caller.
    Sender = 4,
    /// T5: published, to the beginning of the wake-up.
    ToWake = 5,
    /// T5: from there until the receiver runs.
    ToRun = 6,
    /// T5: until it looks at what it then finds.
    ToRead = 7,
    /// The server's own work between its two calls.
    Server = 8,
}

/// How many parts there are.
pub const PARTS: usize = 9;

impl Part {
    /// All of them, in the order of the study.
    pub const ALL: [Self; PARTS] = [
        Self::Prepare,
        Self::Deliver,
        Self::Find,
        Self::Copy,
        Self::Sender,
        Self::ToWake,
        Self::ToRun,
        Self::ToRead,
        Self::Server,
    ];

    /// The study's name of the phase that this is, or is part of.
    #[must_use]
    pub const fn phase(self) -> &'static str {
        match self {
            Self::Prepare => "T1",
            Self::Deliver => "T2",
            Self::Find => "T3",
            Self::Copy | Self::Sender => "T4",
            Self::ToWake | Self::ToRun | Self::ToRead => "T5",
            Self::Server => "server",
        }
    }

    /// What happens in it.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Deliver => "deliver",
            Self::Find => "find",
            Self::Copy => "copy",
            Self::Sender => "sender",
            Self::ToWake => "publish to wake",
            Self::ToRun => "wake to run",
            Self::ToRead => "run to read",
            Self::Server => "own work",
        }
    }
}

/// One part of a round trip, request and answer together. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// T1 to T5, or `server`.
    pub phase: String,
    /// What happens in it.
    pub part: String,
    /// Its time less what its stamps cost: the mean of the middle half of all trips.
    pub ns: f64,
    /// The same with the stamps.
    pub stamped_ns: f64,
    /// Median of all trips, with the stamps.
    pub p50_ns: f64,
    /// 99th percentile of all trips, with the stamps.
    pub p99_ns: f64,
    /// Whether stamps of user space can cut here; what they cannot is in T5.
    pub cut: bool,
}

/// One round trip, cut. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Name of the mechanism.
    pub mechanism: String,
    /// What kind of message it carried: short, long, block, vcopy; none where only the fact travels.
    pub message: String,
    /// Bytes of it, each way.
    pub bytes: usize,
    /// Where the sides ran.
    pub placement: Placement,
    /// How they waited; block is the row of those that sleep.
    pub wait: Wait,
    /// The experiment that this is a side of.
    pub experiment: Option<String>,
    /// Which side of it.
    pub variant: Option<String>,
    /// Trips that were cut.
    pub trips: u64,
    /// Rounds in turn.
    pub rounds: u32,
    /// The whole trip without stamps: the mean of the middle half of all trips.
    pub total_ns: f64,
    /// The sum of the phases as they were stamped.
    pub sum_ns: f64,
    /// What one stamp costs here, in place.
    pub stamp_ns: f64,
    /// Stamps that the trip waits for.
    pub stamps: f64,
    /// What all that stamping adds to the phases, measured in place by the client's clock: trips with stamps against those without, in turn;
    /// less the stamp and the record that lie before the first moment and after the last.
    pub cost_ns: f64,
    /// What as many stamps and records cost in a loop by themselves.
    #[serde(default)]
    pub alone_ns: f64,
    /// How far the sum is from the total and the stated cost (below: negative), as a part of both.
    pub off: f64,
    /// Whether that is within 5 %.
    pub holds: bool,
    /// The parts.
    pub phases: Vec<PhaseTime>,
}

impl PhaseRecord {
    /// Why the sum is away from the trip by more than is allowed, as far as can be told.
    #[must_use]
    pub fn why(&self) -> &'static str {
        match (self.off < 0.0, self.message.as_str()) {
            (true, "block") => {
                "giving the block up before the call and taking it back after it is in no phase"
            }
            (true, _) => {
                "the caller's own work before the first stamp and after the last is in no phase"
            }
            (false, _) => {
                "trips with stamps and without were not of the same machine; run it again"
            }
        }
    }

    /// The time of one of T1 to T5 or of the server, less what the stamps cost.
    #[must_use]
    pub fn phase_ns(&self, phase: &str) -> f64 {
        self.phases.iter().filter(|time| time.phase == phase).map(|time| time.ns).sum()
    }

    /// Whether stamps could cut that phase.
    #[must_use]
    pub fn has(&self, phase: &str) -> bool {
        self.phases.iter().any(|time| time.phase == phase && time.cut)
    }
}
