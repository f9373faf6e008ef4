//! Blocks allocated and freed in one process: of a thousand, the oldest goes, a new one comes.
//!
//! ```text
//! area-pool   blocks of an area
//! allocator   the allocator of areas alone: private tables without a ledger
//! malloc      the allocator of the C library
//! ```

use std::collections::VecDeque;
use std::hint::black_box;

use fastrand::Rng;
use m3ipc::{AreaConfig, Block};
use m3ipc_area::{Allocator, BlockLifetime, UNIT_BYTES};
use m3ipc_report::PAGE_BYTES;
use m3ipc_report::schema::{Family, Wait};

use crate::ends::ClientEnd;
use crate::error::Error;
use crate::job::{Load, Report, Test};
use crate::payload::Message;
use crate::random;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::node::{BenchVm, VmPeer};

/// Allocated blocks.
const BLOCKS: usize = 1_000;
/// Room for them, whatever their sizes, as a multiple.
const ROOM_FACTOR: usize = 4;

/// Blocks of an area.
pub struct AreaPool;
/// The allocator of areas.
pub struct PrivateTables;
/// malloc(3).
pub struct Malloc;

fn waits(load: &Load) -> &'static [Wait] {
    if load.test == Test::Pool { &[Wait::Spin] } else { &[] }
}

fn room_bytes(run: &Run) -> u64 {
    (run.load().bytes.max(PAGE_BYTES) * BLOCKS * ROOM_FACTOR) as u64
}

impl Subject for AreaPool {
    fn name(&self) -> &'static str {
        "area-pool"
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        waits(load)
    }

    fn open(&self, site: &Site, _: &Load) -> Result<Opened, Error> {
        let vm = BenchVm::open(site)?;
        Ok(Opened::alone(vm.inherited("server")).keeping(vm))
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let peer = VmPeer::new(&inherited)?;
        let mut endpoint = peer.bind_with(Wait::Adaptive)?;
        let area = endpoint.create_area(&AreaConfig::vm(room_bytes(run)));
        let area = area.map_err(Error::of("make an area"))?;
        run.drive(Turnover::new(run, |bytes, old: Option<Block>| {
            drop(old);
            let block = endpoint.allocate(&area, bytes as u64, BlockLifetime::Short);
            block.map_err(Error::of("allocate"))
        })?)
    }
}

impl Subject for PrivateTables {
    fn name(&self) -> &'static str {
        "allocator"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        waits(load)
    }

    fn open(&self, _: &Site, _: &Load) -> Result<Opened, Error> {
        Ok(Opened::alone(Inherited::default()))
    }

    fn run(&self, run: &Run, _: Inherited) -> Result<Report, Error> {
        let mut tables = Allocator::default();
        tables.add(0, room_bytes(run));
        let full = || Error::Usage("the allocator is full with a quarter of it allocated".into());
        run.drive(Turnover::new(run, |bytes, old: Option<(u64, u64)>| {
            if let Some((offset, bytes)) = old {
                tables.give(offset, bytes);
            }
            let bytes = (bytes as u64).next_multiple_of(UNIT_BYTES);
            let offset = tables.take(bytes, UNIT_BYTES, BlockLifetime::Short).ok_or_else(full)?;
            Ok((offset, bytes))
        })?)
    }
}

impl Subject for Malloc {
    fn name(&self) -> &'static str {
        "malloc"
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        waits(load)
    }

    fn open(&self, _: &Site, _: &Load) -> Result<Opened, Error> {
        Ok(Opened::alone(Inherited::default()))
    }

    fn run(&self, run: &Run, _: Inherited) -> Result<Report, Error> {
        run.drive(Turnover::new(run, |bytes, old: Option<Vec<u8>>| {
            drop(black_box(old));
            Ok(black_box(Vec::with_capacity(bytes)))
        })?)
    }
}

/// A trip frees the oldest block and allocates a new one of a random size.
struct Turnover<T, F> {
    blocks: VecDeque<T>,
    rng: Rng,
    most: usize,
    replace: F,
}

impl<T, F: FnMut(usize, Option<T>) -> Result<T, Error>> Turnover<T, F> {
    /// `replace` frees an old block, if there is one, and allocates a new one.
    fn new(run: &Run, mut replace: F) -> Result<Self, Error> {
        let (most, mut rng) = (run.load().bytes, Rng::with_seed(1));
        let first = |_| replace(random::size(&mut rng, most), None);
        let blocks = (0..BLOCKS).map(first).collect::<Result<_, _>>()?;
        Ok(Self { blocks, rng, most, replace })
    }
}

impl<T, F: FnMut(usize, Option<T>) -> Result<T, Error>> ClientEnd for Turnover<T, F> {
    #[inline]
    fn trip(&mut self, _: &Message, _: &mut Message) -> Result<(), Error> {
        let old = self.blocks.pop_front();
        let new = (self.replace)(random::size(&mut self.rng, self.most), old)?;
        self.blocks.push_back(new);
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
