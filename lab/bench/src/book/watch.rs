//! What else the machine did while a step was measured: CPU time of others, and time that the hypervisor took.

use crate::book::StepCard;
use crate::clock::{cpu_ns, monotonic_ns};
use crate::raw;

/// A step that is being measured.
pub struct Watch {
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

impl Watch {
    /// Begins to watch.
    #[must_use]
    pub fn start() -> Self {
        Self { start_ns: monotonic_ns(), own_ns: own_ns(), machine: ticks() }
    }

    /// What went on until now. The node's daemon counts as another: it is nobody's child, and hardly runs.
    #[must_use]
    pub fn end(self, title: &str) -> StepCard {
        let wall_ns = monotonic_ns().saturating_sub(self.start_ns).max(1) as f64;
        let own_ns = own_ns().saturating_sub(self.own_ns) as f64;
        let now = ticks();
        let per_s = rustix::param::clock_ticks_per_second().max(1) as f64;
        let ns = |ticks: u64| ticks as f64 * 1e9 / per_s;
        let busy_ns = ns(now.busy.saturating_sub(self.machine.busy));
        let stolen_ns = ns(now.stolen.saturating_sub(self.machine.stolen));
        let hundredth = |value: f64| (value.max(0.0) * 100.0).round() / 100.0;
        StepCard {
            title: title.into(),
            seconds: hundredth(wall_ns / 1e9),
            foreign_cpus: hundredth((busy_ns - own_ns) / wall_ns),
            stolen_cpus: hundredth(stolen_ns / wall_ns),
        }
    }
}

/// CPU time of this process and of its children that have ended.
fn own_ns() -> u64 {
    cpu_ns() + raw::usage_of_children().cpu_ns
}

fn ticks() -> Ticks {
    parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// The first line: user, nice, system, idle, iowait, irq, softirq, steal.
fn parse(stat: &str) -> Ticks {
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> =
        line.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
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
