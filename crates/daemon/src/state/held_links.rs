//! The links that endpoints hold, and the copies over them that the daemon has introduced.

use crate::state::member_fd::MemberFd;
use crate::tables::MemberId;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// All held links.
#[derive(Debug, Default)]
pub(crate) struct HeldLinks {
    /// The pairs (holder, peer) of held links, as far as this daemon knows: it made the link, or
    /// the holder named it after a takeover.
    held: BTreeSet<(MemberId, MemberId)>,
    /// The number of bounce buffers in use, by requester and peer.
    bounce_buffers: BTreeMap<(MemberId, MemberId), u32>,
    /// Those among them that the peer has been sent, and the requester not yet.
    undelivered_buffers: BTreeMap<(MemberId, MemberId), Rc<MemberFd>>,
    /// The requests for copies that a peer has not answered: requester, peer.
    copy_gates_asked: BTreeSet<(MemberId, MemberId)>,
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
            self.forget_copy_gate_requests(holder, peer);
            self.bounce_buffers.remove(&(holder, peer));
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

    /// Counts a bounce buffer, and keeps it for its requester.
    pub(crate) fn add_bounce_buffer(
        &mut self,
        requester: MemberId,
        peer: MemberId,
        buffer: &Rc<MemberFd>,
    ) {
        *self.bounce_buffers.entry((requester, peer)).or_default() += 1;
        self.undelivered_buffers.insert((requester, peer), Rc::clone(buffer));
    }

    /// The bounce buffer that a peer has been sent, and the requester not yet.
    pub(crate) fn undelivered_buffer(
        &self,
        requester: MemberId,
        peer: MemberId,
    ) -> Option<Rc<MemberFd>> {
        self.undelivered_buffers.get(&(requester, peer)).map(Rc::clone)
    }

    /// The requester gets its bounce buffer.
    pub(crate) fn note_delivered_buffer(&mut self, requester: MemberId, peer: MemberId) {
        self.undelivered_buffers.remove(&(requester, peer));
    }

    /// Notes a request for copies; `false` if the peer has not answered one before it.
    pub(crate) fn ask_copy_gate(&mut self, requester: MemberId, peer: MemberId) -> bool {
        self.copy_gates_asked.insert((requester, peer))
    }

    /// A peer has answered the requests of a requester for copies.
    pub(crate) fn note_open_copy_gate(&mut self, requester: MemberId, peer: MemberId) {
        self.copy_gates_asked.remove(&(requester, peer));
    }

    /// Forgets the unanswered requests of a requester for copies with a peer, which never got them.
    pub(crate) fn forget_copy_gate_requests(&mut self, requester: MemberId, peer: MemberId) {
        self.note_open_copy_gate(requester, peer);
        if self.undelivered_buffers.remove(&(requester, peer)).is_some()
            && let Some(count) = self.bounce_buffers.get_mut(&(requester, peer))
        {
            *count = count.saturating_sub(1);
        }
    }
}
