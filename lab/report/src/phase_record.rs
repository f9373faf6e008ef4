//! The JSON of a round trip that was cut into phases.

use serde::{Deserialize, Serialize};

use crate::modes::{Placement, Wait};

/// Phases, with a short description each.
pub const PHASES: [(&str, &str); 6] = [
    ("T1", "prepare"),
    ("T2", "deliver"),
    ("T3", "find the message"),
    ("T4", "handle it"),
    ("T5", "both switches"),
    ("server", "the server\u{2019}s own work"),
];

/// One part of a round trip, request and answer together. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// T1 to T5, or `server`.
    pub phase: String,
    /// The part of the phase.
    pub part: String,
    /// Mean of the middle half of all trips, less the cost of the stamps.
    pub ns: f64,
    /// The same with the stamps.
    pub stamped_ns: f64,
    /// Median of all trips, with the stamps.
    pub p50_ns: f64,
    /// 99th percentile of all trips, with the stamps.
    pub p99_ns: f64,
    /// Whether stamps of user space see this part; the time of other parts lies in T5.
    pub cut: bool,
}

/// One round trip in its phases. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Name of the mechanism.
    pub mechanism: String,
    /// Kind of message: short, long, block, vcopy; none where no payload travels.
    pub message: String,
    /// Payload each way, in bytes.
    pub bytes: usize,
    /// Where the sides ran.
    pub placement: Placement,
    /// How they waited.
    pub wait: Wait,
    /// The experiment of this row, if any.
    pub experiment: Option<String>,
    /// The variant of the experiment.
    pub variant: Option<String>,
    /// Trips that were cut.
    pub trips: u64,
    /// Number of rounds.
    pub rounds: u32,
    /// The trip without stamps: mean of the middle half of all trips.
    pub total_ns: f64,
    /// Sum of the stamped phases.
    pub sum_ns: f64,
    /// Cost of one stamp, in place.
    pub stamp_ns: f64,
    /// Stamps on the path of the trip.
    pub stamps: f64,
    /// Cost of all stamps within the phases.
    ///
    /// By the client's clock: stamped trips less unstamped trips that took turns with them, less
    /// the stamp and the record before the first moment and after the last.
    pub cost_ns: f64,
    /// Cost of as many stamps and records in a loop of their own.
    #[serde(default)]
    pub alone_ns: f64,
    /// Distance of the sum from the total plus the cost, as a part of both; negative if below.
    pub off: f64,
    /// Whether the distance is within 5 %.
    pub holds: bool,
    /// The parts.
    pub phases: Vec<PhaseTime>,
}

impl PhaseRecord {
    /// The likely reason for a distance above 5 %.
    #[must_use]
    pub fn why(&self) -> &'static str {
        match (self.off < 0.0, self.message.as_str()) {
            (true, "block") => "no phase holds the caller's work on the block around the call",
            (true, _) => {
                "no phase holds the caller's work before the first stamp and after the last"
            }
            (false, _) => "the machine changed between stamped and unstamped trips; run it again",
        }
    }

    /// The time of one phase, less the cost of its stamps.
    #[must_use]
    pub fn phase_ns(&self, phase: &str) -> f64 {
        self.phases.iter().filter(|time| time.phase == phase).map(|time| time.ns).sum()
    }

    /// The sum of all phases, less the cost of their stamps.
    #[must_use]
    pub fn all_ns(&self) -> f64 {
        PHASES.iter().map(|(phase, _)| self.phase_ns(phase)).sum()
    }

    /// Whether stamps of user space see that phase.
    #[must_use]
    pub fn has(&self, phase: &str) -> bool {
        self.phases.iter().any(|time| time.phase == phase && time.cut)
    }
}
