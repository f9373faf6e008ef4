//! The CPUs that this process may use.

use rustix::thread::{CpuSet, sched_getaffinity};

/// The CPUs in ascending order; none if the kernel refuses the call.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return vec![] };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Two CPUs, of two cores if possible.
pub fn two() -> Option<(usize, usize)> {
    let cpus = allowed();
    let (&first, others) = cpus.split_first()?;
    let is_sibling = |cpu: &&usize| core(**cpu) == core(first) && core(first).is_some();
    let second = others.iter().find(|cpu| !is_sibling(cpu)).or(others.first())?;
    Some((first, *second))
}

/// Package and core of a CPU.
fn core(cpu: usize) -> Option<(String, String)> {
    let read = |what| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{what}")).ok()
    };
    Some((read("physical_package_id")?, read("core_id")?))
}
