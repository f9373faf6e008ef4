//! The results of a case: measurements and failures of each mode, and counters of the rings.

use super::case::Case;
use super::measurement::Measurement;

/// The counters of streams that moved to rings.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingCounts {
    /// Bytes through rings.
    pub ring_bytes: u64,
    /// Bytes through the kernel.
    pub kernel_bytes: u64,
    /// Wakeup bytes that were sent.
    pub wakeups: u64,
    /// Wakeup bytes that were not needed.
    pub wakeups_spared: u64,
    /// Sends that found the ring full.
    pub overflows: u64,
}

impl RingCounts {
    /// Adds other counters.
    pub fn add(&mut self, other: &Self) {
        self.ring_bytes += other.ring_bytes;
        self.kernel_bytes += other.kernel_bytes;
        self.wakeups += other.wakeups;
        self.wakeups_spared += other.wakeups_spared;
        self.overflows += other.overflows;
    }

    /// The share of bytes through rings; `None` if no stream moved.
    pub fn ring_share(&self) -> Option<f64> {
        let all_bytes = self.ring_bytes + self.kernel_bytes;
        (all_bytes > 0).then(|| self.ring_bytes as f64 / all_bytes as f64)
    }
}

/// The runs of one mode.
#[derive(Default)]
pub struct ModeResults {
    pub measurements: Vec<Measurement>,
    pub failure: Option<String>,
}

impl ModeResults {
    /// Adds the result of a run.
    pub fn add(&mut self, result: std::result::Result<Measurement, String>) {
        match result {
            Ok(measurement) => self.measurements.push(measurement),
            Err(why) => self.failure = Some(why),
        }
    }

    /// The median throughput.
    pub fn rate(&self) -> Option<f64> {
        self.median(|measurement| measurement.rate)
    }

    /// The median latency, in microseconds.
    pub fn latency_us(&self) -> Option<f64> {
        self.median(|measurement| measurement.latency_us)
    }

    /// `yes`, or the failure.
    pub fn works(&self) -> String {
        self.failure.clone().unwrap_or_else(|| "yes".to_owned())
    }

    fn median(&self, of: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
        let mut all: Vec<f64> = self.measurements.iter().filter_map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }
}

/// The results of a case.
pub struct CaseResult {
    pub case: &'static Case,
    /// Server and client with the kernel's sockets.
    pub native: ModeResults,
    /// Server and client under `m3 sock run`.
    pub preloaded: ModeResults,
    /// The server alone under `m3 sock run`.
    pub mixed: ModeResults,
    pub counts: RingCounts,
}

impl CaseResult {
    /// Empty results.
    pub fn new(case: &'static Case) -> Self {
        Self {
            case,
            native: ModeResults::default(),
            preloaded: ModeResults::default(),
            mixed: ModeResults::default(),
            counts: RingCounts::default(),
        }
    }

    /// Whether the case works natively and fails under `m3 sock run`.
    pub fn is_broken(&self) -> bool {
        self.native.failure.is_none()
            && (self.preloaded.failure.is_some() || self.mixed.failure.is_some())
    }
}
