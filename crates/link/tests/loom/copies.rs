//! Models of the copy gate: a party that parks, and a requester that copies.
//!
//! The party's memory is one relaxed word. The requester's write must lie between the write of the
//! party before it parks and its write after it has left, in the view of both.

use crate::model_memory::{FutexQueue, Memory};
use crate::weakness::{Twist, note_end, twisted};
use loom::thread;
use m3ipc_link::copy_gate;
use m3ipc_link::{Page, Word64};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const GATE: usize = 0;
const DATA: usize = 8;
/// The writes of the party before and after, and of the requester.
const BEFORE: u64 = 1;
const COPIED: u64 = 2;
const AFTER: u64 = 3;

fn page(queue: &Arc<FutexQueue>) -> Memory {
    Memory::new(64, &[DATA], &[], &[(GATE, queue)])
}

/// The party leaves its gate.
fn unpark(page: &Memory, queue: &FutexQueue) {
    let word = page.word32(GATE);
    if twisted(Twist::UnparkBlindly) {
        return copy_gate::revoke(word);
    }
    let wait = |page: &mut &Memory| {
        queue.sleep(&[(page.word32(GATE), copy_gate::AWAITED)]);
        true
    };
    if copy_gate::close_all(std::iter::once(word)) {
        copy_gate::unpark(&mut &*page, |page| Some(page.word32(GATE)), wait);
    }
}

/// Copies once, if the gate admits it.
fn copy(page: &Memory) -> bool {
    let word = page.word32(GATE);
    if !twisted(Twist::CopyWithoutGate) && copy_gate::begin_copy(word).is_err() {
        return false;
    }
    let found = page.word64(DATA).load(Ordering::Relaxed);
    assert!(
        found == BEFORE || found == COPIED,
        "the party had not parked yet, or had left: {found}"
    );
    page.word64(DATA).store(COPIED, Ordering::Relaxed);
    if copy_gate::end_copy(word) && !twisted(Twist::EndWithoutWakeUp) {
        page.wake(word);
    }
    true
}

/// A copy ends before the party leaves, or does not begin. The party always leaves.
pub fn park() {
    copies(1);
}

/// The same with two copies in a row: the requester cannot hold the party for ever.
pub fn park_for_two() {
    copies(2);
}

fn copies(times: u32) {
    let queue = Arc::new(FutexQueue::default());
    let page = page(&queue);
    let requester = page.clone();
    let copying = thread::spawn(move || (0..times).map(|_| copy(&requester)).collect::<Vec<_>>());
    page.word64(DATA).store(BEFORE, Ordering::Relaxed);
    copy_gate::park(page.word32(GATE));
    unpark(&page, &queue);
    let found = page.word64(DATA).load(Ordering::Relaxed);
    page.word64(DATA).store(AFTER, Ordering::Relaxed);
    let copied = copying.join().expect("the requester ends");
    assert_eq!(
        found == COPIED,
        copied.contains(&true),
        "the party sees each finished copy, and no copy is open"
    );
    assert_eq!(
        page.word64(DATA).load(Ordering::Relaxed),
        AFTER,
        "the requester writes nothing after the party has left"
    );
    note_end(copied);
}
