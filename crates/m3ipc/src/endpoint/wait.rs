//! Waiting: look, give way, sleep; and what ends a wait besides its event.
//!
//! A sleep is announced before the last look ([`m3ipc_link::Status::set_mode`]),
//! so whoever publishes afterwards wakes us. It ends by itself about once a
//! second: to see whether the daemon lives, since only it tells of deaths.

use super::{At, Endpoint};
use crate::error::Fail;
use crate::timeout::Deadline;
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_abi::{ANY, Address, Code};
use m3ipc_link::{Counter, SlotState, SpinStep, WaitCall as Verb, WaitMode, WaitStrategy};
use m3ipc_sys::{WAIT_WORDS_MAX, WaitOutcome};
use m3ipc_wire::{Reply, Request};

/// How long a sleep lasts at most, before the daemon is looked after.
const SLOW_CHECK_NS: u64 = 1_000_000_000;
/// How long who waits for one peer sleeps before it asks whether its waiting has closed a circle.
const DEADLOCK_CHECK_NS: u64 = 1_000_000;
/// With more links than this, not all are looked at before every sleep.
const LINKS_LOOKED_AT: usize = 128;
/// Then a hint that a hostile peer cleared delays its victim by at most this.
const FULL_LOOK_NS: u64 = 50_000_000;
/// The thread of a record that says that nobody sleeps just now.
const NO_THREAD: u32 = 0;
/// Looks between two readings of the clock, where a wait has a limit and never sleeps.
const LOOKS_PER_CLOCK: u32 = 256;
/// Cheap looks between two thorough ones.
const CHEAP_LOOKS: u32 = 32;
/// Looks between two at all links and at the daemon, where a wait never sleeps.
const LOOKS_PER_FULL_LOOK: u32 = 1 << 20;

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) verb: Verb,
    /// The partner, or ANY.
    pub(super) peer: Address,
    /// Its link, where it is one.
    pub(super) index: Option<u32>,
    /// The message that the peer is to take.
    pub(super) posted: Option<SlotState>,
    /// Whether it is the own cell that is to change.
    pub(super) own_cell: bool,
}

/// One wait, while it lasts.
#[derive(Debug)]
struct Nap {
    want: Want,
    deadline: Deadline,
    since_ns: u64,
    tid: u32,
    /// When to ask next whether the waiting has closed a circle.
    ask_after_ns: u64,
}

impl Endpoint {
    /// Waits until `look` finds something. It is called again and again, and
    /// once more between saying that one sleeps and sleeping.
    #[inline]
    pub(super) fn wait<T>(
        &mut self,
        want: Want,
        deadline: Deadline,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, Fail>,
    ) -> Result<T, Fail> {
        let mut look = |endpoint: &mut Self| {
            endpoint.stamp(At::Looked);
            let found = look(endpoint)?;
            if found.is_none() {
                endpoint.serve_copies();
            }
            let anew =
                found.is_none() && want.index.is_some() && endpoint.peers.is_remade(want.peer);
            if anew { Err(Code::Unknown.into()) } else { Ok(found) }
        };
        if let Some(found) = look(self)? {
            return Ok(found);
        }
        if deadline.no_wait {
            return Err(Code::Again.into());
        }
        self.desk.set_blocked(want.verb, want.peer);
        self.blocked = Some((want.verb, want.peer, 0));
        if want.verb.may_be_copied() {
            self.park();
        }
        let result = self.wait_slow(want, deadline, look);
        self.unpark();
        self.desk.set_running();
        self.blocked = None;
        result
    }

    fn wait_slow<T>(
        &mut self,
        want: Want,
        deadline: Deadline,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, Fail>,
    ) -> Result<T, Fail> {
        let mut patience = self.pace.begin();
        let mut nap = Nap { want, deadline, since_ns: 0, tid: 0, ask_after_ns: DEADLOCK_CHECK_NS };
        let mut looks = 0_u32;
        let mut shares_cpu = self.shares_cpu(want.index);
        loop {
            match patience.next(shares_cpu) {
                SpinStep::Poll => {
                    looks = looks.wrapping_add(1);
                    if !shares_cpu && !looks.is_multiple_of(CHEAP_LOOKS) && self.is_quiet(&want) {
                        continue;
                    }
                    shares_cpu = self.shares_cpu(want.index);
                    let clock = looks.is_multiple_of(LOOKS_PER_CLOCK) && deadline.is_finite();
                    if clock && m3ipc_sys::monotonic_ns() >= deadline.at_ns {
                        return Err(Code::TimedOut.into());
                    }
                    if looks.is_multiple_of(LOOKS_PER_FULL_LOOK)
                        && self.pace.strategy() == WaitStrategy::Spin
                    {
                        self.reattach_if_cut();
                        self.inbox.look_everywhere(&mut self.peers);
                    }
                }
                SpinStep::Sleep => {
                    if let Some(found) = self.sleep(&mut nap, &mut look)? {
                        self.pace.learn(&patience);
                        return Ok(found);
                    }
                }
            }
            if let Some(found) = look(self)? {
                self.pace.learn(&patience);
                return Ok(found);
            }
        }
    }

    /// Whether there is surely nothing new: a few loads, where a look is a walk. Who is wrong
    /// here is late by a few looks; thorough ones come in between.
    #[inline]
    fn is_quiet(&self, want: &Want) -> bool {
        if self.desk.event_word().load(Ordering::Relaxed) != self.news_seen {
            return false;
        }
        match want.index {
            Some(index) => self.peers.find_index(index).is_some_and(|peer| {
                peer.link.is_quiet()
                    && !(want.own_cell && peer.link.is_free() != Ok(false))
                    && !(want.verb == Verb::Receive && peer.has_notification())
            }),
            None => {
                self.inbox.is_empty()
                    && self.inbox.is_quiet(&self.peers)
                    && !self.faces.iter().any(|face| face.hints.any())
                    && self.desk.flags() == 0
            }
        }
    }

    /// Whether the likeliest waker was last seen on this very CPU; and tells
    /// peers where we are, since a waiter may have been moved.
    #[inline]
    fn shares_cpu(&mut self, index: Option<u32>) -> bool {
        let cpu = self.publish_cpu();
        let Some(index) = index.or_else(|| self.inbox.likeliest()) else { return false };
        self.peers.find_index(index).is_some_and(|peer| peer.status.cpu() == cpu)
    }

    /// Sleeps once, unless `look` finds something first.
    fn sleep<T>(
        &mut self,
        nap: &mut Nap,
        look: &mut impl FnMut(&mut Self) -> Result<Option<T>, Fail>,
    ) -> Result<Option<T>, Fail> {
        let now_ns = m3ipc_sys::monotonic_ns();
        if now_ns >= nap.deadline.at_ns {
            return Err(Code::TimedOut.into());
        }
        self.publish_wait(nap, now_ns);
        let mut limit_ns = SLOW_CHECK_NS;
        let any = nap.want.index.is_none();
        // A receive closes a circle as well: of one's own client, of one who receives from here.
        let may_lock = matches!(nap.want.verb, Verb::Send | Verb::SendRec | Verb::Receive) && !any;
        if may_lock {
            limit_ns = nap.ask_after_ns;
        }
        let at_bell = any && self.peers.count() + 1 >= WAIT_WORDS_MAX;
        if at_bell {
            self.hang_bell()?;
        }
        let mode = if at_bell {
            WaitMode::AtDoorbell(nap.want.peer)
        } else {
            WaitMode::OnLinks(nap.want.peer)
        };
        // The words' values come first: a wake between the look and the sleep changes them.
        let words = if at_bell { Words::none() } else { self.words(nap.want.index) };
        let news = self.news_seen;
        self.set_mode(mode);
        if any && !self.look_everywhere_if_due(now_ns) {
            limit_ns = limit_ns.min(FULL_LOOK_NS);
        }
        let found = look(self);
        if !matches!(found, Ok(None)) {
            self.set_mode(WaitMode::Awake);
            return found;
        }
        self.desk.count(Counter::Slept);
        m3ipc_sys::pause_point("sleeping");
        let until_ns = nap.deadline.at_ns.min(now_ns.saturating_add(limit_ns));
        let ended = if at_bell {
            self.sleep_at_bell(news, until_ns)
        } else {
            self.sleep_on(&words, news, until_ns)
        };
        self.stamp(At::Ran);
        let checked = ended.and_then(|ended| match ended {
            // Neither a peer that wakes us without end nor much to do must keep us from
            // looking after the daemon: newcomers wait until its successor knows us.
            WaitOutcome::Changed if now_ns.saturating_sub(self.checked_ns) < SLOW_CHECK_NS => {
                Ok(())
            }
            WaitOutcome::Signal => Err(Code::Intr.into()),
            WaitOutcome::Changed | WaitOutcome::Limit => {
                self.checked_ns = now_ns;
                self.slow_check(nap, may_lock)
            }
        });
        // Only now: to peers without time, who asks the daemon is as far from looking as who sleeps.
        self.set_mode(WaitMode::Awake);
        checked.map(|()| None)
    }

    /// Says since when one waits, and whether the request has been taken meanwhile.
    fn publish_wait(&mut self, nap: &mut Nap, now_ns: u64) {
        if nap.since_ns == 0 {
            nap.since_ns = now_ns;
            nap.tid = m3ipc_sys::thread_id().cast_unsigned();
        }
        if let (Verb::SendRec, Some(index), Some(posted)) =
            (nap.want.verb, nap.want.index, nap.want.posted)
            && self.peers.get(index).link.is_taken(posted) == Ok(true)
        {
            nap.want.verb = Verb::Await;
            m3ipc_sys::pause_point("client.taken");
            self.desk.set_blocked(Verb::Await, nap.want.peer);
        }
        self.desk.set_sleep_start(nap.since_ns, nap.tid);
        self.blocked = Some((nap.want.verb, nap.want.peer, nap.since_ns));
    }

    pub(super) fn set_mode(&self, mode: WaitMode) {
        for face in &self.faces {
            face.status.set_mode(mode);
        }
    }

    /// The values of the words that one is about to sleep on.
    fn words(&self, index: Option<u32>) -> Words {
        let mut words = Words::none();
        match index {
            Some(index) => {
                words.push(index, self.knock(index));
                // Those who copy with us knock there, whomever we wait for.
                let others = self.served_links().iter().filter(|other| **other != index);
                others.for_each(|other| {
                    if let Some(peer) = self.peers.find_index(*other) {
                        words.push(*other, peer.link.own_wake_word());
                    }
                });
            }
            None => self.peers.indexes().for_each(|index| words.push(index, self.knock(index))),
        }
        words
    }

    fn knock(&self, index: u32) -> &AtomicU32 {
        self.peers.get(index).link.own_wake_word()
    }

    /// `seen` is the news word of before the last look: what was heard in
    /// that look may be just what is waited for.
    fn sleep_on(&self, words: &Words, seen: u32, until_ns: u64) -> Result<WaitOutcome, Fail> {
        let mut expected = [(self.desk.event_word(), seen); WAIT_WORDS_MAX];
        for (place, (index, value)) in expected[1..].iter_mut().zip(words.list()) {
            // A link that came or went meanwhile was announced by the news word.
            let Some(peer) = self.peers.find_index(*index) else { return Ok(WaitOutcome::Changed) };
            *place = (peer.link.own_wake_word(), *value);
        }
        Ok(m3ipc_sys::wait_any(&expected[..=words.list().len()], until_ns)?)
    }

    /// Looks at all links where that is cheap or long ago; `false` where it was neither.
    fn look_everywhere_if_due(&mut self, now_ns: u64) -> bool {
        if self.peers.count() > LINKS_LOOKED_AT
            && now_ns.saturating_sub(self.last_look_ns) < FULL_LOOK_NS
        {
            return false;
        }
        self.last_look_ns = now_ns;
        self.inbox.look_everywhere(&mut self.peers);
        true
    }

    /// Nothing happened for a while: is that right?
    fn slow_check(&mut self, nap: &mut Nap, may_lock: bool) -> Result<(), Fail> {
        // Who sleeps for an answer of the daemon does not sleep for its peer, and
        // may have been served: whoever looks for a circle now must not count it.
        self.desk.set_sleep_start(nap.since_ns, NO_THREAD);
        let checked = self.look_after_all(nap, may_lock);
        self.desk.set_sleep_start(nap.since_ns, nap.tid);
        checked
    }

    fn look_after_all(&mut self, nap: &mut Nap, may_lock: bool) -> Result<(), Fail> {
        self.reattach_if_cut();
        self.take_up_missed();
        if may_lock && nap.want.verb != Verb::Await {
            // Circles that were not whole yet are found a little later.
            nap.ask_after_ns = (nap.ask_after_ns * 10).min(SLOW_CHECK_NS);
            match self.control.request_soon(&Request::IsDeadlock) {
                Ok((Reply::Number(1), _)) => return Err(Code::Locked.into()),
                // It seems so, but another of the circle was just asking as well.
                Ok((Reply::Number(2), _)) => nap.ask_after_ns = DEADLOCK_CHECK_NS,
                // The signal was for the call, whatever it was just doing.
                Err(fail) if fail.code == Code::Intr => return Err(fail),
                _ => {}
            }
        }
        if nap.want.peer == ANY {
            self.last_look_ns = 0;
        }
        Ok(())
    }
}

/// Links to sleep on, with the values of their words.
#[derive(Debug)]
struct Words {
    list: [(u32, u32); WAIT_WORDS_MAX],
    count: usize,
}

impl Words {
    fn none() -> Self {
        Self { list: [(0, 0); WAIT_WORDS_MAX], count: 0 }
    }

    fn push(&mut self, index: u32, word: &AtomicU32) {
        if self.count + 1 < WAIT_WORDS_MAX {
            self.list[self.count] = (index, word.load(Ordering::SeqCst));
            self.count += 1;
        }
    }

    fn list(&self) -> &[(u32, u32)] {
        &self.list[..self.count]
    }
}
