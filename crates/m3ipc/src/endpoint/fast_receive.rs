//! The fast path of receive, as that of [`super::fast`].
//!
//! ```text
//! from ANY: checks ── poll the hot links ── take     from one: checks ── poll its link ── take
//!             │               │                                  │            │
//!             └ slow path     └ sleep, slow wait                 └ slow path  └ sleep, slow wait
//! ```

use super::Endpoint;
use super::daemon_session::DaemonSession;
use super::fast::{NotFound, take_ordinary};
use super::fast_pauses::{Look, Looker, Pauses};
use super::fast_payload::Inward;
use super::hot_set::{HotSet, NO_LINK};
use super::page_set::PageSets;
use super::peer::Peer;
use super::peers::Peers;
use super::received::{Received, ReceivedKind};
use crate::timeout::Timeout;
use core::ops::ControlFlow;
use m3ipc_abi::{ANY, Address, Message, SYSTEM};
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{Counter, MessageKind, SlotState, WaitCall};

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

/// What has arrived on a link.
#[derive(Clone, Copy)]
pub(super) enum Arrived {
    /// A message, and no notification.
    Message(MessageKind, SlotState),
    /// Notifications, and no message.
    Notification,
}

/// An arrival on the link of an index.
pub(super) type OneArrival = (u32, Arrived);

/// What links have.
pub(super) enum Found {
    Nothing,
    /// This, and nothing else.
    One(OneArrival),
    /// More than that.
    More,
}

/// The parts of an endpoint that tell what has arrived.
#[derive(Clone, Copy)]
struct Arrivals<'a> {
    peers: &'a Peers,
    hot: &'a HotSet,
    pages: &'a PageSets,
}

/// The look for an arrival from any endpoint.
struct ForAny<'a> {
    arrivals: Arrivals<'a>,
    session: &'a DaemonSession,
}

impl Looker for ForAny<'_> {
    type Found = OneArrival;

    #[inline(always)]
    fn look(&self) -> Look<OneArrival> {
        // Events come first: one may be a notification, or the death of a peer with an earlier one.
        if self.session.has_events() { ControlFlow::Break(None) } else { self.arrivals.find() }
    }
}

/// The look for an arrival from one endpoint.
struct ForOne<'a> {
    index: u32,
    peer: &'a Peer,
    session: &'a DaemonSession,
}

impl Looker for ForOne<'_> {
    type Found = OneArrival;

    #[inline(always)]
    fn look(&self) -> Look<OneArrival> {
        match look_at(self.index, self.peer) {
            ControlFlow::Continue(()) if self.session.has_events() => ControlFlow::Break(None),
            look => look,
        }
    }
}

impl Endpoint {
    /// Makes the ordinary case of a receive from ANY.
    #[inline]
    pub(super) fn receive_fast<I: Inward, T>(
        &mut self,
        limit: Timeout,
        into: I,
        deliver: impl FnOnce(I::Taken) -> T,
    ) -> Result<T, LeftReceive> {
        if !self.is_ordinary() {
            return Err(LeftReceive::Call);
        }
        self.receive_ordinary(limit, into, deliver)
    }

    /// As [`receive_fast`](Self::receive_fast), in a call that is ordinary so far.
    #[inline(always)]
    pub(super) fn receive_ordinary<I: Inward, T>(
        &mut self,
        limit: Timeout,
        into: I,
        deliver: impl FnOnce(I::Taken) -> T,
    ) -> Result<T, LeftReceive> {
        if !self.needs_no_order() {
            return Err(LeftReceive::Call);
        }
        let (index, arrived) = match self.look_for_one(limit) {
            Some(found) => found,
            None => self.find_later(limit)?,
        };
        // A peer that is not hot may have come before this notification.
        if matches!(arrived, Arrived::Notification) && self.is_any_ready() {
            return Err(LeftReceive::Wait);
        }
        let is_last = self.inbox.order().note_passing();
        m3ipc_sys::pause_point("server.before_take");
        let taken = self.take_arrived((index, arrived), into, is_last)?;
        m3ipc_sys::pause_point("server.taken");
        // The answer probably goes to the sender.
        self.peers.remember(I::source(&taken), index);
        Ok(deliver(taken))
    }

    /// Makes the ordinary case of a receive from one endpoint.
    #[inline]
    pub(super) fn receive_one_fast<I: Inward, T>(
        &mut self,
        source: Address,
        limit: Timeout,
        into: I,
        deliver: impl FnOnce(I::Taken) -> T,
    ) -> Result<T, LeftReceive> {
        // Notifications may lie on no link, and deaths come from SYSTEM.
        if !self.is_ordinary() || source == SYSTEM || self.inbox.has_any_kept() {
            return Err(LeftReceive::Call);
        }
        let Some((index, _)) = self.peers.find_again(source) else {
            return Err(LeftReceive::Call);
        };
        // No message comes from a peer that broke the rules.
        if self.peers.get(index).admission().is_closed() {
            return Err(LeftReceive::Call);
        }
        let found = match self.look_on_link((index, source), limit) {
            Some(found) => found,
            None => self.find_later_on(index, limit)?,
        };
        let is_last = self.inbox.order().note_directed();
        self.take_arrived(found, into, is_last).map(deliver)
    }

    /// Takes an arrival, beside which nothing waits: so notifications delay no message, and need
    /// not be counted. `is_last`: the last one before a look at the clock.
    #[inline(always)]
    fn take_arrived<I: Inward>(
        &mut self,
        (index, arrived): OneArrival,
        into: I,
        is_last: bool,
    ) -> Result<I::Taken, LeftReceive> {
        match arrived {
            Arrived::Message(kind, state) if !is_last => {
                self.take_message(index, (kind, state), into)
            }
            _ => self.take_by_clock((index, arrived), into, is_last),
        }
    }

    /// Takes a message.
    #[inline(always)]
    fn take_message<I: Inward>(
        &mut self,
        index: u32,
        (kind, state): (MessageKind, SlotState),
        into: I,
    ) -> Result<I::Taken, LeftReceive> {
        // The sender of a request does not sleep until the take.
        let ends = match kind {
            MessageKind::Request => EndsWait::None,
            _ => EndsWait::OnThisLink,
        };
        let (peer, page) = (self.peers.get_mut(index), self.session.page());
        match take_ordinary(into, peer, &mut self.inbox, page, (kind, state), ends) {
            Some((taken, may_sleep)) => {
                if may_sleep {
                    self.wake_if_ended(index, ends);
                }
                Ok(taken)
            }
            None => Err(LeftReceive::Wait),
        }
    }

    #[inline(always)]
    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals { peers: &self.peers, hot: self.inbox.hot(), pages: self.waiter.pages() }
    }

    fn is_any_ready(&self) -> bool {
        self.waiter.pages().any_ready_of(self.peers.index_limit())
    }

    /// What the hot links have.
    pub(super) fn find_arrivals(&self) -> Found {
        self.arrivals().sort()
    }

    /// Polls the hot links until one of them has something and the others have nothing. `None` if
    /// that is not so: there is more, or nothing.
    #[inline(always)]
    fn look_for_one(&mut self, limit: Timeout) -> Option<OneArrival> {
        let shares_cpu = match self.inbox.hot().likeliest() {
            Some(index) => self.seems_to_share_cpu(index),
            None => false,
        };
        let (spin, pages) = self.waiter.spin_and_pages();
        let arrivals = Arrivals { peers: &self.peers, hot: self.inbox.hot(), pages };
        let session = &self.session;
        let page = session.page();
        let (call, peer) = (WaitCall::Receive, ANY);
        let pauses = Pauses { spin, page, shares_cpu, limit, call, peer };
        let (found, has_paused) = pauses.until(ForAny { arrivals, session });
        if has_paused {
            self.note_pauses(found);
        }
        found
    }

    /// Polls one link until it has one arrival, as
    /// [`look_for_one`](Self::look_for_one).
    #[inline(always)]
    fn look_on_link(
        &mut self,
        (index, source): (u32, Address),
        limit: Timeout,
    ) -> Option<OneArrival> {
        let shares_cpu = self.seems_to_share_cpu(index);
        let (call, spin) = (WaitCall::Receive, self.waiter.spin());
        let (peer, session) = (self.peers.get(index), &self.session);
        let page = session.page();
        let pauses = Pauses { spin, page, shares_cpu, limit, call, peer: source };
        let (found, has_paused) = pauses.until(ForOne { index, peer, session });
        if has_paused {
            self.note_pauses(found);
        }
        found
    }

    /// Notes whether this call has waited, which counts for notifications, also if the slow path
    /// ends it.
    #[inline(always)]
    fn note_pauses(&mut self, found: Option<OneArrival>) {
        if !matches!(found, Some((_, Arrived::Message(..)))) {
            self.inbox.set_waited(true);
        }
    }

    /// What is there after a look or pauses in which no sole arrival came. Sleeps if such a call
    /// sleeps.
    #[inline(never)]
    fn find_later(&mut self, limit: Timeout) -> Result<OneArrival, LeftReceive> {
        // Events come first, and a remembered wakeup: a message that followed them waits.
        if self.session.has_events() || self.session.page().flags() != 0 {
            let has_begun = limit != Timeout::NoWait;
            return Err(if has_begun { LeftReceive::Wait } else { LeftReceive::Call });
        }
        let found = self.find_arrivals();
        self.find_or_sleep(found, limit, Self::sleep_for_one)
    }

    /// The same for one link.
    #[inline(never)]
    fn find_later_on(&mut self, index: u32, limit: Timeout) -> Result<OneArrival, LeftReceive> {
        let found = self.find_on(index);
        self.find_or_sleep(found, limit, |endpoint| endpoint.sleep_for_message_on(index))
    }

    #[inline]
    fn find_or_sleep(
        &mut self,
        found: Found,
        limit: Timeout,
        sleep: impl FnOnce(&mut Self) -> Result<OneArrival, NotFound>,
    ) -> Result<OneArrival, LeftReceive> {
        let found = match found {
            // It has come since the last look.
            Found::One(found) => found,
            _ if limit == Timeout::NoWait => return Err(LeftReceive::Call),
            _ if !self.may_sleep(limit) => return Err(LeftReceive::Wait),
            _ => sleep(self).map_err(|why| match why {
                NotFound::Yet => LeftReceive::Wait,
                NotFound::Signal => LeftReceive::Signal,
            })?,
        };
        if matches!(found.1, Arrived::Message(..)) {
            self.inbox.set_waited(false);
        }
        Ok(found)
    }

    /// What the link of this index has.
    pub(super) fn find_on(&self, index: u32) -> Found {
        match look_at(index, self.peers.get(index)) {
            ControlFlow::Continue(()) => Found::Nothing,
            ControlFlow::Break(Some(found)) => Found::One(found),
            ControlFlow::Break(None) => Found::More,
        }
    }

    /// Takes the notifications of a link, as [`take_notification`](Self::take_notification).
    #[inline]
    fn take_notifications(&mut self, index: u32) -> Result<Message, LeftReceive> {
        let peer = self.peers.get_mut(index);
        let identity = peer.identity();
        // Pulses count the notifications that pass them.
        if peer.link().has_pulse() {
            return Err(LeftReceive::Wait);
        }
        // A receive that waited takes the first one: that one ended the wait.
        let has_waited = self.inbox.has_waited();
        let bits = if has_waited {
            peer.link().take_first_notification()
        } else {
            peer.link().take_notifications()
        };
        let Some(bits) = bits else { return Err(LeftReceive::Wait) };
        let has_more = has_waited && peer.has_notification();
        self.session.page().count(Counter::Received);
        self.inbox.set_waited(false);
        self.inbox.note_taken(identity, ReceivedKind::Notification);
        if has_more || !self.inbox.hot().has(index) {
            self.note_notifier(index, has_more);
        }
        Ok(Received::of_notification(identity.address, bits).message)
    }

    /// Notes a notification of a peer that is not hot, or has more of them.
    #[cold]
    fn note_notifier(&mut self, index: u32, has_more: bool) {
        let statuses = self.waiter.pages().statuses();
        self.inbox.record_sender(&mut self.peers, index, statuses);
        if has_more {
            // The second notification of the peer waits for the next receive.
            self.inbox.poll_link(&mut self.peers, index);
        }
        if !self.inbox.is_empty() {
            self.fast.close();
        }
    }

    /// Whether a message may be received that needs no queue (see
    /// [`take_unordered`](Self::take_unordered)): no remembered wakeup comes before it.
    #[inline(always)]
    fn needs_no_order(&mut self) -> bool {
        self.inbox.order().may_pass_queue()
            && self.session.page().flags() == 0
            && (self.is_known_unqueued() || self.look_at_queue())
    }

    #[inline(always)]
    fn is_known_unqueued(&self) -> bool {
        let is_known = self.fast.is_queue_empty();
        debug_assert!(!is_known || self.is_queue_empty(), "the queue changed unnoticed");
        is_known
    }

    fn is_queue_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    #[cold]
    fn look_at_queue(&mut self) -> bool {
        let is_empty = self.is_queue_empty();
        if is_empty {
            self.fast.note_empty_queue();
        }
        is_empty
    }

    /// Takes notifications, or the last message before a look at the clock. The next receive from
    /// ANY takes the slow path if all links must be polled.
    #[inline(never)]
    fn take_by_clock<I: Inward>(
        &mut self,
        (index, arrived): OneArrival,
        mut into: I,
        is_last: bool,
    ) -> Result<I::Taken, LeftReceive> {
        let (taken, is_message) = match arrived {
            Arrived::Message(kind, state) => (self.take_message(index, (kind, state), into)?, true),
            Arrived::Notification => (into.notification(self.take_notifications(index)?), false),
        };
        if is_last {
            self.note_time_of(index, is_message);
        }
        Ok(taken)
    }

    /// Reads the clock. The next message of a peer was posted after the take of its last one; after
    /// its notifications an earlier one may be there.
    #[cold]
    fn note_time_of(&mut self, index: u32, is_message: bool) {
        let now_ticks = m3ipc_sys::ticks();
        self.inbox.order().note_time(now_ticks);
        self.inbox.order().note_look_at_clock();
        if is_message {
            self.peers.get_mut(index).marks().note_take(now_ticks);
        }
    }
}

/// Looks at one link. It breaks without an arrival if the link has more than one.
#[inline(always)]
fn look_at(index: u32, peer: &Peer) -> Look<OneArrival> {
    match peer.look_for_all() {
        m3ipc_link::Look::Nothing => ControlFlow::Continue(()),
        m3ipc_link::Look::Message(kind, state) if peer.admission().receives(kind) => {
            ControlFlow::Break(Some((index, Arrived::Message(kind, state))))
        }
        m3ipc_link::Look::Notification if peer.admission().receives_notification() => {
            ControlFlow::Break(Some((index, Arrived::Notification)))
        }
        _ => ControlFlow::Break(None),
    }
}

impl Arrivals<'_> {
    /// Looks at the hot links and at the ready bitmap once.
    #[inline(always)]
    fn find(self) -> Look<OneArrival> {
        if self.pages.any_ready_of(self.peers.index_limit()) {
            return ControlFlow::Break(None);
        }
        let hot = self.hot.entries();
        for (at, index) in hot.iter().enumerate() {
            if *index == NO_LINK {
                break;
            }
            let Some(peer) = self.peers.find_index(*index) else { continue };
            let look = look_at(*index, peer);
            if look.is_break() {
                return if self.are_silent(&hot[at + 1..]) {
                    look
                } else {
                    ControlFlow::Break(None)
                };
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether none of these links has anything.
    #[inline(always)]
    fn are_silent(self, links: &[u32]) -> bool {
        for index in links {
            if *index == NO_LINK {
                break;
            }
            if self.peers.find_index(*index).is_some_and(|other| !other.link().is_silent()) {
                return false;
            }
        }
        true
    }

    /// What the hot links have, and whether it is all.
    #[inline(never)]
    fn sort(self) -> Found {
        if self.pages.any_ready_of(self.peers.index_limit()) {
            return Found::More;
        }
        let mut found = Found::Nothing;
        for index in self.hot.entries() {
            if *index == NO_LINK {
                break;
            }
            let Some(peer) = self.peers.find_index(*index) else { continue };
            let here = match (peer.look(), peer.has_notification()) {
                (None, false) => continue,
                (Some((kind, state)), false) => Found::One((*index, Arrived::Message(kind, state))),
                (None, true) => Found::One((*index, Arrived::Notification)),
                (Some(_), true) => return Found::More,
            };
            if !matches!(found, Found::Nothing) {
                return Found::More;
            }
            found = here;
        }
        found
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::super::fast_payload::Nothing;
    use super::super::received::Source;
    use super::*;

    #[test]
    fn notifications_of_a_sole_peer_come_back_to_the_fast_path() {
        let node = crate::test::node();
        let (mut server, mut client) = node.pair_without_link();
        if std::env::var_os("M3_NO_FAST_PATH").is_some() {
            return;
        }
        // The first ones take the slow path, in which the link joins the hot set. So does one that
        // comes with an event of the daemon.
        let is_fast = (0..20).any(|_| {
            client.notify(server.address()).unwrap();
            let taken = server.receive_fast(Timeout::NoWait, Nothing, |message| message);
            let message = match &taken {
                Ok(message) => *message,
                Err(_left) => server.receive(Source::Any).unwrap(),
            };
            assert!(message.is_notification());
            taken.is_ok()
        });
        assert!(is_fast, "each one took the slow path");
    }
}
