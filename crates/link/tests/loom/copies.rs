//! Models of the copy_gate: a party that lies still, and a requester that copies.
//!
//! The party's memory is one relaxed word: what the requester writes there
//! must lie between what the party wrote before it lay down and what it writes
//! after it got up, in the eyes of both.

use crate::memory::{Bed, Memory};
use crate::weak::{Twist, note_end, twisted};
use loom::thread;
use m3ipc_link::copy_gate::{self, Leave};
use m3ipc_link::{Page, Word32, Word64};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const BERTH: usize = 0;
const DATA: usize = 8;
/// What the party writes before and after, and what the requester writes.
const BEFORE: u64 = 1;
const COPIED: u64 = 2;
const AFTER: u64 = 3;

fn page(bed: &Arc<Bed>) -> Memory {
    Memory::new(64, &[DATA], &[], &[(BERTH, bed)])
}

/// The party gets up, as `Endpoint::unpark`.
fn get_up(page: &Memory, bed: &Bed) {
    let word = page.word32(BERTH);
    if twisted(Twist::GetUpBlindly) {
        return copy_gate::revoke(word);
    }
    while copy_gate::leave(word) == Leave::Wait {
        bed.sleep(&[(word, copy_gate::AWAITED)]);
    }
}

/// Copies once, as `Endpoint::copy_directly`; `true` where it could.
fn copy(page: &Memory) -> bool {
    let word = page.word32(BERTH);
    if !twisted(Twist::CopyUnasked) && copy_gate::begin_copy(word).is_err() {
        return false;
    }
    let found = page.word64(DATA).load(Ordering::Relaxed);
    assert!(
        found == BEFORE || found == COPIED,
        "the party had not lain down yet, or was up: {found}"
    );
    page.word64(DATA).store(COPIED, Ordering::Relaxed);
    if copy_gate::end_copy(word) && !twisted(Twist::EndInSilence) {
        page.wake(word);
    }
    true
}

/// Copies are before the party gets up or not at all, and it always gets up.
pub fn lie_still() {
    copies(1);
}

/// The same where the requester copies again at once: the party is not held for ever.
pub fn lie_still_for_two() {
    copies(2);
}

fn copies(times: u32) {
    let bed = Arc::new(Bed::default());
    let page = page(&bed);
    let requester = page.clone();
    let copying = thread::spawn(move || (0..times).map(|_| copy(&requester)).collect::<Vec<_>>());
    page.word64(DATA).store(BEFORE, Ordering::Relaxed);
    copy_gate::park(page.word32(BERTH));
    get_up(&page, &bed);
    let found = page.word64(DATA).load(Ordering::Relaxed);
    page.word64(DATA).store(AFTER, Ordering::Relaxed);
    let copied = copying.join().expect("the requester ends");
    assert_eq!(
        found == COPIED,
        copied.contains(&true),
        "a copy that ended is seen, one that began is over"
    );
    assert_eq!(
        page.word64(DATA).load(Ordering::Relaxed),
        AFTER,
        "nothing is written after it got up"
    );
    note_end(copied);
}
