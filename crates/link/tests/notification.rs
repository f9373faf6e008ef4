//! Notification suppression under loom: a sender publishes while the receiver polls, stops polling,
//! rearms and takes all bytes, in every interleaving and with every value of a weak memory.
//!
//! The steps on the word are the product's. The kernel's socket is a counter of notifications. Each
//! model also runs without fences and must fail then: otherwise it proves nothing.
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use m3ipc_link::Word64;
use m3ipc_link::notification::{
    NotificationSuppression, PollingWord, SuppressionState, publish_tail,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Preemptions of one execution at most: without a bound a model takes hours.
const PREEMPTIONS: usize = 3;

/// A word of the checker; `fenced` says whether its fences count.
struct Word {
    value: AtomicU64,
    fenced: bool,
}

impl Word64 for Word {
    fn load(&self, order: Ordering) -> u64 {
        self.value.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.value.store(value, order);
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.value.swap(value, order)
    }
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.value.fetch_or(bits, order)
    }
    fn fetch_add(&self, number: u64, order: Ordering) -> u64 {
        self.value.fetch_add(number, order)
    }
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.value.compare_exchange(old, new, Ordering::SeqCst, Ordering::Acquire)
    }
    fn fence_after_update(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }
}

struct Connection {
    tail: Word,
    suppression: Word,
    /// The position up to which the receiver polls.
    polling: Word,
    /// Bytes that the receiver has taken.
    head: Word,
    /// Notifications that lie in the socket.
    notifications: AtomicU64,
}

impl Connection {
    fn new(fenced: bool) -> Arc<Self> {
        let word = || Word { value: AtomicU64::new(0), fenced };
        Arc::new(Self {
            tail: word(),
            suppression: word(),
            polling: word(),
            head: word(),
            notifications: AtomicU64::new(0),
        })
    }

    fn suppression(&self) -> NotificationSuppression<'_, Word> {
        NotificationSuppression::new(&self.suppression)
    }

    fn polling(&self) -> PollingWord<'_, Word> {
        PollingWord::new(&self.polling)
    }

    /// A com-socket's publish: it spares the request where the receiver took the bytes meanwhile.
    fn publish(&self, tail: u64) {
        publish_tail(&self.tail, tail);
        // The product waits a little here. One check is enough for the checker, which stops the
        // thread between two steps wherever it can.
        let is_needed = self.suppression().state() == SuppressionState::Needed;
        if !is_needed || self.polling().covers(tail) || self.head.load(Ordering::Acquire) >= tail {
            return;
        }
        if self.suppression().request(tail) {
            self.notifications.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn tail(&self) -> u64 {
        self.tail.load(Ordering::SeqCst)
    }
}

/// What the receiver of a com-socket keeps between calls.
#[derive(Default)]
struct Receiver {
    head: u64,
    /// Notifications in the socket that the word no longer stands for.
    stale: u64,
}

impl Receiver {
    /// Takes all bytes that are there, at most `left`; polls while two or more are there.
    fn take(&mut self, shared: &Connection, left: &mut u64) -> bool {
        let (before, until) = (self.head, self.head + *left);
        while *left > 0 && shared.tail() != self.head {
            let polls = shared.tail() - self.head >= 2;
            if polls {
                shared.polling().begin(until);
            }
            loop {
                let count = self.pull(shared, left);
                if count == 0 {
                    break;
                }
            }
            if polls && self.head != until {
                shared.polling().end();
            }
        }
        self.head > before
    }

    /// Takes the bytes that are there, once.
    fn pull(&mut self, shared: &Connection, left: &mut u64) -> u64 {
        let count = (shared.tail() - self.head).min(*left);
        self.head += count;
        shared.head.store(self.head, Ordering::Release);
        *left -= count;
        count
    }

    /// One call that wants `want` bytes and does not sleep. It first polls once, as a call of the
    /// fast path does.
    fn receive(&mut self, shared: &Connection, want: u64) {
        let mut left = want;
        let until = self.head + left;
        if !shared.suppression().is_sent() {
            shared.polling().begin(until);
            self.pull(shared, &mut left);
            if self.head != until {
                shared.polling().end();
                self.pull(shared, &mut left);
            }
        }
        if left == want && !self.take(shared, &mut left) {
            self.stale += u64::from(shared.suppression().rearm());
            self.take(shared, &mut left);
        }
        if shared.tail() != self.head || !shared.suppression().is_sent() && self.stale == 0 {
            return;
        }
        self.stale += u64::from(shared.suppression().rearm());
        if shared.tail() == self.head {
            while self.stale > 0 && shared.notifications.load(Ordering::SeqCst) > 0 {
                shared.notifications.fetch_sub(1, Ordering::SeqCst);
                self.stale -= 1;
            }
        }
    }
}

/// Two messages and two calls: bytes that are left have a notification, and none lies there for
/// nothing.
fn two_messages(fenced: bool, want: u64) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let shared = Connection::new(fenced);
        let sender = Arc::clone(&shared);
        let sends = loom::thread::spawn(move || {
            sender.publish(1);
            sender.publish(3);
        });
        let mut receiver = Receiver::default();
        receiver.receive(&shared, want);
        receiver.receive(&shared, want);
        sends.join().unwrap();
        let head = receiver.head;
        let notifications = shared.notifications.load(Ordering::SeqCst);
        assert!(head <= 3);
        assert!(head == 3 || notifications > 0, "bytes {head} to 3 have no notification");
        // The next call takes out a notification that was on its way before.
        receiver.receive(&shared, 3);
        receiver.receive(&shared, 3);
        let left = shared.notifications.load(Ordering::SeqCst);
        assert_eq!((receiver.head, left), (3, 0), "a notification lies there for nothing");
    });
}

#[test]
fn bytes_that_a_call_of_one_byte_leaves_have_a_notification() {
    two_messages(true, 1);
}

#[test]
fn bytes_that_a_call_of_two_bytes_leaves_have_a_notification() {
    two_messages(true, 2);
}

#[test]
fn bytes_that_a_call_of_three_bytes_leaves_have_a_notification() {
    two_messages(true, 3);
}

#[test]
fn without_fences_a_notification_is_lost() {
    let broken = catch_unwind(AssertUnwindSafe(|| two_messages(false, 3)));
    assert!(broken.is_err(), "the model holds without its fences: it proves nothing");
}
