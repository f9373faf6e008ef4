//! A pair: the shared memory of two parties, with a slot for each of their connections.
//!
//! One side writes a pool and the other side reads it. The writer maps the pool first and says so.
//! The daemon then seals the pool against any other writer. Only then does the reader get it.

use crate::quota::Charge;
use crate::state::member_fd::MemberFd;
use crate::token::Token;
use core::sync::atomic::Ordering;
use m3ipc_shm::Shared;
use m3ipc_sys::Errno;
use m3ipc_wire::sock::{
    SOCK_CONTROL_BYTES, SOCK_HEAD_BYTES, SOCK_POOL_BYTES, SOCK_SEPARATED, SOCK_SLOT_BYTES,
    SOCK_SLOTS, half,
};
use std::rc::Rc;

/// The name of one end of a connection: address and port.
pub(crate) type EndpointName = (u32, u16);

/// The number of a pair. No other pair of the node gets it, not even under a later daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PairId(u64);

impl PairId {
    /// The number before those of this daemon.
    pub(super) fn before_first() -> Self {
        // Members still name pairs of the predecessor, so the numbers must differ from its own.
        Self(m3ipc_sys::monotonic_ns())
    }

    /// The next number.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The number in frames.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// One end of a pair, as its party names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairEnd {
    pair: PairId,
    side: u8,
}

impl PairEnd {
    /// The end that a frame names.
    pub(crate) fn named(pair: u64, side: u8) -> Self {
        Self { pair: PairId(pair), side }
    }

    pub(crate) fn pair(self) -> PairId {
        self.pair
    }

    pub(crate) fn side(self) -> usize {
        usize::from(self.side)
    }
}

/// The slot of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PairSlot {
    used: bool,
    closed: [bool; 2],
    /// Whether the connection was prepared. The connecting side opens it by a word of the slot.
    prepared: bool,
    pub(crate) names: [EndpointName; 2],
}

/// The memory that two parties share.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) parties: [Token; 2],
    view: Shared,
    /// The control region, until both sides have mapped it.
    control: Option<Rc<MemberFd>>,
    /// Each side's pool, until the other side has got it.
    pools: [Option<Rc<MemberFd>>; 2],
    sealed: [bool; 2],
    slots: Vec<PairSlot>,
    _charges: Vec<Charge>,
}

impl Pair {
    /// Size of the memory of a pair, in bytes.
    pub(crate) const BYTES: u64 = (SOCK_CONTROL_BYTES + 2 * SOCK_POOL_BYTES) as u64;

    /// A pair whose memory `charges` count, and whose descriptors `held` count: one each.
    pub(super) fn new(
        parties: [Token; 2],
        charges: Vec<Charge>,
        held: [Vec<Charge>; 3],
    ) -> Result<Self, Errno> {
        let [of_control, of_first, of_second] = held;
        let control = m3ipc_sys::create_sparse("m3-sock", SOCK_CONTROL_BYTES as u64, false)?;
        let pool = || m3ipc_sys::create_sparse("m3-pool", SOCK_POOL_BYTES as u64, false);
        let pools = [
            Some(Rc::new(MemberFd::charged(pool()?, of_first))),
            Some(Rc::new(MemberFd::charged(pool()?, of_second))),
        ];
        let view = Shared::map_sparse(&control, SOCK_CONTROL_BYTES)?;
        m3ipc_sys::seal_seals(&control)?;
        let slots = vec![PairSlot::default(); SOCK_SLOTS];
        let control = Some(Rc::new(MemberFd::charged(control, of_control)));
        Ok(Self { parties, view, control, pools, sealed: [false; 2], slots, _charges: charges })
    }

    /// The descriptors for a side that has not mapped the pair yet: control region and own pool.
    pub(crate) fn fds(&self, side: usize) -> Vec<Rc<MemberFd>> {
        match (&self.control, &self.pools[side]) {
            (Some(control), Some(pool)) if !self.sealed[side] => {
                vec![Rc::clone(control), Rc::clone(pool)]
            }
            _ => Vec::new(),
        }
    }

    /// Records that a side has mapped the pair, and seals its pool.
    pub(crate) fn mapped(&mut self, side: usize) -> Result<(), Errno> {
        if self.sealed[side] {
            return Ok(());
        }
        let Some(pool) = &self.pools[side] else { return Ok(()) };
        m3ipc_sys::seal_against_new_writers(pool)?;
        self.sealed[side] = true;
        if self.sealed == [true; 2] {
            self.control = None;
        }
        Ok(())
    }

    pub(crate) fn is_mapped_by(&self, side: usize) -> bool {
        self.sealed[side]
    }

    /// Takes the pool of a side, for the other side.
    pub(crate) fn take_pool(&mut self, side: usize) -> Option<Rc<MemberFd>> {
        self.pools[side].take()
    }

    /// A slot for a connection, filled with zeros.
    pub(super) fn take_slot(&mut self, names: [EndpointName; 2]) -> Option<usize> {
        let at = self.slots.iter().position(|slot| !slot.used)?;
        self.slots[at] = PairSlot { used: true, closed: [false; 2], prepared: false, names };
        let zeros = [0; SOCK_SLOT_BYTES];
        self.view.write(SOCK_HEAD_BYTES + at * SOCK_SLOT_BYTES, &zeros);
        Some(at)
    }

    /// A slot for a prepared connection; `None` before both sides have mapped the pair.
    pub(crate) fn prepare_slot(&mut self, names: [EndpointName; 2]) -> Option<usize> {
        if self.sealed != [true; 2] {
            return None;
        }
        let at = self.take_slot(names)?;
        self.slots[at].prepared = true;
        Some(at)
    }

    pub(crate) fn release_slot(&mut self, at: usize) {
        self.slots[at].used = false;
    }

    /// Records that a side has closed a connection. The slot is free after both closes.
    pub(crate) fn side_closed(&mut self, side: usize, at: usize) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        slot.closed[side] = true;
        slot.used &= !(slot.closed[0] && slot.closed[1]);
    }

    /// Whether a slot is in use, also by a prepared connection.
    pub(crate) fn has_used_slots(&self) -> bool {
        self.slots.iter().any(|slot| slot.used)
    }

    pub(crate) fn slot(&self, at: usize) -> Option<&PairSlot> {
        self.slots.get(at)
    }

    /// The open connections, by slot. A prepared connection is open once its word says so.
    pub(crate) fn open_slots(&self) -> impl Iterator<Item = (usize, &PairSlot)> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(at, slot)| slot.used && (!slot.prepared || self.word(*at, half::OPENED) != 0))
    }

    /// A word of a slot.
    pub(crate) fn word(&self, at: usize, offset: usize) -> u64 {
        let offset = SOCK_HEAD_BYTES + at * SOCK_SLOT_BYTES + offset;
        self.view.word64(offset).load(Ordering::Relaxed)
    }

    /// Forbids the parties to open prepared connections.
    pub(super) fn forbid_opening(&self) {
        self.view.word64(SOCK_SEPARATED).store(1, Ordering::Release);
    }
}
