//! The door under loom: a sender that publishes while the receiver looks, leaves, answers and empties the blocks, in
//! every interleaving and with every value that a weak memory may show.
//!
//! The steps are m3-sock's own, on the checker's words; the kernel's socket is a counter of bells. The model is run once
//! more with its fences left out: it must fail then, or it proves nothing.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p m3ipc-sockets --release --test loom
//! ```
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use m3ipc_link::Word64;
use m3ipc_sockets::door;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often a thread is stopped where it need not: without a bound the model takes hours.
const PREEMPTIONS: usize = 3;

/// A word whose fences can be left out.
struct Word(AtomicU64, bool);

impl Word64 for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.0.swap(value, order)
    }
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.0.fetch_or(bits, order)
    }
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::Acquire)
    }
    fn fence_after_update(&self) {
        if self.1 {
            fence(Ordering::SeqCst);
        }
    }
}

struct Shared {
    tail: Word,
    door: Word,
    /// How far the receiver has taken.
    head: Word,
    /// Bells that lie in the socket.
    bells: AtomicU64,
}

impl Shared {
    fn new(fenced: bool) -> Arc<Self> {
        let word = || Word(AtomicU64::new(0), fenced);
        Arc::new(Self { tail: word(), door: word(), head: word(), bells: AtomicU64::new(0) })
    }

    fn publish(&self, tail: u64) {
        door::announce(&self.tail, tail);
        // As `Outgoing::comes`: once is enough, the checker stops the thread in between wherever it can.
        if !door::needs_call(&self.door, tail) || self.head.load(Ordering::Acquire) >= tail {
            return;
        }
        if door::call(&self.door, tail) {
            self.bells.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn tail(&self) -> u64 {
        self.tail.load(Ordering::SeqCst)
    }
}

/// One call of the receiver that wants `want` bytes: as `Receiving` does it, without sleep.
fn receive(shared: &Shared, head: &mut u64, stale: &mut u64, want: u64) {
    let mut left = want;
    let pull = |head: &mut u64, left: &mut u64| {
        let count = (shared.tail() - *head).min(*left);
        *head += count;
        shared.head.store(*head, Ordering::Release);
        *left -= count;
        count > 0
    };
    // `Incoming::take`
    let take = |head: &mut u64, left: &mut u64| {
        let (before, until) = (*head, *head + *left);
        while *left > 0 && shared.tail() != *head {
            // Few are taken without a word to the sender.
            let watches = shared.tail() - *head >= 2 && door::watch(&shared.door, until);
            while pull(head, left) {}
            if watches {
                door::rest(&shared.door, until);
            }
        }
        *head > before
    };
    if !take(head, &mut left) {
        let until = *head + left;
        if door::watch(&shared.door, until) {
            door::rest(&shared.door, until);
        }
        if !take(head, &mut left) {
            *stale += u64::from(door::answer(&shared.door));
            take(head, &mut left);
        }
    }
    // `settle`
    if shared.tail() != *head {
        return;
    }
    *stale += u64::from(door::answer(&shared.door));
    if shared.tail() == *head {
        while *stale > 0 && shared.bells.load(Ordering::SeqCst) > 0 {
            shared.bells.fetch_sub(1, Ordering::SeqCst);
            *stale -= 1;
        }
    }
}

/// Two messages against two calls: bytes that are left have a bell, and where none are left only stale ones lie there.
fn bytes_and_bells(fenced: bool, want: u64) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let shared = Shared::new(fenced);
        let sender = Arc::clone(&shared);
        let sends = loom::thread::spawn(move || {
            sender.publish(1);
            sender.publish(3);
        });
        let (mut head, mut stale) = (0, 0);
        receive(&shared, &mut head, &mut stale, want);
        receive(&shared, &mut head, &mut stale, want);
        sends.join().unwrap();
        let bells = shared.bells.load(Ordering::SeqCst);
        assert!(head <= 3);
        assert!(head == 3 || bells > 0, "bytes {head} to 3 lie there and nobody is called");
        // One that is on its way when the receiver looks is taken out by its next call.
        receive(&shared, &mut head, &mut stale, 3);
        receive(&shared, &mut head, &mut stale, 3);
        assert_eq!((head, shared.bells.load(Ordering::SeqCst)), (3, 0), "a bell for nothing");
    });
}

#[test]
fn bytes_that_are_left_have_a_bell() {
    for want in [1, 2, 3] {
        bytes_and_bells(true, want);
    }
}

#[test]
fn without_fences_somebody_is_not_called() {
    let broken = catch_unwind(AssertUnwindSafe(|| bytes_and_bells(false, 3)));
    assert!(broken.is_err(), "the model does not need its fences: it proves nothing");
}
