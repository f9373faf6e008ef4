//! Calls of local endpoints to remote ones, from their acceptance to their one end.
//!
//! | state | the session ends | cancelled | end arrives |
//! |---|---|---|---|
//! | Waiting: never sent | not delivered | not delivered, at once | |
//! | Sent | unknown | asks; without answer unknown | as the peer says |
//! | Took: the peer has said so | delivered | asks; without answer delivered | as the peer says |
//! | Answering: in pieces | delivered | delivered, at once | |
//!
//! A sent call with pieces that have not left is not delivered when its session ends.
//!
//! A call whose caller has its outcome may stay open: the peer's limit counts it until its end.

use m3ipc_abi::{Address, Code};

use super::action::{Action, Call, CallRefusal};
use super::delivery::Queue;
use super::open_call::{OpenCall, State};
use super::peer::WaitingCalls;
use super::{Machine, RuleBroken, Timer};
use crate::faults::Fault;
use crate::ids::{CallId, EndpointId, NodeId, VmId};
use crate::outcome::{Failure, Outcome};
use crate::packet::{CallEnd, CallKind, Frame, PIECED_MAX_BYTES, StreamKind, content_of};

impl Machine {
    /// A local endpoint calls a remote one. The call ends by [`Action::Ended`].
    ///
    /// # Errors
    /// [`CallRefusal`]: the message is surely not delivered.
    pub fn call(&mut self, now_ns: u64, call: Call) -> Result<CallId, CallRefusal> {
        let node = self.may_call(now_ns, &call)?;
        Ok(self.begin_call(node, call))
    }

    /// Begins a call that [`may_call`](Self::may_call) has just accepted, to the node that it
    /// named.
    pub fn begin_call(&mut self, node: NodeId, call: Call) -> CallId {
        let Call { from, to, kind, user, content, limit_ns } = call;
        self.outgoing.last += 1;
        let id = CallId(self.outgoing.last);
        let bytes = content.long.len();
        let pieced_bytes = if self.is_pieced(bytes) { bytes as u64 } else { 0 };
        self.acquaint(from, node);
        self.tell_took_before((from, to));
        if let Some(limit_ns) = limit_ns {
            self.timers.insert((limit_ns, Timer::Limit(id)));
        }
        let open = OpenCall {
            from,
            to,
            kind,
            user,
            node,
            state: State::Waiting,
            content: Some(content),
            limit_ns,
            cancelled_ns: None,
            reported: false,
            answer: None,
        };
        self.outgoing.calls.insert(id, open);
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.waiting.push(from.vm, id, pieced_bytes);
            user.into_iter().for_each(|user| peer.shares.add(from.vm, user));
        }
        id
    }

    /// Whether [`call`](Self::call) would accept a call now: the node that it goes to.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn may_call(&mut self, now_ns: u64, call: &Call) -> Result<NodeId, CallRefusal> {
        self.advance(now_ns);
        let node = self.reachable(EndpointId::new(call.from.vm, call.to))?;
        if !self.living.contains_key(&call.from) {
            return Err(CallRefusal::NoEndpoint);
        }
        if call.content.long.len() > PIECED_MAX_BYTES {
            return Err(CallRefusal::TooLong(call.content.long.len()));
        }
        let is_shared = !self.own.planted.has(Fault::ShareIgnored);
        if call.user.is_some_and(|user| is_shared && !self.admits(call.from.vm, call.to, user, &[]))
        {
            return Err(CallRefusal::Share(node));
        }
        if !self.has_room(node, call.from.vm, call.content.long.len(), 0) {
            return Err(CallRefusal::Full(node));
        }
        Ok(node)
    }

    /// Whether a user may begin another call with a remote endpoint, beside calls of these users
    /// that begin before it. If not, [`Action::Room`] follows when it may.
    pub fn admits(&mut self, vm: VmId, to: Address, user: u32, beside: &[u32]) -> bool {
        let node = self.reachable(EndpointId::new(vm, to));
        // Any other failure is for the call to find.
        let Some(peer) = node.ok().and_then(|node| self.peers.get_mut(&node)) else { return true };
        let most = peer.shared_calls(&self.own.settings.limits);
        peer.shares.admits(vm, user, beside, most)
    }

    /// The caller wants its call back: a time limit or a signal. The call ends by
    /// [`Action::Ended`], which says what became of the message.
    pub fn withdraw(&mut self, now_ns: u64, call: CallId) {
        self.advance(now_ns);
        self.cancel(call);
    }

    pub(super) fn cancel(&mut self, id: CallId) {
        let Some(call) = self.outgoing.calls.get_mut(&id) else { return };
        let node = call.node;
        if call.state == State::Waiting {
            let vm = call.from.vm;
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.waiting.remove(vm, id);
            }
            self.end_call(id, Outcome::NotDelivered(Failure::Withdrawn));
            return self.announce_room(node);
        }
        if call.state == State::Answering {
            return self.report(id, Outcome::Delivered(Failure::Withdrawn));
        }
        if call.cancelled_ns.is_none() {
            let at_ns = self.now_ns.saturating_add(self.own.settings.cancel_ns);
            call.cancelled_ns = Some(at_ns);
            self.timers.insert((at_ns, Timer::Cancelled(id)));
            self.push(node, Frame::Cancel { call: id }, Vec::new());
        }
    }

    /// The peer does not answer a cancellation: the caller waits no longer, the call stays open.
    pub(super) fn cancellation_unanswered(&mut self, id: CallId) {
        let planted = self.own.planted.has(Fault::CancelIsNotDelivered);
        let Some(call) = self.outgoing.calls.get_mut(&id) else { return };
        let why = Failure::Withdrawn;
        let outcome = match call.state {
            State::Took | State::Answering => Outcome::Delivered(why),
            _ if planted => Outcome::NotDelivered(why),
            _ => Outcome::Unknown(why),
        };
        self.report(id, outcome);
    }

    /// Tells the caller the outcome, once.
    fn report(&mut self, id: CallId, outcome: Outcome) {
        let Some(call) = self.outgoing.calls.get_mut(&id) else { return };
        if let Some(limit_ns) = call.limit_ns.take() {
            self.timers.remove(&(limit_ns, Timer::Limit(id)));
        }
        let server = EndpointId::new(call.from.vm, call.to);
        if !std::mem::replace(&mut call.reported, true) {
            self.actions.push_back(Action::Ended { call: id, outcome });
            self.death_may_follow(server);
        }
    }

    fn end_call(&mut self, id: CallId, outcome: Outcome) {
        self.report(id, outcome);
        let Some(call) = self.outgoing.calls.remove(&id) else { return };
        if let Some(at_ns) = call.cancelled_ns {
            self.timers.remove(&(at_ns, Timer::Cancelled(id)));
        }
        if let Some(peer) = self.peers.get_mut(&call.node) {
            peer.streams.drop_outgoing((id, StreamKind::Call));
            let node = call.node;
            let is_told = !self.own.planted.has(Fault::ShareUntold);
            if let Some(user) = call.user {
                peer.shares.remove(call.from.vm, user);
                let roomy = peer.shares.take_roomy(peer.shared_calls(&self.own.settings.limits));
                self.actions.extend(
                    roomy.into_iter().filter(|_| is_told).map(|vm| Action::Room { node, vm }),
                );
            }
        }
        self.call_to_moved_ended((call.from.vm, call.to.slot()));
        if call.state == State::Answering {
            self.outgoing.answering.remove(&(call.from, call.to));
        }
        let server = EndpointId::new(call.from.vm, call.to);
        self.death_may_follow(server);
        if call.state == State::Answering {
            self.offer_first((server, call.from.address), Queue::Messages);
        }
    }

    /// The death of a caller: nobody awaits the outcomes of its calls.
    pub(super) fn end_calls_of(&mut self, endpoint: EndpointId) {
        let calls = self.outgoing.calls.iter().filter(|(_, call)| call.from == endpoint);
        let ids: Vec<CallId> = calls.map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(call) = self.outgoing.calls.get_mut(&id) {
                call.reported = true;
            }
            self.cancel(id);
        }
    }

    /// The end of a session: each call to the node ends.
    pub(super) fn end_calls_to(&mut self, node: NodeId, why: Failure) {
        let sent_is_not = self.own.planted.has(Fault::SentIsNotDelivered);
        let waiting_stays = self.own.planted.has(Fault::WaitingSurvives);
        let calls = self.outgoing.calls.iter().filter(|(_, call)| call.node == node);
        let calls: Vec<(CallId, State)> = calls.map(|(id, call)| (*id, call.state)).collect();
        for (id, state) in calls {
            let outcome = match state {
                State::Waiting => Outcome::NotDelivered(why),
                State::Sent if self.is_unfinished(node, id) => Outcome::NotDelivered(why),
                State::Sent if sent_is_not => Outcome::NotDelivered(why),
                State::Sent => Outcome::Unknown(why),
                State::Took | State::Answering => Outcome::Delivered(why),
            };
            if state == State::Waiting && waiting_stays {
                self.report(id, outcome);
            } else {
                self.end_call(id, outcome);
            }
        }
        if let Some(peer) = self.peers.get_mut(&node)
            && !waiting_stays
        {
            peer.waiting = WaitingCalls::default();
        }
        self.announce_room(node);
    }

    /// A sent call of a peer's answer: the peer may speak of no other.
    fn sent_call(&mut self, node: NodeId, id: CallId) -> Result<&mut OpenCall, RuleBroken> {
        let call = self.outgoing.calls.get_mut(&id).ok_or(RuleBroken)?;
        if call.node == node && call.state != State::Waiting { Ok(call) } else { Err(RuleBroken) }
    }

    pub(super) fn took_arrived(&mut self, node: NodeId, id: CallId) -> Result<(), RuleBroken> {
        let call = self.sent_call(node, id)?;
        if call.kind != CallKind::Request || call.state != State::Sent {
            return Err(RuleBroken);
        }
        call.state = State::Took;
        if !call.reported {
            self.actions.push_back(Action::RequestTaken { call: id });
        }
        Ok(())
    }

    pub(super) fn end_arrived(
        &mut self,
        node: NodeId,
        id: CallId,
        end: CallEnd,
        body: &[u8],
    ) -> Result<(), RuleBroken> {
        let by_pair = self.own.planted.has(Fault::EndByPair);
        let call = self.sent_call(node, id)?;
        if call.state == State::Answering {
            return Err(RuleBroken);
        }
        let (kind, took, vm) = (call.kind, call.state == State::Took, call.from.vm);
        let pair = (call.from, call.to);
        let outcome = match end {
            CallEnd::Taken if kind == CallKind::Send => Outcome::Taken,
            CallEnd::Answered(answer, head) if kind == CallKind::Request => {
                Outcome::Answered(answer, content_of(head, body).ok_or(RuleBroken)?)
            }
            CallEnd::AnsweredLong(answer, head, bytes) if kind == CallKind::Request => {
                let content = content_of(head, body).ok_or(RuleBroken)?;
                call.answer = Some((answer, content));
                call.state = State::Answering;
                let peer = self.peers.get_mut(&node).ok_or(RuleBroken)?;
                peer.ended(vm);
                if !peer.streams.expect((id, StreamKind::Answer), bytes) {
                    return Err(RuleBroken);
                }
                self.outgoing.answering.insert(pair);
                self.fetch(node);
                return Ok(());
            }
            CallEnd::Done(code)
                if !kind.is_message() && (code == 0 || Code::from_number(code).is_some()) =>
            {
                Outcome::Done(code)
            }
            CallEnd::NotDelivered(why) if !took => Outcome::NotDelivered(why),
            CallEnd::Delivered(why) if kind == CallKind::Request => Outcome::Delivered(why),
            _ => return Err(RuleBroken),
        };
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.ended(vm);
        }
        if by_pair {
            let of_pair = |call: &OpenCall| (call.from, call.to) == pair && !call.reported;
            let next = self.outgoing.calls.iter().find(|(_, call)| of_pair(call));
            if let Some(next) = next.map(|(next, _)| *next) {
                self.report(next, outcome.clone());
            }
        }
        if outcome == Outcome::NotDelivered(Failure::Moved) {
            self.move_implied(node, EndpointId::new(vm, pair.1));
        }
        self.end_call(id, outcome);
        Ok(())
    }

    /// The payload of an answer is complete.
    pub(super) fn answer_completed(&mut self, id: CallId, bytes: Vec<u8>) {
        let Some(call) = self.outgoing.calls.get_mut(&id) else { return };
        let Some((answer, mut content)) = call.answer.take() else { return };
        content.long = bytes;
        self.end_call(id, Outcome::Answered(answer, content));
    }

    /// This process has no memory for an answer, which is lost.
    pub(super) fn answer_without_memory(&mut self, id: CallId) {
        if self.outgoing.calls.get_mut(&id).is_some_and(|call| call.answer.take().is_some()) {
            self.end_call(id, Outcome::Delivered(Failure::TooLong));
        }
    }

    fn is_unfinished(&self, node: NodeId, id: CallId) -> bool {
        let peer = self.peers.get(&node);
        peer.is_some_and(|peer| peer.streams.is_unfinished((id, StreamKind::Call)))
    }

    /// A remote endpoint has died. The ends of calls come first: answers that it gave before, and
    /// the word of its node about calls that met its death on the way.
    pub(super) fn death_arrived(&mut self, endpoint: EndpointId) {
        self.outgoing.dying.insert(endpoint, CallId(self.outgoing.last));
        self.death_may_follow(endpoint);
    }

    /// Tells the death of a remote endpoint if it was waiting for the end of the last call.
    fn death_may_follow(&mut self, endpoint: EndpointId) {
        // No endpoint dies almost always.
        if self.outgoing.dying.contains_key(&endpoint) && self.awaited_ends(endpoint).is_empty() {
            self.outgoing.dying.remove(&endpoint);
            self.actions.push_back(Action::Died { endpoint });
        }
    }

    /// A successor with the same address lives: the driver must hear of the death before.
    pub(super) fn answers_are_over(&mut self, endpoint: EndpointId) {
        for id in self.awaited_ends(endpoint) {
            let is_answered = |call: &OpenCall| call.state == State::Answering;
            if self.outgoing.calls.get(&id).is_some_and(is_answered) {
                self.report(id, Outcome::Delivered(Failure::Died));
            }
        }
        if self.outgoing.dying.remove(&endpoint).is_some() {
            self.actions.push_back(Action::Died { endpoint });
        }
    }

    /// The calls to an endpoint that has died whose ends come before its death.
    fn awaited_ends(&self, endpoint: EndpointId) -> Vec<CallId> {
        let Some(latest) = self.outgoing.dying.get(&endpoint) else { return Vec::new() };
        let open = self.outgoing.calls.range(..=*latest).filter(|(_, call)| {
            call.state != State::Took
                && EndpointId::new(call.from.vm, call.to) == endpoint
                && !call.reported
        });
        open.map(|(id, _)| *id).collect()
    }
}
