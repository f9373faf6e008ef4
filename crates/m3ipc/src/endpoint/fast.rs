//! The fast path: sendrec, receive and reply of short messages between endpoints that are awake.
//!
//! ```text
//! sendrec: checks ── post ── poll the answer ── take          receive: checks ── poll ── take
//!            │                    │                                      │        │
//!            └ slow path          └ slow wait                            └────────┴ slow path
//! ```
//!
//! Each call checks first whether it is an ordinary case. Every check that fails leaves the whole
//! call to the slow path, which needs no fast path to be correct. After the last check comes the
//! one publication. A request without an answer soon goes on in the slow wait.
//!
//! Everything unusual costs one comparison together: see [`super::fast_calls`].

use super::Endpoint;
use super::hot_set::NO_LINK;
use super::peer::Peer;

use crate::timeout::Timeout;
use m3ipc_abi::{ANY, Address, Message, Verb};
use m3ipc_link::waiting::{EndsWait, may_sleep_after_publication};
use m3ipc_link::{Counter, FastSpin, MessageKind, SlotState, WaitCall, WaitStrategy};

/// The verbs of the fast path, all of which the endpoint must be allowed.
const VERBS: u32 = Verb::Sendrec.mask() | Verb::Receive.mask() | Verb::Reply.mask();

/// The part of a sendrec that is left to the slow path.
#[derive(Debug)]
pub(super) enum LeftOver {
    /// The whole call.
    Call,
    /// The wait for the answer: the request is posted on the link of this index.
    Answer(u32, SlotState),
    /// The end of the call by a signal, unless the answer is there: the request is posted.
    Signal(u32, SlotState),
}

/// The part of a receive that is left to the slow path. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftReceive {
    /// The whole call.
    Call,
    /// The wait, which has begun: an event that ends the endpoint ends a waiting call.
    Wait,
    /// The end of the call by a signal.
    Signal,
}

/// Why a sleep found no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// The slow wait must go on.
    Yet,
    /// A signal with a handler ended the call.
    Signal,
}

/// What the hot links have.
pub(super) enum Found {
    Nothing,
    /// One message of this kind, on the link of this index.
    One(u32, MessageKind, SlotState),
    /// The notifications of this link, and nothing else.
    Notification(u32),
    /// More than that.
    More,
}

impl Endpoint {
    /// Makes the ordinary case of a sendrec. The answer goes to `deliver`, so that it passes
    /// through no result in memory.
    #[inline(always)]
    pub(super) fn sendrec_fast<T>(
        &mut self,
        to: Address,
        message: &Message,
        limit: Timeout,
        deliver: impl FnOnce(Message) -> T,
    ) -> Result<T, LeftOver> {
        if limit == Timeout::NoWait || !self.is_ordinary() {
            return Err(LeftOver::Call);
        }
        let Some((index, peer)) = self.peers.find_again(to) else { return Err(LeftOver::Call) };
        if !peer.admission().admits(MessageKind::Request) || !peer.link().is_ready_to_post() {
            return Err(LeftOver::Call);
        }
        // A wake-up may take the time of a request to the daemon, which the limit must cover.
        if limit != Timeout::Never && !peer.is_awake() {
            return Err(LeftOver::Call);
        }
        // The point of no return: the request is posted.
        let Message { m_type, payload, .. } = message;
        let (kind, stamp) = (MessageKind::Request, m3ipc_sys::ticks());
        let posted = peer.link_mut().post_short(kind, stamp, *m_type, payload);
        m3ipc_sys::pause_point("client.posted");
        if may_sleep_after_publication(peer, EndsWait::Receive) {
            self.wake_if_ended(index, EndsWait::Receive);
        }
        self.session.page().count(Counter::Sent);
        m3ipc_sys::pause_point("client.woken");
        let found = match self.look_for_answer((index, to), posted, limit) {
            Some(found) => found,
            None if !self.may_sleep(limit) => return Err(LeftOver::Answer(index, posted)),
            None => self.sleep_for_answer(index, posted).map_err(|why| match why {
                NotFound::Yet => LeftOver::Answer(index, posted),
                NotFound::Signal => LeftOver::Signal(index, posted),
            })?,
        };
        let ends = EndsWait::ForThisEndpoint;
        match self.take_fast(index, (MessageKind::Reply, found), ends) {
            Some(answer) => Ok(deliver(answer)),
            None => Err(LeftOver::Answer(index, posted)),
        }
    }

    /// Makes the ordinary case of a receive from ANY.
    #[inline]
    pub(super) fn receive_fast<T>(
        &mut self,
        limit: Timeout,
        deliver: impl FnOnce(Message) -> T,
    ) -> Result<T, LeftReceive> {
        if !self.is_ordinary() {
            return Err(LeftReceive::Call);
        }
        self.receive_ordinary(limit, deliver)
    }

    /// As [`receive_fast`](Self::receive_fast), in a call that is ordinary so far.
    #[inline(always)]
    pub(super) fn receive_ordinary<T>(
        &mut self,
        limit: Timeout,
        deliver: impl FnOnce(Message) -> T,
    ) -> Result<T, LeftReceive> {
        if !self.needs_no_order() {
            return Err(LeftReceive::Call);
        }
        let (index, kind, found) = match self.look_for_one(limit) {
            Found::One(index, kind, state) => (index, kind, state),
            other => match self.find_later(other, limit)? {
                Found::One(index, kind, state) => (index, kind, state),
                Found::Notification(index) => {
                    return self.take_sole_notification(index).map(deliver);
                }
                Found::Nothing | Found::More => return Err(LeftReceive::Wait),
            },
        };
        m3ipc_sys::pause_point("server.before_take");
        // The sender of a request does not sleep until the take.
        let ends = match kind {
            MessageKind::Request => EndsWait::None,
            _ => EndsWait::OnThisLink,
        };
        let Some(message) = self.take_fast(index, (kind, found), ends) else {
            return Err(LeftReceive::Wait);
        };
        m3ipc_sys::pause_point("server.taken");
        self.inbox.order().note_passing();
        // The answer probably goes to the sender.
        self.peers.remember(message.source, index);
        Ok(deliver(message))
    }

    /// Sleeps if nothing was found, and such a call sleeps.
    #[inline(never)]
    fn find_later(&mut self, found: Found, limit: Timeout) -> Result<Found, LeftReceive> {
        if matches!(found, Found::Notification(_)) {
            return Ok(found);
        }
        if limit == Timeout::NoWait {
            return Err(LeftReceive::Call);
        }
        if !self.may_sleep(limit) {
            return Err(LeftReceive::Wait);
        }
        self.sleep_for_one().map_err(|why| match why {
            NotFound::Yet => LeftReceive::Wait,
            NotFound::Signal => LeftReceive::Signal,
        })
    }

    /// Takes the notifications of a link, beside which nothing waits: so they delay no message, and
    /// need not be counted.
    #[inline(never)]
    fn take_sole_notification(&mut self, index: u32) -> Result<Message, LeftReceive> {
        let links = self.peers.index_limit();
        // A peer that is not hot may have come before this one.
        if self.waiter.pages().any_ready_of(links) {
            return Err(LeftReceive::Wait);
        }
        let Some(received) = self.take_notification(index) else {
            return Err(LeftReceive::Wait);
        };
        self.inbox.set_waited(false);
        if !self.inbox.is_empty() {
            // The second notification of the peer waits for the next receive.
            self.fast.close();
        }
        self.inbox.order().note_passing_notification(received.message.source.slot());
        self.peers.remember(received.message.source, index);
        Ok(received.message)
    }

    /// Whether a call with this limit sleeps without further polls.
    #[inline]
    fn may_sleep(&self, limit: Timeout) -> bool {
        limit == Timeout::Never && self.waiter.strategy() == WaitStrategy::Block
    }

    /// Makes the ordinary case of a reply. `false` if nothing was posted.
    #[inline(always)]
    pub(super) fn reply_fast(&mut self, to: Address, message: &Message) -> bool {
        if !self.is_ordinary() {
            return false;
        }
        let Some((index, peer)) = self.peers.find_again(to) else { return false };
        if !peer.admission().admits(MessageKind::Reply) {
            return false;
        }
        let Some(request) = peer.link().ready_to_answer() else { return false };
        m3ipc_sys::pause_point("server.before_answer");
        // The point of no return: the answer is posted, unless the client gives up meanwhile.
        if !peer.link_mut().answer_short(request, message.m_type, &message.payload) {
            return false;
        }
        m3ipc_sys::pause_point("server.answered");
        if may_sleep_after_publication(peer, EndsWait::OnThisLink) {
            self.wake_if_ended(index, EndsWait::OnThisLink);
        }
        m3ipc_sys::pause_point("server.woken");
        self.session.page().count(Counter::Sent);
        true
    }

    /// Whether the fast path may make this call. Counts it then.
    #[inline(always)]
    pub(super) fn is_ordinary(&mut self) -> bool {
        if !self.membership.is_original() || self.session.has_events() {
            return false;
        }
        if self.fast.count() {
            debug_assert!(!self.is_unusual(), "a part of the endpoint changed unnoticed");
            return true;
        }
        self.reopen_fast_path()
    }

    #[cold]
    fn reopen_fast_path(&mut self) -> bool {
        if self.is_unusual() {
            return false;
        }
        self.fast.open();
        self.fast.count()
    }

    /// Whether a part of the endpoint needs what the fast path leaves out.
    fn is_unusual(&self) -> bool {
        self.membership.has_left()
            || !self.membership.may_all(VERBS)
            || self.waiter.is_armed()
            || self.trace.is_on()
            || self.peers.has_gone()
            || self.claims.has_any()
            || self.copies.is_busy()
            || self.payloads.is_busy()
            || self.areas.is_busy()
    }

    /// Whether a message may be received that needs no queue (see
    /// [`take_unordered`](Self::take_unordered)): no remembered wakeup comes before it.
    #[inline]
    fn needs_no_order(&mut self) -> bool {
        self.inbox.order().may_pass_queue()
            && self.session.page().flags() == 0
            && (self.is_known_unqueued() || self.look_at_queue())
    }

    #[inline]
    fn is_known_unqueued(&self) -> bool {
        let is_known = self.fast.is_queue_empty();
        debug_assert!(!is_known || self.is_queue_empty(), "the queue changed unnoticed");
        is_known
    }

    fn is_queue_empty(&self) -> bool {
        self.inbox.needs_no_order()
    }

    #[cold]
    fn look_at_queue(&mut self) -> bool {
        let is_empty = self.is_queue_empty();
        if is_empty {
            self.fast.note_empty_queue();
        }
        is_empty
    }

    /// Polls the hot links until one of them has something. The slow path must receive if none has,
    /// or if there is more.
    #[inline(always)]
    fn look_for_one(&mut self, limit: Timeout) -> Found {
        let found = self.find_one();
        if !matches!(found, Found::Nothing) || limit == Timeout::NoWait || self.session.has_events()
        {
            return found;
        }
        let Some(mut spin) = self.begin_pauses(WaitCall::Receive, None, ANY, limit) else {
            return found;
        };
        let found = loop {
            if !spin.pause() {
                break Found::Nothing;
            }
            // Events come first: a death erases the notification of the dead peer.
            if self.session.has_events() {
                break Found::Nothing;
            }
            let found = self.find_one();
            if !matches!(found, Found::Nothing) {
                break found;
            }
        };
        let has_message = matches!(found, Found::One(..));
        if !has_message {
            // This call has waited, also if the slow path ends it.
            self.inbox.set_waited(true);
        }
        self.end_pauses(spin, !matches!(found, Found::Nothing));
        found
    }

    /// Looks at the hot links and at the ready bitmap once.
    #[inline(always)]
    pub(super) fn find_one(&self) -> Found {
        let links = self.peers.index_limit();
        if self.waiter.pages().any_ready_of(links) {
            return Found::More;
        }
        let hot = self.inbox.hot().entries();
        for (at, index) in hot.iter().enumerate() {
            if *index == NO_LINK {
                break;
            }
            let Some(peer) = self.peers.find_index(*index) else { continue };
            if peer.link().is_silent() {
                continue;
            }
            return match peer.look() {
                Some((kind, state)) if self.is_alone(peer, &hot[at + 1..]) => {
                    Found::One(*index, kind, state)
                }
                _ => self.sort_finds(),
            };
        }
        Found::Nothing
    }

    /// Whether a peer with a message has no notification, and the other links have nothing.
    #[inline(always)]
    fn is_alone(&self, peer: &Peer, others: &[u32]) -> bool {
        if peer.link().has_notification() {
            return false;
        }
        for index in others {
            if *index == NO_LINK {
                break;
            }
            if self.peers.find_index(*index).is_some_and(|other| !other.link().is_silent()) {
                return false;
            }
        }
        true
    }

    /// What the hot links have, if that is more than one message.
    #[inline(never)]
    fn sort_finds(&self) -> Found {
        let mut found = Found::Nothing;
        for index in self.inbox.hot().entries() {
            if *index == NO_LINK {
                break;
            }
            let Some(peer) = self.peers.find_index(*index) else { continue };
            let here = match (peer.look(), peer.has_notification()) {
                (None, false) => continue,
                (Some((kind, state)), false) => Found::One(*index, kind, state),
                (None, true) => Found::Notification(*index),
                (Some(_), true) => return Found::More,
            };
            if !matches!(found, Found::Nothing) {
                return Found::More;
            }
            found = here;
        }
        found
    }

    /// Polls a link until the answer to this request is there. `None` if the slow path must wait.
    #[inline(always)]
    fn look_for_answer(
        &mut self,
        (index, to): (u32, Address),
        request: SlotState,
        limit: Timeout,
    ) -> Option<SlotState> {
        let found = self.peers.get(index).link().look_for_answer(request);
        if found.is_some() {
            m3ipc_sys::pause_point("client.answer_seen");
            return found;
        }
        if self.session.has_events() {
            return None;
        }
        let mut spin = self.begin_pauses(WaitCall::SendRec, Some(index), to, limit)?;
        let link = self.peers.get(index).link();
        let found = loop {
            if !spin.pause() {
                break None;
            }
            let found = link.look_for_answer(request);
            if found.is_some() {
                m3ipc_sys::pause_point("client.answer_seen");
                break found;
            }
            if self.session.has_events() {
                break None;
            }
        };
        self.end_pauses(spin, found.is_some());
        found
    }

    /// Begins the pauses of a call that awaits a link, or all. `None` if the slow path must wait.
    ///
    /// This wait reads no clock, so with a limit it gives the CPU to nobody. A wait that does
    /// records itself: others run meanwhile, and ask whether this endpoint waits.
    #[inline(always)]
    pub(super) fn begin_pauses(
        &mut self,
        call: WaitCall,
        index: Option<u32>,
        peer: Address,
        limit: Timeout,
    ) -> Option<FastSpin> {
        let shares_cpu = self.seems_to_share_cpu(index);
        let spin = self.waiter.spin().begin_fast(shares_cpu, limit == Timeout::Never)?;
        self.record_pauses(spin, call, peer);
        Some(spin)
    }

    #[inline(always)]
    fn record_pauses(&self, spin: FastSpin, call: WaitCall, peer: Address) {
        if spin.shares_cpu() {
            self.session.page().set_blocked(call, peer);
        }
    }

    /// Ends the pauses of a call.
    #[inline(always)]
    pub(super) fn end_pauses(&mut self, spin: FastSpin, has_found: bool) {
        if spin.shares_cpu() {
            self.session.page().set_running();
        }
        self.waiter.spin().learn_fast(&spin, has_found);
    }

    /// Whether the likeliest sender is on this CPU. Looks now and then only: after a move the slow
    /// wait looks again.
    #[inline(always)]
    fn seems_to_share_cpu(&mut self, index: Option<u32>) -> bool {
        let Some(index) = index.or_else(|| self.inbox.hot().likeliest()) else { return false };
        self.fast.shares_cpu_with(index).unwrap_or_else(|| self.look_for_cpu(index))
    }

    #[cold]
    fn look_for_cpu(&mut self, index: u32) -> bool {
        let shares_cpu = self.shares_cpu(Some(index));
        self.fast.note_cpu(index, shares_cpu);
        shares_cpu
    }

    /// Takes a short message. `None` if it was not taken.
    #[inline(always)]
    fn take_fast(
        &mut self,
        index: u32,
        (kind, found): (MessageKind, SlotState),
        ends: EndsWait,
    ) -> Option<Message> {
        let peer = self.peers.get_mut(index);
        let message = peer.take_short(kind, found)?;
        let may_sleep = may_sleep_after_publication(peer, ends);
        self.inbox.note_taken(peer.identity(), kind.into());
        self.session.page().count(Counter::Received);
        if may_sleep {
            self.wake_if_ended(index, ends);
        }
        Some(message)
    }
}
