//! How a requester waits for a party that copies for itself.
//!
//! A party spins on a CPU of its own. A stand-in works behind other processes of this node, which
//! need a CPU for the next chunk: the wait for it gives the CPU away between two polls.

use super::side::Role;
use crate::endpoint::Endpoint;
use crate::endpoint::peer_copies::STALL_NS;
use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use m3ipc_link::{BounceBuffer, copy_gate};
use m3ipc_sys::WaitOutcome;

/// The requester polls for the party's next chunk this long before it sleeps, in nanoseconds.
const POLL_NS: u64 = 100_000;
/// The requester's sleep between two checks whether the party lives.
const SLEEP_NS: u64 = 50_000_000;

impl Endpoint {
    /// Waits for progress of a party.
    pub(super) fn await_served<T>(
        &mut self,
        index: u32,
        deadline: Deadline,
        role: Role,
        poll: impl Fn(&BounceBuffer) -> Result<Option<T>, Fail>,
    ) -> Result<T, Fail> {
        let mut since_ns = 0;
        let mut polls = 0_u32;
        let is_far = self.is_stand_in(index);
        loop {
            let bounce_buffer = self
                .peers
                .get(index)
                .copies()
                .requester()
                .bounce_buffer
                .as_ref()
                .ok_or(Fail::from(Code::ProcSts))?;
            if let Some(found) = poll(bounce_buffer)? {
                return Ok(found);
            }
            polls = polls.wrapping_add(1);
            if is_far {
                m3ipc_sys::yield_cpu();
            } else if !polls.is_multiple_of(32) {
                m3ipc_sys::relax();
                continue;
            }
            let now_ns = m3ipc_sys::monotonic_ns();
            since_ns = if since_ns == 0 { now_ns } else { since_ns };
            if now_ns - since_ns < POLL_NS && (is_far || !self.shares_cpu_with(index)) {
                continue;
            }
            if let Some(found) =
                self.await_sleeping(index, (since_ns, now_ns), deadline, role, &poll)?
            {
                return Ok(found);
            }
        }
    }

    fn await_sleeping<T>(
        &mut self,
        index: u32,
        (since_ns, now_ns): (u64, u64),
        deadline: Deadline,
        role: Role,
        poll: &impl Fn(&BounceBuffer) -> Result<Option<T>, Fail>,
    ) -> Result<Option<T>, Fail> {
        self.receive_events()?;
        let peer = self.peers.find_index(index).ok_or(Fail::from(role.died()))?;
        peer.check_party(role.died())?;
        if !copy_gate::is_copying(peer.link().peer_copy_gate()) {
            // The party left, or revoked the gate.
            return Err(Code::ProcSts.into());
        }
        let limit_ns = if deadline.no_wait { u64::MAX } else { deadline.at_ns };
        let until_ns = limit_ns.min(since_ns + STALL_NS);
        if now_ns >= until_ns {
            return Err(Code::TimedOut.into());
        }
        let bounce_buffer =
            peer.copies().requester().bounce_buffer.as_ref().ok_or(Fail::from(Code::ProcSts))?;
        let own_wake_word_of = bounce_buffer.wake_word().load(std::sync::atomic::Ordering::SeqCst);
        bounce_buffer.set_sleeping(true);
        let found = poll(bounce_buffer);
        let waited = match found {
            Ok(None) => m3ipc_sys::wait(
                bounce_buffer.wake_word(),
                own_wake_word_of,
                SLEEP_NS.min(until_ns - now_ns),
            ),
            _ => Ok(WaitOutcome::Changed),
        };
        bounce_buffer.set_sleeping(false);
        match (found?, waited?) {
            (Some(found), _) => Ok(Some(found)),
            (None, WaitOutcome::Signal) => Err(Code::Intr.into()),
            (None, _) => Ok(None),
        }
    }
}
