//! The price of tracing, for the traced processes and for the tracer.

use super::event::whole_ns;
use crate::output::time;
use m3ipc::trace::{StampCost, StampScale};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Stamps and records of one call on both sides, where both processes are awake.
const CALL_STAMPS: f64 = 16.0;
const CALL_RECORDS: f64 = 4.0;

/// The cost of tracing.
#[derive(Clone, Copy, Debug)]
pub struct TraceCost {
    stamp_ns: f64,
    record_ns: f64,
    /// The share of one CPU that the tracer used.
    own_cpu: f64,
}

impl TraceCost {
    /// The cost, from the measured ticks of a stamp and a record, and from the tracer's run time.
    pub fn new(scale: &StampScale, cost: StampCost, took: Duration) -> Self {
        let tick_ns = scale.ns(1);
        Self {
            stamp_ns: tick_ns * cost.stamp,
            record_ns: tick_ns * cost.record,
            own_cpu: own_cpu_ns() as f64 / took.as_nanos().max(1) as f64,
        }
    }

    fn call_ns(&self) -> f64 {
        CALL_STAMPS * self.stamp_ns + CALL_RECORDS * self.record_ns
    }

    /// Adds the cost to the sums.
    pub fn add_to(&self, value: &mut serde_json::Value) {
        value["stamp_ns"] = self.stamp_ns.into();
        value["record_ns"] = self.record_ns.into();
        value["call_cost_ns"] = self.call_ns().into();
        value["own_cpu"] = self.own_cpu.into();
    }

    /// The cost in one line.
    pub fn text(&self) -> String {
        format!(
            "cost of tracing: {} per stamp, {} per record, so about {} of CPU per call (both \
             sides); the tracer used {:.1} % of a CPU",
            time(whole_ns(self.stamp_ns)),
            time(whole_ns(self.record_ns)),
            time(whole_ns(self.call_ns())),
            self.own_cpu * 100.0,
        )
    }
}

/// The CPU time of this process in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}
