//! The CPUs of the two sides.

use m3ipc_report::schema::{Claim, Placement};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::Error;
use crate::job::Role;

/// The CPUs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The client's CPU, and that of both sides on one CPU.
    pub first: usize,
    /// The server's CPU, if there is another.
    ///
    /// It is in the same package if possible, and a hyperthread of the first CPU only if no other
    /// CPU is left.
    pub second: Option<usize>,
    /// The number of CPUs that this process may use.
    pub allowed: usize,
}

impl Cpus {
    /// Reads the affinity of this process.
    pub fn find() -> Result<Self, Error> {
        let set = sched_getaffinity(None).map_err(Error::os("sched_getaffinity"))?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
        Ok(Self::choose(&allowed, core))
    }

    fn choose(allowed: &[usize], core: impl Fn(usize) -> (Option<u32>, Option<u32>)) -> Self {
        let first = allowed.first().copied().unwrap_or(0);
        let here = core(first);
        let rank = |&cpu: &usize| {
            let (package, id) = core(cpu);
            let sibling = package == here.0 && id == here.1 && id.is_some();
            (sibling, package != here.0)
        };
        let second = allowed.iter().copied().filter(|&cpu| cpu != first).min_by_key(rank);
        Self { first, second, allowed: allowed.len() }
    }

    /// Two CPUs if there are two, else this placement.
    pub fn apart_or(&self, otherwise: Placement) -> Placement {
        if self.second.is_some() { Placement::TwoCpus } else { otherwise }
    }

    /// What this machine says about the two CPUs, if there are two and it says anything.
    pub fn claim(&self) -> Option<Claim> {
        claimed(self.first, self.second?, core)
    }

    /// The CPU of this role, `None` where the kernel chooses.
    pub fn of(&self, placement: Placement, role: Role) -> Option<usize> {
        match (placement, role) {
            (Placement::Any, _) | (_, Role::Idle) => None,
            (Placement::TwoCpus, Role::Server) => self.second,
            (Placement::SameCpu | Placement::TwoCpus, _) => Some(self.first),
        }
    }
}

/// Pins this process to one CPU.
pub fn pin(cpu: usize) -> Result<(), Error> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(Error::os("sched_setaffinity"))
}

/// Whether these CPUs have one core, by the package and the core of each.
fn claimed(
    first: usize,
    second: usize,
    core: impl Fn(usize) -> (Option<u32>, Option<u32>),
) -> Option<Claim> {
    let (a, b) = (core(first), core(second));
    let is_known = a.1.is_some() && b.1.is_some();
    is_known.then_some(if a == b { Claim::OneCore } else { Claim::TwoCores })
}

/// Package and core of a CPU, as lscpu shows them.
fn core(cpu: usize) -> (Option<u32>, Option<u32>) {
    (topology(cpu, "physical_package_id"), topology(cpu, "core_id"))
}

fn topology(cpu: usize, what: &str) -> Option<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{what}");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_core_of_the_same_package_is_preferred() {
        // CPUs 0 and 1 are siblings, CPU 2 is in another package.
        let core = |cpu| match cpu {
            0 | 1 => (Some(0), Some(0)),
            2 => (Some(1), Some(0)),
            _ => (Some(0), Some(1)),
        };
        assert_eq!(Cpus::choose(&[0, 1, 2, 3], core).second, Some(3));
        assert_eq!(Cpus::choose(&[0, 1, 2], core).second, Some(2));
        assert_eq!(Cpus::choose(&[0, 1], core).second, Some(1));
        assert_eq!(Cpus::choose(&[4], core), Cpus { first: 4, second: None, allowed: 1 });
        assert_eq!(claimed(0, 1, core), Some(Claim::OneCore));
        assert_eq!(claimed(0, 3, core), Some(Claim::TwoCores));
        assert_eq!(claimed(0, 3, |_| (None, None)), None);
    }
}
