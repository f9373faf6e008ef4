//! Pairs: the memory of each connection, found by the cookie of either end.
//!
//! The end that uses a connection first asks the kernel for its peer and makes the pair. The other
//! end finds the pair by its own cookie. So does any process that gets an end later, by fork, by
//! exec or in a message. One lock guards making and freeing. A look-up needs no lock: an entry of
//! the index is one word, and the pair holds the cookie for comparison.
//!
//! A pair is freed when the kernel knows neither end any more. The maker of a pair checks two pairs
//! of which a process closed an end or died.

use super::address::SocketAddress;
use super::sock_diag;
use crate::kernel::memory::PAGE_BYTES;
use crate::kernel::process;
use crate::memory::layout::{
    BUCKET_WORDS, BUCKETS, INDEX, MAKING_LOCK, PAIR_WORDS, PAIRS_MAX, STATES, SWEEP_POSITION,
    SWEPT_AT_NS, pair, pair_offset,
};
use crate::memory::lock::{self, LockResult};
use crate::memory::ring_file::RingFile;
use core::sync::atomic::{AtomicU64, Ordering};

/// The bit of a state that says that the pair is in use. The other bits count its uses.
pub const LIVE: u64 = 1;
/// Pairs in use that the maker of a pair checks.
const SWEPT_PAIRS: usize = 2;
/// States that the maker of a pair passes over at most.
const SWEPT_STATES: usize = 128;
/// Nanoseconds between two full sweeps.
const FULL_SWEEP_NS: u64 = 1_000_000_000;
/// Pairs whose memory is kept for the next use.
const KEPT_PAIRS: usize = 32;

/// An end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairEnd {
    /// The number of the pair.
    pub pair: usize,
    /// 0 for the end with the lesser cookie, else 1.
    pub side: usize,
    /// The state of the pair when this end was found.
    pub state: u64,
}

/// The state of a pair.
#[inline]
pub fn state(file: &'static RingFile, pair: usize) -> u64 {
    file.word(STATES + 8 * pair.min(PAIRS_MAX - 1)).load(Ordering::Acquire)
}

fn words(file: &'static RingFile, of: usize) -> impl Fn(usize) -> &'static AtomicU64 {
    let base = pair_offset(of);
    move |offset| file.word(base + offset)
}

fn mix(cookie: u64) -> u64 {
    (cookie ^ cookie >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn bucket(file: &'static RingFile, cookie: u64) -> impl Iterator<Item = &'static AtomicU64> {
    let number = usize::try_from(mix(cookie) >> 20).unwrap_or(0) % BUCKETS;
    (0..BUCKET_WORDS).map(move |at| file.word(INDEX + 8 * (number * BUCKET_WORDS + at)))
}

/// An entry of the index: 32 bits of the mixed cookie, the pair plus one, the side.
fn entry(cookie: u64, pair: usize, side: usize) -> u64 {
    mix(cookie) >> 32 << 32 | (pair as u64 + 1) << 1 | side as u64 & 1
}

/// The end with this cookie.
#[must_use]
pub fn find(file: &'static RingFile, cookie: u64) -> Option<PairEnd> {
    for word in bucket(file, cookie) {
        let seen = word.load(Ordering::Acquire);
        let (number, side) = ((seen & 0xffff_ffff) >> 1, usize::from(seen & 1 == 1));
        let Some(pair) = number.checked_sub(1).and_then(|pair| usize::try_from(pair).ok()) else {
            continue;
        };
        if seen >> 32 != mix(cookie) >> 32 || pair >= PAIRS_MAX {
            continue;
        }
        let state = state(file, pair);
        if state & LIVE != 0
            && words(file, pair)(pair::COOKIES[side]).load(Ordering::Relaxed) == cookie
        {
            return Some(PairEnd { pair, side, state });
        }
    }
    None
}

/// The cause of a failed [`join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPair {
    /// The kernel knows no peer, on this machine or yet.
    NoPeer,
    /// The peer is another user's.
    OtherUser,
    /// No room at present.
    NoRoom,
}

/// Finds the pair of a socket, or makes it; the end of the socket in it.
///
/// # Errors
/// [`NoPair`].
pub fn join(
    file: &'static RingFile,
    cookie: u64,
    address: &SocketAddress,
) -> Result<PairEnd, NoPair> {
    if let Some(end) = find(file, cookie) {
        return Ok(end);
    }
    let (peer, there) = sock_diag::peer(address).map_err(|_| NoPair::NoPeer)?;
    if peer.user != process::user() {
        return Err(NoPair::OtherUser);
    }
    if peer.cookie == cookie || peer.cookie == 0 {
        return Err(NoPair::NoPeer);
    }
    sweep(file, SWEPT_PAIRS, SWEPT_STATES);
    let own_is_lesser = cookie < peer.cookie;
    let ends = if own_is_lesser {
        [(cookie, *address), (peer.cookie, there)]
    } else {
        [(peer.cookie, there), (cookie, *address)]
    };
    for is_first_attempt in [true, false] {
        let LockResult::Held(held) = lock::take(file.word(MAKING_LOCK)) else {
            return Err(NoPair::NoRoom);
        };
        if let Some(end) = find(file, cookie) {
            return Ok(end);
        }
        if let Some(pair) = free_pair(file) {
            return make(file, pair, &ends, usize::from(!own_is_lesser)).ok_or(NoPair::NoRoom);
        }
        drop(held);
        if is_first_attempt {
            if !may_sweep_all(file) {
                break;
            }
            sweep(file, PAIRS_MAX, PAIRS_MAX);
        }
    }
    Err(NoPair::NoRoom)
}

/// Whether a full sweep may start: it takes long, so it runs once in a second at most.
fn may_sweep_all(file: &'static RingFile) -> bool {
    let last = file.word(SWEPT_AT_NS);
    let (seen, now_ns) = (last.load(Ordering::Relaxed), m3ipc_sys::monotonic_ns());
    now_ns.wrapping_sub(seen) > FULL_SWEEP_NS
        && last.compare_exchange(seen, now_ns, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

fn free_pair(file: &'static RingFile) -> Option<usize> {
    (0..PAIRS_MAX).find(|pair| state(file, *pair) & LIVE == 0)
}

/// Makes a pair, under the lock.
fn make(
    file: &'static RingFile,
    pair: usize,
    ends: &[(u64, SocketAddress); 2],
    side: usize,
) -> Option<PairEnd> {
    file.reserve(pair_offset(pair), PAGE_BYTES).ok()?;
    let word = words(file, pair);
    for at in 0..PAIR_WORDS {
        word(8 * at).store(0, Ordering::Relaxed);
    }
    for (end, (cookie, address)) in ends.iter().enumerate() {
        word(pair::COOKIES[end]).store(*cookie, Ordering::Relaxed);
        for (at, part) in address.encode().into_iter().enumerate() {
            word(pair::ADDRESSES[end] + 8 * at).store(part, Ordering::Relaxed);
        }
    }
    let live = state(file, pair).wrapping_add(2) & !LIVE | LIVE;
    // Release: pairs with `state`.
    file.word(STATES + 8 * pair).store(live, Ordering::Release);
    for (end, (cookie, _)) in ends.iter().enumerate() {
        let free = bucket(file, *cookie).find(|word| word.load(Ordering::Relaxed) == 0);
        let Some(free) = free else {
            release(file, pair);
            return None;
        };
        free.store(entry(*cookie, pair, end), Ordering::Release);
    }
    Some(PairEnd { pair, side, state: live })
}

/// Frees a pair, under the lock.
fn release(file: &'static RingFile, pair: usize) {
    let word = words(file, pair);
    for end in [0, 1] {
        let cookie = word(pair::COOKIES[end]).load(Ordering::Relaxed);
        let own = entry(cookie, pair, end);
        for word in bucket(file, cookie) {
            let _ = word.compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
    let state = file.word(STATES + 8 * pair);
    state.store(state.load(Ordering::Relaxed) & !LIVE, Ordering::Release);
    if pair >= KEPT_PAIRS {
        file.give_back(pair);
    }
}

/// Checks some pairs in use, and frees those of which the kernel knows neither end.
fn sweep(file: &'static RingFile, pairs: usize, states: usize) {
    let position = file.word(SWEEP_POSITION);
    let mut left = pairs;
    for _ in 0..states {
        let next = position.fetch_add(1, Ordering::Relaxed) % PAIRS_MAX as u64;
        let pair = usize::try_from(next).unwrap_or(0);
        let seen = state(file, pair);
        if seen & LIVE == 0 {
            continue;
        }
        if may_be_dead(file, pair) && is_dead(file, pair) {
            let LockResult::Held(_held) = lock::take(file.word(MAKING_LOCK)) else { return };
            if state(file, pair) == seen {
                release(file, pair);
            }
        }
        left -= 1;
        if left == 0 {
            return;
        }
    }
}

/// Whether a process closed an end, or died, or no process ever used an end.
fn may_be_dead(file: &'static RingFile, pair: usize) -> bool {
    let word = words(file, pair);
    let is_closed = |end: usize| word(pair::CLOSED[end]).load(Ordering::Relaxed) != 0;
    let is_gone = |end: usize| {
        let pid = word(pair::PROCESSES[end]).load(Ordering::Relaxed);
        !i32::try_from(pid).is_ok_and(process::exists)
    };
    [0, 1].into_iter().any(|end| is_closed(end) || is_gone(end))
}

fn is_dead(file: &'static RingFile, pair: usize) -> bool {
    let word = words(file, pair);
    [0, 1].into_iter().all(|end| {
        let cookie = word(pair::COOKIES[end]).load(Ordering::Relaxed);
        let address =
            core::array::from_fn(|at| word(pair::ADDRESSES[end] + 8 * at).load(Ordering::Relaxed));
        match sock_diag::look_up(&SocketAddress::decode(address)) {
            // The kernel keeps a TCP socket without a process for a minute or longer.
            Ok(info) => info.cookie != cookie || !info.is_held,
            Err(errno) => errno == libc::ENOENT,
        }
    })
}

/// Notes that a process closed its last descriptor of this end.
pub fn note_close(file: &'static RingFile, end: PairEnd) {
    words(file, end.pair)(pair::CLOSED[end.side & 1]).store(1, Ordering::Relaxed);
}

/// Notes that a process of this end found the pair.
pub fn note_joined(file: &'static RingFile, end: PairEnd) {
    words(file, end.pair)(pair::JOINED[end.side & 1]).store(1, Ordering::Release);
}

/// Whether a process of the other end found the pair.
#[must_use]
pub fn peer_joined(file: &'static RingFile, end: PairEnd) -> bool {
    words(file, end.pair)(pair::JOINED[1 - (end.side & 1)]).load(Ordering::Acquire) != 0
}

/// Notes that the current process receives at this end.
pub fn note_process(file: &'static RingFile, end: PairEnd) {
    let own = u64::from(process::id().unsigned_abs());
    words(file, end.pair)(pair::PROCESSES[end.side & 1]).store(own, Ordering::Relaxed);
}

/// Whether another process receives at the other end.
#[must_use]
pub fn peer_is_other_process(file: &'static RingFile, end: PairEnd) -> bool {
    let peer = words(file, end.pair)(pair::PROCESSES[1 - (end.side & 1)]).load(Ordering::Relaxed);
    peer != u64::from(process::id().unsigned_abs())
}
