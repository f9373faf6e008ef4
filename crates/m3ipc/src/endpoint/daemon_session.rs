//! The session of an endpoint with its node daemon: the connection and the control page, and what
//! the endpoint carries from a killed daemon to the next one.
//!
//! | part | after a takeover |
//! |---|---|
//! | connection, control page, liveness lock | those of the new daemon |
//! | unread events | kept, and received before those of the new daemon |
//! | waiting record, remembered wakeup | written again into the new control page |
//! | missing links | kept; the new daemon renews them |
//! | failed rings | kept; the new daemon rings |

use super::failed_rings::FailedRings;
use super::missing_links::MissingLinks;
use super::return_state::Returns;
use crate::control::Control;
use crate::error::Fail;
use core::sync::atomic::Ordering;
use m3ipc_abi::Address;
use m3ipc_link::{ControlPage, DaemonMark, FLAG_WOKEN, WaitCall};
use m3ipc_sys::LivenessLock;
use m3ipc_wire::{AreaRequest, Request};

/// The waiting record as written last.
#[derive(Clone, Copy, Debug)]
struct WaitingRecord {
    call: WaitCall,
    peer: Address,
    /// The start of the sleep, or 0 before it.
    since_ns: u64,
}

/// The session of an endpoint with its daemon, and with the successors of that.
#[derive(Debug)]
pub(super) struct DaemonSession {
    control: Control,
    page: ControlPage,
    /// Held for the life of the endpoint: the daemon watches it for the death of this process.
    liveness_lock: Option<LivenessLock>,
    /// The event word at the last look. Any other value means events.
    events_seen: u32,
    waiting: Option<WaitingRecord>,
    missing_links: MissingLinks,
    failed_rings: FailedRings,
    /// Tickets of ended waits, with the endpoint that each wait was about.
    ended_waits: Vec<(u64, i32)>,
    returns: Returns,
    returns_count: u32,
    /// The looks for the next daemon since this one has ended.
    looks_after_end: u32,
}

impl DaemonSession {
    pub(super) fn new(
        control: Control,
        page: ControlPage,
        liveness_lock: Option<LivenessLock>,
    ) -> Self {
        Self {
            control,
            page,
            liveness_lock,
            events_seen: 0,
            waiting: None,
            missing_links: MissingLinks::default(),
            failed_rings: FailedRings::default(),
            ended_waits: Vec::new(),
            returns: Returns::default(),
            returns_count: 0,
            looks_after_end: 0,
        }
    }

    /// The connection.
    #[inline]
    pub(super) fn control(&self) -> &Control {
        &self.control
    }

    /// The connection, for requests and events.
    #[inline]
    pub(super) fn control_mut(&mut self) -> &mut Control {
        &mut self.control
    }

    /// The page that this endpoint shares with the daemon alone.
    #[inline(always)]
    pub(super) fn page(&self) -> &ControlPage {
        &self.page
    }

    /// Whether the daemon has sent events since the last look.
    #[inline(always)]
    pub(super) fn has_events(&self) -> bool {
        self.has_events_by(Ordering::Acquire)
    }

    /// The same, by a load in this order.
    #[inline(always)]
    pub(super) fn has_events_by(&self, order: Ordering) -> bool {
        self.page.event_word().load(order) != self.events_seen
    }

    /// The event word at the last look, to sleep on.
    #[inline]
    pub(super) fn events_seen(&self) -> u32 {
        self.events_seen
    }

    /// Begins to receive events: the event word, if there are any. A frame may be read before the
    /// daemon changes the word.
    #[inline]
    pub(super) fn begin_events(&mut self) -> Option<u32> {
        let event = self.page.event_word().load(Ordering::Acquire);
        if event == self.events_seen && !self.control.has_queued_events() {
            return None;
        }
        self.events_seen = event;
        Some(event)
    }

    /// Leaves the rest of the events to the next call, which looks for them by this.
    pub(super) fn leave_events(&mut self, event: u32) {
        self.events_seen = event.wrapping_sub(1);
    }

    /// Makes the next look find events: not all that the event word tells have been applied.
    pub(super) fn expect_events(&mut self) {
        self.leave_events(self.page.event_word().load(Ordering::Acquire));
    }

    /// Publishes the begin of a wait.
    pub(super) fn begin_wait(&mut self, call: WaitCall, peer: Address) {
        self.page.set_blocked(call, peer);
        self.waiting = Some(WaitingRecord { call, peer, since_ns: 0 });
    }

    /// Publishes the sleep of a wait: its start and its thread.
    pub(super) fn begin_sleep(&mut self, call: WaitCall, peer: Address, since_ns: u64, tid: u32) {
        self.page.set_sleep_start(since_ns, tid);
        self.waiting = Some(WaitingRecord { call, peer, since_ns });
    }

    /// Publishes the end of a wait.
    pub(super) fn end_wait(&mut self) {
        self.page.set_running();
        self.waiting = None;
    }

    /// The start of the sleep of the present wait, or 0 before it.
    pub(super) fn slept_since_ns(&self) -> u64 {
        self.waiting.map_or(0, |waiting| waiting.since_ns)
    }

    /// The links that never reached this endpoint.
    pub(super) fn missing_links(&mut self) -> &mut MissingLinks {
        &mut self.missing_links
    }

    /// The rings of doorbells that the daemon may not have got.
    #[inline]
    pub(super) fn failed_rings_mut(&mut self) -> &mut FailedRings {
        &mut self.failed_rings
    }

    /// Whether rings are to be repeated, or links to be asked for.
    pub(super) fn has_upkeep(&self) -> bool {
        self.failed_rings.any() || !self.missing_links.is_empty() || self.returns.is_under_way()
    }

    /// Whether the daemon has ended: the kernel has marked that, and the connection closes soon, or
    /// a look has found the connection closed.
    pub(super) fn has_daemon_ended(&self) -> bool {
        let value = self.page.daemon_mark().load(Ordering::Acquire);
        DaemonMark::of(value) == DaemonMark::Ended || self.control.is_known_closed()
    }

    /// The looks for the next daemon since this one has ended.
    pub(super) fn looks_after_end(&self) -> u32 {
        self.looks_after_end
    }

    /// Notes a look for the next daemon, if this one has ended.
    pub(super) fn note_look(&mut self) {
        if self.has_daemon_ended() {
            self.looks_after_end = self.looks_after_end.saturating_add(1);
        }
    }

    /// The number of daemons that this endpoint has returned to.
    pub(super) fn returns_count(&self) -> u32 {
        self.returns_count
    }

    /// Asks again for the missing links.
    #[inline]
    pub(super) fn renew_missing_links(&mut self) {
        if !self.missing_links.is_empty() {
            self.renew_now();
        }
    }

    /// The same for a poll, which may follow another one at once: after a ring or a frame, and
    /// about once a second.
    pub(super) fn renew_missing_links_for_poll(&mut self, any_news: bool) {
        if self.missing_links.is_due(any_news) {
            self.renew_now();
        }
    }

    #[cold]
    fn renew_now(&mut self) {
        if self.missing_links.renew(&mut self.control) {
            self.leave_events(self.events_seen);
        }
    }

    /// Notes the end of a wait that the daemon has registered.
    pub(super) fn note_ended_wait(&mut self, ticket: u64, about: i32) {
        self.ended_waits.push((ticket, about));
    }

    /// The endpoint that this wait was about, if the wait has ended.
    pub(super) fn take_ended_wait(&mut self, ticket: u64) -> Option<i32> {
        let at = self.ended_waits.iter().position(|(ended, _)| *ended == ticket)?;
        Some(self.ended_waits.swap_remove(at).1)
    }

    /// Gives up a wait that the daemon has registered.
    #[cfg(feature = "tokio")]
    pub(super) fn forget_wait(&mut self, ticket: u64) {
        self.control.request_later(&Request::Forget(ticket));
        self.ended_waits.retain(|(ended, _)| *ended != ticket);
    }

    /// The returns to new daemons.
    pub(super) fn returns(&self) -> &Returns {
        &self.returns
    }

    /// The returns to new daemons, to be changed.
    pub(super) fn returns_mut(&mut self) -> &mut Returns {
        &mut self.returns
    }

    /// Goes on with a new daemon. Its predecessor's events still count, and are received death by
    /// death.
    pub(super) fn take_over(
        &mut self,
        mut control: Control,
        page: ControlPage,
        liveness_lock: Option<LivenessLock>,
    ) {
        if let Some(WaitingRecord { call, peer, since_ns }) = self.waiting {
            page.set_blocked(call, peer);
            page.set_sleep_start(since_ns, m3ipc_sys::thread_id().cast_unsigned());
        }
        if self.page.take_flag(FLAG_WOKEN) {
            page.raise(FLAG_WOKEN);
        }
        control.inherit(&mut self.control);
        self.control = control;
        self.leave_events(page.event_word().load(Ordering::Acquire));
        (self.page, self.liveness_lock) = (page, liveness_lock);
        self.returns.end_stay();
        self.returns_count = self.returns_count.wrapping_add(1);
        self.looks_after_end = 0;
    }

    /// Sends a request of a return. An asynchronous endpoint gets the events behind it later.
    pub(super) fn tell(&mut self, request: &Request) -> Result<(), Fail> {
        if self.returns.is_asynchronous() {
            self.control.request_later(request);
            return Ok(());
        }
        self.control.request(request).map(drop)
    }

    /// Asks for the events of an area again.
    pub(super) fn recall_area(&mut self, area: u32) -> Result<(), Fail> {
        let told = self.tell(&Request::Area(AreaRequest::Recall(area)));
        self.control.note_open_recall();
        told
    }
}
