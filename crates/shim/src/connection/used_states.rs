//! A bit for each socket state in use. The lowest free state is taken, so that few states stay in
//! the caches of the CPU.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Sockets of a process at most.
pub(super) const SOCKETS_MAX: usize = 16_384;
const WORDS: usize = SOCKETS_MAX / 64;

static USED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// No word below this one has a free state, except after a race: then the search comes round to it.
static FREE_FROM: AtomicUsize = AtomicUsize::new(0);

/// Takes the lowest free state that `claim` takes too; `None` where all are taken.
pub(super) fn take(claim: impl Fn(usize) -> bool) -> Option<usize> {
    let from = FREE_FROM.load(Ordering::Relaxed) % WORDS;
    (from..WORDS).chain(0..from).find_map(|word| take_in(word, &claim))
}

fn take_in(word: usize, claim: &impl Fn(usize) -> bool) -> Option<usize> {
    loop {
        let used = USED[word].load(Ordering::Relaxed);
        let bit = (!used).trailing_zeros();
        if bit == u64::BITS {
            return None;
        }
        let before = USED[word].fetch_or(1 << bit, Ordering::AcqRel);
        if before & 1 << bit != 0 {
            continue;
        }
        let at = word * 64 + bit as usize;
        if claim(at) {
            if FREE_FROM.load(Ordering::Relaxed) != word {
                FREE_FROM.store(word, Ordering::Relaxed);
            }
            return Some(at);
        }
    }
}

/// Gives a state back.
pub(super) fn give(at: usize) {
    USED[at / 64 % WORDS].fetch_and(!(1 << (at % 64)), Ordering::AcqRel);
    FREE_FROM.fetch_min(at / 64, Ordering::Relaxed);
}
