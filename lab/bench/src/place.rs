//! Which CPUs the two sides get.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::Error;
use crate::job::{Placement, Side};

/// The CPUs that measurements use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The client's; both sides' on one CPU.
    pub first: usize,
    /// The server's, where there is another: of the same package if possible, never a hyperthread of the
    /// first if there is a choice.
    pub second: Option<usize>,
    /// How many this process may use.
    pub allowed: usize,
}

impl Cpus {
    /// Looks at what this process may use.
    ///
    /// # Errors
    /// Where the kernel does not say.
    pub fn find() -> Result<Self, Error> {
        let set = sched_getaffinity(None).map_err(Error::os("sched_getaffinity"))?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
        Ok(Self::choose(&allowed, |cpu| {
            (topology(cpu, "physical_package_id"), topology(cpu, "core_id"))
        }))
    }

    fn choose(allowed: &[usize], core: impl Fn(usize) -> (Option<u32>, Option<u32>)) -> Self {
        let first = allowed.first().copied().unwrap_or(0);
        let here = core(first);
        let rank = |cpu: usize| {
            let (package, id) = core(cpu);
            let sibling = package == here.0 && id == here.1 && id.is_some();
            (sibling, package != here.0)
        };
        let second =
            allowed.iter().copied().filter(|&cpu| cpu != first).min_by_key(|&cpu| rank(cpu));
        Self { first, second, allowed: allowed.len() }
    }

    /// The CPU of this side, `None` for wherever the kernel puts it.
    #[must_use]
    pub fn of(&self, placement: Placement, side: Side) -> Option<usize> {
        match (placement, side) {
            (Placement::Any, _) | (_, Side::Idle) => None,
            (Placement::SameCpu, _) | (Placement::TwoCpus, Side::Client | Side::Source) => {
                Some(self.first)
            }
            (Placement::TwoCpus, Side::Server) => self.second,
        }
    }
}

/// Pins this process to one CPU.
///
/// # Errors
/// Where it may not use it.
pub fn pin(cpu: usize) -> Result<(), Error> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(Error::os("sched_setaffinity"))
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
        // Four CPUs: 0 and 1 are siblings, 2 sits in another package, 3 is right.
        let core = |cpu| match cpu {
            0 | 1 => (Some(0), Some(0)),
            2 => (Some(1), Some(0)),
            _ => (Some(0), Some(1)),
        };
        assert_eq!(Cpus::choose(&[0, 1, 2, 3], core).second, Some(3));
        assert_eq!(Cpus::choose(&[0, 1, 2], core).second, Some(2));
        assert_eq!(Cpus::choose(&[0, 1], core).second, Some(1));
        assert_eq!(Cpus::choose(&[4], core), Cpus { first: 4, second: None, allowed: 1 });
    }
}
