//! Tokens, overflow and the door under loom: a sender that publishes and turns to the kernel while a receiver takes, settles and leaves, in
//! every interleaving and with every value that a weak memory may show.
//!
//! The door is `m3ipc_sockets::door` itself, on the checker's words; the rest are the engine's steps, named as there. The kernel's socket is a
//! queue of what was sent, tokens and bytes. Run once more without fences, the model must fail, or it proves nothing.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p m3ipc-shim --release --test loom
//! ```
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};
use m3ipc_link::Word64;
use m3ipc_shim::engine::{get_up, lie_down, take, tell};
use m3ipc_sockets::door;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often a thread is stopped where it need not: without a bound the model takes hours.
const PREEMPTIONS: usize = 3;
/// A token in the kernel's queue.
const TOKEN: u64 = 0;

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

struct Way {
    tail: Word,
    door: Word,
    tokens: AtomicU64,
    turn: AtomicU64,
    publishing: AtomicU64,
    kernel: Mutex<VecDeque<u64>>,
}

impl Way {
    fn new(fenced: bool) -> Arc<Self> {
        let word = || Word(AtomicU64::new(0), fenced);
        Arc::new(Self {
            tail: word(),
            door: word(),
            tokens: AtomicU64::new(0),
            turn: AtomicU64::new(1),
            publishing: AtomicU64::new(0),
            kernel: Mutex::new(VecDeque::new()),
        })
    }

    /// `send::publish`, under the sender's lock.
    fn publish(&self, tail: u64) {
        let step = self.publishing.load(Ordering::Acquire);
        self.publishing.store(step + 1, Ordering::Release);
        let rings = door::publish(&self.tail, &self.door, tail);
        if rings {
            self.tokens.fetch_add(1, Ordering::AcqRel);
        }
        self.publishing.store(step + 2, Ordering::Release);
        if rings {
            self.kernel.lock().unwrap().push_back(TOKEN);
        }
    }

    /// `send::to_kernel`, and a byte that goes there.
    fn overflow(&self, byte: u64) {
        self.turn.store(2, Ordering::SeqCst);
        self.kernel.lock().unwrap().push_back(byte);
    }

    fn tail(&self) -> u64 {
        self.tail.load(Ordering::SeqCst)
    }
}

#[derive(Default)]
struct Receiver {
    head: u64,
    taken: u64,
    got: Vec<u64>,
}

impl Receiver {
    /// `receive::settle`; whether the ring is empty and its tokens are gone.
    fn settle(&mut self, way: &Way) -> bool {
        let step = way.publishing.load(Ordering::Acquire);
        while step & 1 == 1 && way.publishing.load(Ordering::Acquire) == step {
            loom::thread::yield_now();
        }
        door::answer(&way.door);
        let sent = way.tokens.load(Ordering::SeqCst);
        if way.tail() != self.head {
            return false;
        }
        while self.taken < sent {
            let next = way.kernel.lock().unwrap().pop_front();
            match next {
                Some(next) => {
                    assert_eq!(next, TOKEN, "a byte of the program is taken for a token");
                    self.taken += 1;
                }
                None => loom::thread::yield_now(),
            }
        }
        true
    }

    /// `receive::pull` of at most `want` bytes, without sleep.
    fn call(&mut self, way: &Way, want: u64) {
        let mut left = want;
        let until = self.head + left;
        let mut watched = false;
        loop {
            let turn = way.turn.load(Ordering::SeqCst);
            let count = (way.tail() - self.head).min(left);
            for _ in 0..count {
                self.head += 1;
                self.got.push(self.head);
            }
            left -= count;
            if way.tail() != self.head && left == 0 {
                return;
            }
            if !self.settle(way) {
                continue;
            }
            if left == 0 {
                return;
            }
            if turn == 1 {
                if left < want || watched {
                    return;
                }
                watched = true;
                if door::watch(&way.door, until) {
                    door::rest(&way.door, until);
                }
                continue;
            }
            let next = way.kernel.lock().unwrap().pop_front();
            if let Some(byte) = next {
                assert_ne!(byte, TOKEN, "a token is given to the program");
                self.got.push(byte);
            }
            return;
        }
    }
}

fn model(fenced: bool, want: u64, overflows: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let way = Way::new(fenced);
        let sender = Arc::clone(&way);
        let sends = loom::thread::spawn(move || {
            sender.publish(1);
            if overflows {
                sender.overflow(2);
            } else {
                sender.publish(3);
            }
        });
        let mut receiver = Receiver::default();
        receiver.call(&way, want);
        receiver.call(&way, want);
        sends.join().unwrap();
        let (waiting, tail) = (way.kernel.lock().unwrap().len(), way.tail());
        assert!(receiver.head == tail || waiting > 0, "bytes lie there and nobody is called");
        if !overflows {
            assert!(receiver.head < tail || waiting == 0, "it is readable, and nothing is there");
        }
        receiver.call(&way, 3);
        receiver.call(&way, 3);
        let all: Vec<u64> = if overflows { vec![1, 2] } else { vec![1, 2, 3] };
        assert_eq!(receiver.got, all);
        assert!(way.kernel.lock().unwrap().is_empty());
    });
}

#[test]
fn the_descriptor_is_readable_exactly_while_bytes_are_left() {
    for want in [1, 2, 3] {
        model(true, want, false);
    }
}

#[test]
fn bytes_and_tokens_are_never_taken_for_each_other() {
    for want in [1, 3] {
        model(true, want, true);
    }
}

#[test]
fn without_fences_somebody_is_not_called() {
    let broken = catch_unwind(AssertUnwindSafe(|| model(false, 3, false)));
    assert!(broken.is_err(), "the model does not need its fences: it proves nothing");
}

/// A way whose receiver is an event loop: the way, its cover, and the lookout's words.
struct Covered {
    way: Arc<Way>,
    cover: AtomicU64,
    bits: Word,
    state: Word,
}

const BIT: u64 = 1;
/// The lookout's own.
const GENERATION: u64 = 5;
const AWAKE: u64 = GENERATION << 32;

impl Covered {
    fn new(fenced: bool) -> Arc<Self> {
        Arc::new(Self {
            way: Way::new(fenced),
            cover: AtomicU64::new(1),
            bits: Word(AtomicU64::new(0), fenced),
            state: Word(AtomicU64::new(AWAKE), fenced),
        })
    }

    /// `send::publish` of a way that may be covered.
    fn publish(&self, tail: u64) {
        let way = &self.way;
        let step = way.publishing.load(Ordering::Acquire);
        way.publishing.store(step + 1, Ordering::Release);
        door::announce(&way.tail, tail);
        let cover = self.cover.load(Ordering::SeqCst);
        if cover != 0 && tell(&self.bits, &self.state, BIT, GENERATION) {
            way.publishing.swap(step + 2, Ordering::SeqCst);
            if way.tail.1 {
                fence(Ordering::SeqCst);
            }
            if self.cover.load(Ordering::SeqCst) == cover {
                return;
            }
            way.publishing.swap(step + 1, Ordering::SeqCst);
        }
        let rings = door::call(&way.door, tail);
        if rings {
            way.tokens.fetch_add(1, Ordering::AcqRel);
        }
        way.publishing.store(step + 2, Ordering::Release);
        if rings {
            way.kernel.lock().unwrap().push_back(TOKEN);
        }
    }

    /// What a wait finds: whether the descriptor is to be read.
    fn gather(&self, receiver: &Receiver) -> bool {
        let marked = take(&self.bits) != 0 && self.way.tail() != receiver.head;
        marked || !self.way.kernel.lock().unwrap().is_empty()
    }

    /// The steps before a sleep: whether it sleeps.
    fn sleeps(&self) -> bool {
        lie_down(&self.state, GENERATION);
        if self.bits.load(Ordering::SeqCst) & BIT == 0 {
            return true;
        }
        get_up(&self.state, GENERATION);
        false
    }

    /// `receive::uncover`, in its two halves; the wait for the sender is left out where it takes too long.
    fn uncover(&self, waits: bool) {
        self.cover.swap(0, Ordering::SeqCst);
        if self.way.tail.1 {
            fence(Ordering::SeqCst);
        }
        let step = self.way.publishing.load(Ordering::Acquire);
        while waits && step & 1 == 1 && self.way.publishing.load(Ordering::Acquire) == step {
            loom::thread::yield_now();
        }
    }
}

/// An event loop that looks, reads and sleeps, while two publishes come.
fn event_loop(fenced: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let all = Covered::new(fenced);
        let sender = Arc::clone(&all);
        let sends = loom::thread::spawn(move || {
            sender.publish(1);
            sender.publish(2);
        });
        let mut receiver = Receiver::default();
        if all.gather(&receiver) {
            receiver.call(&all.way, 9);
        }
        let mut asleep = all.sleeps();
        if !asleep && all.gather(&receiver) {
            receiver.call(&all.way, 9);
            asleep = all.sleeps();
        }
        sends.join().unwrap();
        let has_bytes = all.way.tail() != receiver.head;
        let token = !all.way.kernel.lock().unwrap().is_empty();
        let mark = all.bits.load(Ordering::SeqCst) != 0;
        assert!(
            !has_bytes || token || (mark && !asleep),
            "bytes lie there, and who sleeps is not called"
        );
        if asleep {
            get_up(&all.state, GENERATION);
        }
        if all.gather(&receiver) {
            receiver.call(&all.way, 9);
        }
        assert_eq!(receiver.got, [1, 2]);
        assert!(all.way.kernel.lock().unwrap().is_empty(), "it is readable, and nothing is there");
    });
}

/// Another thread waits for the same socket in a way that needs tokens: it takes the cover away, looks, and sleeps.
fn cover_taken_away(waits: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let all = Covered::new(true);
        let sender = Arc::clone(&all);
        let sends = loom::thread::spawn(move || {
            sender.publish(1);
            sender.publish(2);
        });
        all.uncover(waits);
        let seen = all.way.tail();
        // It sleeps where it sees nothing, and has to be called then.
        sends.join().unwrap();
        let token = !all.way.kernel.lock().unwrap().is_empty();
        assert!(seen > 0 || token, "bytes came after the look, and nobody was called");
    });
}

#[test]
fn who_sleeps_over_an_event_loop_is_called() {
    event_loop(true);
}

#[test]
fn who_takes_the_cover_away_is_called() {
    cover_taken_away(true);
    cover_taken_away(false);
}

#[test]
fn without_fences_an_event_loop_sleeps_over_bytes() {
    let broken = catch_unwind(AssertUnwindSafe(|| event_loop(false)));
    assert!(broken.is_err(), "the model does not need its fences: it proves nothing");
}
