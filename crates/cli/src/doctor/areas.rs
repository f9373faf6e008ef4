//! Requirements of areas: fixed addresses, huge pages, and the seal against all writers.

use super::finding::{Finding, read};
use m3ipc_sys::{FixedMapping, create_sparse, reserve_memory, seal_against_writing};
use rustix::io::Errno;

/// The first address of areas.
const START: u64 = 0x2000_0000_0000;
/// The first address of areas in programs whose tools take those.
const LOW_START: u64 = 64 << 30;
const BYTES: usize = 2 << 20;

/// Runs the checks of this group.
pub fn examine() -> Vec<Finding> {
    vec![addresses(), sealing(), pool(), transparent()]
}

fn addresses() -> Finding {
    let name = "addresses of areas";
    let map_at = |start| {
        create_sparse("m3-doctor", BYTES as u64, false).and_then(|memory| {
            reserve_memory(&memory, 0, m3ipc_sys::page_bytes())?;
            FixedMapping::new(&memory, start, BYTES, true).map(drop)
        })
    };
    match map_at(START) {
        Ok(()) => Finding::ok(name, format!("free from {START:#x}, and memory grows there")),
        Err(Errno::EXIST) if map_at(LOW_START).is_ok() => Finding::off(
            name,
            format!("{} lies at {START:#x}", occupant()),
            format!("areas of such a program begin at {LOW_START:#x}"),
        ),
        Err(Errno::EXIST) => Finding::missing(
            name,
            format!("{} lies at {START:#x}, and {LOW_START:#x} is not free", occupant()),
            "areas cannot be attached; run without the sanitizer or emulator that maps it",
        ),
        Err(errno) => Finding::missing(
            name,
            format!("cannot be mapped: {errno}"),
            "raise the limit of address space (ulimit -v): blocks and large payloads need areas",
        ),
    }
}

fn occupant() -> String {
    let occupant = m3ipc_sys::occupant_of(START..START + BYTES as u64);
    occupant.unwrap_or_else(|| "another mapping".to_owned())
}

/// The kernel must refuse the seal while a writer exists, and grant it afterwards.
fn sealing() -> Finding {
    let name = "seal of an area";
    type Sealed = Result<(), Errno>;
    let attempts = || -> Result<(Sealed, Sealed), Errno> {
        let memory = create_sparse("m3-doctor", BYTES as u64, false)?;
        let mapping = FixedMapping::new(&memory, START, BYTES, true)?;
        let early = seal_against_writing(&memory);
        mapping.renounce_writing(&memory)?;
        Ok((early, seal_against_writing(&memory)))
    };
    match attempts() {
        Ok((Err(Errno::BUSY), Ok(()))) => {
            Finding::ok(name, "refused while a process can write, granted after all renounced")
        }
        Ok((early, late)) => Finding::missing(
            name,
            format!("while a process can write: {early:?}; after all renounced: {late:?}"),
            "do not rely on sealed areas on this kernel",
        ),
        Err(errno) => Finding::note(name, format!("the trial failed: {errno}")),
    }
}

fn pool() -> Finding {
    let name = "huge pages of the pool";
    // Areas use this size, whatever the default of the machine is.
    let free = read("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    match free.and_then(|text| text.parse::<u64>().ok()) {
        Some(0) => Finding::off(
            name,
            "none free",
            "areas of huge pages get no memory (-12), others do; raise vm.nr_hugepages",
        ),
        Some(free) => Finding::ok(name, format!("{free} of 2048 KiB are free")),
        None => Finding::off(name, "none of 2 MiB here", "areas cannot have pages of the pool"),
    }
}

fn transparent() -> Finding {
    let name = "transparent huge pages";
    let text = read("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    let chosen = text.split(['[', ']']).nth(1).unwrap_or("").to_owned();
    match chosen.as_str() {
        "" => Finding::off(name, "the kernel does not report them", "areas have small pages"),
        "never" | "deny" => Finding::off(
            name,
            format!("{chosen} for shared memory"),
            "areas have small pages; write `advise` to transparent_hugepage/shmem_enabled",
        ),
        chosen => Finding::ok(name, format!("{chosen} for shared memory")),
    }
}
