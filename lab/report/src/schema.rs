//! The JSON of a run. Times are in nanoseconds unless the name says otherwise.

use serde::{Deserialize, Serialize};

pub use crate::modes::{Claim, Family, Placement, Wait};
use crate::phase_record::PhaseRecord;

/// One result. Times are medians over rounds; the maximum is of all rounds.
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
    /// Payload each way, or size of the block; 0 where no payload travels.
    pub bytes: usize,
    /// Pairs at once, connections, or bound clients of which one is active.
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
    /// Number of rounds.
    pub rounds: u32,
}

/// What one round measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Median of the means of blocks timed as a whole, per trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_ns: Option<f64>,
    /// Trips per second of all pairs together.
    pub per_s: f64,
    /// CPU time of all measured processes per trip.
    pub cpu_ns_per_op: f64,
    /// Their voluntary context switches per trip.
    pub switches_per_op: f64,
    /// Wakeups sent by sockets, both sides, per message or trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bells_per_op: Option<f64>,
    /// Under the preload library: the share of the bytes that went through rings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_share: Option<f64>,
    /// Every time in ascending order (three digits), with its number of occurrences.
    pub samples: Vec<(u64, u64)>,
}

/// The rounds of one result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Name of the test.
    pub test: String,
    /// Name of the mechanism.
    pub mechanism: String,
    /// What the mechanism stands for.
    pub family: Family,
    /// Where its sides ran.
    pub placement: Placement,
    /// How they waited.
    pub wait: Wait,
    /// Payload each way, or size of the block.
    pub bytes: usize,
    /// Pairs at once, connections, or bound clients.
    pub pairs: u32,
    /// Its rounds, in the order of measurement.
    pub rounds: Vec<Round>,
}

/// A figure that is no distribution of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// Name of the test.
    pub test: String,
    /// Name of the mechanism.
    pub mechanism: String,
    /// What was counted.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// The machine of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// CPUs that the run may use.
    pub cpus: usize,
    /// CPUs of client and server in `two-cpus`; the first is that of `same-cpu`.
    pub placed_on: Vec<usize>,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Whether a hypervisor is present.
    pub r#virtual: bool,
    /// Frequency governor of the first CPU, if there is one.
    pub governor: Option<String>,
    /// Vulnerabilities that the kernel works around, with the method.
    pub mitigations: Vec<String>,
    /// The kernel's clock source.
    pub clocksource: Option<String>,
    /// The run's clock: `counter` or `monotonic`.
    pub clock: String,
    /// What it says about the two CPUs of `placed_on`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Caches of the first CPU, nearest first.
    #[serde(default)]
    pub caches: Vec<String>,
    /// Memory in bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Load averages at the start.
    pub loadavg_start: String,
    /// Load averages at the end, the run's own load included.
    pub loadavg_end: String,
}

impl Machine {
    /// The machine in three lines.
    #[must_use]
    pub fn card(&self) -> String {
        let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
        let mitigations = match self.mitigations.join("; ") {
            none if none.is_empty() => "nothing".into(),
            all => all,
        };
        format!(
            "machine  {}, {} CPUs{}, placed on {:?}\n\
             kernel   {}, governor {}, clock source {}, load {}\nmitigated {mitigations}\n",
            self.cpu,
            self.cpus,
            if self.r#virtual { ", virtual" } else { "" },
            self.placed_on,
            self.kernel,
            or(&self.governor),
            or(&self.clocksource),
            self.loadavg_start,
        )
    }
}

/// How a run was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCard {
    /// The command that repeats it.
    pub command: String,
    /// Version of the benchmark.
    pub version: String,
    /// Start, in seconds since 1970.
    pub began_s: u64,
    /// End, in seconds since 1970.
    pub ended_s: u64,
    /// Number of times that an interrupted run was resumed.
    pub resumed: u32,
}

/// Load of the machine during one step of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCard {
    /// Title of the step.
    pub title: String,
    /// Its duration.
    pub seconds: f64,
    /// CPUs that other processes used on average.
    pub foreign_cpus: f64,
    /// CPUs that the hypervisor took on average.
    pub stolen_cpus: f64,
}

/// One run. The rounds in `samples` are the run; `results` sums them up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// How it was made, if by `report`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunCard>,
    /// Where it ran.
    pub machine: Machine,
    /// Other libraries in the run, with their versions.
    #[serde(default)]
    pub libraries: Vec<(String, String)>,
    /// Load of the machine, step by step.
    #[serde(default)]
    pub steps: Vec<StepCard>,
    /// The results.
    pub results: Vec<Record>,
    /// The rounds of each result. Files of early versions have none.
    #[serde(default)]
    pub samples: Vec<Series>,
    /// Figures of other kinds.
    #[serde(default)]
    pub counts: Vec<Count>,
    /// Round trips cut into phases.
    #[serde(default)]
    pub phases: Vec<PhaseRecord>,
    /// Measurements that this machine cannot make, with the reason.
    #[serde(default)]
    pub skipped: Vec<String>,
    /// Measurements that failed, with the reason.
    #[serde(default)]
    pub failed: Vec<String>,
}
