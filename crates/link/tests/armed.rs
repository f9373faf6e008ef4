//! Armed connections under loom: a sender publishes while a poller takes bits, falls asleep and
//! wakes, and while the receiver arms and disarms the connection, in every interleaving and with
//! every value of a weak memory.
//!
//! The steps on the words are the product's. The kernel's socket is a counter of notifications. The
//! models also run without fences and must fail then: otherwise they prove nothing.
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use m3ipc_link::Word64;
use m3ipc_link::armed::{self, Bitmap, DIRECT_ROWS};
use m3ipc_link::notification::{NotificationSuppression, SuppressionState, publish_tail};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Preemptions of one execution at most: without a bound a model takes hours.
const PREEMPTIONS: usize = 3;
/// The bit of the connection.
const BIT: usize = 5;

/// A word of the checker, or one that nobody changes. `fenced` says whether its fences count.
struct Word {
    value: Option<AtomicU64>,
    fenced: bool,
}

impl Word {
    fn value(&self) -> &AtomicU64 {
        self.value.as_ref().expect("only words of the model change")
    }
}

impl Word64 for Word {
    fn load(&self, order: Ordering) -> u64 {
        // Without fences the order of the checker must be as weak as a program without them.
        let order = if self.fenced { order } else { Ordering::Relaxed };
        self.value.as_ref().map_or(0, |value| value.load(order))
    }
    fn store(&self, value: u64, order: Ordering) {
        self.value().store(value, order);
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.value().swap(value, order)
    }
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.value().fetch_or(bits, order)
    }
    fn fetch_add(&self, number: u64, order: Ordering) -> u64 {
        self.value().fetch_add(number, order)
    }
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.value().compare_exchange(old, new, Ordering::SeqCst, Ordering::Acquire)
    }
    fn fence_after_update(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }
}

struct Shared {
    row_number: usize,
    tail: Word,
    suppression: Word,
    state: Word,
    /// The word of the first line that leads to the connection: a direct row, or a summary word.
    line: Word,
    row: Word,
    rest: Word,
    /// Notifications that lie in the socket.
    notifications: AtomicU64,
}

impl Shared {
    fn new(fenced: bool, row_number: usize) -> Arc<Self> {
        let word = || Word { value: Some(AtomicU64::new(0)), fenced };
        Arc::new(Self {
            row_number,
            tail: word(),
            suppression: word(),
            state: word(),
            line: word(),
            row: word(),
            rest: Word { value: None, fenced },
            notifications: AtomicU64::new(0),
        })
    }

    fn suppression(&self) -> NotificationSuppression<'_, Word> {
        NotificationSuppression::new(&self.suppression)
    }

    /// The sender of a com-socket.
    fn publish(&self, tail: u64) {
        publish_tail(&self.tail, tail);
        let asks = match self.suppression().state() {
            SuppressionState::Sent => false,
            SuppressionState::Armed(_place) => armed::announce(self, self.row_number, BIT),
            SuppressionState::Needed => true,
        };
        if asks && self.suppression().request(tail) {
            self.notifications.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn tail(&self) -> u64 {
        self.tail.load(Ordering::SeqCst)
    }

    /// Whether the kernel wakes a sleeper.
    fn is_notified(&self) -> bool {
        self.notifications.load(Ordering::SeqCst) > 0
    }

    /// The poller takes the bits; whether that of the connection was set.
    fn take(&self) -> bool {
        let mut found = false;
        armed::take_marks(self, |row, bit| found |= (row, bit) == (self.row_number, BIT));
        found
    }
}

impl Bitmap for Shared {
    type Word = Word;
    fn state(&self) -> &Word {
        &self.state
    }
    fn first_line(&self, word: usize) -> &Word {
        let own = if self.row_number < DIRECT_ROWS {
            self.row_number
        } else {
            DIRECT_ROWS + self.row_number / 64
        };
        if word == own { &self.line } else { &self.rest }
    }
    fn row(&self, row: usize) -> &Word {
        if row == self.row_number { &self.row } else { &self.rest }
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

/// A sender of two messages beside a loop that polls, takes and goes to sleep: it sleeps over no
/// bytes.
fn event_loop(fenced: bool, row: usize) {
    check(move || {
        let shared = Shared::new(fenced, row);
        shared.suppression().arm(1);
        armed::wake(&*shared);
        let sender = Arc::clone(&shared);
        let sends = loom::thread::spawn(move || {
            sender.publish(1);
            sender.publish(2);
        });
        let mut head = 0;
        // A poll, and the last look before the sleep.
        if shared.take() {
            head = shared.tail();
        }
        armed::fall_asleep(&*shared);
        if shared.take() {
            head = shared.tail();
        }
        sends.join().unwrap();
        let (tail, notified) = (shared.tail(), shared.is_notified());
        assert!(head == tail || notified, "the loop sleeps over bytes {head} to {tail}");
    });
}

/// A sender beside a receiver that arms the connection in a loop that is awake, and disarms it.
fn arm_and_disarm(fenced: bool) {
    check(move || {
        let shared = Shared::new(fenced, 0);
        armed::wake(&*shared);
        let sender = Arc::clone(&shared);
        let sends = loom::thread::spawn(move || sender.publish(1));
        shared.suppression().arm(1);
        let mut seen = shared.tail();
        shared.suppression().disarm();
        seen = seen.max(shared.tail());
        sends.join().unwrap();
        assert!(seen == 1 || shared.is_notified(), "nobody knows of the byte");
    });
}

/// A sender beside a receiver that arms the connection: the byte has a notification or a bit, or
/// the receiver sees it.
fn arm(fenced: bool) {
    check(move || {
        let shared = Shared::new(fenced, 0);
        armed::wake(&*shared);
        let sender = Arc::clone(&shared);
        let sends = loom::thread::spawn(move || sender.publish(1));
        shared.suppression().arm(1);
        let seen = shared.tail();
        sends.join().unwrap();
        assert!(seen == 1 || shared.is_notified() || shared.take(), "nobody knows of the byte");
    });
}

#[test]
fn a_loop_sleeps_over_no_bytes_of_a_direct_row() {
    event_loop(true, 1);
}

#[test]
fn a_loop_sleeps_over_no_bytes_of_a_row_that_a_bit_sums_up() {
    event_loop(true, 70);
}

#[test]
fn bytes_around_an_arming_are_known() {
    arm(true);
    arm_and_disarm(true);
}

#[test]
fn without_fences_a_loop_sleeps_over_bytes() {
    let broken = catch_unwind(AssertUnwindSafe(|| event_loop(false, 1)));
    assert!(broken.is_err(), "the model holds without its fences: it proves nothing");
    let broken = catch_unwind(AssertUnwindSafe(|| arm_and_disarm(false)));
    assert!(broken.is_err(), "the model holds without its fences: it proves nothing");
}
