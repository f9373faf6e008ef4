//! The floors: the least that a round trip of each kind can cost.
//!
//! ```text
//! bounce       one word, even for a request and odd for an answer; no other payload
//! line         two lines of eight words: word 0 the flag, words 1 to 6 the message
//! sketch       publish, check for a sleeper, wait: in `sketch.rs`
//! sched-yield  the word of bounce; each side yields until it changes
//! futex        both sides sleep: a hand-off each way, four system calls a trip
//! futex-wake   the server sleeps, the client wakes it and spins: the least paced trip
//! ```
//! `bounce` is the fastest of its variants (one line or two, with or without a pause in the loop),
//! so that no ratio to it flatters. `line` adds the writing, reading and checking of 48 bytes in
//! the line of the flag, one line per direction.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use m3ipc_report::schema::{Family, Wait};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait, wake};
use rustix::thread::sched_yield;

use crate::ends::{ClientEnd, Exchange, ServerEnd};
use crate::error::Error;
use crate::job::{Load, Report, Test};
use crate::payload::{MESSAGE_BYTES, Message};
use crate::raw::Page;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::channel::duplicate;

/// The last value of a word.
const STOP: u64 = u64::MAX - 1;
/// First words of the two lines of `line`, 256 bytes apart so that no prefetch joins them.
const REQUEST_LINE: usize = 0;
const ANSWER_LINE: usize = 32;
/// Futex words, 256 bytes apart. Each counts up, and `FUTEX_STOP` ends.
const REQUEST: usize = 0;
const ANSWER: usize = 64;
const FUTEX_STOP: u32 = u32::MAX;

/// A floor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// One word of one line.
    Bounce,
    /// One line each way, with a payload.
    Line,
    /// One word, handed over by sched_yield(2).
    SchedYield,
    /// Sleep on both sides.
    Futex,
    /// Sleep on the server's side only.
    FutexWake,
}

/// The floors.
pub const ALL: [Floor; 5] =
    [Floor::Bounce, Floor::Line, Floor::SchedYield, Floor::Futex, Floor::FutexWake];

impl Subject for Floor {
    fn name(&self) -> &'static str {
        match self {
            Self::Bounce => "bounce",
            Self::Line => "line",
            Self::SchedYield => "sched-yield",
            Self::Futex => "futex",
            Self::FutexWake => "futex-wake",
        }
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        let ipc2 = load.test == Test::Ipc2;
        let awake = load.pace_ns.is_none();
        match self {
            Self::Bounce if awake && load.test.is_message() && load.test != Test::Clients => {
                &[Wait::Spin]
            }
            Self::Line if awake && ipc2 => &[Wait::Spin],
            Self::SchedYield if awake && ipc2 => &[Wait::Yield],
            Self::Futex if ipc2 => &[Wait::Block],
            Self::FutexWake if ipc2 && !awake => &[Wait::Block],
            _ => &[],
        }
    }

    fn bytes(&self, _: &Load) -> usize {
        if *self == Self::Line { MESSAGE_BYTES } else { 0 }
    }

    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        Opened::pairs(load.count(), || {
            let page = Page::create()?;
            Ok((Inherited::fds(vec![duplicate(&page)?]), Inherited::fds(vec![page])))
        })
    }

    fn run(&self, run: &Run, mut inherited: Inherited) -> Result<Report, Error> {
        let page = Page::map(&inherited.take()?)?;
        match self {
            Self::Bounce => run.exchange(Word { page, last: 0, pause: spin_loop }),
            Self::SchedYield => run.exchange(Word { page, last: 0, pause: sched_yield }),
            Self::Line => {
                let lines = [ANSWER_LINE, REQUEST_LINE];
                let [input, output] = if run.is_client() { lines } else { [lines[1], lines[0]] };
                run.exchange(Lines { page, input, output, sent: 0, taken: 0 })
            }
            Self::Futex | Self::FutexWake => {
                let client_sleeps = *self == Self::Futex;
                run.exchange(FutexWords { page, trip: 0, client_sleeps })
            }
        }
    }
}

/// One word that both sides write; `pause` runs between two polls.
struct Word<P> {
    page: Page,
    last: u64,
    pause: P,
}

impl<P: Fn()> ClientEnd for Word<P> {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        let word = self.page.word(0);
        let next = if request.is_stop() { STOP } else { self.last + 2 };
        // The store pairs with the Acquire load of `receive`, the load with the store of `send`.
        word.store(next, Release);
        while word.load(Acquire) != next + 1 {
            (self.pause)();
        }
        self.last = next;
        Ok(())
    }
}

impl<P: Fn()> ServerEnd for Word<P> {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        let word = self.page.word(0);
        let mut now = word.load(Acquire);
        while now == self.last || now % 2 == 1 {
            (self.pause)();
            now = word.load(Acquire);
        }
        if now == STOP {
            *request = Message::stop();
        }
        self.last = now + 1;
        Ok(())
    }

    #[inline]
    fn send(&mut self, _: &Message) -> Result<(), Error> {
        self.page.word(0).store(self.last, Release);
        Ok(())
    }
}

struct Lines {
    page: Page,
    input: usize,
    output: usize,
    sent: u64,
    taken: u64,
}

impl Exchange for Lines {
    #[inline]
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        for (i, &word) in message.words.iter().enumerate() {
            self.page.word(self.output + 1 + i).store(word, Relaxed);
        }
        self.sent += 1;
        // Pairs with the Acquire load of `get`.
        self.page.word(self.output).store(self.sent, Release);
        Ok(())
    }

    #[inline]
    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        while self.page.word(self.input).load(Acquire) == self.taken {
            spin_loop();
        }
        self.taken += 1;
        for (i, word) in message.words.iter_mut().enumerate() {
            *word = self.page.word(self.input + 1 + i).load(Relaxed);
        }
        Ok(())
    }
}

struct FutexWords {
    page: Page,
    trip: u32,
    client_sleeps: bool,
}

impl FutexWords {
    #[inline]
    fn publish(&self, index: usize, value: u32, sleeper: bool) -> Result<(), Error> {
        let word = self.page.futex(index);
        // Pairs with the Acquire load of `await_change`.
        word.store(value, Release);
        if sleeper {
            wake(word, Flags::empty(), 1).map_err(Error::os("futex wake"))?;
        }
        Ok(())
    }

    #[inline]
    fn await_change(&self, index: usize, from: u32, sleeps: bool) -> Result<u32, Error> {
        let word = self.page.futex(index);
        loop {
            let now = word.load(Acquire);
            if now != from {
                return Ok(now);
            }
            if !sleeps {
                spin_loop();
                continue;
            }
            match wait(word, Flags::empty(), from, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(Error::os("futex wait")(error)),
            }
        }
    }
}

impl ClientEnd for FutexWords {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        let before = self.trip;
        self.trip = if request.is_stop() { FUTEX_STOP } else { before + 1 };
        self.publish(REQUEST, self.trip, true)?;
        self.await_change(ANSWER, before, self.client_sleeps).map(drop)
    }
}

impl ServerEnd for FutexWords {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.trip = self.await_change(REQUEST, self.trip, true)?;
        if self.trip == FUTEX_STOP {
            *request = Message::stop();
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, _: &Message) -> Result<(), Error> {
        self.publish(ANSWER, self.trip, self.client_sleeps)
    }
}
