//! The sleep of the fast path: one sleep of a call without a limit, of an endpoint that blocks.
//!
//! ```text
//! poll ── record the wait ── publish the mode ── poll ── sleep ── poll ── the fast path takes
//!                                                  │       │        │
//!                                                  └───────┴────────┴ the slow wait
//! ```
//!
//! The order of the steps is that of [`waiting::sleep_unless_found`], as in the slow wait. This
//! sleep leaves out what a short wait needs not: the search for a deadlock, the check of the
//! daemon, the time of the waiting record. It is short, so the slow wait does all that soon.
//! Anything that is not the awaited message ends it at once, a daemon event too.

use super::Endpoint;
use super::fast::NotFound;
use super::fast_receive::{Found, OneArrival};
use super::wait::{DEADLOCK_CHECK_NS, NO_THREAD};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_abi::ANY;
use m3ipc_link::waiting::{self, Sleeper};
use m3ipc_link::{Counter, SlotState, WaitCall, WaitMode};
use m3ipc_sys::{Expected, WaitOutcome};

/// Links of an endpoint that may sleep for ANY here. The slow wait sleeps on the words of more.
const FEW_LINKS: usize = 3;
/// The longest sleep for one peer, in nanoseconds. The slow wait looks for deadlocks.
const PEER_SLEEP_NS: u64 = DEADLOCK_CHECK_NS;
/// The longest sleep for a message of any endpoint, in nanoseconds. The slow wait looks for the
/// daemon.
const MESSAGE_SLEEP_NS: u64 = 100_000_000;

/// One sleep on the wake words of a link, or of all links.
struct ShortSleep<'a> {
    endpoint: &'a Endpoint,
    /// The awaited link; `None` for all.
    index: Option<u32>,
    limit_ns: u64,
    /// The start of the sleep, or 0 before it.
    since_ns: u64,
}

impl ShortSleep<'_> {
    /// The wake word of the link in this place, if the sleep includes it.
    fn wake_word(&self, place: usize) -> Option<&AtomicU32> {
        let index = match self.index {
            Some(index) => (place == 0).then_some(index),
            None => u32::try_from(place).ok(),
        };
        Some(self.endpoint.peers.find_index(index?)?.link().own_wake_word())
    }
}

impl Sleeper for ShortSleep<'_> {
    type Words = [Option<u32>; FEW_LINKS];
    type Error = NotFound;

    fn read_wake_words(&mut self) -> Self::Words {
        core::array::from_fn(|place| Some(self.wake_word(place)?.load(Ordering::SeqCst)))
    }

    fn set_mode(&mut self, mode: WaitMode) {
        self.endpoint.waiter.set_mode(mode);
    }

    fn sleep(&mut self, words: Self::Words) -> Result<(), NotFound> {
        self.since_ns = m3ipc_sys::monotonic_ns();
        let until_ns = self.since_ns + self.limit_ns;
        let (control_page, seen) =
            (self.endpoint.session.page(), self.endpoint.session.events_seen());
        control_page.count(Counter::Slept);
        m3ipc_sys::pause_point("sleeping");
        let mut expected: [Expected<'_>; FEW_LINKS + 1] =
            [(control_page.event_word(), seen); FEW_LINKS + 1];
        let mut count = 1;
        for (place, value) in words.into_iter().enumerate() {
            if let (Some(word), Some(value)) = (self.wake_word(place), value) {
                expected[count] = (word, value);
                count += 1;
            }
        }
        match m3ipc_sys::wait_any(&expected[..count], until_ns) {
            Ok(WaitOutcome::Changed) => Ok(()),
            Ok(WaitOutcome::Signal) => Err(NotFound::Signal),
            // The slow wait meets and returns the same error.
            Ok(WaitOutcome::Limit) | Err(_) => Err(NotFound::Yet),
        }
    }
}

impl Endpoint {
    /// Sleeps until the answer to this request is there.
    pub(super) fn sleep_for_answer(
        &mut self,
        index: u32,
        request: SlotState,
    ) -> Result<SlotState, NotFound> {
        self.sleep_for_peer(WaitCall::SendRec, index, |endpoint| {
            let link = endpoint.peers.get(index).link();
            // Another message may be an answer too.
            link.look_for_answer(request).ok_or(!link.is_quiet())
        })
    }

    /// Sleeps until the peer has taken the last message.
    pub(super) fn sleep_until_taken(&mut self, index: u32) -> Result<(), NotFound> {
        self.sleep_for_peer(WaitCall::Send, index, |endpoint| {
            let link = endpoint.peers.get(index).link();
            // Another message may cross this endpoint's own.
            if link.is_last_taken() { Ok(()) } else { Err(!link.is_quiet()) }
        })
    }

    /// Sleeps until the link of this index has a message or notifications, and nothing else.
    pub(super) fn sleep_for_message_on(&mut self, index: u32) -> Result<OneArrival, NotFound> {
        let has_slept = Cell::new(false);
        let look = |endpoint: &Self| match endpoint.find_on(index) {
            Found::Nothing => {
                has_slept.set(true);
                Err(false)
            }
            Found::More => Err(true),
            Found::One(found) => Ok(found),
        };
        let found = self.sleep_for_peer(WaitCall::Receive, index, look);
        if has_slept.get() {
            self.inbox.set_waited(true);
        }
        found
    }

    /// Sleeps until `look` finds something on the link of this index. `Err(true)`: the slow wait
    /// must look.
    fn sleep_for_peer<T>(
        &mut self,
        call: WaitCall,
        index: u32,
        look: impl Fn(&Self) -> Result<T, bool>,
    ) -> Result<T, NotFound> {
        let endpoint = &*self;
        let peer = endpoint.peers.get(index).address();
        let poll = || match look(endpoint) {
            Ok(found) => Ok(Some(found)),
            Err(has_more) if has_more || endpoint.session.has_events() => Err(NotFound::Yet),
            Err(_) => Ok(None),
        };
        endpoint.session.page().set_sleep_start(0, NO_THREAD);
        endpoint.session.page().set_blocked(call, peer);
        let mut sleep =
            ShortSleep { endpoint, index: Some(index), limit_ns: PEER_SLEEP_NS, since_ns: 0 };
        let found = sleep_between(&mut sleep, WaitMode::OnLinks(peer), poll);
        let since_ns = sleep.since_ns;
        endpoint.session.page().set_running();
        if matches!(found, Err(NotFound::Yet)) {
            // The slow path goes on with the wait of this call. The age of a wait decides which
            // call has closed a circle.
            self.waiter.note_short_sleep(since_ns);
        }
        found
    }

    /// Sleeps until a hot link has the only message, or the only notifications.
    pub(super) fn sleep_for_one(&mut self) -> Result<OneArrival, NotFound> {
        let links = self.peers.index_limit();
        if links > FEW_LINKS {
            return Err(NotFound::Yet);
        }
        let endpoint = &*self;
        let has_slept = Cell::new(false);
        let poll = || {
            // Events and a wakeup come first, as on the slow path.
            if endpoint.session.has_events() || endpoint.session.page().flags() != 0 {
                return Err(NotFound::Yet);
            }
            match endpoint.find_arrivals() {
                Found::One(found) => Ok(Some(found)),
                Found::More => Err(NotFound::Yet),
                // Links that are not hot count too, also if a peer has cleared their ready bits.
                Found::Nothing if endpoint.peers.are_quiet() => {
                    has_slept.set(true);
                    Ok(None)
                }
                Found::Nothing => Err(NotFound::Yet),
            }
        };
        endpoint.session.page().set_sleep_start(0, NO_THREAD);
        endpoint.session.page().set_blocked(WaitCall::Receive, ANY);
        let mut sleep =
            ShortSleep { endpoint, index: None, limit_ns: MESSAGE_SLEEP_NS, since_ns: 0 };
        let found = sleep_between(&mut sleep, WaitMode::OnLinks(ANY), poll);
        endpoint.session.page().set_running();
        if has_slept.get() {
            // A poll of this call found nothing, also if the slow path goes on with its wait.
            self.inbox.set_waited(true);
        }
        found
    }
}

/// Polls, sleeps and polls.
fn sleep_between<T>(
    sleep: &mut ShortSleep<'_>,
    mode: WaitMode,
    poll: impl Fn() -> Result<Option<T>, NotFound>,
) -> Result<T, NotFound> {
    match waiting::sleep_unless_found(sleep, mode, |_| poll())? {
        Some(found) => Ok(found),
        None => poll()?.ok_or(NotFound::Yet),
    }
}
