//! What areas need: their addresses, their pages, and the kernel's word that nobody writes any more.

use super::{Finding, read};
use m3ipc_sys::{FixedMapping, create_sparse, reserve_memory, seal_against_writing};
use rustix::io::Errno;

/// Where areas begin.
const START: u64 = 0x2000_0000_0000;
const BYTES: usize = 2 << 20;

pub fn examine() -> Vec<Finding> {
    vec![addresses(), sealing(), pool(), transparent()]
}

fn addresses() -> Finding {
    let name = "addresses of areas";
    let mapped = create_sparse("m3-doctor", BYTES as u64, false).and_then(|memory| {
        reserve_memory(&memory, 0, 4096)?;
        FixedMapping::new(&memory, START, BYTES, true)
    });
    match mapped {
        Ok(_) => Finding::ok(name, format!("free from {START:#x} on, and memory grows there")),
        Err(Errno::EXIST) => Finding::missing(
            name,
            format!("something is mapped at {START:#x}"),
            "areas cannot be attached; run without what maps it (a sanitizer, an emulator)",
        ),
        Err(errno) => Finding::missing(
            name,
            format!("cannot be mapped: {errno}"),
            "raise the limit of address space (ulimit -v); blocks and large payloads need areas",
        ),
    }
}

/// Nobody can write after both have renounced: tried with one side.
fn sealing() -> Finding {
    let name = "seal of an area";
    type Tried = Result<(), Errno>;
    let tried = || -> Result<(Tried, Tried), Errno> {
        let memory = create_sparse("m3-doctor", BYTES as u64, false)?;
        let mapping = FixedMapping::new(&memory, START, BYTES, true)?;
        let early = seal_against_writing(&memory);
        mapping.renounce_writing(&memory)?;
        Ok((early, seal_against_writing(&memory)))
    };
    match tried() {
        Ok((Err(Errno::BUSY), Ok(()))) => {
            Finding::ok(name, "refused while somebody can write, granted when all have renounced")
        }
        Ok((early, late)) => Finding::missing(
            name,
            format!("while somebody can write: {early:?}; when nobody can: {late:?}"),
            "do not rely on sealed areas on this kernel",
        ),
        Err(errno) => Finding::note(name, format!("could not be tried: {errno}")),
    }
}

fn pool() -> Finding {
    let name = "huge pages of the pool";
    let memory = read("/proc/meminfo").unwrap_or_default();
    let number = |key: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    match (number("HugePages_Free"), number("Hugepagesize")) {
        (Some(0), Some(_)) => Finding::off(
            name,
            "none free",
            "areas of huge pages find no memory (-12); others are not touched by that (vm.nr_hugepages)",
        ),
        (Some(free), Some(kib)) => Finding::ok(name, format!("{free} of {kib} KiB are free")),
        _ => Finding::off(name, "not in this kernel", "areas of huge pages cannot be made"),
    }
}

fn transparent() -> Finding {
    let name = "huge pages by themselves";
    let text = read("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    let chosen = text.split(['[', ']']).nth(1).unwrap_or("").to_owned();
    match chosen.as_str() {
        "" => Finding::off(name, "the kernel does not say", "areas have small pages"),
        "never" | "deny" => Finding::off(
            name,
            format!("{chosen} for shared memory"),
            "areas have small pages; write advise to transparent_hugepage/shmem_enabled",
        ),
        chosen => Finding::ok(name, format!("{chosen} for shared memory")),
    }
}
