//! Lying still: the party's side of the berth, and how a requester gets one.

use super::serve::Serving;
use super::state::Probe;
use super::{Copying, Endpoint, Fail, Role};
use crate::endpoint::peers::Peer;
use crate::timeout::Deadline;
use m3ipc_abi::{Address, Code};
use m3ipc_link::copy_gate::{self, Leave, NotParked};
use m3ipc_link::{BounceBuffer, ServedBounceBuffer};
use m3ipc_sys::{CopyTarget, Errno};
use m3ipc_wire::{Reply, Request};
use std::os::fd::OwnedFd;

/// How long a party that waits may take to lie still for the first time, and
/// how long a copy may stand still, in nanoseconds.
pub(super) const STALL_NS: u64 = 1_000_000_000;
/// How long a requester that may not copy by itself can hold a party that wants to go.
const HELD_MAX_NS: u64 = 100_000_000;
/// How often it may do so.
const EVICTIONS_MAX: u8 = 8;
/// How long the party sleeps before it looks whether the requester still lives.
const LOOK_NS: u64 = 50_000_000;
/// The same while it serves the requester's copy.
const SERVE_LOOK_NS: u64 = 200_000;

impl Endpoint {
    /// Lies still, where anybody ever wanted to copy with this endpoint.
    #[inline]
    pub(in crate::endpoint) fn park(&mut self) {
        self.copies.may_be_copied = true;
        if !self.copies.berths.is_empty() && !self.copies.parked {
            self.park_slow();
        }
    }

    fn park_slow(&mut self) {
        let peers = &self.peers;
        let is_berth =
            |index: &u32| peers.find_index(*index).is_some_and(|peer| peer.berthed && !peer.dead);
        self.copies.berths.retain(is_berth);
        self.copies
            .served
            .retain(|index| peers.find_index(*index).is_some_and(|peer| peer.serving.is_some()));
        for index in &self.copies.berths {
            copy_gate::park(peers.get(*index).link.own_copy_gate());
        }
        self.copies.parked = !self.copies.berths.is_empty();
    }

    /// Gets up again: waits for the copies that have begun.
    #[inline]
    pub(in crate::endpoint) fn unpark(&mut self) {
        self.copies.may_be_copied = false;
        if self.copies.parked {
            self.unpark_slow();
        }
    }

    fn unpark_slow(&mut self) {
        for at in 0..self.copies.berths.len() {
            let index = self.copies.berths[at];
            let mut since_ns = 0;
            while !self.has_left(index) {
                let now_ns = m3ipc_sys::monotonic_ns();
                since_ns = if since_ns == 0 { now_ns } else { since_ns };
                if !self.waits_on_for(index, now_ns - since_ns) {
                    self.evict(index);
                }
            }
        }
        self.copies.parked = false;
        self.drop_command();
    }

    fn has_left(&self, index: u32) -> bool {
        let Some(peer) = self.peers.find_index(index) else { return true };
        copy_gate::leave(peer.link.own_copy_gate()) == Leave::Left
    }

    /// Waits a little for the requester; `false` where it is dead or has had its time.
    fn waits_on_for(&mut self, index: u32, held_ns: u64) -> bool {
        // Its death is news; whatever else they bring is for the next call.
        let _ = self.hear();
        if held_ns > STALL_NS {
            // No daemon may be left to tell of it.
            self.reattach_if_cut();
        }
        let Some(peer) = self.peers.find_index(index) else { return false };
        let trusted = self.trusts(peer);
        if peer.dead {
            // One that was unbound is told of as dead, and may be in the kernel, copying.
            let may_copy = trusted && m3ipc_sys::has_memory(peer.identity.pid);
            if !may_copy || held_ns > STALL_NS {
                return false;
            }
        }
        let serves = self.copies.active == Some(index);
        if !trusted && held_ns > HELD_MAX_NS {
            return false;
        }
        if serves {
            self.serve_copies();
        }
        let Some(peer) = self.peers.find_index(index) else { return false };
        let limit_ns = if serves { SERVE_LOOK_NS } else { LOOK_NS };
        let _ = m3ipc_sys::wait(peer.link.own_copy_gate(), copy_gate::AWAITED, limit_ns);
        true
    }

    /// The requester is dead or has held this endpoint too long: it copies no more.
    fn evict(&mut self, index: u32) {
        if let Some(peer) = self.peers.claimed(index) {
            copy_gate::revoke(peer.link.own_copy_gate());
            peer.berthed = false;
            peer.serving = None;
            peer.evictions = peer.evictions.saturating_add(1);
        }
    }

    /// Whether a peer may copy all of this endpoint's memory by itself.
    pub(super) fn trusts(&self, peer: &Peer) -> bool {
        !self.copies.granted_only && peer.identity.uid == m3ipc_sys::user_id()
    }

    /// A peer wants to copy with this endpoint.
    #[cold]
    pub(in crate::endpoint) fn lie_still_for(&mut self, peer: Address, fds: Vec<OwnedFd>) {
        let Some(index) = self.peers.find(peer) else { return };
        if self.peers.get(index).evictions > EVICTIONS_MAX {
            return;
        }
        let window = fds.into_iter().next().and_then(|memory| ServedBounceBuffer::map(memory).ok());
        if let Some(window) = window {
            self.peers.get_mut(index).serving = Some(Box::new(Serving::new(window)));
            if self.copies.active == Some(index) {
                self.copies.active = None;
            }
            if !self.copies.served.contains(&index) {
                self.copies.served.push(index);
            }
        }
        let peer_state = self.peers.get_mut(index);
        peer_state.berthed = true;
        if !self.copies.berths.contains(&index) {
            self.copies.berths.push(index);
        }
        if self.copies.may_be_copied {
            copy_gate::park(self.peers.get(index).link.own_copy_gate());
            self.copies.parked = true;
        }
        let probe = self.copies.probe.get_or_insert_with(|| {
            // Not to be guessed by chance; that it is no secret does not matter.
            Box::new([
                m3ipc_sys::ticks(),
                m3ipc_sys::monotonic_ns() ^ u64::from(m3ipc_sys::process_id().cast_unsigned()),
            ])
        });
        let address = std::ptr::from_ref(&**probe).expose_provenance() as u64;
        let _ =
            self.control.send(&Request::CopyGateReady { peer: peer.0, address, probe: **probe });
    }

    /// Gets to know how a party can be copied with: once for each, unless a window is needed later.
    #[cold]
    pub(super) fn berth(
        &mut self,
        index: u32,
        window: bool,
        role: Role,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        let peer = self.peers.get(index);
        let may_be_direct = self.trusts(peer);
        let (pid, address) = (peer.identity.pid, peer.address());
        let window = window || !may_be_direct;
        // Its request is held here: it waits, though its desk may not say so yet.
        let request = Request::CopyGate {
            peer: address.0,
            surely: peer.link.owes_answer(),
            bounce_buffer: window,
        };
        // A copy that would not wait still gets acquainted first.
        let limit_ns = if deadline.no_wait { u64::MAX } else { deadline.at_ns };
        let until_ns = limit_ns.min(m3ipc_sys::monotonic_ns() + STALL_NS);
        let (reply, fds) = match self.control.request_until(&request, until_ns) {
            Err(fail) if fail.code == Code::NotConn => {
                self.reattach_if_cut();
                self.control.request_until(&request, m3ipc_sys::monotonic_ns() + STALL_NS)
            }
            other => other,
        }
        .map_err(|fail| if fail.code == Code::DstDied { role.died().into() } else { fail })?;
        let Reply::CopyGate { address, probe } = reply else {
            return Err(crate::control::unexpected());
        };
        let probe = Probe { address, value: probe };
        let window = fds.into_iter().next().map(BounceBuffer::map).transpose()?;
        if self.peers.get(index).copying.direct.is_none() {
            // What a party calls its probe must not hold the requester either.
            let may_be_read = may_be_direct
                && self.answers(index, probe.address, size_of_val(&probe.value) as u64);
            let copying = &mut self.peers.get_mut(index).copying;
            copying.direct = Some(may_be_read && is_process(pid, probe) == Ok(true));
            (copying.probe, copying.known_ticks) = (probe, m3ipc_sys::ticks());
        }
        let copying = &mut self.peers.get_mut(index).copying;
        if window.is_some() {
            copying.window = window;
        }
        Ok(())
    }

    /// Begins a copy with a party that lies still.
    #[inline]
    pub(super) fn board(&self, index: u32) -> Result<(), Fail> {
        copy_gate::begin_copy(self.peers.get(index).link.peer_copy_gate()).map_err(
            |not| match not {
                NotParked::Running => Code::ProcSts.into(),
                NotParked::Busy => Code::Busy.into(),
            },
        )
    }

    /// The address to copy from or to by the kernel, where that way is open to this range.
    #[inline]
    pub(super) fn direct_address(
        &mut self,
        index: u32,
        location: super::Location,
        bytes: u64,
        role: Role,
        deadline: Deadline,
    ) -> Result<Option<u64>, Fail> {
        let super::Location::At(address) = location else { return Ok(None) };
        if self.peers.get(index).copying.direct.is_none() {
            self.berth(index, false, role, deadline)?;
        }
        let copying = &self.peers.get(index).copying;
        if copying.direct != Some(true) {
            return Ok(None);
        }
        let vouched = copying.vouches(address, bytes) || self.look_up(index, address, bytes);
        Ok(vouched.then_some(address))
    }

    /// Whether all of this memory of a peer is there and answers by itself, by a new look.
    fn answers(&mut self, index: u32, address: u64, bytes: u64) -> bool {
        self.look_up(index, address, bytes) && self.peers.get(index).copying.vouches(address, bytes)
    }

    /// Looks at the peer's memory anew; `false` where touching it may never end.
    #[cold]
    fn look_up(&mut self, index: u32, address: u64, bytes: u64) -> bool {
        let peer = self.peers.get_mut(index);
        let Ok(ranges) = m3ipc_sys::memory_ranges(peer.identity.pid) else { return false };
        let end = address.saturating_add(bytes);
        let waits = ranges
            .iter()
            .any(|range| range.start < end && address < range.end && !range.never_blocks);
        peer.copying.ranges = ranges;
        peer.copying.ranges.retain(|range| range.never_blocks);
        // What is not mapped at all is an error at once.
        !waits
    }
}

impl Copying {
    /// Whether a window is there.
    pub(super) fn has_window(&self) -> bool {
        self.window.is_some()
    }
}

/// Whether the number is the peer's process also here, and the kernel lets us copy.
pub(super) fn is_process(pid: i32, probe: Probe) -> Result<bool, Errno> {
    let mut found = [0; 16];
    let read = m3ipc_sys::copy_from_process(pid, probe.address, &CopyTarget::from(&mut found[..]))?;
    let (first, second) = found.split_at(8);
    Ok(read == 16
        && first == probe.value[0].to_ne_bytes()
        && second == probe.value[1].to_ne_bytes())
}
