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
use super::peers::Peer;

use crate::timeout::Timeout;
use core::sync::atomic::Ordering;
use m3ipc_abi::{ANY, Address, Message, Verb};
use m3ipc_link::waiting::{EndsWait, Publisher, after_publication};
use m3ipc_link::{Counter, FastSpin, Look, MessageKind, SlotState, WaitCall, WaitMode, WakeAction};

/// Calls between two looks for the CPUs of both sides. Odd, since a server makes two calls for each
/// request.
const CALLS_PER_CPU: u32 = 15;
/// The verbs of the fast path, all of which the endpoint must be allowed.
const VERBS: u32 = Verb::Sendrec.mask() | Verb::Receive.mask() | Verb::Reply.mask();

/// What became of a sendrec on the fast path.
#[derive(Debug)]
pub(super) enum FastCall {
    /// Nothing: the slow path makes the call.
    Untried,
    /// The request is posted on the link of this index. The slow path waits for the answer.
    Posted(u32, SlotState),
    /// The answer was taken.
    Answered,
}

/// What the hot links have.
enum Found {
    Nothing,
    /// One message of this kind, on the link of this index.
    One(u32, MessageKind, SlotState),
    /// More messages, or a notification.
    More,
}

/// A peer to which the fast path publishes. Its wake-up, if it sleeps, is left to the caller.
struct ToPeer<'a> {
    peer: &'a Peer,
    own: Address,
    wake: WakeAction,
}

impl Publisher for ToPeer<'_> {
    #[inline(always)]
    fn mark_ready(&mut self) {
        self.peer.mark_ready();
    }

    #[inline]
    fn peer_mode(&self) -> WaitMode {
        self.peer.status.mode()
    }

    #[inline]
    fn is_peer_awake(&self) -> bool {
        self.peer.status.is_awake()
    }

    #[inline]
    fn address(&self) -> Address {
        self.own
    }

    #[inline]
    fn wake(&mut self, action: WakeAction) {
        self.wake = action;
    }
}

impl Endpoint {
    /// Makes the ordinary case of a sendrec.
    #[inline]
    pub(super) fn sendrec_fast(
        &mut self,
        to: Address,
        message: &Message,
        answer: &mut Message,
        limit: Timeout,
    ) -> FastCall {
        if limit == Timeout::NoWait || !self.is_ordinary() {
            return FastCall::Untried;
        }
        let Some(index) = self.peers.find(to) else { return FastCall::Untried };
        let Some(peer) = self.peers.claimed(index) else { return FastCall::Untried };
        if !peer.admits(MessageKind::Request) || !peer.link.is_ready_to_post() {
            return FastCall::Untried;
        }
        // A wake-up may take the time of a request to the daemon, which the limit must cover.
        if limit != Timeout::Never && !peer.status.is_awake() {
            return FastCall::Untried;
        }
        // The point of no return: the request is posted.
        let Message { m_type, payload, .. } = message;
        let (kind, stamp) = (MessageKind::Request, m3ipc_sys::ticks());
        let posted = peer.link.post_short(kind, stamp, *m_type, payload);
        m3ipc_sys::pause_point("client.posted");
        let wake = after_publication_to(peer, self.address, EndsWait::Receive);
        self.peers.remember(to, index);
        self.control_page.count(Counter::Sent);
        self.wake_if_asleep(index, wake);
        m3ipc_sys::pause_point("client.woken");
        match self.look_for_answer(index, posted, limit) {
            Some(found)
                if self.take_fast(
                    index,
                    (MessageKind::Reply, found),
                    EndsWait::ForThisEndpoint,
                    answer,
                ) =>
            {
                FastCall::Answered
            }
            _ => FastCall::Posted(index, posted),
        }
    }

    /// Makes the ordinary case of a receive from ANY. `false` if nothing was taken.
    #[inline]
    pub(super) fn receive_fast(&mut self, message: &mut Message, limit: Timeout) -> bool {
        self.is_ordinary() && self.receive_ordinary(message, limit)
    }

    /// As [`receive_fast`](Self::receive_fast), in a call that is ordinary so far.
    #[inline(always)]
    pub(super) fn receive_ordinary(&mut self, message: &mut Message, limit: Timeout) -> bool {
        if !self.needs_no_order() {
            return false;
        }
        let Some((index, kind, found)) = self.look_for_one(limit) else { return false };
        m3ipc_sys::pause_point("server.before_take");
        // The sender of a request does not sleep until the take.
        let ends = match kind {
            MessageKind::Request => EndsWait::None,
            _ => EndsWait::OnThisLink,
        };
        if !self.take_fast(index, (kind, found), ends, message) {
            return false;
        }
        m3ipc_sys::pause_point("server.taken");
        self.unordered += 1;
        self.latest_notified_slot = i32::MIN;
        // The answer probably goes to the sender.
        self.peers.remember(message.source, index);
        true
    }

    /// Makes the ordinary case of a reply. `false` if nothing was posted.
    #[inline]
    pub(super) fn reply_fast(&mut self, to: Address, message: &Message) -> bool {
        if !self.is_ordinary() {
            return false;
        }
        let Some(index) = self.peers.find(to) else { return false };
        let Some(peer) = self.peers.claimed(index) else { return false };
        if !peer.admits(MessageKind::Reply) || !peer.link.is_ready_to_answer() {
            return false;
        }
        m3ipc_sys::pause_point("server.before_answer");
        // The point of no return: the answer is posted, unless the client gives up meanwhile.
        if !peer.link.answer_short(message.m_type, &message.payload) {
            return false;
        }
        m3ipc_sys::pause_point("server.answered");
        let wake = after_publication_to(peer, self.address, EndsWait::OnThisLink);
        self.wake_if_asleep(index, wake);
        m3ipc_sys::pause_point("server.woken");
        self.control_page.count(Counter::Sent);
        true
    }

    /// Whether the fast path may make this call. Counts it then.
    #[inline(always)]
    fn is_ordinary(&mut self) -> bool {
        if !self.guard.is_original() || self.has_events() {
            return false;
        }
        if self.fast.count() {
            debug_assert!(!self.is_unusual(), "a part of the endpoint changed unnoticed");
            return true;
        }
        self.reopen_fast_path()
    }

    #[inline]
    fn has_events(&self) -> bool {
        self.control_page.event_word().load(Ordering::Acquire) != self.events_seen
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
        self.left.is_some()
            || self.traps & VERBS != VERBS
            || self.armed
            || self.tracing.is_some()
            || !self.dead.is_empty()
            || self.peers.has_replaced()
            || self.claims.has_any()
            || self.copies.is_busy()
            || self.payloads.is_busy()
            || self.areas.is_busy()
    }

    /// Whether a message may be received that needs no queue (see
    /// [`take_unordered`](Self::take_unordered)): no remembered wakeup comes before it.
    #[inline]
    fn needs_no_order(&self) -> bool {
        self.unordered < self.unordered_max
            && self.repeated_notifications == 0
            && self.inbox.is_empty()
            && self.control_page.flags() == 0
    }

    /// Polls the hot links until one of them has the only message. `None` if the slow path must
    /// receive.
    #[inline(always)]
    fn look_for_one(&mut self, limit: Timeout) -> Option<(u32, MessageKind, SlotState)> {
        let mut spin: Option<FastSpin> = None;
        let found = loop {
            match self.find_one() {
                Found::One(index, kind, state) => break Some((index, kind, state)),
                Found::More => break None,
                Found::Nothing if limit == Timeout::NoWait => break None,
                Found::Nothing => {}
            }
            if self.has_events() || !self.pause(&mut spin, (WaitCall::Receive, None), limit) {
                break None;
            }
        };
        self.end_pauses(spin, found.is_some());
        found
    }

    /// Looks at the hot links and at the ready bitmap once.
    #[inline(always)]
    fn find_one(&self) -> Found {
        let links = self.peers.index_limit();
        if self.page_sets.iter().any(|pages| pages.ready_bitmap.any_of(links)) {
            return Found::More;
        }
        let mut found = Found::Nothing;
        for index in self.inbox.hot_links() {
            let Some(peer) = self.peers.find_index(index) else { continue };
            if peer.has_notification() {
                return Found::More;
            }
            let (kind, state) = match peer.look() {
                Look::Nothing => continue,
                Look::Send(state) => (MessageKind::Send, state),
                Look::Request(state) => (MessageKind::Request, state),
            };
            if !matches!(found, Found::Nothing) {
                return Found::More;
            }
            found = Found::One(index, kind, state);
        }
        found
    }

    /// Polls a link until the answer to this request is there. `None` if the slow path must wait.
    #[inline(always)]
    fn look_for_answer(
        &mut self,
        index: u32,
        request: SlotState,
        limit: Timeout,
    ) -> Option<SlotState> {
        let mut spin: Option<FastSpin> = None;
        let found = loop {
            let found = self.peers.get(index).link.look_for_answer(request);
            if found.is_some() {
                m3ipc_sys::pause_point("client.answer_seen");
                break found;
            }
            let call = (WaitCall::SendRec, Some(index));
            if self.has_events() || !self.pause(&mut spin, call, limit) {
                break None;
            }
        };
        self.end_pauses(spin, found.is_some());
        found
    }

    /// Pauses before the next poll in a call that awaits a link, or all. `false` if the slow path
    /// must wait.
    ///
    /// This wait reads no clock, so with a limit it gives the CPU to nobody. A wait that does
    /// records itself: others run meanwhile, and ask whether this endpoint waits.
    #[inline(always)]
    fn pause(
        &mut self,
        spin: &mut Option<FastSpin>,
        (call, index): (WaitCall, Option<u32>),
        limit: Timeout,
    ) -> bool {
        if spin.is_none() {
            let shares_cpu = self.seems_to_share_cpu(index);
            *spin = Some(self.spin.begin_fast(shares_cpu, limit == Timeout::Never));
            if shares_cpu {
                let peer = index.map_or(ANY, |index| self.peers.get(index).address());
                self.control_page.set_blocked(call, peer);
            }
        }
        spin.as_mut().is_some_and(FastSpin::pause)
    }

    /// Ends the pauses of a call.
    #[inline(always)]
    fn end_pauses(&mut self, spin: Option<FastSpin>, has_found: bool) {
        let Some(spin) = spin else { return };
        if spin.shares_cpu() {
            self.control_page.set_running();
        }
        if has_found {
            self.spin.learn_brief();
        }
    }

    /// Whether the likeliest sender is on this CPU. Looks now and then only: after a move the slow
    /// wait looks again.
    #[inline]
    fn seems_to_share_cpu(&mut self, index: Option<u32>) -> bool {
        let Some(index) = index.or_else(|| self.inbox.likeliest()) else { return false };
        if !self.fast.open_calls().is_multiple_of(CALLS_PER_CPU)
            && let Some(shares_cpu) = self.fast.shares_cpu_with(index)
        {
            return shares_cpu;
        }
        let shares_cpu = self.shares_cpu(Some(index));
        self.fast.note_cpu(index, shares_cpu);
        shares_cpu
    }

    /// Takes a short message. `false` if it was not taken.
    #[inline(always)]
    fn take_fast(
        &mut self,
        index: u32,
        (kind, found): (MessageKind, SlotState),
        ends: EndsWait,
        message: &mut Message,
    ) -> bool {
        let peer = self.peers.get_mut(index);
        if !peer.link.take_short(kind, found, message) {
            return false;
        }
        let wake = after_publication_to(peer, self.address, ends);
        message.source = peer.address();
        self.latest = Some(peer.identity);
        self.latest_kind = Some(kind.into());
        self.control_page.count(Counter::Received);
        self.wake_if_asleep(index, wake);
        true
    }

    #[inline]
    fn wake_if_asleep(&mut self, index: u32, wake: WakeAction) {
        if wake != WakeAction::None {
            self.wake(index, wake);
        }
    }
}

/// Makes a publication to this peer known. Returns the wake-up that is left to do.
#[inline(always)]
fn after_publication_to(peer: &Peer, own: Address, ends: EndsWait) -> WakeAction {
    let mut to_peer = ToPeer { peer, own, wake: WakeAction::None };
    after_publication(&mut to_peer, ends);
    to_peer.wake
}
