//! Rings of doorbells that the daemon may not have got: it was dead, or did not answer.
//!
//! The peer may sleep until the ring, and the present call may be the last one of this endpoint for
//! long. So a failed ring is repeated in the same call, at the next daemon if this one has died;
//! then in later calls and sleeps, ten times a second at most.

use m3ipc_abi::Address;

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
        if !self.peers.contains(&peer) {
            self.peers.push(peer);
        }
    }

    /// Whether there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Whether it is time for an attempt. Notes the time.
    pub(super) fn is_due(&mut self) -> bool {
        let now_ns = m3ipc_sys::monotonic_ns();
        let is_due = now_ns >= self.due_ns;
        if is_due {
            self.due_ns = now_ns + REPEAT_NS;
        }
        is_due
    }

    /// The next peer to ring. A ring that fails is [added](Self::add) again. After the last one,
    /// the next failure is repeated at once.
    pub(super) fn next(&mut self) -> Option<Address> {
        let peer = self.peers.pop();
        if peer.is_none() {
            self.due_ns = 0;
        }
        peer
    }
}
