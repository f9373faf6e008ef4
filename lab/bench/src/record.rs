//! Results: what stands in the JSON, and what tables and promises need besides.

use serde::{Deserialize, Serialize};

use crate::job::{Placement, Wait};
use crate::measure::{Cell, Round};
use crate::mechanism::Family;
use crate::phases::record::PhaseRecord;
use crate::stats::{Samples, median, whole};

/// Below this a median of single trips shows the steps of the clock; the blocks' median is the figure then.
const FINE_NS: u64 = 1_000;

/// One result as JSON shows it. Times are medians over rounds, the maximum that of all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the test.
    pub test: String,
    /// Name of the mechanism.
    pub mechanism: String,
    /// Where its sides ran.
    pub placement: Placement,
    /// How they waited.
    pub wait: Wait,
    /// Payload each way; 0 where only the fact travels.
    pub bytes: usize,
    /// Pairs at once; in the test `clients`, bound clients of which one is active.
    pub pairs: u32,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Longest of all rounds.
    pub max_ns: u64,
    /// Round trips per second, of all pairs together.
    pub per_s: f64,
    /// CPU time of all measured processes per trip.
    pub cpu_ns_per_op: f64,
    /// How many rounds.
    pub rounds: u32,
}

/// A record with what only people and promises look at.
#[derive(Clone, Debug)]
pub struct Row {
    /// The record.
    pub record: Record,
    /// What its mechanism stands for.
    pub family: Family,
    /// Least and greatest median of a round.
    pub spread_ns: (u64, u64),
    /// Median of the means of blocks timed as a whole, in nanoseconds per trip.
    pub block_ns: Option<f64>,
    /// Voluntary context switches per trip.
    pub switches_per_op: f64,
    /// Bells of com-sockets, or tokens of the preload library, per message or trip.
    pub bells_per_op: Option<f64>,
    /// Under the preload library: the part of the bytes that went through rings.
    pub ring_share: Option<f64>,
    /// The rounds it sums up.
    pub rounds: Vec<RawRound>,
}

/// What one round measured, in little room: a histogram that can be added to takes half a megabyte.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawRound {
    /// Median of the means of blocks timed as a whole, in nanoseconds per trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_ns: Option<f64>,
    /// Trips per second of all pairs together.
    pub per_s: f64,
    /// CPU time of all measured processes per trip, in nanoseconds.
    pub cpu_ns_per_op: f64,
    /// Their voluntary context switches per trip.
    pub switches_per_op: f64,
    /// Bells of com-sockets per message or trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bells_per_op: Option<f64>,
    /// Under the preload library: the part of the bytes that went through rings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_share: Option<f64>,
    /// Every time taken, in order: nanoseconds (to three digits), and how often.
    pub samples: Vec<(u64, u64)>,
}

impl RawRound {
    /// The round in little room.
    #[must_use]
    pub fn of(round: &Round) -> Self {
        Self {
            block_ns: round.block_ns,
            per_s: round.per_s,
            cpu_ns_per_op: round.cpu_ns_per_op,
            switches_per_op: round.switches_per_op,
            bells_per_op: round.bells_per_op,
            ring_share: round.ring_share,
            samples: round.samples.pairs(),
        }
    }

    /// The round again.
    #[must_use]
    pub fn round(&self) -> Round {
        Round {
            samples: Samples::of_pairs(&self.samples),
            block_ns: self.block_ns,
            per_s: self.per_s,
            cpu_ns_per_op: self.cpu_ns_per_op,
            switches_per_op: self.switches_per_op,
            bells_per_op: self.bells_per_op,
            ring_share: self.ring_share,
            ..Round::default()
        }
    }

    /// The median of its times; 0 where there are none.
    #[must_use]
    pub fn p50_ns(&self) -> u64 {
        let half = self.samples.iter().map(|(_, number)| number).sum::<u64>().div_ceil(2).max(1);
        let mut seen = 0;
        let is_middle = |(_, number): &&(u64, u64)| {
            seen += number;
            seen >= half
        };
        self.samples.iter().find(is_middle).map_or(0, |(ns, _)| *ns)
    }
}

/// What a row is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name of the test.
    pub test: &'a str,
    /// Name of the mechanism.
    pub mechanism: &'a str,
    /// What the mechanism stands for.
    pub family: Family,
    /// Where its sides ran.
    pub placement: Placement,
    /// How they waited.
    pub wait: Wait,
    /// Bytes of a trip's payload, or of the block.
    pub bytes: usize,
    /// Pairs at once, or bound clients.
    pub pairs: u32,
}

impl Row {
    /// Sums up the rounds of a cell.
    #[must_use]
    pub fn new(test: &str, cell: &Cell, rounds: &[Round]) -> Self {
        let subject = Subject {
            test,
            mechanism: cell.mechanism.name(),
            family: cell.mechanism.family(),
            placement: cell.placement,
            wait: cell.wait,
            bytes: cell.mechanism.bytes(cell.work),
            pairs: cell.pairs,
        };
        Self::of(&subject, rounds)
    }

    /// Sums up rounds of whatever was measured.
    #[must_use]
    pub fn of(subject: &Subject<'_>, rounds: &[Round]) -> Self {
        let middle = |of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(of)).unwrap_or(0.0);
        let at = |share: f64| whole(middle(&|round| round.samples.quantile(share) as f64));
        let medians = || rounds.iter().map(|round| round.samples.quantile(0.5));
        let tenth = |value: f64| (value * 10.0).round() / 10.0;
        let record = Record {
            test: subject.test.into(),
            mechanism: subject.mechanism.into(),
            placement: subject.placement,
            wait: subject.wait,
            bytes: subject.bytes,
            pairs: subject.pairs,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: rounds.iter().map(|round| round.samples.max()).max().unwrap_or(0),
            per_s: tenth(middle(&|round| round.per_s)),
            cpu_ns_per_op: tenth(middle(&|round| round.cpu_ns_per_op)),
            rounds: u32::try_from(rounds.len()).unwrap_or(u32::MAX),
        };
        Self {
            record,
            family: subject.family,
            spread_ns: (medians().min().unwrap_or(0), medians().max().unwrap_or(0)),
            block_ns: median(rounds.iter().filter_map(|round| round.block_ns)),
            switches_per_op: middle(&|round| round.switches_per_op),
            bells_per_op: median(rounds.iter().filter_map(|round| round.bells_per_op)),
            ring_share: median(rounds.iter().filter_map(|round| round.ring_share)),
            rounds: rounds.iter().map(RawRound::of).collect(),
        }
    }

    /// The time of a trip that ratios are made of: the median of trips; below a microsecond the
    /// median of blocks, which neither the cost nor the steps of the clock distort.
    #[must_use]
    pub fn trip_ns(&self) -> f64 {
        match self.block_ns {
            Some(block_ns) if self.record.p50_ns < FINE_NS => block_ns,
            _ => self.record.p50_ns as f64,
        }
    }
}

/// A figure that is no distribution of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// Name of the test.
    pub test: String,
    /// Of which mechanism.
    pub mechanism: String,
    /// What was counted.
    pub what: String,
    /// How much.
    pub value: f64,
    /// Of what unit.
    pub unit: String,
}

/// Everything that one run found.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The rows, in the order of their tests.
    pub rows: Vec<Row>,
    /// Figures of other kinds.
    pub counts: Vec<Count>,
    /// Round trips cut into phases.
    pub phases: Vec<PhaseRecord>,
    /// What this machine cannot do, with why.
    pub skipped: Vec<String>,
    /// What went wrong.
    pub failed: Vec<String>,
    /// Libraries of others with their versions.
    pub libraries: Vec<(String, String)>,
    /// CPUs that the measured processes could use.
    pub cpus: usize,
}

impl Results {
    /// A count by its test and name.
    #[must_use]
    pub fn count(&self, test: &str, what: &str) -> Option<f64> {
        self.counts
            .iter()
            .find(|count| count.test == test && count.what == what)
            .map(|count| count.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_in_little_room_has_the_same_median() {
        for times in [&[7_u64][..], &[1, 2, 3, 4], &[5, 5, 5, 900], &[10, 20_000, 30_000_000]] {
            let mut round = Round::default();
            times.iter().for_each(|&ns| round.samples.record(ns));
            let raw = RawRound::of(&round);
            assert_eq!(raw.p50_ns(), round.samples.quantile(0.5), "{times:?}");
            assert_eq!(
                raw.round().samples.quantile(0.99),
                round.samples.quantile(0.99),
                "{times:?}"
            );
        }
        assert_eq!(RawRound::of(&Round::default()).p50_ns(), 0);
    }
}
