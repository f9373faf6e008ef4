//! A talk: what this process knows of one open socket. What all of them know lies in the pair.
//!
//! | phase | means | data calls |
//! |---|---|---|
//! | FREE | no socket | none |
//! | FRESH | it may become ours; its calls are counted | the kernel's, made here |
//! | JOINED | it has a pair | `send`, `receive` |
//! | KERNEL | it never will, or never again | the kernel's, made by the caller |
//!
//! Talks live in a table of the program's image: no memory is allocated, and a child by fork has its own copy.

use super::arena::Arena;
use super::diag::{self, Address};
use super::lock::{self, Grip};
use super::pairs::{self, NoPair, Place};
use super::raw;
use super::spin::Spin;
use super::way::Way;
use super::words::{PAGE, RING_MAX, pair, way};
use super::{Birth, Pin, Settings, settings};
use crate::count::{self, Count};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::os::fd::RawFd;

pub(super) const FREE: u32 = 0;
pub(super) const FRESH: u32 = 1;
pub(super) const JOINED: u32 = 2;
pub(super) const KERNEL: u32 = 3;

/// Talks of a process at most.
const TALKS: usize = 16_384;
/// Times that a peer is looked for which is not there.
const SEARCHES: u32 = 8;
/// Times that the first turn to the ring is tried, with growing gaps, before it is tried seldom.
const GAP_MAX: u32 = 64;

/// One open socket that may become ours. It is this process's; what forks share lies in shared memory.
#[derive(Debug)]
pub struct Talk {
    pub(super) phase: AtomicU32,
    is_unix: AtomicU32,
    /// Data calls that were made while it was FRESH.
    calls: AtomicU32,
    /// The call that looks for the peer next, and how often it was looked for.
    next: AtomicU32,
    searches: AtomicU32,
    /// Calls of this process that are in the kernel without the engine: sends, receives.
    pub(super) inside: [AtomicU32; 2],
    /// 0 where the kernel was not asked yet.
    cookie: AtomicU64,
    arena: AtomicPtr<Arena>,
    pair: AtomicU32,
    side: AtomicU32,
    state: AtomicU64,
    /// Whether an epoll set has it edge-triggered.
    pub(super) edges: AtomicU32,
    /// The line of forks in which this end was last said to be this process's.
    line: AtomicU32,
    /// Sends until the first turn is tried again, and the gap after that.
    gap: [AtomicU32; 2],
    pub(super) spins: [Spin; 2],
    pub(super) pending: AtomicU64,
    /// Not 0 where its calls were last found to sleep.
    pub(super) sleeps: AtomicU32,
    pub(super) last: [AtomicU64; 2],
    /// The cover that its way gets at the next receive; 0 is none.
    pub(super) wish: AtomicU64,
}

const fn empty() -> Talk {
    Talk {
        phase: AtomicU32::new(0),
        is_unix: AtomicU32::new(0),
        calls: AtomicU32::new(0),
        next: AtomicU32::new(0),
        searches: AtomicU32::new(0),
        inside: [const { AtomicU32::new(0) }; 2],
        cookie: AtomicU64::new(0),
        arena: AtomicPtr::new(core::ptr::null_mut()),
        pair: AtomicU32::new(0),
        side: AtomicU32::new(0),
        state: AtomicU64::new(0),
        edges: AtomicU32::new(0),
        line: AtomicU32::new(0),
        gap: [const { AtomicU32::new(0) }; 2],
        spins: [const { Spin::new() }; 2],
        pending: AtomicU64::new(0),
        sleeps: AtomicU32::new(0),
        last: [const { AtomicU64::new(0) }; 2],
        wish: AtomicU64::new(0),
    }
}

static ALL: [Talk; TALKS] = [const { empty() }; TALKS];
/// Whether any socket of this process ever had a pair.
static PAIRED: AtomicBool = AtomicBool::new(false);
static HINT: AtomicU32 = AtomicU32::new(0);

/// The talk of a stream socket; `None` where it can never be ours.
pub fn candidate(fd: RawFd, how: Birth) -> Option<&'static Talk> {
    let settings = settings();
    if !settings.on
        || raw::option::<i32>(fd, libc::SOL_SOCKET, libc::SO_TYPE) != Ok(libc::SOCK_STREAM)
    {
        return None;
    }
    let family = raw::option::<i32>(fd, libc::SOL_SOCKET, libc::SO_DOMAIN).ok()?;
    let is_unix = family == libc::AF_UNIX;
    let tcp =
        || raw::option::<i32>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP);
    let is_tcp = matches!(family, libc::AF_INET | libc::AF_INET6) && tcp();
    if !is_unix && !is_tcp {
        return None;
    }
    let _ = how;
    let talk = take()?;
    talk.begin(is_unix);
    Some(talk)
}

/// Whether any socket of this process ever had a pair: until then there is nothing to look for.
#[must_use]
pub fn any_pairs() -> bool {
    PAIRED.load(Ordering::Relaxed)
}

fn take() -> Option<&'static Talk> {
    let from = HINT.load(Ordering::Relaxed) as usize;
    let free = (0..TALKS).map(|step| (from + step) % TALKS).find(|at| {
        let phase = ALL.get(*at).map(|talk| &talk.phase);
        phase.is_some_and(|phase| {
            phase.compare_exchange(FREE, KERNEL, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    })?;
    HINT.store(u32::try_from((free + 1) % TALKS).unwrap_or(0), Ordering::Relaxed);
    ALL.get(free)
}

impl Talk {
    fn begin(&self, is_unix: bool) {
        self.is_unix.store(u32::from(is_unix), Ordering::Relaxed);
        for word in [
            &self.calls,
            &self.searches,
            &self.edges,
            &self.line,
            &self.inside[0],
            &self.inside[1],
            &self.gap[0],
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.gap[1].store(1, Ordering::Relaxed);
        self.next.store(settings().upgrade_after_calls, Ordering::Relaxed);
        self.pending.store(0, Ordering::Relaxed);
        self.sleeps.store(0, Ordering::Relaxed);
        self.cookie.store(0, Ordering::Relaxed);
        self.wish.store(0, Ordering::Relaxed);
        self.last[0].store(u64::MAX, Ordering::Relaxed);
        self.last[1].store(0, Ordering::Relaxed);
        self.spins.iter().for_each(Spin::reset);
        self.phase.store(FRESH, Ordering::Release);
    }

    /// Its slot may be used for another socket.
    pub(super) fn free(&self) {
        self.phase.store(FREE, Ordering::Release);
    }

    pub(super) fn is_unix(&self) -> bool {
        self.is_unix.load(Ordering::Relaxed) != 0
    }

    fn arena(&self) -> Option<&'static Arena> {
        let at = self.arena.load(Ordering::Acquire);
        #[allow(unsafe_code)]
        // SAFETY: null, or one of the arenas, which are statics.
        unsafe {
            at.as_ref()
        }
    }

    /// The end that it has in its pair; none where that is another connection's by now.
    #[inline]
    pub(super) fn place(&self) -> Option<(&'static Arena, Place)> {
        let arena = self.arena()?;
        let place = Place {
            pair: self.pair.load(Ordering::Relaxed) as usize,
            side: self.side.load(Ordering::Relaxed) as usize & 1,
            state: self.state.load(Ordering::Relaxed),
        };
        (pairs::state(arena, place.pair) == place.state).then_some((arena, place))
    }

    /// The way that this end sends on, or receives on.
    #[inline]
    pub(super) fn way(&self, arena: &'static Arena, place: Place, sending: bool) -> Way {
        let number = if sending { place.side } else { 1 - place.side };
        way_of(arena, place.pair, number)
    }

    /// A data call of a socket that has no pair yet, as far as this process knows: whether it has one now.
    ///
    /// One that others know of (the peer, a process that shares this end) is taken at once: its ways may be in their rings.
    pub(super) fn try_join(&self, fd: RawFd) -> bool {
        let Some(arena) = Arena::current() else { return self.give_up() };
        if self.is_known(fd) {
            return true;
        }
        let cookie = self.cookie.load(Ordering::Relaxed);
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        if calls < self.next.load(Ordering::Relaxed) {
            return false;
        }
        match self.search(fd, arena, cookie) {
            Ok(place) => {
                self.adopt(arena, place);
                true
            }
            Err(NoPair::Foreign) => self.give_up(),
            Err(cause) => {
                let searches = self.searches.fetch_add(1, Ordering::Relaxed);
                self.next.store(calls.saturating_add(1 << searches.min(16)), Ordering::Relaxed);
                // Of TCP either end is known to the kernel before the other can use it.
                let most = if cause == NoPair::Nobody && !self.is_unix() { 1 } else { SEARCHES };
                searches >= most && self.give_up()
            }
        }
    }

    /// Whether others know of a pair with this end, which is this process's, too, from then on.
    pub(super) fn is_known(&self, fd: RawFd) -> bool {
        let Some(arena) = Arena::current() else { return false };
        let cookie = match self.cookie.load(Ordering::Relaxed) {
            0 => diag::cookie(fd).unwrap_or(0),
            known => known,
        };
        self.cookie.store(cookie, Ordering::Relaxed);
        let place = pairs::find(arena, cookie);
        if let Some(place) = place {
            self.adopt(arena, place);
        }
        place.is_some()
    }

    fn give_up(&self) -> bool {
        let _ = self.phase.compare_exchange(FRESH, KERNEL, Ordering::AcqRel, Ordering::Relaxed);
        false
    }

    #[cold]
    fn search(&self, fd: RawFd, arena: &'static Arena, cookie: u64) -> Result<Place, NoPair> {
        let family = if self.is_unix() { libc::AF_UNIX } else { libc::AF_INET };
        // Perhaps it is not connected yet.
        let address = Address::of(fd, family).map_err(|_| NoPair::Room)?;
        pairs::join(arena, cookie, &address)
    }

    fn adopt(&self, arena: &'static Arena, place: Place) {
        PAIRED.store(true, Ordering::Relaxed);
        self.pair.store(u32::try_from(place.pair).unwrap_or(0), Ordering::Relaxed);
        self.side.store(u32::try_from(place.side).unwrap_or(0), Ordering::Relaxed);
        self.state.store(place.state, Ordering::Relaxed);
        self.arena.store(core::ptr::from_ref(arena).cast_mut(), Ordering::Release);
        if self.edges.load(Ordering::Acquire) != 0 {
            self.way(arena, place, false).store(way::EDGES, 1);
        }
        arena
            .word(Arena::pair_offset(place.pair) + pair::JOINED[place.side])
            .store(1, Ordering::Release);
        let _ = self.phase.compare_exchange(FRESH, JOINED, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether a process of the other end knows of the pair: else everything is the kernel's, in one call.
    pub(super) fn has_company(&self, arena: &'static Arena, place: Place) -> bool {
        arena
            .word(Arena::pair_offset(place.pair) + pair::JOINED[1 - place.side])
            .load(Ordering::Acquire)
            != 0
    }

    /// Says that every receive of this end goes through the engine, where none is in the kernel without it.
    #[inline]
    pub(super) fn attach(&self, arena: &'static Arena, place: Place, way: &Way) {
        let line = lock::line();
        if self.line.load(Ordering::Relaxed) == line && line != 0 && way.load(way::ATTACHED) != 0 {
            return;
        }
        if self.inside[1].load(Ordering::Acquire) != 0 {
            return;
        }
        let process = u64::from(raw::process().unsigned_abs());
        arena
            .word(Arena::pair_offset(place.pair) + pair::PROCESSES[place.side])
            .store(process, Ordering::Relaxed);
        // Release: pairs with the sender's look before its first turn.
        let _ = way.word(way::ATTACHED).compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        self.line.store(line, Ordering::Relaxed);
    }

    /// Tries to turn our way to the ring; under the sender's lock.
    pub(super) fn turn(
        &self,
        fd: RawFd,
        arena: &'static Arena,
        place: Place,
        way: &Way,
        now: &Settings,
    ) -> bool {
        let idle = way.load(way::ATTACHED) == 1
            && way.load(way::PINNED) == 0
            && way.load(way::SENDING) == 0
            && self.inside[0].load(Ordering::Acquire) == 0;
        if !idle || !(now.same_process || self.is_elsewhere(arena, place)) {
            return false;
        }
        if way.has_ring() {
            if way.load(way::KERNEL) != way.load(way::KERNEL_TAKEN) {
                return false;
            }
            let Some(_held) = lock::try_take(way.word(way::RECEIVE_LOCK)) else { return false };
            return way.load(way::KERNEL) == way.load(way::KERNEL_TAKEN) && to_ring(way);
        }
        self.is_due() && self.first_turn(fd, arena, place, way, now)
    }

    /// The first turn is tried with growing gaps: it asks the kernel.
    fn is_due(&self) -> bool {
        let [left, gap] = &self.gap;
        if left.load(Ordering::Relaxed) > 0 {
            left.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let next = gap.load(Ordering::Relaxed);
        left.store(next - 1, Ordering::Relaxed);
        gap.store((next * 2).min(GAP_MAX), Ordering::Relaxed);
        true
    }

    #[cold]
    fn first_turn(
        &self,
        fd: RawFd,
        arena: &'static Arena,
        place: Place,
        way: &Way,
        now: &Settings,
    ) -> bool {
        // Everything that was sent has been received by the other socket, and read from it.
        if raw::ask(fd, libc::TIOCOUTQ) != Ok(0) {
            return false;
        }
        if !self.is_unix() {
            let unread =
                Address::of(fd, libc::AF_INET).and_then(|own| diag::look_up(&own.turned()));
            if unread.map(|found| found.unread) != Ok(0) || !self.calm(fd, way) {
                return false;
            }
        }
        let Some(_held) = lock::try_take(way.word(way::RECEIVE_LOCK)) else { return false };
        let ring = Arena::pair_offset(place.pair) + PAGE + place.side * RING_MAX;
        if arena.reserve(ring, now.ring_bytes as usize).is_err() {
            way.store(way::REASON, Pin::Room as u64);
            way.store(way::PINNED, 1);
            return false;
        }
        // Calls of before were counted on one side alone, or on none; all that was sent has been read, so here both are even.
        way.store(way::KERNEL_TAKEN, way.load(way::KERNEL));
        way.store(way::RING_BYTES, u64::from(now.ring_bytes));
        count::add(Count::Upgrades, 1);
        to_ring(way)
    }

    /// Tokens must not be held back for company.
    fn calm(&self, fd: RawFd, way: &Way) -> bool {
        if raw::option::<i32>(fd, libc::IPPROTO_TCP, libc::TCP_CORK) != Ok(0) {
            return false;
        }
        let Ok(nodelay) = raw::option::<i32>(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY) else {
            return false;
        };
        way.store(way::LATENCY[0], u64::from(nodelay != 0));
        way.store(way::LATENCY[1], 0);
        nodelay != 0 || raw::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1).is_ok()
    }

    /// Whether the other end is another process's.
    fn is_elsewhere(&self, arena: &'static Arena, place: Place) -> bool {
        let other = Arena::pair_offset(place.pair) + pair::PROCESSES[1 - place.side];
        arena.word(other).load(Ordering::Relaxed) != u64::from(raw::process().unsigned_abs())
    }
}

/// Turns to the ring; under both locks, with nothing unread in the kernel.
fn to_ring(way: &Way) -> bool {
    way.word(way::TURN).fetch_add(1, Ordering::SeqCst);
    true
}

/// One way of a pair.
#[allow(unsafe_code)]
fn way_of(arena: &'static Arena, number: usize, way: usize) -> Way {
    let words = arena.page(number).wrapping_add(pair::WAYS[way & 1]);
    // SAFETY: inside the arena's mapping, which is never taken back, as its layout has it.
    unsafe { Way::new(words, arena.ring(number, way)) }
}

/// Returns a way to the kernel for good. `false` where bytes lie in the ring that only a receiver of ours can take.
pub(super) fn pin_sending(way: &Way, reason: Pin) {
    let Grip::Held(_held) = lock::take(way.word(way::SEND_LOCK)) else { return };
    way.store(way::REASON, reason as u64);
    way.store(way::PINNED, 1);
    if way.in_ring() {
        super::send::to_kernel(way);
        count::add(Count::Downgrades, 1);
    }
}

/// The same for the way that is received on: its sender is stopped from using the ring.
pub(super) fn pin_receiving(way: &Way, fd: RawFd) -> bool {
    way.store(way::ATTACHED, 2);
    if !way.has_ring() {
        return true;
    }
    let Grip::Held(_sender) = lock::take(way.word(way::SEND_LOCK)) else { return false };
    let Grip::Held(_own) = lock::take(way.word(way::RECEIVE_LOCK)) else { return false };
    if way.in_ring() {
        super::send::to_kernel(way);
        count::add(Count::Downgrades, 1);
    }
    let empty = way.look().is_ok_and(|seen| seen.filled == 0);
    empty && matches!(super::receive::settle(way, fd), Ok(super::receive::Settled::Empty))
}
