//! Pairs: the memory of two parties that have met, with a slot for each of their connections.
//!
//! A pool is written by one side and read by the other: the writer maps it, says so, the daemon seals it
//! against any new writer, and only then the reader gets it.

use super::fail;
use super::port::Answer;
use crate::server::Server;
use core::sync::atomic::Ordering;
use m3ipc_shm::Shared;
use m3ipc_sys::Errno;
use m3ipc_wire::Reply;
use m3ipc_wire::sock::{
    SOCK_CONTROL_BYTES, SOCK_HEAD_BYTES, SOCK_POOL_BYTES, SOCK_SEPARATED, SOCK_SLOT_BYTES,
    SOCK_SLOTS, half,
};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Pairs that one user's parties may be in.
const PAIRS_MAX: usize = 4_096;

/// An address of a side of a connection.
pub(crate) type Name = (u32, u16);

/// One connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) used: bool,
    closed: [bool; 2],
    /// It was prepared: the connecting side says when it is open.
    spare: bool,
    pub(crate) names: [Name; 2],
}

/// What two parties share.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) parties: [u64; 2],
    pub(crate) view: Shared,
    /// Until both sides have mapped it.
    control: Option<Rc<OwnedFd>>,
    /// Each until the other side has got it.
    pools: [Option<Rc<OwnedFd>>; 2],
    sealed: [bool; 2],
    pub(crate) slots: Vec<Slot>,
}

impl Pair {
    fn new(parties: [u64; 2]) -> Result<Self, Errno> {
        let control = m3ipc_sys::create_sparse("m3-sock", SOCK_CONTROL_BYTES as u64, false)?;
        let pool = || {
            m3ipc_sys::create_sparse("m3-pool", SOCK_POOL_BYTES as u64, false)
                .map(Rc::new)
                .map(Some)
        };
        let view = Shared::map_sparse(&control, SOCK_CONTROL_BYTES)?;
        let pools = [pool()?, pool()?];
        m3ipc_sys::seal_seals(&control)?;
        let slots = vec![Slot::default(); SOCK_SLOTS];
        Ok(Self {
            parties,
            view,
            control: Some(Rc::new(control)),
            pools,
            sealed: [false; 2],
            slots,
        })
    }

    /// What a side needs that has not said yet that it mapped the pair.
    pub(crate) fn fds(&self, side: usize) -> Vec<Rc<OwnedFd>> {
        match (&self.control, &self.pools[side]) {
            (Some(control), Some(pool)) if !self.sealed[side] => {
                vec![Rc::clone(control), Rc::clone(pool)]
            }
            _ => Vec::new(),
        }
    }

    /// A slot for a connection, all zeros.
    fn take_slot(&mut self, names: [Name; 2]) -> Option<usize> {
        let at = self.slots.iter().position(|slot| !slot.used)?;
        self.slots[at] = Slot { used: true, closed: [false; 2], spare: false, names };
        let zeros = [0; SOCK_SLOT_BYTES];
        self.view.write(SOCK_HEAD_BYTES + at * SOCK_SLOT_BYTES, &zeros);
        Some(at)
    }

    /// A slot for a connection that may be opened later; none where a side has not mapped the pair yet.
    pub(crate) fn prepare_slot(&mut self, names: [Name; 2]) -> Option<usize> {
        let at = if self.sealed == [true; 2] { self.take_slot(names)? } else { return None };
        self.slots[at].spare = true;
        Some(at)
    }

    /// Whether a slot is one of a connection, and not of one that was prepared and never opened.
    pub(crate) fn is_open(&self, at: usize) -> bool {
        let word = SOCK_HEAD_BYTES + at * SOCK_SLOT_BYTES + half::OPENED;
        let slot = &self.slots[at];
        slot.used && (!slot.spare || self.view.word64(word).load(Ordering::Relaxed) != 0)
    }

    pub(crate) fn leave_slot(&mut self, at: usize) {
        self.slots[at].used = false;
    }
}

impl Server {
    /// A slot between two parties, the connecting one first: its pair, and where it is there.
    pub(super) fn take_slot(
        &mut self,
        parties: [u64; 2],
        names: [Name; 2],
    ) -> Result<(u64, usize), Errno> {
        let known = self.socks.between.get(&(parties[0], parties[1])).cloned().unwrap_or_default();
        for id in &known {
            if let Some(at) = self.socks.pairs.get_mut(id).and_then(|pair| pair.take_slot(names)) {
                return Ok((*id, at));
            }
        }
        let uid = self.party_uid(parties[0]);
        let has = |pair: &&Pair| pair.parties.iter().any(|party| self.party_uid(*party) == uid);
        if uid != 0 && self.socks.pairs.values().filter(has).count() >= PAIRS_MAX {
            return Err(Errno::NOBUFS);
        }
        let mut pair = Pair::new(parties)?;
        let at = pair.take_slot(names).ok_or(Errno::NOBUFS)?;
        self.socks.next_pair += 1;
        let id = self.socks.next_pair;
        self.socks.pairs.insert(id, pair);
        self.socks.between.entry((parties[0], parties[1])).or_default().push(id);
        Ok((id, at))
    }

    fn pair_of(&mut self, token: u64, id: u64, side: u8) -> Option<(&mut Pair, usize)> {
        let pair = self.socks.pairs.get_mut(&id)?;
        let side = usize::from(side);
        (pair.parties.get(side) == Some(&token)).then_some((pair, side))
    }

    pub(super) fn pair_mapped(&mut self, token: u64, id: u64, side: u8) {
        let Some((pair, side)) = self.pair_of(token, id, side) else { return };
        if pair.sealed[side] {
            return;
        }
        let Some(pool) = &pair.pools[side] else { return };
        match m3ipc_sys::seal_against_new_writers(pool) {
            Ok(()) => {
                pair.sealed[side] = true;
                if pair.sealed == [true; 2] {
                    pair.control = None;
                }
            }
            Err(errno) => tracing::error!(%errno, "a pool cannot be sealed"),
        }
    }

    pub(super) fn peer_pool(&mut self, token: u64, id: u64, side: u8) -> Answer {
        let Some((pair, side)) = self.pair_of(token, id, side) else {
            return fail(Errno::NOENT, "there is no such pair (any more)");
        };
        if !pair.sealed[1 - side] {
            return fail(Errno::AGAIN, "the other side has not mapped its pool yet");
        }
        match pair.pools[1 - side].take() {
            Some(pool) => Ok((Reply::Done, vec![pool])),
            None => fail(Errno::ALREADY, "the other side's pool was given already"),
        }
    }

    pub(super) fn forget_pair(&mut self, token: u64, id: u64, side: u8) -> Answer {
        let Some((pair, _)) = self.pair_of(token, id, side) else {
            return fail(Errno::NOENT, "there is no such pair (any more)");
        };
        if pair.slots.iter().any(|slot| slot.used) {
            return fail(Errno::BUSY, "a connection of the pair is in use");
        }
        let parties = (pair.parties[0], pair.parties[1]);
        self.socks.pairs.remove(&id);
        if let Some(known) = self.socks.between.get_mut(&parties) {
            known.retain(|other| *other != id);
        }
        Ok((Reply::Done, Vec::new()))
    }

    pub(super) fn side_closed(&mut self, token: u64, id: u64, side: u8, slot: u16) {
        let Some((pair, side)) = self.pair_of(token, id, side) else { return };
        let Some(slot) = pair.slots.get_mut(usize::from(slot)) else { return };
        slot.closed[side] = true;
        slot.used &= !(slot.closed[0] && slot.closed[1]);
    }

    /// Both may go on with what they have mapped; nothing new comes to it.
    pub(super) fn drop_pairs(&mut self, token: u64) {
        for pair in self.socks.pairs.values().filter(|pair| pair.parties.contains(&token)) {
            // What was prepared is not opened any more.
            pair.view.word64(SOCK_SEPARATED).store(1, Ordering::Release);
        }
        self.socks.pairs.retain(|_, pair| !pair.parties.contains(&token));
        self.socks.between.retain(|(one, other), _| *one != token && *other != token);
    }
}
