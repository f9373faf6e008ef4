//! The links that endpoints hold, and the copies over them that the daemon has introduced.

use crate::tables::MemberId;
use std::collections::{BTreeMap, BTreeSet};

/// All held links.
#[derive(Debug, Default)]
pub(crate) struct HeldLinks {
    /// The pairs (holder, peer) of held links, as far as this daemon knows: it made the link, or
    /// the holder named it after a takeover.
    held: BTreeSet<(MemberId, MemberId)>,
    /// The number of bounce buffers in use, by requester and peer.
    bounce_buffers: BTreeMap<(MemberId, MemberId), u32>,
    /// The requests for copies that a peer has not answered: requester, peer, with a bounce buffer.
    copy_gates_asked: BTreeSet<(MemberId, MemberId, bool)>,
}

impl HeldLinks {
    /// Whether an endpoint holds a link with a peer.
    pub(crate) fn is_held(&self, holder: MemberId, peer: MemberId) -> bool {
        self.held.contains(&(holder, peer))
    }

    /// Notes that an endpoint holds a link.
    pub(crate) fn hold(&mut self, holder: MemberId, peer: MemberId) {
        self.held.insert((holder, peer));
    }

    /// Notes that an endpoint holds a link no longer.
    pub(crate) fn release(&mut self, holder: MemberId, peer: MemberId) {
        self.held.remove(&(holder, peer));
    }

    /// Forgets the link of two endpoints, one of which has ended.
    pub(crate) fn forget(&mut self, one: MemberId, other: MemberId) {
        for (holder, peer) in [(one, other), (other, one)] {
            self.release(holder, peer);
            self.bounce_buffers.remove(&(holder, peer));
            self.forget_asked_copy_gates(holder, peer);
        }
    }

    /// The number of links of which a party is known.
    pub(crate) fn count(&self) -> usize {
        self.held.len().div_ceil(2)
    }

    /// The number of bounce buffers in use by a requester and a peer.
    pub(crate) fn bounce_buffers(&self, requester: MemberId, peer: MemberId) -> u32 {
        self.bounce_buffers.get(&(requester, peer)).copied().unwrap_or(0)
    }

    /// Counts a bounce buffer.
    pub(crate) fn add_bounce_buffer(&mut self, requester: MemberId, peer: MemberId) {
        *self.bounce_buffers.entry((requester, peer)).or_default() += 1;
    }

    /// Counts a bounce buffer no more.
    pub(crate) fn remove_bounce_buffer(&mut self, requester: MemberId, peer: MemberId) {
        if let Some(count) = self.bounce_buffers.get_mut(&(requester, peer)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Notes a request for copies; `false` if the peer has not answered the same one yet.
    pub(crate) fn ask_copy_gate(
        &mut self,
        requester: MemberId,
        peer: MemberId,
        with_buffer: bool,
    ) -> bool {
        self.copy_gates_asked.insert((requester, peer, with_buffer))
    }

    /// Forgets the unanswered requests of a requester for copies with a peer.
    pub(crate) fn forget_asked_copy_gates(&mut self, requester: MemberId, peer: MemberId) {
        for with_buffer in [false, true] {
            self.copy_gates_asked.remove(&(requester, peer, with_buffer));
        }
    }
}
