//! The protocol under loom: a sender publishes and switches to the kernel, while a receiver takes,
//! settles, polls and sleeps, in every interleaving and with every value of a weak memory.
//!
//! The steps are the product's own (`m3ipc_shim::protocol`), on words of the checker. The kernel's
//! socket is a queue of the bytes that were sent. Each model also runs without fences and must fail
//! then: otherwise it proves nothing. For a deeper run:
//!
//! ```text
//! LOOM_MAX_PREEMPTIONS=3 cargo test --release -p m3ipc-shim --test loom
//! ```
#![allow(clippy::unwrap_used)]

mod loom_words;

use core::sync::atomic::Ordering;
use loom::sync::{Arc, Mutex};
use loom_words::{AnyWord, Word};
use m3ipc_link::Word64;
use m3ipc_shim::kernel::Errno;
use m3ipc_shim::memory::layout::half;
use m3ipc_shim::protocol::publish::{SendPort, publish};
use m3ipc_shim::protocol::pull::{Attempt, ReceivePort, attempt};
use m3ipc_shim::protocol::settle::{WakeupPort, disarm};
use m3ipc_shim::protocol::{Corrupt, HalfView, RingState, armed, pass};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Preemptions of one execution at most: without a bound a model takes hours. The models also hold
/// with three, in two minutes.
const PREEMPTIONS: usize = 2;
/// A wakeup byte in the kernel's queue.
const WAKEUP: u64 = 0;
/// The slot word of a direction that an event loop watches.
const SLOT: u64 = 1;
/// The bit of that slot, and the generation of its armed poller.
const BIT: u64 = 1;
const GENERATION: u64 = 5;

/// Words that carry an order between sender and receiver in each model.
const CHECKED: [usize; 4] = [half::TAIL, half::SUPPRESSION, half::WAKEUPS, half::PUBLISHING];

/// One direction: its words, the armed poller of its event loop, and the kernel's socket.
struct Direction {
    words: Vec<AnyWord>,
    bits: Word,
    state: Word,
    kernel: Mutex<VecDeque<u64>>,
}

impl Direction {
    /// A direction whose bytes go through the ring. `slot` is its slot word; `changing` are words
    /// that change in the model beside those of [`CHECKED`].
    fn new(fenced: bool, slot: u64, changing: &[usize]) -> Arc<Self> {
        let start = |offset: usize| match offset {
            half::RING_BYTES => 64,
            half::SWITCHES => 1,
            half::POLLER_SLOT => slot,
            _ => 0,
        };
        let word = |at: usize| {
            let offset = 8 * at;
            if CHECKED.contains(&offset) || changing.contains(&offset) {
                AnyWord::Checked(Word::new(start(offset), fenced))
            } else {
                AnyWord::Plain(start(offset).into())
            }
        };
        Arc::new(Self {
            words: (0..half::BYTES / 8).map(word).collect(),
            bits: Word::new(0, fenced),
            state: Word::new(armed::awake(GENERATION), fenced),
            kernel: Mutex::new(VecDeque::new()),
        })
    }

    /// A sender's overflow: switches to the kernel, and sends a byte through it.
    fn overflow(&self, byte: u64) {
        assert!(self.switch_to_kernel());
        self.kernel.lock().unwrap().push_back(byte);
    }

    fn tail(&self) -> u64 {
        self.word(half::TAIL).load(Ordering::SeqCst)
    }

    fn has_kernel_bytes(&self) -> bool {
        !self.kernel.lock().unwrap().is_empty()
    }
}

impl HalfView for Direction {
    type Word = AnyWord;

    fn word(&self, offset: usize) -> &AnyWord {
        &self.words[offset / 8]
    }
}

impl SendPort for Direction {
    fn send_wakeup(&self) -> Result<(), Errno> {
        self.kernel.lock().unwrap().push_back(WAKEUP);
        Ok(())
    }

    fn offer(&self, slot: u64) -> bool {
        assert_eq!(slot, SLOT);
        armed::offer(&self.bits, &self.state, BIT, GENERATION, || {})
    }

    fn always_wakes(&self) -> bool {
        false
    }
}

impl WakeupPort for Direction {
    fn take_wakeups(&self, most: usize) -> Result<usize, Errno> {
        let mut kernel = self.kernel.lock().unwrap();
        let taken = kernel.len().min(most);
        for byte in kernel.drain(..taken) {
            assert_eq!(byte, WAKEUP, "the receiver takes a byte of the program for a wakeup byte");
        }
        if taken > 0 { Ok(taken) } else { Err(libc::EAGAIN) }
    }

    fn pause(&self, _round: u32) {
        loom::thread::yield_now();
    }
}

/// The receiver, for all its calls.
struct Receiver {
    direction: Arc<Direction>,
    got: RefCell<Vec<u64>>,
    left: Cell<usize>,
}

impl Receiver {
    fn new(direction: &Arc<Direction>) -> Self {
        let direction = Arc::clone(direction);
        Self { direction, got: RefCell::default(), left: Cell::new(0) }
    }

    /// One call for at most `want` bytes, which does not sleep; `polls` lets it poll first.
    fn call(&mut self, want: usize, polls: bool) {
        self.left.set(want);
        let outcome = attempt(self, want, polls).unwrap();
        assert!(!matches!(outcome, Attempt::Sleep), "the call may not sleep");
    }

    fn head(&self) -> u64 {
        self.direction.load(half::HEAD)
    }

    fn has_bytes(&self) -> bool {
        self.direction.tail() != self.head()
    }
}

impl HalfView for Receiver {
    type Word = AnyWord;

    fn word(&self, offset: usize) -> &AnyWord {
        self.direction.word(offset)
    }
}

impl WakeupPort for Receiver {
    fn take_wakeups(&self, most: usize) -> Result<usize, Errno> {
        self.direction.take_wakeups(most)
    }

    fn pause(&self, round: u32) {
        self.direction.pause(round);
    }
}

impl ReceivePort for Receiver {
    fn left(&self) -> usize {
        self.left.get()
    }

    fn copy_out(&mut self, ring: RingState) -> Result<usize, Corrupt> {
        let bytes = ring.filled.min(self.left.get());
        // The n-th byte of the stream is n.
        self.got.borrow_mut().extend((1..=bytes as u64).map(|at| ring.head + at));
        self.left.set(self.left.get() - bytes);
        Ok(bytes)
    }

    fn receive_from_kernel(&mut self) -> Result<usize, Errno> {
        let byte = self.direction.kernel.lock().unwrap().pop_front().ok_or(libc::EAGAIN)?;
        assert_ne!(byte, WAKEUP, "the program gets a wakeup byte");
        self.got.borrow_mut().push(byte);
        self.left.set(self.left.get() - 1);
        Ok(1)
    }

    fn peek_kernel(&self) -> Result<usize, Errno> {
        if self.direction.has_kernel_bytes() { Ok(1) } else { Err(libc::EAGAIN) }
    }

    fn peek_behind_wakeups(&mut self, _wakeups: usize) -> Result<usize, Errno> {
        Ok(0)
    }

    fn keep_error(&self, errno: Errno) {
        panic!("an error {errno} of the kernel");
    }

    fn take_error(&self) -> Option<Errno> {
        None
    }

    fn is_peek(&self) -> bool {
        false
    }

    fn wants_all(&self) -> bool {
        false
    }

    fn may_wait(&self) -> bool {
        false
    }

    fn is_nonblocking(&self) -> bool {
        true
    }

    fn note_sleeps(&self, _sleeps: bool) {}

    fn spin(&self, arrived: &dyn Fn() -> bool) -> bool {
        arrived()
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // The builder takes a bound from the environment.
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.check(model);
}

fn fails(model: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(model)).is_err()
}

/// Two publishes and two calls: the descriptor is readable exactly while bytes are left.
fn two_publishes(fenced: bool, want: usize) {
    check(move || {
        let direction = Direction::new(fenced, 0, &[half::TAIL]);
        let sender = Arc::clone(&direction);
        let sends = loom::thread::spawn(move || {
            publish(&*sender, 1, false).unwrap();
            publish(&*sender, 3, false).unwrap();
        });
        let mut receiver = Receiver::new(&direction);
        receiver.call(want, true);
        receiver.call(want, true);
        sends.join().unwrap();
        let is_readable = direction.has_kernel_bytes();
        assert!(!receiver.has_bytes() || is_readable, "bytes are left without a wakeup byte");
        assert!(receiver.has_bytes() || !is_readable, "a wakeup byte is left without bytes");
        receiver.call(3, false);
        receiver.call(3, false);
        assert_eq!(*receiver.got.borrow(), [1, 2, 3]);
        assert!(!direction.has_kernel_bytes());
    });
}

/// A publish, then an overflow into the kernel: wakeup bytes and bytes are never mixed up.
fn overflow(want: usize) {
    check(move || {
        let direction = Direction::new(true, 0, &[half::SWITCHES]);
        let sender = Arc::clone(&direction);
        let sends = loom::thread::spawn(move || {
            publish(&*sender, 1, false).unwrap();
            sender.overflow(2);
        });
        let mut receiver = Receiver::new(&direction);
        receiver.call(want, true);
        receiver.call(want, true);
        sends.join().unwrap();
        let is_readable = direction.has_kernel_bytes();
        assert!(!receiver.has_bytes() || is_readable, "bytes are left without a wakeup byte");
        receiver.call(3, false);
        receiver.call(3, false);
        assert_eq!(*receiver.got.borrow(), [1, 2]);
        assert!(!direction.has_kernel_bytes());
    });
}

/// An event loop polls, receives and sleeps, while two publishes arrive.
fn event_loop(fenced: bool) {
    check(move || {
        let direction = Direction::new(fenced, SLOT, &[half::TAIL]);
        let sender = Arc::clone(&direction);
        let sends = loom::thread::spawn(move || {
            publish(&*sender, 1, false).unwrap();
            publish(&*sender, 2, false).unwrap();
        });
        // A wait: whether the descriptor is to be received from.
        let is_ready = |receiver: &Receiver| {
            let marked = armed::take(&direction.bits) != 0 && receiver.has_bytes();
            marked || direction.has_kernel_bytes()
        };
        // The steps before a sleep: whether the loop sleeps.
        let sleeps = || {
            armed::begin_sleep(&direction.state, GENERATION);
            let is_marked = direction.bits.load(Ordering::SeqCst) & BIT != 0;
            if is_marked {
                armed::end_sleep(&direction.state, GENERATION);
            }
            !is_marked
        };
        let mut receiver = Receiver::new(&direction);
        if is_ready(&receiver) {
            receiver.call(9, false);
        }
        let mut asleep = sleeps();
        if !asleep && is_ready(&receiver) {
            receiver.call(9, false);
            asleep = sleeps();
        }
        sends.join().unwrap();
        let is_marked = direction.bits.load(Ordering::SeqCst) != 0;
        assert!(
            !receiver.has_bytes() || direction.has_kernel_bytes() || (is_marked && !asleep),
            "bytes arrived, and the sleeping loop is not woken"
        );
        if asleep {
            armed::end_sleep(&direction.state, GENERATION);
        }
        if is_ready(&receiver) {
            receiver.call(9, false);
        }
        assert_eq!(*receiver.got.borrow(), [1, 2]);
        assert!(!direction.has_kernel_bytes(), "a wakeup byte is left without bytes");
    });
}

/// Another thread waits for the socket in a way that needs wakeup bytes: it disarms the direction,
/// reads the tail, and sleeps where it sees nothing.
fn disarmed(waits_for_publisher: bool) {
    check(move || {
        let direction = Direction::new(true, SLOT, &[half::POLLER_SLOT]);
        let sender = Arc::clone(&direction);
        let sends = loom::thread::spawn(move || {
            publish(&*sender, 1, false).unwrap();
            publish(&*sender, 2, false).unwrap();
        });
        if waits_for_publisher {
            disarm(&*direction);
        } else {
            // A signal handler cannot wait for the sender that it may have interrupted.
            let slot = direction.word(half::POLLER_SLOT);
            slot.swap(0, Ordering::SeqCst);
            slot.fence_after_update();
        }
        let seen = direction.tail();
        sends.join().unwrap();
        assert!(seen > 0 || direction.has_kernel_bytes(), "bytes arrived without a wakeup byte");
    });
}

#[test]
fn calls_of_one_byte_leave_the_descriptor_readable_exactly_while_bytes_are_left() {
    two_publishes(true, 1);
}

#[test]
fn calls_of_two_bytes_leave_the_descriptor_readable_exactly_while_bytes_are_left() {
    two_publishes(true, 2);
}

#[test]
fn calls_of_three_bytes_leave_the_descriptor_readable_exactly_while_bytes_are_left() {
    two_publishes(true, 3);
}

#[test]
fn without_fences_bytes_are_left_without_a_wakeup_byte() {
    assert!(fails(|| two_publishes(false, 3)), "the model holds without its fences");
}

#[test]
fn calls_of_one_byte_never_mix_bytes_and_wakeup_bytes() {
    overflow(1);
}

#[test]
fn calls_of_three_bytes_never_mix_bytes_and_wakeup_bytes() {
    overflow(3);
}

#[test]
fn a_sleeping_event_loop_is_woken() {
    event_loop(true);
}

#[test]
fn without_fences_an_event_loop_sleeps_although_bytes_arrived() {
    assert!(fails(|| event_loop(false)), "the model holds without its fences");
}

/// One thread begins to sleep in a set, while another one opens the poller of the set.
fn opened_poller(fenced: bool) {
    check(move || {
        let sleepers = Arc::new(Word::new(0, fenced));
        let poller = Arc::new(Word::new(0, fenced));
        let (counts, opened) = (Arc::clone(&sleepers), Arc::clone(&poller));
        let opener = loom::thread::spawn(move || armed::open(&*opened, GENERATION, &*counts));
        let seen = armed::enter_sleep(&*sleepers, &*poller);
        let is_open = opener.join().unwrap();
        assert!(!is_open || seen == GENERATION, "the poller does not count the sleeper");
        assert_eq!(poller.load(Ordering::SeqCst), if is_open { GENERATION } else { 0 });
    });
}

#[test]
fn a_poller_counts_each_thread_that_sleeps() {
    opened_poller(true);
}

#[test]
fn without_fences_a_poller_misses_a_thread_that_sleeps() {
    assert!(fails(|| opened_poller(false)), "the model holds without its fences");
}

#[test]
fn a_wait_that_disarms_is_woken() {
    disarmed(true);
}

#[test]
fn a_wait_that_disarms_without_waiting_for_the_sender_is_woken() {
    disarmed(false);
}

/// A party without the lock seals the direction, while another one switches to the ring.
#[test]
fn a_direction_is_sealed_or_switched_and_never_both() {
    for start in [0, 2] {
        check(move || {
            let direction = Direction::new(true, 0, &[half::SWITCHES]);
            direction.store(half::SWITCHES, start);
            let other = Arc::clone(&direction);
            let switches = loom::thread::spawn(move || other.switch_to_ring());
            let is_sealed = if start == 0 { direction.seal_unused() } else { direction.seal() };
            let has_switched = switches.join().unwrap();
            assert_ne!(is_sealed, has_switched);
            assert_eq!((direction.in_ring(), direction.is_sealed()), (has_switched, is_sealed));
            assert_eq!(direction.is_sealed_unused(), is_sealed && start == 0);
        });
    }
}

/// A message for which the sender switches to the ring, unless a receive passes by the rings at
/// that moment: the receive takes no wakeup byte for data.
fn switch_and_pass(fenced: bool) {
    check(move || {
        let changing = [half::SWITCHES, half::RECEIVING, half::RECEIVE_LOCK];
        let direction = Direction::new(fenced, 0, &changing);
        let other_way = Direction::new(fenced, 0, &[]);
        for half in [&direction, &other_way] {
            half.store(half::SWITCHES, 2);
        }
        let (sender, senders_other) = (Arc::clone(&direction), Arc::clone(&other_way));
        let sends = loom::thread::spawn(move || {
            let lock = sender.word(half::RECEIVE_LOCK);
            let is_held = lock.compare_exchange(0, 1).is_ok();
            let switches = is_held && pass::switch_to_ring(&*sender, [&*sender, &*senders_other]);
            if is_held {
                lock.store(0, Ordering::Release);
            }
            if switches {
                publish(&*sender, 1, false).unwrap();
            } else {
                sender.kernel.lock().unwrap().push_back(1);
            }
        });
        let mut receiver = Receiver::new(&direction);
        for _call in 0..2 {
            let lock = direction.word(half::RECEIVE_LOCK);
            if pass::begin(&*direction, &*other_way) {
                receiver.left.set(1);
                let _ = receiver.receive_from_kernel();
                pass::end(&*direction);
            } else if lock.compare_exchange(0, 2).is_ok() {
                receiver.call(1, false);
                lock.store(0, Ordering::Release);
            }
        }
        sends.join().unwrap();
        receiver.call(1, false);
        assert_eq!(*receiver.got.borrow(), [1]);
        assert!(!direction.has_kernel_bytes());
    });
}

#[test]
fn a_receive_past_the_ring_takes_no_wakeup_byte() {
    switch_and_pass(true);
}

#[test]
fn without_fences_a_receive_past_the_ring_takes_a_wakeup_byte() {
    assert!(fails(|| switch_and_pass(false)), "the model holds without its fences");
}

/// A send at rest without the lock, while another thread ends the rest under the lock: it finds
/// the send, or the send finds no rest.
fn send_and_end_of_rest(fenced: bool) {
    check(move || {
        let direction = Direction::new(fenced, 0, &[half::PINNED, half::SENDING]);
        direction.store(half::SWITCHES, 2);
        direction.store(half::PINNED, half::AT_REST);
        let sender = Arc::clone(&direction);
        let sends = loom::thread::spawn(move || pass::begin_send(&*sender));
        pass::end_rest(&*direction);
        let may_switch = direction.load(half::SENDING) == 0;
        assert!(!(sends.join().unwrap() && may_switch));
    });
}

#[test]
fn the_end_of_a_rest_finds_a_send_without_the_lock() {
    send_and_end_of_rest(true);
}

#[test]
fn without_fences_the_end_of_a_rest_misses_a_send() {
    assert!(fails(|| send_and_end_of_rest(false)), "the model holds without its fences");
}
