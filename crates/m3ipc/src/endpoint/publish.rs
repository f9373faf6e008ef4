//! Publications to a peer. [`waiting::publish_then_wake`] has the order of their steps.

use super::Endpoint;
use super::stamps::Moment;
use crate::error::Fail;
use m3ipc_abi::Address;
use m3ipc_link::waiting::{self, EndsWait, PublicationPeer, Publisher};
use m3ipc_link::{Counter, WaitMode, WakeAction};

/// An endpoint, and the index of the peer to which it publishes.
struct ToPeer<'a> {
    endpoint: &'a mut Endpoint,
    index: u32,
}

impl PublicationPeer for ToPeer<'_> {
    #[inline]
    fn mark_ready(&self) {
        self.endpoint.peers.get(self.index).mark_link_ready();
    }

    #[inline]
    fn peer_mode(&self) -> WaitMode {
        self.endpoint.peers.get(self.index).status.mode()
    }

    #[inline]
    fn is_peer_awake(&self) -> bool {
        self.endpoint.peers.get(self.index).status.is_awake()
    }
}

impl Publisher for ToPeer<'_> {
    #[inline]
    fn address(&self) -> Address {
        self.endpoint.membership.address()
    }

    fn wake(&mut self, action: WakeAction) {
        self.endpoint.wake(self.index, action);
    }
}

impl Endpoint {
    /// Publishes to the peer of this index, and wakes the peer if that ends its wait.
    #[inline]
    pub(super) fn publish<T>(
        &mut self,
        index: u32,
        publish: impl FnOnce(&mut Self) -> Result<(T, EndsWait), Fail>,
    ) -> Result<T, Fail> {
        let mut to_peer = ToPeer { endpoint: self, index };
        waiting::publish_then_wake(&mut to_peer, |to_peer| publish(to_peer.endpoint))
    }

    /// Wakes the peer of this index if it sleeps in a wait that the last publication ends.
    #[cold]
    pub(super) fn wake_if_ended(&mut self, index: u32, ends: EndsWait) {
        waiting::wake_if_ended(&mut ToPeer { endpoint: self, index }, ends);
    }

    /// Wakes the peer of this index.
    #[cold]
    pub(super) fn wake(&mut self, index: u32, action: WakeAction) {
        self.trace.stamp(Moment::Waking);
        match action {
            WakeAction::None => {}
            WakeAction::WakeWord => self.peers.get(index).link.wake_peer(),
            WakeAction::Doorbell => self.ring_doorbell_of(index),
        }
        self.trace.stamp(Moment::Woken);
        self.session.page().count(Counter::Woke);
    }
}
