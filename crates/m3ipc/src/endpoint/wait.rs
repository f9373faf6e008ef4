//! Waiting: poll, yield, sleep; and the causes that end a wait besides its event.
//!
//! A waiter announces a sleep in its status page before its last poll, so a peer that publishes
//! later wakes it. The first sleeps end at the latest after a second: the waiter then checks the
//! daemon, which alone reports deaths. Later sleeps watch the daemon: see [`super::daemon_watch`].

use super::Endpoint;
use super::call_stop::CallStop;
use super::daemon_watch::DaemonWatch;
use super::stamps::Moment;
use super::waiter::FULL_POLL_NS;
use super::wake_words::{FEW_WORDS, WakeWords};
use crate::error::Fail;
use crate::timeout::Deadline;
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_abi::{ANY, Address, Code};
use m3ipc_link::waiting::{self, EndsWait, Sleeper};
use m3ipc_link::{Counter, SlotState, SpinStep, WaitCall, WaitMode, WaitStrategy};
use m3ipc_sys::{Expected, WAIT_WORDS_MAX, WaitOutcome};
use m3ipc_wire::{Reply, Request};

/// The sleep of a waiter for one peer before it asks the daemon for a deadlock. A limit that ends
/// before the next tick of the clock (1 to 10 ms) makes the kernel program its timer anew at each
/// sleep: in a virtual machine that costs more than the sleep itself.
pub(super) const DEADLOCK_CHECK_NS: u64 = 20_000_000;
/// The sleep before that question if the call has slept before, or if the daemon wants it again.
const DEADLOCK_RECHECK_NS: u64 = 1_000_000;
/// The longest sleep between two such questions of a waiter that sleeps for long.
const DEADLOCK_CHECK_MAX_NS: u64 = 60_000_000_000;
/// The thread in a waiting record while no thread sleeps.
pub(super) const NO_THREAD: u32 = 0;
/// Polls between two readings of the clock in a wait with a limit that never sleeps.
const POLLS_PER_CLOCK: u32 = 256;
/// Cheap polls between two full ones.
const CHEAP_POLLS: u32 = 32;
/// Polls between two checks of all links and of the daemon in a wait that never sleeps.
const POLLS_PER_FULL_POLL: u32 = 1 << 20;

/// What a wait is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitTarget {
    pub(super) verb: WaitCall,
    /// The partner, or ANY.
    pub(super) peer: Address,
    /// The link of the partner; `None` for ANY.
    pub(super) index: Option<u32>,
    /// The posted message that the peer has to take.
    pub(super) posted: Option<SlotState>,
    /// Whether the wait ends by a change of this endpoint's own slot.
    pub(super) own_cell: bool,
}

/// The state of one wait.
#[derive(Debug)]
struct SleepState {
    target: WaitTarget,
    deadline: Deadline,
    since_ns: u64,
    tid: u32,
    /// The time of sleep after which to ask for a deadlock next.
    ask_after_ns: u64,
}

/// One sleep of an endpoint. [`waiting::sleep_unless_found`] has the order of its steps.
struct SleepStep<'a> {
    endpoint: &'a mut Endpoint,
    sleep_state: &'a mut SleepState,
    on_doorbell: bool,
    /// Whether the sleep has no words of further links, for lack of a doorbell.
    is_partial: bool,
    watch: DaemonWatch,
    now_ns: u64,
    limit_ns: u64,
    may_deadlock: bool,
}

impl Sleeper for SleepStep<'_> {
    /// The wake words, and the event word from before the last poll.
    type Words = (WakeWords, u32);
    type Error = CallStop;

    fn read_wake_words(&mut self) -> Self::Words {
        let words = if self.on_doorbell {
            WakeWords::none()
        } else {
            self.endpoint.words(self.sleep_state.target)
        };
        (words, self.endpoint.session.events_seen())
    }

    fn set_mode(&mut self, mode: WaitMode) {
        self.endpoint.waiter.set_mode(mode);
    }

    /// Sleeps, and checks the daemon before the mode becomes `Awake` again: a non-blocking sender
    /// must treat this endpoint as asleep until it polls again.
    fn sleep(&mut self, (words, event): Self::Words) -> Result<(), CallStop> {
        let endpoint = &mut *self.endpoint;
        endpoint.session.page().count(Counter::Slept);
        m3ipc_sys::pause_point("sleeping");
        let until_ns =
            self.sleep_state.deadline.at_ns.min(self.now_ns.saturating_add(self.limit_ns));
        let slept = if self.on_doorbell {
            endpoint.sleep_on_doorbell(event, until_ns)
        } else {
            endpoint.sleep_on(&words, event, self.watch, until_ns).map(|ended| (ended, true))
        };
        endpoint.trace.stamp(Moment::Ran);
        let (ended, rang) = slept?;
        if !rang && ended == WaitOutcome::Changed {
            endpoint.look_for_close();
        }
        match ended {
            // The end of a short sleep, after which all links are polled, is no check.
            WaitOutcome::Limit
                if self.is_partial && !endpoint.must_look(self.watch, self.now_ns) =>
            {
                Ok(())
            }
            // A peer that wakes this endpoint without end must not prevent the check of the daemon:
            // new peers wait until the next daemon knows this endpoint.
            WaitOutcome::Changed if !endpoint.must_look(self.watch, self.now_ns) => Ok(()),
            WaitOutcome::Signal if endpoint.waiter.interruption().by_signal() => {
                Err(Code::Intr.into())
            }
            // Nor must signals that the hook declines.
            WaitOutcome::Signal if !endpoint.waiter.is_check_due(self.now_ns) => Ok(()),
            WaitOutcome::Changed | WaitOutcome::Limit | WaitOutcome::Signal => {
                if endpoint.waiter.interruption().is_due() {
                    return Err(Code::Intr.into());
                }
                endpoint.waiter.note_check(self.now_ns);
                Ok(endpoint.slow_check(self.sleep_state, self.may_deadlock)?)
            }
        }
    }
}

impl Endpoint {
    /// Waits until `poll` finds something. The last call of `poll` comes after the announcement of
    /// a sleep and before the sleep.
    #[inline]
    pub(super) fn wait<T>(
        &mut self,
        target: WaitTarget,
        deadline: Deadline,
        mut poll: impl FnMut(&mut Self) -> Result<Option<T>, CallStop>,
    ) -> Result<T, CallStop> {
        let mut poll = |endpoint: &mut Self| {
            endpoint.trace.stamp(Moment::Looked);
            if endpoint.payloads.has_open_answers() {
                endpoint.settle_answers();
            }
            let found = poll(endpoint)?;
            if found.is_none() {
                endpoint.serve_copies();
            }
            let anew = found.is_none()
                && target.index.is_some()
                && endpoint.peers.is_replaced_link(target.peer);
            if anew { Err(CallStop::Replaced) } else { Ok(found) }
        };
        // The fast path may have begun the wait.
        let first = poll(self);
        self.inbox.set_waited(false);
        if let Some(found) = first? {
            return Ok(found);
        }
        if deadline.no_wait {
            self.fast.count_look();
            return Err(Code::Again.into());
        }
        self.session.begin_wait(target.verb, target.peer);
        let is_receive = matches!(target.verb, WaitCall::Receive | WaitCall::Rcvrqst);
        self.inbox.set_waited(is_receive);
        if target.verb.may_be_copied() {
            self.park();
        }
        let result = self.wait_slow(target, deadline, poll);
        self.unpark();
        self.session.end_wait();
        self.inbox.set_waited(false);
        result
    }

    fn wait_slow<T>(
        &mut self,
        target: WaitTarget,
        deadline: Deadline,
        mut poll: impl FnMut(&mut Self) -> Result<Option<T>, CallStop>,
    ) -> Result<T, CallStop> {
        let mut spinner = self.waiter.spin().begin();
        let since_ns = self.waiter.take_short_sleep();
        let ask_after_ns = if since_ns == 0 { DEADLOCK_CHECK_NS } else { DEADLOCK_RECHECK_NS };
        let mut sleep_state = SleepState { target, deadline, since_ns, tid: 0, ask_after_ns };
        let mut polls = 0_u32;
        let mut shares_cpu = self.shares_cpu(target.index);
        let is_far = self.awaits_stand_in(target.index);
        loop {
            let step = match is_far {
                true => spinner.next_behind_others(),
                false => spinner.next(shares_cpu),
            };
            match step {
                SpinStep::Poll => {
                    polls = polls.wrapping_add(1);
                    let is_cheap = is_far || !shares_cpu;
                    if is_cheap && !polls.is_multiple_of(CHEAP_POLLS) && self.is_quiet(&target) {
                        continue;
                    }
                    shares_cpu = self.shares_cpu(target.index);
                    let clock = polls.is_multiple_of(POLLS_PER_CLOCK) && deadline.is_finite();
                    if clock && m3ipc_sys::monotonic_ns() >= deadline.at_ns {
                        return Err(Code::TimedOut.into());
                    }
                    if polls.is_multiple_of(POLLS_PER_FULL_POLL)
                        && self.waiter.strategy() == WaitStrategy::Spin
                    {
                        self.reattach_if_closed();
                        self.inbox.poll_all(&mut self.peers);
                    }
                }
                SpinStep::Sleep => {
                    if let Some(found) = self.sleep(&mut sleep_state, &mut poll)? {
                        self.waiter.spin().learn(&spinner);
                        return Ok(found);
                    }
                }
            }
            if let Some(found) = poll(self)? {
                self.waiter.spin().learn(&spinner);
                return Ok(found);
            }
        }
    }

    /// Whether there is surely nothing new, by a few loads. A wrong answer delays the waiter by a
    /// few polls; full polls come in between.
    #[inline]
    fn is_quiet(&self, target: &WaitTarget) -> bool {
        if self.session.has_events_by(Ordering::Relaxed) {
            return false;
        }
        match target.index {
            Some(index) => self.peers.find_index(index).is_some_and(|peer| {
                peer.link().is_quiet()
                    && !(target.own_cell && peer.link().is_free() != Ok(false))
                    && !(target.verb == WaitCall::Receive && peer.has_notification())
            }),
            None => {
                self.inbox.is_empty()
                    && self.inbox.is_quiet(&self.peers)
                    && !self.waiter.pages().any_ready()
                    && self.session.page().flags() == 0
            }
        }
    }

    /// Whether the likeliest sender was last seen on this CPU. Publishes the CPU of this endpoint
    /// too, since the waiter may have moved.
    #[inline]
    pub(super) fn shares_cpu(&mut self, index: Option<u32>) -> bool {
        let cpu = self.waiter.publish_cpu();
        let Some(index) = index.or_else(|| self.inbox.hot().likeliest()) else { return false };
        self.peers.find_index(index).is_some_and(|peer| peer.cpu() == cpu)
    }

    /// Whether the likeliest sender is a stand-in: its messages come through the proxy.
    fn awaits_stand_in(&self, index: Option<u32>) -> bool {
        let index = index.or_else(|| self.inbox.hot().likeliest());
        let peer = index.and_then(|index| self.peers.find_index(index));
        peer.is_some_and(|peer| peer.admission().may_hold())
    }

    /// Sleeps once, unless `poll` finds something before.
    fn sleep<T>(
        &mut self,
        sleep_state: &mut SleepState,
        poll: &mut impl FnMut(&mut Self) -> Result<Option<T>, CallStop>,
    ) -> Result<Option<T>, CallStop> {
        let now_ns = m3ipc_sys::monotonic_ns();
        if now_ns >= sleep_state.deadline.at_ns {
            return Err(Code::TimedOut.into());
        }
        self.publish_wait(sleep_state, now_ns);
        let any = sleep_state.target.index.is_none();
        // A receive closes a circle too: a receive from one's own client, or from an endpoint that
        // receives from here.
        let may_deadlock = matches!(
            sleep_state.target.verb,
            WaitCall::Send | WaitCall::SendRec | WaitCall::Receive
        ) && !any;
        // One word is left for the event word, and one for the daemon mark.
        let has_many_links = any && self.peers.count() + 1 >= WAIT_WORDS_MAX;
        let on_doorbell = has_many_links && self.open_doorbell_for_sleep(sleep_state.deadline)?;
        let is_partial = has_many_links && !on_doorbell;
        let slept_ns = now_ns.saturating_sub(sleep_state.since_ns);
        let watch = self.daemon_watch(sleep_state.target.verb, slept_ns, on_doorbell);
        let mut limit_ns = watch.limit_ns();
        if may_deadlock {
            limit_ns = limit_ns.min(sleep_state.ask_after_ns);
        }
        if any {
            limit_ns = self.limit_by_timers(limit_ns, now_ns);
        }
        if is_partial {
            limit_ns = limit_ns.min(FULL_POLL_NS);
        }
        let mode = if on_doorbell {
            WaitMode::AtDoorbell(sleep_state.target.peer)
        } else if self.wakes_for_raises(&sleep_state.target) {
            WaitMode::OnLinksForRaises(sleep_state.target.peer)
        } else {
            WaitMode::OnLinks(sleep_state.target.peer)
        };
        let mut step = SleepStep {
            endpoint: self,
            sleep_state,
            on_doorbell,
            is_partial,
            watch,
            now_ns,
            limit_ns,
            may_deadlock,
        };
        waiting::sleep_unless_found(&mut step, mode, |step| {
            if any && !step.endpoint.poll_all_if_due(now_ns) {
                step.limit_ns = step.limit_ns.min(FULL_POLL_NS);
            }
            poll(step.endpoint)
        })
    }

    /// Publishes the start of the wait, and whether the request was taken meanwhile.
    fn publish_wait(&mut self, sleep_state: &mut SleepState, now_ns: u64) {
        if sleep_state.since_ns == 0 {
            sleep_state.since_ns = now_ns;
        }
        if sleep_state.tid == 0 {
            sleep_state.tid = m3ipc_sys::known_thread_id().cast_unsigned();
        }
        if let (WaitCall::SendRec, Some(index), Some(posted)) =
            (sleep_state.target.verb, sleep_state.target.index, sleep_state.target.posted)
            && self.peers.get(index).link().is_taken(posted) == Ok(true)
        {
            sleep_state.target.verb = WaitCall::Await;
            m3ipc_sys::pause_point("client.taken");
            self.session.page().set_blocked(WaitCall::Await, sleep_state.target.peer);
        }
        let SleepState { target, since_ns, tid, .. } = *sleep_state;
        if self.priorities.lends()
            && let (WaitCall::SendRec | WaitCall::Await, Some(index)) = (target.verb, target.index)
        {
            self.lend_priority(index);
        }
        self.session.begin_sleep(target.verb, target.peer, since_ns, tid);
    }

    /// The values of the words to sleep on.
    fn words(&self, target: WaitTarget) -> WakeWords {
        let mut words = WakeWords::none();
        let for_raises = self.wakes_for_raises(&target);
        match target.index {
            Some(index) => {
                words.push(index, self.own_wake_word_of(index));
                // A requester of a copy wakes this endpoint over its own link, whatever the wait is
                // for.
                let others = self.served_links().iter().filter(|other| **other != index);
                others.for_each(|other| {
                    if let Some(peer) = self.peers.find_index(*other) {
                        words.push(*other, peer.link().own_wake_word());
                    }
                });
                if for_raises {
                    let others = self.peers.indexes().filter(|other| *other != index);
                    others.for_each(|other| words.push(other, self.own_wake_word_of(other)));
                }
            }
            None => self
                .peers
                .indexes()
                .for_each(|index| words.push(index, self.own_wake_word_of(index))),
        }
        words
    }

    /// Whether a sleep until an answer ends for other clients too: this endpoint takes over their
    /// priorities.
    fn wakes_for_raises(&self, target: &WaitTarget) -> bool {
        self.priorities.inherits()
            && matches!(target.verb, WaitCall::SendRec | WaitCall::Await)
            && target.index.is_some()
    }

    fn own_wake_word_of(&self, index: u32) -> &AtomicU32 {
        self.peers.get(index).link().own_wake_word()
    }

    /// Sleeps on the words. `seen` is the event word from before the last poll: an event received
    /// in that poll may be the awaited one.
    fn sleep_on(
        &self,
        words: &WakeWords,
        seen: u32,
        watch: DaemonWatch,
        until_ns: u64,
    ) -> Result<WaitOutcome, Fail> {
        let page = self.session.page();
        let event = (page.event_word(), seen);
        let own = match watch {
            DaemonWatch::Mark(value) => [event, (page.daemon_mark(), value)],
            _ => [event; 2],
        };
        let own = if matches!(watch, DaemonWatch::Mark(_)) { &own[..] } else { &own[..1] };
        if own.len() + words.count() <= FEW_WORDS + 1 {
            self.sleep_on_up_to::<{ FEW_WORDS + 1 }>(words, own, until_ns)
        } else {
            self.sleep_on_up_to::<WAIT_WORDS_MAX>(words, own, until_ns)
        }
    }

    /// Sleeps on at most `N` words, those of the control page among them.
    fn sleep_on_up_to<const N: usize>(
        &self,
        words: &WakeWords,
        own: &[Expected<'_>],
        until_ns: u64,
    ) -> Result<WaitOutcome, Fail> {
        let mut expected = [own[0]; N];
        expected[..own.len()].copy_from_slice(own);
        for (place, (index, value)) in expected[own.len()..].iter_mut().zip(words.iter()) {
            // The event word announced a link that came or went meanwhile.
            let Some(peer) = self.peers.find_index(index) else { return Ok(WaitOutcome::Changed) };
            *place = (peer.link().own_wake_word(), value);
        }
        Ok(m3ipc_sys::wait_any(&expected[..own.len() + words.count()], until_ns)?)
    }

    /// Polls all links if that is cheap or due; `false` if neither.
    pub(super) fn poll_all_if_due(&mut self, now_ns: u64) -> bool {
        let is_due = self.waiter.begin_full_poll(self.peers.count(), now_ns);
        if is_due {
            self.inbox.poll_all(&mut self.peers);
        }
        is_due
    }

    /// Checks the reasons of a long sleep.
    fn slow_check(&mut self, sleep_state: &mut SleepState, may_deadlock: bool) -> Result<(), Fail> {
        // During the daemon call this endpoint does not sleep for its peer and may have been
        // served. A search for a deadlock must not count it.
        self.session.page().set_sleep_start(sleep_state.since_ns, NO_THREAD);
        let checked = self.check_daemon_and_deadlock(sleep_state, may_deadlock);
        self.session.page().set_sleep_start(sleep_state.since_ns, sleep_state.tid);
        checked
    }

    /// Marks a message again that the peer has not taken: another member of its links may have
    /// cleared the mark, or taken the wake-up.
    fn mark_anew(&mut self, target: &WaitTarget) {
        if let (Some(index), Some(posted)) = (target.index, target.posted)
            && let Some(peer) = self.peers.claimed(index)
            && peer.link().is_taken(posted) == Ok(false)
        {
            peer.mark_link_ready();
            self.wake_if_ended(index, EndsWait::Receive);
        }
    }

    fn check_daemon_and_deadlock(
        &mut self,
        sleep_state: &mut SleepState,
        may_deadlock: bool,
    ) -> Result<(), Fail> {
        let returns = self.session.returns_count();
        self.reattach_if_closed();
        self.session.note_look();
        if self.session.returns_count() != returns {
            // The next daemon knows nothing of earlier questions.
            sleep_state.ask_after_ns = DEADLOCK_CHECK_NS;
        }
        self.ring_again();
        self.session.renew_missing_links();
        self.maintain_areas();
        self.mark_anew(&sleep_state.target);
        if may_deadlock && sleep_state.target.verb != WaitCall::Await {
            // A circle that was not complete yet is found later.
            sleep_state.ask_after_ns = (sleep_state.ask_after_ns * 10).min(DEADLOCK_CHECK_MAX_NS);
            match self
                .session
                .control_mut()
                .request_soon(&Request::IsDeadlock, sleep_state.deadline.at_ns)
            {
                Ok((Reply::Number(1), _)) => return Err(Code::Locked.into()),
                // There seems to be a circle, but another member of it was asking too.
                Ok((Reply::Number(2), _)) => sleep_state.ask_after_ns = DEADLOCK_RECHECK_NS,
                // The signal was for the call.
                Err(fail) if fail.code == Code::Intr && self.waiter.interruption().by_signal() => {
                    return Err(fail);
                }
                _ => {}
            }
        }
        if sleep_state.target.peer == ANY {
            self.waiter.expect_full_poll();
        }
        Ok(())
    }
}
