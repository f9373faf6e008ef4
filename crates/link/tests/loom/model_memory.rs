//! Words, pages and the futex of the models.
//!
//! Only the words that a model is about are words of loom, because each costs interleavings. The
//! others are plain. Of a payload, only the first eight bytes exist.
//!
//! Loom remembers only the last access to a word, loads included, when it searches for orders to
//! try. It loses the order of a load and another thread's store, if the storing thread has loaded
//! the word before. So every access to a modelled word first stores to a second word of loom, whose
//! orders it tries all.

use crate::weakness::{Cut, is_cut};
use loom::sync::atomic as modelled;
use loom::sync::{Condvar, Mutex};
use m3ipc_link::{LinePage, Page, View};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{self as plain, Ordering};

/// The futex queue of one party. A sleep has no limit, so a lost wake-up is a deadlock.
#[derive(Debug, Default)]
pub struct FutexQueue {
    lock: Mutex<()>,
    woken: Condvar,
}

impl FutexQueue {
    /// Sleeps unless one of the words has changed. The check holds the lock that wakers take, as in
    /// the kernel.
    pub fn sleep(&self, expected: &[(&Word32, u32)]) {
        let guard = self.lock.lock().expect("no model thread panics under the lock");
        if expected.iter().all(|(word, value)| word.now() == *value) {
            drop(self.woken.wait(guard));
        }
    }

    fn wake(&self) {
        let _guard = self.lock.lock().expect("no model thread panics under the lock");
        self.woken.notify_all();
    }
}

/// A word of loom, and the second word that makes loom try all orders.
#[derive(Debug, Default)]
pub struct Modelled<W> {
    word: W,
    order: modelled::AtomicBool,
}

impl<W> Modelled<W> {
    fn ordered(&self) -> &W {
        self.order.store(false, Ordering::Relaxed);
        &self.word
    }
}

/// A 64-bit word.
#[derive(Debug)]
pub enum Word64 {
    Modelled(Modelled<modelled::AtomicU64>),
    Plain(plain::AtomicU64),
}

/// A 32-bit word, and its futex queue.
#[derive(Debug)]
pub struct Word32 {
    cell: Cell32,
    queue: Option<Arc<FutexQueue>>,
}

#[derive(Debug)]
enum Cell32 {
    Modelled(Modelled<modelled::AtomicU32>),
    Plain(plain::AtomicU32),
}

/// Runs one operation on either kind of word.
macro_rules! on {
    ($kind:ident, $word:expr, $cell:ident => $run:expr) => {
        match $word {
            $kind::Modelled(modelled) => {
                let $cell = modelled.ordered();
                $run
            }
            $kind::Plain($cell) => $run,
        }
    };
}

fn order(order: Ordering, weaker: Ordering, at: &'static Location<'static>) -> Ordering {
    if order != weaker && is_cut(Cut::Order, at) { weaker } else { order }
}

impl m3ipc_link::Word64 for Word64 {
    #[track_caller]
    fn load(&self, wanted: Ordering) -> u64 {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Self, self, cell => cell.load(wanted))
    }
    #[track_caller]
    fn store(&self, value: u64, wanted: Ordering) {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Self, self, cell => cell.store(value, wanted));
    }
    #[track_caller]
    fn swap(&self, value: u64, wanted: Ordering) -> u64 {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Self, self, cell => cell.swap(value, wanted))
    }
    #[track_caller]
    fn fetch_or(&self, bits: u64, wanted: Ordering) -> u64 {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Self, self, cell => cell.fetch_or(bits, wanted))
    }
    #[track_caller]
    fn fetch_add(&self, number: u64, wanted: Ordering) -> u64 {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Self, self, cell => cell.fetch_add(number, wanted))
    }
    #[track_caller]
    fn compare_exchange(&self, old: u64, new: u64) -> Result<u64, u64> {
        let at = Location::caller();
        let (wanted, failed) = match order(Ordering::SeqCst, Ordering::Relaxed, at) {
            Ordering::SeqCst => (Ordering::SeqCst, Ordering::Acquire),
            weaker => (weaker, weaker),
        };
        if is_cut(Cut::Exchange, at) {
            let found = on!(Self, self, cell => cell.load(Ordering::SeqCst));
            if found == old {
                on!(Self, self, cell => cell.store(new, Ordering::SeqCst));
            }
            return if found == old { Ok(found) } else { Err(found) };
        }
        on!(Self, self, cell => cell.compare_exchange(old, new, wanted, failed))
    }
    #[track_caller]
    fn fence_after_update(&self) {
        if matches!(self, Self::Modelled(_)) {
            fence_unless_cut(Location::caller());
        }
    }
}

impl m3ipc_link::Word32 for Word32 {
    #[track_caller]
    fn load(&self, wanted: Ordering) -> u32 {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Cell32, &self.cell, cell => cell.load(wanted))
    }
    #[track_caller]
    fn store(&self, value: u32, wanted: Ordering) {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Cell32, &self.cell, cell => cell.store(value, wanted));
    }
    #[track_caller]
    fn swap(&self, value: u32, wanted: Ordering) -> u32 {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Cell32, &self.cell, cell => cell.swap(value, wanted))
    }
    #[track_caller]
    fn fetch_or(&self, bits: u32, wanted: Ordering) -> u32 {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Cell32, &self.cell, cell => cell.fetch_or(bits, wanted))
    }
    #[track_caller]
    fn fetch_and(&self, bits: u32, wanted: Ordering) -> u32 {
        let wanted = order(wanted, Ordering::Relaxed, Location::caller());
        on!(Cell32, &self.cell, cell => cell.fetch_and(bits, wanted))
    }
    #[track_caller]
    fn compare_exchange(&self, old: u32, new: u32) -> Result<u32, u32> {
        let at = Location::caller();
        let (wanted, failed) = match order(Ordering::SeqCst, Ordering::Relaxed, at) {
            Ordering::SeqCst => (Ordering::SeqCst, Ordering::Acquire),
            weaker => (weaker, weaker),
        };
        if is_cut(Cut::Exchange, at) {
            let found = on!(Cell32, &self.cell, cell => cell.load(Ordering::SeqCst));
            if found == old {
                on!(Cell32, &self.cell, cell => cell.store(new, Ordering::SeqCst));
            }
            return if found == old { Ok(found) } else { Err(found) };
        }
        on!(Cell32, &self.cell, cell => cell.compare_exchange(old, new, wanted, failed))
    }
    #[track_caller]
    fn bump(&self) {
        if !is_cut(Cut::Bump, Location::caller()) {
            on!(Cell32, &self.cell, cell => cell.fetch_add(1, Ordering::SeqCst));
        }
    }
    #[track_caller]
    fn fence_after_update(&self) {
        if matches!(self.cell, Cell32::Modelled(_)) {
            fence_unless_cut(Location::caller());
        }
    }
}

impl Word32 {
    fn now(&self) -> u32 {
        on!(Cell32, &self.cell, cell => cell.load(Ordering::SeqCst))
    }
}

fn fence_unless_cut(at: &'static Location<'static>) {
    if !is_cut(Cut::Fence, at) {
        modelled::fence(Ordering::SeqCst);
    }
}

/// A page that parties share.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Words>);

#[derive(Debug)]
struct Words {
    words64: Vec<Word64>,
    words32: Vec<Word32>,
}

impl Memory {
    /// A page whose words at these offsets are the model's.
    pub fn new(
        bytes: usize,
        at64: &[usize],
        at32: &[usize],
        sleepers: &[(usize, &Arc<FutexQueue>)],
    ) -> Self {
        let words64 = (0..bytes).step_by(8).map(|offset| {
            if at64.contains(&offset) {
                Word64::Modelled(Default::default())
            } else {
                Word64::Plain(Default::default())
            }
        });
        let words32 = (0..bytes).step_by(4).map(|offset| {
            let queue =
                sleepers.iter().find(|(at, _)| *at == offset).map(|(_, queue)| Arc::clone(queue));
            let is_modelled = queue.is_some() || at32.contains(&offset);
            let cell = if is_modelled {
                Cell32::Modelled(Default::default())
            } else {
                Cell32::Plain(Default::default())
            };
            Word32 { cell, queue }
        });
        Self(Arc::new(Words { words64: words64.collect(), words32: words32.collect() }))
    }
}

impl Page for Memory {
    type Word64 = Word64;
    type Word32 = Word32;

    fn word64(&self, offset: usize) -> &Word64 {
        &self.0.words64[offset / 8]
    }
    fn word32(&self, offset: usize) -> &Word32 {
        &self.0.words32[offset / 4]
    }
    fn write(&self, offset: usize, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            let value = u64::from_ne_bytes(*first);
            on!(Word64, self.word64(offset), cell => cell.store(value, Ordering::Relaxed));
        }
    }
    fn read(&self, offset: usize, bytes: &mut [u8]) {
        if let Some(first) = bytes.first_chunk_mut() {
            *first = on!(Word64, self.word64(offset), cell => cell.load(Ordering::Relaxed))
                .to_ne_bytes();
        }
    }
    fn wake(&self, word: &Word32) {
        if let Some(queue) = &word.queue {
            queue.wake();
        }
    }
}

impl LinePage for Memory {
    type Line = usize;

    fn line(&self, offset: usize) -> usize {
        offset
    }
    fn word_in<'a>(&'a self, line: &'a usize, at: usize) -> &'a Word64 {
        self.word64(line + at)
    }
}

impl View for Memory {
    #[track_caller]
    fn load32(&self, offset: usize, order: Ordering) -> u32 {
        m3ipc_link::Word32::load(self.word32(offset), order)
    }
    #[track_caller]
    fn load64(&self, offset: usize, order: Ordering) -> u64 {
        m3ipc_link::Word64::load(self.word64(offset), order)
    }
}
