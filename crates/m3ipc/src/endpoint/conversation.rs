//! One peer, with what an endpoint needs to publish to it. [`waiting::publish_then_wake`] has the
//! order of the steps of a publication.
//!
//! A conversation borrows the peer, the daemon's session and the trace, and no other part of the
//! endpoint. A broken rule of the peer poisons the link here, and nowhere else.

use super::daemon_session::DaemonSession;
use super::outgoing::Outgoing;
use super::peer::Peer;
use super::stamps::Moment;
use super::trace::EndpointTrace;
use crate::error::Fail;
use core::convert::Infallible;
use m3ipc_abi::{Address, Code};
use m3ipc_link::waiting::{self, EndsWait, PublicationPeer, Publisher};
use m3ipc_link::{
    Arrival, Counter, Link, MessageKind, RuleBroken, SlotRefusal, SlotState, TraceWhat, WaitMode,
    WakeAction,
};
use m3ipc_sys::DoorbellSender;
use m3ipc_wire::Request;

/// One peer of an endpoint, to publish to.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    peer: &'a mut Peer,
    session: &'a mut DaemonSession,
    trace: &'a mut EndpointTrace,
    /// The address of this endpoint.
    own: Address,
}

impl PublicationPeer for Peer {
    #[inline(always)]
    fn mark_ready(&self) {
        self.mark_link_ready();
    }

    #[inline]
    fn peer_mode(&self) -> WaitMode {
        self.mode()
    }

    #[inline(always)]
    fn is_peer_awake(&self) -> bool {
        self.is_awake()
    }
}

impl PublicationPeer for Conversation<'_> {
    #[inline]
    fn mark_ready(&self) {
        self.peer.mark_ready();
    }

    #[inline]
    fn peer_mode(&self) -> WaitMode {
        self.peer.peer_mode()
    }

    #[inline]
    fn is_peer_awake(&self) -> bool {
        self.peer.is_peer_awake()
    }
}

impl Publisher for Conversation<'_> {
    #[inline]
    fn address(&self) -> Address {
        self.own
    }

    fn wake(&mut self, action: WakeAction) {
        self.wake_by(action);
    }
}

impl<'a> Conversation<'a> {
    #[inline(always)]
    pub(super) fn new(
        peer: &'a mut Peer,
        session: &'a mut DaemonSession,
        trace: &'a mut EndpointTrace,
        own: Address,
    ) -> Self {
        Self { peer, session, trace, own }
    }

    #[inline]
    pub(super) fn peer(&mut self) -> &mut Peer {
        self.peer
    }

    #[inline]
    pub(super) fn link(&mut self) -> &mut Link {
        self.peer.link_mut()
    }

    #[inline]
    pub(super) fn trace(&mut self) -> &mut EndpointTrace {
        self.trace
    }

    /// Makes a step on the link. A broken rule poisons the link.
    #[inline]
    pub(super) fn on_link<T>(
        &mut self,
        step: impl FnOnce(&mut Link) -> Result<T, RuleBroken>,
    ) -> Result<T, Fail> {
        step(self.peer.link_mut()).map_err(|broken| self.poison(broken))
    }

    /// Closes the link: the peer broke the rules.
    #[cold]
    pub(super) fn poison(&mut self, _broken: RuleBroken) -> Fail {
        self.peer.admission_mut().set_poisoned();
        self.session.page().count(Counter::Poisoned);
        Code::PeerBroke.into()
    }

    /// Publishes, and wakes the peer if it sleeps in a wait that the publication ends.
    #[inline]
    pub(super) fn publish<T>(&mut self, publish: impl FnOnce(&mut Self) -> (T, EndsWait)) -> T {
        let Ok(published) = self.try_publish(|talk| Ok::<_, Infallible>(publish(talk)));
        published
    }

    /// The same for a publication that may fail.
    ///
    /// # Errors
    /// Those of `publish`. Nothing was published then.
    #[inline]
    pub(super) fn try_publish<T, E>(
        &mut self,
        publish: impl FnOnce(&mut Self) -> Result<(T, EndsWait), E>,
    ) -> Result<T, E> {
        waiting::publish_then_wake(self, publish)
    }

    /// Posts a message in the slot of this endpoint, which is free. `then` runs after the post and
    /// before the wake-up.
    #[inline]
    pub(super) fn post(
        &mut self,
        (kind, stamp): (MessageKind, u64),
        outgoing: Outgoing<'_>,
        ends: EndsWait,
        then: impl FnOnce(),
    ) -> SlotState {
        self.publish(|talk| {
            let Outgoing { m_type, payload, .. } = outgoing;
            let posted = talk.link().post(kind, stamp, m_type, payload, outgoing.payload_view());
            talk.trace.stamp(Moment::Published);
            then();
            (posted, ends)
        })
    }

    /// Records the message posted last, after the wake-up of the peer.
    #[inline]
    pub(super) fn trace_gave(&mut self, outgoing: Outgoing<'_>) {
        self.trace.gave(self.peer, outgoing.m_type, outgoing.long.len());
    }

    /// Records a notification, or a copy of `bytes` bytes.
    #[inline]
    pub(super) fn trace_gave_unnumbered(&mut self, what: TraceWhat, bytes: usize) {
        self.trace.gave_unnumbered(self.peer, what, bytes);
    }

    /// Refuses a message of the peer; `false` if the peer withdrew it before.
    pub(super) fn refuse(&mut self, arrival: Arrival, refusal: SlotRefusal) -> bool {
        self.publish(|talk| {
            let is_refused = talk.link().refuse(arrival, refusal);
            (is_refused, if is_refused { EndsWait::OnThisLink } else { EndsWait::None })
        })
    }

    /// The wake-up after a publication of the fast path, where the peer may sleep.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_if_ended(mut self, ends: EndsWait) {
        waiting::wake_if_ended(&mut self, ends);
    }

    #[cold]
    fn wake_by(&mut self, action: WakeAction) {
        self.trace.stamp(Moment::Waking);
        self.ring_or_wake(action);
        self.trace.stamp(Moment::Woken);
        self.session.page().count(Counter::Woke);
    }

    /// Wakes the peer in any wait: for a copy.
    pub(super) fn wake_in_any_wait(&mut self) {
        self.ring_or_wake(match self.peer.mode() {
            WaitMode::Awake => WakeAction::None,
            WaitMode::OnLinks(_) | WaitMode::OnLinksForRaises(_) => WakeAction::WakeWord,
            WaitMode::AtDoorbell(_) | WaitMode::AtDoorbellForTakes => WakeAction::Doorbell,
        });
    }

    fn ring_or_wake(&mut self, action: WakeAction) {
        match action {
            WakeAction::None => {}
            WakeAction::WakeWord => self.peer.link().wake_peer(),
            WakeAction::Doorbell => self.ring_doorbell(),
        }
    }

    /// Rings the doorbell of the peer, or lets the daemon ring. On the fast path too, so what may
    /// close a descriptor is enclosed.
    fn ring_doorbell(&mut self) {
        if !self.peer.ring() && !m3ipc_sys::enclosed(|| self.request_ring()) {
            self.session.failed_rings_mut().add(self.peer.address());
        }
    }

    /// Lets the daemon ring the doorbell of the peer, and takes a sender for later rings. `false`
    /// if the daemon may not have got the request. Its reply may come too late: it rings before.
    pub(super) fn request_ring(&mut self) -> bool {
        let request = Request::DoorbellSender(self.peer.address().0);
        match self.session.control_mut().request_soon(&request, u64::MAX) {
            Ok((_, fds)) => {
                if let Some(sender) = fds.into_iter().next() {
                    self.peer.set_doorbell_sender(DoorbellSender::from_fd(sender));
                }
                true
            }
            Err(fail) => !matches!(fail.code, Code::NotConn | Code::TimedOut),
        }
    }
}
