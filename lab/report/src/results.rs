//! Rows: the rounds of each result, summed up.

use crate::names;
use crate::phase_record::PhaseRecord;
use crate::schema::{Claim, Count, Family, Machine, Record, Round, Run, Series};
use crate::stats::{median, quantile, tenth, whole};

/// Below this a median of single trips shows the steps of the clock, so blocks give the figure.
const FINE_NS: u64 = 1_000;

/// A record with the figures that the fixed fields of the JSON have no room for.
#[derive(Clone, Debug)]
pub struct Row {
    /// The record.
    pub record: Record,
    /// What its mechanism stands for.
    pub family: Family,
    /// Least and greatest median of a round.
    pub spread_ns: (u64, u64),
    /// Median of the means of blocks timed as a whole, per trip.
    pub block_ns: Option<f64>,
    /// Voluntary context switches per trip.
    pub switches_per_op: f64,
    /// Wakeups that sockets sent, per message or trip.
    pub bells_per_op: Option<f64>,
    /// Under the preload library: the share of the bytes that went through rings.
    pub ring_share: Option<f64>,
    /// The rounds.
    pub rounds: Vec<Round>,
}

impl Row {
    /// Sums up the rounds of a result.
    #[must_use]
    pub fn of(series: Series) -> Self {
        let rounds = series.rounds;
        let middle = |of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(of)).unwrap_or(0.0);
        let at = |share: f64| whole(middle(&|round| quantile(&round.samples, share) as f64));
        let medians = || rounds.iter().map(|round| quantile(&round.samples, 0.5));
        let longest = rounds.iter().filter_map(|round| round.samples.last()).map(|(ns, _)| *ns);
        let record = Record {
            test: series.test,
            mechanism: series.mechanism,
            placement: series.placement,
            wait: series.wait,
            bytes: series.bytes,
            pairs: series.pairs,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: longest.max().unwrap_or(0),
            per_s: tenth(middle(&|round| round.per_s)),
            cpu_ns_per_op: tenth(middle(&|round| round.cpu_ns_per_op)),
            rounds: u32::try_from(rounds.len()).unwrap_or(u32::MAX),
        };
        Self {
            record,
            family: series.family,
            spread_ns: (medians().min().unwrap_or(0), medians().max().unwrap_or(0)),
            block_ns: median(rounds.iter().filter_map(|round| round.block_ns)),
            switches_per_op: middle(&|round| round.switches_per_op),
            bells_per_op: median(rounds.iter().filter_map(|round| round.bells_per_op)),
            ring_share: median(rounds.iter().filter_map(|round| round.ring_share)),
            rounds,
        }
    }

    /// The rounds with the names of the row.
    #[must_use]
    pub fn series(&self) -> Series {
        let Record { test, mechanism, placement, wait, bytes, pairs, .. } = self.record.clone();
        let (family, rounds) = (self.family, self.rounds.clone());
        Series { test, mechanism, family, placement, wait, bytes, pairs, rounds }
    }

    /// The time of a trip: the median of trips, below a microsecond the median of blocks.
    ///
    /// Neither the cost nor the steps of the clock distort a block.
    #[must_use]
    pub fn trip_ns(&self) -> f64 {
        match self.block_ns {
            Some(block_ns) if self.record.p50_ns < FINE_NS => block_ns,
            _ => self.record.p50_ns as f64,
        }
    }

    /// The time that ratios use: of a stream the time between two messages, else that of a trip.
    ///
    /// A single send of a stream says nothing about the arrival of its bytes.
    #[must_use]
    pub fn ns(&self) -> f64 {
        if is_stream(&self.record.test) {
            1e9 / self.record.per_s.max(f64::MIN_POSITIVE)
        } else {
            self.trip_ns()
        }
    }

    /// Whether both rows are of the same measurement.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |row: &Self| {
            let it = &row.record;
            (it.placement, it.wait, it.bytes, it.pairs)
        };
        let names = |row: &Self| (row.record.test.clone(), row.record.mechanism.clone());
        key(self) == key(other) && names(self) == names(other)
    }
}

/// Whether this test sends messages without awaiting them.
#[must_use]
pub fn is_stream(test: &str) -> bool {
    ["stream", "sock-stream", "sock-bulk"].contains(&test)
}

/// Whether rows of this test differ in their size, so that only equal sizes compare.
#[must_use]
pub fn is_sized(test: &str) -> bool {
    test.starts_with("copy")
        || test.starts_with("sock-")
        || ["stream", "attach", "handover", "pool"].contains(&test)
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
    /// Measurements that this machine cannot make, with the reason.
    pub skipped: Vec<String>,
    /// Measurements that failed, with the reason.
    pub failed: Vec<String>,
    /// Other libraries with their versions.
    pub libraries: Vec<(String, String)>,
    /// CPUs that the measured processes could use.
    pub cpus: usize,
    /// Whether a hypervisor is present.
    pub is_virtual: bool,
    /// What the machine says about the two CPUs.
    pub claim: Option<Claim>,
}

impl Results {
    /// No results yet, of this machine.
    #[must_use]
    pub fn on(machine: &Machine) -> Self {
        Self {
            cpus: machine.cpus,
            is_virtual: machine.r#virtual,
            claim: machine.claim,
            ..Self::default()
        }
    }

    /// A count by its test and name.
    #[must_use]
    pub fn count(&self, test: &str, what: &str) -> Option<f64> {
        let found = self.counts.iter().find(|count| count.test == test && count.what == what);
        found.map(|count| count.value)
    }

    /// The number of named objects that a killed pair of this mechanism left behind.
    #[must_use]
    pub fn left_behind(&self, mechanism: &str) -> Option<f64> {
        let is = |count: &&Count| count.test == names::LEFT && count.mechanism == mechanism;
        self.counts.iter().find(is).map(|count| count.value)
    }

    /// The rows of a test.
    pub fn of_test<'a>(&'a self, test: &'a str) -> impl Iterator<Item = &'a Row> + Clone {
        self.rows.iter().filter(move |row| row.record.test == test)
    }
}

impl Run {
    /// A run on this machine with these results.
    #[must_use]
    pub fn new(machine: &Machine, results: &Results) -> Self {
        let mut run = Self {
            run: None,
            machine: machine.clone(),
            libraries: results.libraries.clone(),
            steps: vec![],
            results: vec![],
            samples: vec![],
            counts: vec![],
            phases: vec![],
            skipped: vec![],
            failed: vec![],
        };
        run.add(results);
        run
    }

    /// Adds what a further step found.
    pub fn add(&mut self, found: &Results) {
        self.results.extend(found.rows.iter().map(|row| row.record.clone()));
        self.samples.extend(found.rows.iter().map(Row::series));
        self.counts.extend_from_slice(&found.counts);
        self.phases.extend_from_slice(&found.phases);
        self.skipped.extend_from_slice(&found.skipped);
        self.failed.extend_from_slice(&found.failed);
    }

    /// The results, computed from the rounds.
    #[must_use]
    pub fn results(&self) -> Results {
        Results {
            rows: self.samples.iter().cloned().map(Row::of).collect(),
            counts: self.counts.clone(),
            phases: self.phases.clone(),
            skipped: self.skipped.clone(),
            failed: self.failed.clone(),
            libraries: self.libraries.clone(),
            ..Results::on(&self.machine)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_row_read_from_json_equals_the_row_that_was_written() {
        let first = fixture::rounds("pipe", Family::Kernel, &[&[10, 20, 30], &[40, 50, 9_000]]);
        let text = serde_json::to_string(&first.series()).expect("serialises");
        let again = Row::of(serde_json::from_str(&text).expect("parses"));
        assert_eq!(again.record, first.record);
        assert_eq!(again.record.p50_ns, 35);
        assert_eq!((again.spread_ns, again.record.max_ns), ((20, 50), 9_000));
    }

    #[test]
    fn a_stream_is_judged_by_its_rate() {
        let mut row = fixture::rounds("pipe", Family::Kernel, &[&[10]]);
        row.record.per_s = 2e6;
        assert!((row.ns() - 10.0).abs() < 1e-9);
        row.record.test = "stream".into();
        assert!((row.ns() - 500.0).abs() < 1e-9);
    }
}
