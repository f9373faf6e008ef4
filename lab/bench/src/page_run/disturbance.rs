//! CPU time of other processes, and of the hypervisor, during a step.

use m3ipc_report::schema::StepCard;

use crate::clock::{cpu_ns, monotonic_ns};
use crate::raw;

/// The state of the machine at the begin of a step.
pub struct Disturbance {
    start_ns: u64,
    own_ns: u64,
    machine: Ticks,
}

/// CPU time of the whole machine since its start, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    stolen: u64,
}

impl Disturbance {
    /// Begins a step.
    pub fn start() -> Self {
        Self { start_ns: monotonic_ns(), own_ns: own_ns(), machine: ticks() }
    }

    /// Ends the step. The node daemon is no child and counts as another process; it hardly runs.
    pub fn end(self, title: &str) -> StepCard {
        let wall_ns = monotonic_ns().saturating_sub(self.start_ns).max(1) as f64;
        let own_ns = own_ns().saturating_sub(self.own_ns) as f64;
        let (now, before) = (ticks(), self.machine);
        let per_s = rustix::param::clock_ticks_per_second().max(1) as f64;
        let ns = |now: u64, before: u64| now.saturating_sub(before) as f64 * 1e9 / per_s;
        let hundredth = |value: f64| (value.max(0.0) * 100.0).round() / 100.0;
        StepCard {
            title: title.into(),
            seconds: hundredth(wall_ns / 1e9),
            foreign_cpus: hundredth((ns(now.busy, before.busy) - own_ns) / wall_ns),
            stolen_cpus: hundredth(ns(now.stolen, before.stolen) / wall_ns),
        }
    }
}

/// CPU time of this process and of its ended children.
fn own_ns() -> u64 {
    cpu_ns() + raw::usage_of_children().cpu_ns
}

fn ticks() -> Ticks {
    parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// The first line: user, nice, system, idle, iowait, irq, softirq, steal.
fn parse(stat: &str) -> Ticks {
    let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let fields: Vec<u64> = words.map(|field| field.parse().unwrap_or(0)).collect();
    let at = |number: usize| fields.get(number).copied().unwrap_or(0);
    Ticks { busy: at(0) + at(1) + at(2) + at(5) + at(6), stolen: at(7) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_stolen_time_is_not_busy() {
        let ticks = parse("cpu  10 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4\n");
        assert_eq!(ticks, Ticks { busy: 73, stolen: 8 });
        assert_eq!(parse(""), Ticks::default());
    }
}
