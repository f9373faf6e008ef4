//! The copy gate: how a party admits copies while it waits, and how a requester opens one.

use super::hold_limits::{HoldBudget, REVOCATIONS_MAX, REVOKED_MAX, revocation_key};
use super::party::{answers, is_process, read_ranges};
use super::side::{Location, Role};
use crate::endpoint::Endpoint;
use crate::endpoint::peer::Peer;
use crate::endpoint::peer_copies::{Probe, STALL_NS};
use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::{Address, Code};
use m3ipc_link::copy_gate::{self, Unparked};
use m3ipc_link::{BounceBuffer, ServedBounceBuffer};
use m3ipc_wire::{Reply, Request};
use std::os::fd::OwnedFd;

/// The party's sleep between two checks whether the requester lives.
const POLL_NS: u64 = 50_000_000;
/// The same sleep while the party serves the requester's copy.
const SERVE_POLL_NS: u64 = 200_000;

impl Endpoint {
    /// Parks this endpoint if a peer ever asked to copy with it.
    #[inline]
    pub(in crate::endpoint) fn park(&mut self) {
        if self.copies.gates.begin_call() {
            self.park_slow();
        }
    }

    fn park_slow(&mut self) {
        let peers = &self.peers;
        let is_gated = |peer: &Peer| peer.copies().has_gate() && !peer.admission().is_dead();
        let gated = self.copies.gates.park(
            |index| peers.find_index(index).is_some_and(is_gated),
            |index| peers.find_index(index).is_some_and(|peer| peer.copies().is_served()),
        );
        for index in gated {
            copy_gate::park(peers.get(*index).link().own_copy_gate());
        }
    }

    /// Ends the parking. Waits for copies in progress.
    #[inline]
    pub(in crate::endpoint) fn unpark(&mut self) {
        if self.copies.gates.end_call() {
            self.unpark_slow();
        }
    }

    fn unpark_slow(&mut self) {
        let peers = &self.peers;
        let gates = self.copies.gates.links().iter().filter_map(|index| peers.find_index(*index));
        if copy_gate::close_all(gates.map(|peer| peer.link().own_copy_gate())) {
            self.await_copies();
        }
        self.copies.gates.unpark();
        self.drop_command();
    }

    /// Waits for the copies in progress. All gates are closed.
    fn await_copies(&mut self) {
        let mut budget = HoldBudget::new();
        let mut first_ns = 0;
        for at in 0..self.copies.gates.links().len() {
            let index = self.copies.gates.links()[at];
            let trusted = self.peers.find_index(index).is_none_or(|peer| self.trusts(peer));
            let mut since_ns = 0;
            let unparked = copy_gate::unpark(
                self,
                |endpoint| endpoint.peers.find_index(index).map(|peer| peer.link().own_copy_gate()),
                |endpoint| {
                    let now_ns = m3ipc_sys::monotonic_ns();
                    since_ns = if since_ns == 0 { now_ns } else { since_ns };
                    first_ns = if first_ns == 0 { now_ns } else { first_ns };
                    endpoint.waits_on_for(index, now_ns - since_ns, now_ns - first_ns, budget)
                },
            );
            if since_ns != 0 && !trusted {
                budget.spend(m3ipc_sys::monotonic_ns() - since_ns);
            }
            if unparked == Unparked::Revoked {
                self.count_revocation(index);
            }
        }
    }

    /// Waits a little for the requester; `false` if it is dead or its time is over. `held_ns` is
    /// the time since this wait began, and `all_ns` since the first one of this leave.
    fn waits_on_for(&mut self, index: u32, held_ns: u64, all_ns: u64, budget: HoldBudget) -> bool {
        // The death of the requester is an event. All other events are for the next call.
        let _ = self.receive_events();
        if held_ns > STALL_NS {
            // There may be no daemon to report the death.
            self.reattach_if_closed();
        }
        let Some(peer) = self.peers.find_index(index) else { return false };
        let trusted = self.trusts(peer);
        if peer.admission().is_dead() {
            // An unbound requester is reported as dead and may still be in the kernel, copying.
            let may_copy = trusted && m3ipc_sys::has_memory(peer.identity().pid);
            if !may_copy || held_ns > STALL_NS {
                return false;
            }
        }
        let serves = self.copies.gates.active() == Some(index);
        if !trusted && !budget.allows(held_ns) {
            return false;
        }
        // A trusted requester ends its copy soon, unless its own memory never answers. A served
        // copy made no progress during the waits for other links.
        if all_ns > STALL_NS && !(serves && (held_ns == 0 || self.has_progress(index))) {
            return false;
        }
        if serves {
            self.serve_copies();
        }
        let Some(peer) = self.peers.find_index(index) else { return false };
        let limit_ns = if serves { SERVE_POLL_NS } else { POLL_NS };
        let limit_ns = if trusted { limit_ns } else { limit_ns.min(budget.left_ns) };
        let _ = m3ipc_sys::wait(peer.link().own_copy_gate(), copy_gate::AWAITED, limit_ns);
        true
    }

    /// Counts a revoked gate: the requester is dead or held this endpoint too long.
    fn count_revocation(&mut self, index: u32) {
        if let Some(peer) = self.peers.claimed(index) {
            peer.copies_mut().revoke_gate();
            let (uid, pid) = (peer.identity().uid, peer.identity().pid);
            let (key, now_ns) = (revocation_key(uid, pid), m3ipc_sys::monotonic_ns());
            let revocations = &mut self.copies.revocations;
            revocations.retain(|_, revoked| revoked.count_at(now_ns) > 0);
            if revocations.len() < REVOKED_MAX || revocations.contains_key(&key) {
                revocations.entry(key).or_default().add(now_ns);
            }
        }
    }

    /// Whether this peer, or another endpoint of its user, held this endpoint too often.
    fn is_revoked_too_often(&self, peer: &Peer) -> bool {
        let key = revocation_key(peer.identity().uid, peer.identity().pid);
        let is_full = self.copies.revocations.len() >= REVOKED_MAX && !self.trusts(peer);
        self.copies.revocations.get(&key).map_or(is_full, |revoked| {
            revoked.count_at(m3ipc_sys::monotonic_ns()) > REVOCATIONS_MAX
        })
    }

    /// Whether a peer may copy all memory of this endpoint by itself. A program with more rights
    /// than its user lends them to no other program of that user.
    pub(super) fn trusts(&self, peer: &Peer) -> bool {
        self.is_of_one_user(peer) && m3ipc_sys::own_user().is_some()
    }

    /// Whether the kernel may let this endpoint copy all memory of a peer.
    fn is_of_one_user(&self, peer: &Peer) -> bool {
        // The process of a stand-in is the proxy: its memory is not that of the endpoint.
        !self.copies.granted_only
            && peer.identity().uid == m3ipc_sys::user_id()
            && !peer.admission().may_hold()
    }

    /// Opens the gate for a peer that asked for it.
    #[cold]
    pub(in crate::endpoint) fn open_gate_for(&mut self, peer: Address, fds: Vec<OwnedFd>) {
        let Some(index) = self.peers.find(peer) else { return };
        if self.copies.stands_in {
            return self.open_stand_in_gate(index, fds.into_iter().next());
        }
        if self.is_revoked_too_often(self.peers.get(index)) {
            return;
        }
        let bounce_buffer =
            fds.into_iter().next().and_then(|memory| ServedBounceBuffer::map(memory).ok());
        let admits = self.copies.gates.open(index, bounce_buffer.is_some());
        let requester = self.peers.get_mut(index);
        requester.copies_mut().open_gate(bounce_buffer);
        if admits {
            copy_gate::park(requester.link().own_copy_gate());
        }
        let probe = self.copies.probe.get_or_insert_with(|| {
            // Not to be guessed by chance. The value is no secret.
            Box::new([
                m3ipc_sys::ticks(),
                m3ipc_sys::monotonic_ns() ^ u64::from(m3ipc_sys::process_id().cast_unsigned()),
            ])
        });
        let address = std::ptr::from_ref(&**probe).expose_provenance() as u64;
        let _ = self.session.control().send(&Request::CopyGateReady {
            peer: peer.0,
            address,
            probe: **probe,
        });
    }

    /// Asks the daemon for a party's gate: once for each party, and again if a bounce buffer is
    /// needed.
    #[cold]
    pub(super) fn request_gate(
        &mut self,
        index: u32,
        bounce_buffer: bool,
        role: Role,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        let peer = self.peers.get(index);
        let may_be_direct = self.is_of_one_user(peer);
        let (pid, address) = (peer.identity().pid, peer.address());
        let bounce_buffer = bounce_buffer || !may_be_direct;
        // This endpoint holds the party's request, so the party waits even if its control page does
        // not say so yet.
        let request =
            Request::CopyGate { peer: address.0, surely: peer.link().owes_answer(), bounce_buffer };
        // A copy without waiting still asks for the gate first.
        let limit_ns = if deadline.no_wait { u64::MAX } else { deadline.at_ns };
        let until_ns = limit_ns.min(m3ipc_sys::monotonic_ns() + STALL_NS);
        let (reply, fds) = match self.request_until(&request, until_ns) {
            Err(fail) if fail.code == Code::NotConn => {
                self.reattach_if_closed();
                self.request_until(&request, m3ipc_sys::monotonic_ns() + STALL_NS)
            }
            other => other,
        }
        .map_err(|fail| if fail.code == Code::DstDied { role.died().into() } else { fail })?;
        let Reply::CopyGate { address, probe } = reply else {
            return Err(crate::control::unexpected());
        };
        let probe = Probe { address, value: probe };
        let bounce_buffer = fds.into_iter().next().map(BounceBuffer::map).transpose()?;
        let party = self.peers.get_mut(index);
        if party.copies().requester().direct.is_none() {
            // The probe's memory must not hold the requester either.
            let may_be_read =
                may_be_direct && answers(party, probe.address, size_of_val(&probe.value) as u64);
            let requester_state = party.copies_mut().requester_mut();
            requester_state.direct = Some(may_be_read && is_process(pid, probe) == Ok(true));
            (requester_state.probe, requester_state.known_ticks) = (probe, m3ipc_sys::ticks());
        }
        if bounce_buffer.is_some() {
            party.copies_mut().requester_mut().bounce_buffer = bounce_buffer;
        }
        Ok(())
    }

    /// The address for a copy by the kernel, if that way is open for this range.
    #[inline]
    pub(super) fn direct_address(
        &mut self,
        index: u32,
        location: Location,
        bytes: u64,
        role: Role,
        deadline: Deadline,
    ) -> Result<Option<u64>, Fail> {
        let Location::At(address) = location else { return Ok(None) };
        if self.peers.get(index).copies().requester().direct.is_none() {
            self.request_gate(index, false, role, deadline)?;
        }
        let party = self.peers.get_mut(index);
        let requester_state = party.copies().requester();
        if requester_state.direct != Some(true) {
            return Ok(None);
        }
        let covered = requester_state.covers(address, bytes) || read_ranges(party, address, bytes);
        Ok(covered.then_some(address))
    }
}
