//! The steps on an armed poller: bits that senders set, and a word that counts sleeping threads.
//!
//! | party | first | then |
//! |---|---|---|
//! | sender | publishes, sets the bit | reads the word; with no sleeper it sends no wakeup byte |
//! | receiver | counts itself as a sleeper | reads the bits; sleeps only where no bit is set |

use core::sync::atomic::Ordering;
use m3ipc_link::Word64;

/// Bits of the sleepers' count, below the generation.
pub const GENERATION_SHIFT: u32 = 32;

/// The value of the word while no thread sleeps.
#[must_use]
pub fn awake(generation: u64) -> u64 {
    generation << GENERATION_SHIFT
}

/// The sender's step, after it has published: sets the bit. `true` where the receiver polls by
/// itself, so that no wakeup byte is needed. `stamp` notes the moment, before the bit can be seen.
#[inline]
pub fn offer(
    bits: &impl Word64,
    state: &impl Word64,
    bit: u64,
    generation: u64,
    stamp: impl FnOnce(),
) -> bool {
    // A bit that is set already has not been taken yet; the taker reads the tail afterwards.
    let sets = bits.load(Ordering::SeqCst) & bit == 0;
    if sets {
        stamp();
        bits.fetch_or(bit, Ordering::SeqCst);
        bits.fence_after_update(); // pairs with `begin_sleep`
    }
    let polls = state.load(Ordering::SeqCst) == awake(generation);
    if sets && !polls {
        // The bytes get a wakeup byte, and one report is enough.
        withdraw(bits, bit);
    }
    polls
}

/// Removes a bit whose bytes get a wakeup byte.
pub fn withdraw(bits: &impl Word64, bit: u64) {
    let mut seen = bits.load(Ordering::SeqCst);
    while seen & bit != 0
        && let Err(now) = bits.compare_exchange(seen, seen & !bit)
    {
        seen = now;
    }
}

/// Takes all bits of a word. The receiver reads the rings afterwards.
pub fn take(bits: &impl Word64) -> u64 {
    if bits.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let taken = bits.swap(0, Ordering::SeqCst);
    bits.fence_after_update(); // pairs with `m3ipc_link::notification::publish_tail`
    taken
}

/// Takes some bits of a word, as far as they are still set. The receiver reads the rings
/// afterwards.
pub fn take_some(bits: &impl Word64, wanted: u64) -> u64 {
    let mut seen = bits.load(Ordering::SeqCst);
    while seen & wanted != 0
        && let Err(now) = bits.compare_exchange(seen, seen & !wanted)
    {
        seen = now;
    }
    bits.fence_after_update(); // pairs with `m3ipc_link::notification::publish_tail`
    seen & wanted
}

/// The receiver's step before it takes bits, and after it has asked the kernel: the count is odd in
/// between.
pub fn count_gather(gathers: &impl Word64) {
    let seen = gathers.load(Ordering::SeqCst);
    gathers.swap(seen.wrapping_add(1), Ordering::SeqCst);
    gathers.fence_after_update(); // pairs with `is_delivered`
}

/// Whether a wait has reported the bit, or will report it before it asks the kernel again: what the
/// sender does now cannot come first. Otherwise its bytes need a wakeup byte before that.
pub fn is_delivered(bits: &impl Word64, gathers: &impl Word64, bit: u64) -> bool {
    bits.load(Ordering::SeqCst) & bit == 0 && gathers.load(Ordering::SeqCst) & 1 == 0
}

/// The step of a thread before it sleeps in a set: counts itself, then reads the poller of the set,
/// which must count the thread, too. 0 is none.
pub fn enter_sleep(sleepers: &impl Word64, poller: &impl Word64) -> u64 {
    sleepers.fetch_add(1, Ordering::SeqCst);
    sleepers.fence_after_update(); // pairs with `open`
    poller.load(Ordering::SeqCst)
}

/// Gives a set without a poller this one. `false` where it has one, or where a thread sleeps: the
/// poller does not count threads that sleep already.
pub fn open(poller: &impl Word64, word: u64, sleepers: &impl Word64) -> bool {
    if poller.compare_exchange(0, word).is_err() {
        return false;
    }
    poller.fence_after_update(); // pairs with `enter_sleep`
    if sleepers.load(Ordering::SeqCst) > 0 {
        poller.store(0, Ordering::SeqCst);
        return false;
    }
    true
}

/// Counts one more sleeping thread. The receiver must read the bits once more afterwards.
///
/// `false` where the poller has another generation by now: all senders send wakeup bytes then.
pub fn begin_sleep(state: &impl Word64, generation: u64) -> bool {
    let counted = change(state, generation, |sleepers| Some(sleepers + 1));
    state.fence_after_update(); // pairs with `offer`
    counted
}

/// Counts one sleeping thread less.
pub fn end_sleep(state: &impl Word64, generation: u64) {
    change(state, generation, |sleepers| sleepers.checked_sub(1));
}

/// Changes the number of sleepers, while the poller has this generation.
fn change(state: &impl Word64, generation: u64, to: impl Fn(u32) -> Option<u32>) -> bool {
    let mut seen = state.load(Ordering::SeqCst);
    loop {
        let sleepers = u32::try_from(seen & 0xffff_ffff).unwrap_or(u32::MAX);
        let next = (seen >> GENERATION_SHIFT == generation && sleepers < u32::MAX)
            .then(|| to(sleepers))
            .flatten();
        let Some(next) = next else { return false };
        match state.compare_exchange(seen, awake(generation) | u64::from(next)) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
}
