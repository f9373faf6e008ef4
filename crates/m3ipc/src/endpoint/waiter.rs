//! How an endpoint waits: what it publishes to its peers, where it sleeps, and what was looked at.
//!
//! The mode in the page sets is what peers see. An armed endpoint keeps the mode of its doorbell
//! between two calls; every other call publishes its mode and takes it back.

use super::interruption::Interruption;
use super::own_doorbell::Doorbell;
use super::page_set::{PageSet, PageSets};
use crate::control::Control;
use crate::error::Fail;
use m3ipc_link::{AdaptiveSpin, WaitMode, WaitStrategy};
use m3ipc_sys::DoorbellReceiver;

/// The longest sleep before a check of the daemon.
pub(super) const SLOW_CHECK_NS: u64 = 1_000_000_000;
/// The interval of polls of all links if they are many. A hostile peer that clears a bit of the
/// ready bitmap delays its victim by at most this.
pub(super) const FULL_POLL_NS: u64 = 50_000_000;
/// With more links than this, a sleep does not poll all of them before.
const POLL_ALL_LINKS_MAX: usize = 128;

/// The waiting side of an endpoint.
#[derive(Debug)]
pub(super) struct Waiter {
    pages: PageSets,
    spin: AdaptiveSpin,
    /// Made when the caller asks for the endpoint's descriptor, or with too many links for
    /// futex_waitv.
    doorbell: Option<Doorbell>,
    /// The time of the next request for a doorbell that a sleep needs, or 0.
    doorbell_due_ns: u64,
    /// The mode of an endpoint whose descriptor reports arrivals; `None` while it is not armed.
    armed: Option<WaitMode>,
    /// The program polls again soon, so nobody needs to ring.
    is_silent: bool,
    /// The time of the last poll of all links before a sleep.
    polled_ns: u64,
    /// The time of the last check of the daemon.
    checked_ns: u64,
    /// The start of the sleep in which the fast path has left the present call, or 0.
    slept_since_ns: u64,
    /// Whether a signal has ended the sleep of a call on the fast path.
    signalled: bool,
    /// Which signals end a wait.
    interruption: Interruption,
}

impl Waiter {
    pub(super) fn new(page_set: PageSet, strategy: WaitStrategy) -> Self {
        Self {
            pages: PageSets::new(page_set),
            spin: AdaptiveSpin::new(strategy),
            doorbell: None,
            doorbell_due_ns: 0,
            armed: None,
            is_silent: false,
            polled_ns: 0,
            checked_ns: m3ipc_sys::monotonic_ns(),
            slept_since_ns: 0,
            signalled: false,
            interruption: Interruption::default(),
        }
    }

    #[inline]
    pub(super) fn strategy(&self) -> WaitStrategy {
        self.spin.strategy()
    }

    pub(super) fn set_strategy(&mut self, strategy: WaitStrategy) {
        self.spin = AdaptiveSpin::new(strategy);
    }

    /// The polls before a sleep.
    #[inline(always)]
    pub(super) fn spin(&mut self) -> &mut AdaptiveSpin {
        &mut self.spin
    }

    /// The polls before a sleep, and the pages that peers read and mark.
    #[inline(always)]
    pub(super) fn spin_and_pages(&mut self) -> (&mut AdaptiveSpin, &PageSets) {
        (&mut self.spin, &self.pages)
    }

    /// The pages that peers read and mark.
    #[inline(always)]
    pub(super) fn pages(&self) -> &PageSets {
        &self.pages
    }

    /// Publishes how the endpoint waits.
    pub(super) fn set_mode(&self, mode: WaitMode) {
        self.pages.set_mode(mode);
    }

    /// Publishes the CPU of this endpoint, and returns it.
    #[inline]
    pub(super) fn publish_cpu(&mut self) -> u32 {
        let cpu = m3ipc_sys::current_cpu();
        self.pages.set_cpu(cpu);
        cpu
    }

    #[inline]
    pub(super) fn doorbell(&self) -> Option<&Doorbell> {
        self.doorbell.as_ref()
    }

    #[inline]
    pub(super) fn doorbell_mut(&mut self) -> Option<&mut Doorbell> {
        self.doorbell.as_mut()
    }

    pub(super) fn set_doorbell(&mut self, doorbell: Doorbell) {
        self.doorbell = Some(doorbell);
    }

    /// Whether to ask the daemon now for a doorbell that a sleep needs. The next request is due a
    /// second later.
    pub(super) fn is_doorbell_due(&mut self) -> bool {
        let now_ns = m3ipc_sys::monotonic_ns();
        let is_due = now_ns >= self.doorbell_due_ns;
        if is_due {
            self.doorbell_due_ns = now_ns + SLOW_CHECK_NS;
        }
        is_due
    }

    /// The doorbell, if a program polls its descriptor.
    pub(super) fn polled_doorbell(&mut self) -> Option<&mut Doorbell> {
        self.doorbell.as_mut().filter(|doorbell| doorbell.is_polled())
    }

    /// Whether a receive awaits the descriptor.
    pub(super) fn awaits_receive(&self) -> bool {
        self.doorbell.as_ref().is_some_and(Doorbell::awaits_receive)
    }

    /// Whether peers ring although no call waits.
    #[inline(always)]
    pub(super) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Whether peers ring by this mode.
    pub(super) fn is_armed_by(&self, mode: WaitMode) -> bool {
        self.armed == Some(mode)
    }

    /// Whether polls that find nothing leave the doorbell alone.
    #[inline]
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent
    }

    pub(super) fn set_silent(&mut self, is_silent: bool) {
        self.is_silent = is_silent;
    }

    /// Lets peers ring by this mode. `false` if that changes nothing.
    pub(super) fn arm(&mut self, mode: WaitMode) -> bool {
        if self.is_armed_by(mode) {
            return false;
        }
        self.set_mode(mode);
        self.armed = Some(mode);
        true
    }

    /// Ends the rings: the endpoint works again.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
        self.set_mode(WaitMode::Awake);
    }

    /// Notes that the fast path leaves a call in its sleep, which began at this time.
    pub(super) fn note_short_sleep(&mut self, since_ns: u64) {
        self.slept_since_ns = since_ns;
    }

    /// The start of the sleep in which the fast path has left the present call, or 0.
    pub(super) fn take_short_sleep(&mut self) -> u64 {
        std::mem::take(&mut self.slept_since_ns)
    }

    /// Which signals end a wait.
    pub(super) fn interruption(&mut self) -> &mut Interruption {
        &mut self.interruption
    }

    /// Whether a hook decides which signals end a wait.
    pub(super) fn has_interruption(&self) -> bool {
        self.interruption.is_set()
    }

    /// Notes that a signal has ended the sleep of a call on the fast path.
    pub(super) fn note_signal(&mut self) {
        self.signalled = true;
    }

    /// Whether a signal has ended the present call.
    pub(super) fn take_signal(&mut self) -> bool {
        std::mem::take(&mut self.signalled)
    }

    /// Whether all links are polled now: with few links always, else after an interval.
    pub(super) fn begin_full_poll(&mut self, links: usize, now_ns: u64) -> bool {
        let is_due =
            links <= POLL_ALL_LINKS_MAX || now_ns.saturating_sub(self.polled_ns) >= FULL_POLL_NS;
        if is_due {
            self.polled_ns = now_ns;
        }
        is_due
    }

    /// Makes the next poll of all links due.
    pub(super) fn expect_full_poll(&mut self) {
        self.polled_ns = 0;
    }

    /// Whether the daemon must be checked.
    pub(super) fn is_check_due(&self, now_ns: u64) -> bool {
        self.is_check_due_after(now_ns, SLOW_CHECK_NS)
    }

    /// Whether the last check of the daemon is this long ago.
    pub(super) fn is_check_due_after(&self, now_ns: u64, pause_ns: u64) -> bool {
        now_ns.saturating_sub(self.checked_ns) >= pause_ns
    }

    /// Notes a check of the daemon.
    pub(super) fn note_check(&mut self, now_ns: u64) {
        self.checked_ns = now_ns;
    }

    /// Adds the pages of a new daemon, and watches its connection and doorbell.
    pub(super) fn take_over(
        &mut self,
        page_set: PageSet,
        doorbell: Option<DoorbellReceiver>,
        control: &Control,
    ) -> Result<(), Fail> {
        self.pages.add(page_set);
        self.doorbell.as_mut().map_or(Ok(()), |own| own.replace(doorbell, control))
    }
}
