//! Rings of doorbells that the daemon may not have got: it was dead, or did not answer.
//!
//! The peer may sleep until the ring, and the present call may be the last one of this endpoint for
//! long. So a failed ring is repeated in the same call, at the next daemon if this one has died;
//! then in later calls and sleeps, ten times a second at most.

use super::Endpoint;
use m3ipc_abi::Address;
use m3ipc_link::waiting::EndsWait;

/// The time between two attempts.
const REPEAT_NS: u64 = 100_000_000;

/// Peers whose doorbells are to be rung.
#[derive(Debug, Default)]
pub(super) struct FailedRings {
    peers: Vec<Address>,
    /// When to ring again.
    due_ns: u64,
}

impl FailedRings {
    /// Notes that the ring of this peer has failed.
    pub(super) fn add(&mut self, peer: Address) {
        self.peers.push(peer);
    }

    #[inline]
    fn any(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Whether it is time for an attempt. Notes the time.
    fn is_due(&mut self) -> bool {
        let now_ns = m3ipc_sys::monotonic_ns();
        let is_due = now_ns >= self.due_ns;
        if is_due {
            self.due_ns = now_ns + REPEAT_NS;
        }
        is_due
    }
}

impl Endpoint {
    /// Wakes the peer of this index after a publication of the fast path, where it may sleep.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_if_ended(&mut self, index: u32, ends: EndsWait) {
        self.conversation(index).wake_if_ended(ends);
        self.ring_again();
    }

    /// Repeats failed rings. After each publication of a call, and in sleeps.
    #[inline]
    pub(super) fn ring_again(&mut self) {
        if self.session.failed_rings_mut().any() {
            self.ring_if_due();
        }
    }

    #[cold]
    fn ring_if_due(&mut self) {
        if self.session.failed_rings_mut().is_due() {
            // If the daemon died, the peer may have returned to its successor already.
            self.reattach_soon();
            self.repeat_rings();
        }
    }

    /// Repeats the rings until one fails again.
    pub(super) fn repeat_rings(&mut self) {
        while let Some(peer) = self.session.failed_rings_mut().peers.pop() {
            // A dead peer needs no ring.
            let Some(index) = self.peers.find(peer) else { continue };
            if !self.conversation(index).request_ring() {
                return self.session.failed_rings_mut().add(peer);
            }
        }
    }
}
