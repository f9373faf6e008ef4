//! Pairs: which connection has which memory, found by the cookie of either end.
//!
//! The first end that uses a connection asks the kernel who the other is and makes the pair; the second finds it by its own cookie,
//! and so does any process that gets hold of an end later (fork, exec, a descriptor in a message). Pairs are made and freed
//! under one lock; looking up needs none, since an entry of the index is one word and the cookie is compared in the pair.
//!
//! A pair is freed when the kernel knows neither end any more: looked for where somebody closed his end or died.

use super::arena::Arena;
use super::diag::{self, Address};
use super::lock::{self, Grip};
use super::raw;
use super::words::{
    BUCKET_WORDS, BUCKETS, HAND, INDEX, MAKING, PAGE, PAIRS, STATES, SWEPT_AT, pair,
};
use core::sync::atomic::{AtomicU64, Ordering};

/// A bit of a state: the pair is in use. The rest counts how often it was.
pub(super) const LIVE: u64 = 1;
/// Words of a page that are zero in a new pair.
const USED_WORDS: usize = 1536 / 8;
/// Pairs in use that each maker of one looks at, to free what is dead.
const SWEPT: usize = 2;
/// States it passes over at most.
const PASSED: usize = 128;
/// Nanoseconds between two looks at all of them.
const SWEEP_NS: u64 = 1_000_000_000;
/// Pairs whose memory is kept for the next.
const KEPT: usize = 32;

/// An end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub pair: usize,
    /// 0: the end with the lesser cookie.
    pub side: usize,
    /// The pair's state when it was found.
    pub state: u64,
}

/// The state of a pair.
#[inline]
pub(super) fn state(arena: &Arena, pair: usize) -> u64 {
    arena.word(STATES + 8 * pair.min(PAIRS - 1)).load(Ordering::Acquire)
}

fn words(arena: &Arena, of: usize) -> impl Fn(usize) -> &'static AtomicU64 {
    let base = Arena::pair_offset(of);
    move |offset| arena.word(base + offset)
}

fn mix(cookie: u64) -> u64 {
    (cookie ^ cookie >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn bucket(arena: &Arena, cookie: u64) -> impl Iterator<Item = &'static AtomicU64> {
    let number = usize::try_from(mix(cookie) >> 20).unwrap_or(0) % BUCKETS;
    (0..BUCKET_WORDS).map(move |at| arena.word(INDEX + 8 * (number * BUCKET_WORDS + at)))
}

/// An entry: 32 bits of the cookie, the pair plus one, the side.
fn entry(cookie: u64, pair: usize, side: usize) -> u64 {
    mix(cookie) >> 32 << 32 | (pair as u64 + 1) << 1 | side as u64 & 1
}

/// The end with this cookie.
pub(super) fn find(arena: &'static Arena, cookie: u64) -> Option<Place> {
    for word in bucket(arena, cookie) {
        let seen = word.load(Ordering::Acquire);
        let (number, side) = ((seen & 0xffff_ffff) >> 1, usize::from(seen & 1 == 1));
        let Some(pair) = number.checked_sub(1).and_then(|pair| usize::try_from(pair).ok()) else {
            continue;
        };
        if seen >> 32 != mix(cookie) >> 32 || pair >= PAIRS {
            continue;
        }
        let state = state(arena, pair);
        if state & LIVE != 0
            && words(arena, pair)(pair::COOKIES[side]).load(Ordering::Relaxed) == cookie
        {
            return Some(Place { pair, side, state });
        }
    }
    None
}

/// Why there is no pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPair {
    /// The kernel knows no other end, here or yet.
    Nobody,
    /// The other end is another user's.
    Foreign,
    /// No room, or no luck: perhaps later.
    Room,
}

/// The end of this socket, in a pair that is made where there is none.
pub(super) fn join(arena: &'static Arena, cookie: u64, address: &Address) -> Result<Place, NoPair> {
    if let Some(place) = find(arena, cookie) {
        return Ok(place);
    }
    let (other, there) = diag::peer(address).map_err(|_| NoPair::Nobody)?;
    if other.user != raw::user() {
        return Err(NoPair::Foreign);
    }
    if other.cookie == cookie || other.cookie == 0 {
        return Err(NoPair::Nobody);
    }
    sweep(arena, SWEPT, PASSED);
    let own_is_lesser = cookie < other.cookie;
    let ends = if own_is_lesser {
        [(cookie, *address), (other.cookie, there)]
    } else {
        [(other.cookie, there), (cookie, *address)]
    };
    for try_after_sweep in [true, false] {
        let Grip::Held(_held) = lock::take(arena.word(MAKING)) else { return Err(NoPair::Room) };
        if let Some(place) = find(arena, cookie) {
            return Ok(place);
        }
        if let Some(pair) = free_pair(arena) {
            return make(arena, pair, &ends, usize::from(!own_is_lesser)).ok_or(NoPair::Room);
        }
        drop(_held);
        if try_after_sweep && !may_sweep(arena) {
            break;
        }
        if try_after_sweep {
            sweep(arena, PAIRS, PAIRS);
        }
    }
    Err(NoPair::Room)
}

/// Whether all pairs may be looked at: that takes long, so it is done once in a second at most.
fn may_sweep(arena: &Arena) -> bool {
    let last = arena.word(SWEPT_AT);
    let (seen, now) = (last.load(Ordering::Relaxed), m3ipc_sys::monotonic_ns());
    now.wrapping_sub(seen) > SWEEP_NS
        && last.compare_exchange(seen, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

fn free_pair(arena: &Arena) -> Option<usize> {
    (0..PAIRS).find(|pair| state(arena, *pair) & LIVE == 0)
}

/// Makes a pair; under the lock.
fn make(
    arena: &'static Arena,
    pair: usize,
    ends: &[(u64, Address); 2],
    side: usize,
) -> Option<Place> {
    arena.reserve(Arena::pair_offset(pair), PAGE).ok()?;
    let word = words(arena, pair);
    for at in 0..USED_WORDS {
        word(8 * at).store(0, Ordering::Relaxed);
    }
    for (end, (cookie, address)) in ends.iter().enumerate() {
        word(pair::COOKIES[end]).store(*cookie, Ordering::Relaxed);
        for (at, part) in address.encode().into_iter().enumerate() {
            word(pair::ADDRESSES[end] + 8 * at).store(part, Ordering::Relaxed);
        }
    }
    let live = state(arena, pair).wrapping_add(2) & !LIVE | LIVE;
    // Release: pairs with `state`.
    arena.word(STATES + 8 * pair).store(live, Ordering::Release);
    for (end, (cookie, _)) in ends.iter().enumerate() {
        let free = bucket(arena, *cookie).find(|word| word.load(Ordering::Relaxed) == 0);
        let Some(free) = free else {
            drop_pair(arena, pair);
            return None;
        };
        free.store(entry(*cookie, pair, end), Ordering::Release);
    }
    Some(Place { pair, side, state: live })
}

/// Frees a pair; under the lock.
fn drop_pair(arena: &Arena, pair: usize) {
    let word = words(arena, pair);
    for end in [0, 1] {
        let cookie = word(pair::COOKIES[end]).load(Ordering::Relaxed);
        for entry_word in bucket(arena, cookie) {
            let _ = entry_word.compare_exchange(
                entry(cookie, pair, end),
                0,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
    let state = arena.word(STATES + 8 * pair);
    state.store(state.load(Ordering::Relaxed) & !LIVE, Ordering::Release);
    if pair >= KEPT {
        arena.give_back(pair);
    }
}

/// Looks at some pairs in use, and frees those of which the kernel knows neither end.
fn sweep(arena: &'static Arena, pairs: usize, states: usize) {
    let hand = arena.word(HAND);
    let mut left = pairs;
    for _ in 0..states {
        let at = usize::try_from(hand.fetch_add(1, Ordering::Relaxed) % PAIRS as u64).unwrap_or(0);
        let seen = state(arena, at);
        if seen & LIVE == 0 {
            continue;
        }
        if may_be_dead(arena, at) && is_dead(arena, at) {
            let Grip::Held(_held) = lock::take(arena.word(MAKING)) else { return };
            if state(arena, at) == seen {
                drop_pair(arena, at);
            }
        }
        left -= 1;
        if left == 0 {
            return;
        }
    }
}

/// Whether somebody closed an end, or died; or nobody ever used one.
fn may_be_dead(arena: &'static Arena, at: usize) -> bool {
    let word = words(arena, at);
    let closed = |end: usize| word(pair::CLOSED[end]).load(Ordering::Relaxed) != 0;
    let gone = |end: usize| {
        let process = word(pair::PROCESSES[end]).load(Ordering::Relaxed);
        !i32::try_from(process).is_ok_and(raw::exists)
    };
    [0, 1].into_iter().any(|end| closed(end) || gone(end))
}

fn is_dead(arena: &'static Arena, at: usize) -> bool {
    let word = words(arena, at);
    [0, 1].into_iter().all(|end| {
        let cookie = word(pair::COOKIES[end]).load(Ordering::Relaxed);
        let mut parts = [0; 6];
        for (number, part) in parts.iter_mut().enumerate() {
            *part = word(pair::ADDRESSES[end] + 8 * number).load(Ordering::Relaxed);
        }
        match diag::look_up(&Address::decode(parts)) {
            // Of TCP the kernel keeps what nobody has any more, for a minute or longer.
            Ok(found) => found.cookie != cookie || !found.is_held,
            Err(errno) => errno == libc::ENOENT,
        }
    })
}

/// A process closed its last descriptor of this end.
pub(super) fn closed(arena: &'static Arena, place: Place) {
    words(arena, place.pair)(pair::CLOSED[place.side & 1]).store(1, Ordering::Relaxed);
}
