//! The fast path: calls between endpoints that are awake, with messages that lie whole in a link.
//! This file has its checks, `sendrec` and `reply`.
//!
//! ```text
//! sendrec: checks ── post ── poll the answer ── take       receive: checks ── poll ── take
//!            │                    │                                   │        │
//!            └ slow path          └ slow wait                         └────────┴ slow path
//! ```
//!
//! Each call checks first whether it is an ordinary case. Every check that fails leaves the whole
//! call to the slow path, which needs no fast path to be correct. After the last check comes the
//! one publication. A request without an answer soon goes on in the slow wait.
//!
//! | file | part |
//! |---|---|
//! | [`super::fast_calls`] | everything unusual, which costs one comparison together |
//! | [`super::fast_receive`] | receive |
//! | [`super::fast_send`] | send and notify |
//! | [`super::fast_payload`] | what travels beside a message |
//! | [`super::fast_pauses`] | the first part of a wait |
//! | [`super::fast_sleep`] | a sleep |

use super::Endpoint;
use super::daemon_session::DaemonSession;
use super::fast_pauses::{Look, Looker, Pauses};
use super::fast_payload::{Inward, Outward};
use super::inbox::Inbox;
use super::peer::Peer;
use crate::timeout::Timeout;
use core::ops::ControlFlow;
use m3ipc_abi::{Address, Message, Verb};
use m3ipc_link::waiting::{EndsWait, may_sleep_after_publication};
use m3ipc_link::{ControlPage, Counter, Link, MessageKind, SlotState, WaitCall, WaitStrategy};

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

/// Why a sleep found no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// The slow wait must go on.
    Yet,
    /// A signal with a handler ended the call.
    Signal,
}

/// The look for the answer to a request.
struct ForAnswer<'a> {
    link: &'a Link,
    session: &'a DaemonSession,
    request: SlotState,
}

impl Looker for ForAnswer<'_> {
    type Found = SlotState;

    #[inline(always)]
    fn look(&self) -> Look<SlotState> {
        match self.link.look_for_answer(self.request) {
            None if self.session.has_events() => ControlFlow::Break(None),
            None => ControlFlow::Continue(()),
            found => ControlFlow::Break(found),
        }
    }
}

impl Endpoint {
    /// Makes the ordinary case of a sendrec. The answer goes to `deliver`, so that it passes
    /// through no result in memory.
    #[inline(always)]
    pub(super) fn sendrec_fast<I: Inward, T>(
        &mut self,
        to: Address,
        (message, beside): (&Message, impl Outward),
        limit: Timeout,
        into: I,
        deliver: impl FnOnce(I::Taken) -> T,
    ) -> Result<T, LeftOver> {
        // Some dozen cycles, which pass beside the checks.
        let stamp = m3ipc_sys::ticks();
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
        let posted = beside.post(peer.link_mut(), MessageKind::Request, stamp, message);
        m3ipc_sys::pause_point("client.posted");
        if may_sleep_after_publication(peer, EndsWait::Receive) {
            self.wake_if_ended(index, EndsWait::Receive);
        }
        self.session.page().count(Counter::Sent);
        m3ipc_sys::pause_point("client.woken");
        let found = self.wait_for_answer((index, to), posted, limit)?;
        m3ipc_sys::pause_point("client.answer_seen");
        let ends = EndsWait::ForThisEndpoint;
        let kind = (MessageKind::Reply, found);
        let (peer, page) = (self.peers.get_mut(index), self.session.page());
        match take_ordinary(into, peer, &mut self.inbox, page, kind, ends) {
            Some((answer, may_sleep)) => {
                let delivered = deliver(answer);
                if may_sleep {
                    self.wake_if_ended(index, ends);
                }
                Ok(delivered)
            }
            None => Err(LeftOver::Answer(index, posted)),
        }
    }

    /// Waits for the answer to this request.
    #[inline(always)]
    fn wait_for_answer(
        &mut self,
        (index, to): (u32, Address),
        request: SlotState,
        limit: Timeout,
    ) -> Result<SlotState, LeftOver> {
        let shares_cpu = self.seems_to_share_cpu(index);
        let (call, spin) = (WaitCall::SendRec, self.waiter.spin());
        let (link, session) = (self.peers.get(index).link(), &self.session);
        let page = session.page();
        let pauses = Pauses { spin, page, shares_cpu, limit, call, peer: to };
        let (found, _) = pauses.until(ForAnswer { link, session, request });
        match found {
            Some(found) => Ok(found),
            None if !self.may_sleep(limit) => Err(LeftOver::Answer(index, request)),
            None => self.sleep_for_answer(index, request).map_err(|why| match why {
                NotFound::Yet => LeftOver::Answer(index, request),
                NotFound::Signal => LeftOver::Signal(index, request),
            }),
        }
    }

    /// Whether a call with this limit sleeps without further polls.
    #[inline]
    pub(super) fn may_sleep(&self, limit: Timeout) -> bool {
        limit == Timeout::Never && self.waiter.strategy() == WaitStrategy::Block
    }

    /// Makes the ordinary case of a reply. `false` if nothing was posted.
    #[inline(always)]
    pub(super) fn reply_fast(
        &mut self,
        to: Address,
        message: &Message,
        beside: impl Outward,
    ) -> bool {
        if !self.is_ordinary() {
            return false;
        }
        let Some((index, peer)) = self.peers.find_again(to) else { return false };
        if !peer.admission().admits(MessageKind::Reply) {
            return false;
        }
        let Some(may_sleep) = answer_ordinary(peer, message, beside) else { return false };
        self.end_answer(index, may_sleep);
        true
    }

    /// Ends the ordinary case of an answer, which is posted.
    #[inline(always)]
    pub(super) fn end_answer(&mut self, index: u32, may_sleep: bool) {
        if may_sleep {
            self.wake_if_ended(index, EndsWait::OnThisLink);
        }
        m3ipc_sys::pause_point("server.woken");
        self.session.page().count(Counter::Sent);
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
        if self.is_unusual() || self.areas.has_loose() {
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
            || self.inbox.timers().is_armed()
            || self.priorities.inherits()
    }
}

/// Answers the last taken request of a peer that awaits the answer: whether the peer may sleep.
/// `None` if nothing was posted.
#[inline(always)]
pub(super) fn answer_ordinary(
    peer: &mut Peer,
    message: &Message,
    beside: impl Outward,
) -> Option<bool> {
    let request = peer.link().ready_to_answer()?;
    m3ipc_sys::pause_point("server.before_answer");
    // The point of no return: the answer is posted, unless the client gives up meanwhile.
    if !beside.answer(peer.link_mut(), request, message) {
        return None;
    }
    m3ipc_sys::pause_point("server.answered");
    Some(may_sleep_after_publication(peer, EndsWait::OnThisLink))
}

/// Takes a message, and tells whether the peer may sleep. `None` if it was not taken.
#[inline(always)]
pub(super) fn take_ordinary<I: Inward>(
    mut into: I,
    peer: &mut Peer,
    inbox: &mut Inbox,
    page: &ControlPage,
    (kind, found): (MessageKind, SlotState),
    ends: EndsWait,
) -> Option<(I::Taken, bool)> {
    let taken = into.take(peer, kind, found)?;
    let may_sleep = may_sleep_after_publication(peer, ends);
    inbox.note_taken(peer.identity(), kind.into());
    page.count(Counter::Received);
    Some((taken, may_sleep))
}
