//! Messages of remote endpoints, until a local endpoint has taken and answered them, or they are
//! withdrawn.
//!
//! | state | cancelled | session ends | receiver dies |
//! |---|---|---|---|
//! | Queued behind an earlier message of the pair | not delivered | dropped | not delivered |
//! | Offered | to Withdrawing | to Withdrawing, orphaned | not delivered |
//! | Withdrawing: the local side decides | | orphaned | not delivered |
//! | Taken: a request | delivered; abandoned | abandoned | delivered |
//!
//! A slot of a link holds one message. So a message waits until the earlier one of its pair is
//! taken or withdrawn, also across sessions. Pulses wait for the earlier pulses of their pair
//! alone, and a message waits for the pulses before it. A wakeup waits for nothing.

use m3ipc_abi::Code;

use super::action::{Action, NotAwaited};
use super::delivery::{Delivery, Pair, Queue, State};
use super::{Machine, RuleBroken, Timer};
use crate::faults::Fault;
use crate::ids::{CallId, DeliveryId, EndpointId, NodeId};
use crate::outcome::{AnswerKind, Content, Failure};
use crate::packet::{CallEnd, CallKind, Frame, MessageHead, PIECED_MAX_BYTES, StreamKind};
use crate::packet::{body_of, content_of, head_of};

/// How long the peer fetches none of the answers that wait, until they are bounded more tightly.
pub(super) const ANSWERS_STALL_NS: u64 = 2_000_000_000;

impl Machine {
    pub(super) fn call_arrived(
        &mut self,
        node: NodeId,
        call: CallId,
        (from, to): (EndpointId, EndpointId),
        kind: CallKind,
        (head, pieced): (MessageHead, u32),
        body: &[u8],
    ) -> Result<(), RuleBroken> {
        let content = content_of(head, body).ok_or(RuleBroken)?;
        self.is_of(node, from)?;
        let limits = self.own.settings.limits;
        let peer = self.peers.get_mut(&node).ok_or(RuleBroken)?;
        let is_incomplete = pieced > 0;
        if peer.incoming.contains_key(&call)
            || is_incomplete && !peer.streams.expect((call, StreamKind::Call), pieced)
            // The last one: it counts the call, also for later sessions.
            || !peer.admit(from.vm, &limits)
        {
            return Err(RuleBroken);
        }
        self.incoming.last += 1;
        let id = DeliveryId(self.incoming.last);
        peer.incoming.insert(call, id);
        let pair = (from, to.address);
        let state = State::Queued;
        let content = Some(content);
        let orphaned = false;
        let delivery = Delivery { node, call, pair, kind, state, content, is_incomplete, orphaned };
        self.incoming.deliveries.insert(id, delivery);
        let slot = (from.vm, from.address.slot());
        // A node announces its endpoints before they call. One whose claim is not known here counts
        // as not announced.
        let is_known = peer.announced.get(&slot) == Some(&from.address);
        let why = if is_known { self.missing(to) } else { Some(Failure::NoEndpoint) };
        if let Some(why) = why {
            if !self.own.planted.has(Fault::NoNegativeAnswer) {
                self.end_delivery(id, CallEnd::NotDelivered(why), Vec::new());
            }
            return Ok(());
        }
        self.acquaint(to, node);
        let is_first = Queue::of(kind).is_none_or(|queue| {
            let queue = self.incoming.pairs.entry((pair, queue)).or_default();
            queue.push_back(id);
            queue.len() == 1
        });
        if is_first || self.own.planted.has(Fault::PairOverlaps) {
            self.offer(id);
        }
        self.fetch(node);
        Ok(())
    }

    /// The payload of a call is complete.
    pub(super) fn call_completed(&mut self, node: NodeId, call: CallId, bytes: Vec<u8>) {
        let peer = self.peers.get(&node);
        let Some(id) = peer.and_then(|peer| peer.incoming.get(&call)).copied() else { return };
        let Some(delivery) = self.incoming.deliveries.get_mut(&id) else { return };
        let (pair, kind) = (delivery.pair, delivery.kind);
        delivery.is_incomplete = false;
        if let Some(content) = &mut delivery.content {
            content.long = bytes;
        }
        match Queue::of(kind) {
            Some(queue) => self.offer_first(pair, queue),
            None => self.offer(id),
        }
    }

    /// This process has no memory for the payload of a call, which is over.
    pub(super) fn call_without_memory(&mut self, node: NodeId, call: CallId) {
        let peer = self.peers.get(&node);
        if let Some(id) = peer.and_then(|peer| peer.incoming.get(&call)).copied() {
            self.end_delivery(id, CallEnd::NotDelivered(Failure::Overload), Vec::new());
        }
    }

    /// Offers the first one of a queue, if it waits.
    pub(super) fn offer_first(&mut self, pair: Pair, queue: Queue) {
        if let Some(first) = self.incoming.first(pair, queue) {
            self.offer(first);
        }
    }

    /// Why a local endpoint gets no message; `None` if it lives.
    pub(super) fn missing(&self, to: EndpointId) -> Option<Failure> {
        if self.living.contains_key(&to) {
            return None;
        }
        let latest = self.latest.get(&(to.vm, to.address.slot()));
        Some(match latest == Some(&to.address) {
            true if self.owners.owner(to) == Some(self.own.node) => Failure::Died,
            true => Failure::Moved,
            false => Failure::NoEndpoint,
        })
    }

    fn offer(&mut self, id: DeliveryId) {
        let Some(delivery) = self.incoming.deliveries.get(&id) else { return };
        let pulses = self.incoming.first(delivery.pair, Queue::Pulses);
        let is_behind_pulses =
            pulses.is_some_and(|pulses| pulses < id) && !self.own.planted.has(Fault::PulsesPassed);
        let Some(delivery) = self.incoming.deliveries.get_mut(&id) else { return };
        // The receiver has just died: the end of its deliveries goes on.
        let (from, to) = delivery.pair;
        if !self.living.contains_key(&EndpointId::new(from.vm, to)) {
            return;
        }
        // A message that follows an answer waits until the answer is complete.
        let answered = (EndpointId::new(from.vm, to), from.address);
        let offers_early = self.own.planted.has(Fault::OfferedIncomplete);
        let waits = delivery.kind.is_message()
            && (self.outgoing.answering.contains(&answered) || is_behind_pulses);
        if waits || delivery.is_incomplete && !offers_early {
            return;
        }
        let Some(content) = delivery.content.take() else { return };
        delivery.state = State::Offered;
        let ((from, to), kind) = (delivery.pair, delivery.kind);
        self.actions.push_back(Action::Deliver { delivery: id, from, to, kind, content });
        if kind == CallKind::Request && self.own.planted.has(Fault::TookTooEarly) {
            let (node, call) = (delivery.node, delivery.call);
            self.push(node, Frame::Took { call }, Vec::new());
        }
    }

    /// Takes a delivery out of the queue of its pair, and offers what has waited for it.
    fn leave_pair(&mut self, id: DeliveryId) {
        let Some(delivery) = self.incoming.deliveries.get(&id) else { return };
        let Some(queue) = Queue::of(delivery.kind) else { return };
        let pair = delivery.pair;
        let Some(ids) = self.incoming.pairs.get_mut(&(pair, queue)) else { return };
        let was_first = ids.front() == Some(&id);
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            self.incoming.pairs.remove(&(pair, queue));
        }
        if was_first {
            self.offer_first(pair, queue);
            if queue == Queue::Pulses {
                self.offer_first(pair, Queue::Messages);
            }
        }
    }

    /// Ends a delivery and tells its caller.
    fn end_delivery(&mut self, id: DeliveryId, end: CallEnd, body: Vec<u8>) {
        self.leave_pair(id);
        let Some(delivery) = self.incoming.deliveries.remove(&id) else { return };
        let Delivery { node, call, pair, orphaned, .. } = delivery;
        self.forget_untold(pair, id);
        if !orphaned {
            self.release_stream(node, (call, StreamKind::Call));
            self.push(node, Frame::End { call, end }, body);
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.incoming_ended(call, pair.0.vm);
            }
        }
    }

    /// The receiver has taken a message. It may have been faster than a withdrawal.
    pub fn taken(&mut self, now_ns: u64, id: DeliveryId) {
        self.advance(now_ns);
        let Some(delivery) = self.incoming.deliveries.get_mut(&id) else { return };
        let withdrawing = delivery.state == State::Withdrawing;
        if delivery.state != State::Offered && !withdrawing {
            return;
        }
        match delivery.kind {
            CallKind::Wakeup | CallKind::Pulses => {
                self.end_delivery(id, CallEnd::Done(0), Vec::new());
            }
            CallKind::Send => self.end_delivery(id, CallEnd::Taken, Vec::new()),
            CallKind::Request if withdrawing => {
                self.actions.push_back(Action::Abandon { delivery: id });
                self.end_delivery(id, CallEnd::Delivered(Failure::Withdrawn), Vec::new());
            }
            CallKind::Request => {
                delivery.state = State::Taken { told: false };
                let at_ns = self.now_ns.saturating_add(self.own.settings.took_delay_ns);
                self.incoming.untold.insert((delivery.pair, id), at_ns);
                self.timers.insert((at_ns, Timer::Took(id)));
                let (node, call) = (delivery.node, delivery.call);
                self.leave_pair(id);
                self.release_stream(node, (call, StreamKind::Call));
            }
        }
    }

    /// The message went back before the receiver took it, after [`Action::Withdraw`].
    pub fn withdrawn(&mut self, now_ns: u64, id: DeliveryId) {
        self.refused(now_ns, id, Failure::Withdrawn);
    }

    /// The receiver never takes a message: it died, or privileges deny it.
    pub fn refused(&mut self, now_ns: u64, id: DeliveryId, why: Failure) {
        self.advance(now_ns);
        let state = self.incoming.deliveries.get(&id).map(|delivery| delivery.state);
        if matches!(state, Some(State::Offered | State::Withdrawing)) {
            self.end_delivery(id, CallEnd::NotDelivered(why), Vec::new());
        }
    }

    /// A wakeup or a call of pulses is done, with 0 or with a code.
    pub fn done(&mut self, now_ns: u64, id: DeliveryId, code: Option<Code>) {
        self.advance(now_ns);
        let delivery = self.incoming.deliveries.get(&id);
        if delivery.is_some_and(|delivery| !delivery.kind.is_message()) {
            let code = code.map_or(0, Code::number);
            self.end_delivery(id, CallEnd::Done(code), Vec::new());
        }
    }

    /// The receiver answers a request that it has taken.
    ///
    /// # Errors
    /// [`NotAwaited`] if the requester has given up, died, or cannot be reached any more.
    pub fn answer(
        &mut self,
        now_ns: u64,
        id: DeliveryId,
        kind: AnswerKind,
        content: &Content,
    ) -> Result<(), NotAwaited> {
        self.advance(now_ns);
        let state = self.incoming.deliveries.get(&id).map(|delivery| delivery.state);
        if !matches!(state, Some(State::Taken { .. })) || content.long.len() > PIECED_MAX_BYTES {
            return Err(NotAwaited);
        }
        self.send_notification_of_receiver(id);
        if self.is_pieced(content.long.len()) {
            if self.answer_in_pieces(id, kind, content).is_none() {
                // The peer does not fetch the answers before it.
                self.end_delivery(id, CallEnd::Delivered(Failure::TooLong), Vec::new());
            }
            return Ok(());
        }
        let end = CallEnd::Answered(kind, head_of(content));
        self.end_delivery(id, end, body_of(content));
        Ok(())
    }

    /// Sends the notification of the receiver for the requester that waits.
    fn send_notification_of_receiver(&mut self, id: DeliveryId) {
        let Some(delivery) = self.incoming.deliveries.get(&id) else { return };
        let (node, (requester, receiver)) = (delivery.node, delivery.pair);
        let receiver = EndpointId::new(requester.vm, receiver);
        self.send_notification(node, (receiver, requester.address));
    }

    /// `None` if answers wait for the peer that take all the room, and none of them leaves.
    fn answer_in_pieces(
        &mut self,
        id: DeliveryId,
        kind: AnswerKind,
        content: &Content,
    ) -> Option<()> {
        let delivery = self.incoming.deliveries.get(&id)?;
        let (node, call) = (delivery.node, delivery.call);
        // The caller has checked the length.
        let bytes = u32::try_from(content.long.len()).unwrap_or(u32::MAX);
        let streams = &self.peers.get(&node)?.streams;
        let waiting = streams.outgoing_bytes(StreamKind::Answer);
        let limits = &self.own.settings.limits;
        let most = if streams.answers_stall(self.now_ns, ANSWERS_STALL_NS) {
            limits.answers_bytes()
        } else {
            limits.answers_max_bytes()
        };
        if waiting > 0 && waiting + u64::from(bytes) > most {
            return None;
        }
        let end = CallEnd::AnsweredLong(kind, head_of(content), bytes);
        self.end_delivery(id, end, content.payload.to_vec());
        self.begin_stream(node, (call, StreamKind::Answer), content.long.clone());
        Some(())
    }

    /// The receiver has answered a request that it has taken, and the answer is too long.
    pub fn unanswered(&mut self, now_ns: u64, id: DeliveryId, why: Failure) {
        self.advance(now_ns);
        let state = self.incoming.deliveries.get(&id).map(|delivery| delivery.state);
        if matches!(state, Some(State::Taken { .. })) {
            self.end_delivery(id, CallEnd::Delivered(why), Vec::new());
        }
    }

    pub(super) fn cancel_arrived(&mut self, node: NodeId, call: CallId) {
        let peer = self.peers.get(&node);
        let Some(id) = peer.and_then(|peer| peer.incoming.get(&call)).copied() else { return };
        let Some(delivery) = self.incoming.deliveries.get_mut(&id) else { return };
        match delivery.state {
            State::Queued => {
                let why = Failure::Withdrawn;
                self.end_delivery(id, CallEnd::NotDelivered(why), Vec::new());
            }
            State::Offered if self.own.planted.has(Fault::CancelWithoutContest) => {
                self.actions.push_back(Action::Withdraw { delivery: id });
                let why = Failure::Withdrawn;
                self.end_delivery(id, CallEnd::NotDelivered(why), Vec::new());
            }
            State::Offered => {
                delivery.state = State::Withdrawing;
                self.actions.push_back(Action::Withdraw { delivery: id });
            }
            State::Withdrawing => {}
            State::Taken { .. } => {
                self.actions.push_back(Action::Abandon { delivery: id });
                self.end_delivery(id, CallEnd::Delivered(Failure::Withdrawn), Vec::new());
            }
        }
    }

    /// Tells a requester that its request was taken, once.
    pub(super) fn tell_took(&mut self, id: DeliveryId) {
        let Some(delivery) = self.incoming.deliveries.get_mut(&id) else { return };
        if delivery.state == (State::Taken { told: false }) {
            delivery.state = State::Taken { told: true };
            let (pair, node, call) = (delivery.pair, delivery.node, delivery.call);
            self.forget_untold(pair, id);
            self.push(node, Frame::Took { call }, Vec::new());
        }
    }

    /// Nobody needs to hear any more that a request was taken, and no timer either.
    fn forget_untold(&mut self, pair: Pair, id: DeliveryId) {
        if let Some(at_ns) = self.incoming.untold.remove(&(pair, id)) {
            self.timers.remove(&(at_ns, Timer::Took(id)));
        }
    }

    /// A local endpoint calls a remote one whose request it may have taken. Its message may be the
    /// answer, so the requester must know before that the request was taken.
    pub(super) fn tell_took_before(&mut self, (from, to): Pair) {
        let requester = (EndpointId::new(from.vm, to), from.address);
        let of_pair = (requester, DeliveryId(0))..=(requester, DeliveryId(u64::MAX));
        let ids: Vec<DeliveryId> =
            self.incoming.untold.range(of_pair).map(|((_, id), _)| *id).collect();
        ids.into_iter().for_each(|id| self.tell_took(id));
    }

    /// The death of a receiver, or its move.
    pub(super) fn end_deliveries_to(&mut self, endpoint: EndpointId, why: Failure) {
        let all = self.incoming.deliveries.iter().filter(|(_, it)| it.to() == endpoint);
        let all: Vec<(DeliveryId, State)> = all.map(|(id, it)| (*id, it.state)).collect();
        // Queued ones first: the end of an offered one must not offer them to the dead.
        let (queued, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, state)| *state == State::Queued);
        for (id, state) in queued.into_iter().chain(rest) {
            let forgets = self.own.planted.has(Fault::MovedIsNotTaken) && why == Failure::Moved;
            let end = match state {
                State::Taken { .. } if self.own.planted.has(Fault::DeathForgotten) => continue,
                State::Taken { .. } if !forgets => CallEnd::Delivered(Failure::Died),
                _ => CallEnd::NotDelivered(why),
            };
            self.end_delivery(id, end, Vec::new());
        }
    }

    /// The end of a session: its messages go back, unless a receiver is faster.
    pub(super) fn drop_deliveries_from(&mut self, node: NodeId) {
        let stay = self.own.planted.has(Fault::OrphansStay);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let calls: Vec<(CallId, DeliveryId)> =
            peer.incoming.iter().map(|(call, id)| (*call, *id)).collect();
        for (call, id) in calls.into_iter().rev() {
            let Some(delivery) = self.incoming.deliveries.get_mut(&id) else { continue };
            delivery.orphaned = true;
            let vm = delivery.pair.0.vm;
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.incoming_ended(call, vm);
            }
            match delivery.state {
                State::Queued => {
                    self.leave_pair(id);
                    self.incoming.deliveries.remove(&id);
                }
                State::Offered if !stay => {
                    delivery.state = State::Withdrawing;
                    self.actions.push_back(Action::Withdraw { delivery: id });
                }
                State::Offered | State::Withdrawing => {}
                State::Taken { .. } => {
                    let pair = delivery.pair;
                    self.forget_untold(pair, id);
                    self.actions.push_back(Action::Abandon { delivery: id });
                    self.incoming.deliveries.remove(&id);
                }
            }
        }
    }
}
