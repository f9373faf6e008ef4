//! The CPUs of this process.

use rustix::thread::{CpuSet, sched_getaffinity};

/// The CPUs that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// Their numbers, in order; empty where the kernel reports none.
    pub allowed: Vec<usize>,
}

/// The position of a CPU: its package and its core, where the kernel reports them.
type Core = (Option<u32>, Option<u32>);

impl Cpus {
    /// Reads the affinity mask of this process.
    pub fn allowed() -> Self {
        let is_set = |set: CpuSet| (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
        Self { allowed: sched_getaffinity(None).map(is_set).unwrap_or_default() }
    }

    /// Two CPUs for a client and a server; `None` where there is only one.
    ///
    /// Hyperthreads of one core share its caches and its units. The second CPU is therefore on
    /// another core of the same package, if the machine has such a CPU.
    pub fn pair(&self) -> Option<(usize, usize)> {
        self.pair_by(|cpu| (topology(cpu, "physical_package_id"), topology(cpu, "core_id")))
    }

    fn pair_by(&self, core: impl Fn(usize) -> Core) -> Option<(usize, usize)> {
        let (&first, others) = self.allowed.split_first()?;
        let (package, id) = core(first);
        let rank = |cpu: usize| {
            let other = core(cpu);
            let is_sibling = other == (package, id) && id.is_some();
            (is_sibling, other.0 != package)
        };
        let second = others.iter().copied().min_by_key(|&cpu| rank(cpu))?;
        Some((first, second))
    }
}

fn topology(cpu: usize, name: &str) -> Option<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_cpu_is_another_core_of_the_same_package() {
        let cpus = |allowed: &[usize]| Cpus { allowed: allowed.to_vec() };
        // CPU n is on package n / 4 and core n / 2.
        let number = |cpu: usize| u32::try_from(cpu).ok();
        let core = |cpu: usize| (number(cpu / 4), number(cpu / 2));
        assert_eq!(cpus(&[0, 1, 2, 4]).pair_by(core), Some((0, 2)));
        assert_eq!(cpus(&[0, 1, 4]).pair_by(core), Some((0, 4)));
        assert_eq!(cpus(&[0, 1]).pair_by(core), Some((0, 1)));
        assert_eq!(cpus(&[3]).pair_by(core), None);
        assert_eq!(cpus(&[5, 6]).pair_by(|_| (None, None)), Some((5, 6)));
    }
}
