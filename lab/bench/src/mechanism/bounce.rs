//! The floors of everything that spins: a cache line that goes to and fro.
//!
//! ```text
//! bounce   one word, even for a request and odd for an answer; nothing else travels
//! line     two lines of eight words: word 0 the flag, words 1 to 6 the message
//! ```
//! `bounce` is the bare cache-line bounce that others are compared with: of its
//! variants (one line or two, with or without a pause in the loop) the fastest,
//! so that no ratio to it flatters. `line` adds the writing, reading and
//! checking of 48 bytes in the flag's own line, one line per direction.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{ClientEnd, Family, Inherited, Mechanism, Paces, ServerEnd, Site, Transport};
use crate::error::Error;
use crate::job::{Report, Wait, Work};
use crate::payload::{MESSAGE_BYTES, Message};
use crate::peer::Run;
use crate::raw::Page;

const STOP: u64 = u64::MAX - 1;
/// First words of the two lines of `line`, 256 bytes apart so that no prefetch joins them.
const REQUEST_WORD: usize = 0;
const ANSWER_WORD: usize = 32;

/// One word of one line.
pub struct Bounce;
/// One line each way, with a payload.
pub struct Line;

impl Mechanism for Bounce {
    fn name(&self) -> &'static str {
        "bounce"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn waits(&self) -> &'static [Wait] {
        &[Wait::Spin]
    }

    fn bytes(&self, _: Work) -> usize {
        0
    }

    fn paces(&self) -> Paces {
        Paces::Awake
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        page()
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Word::new(inherited, spin_loop)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Word::new(inherited, spin_loop)?)
    }
}

impl Mechanism for Line {
    fn name(&self) -> &'static str {
        "line"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Ipc2]
    }

    fn waits(&self) -> &'static [Wait] {
        &[Wait::Spin]
    }

    fn bytes(&self, _: Work) -> usize {
        MESSAGE_BYTES
    }

    fn paces(&self) -> Paces {
        Paces::Awake
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        page()
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Lines::new(inherited, ANSWER_WORD, REQUEST_WORD)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Lines::new(inherited, REQUEST_WORD, ANSWER_WORD)?)
    }
}

/// A page for both sides.
pub fn page() -> Result<Transport, Error> {
    let page = Page::create()?;
    let again = page.try_clone().map_err(Error::os("dup of a shared page"))?;
    Ok(Transport { client: vec![again], server: vec![page], ..Transport::default() })
}

/// One word that goes to and fro; `rest` is what a side does between two looks at it.
pub struct Word<R> {
    page: Page,
    last: u64,
    rest: R,
}

impl<R: Fn()> Word<R> {
    /// Maps the one inherited page.
    pub fn new(mut inherited: Inherited, rest: R) -> Result<Self, Error> {
        Ok(Self { page: Page::map(&inherited.take()?)?, last: 0, rest })
    }
}

impl<R: Fn()> ClientEnd for Word<R> {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        let word = self.page.word(0);
        let next = if request.is_stop() { STOP } else { self.last + 2 };
        // pairs with the Acquire in `receive`, and the load with the store in `send`
        word.store(next, Release);
        while word.load(Acquire) != next + 1 {
            (self.rest)();
        }
        self.last = next;
        Ok(())
    }
}

impl<R: Fn()> ServerEnd for Word<R> {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        let word = self.page.word(0);
        let mut now = word.load(Acquire);
        while now == self.last || now % 2 == 1 {
            (self.rest)();
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

impl Lines {
    fn new(mut inherited: Inherited, input: usize, output: usize) -> Result<Self, Error> {
        Ok(Self { page: Page::map(&inherited.take()?)?, input, output, sent: 0, taken: 0 })
    }

    #[inline]
    fn put(&mut self, message: &Message) {
        for (i, &word) in message.words.iter().enumerate() {
            self.page.word(self.output + 1 + i).store(word, Relaxed);
        }
        self.sent += 1;
        // pairs with the Acquire in `get`
        self.page.word(self.output).store(self.sent, Release);
    }

    #[inline]
    fn get(&mut self, message: &mut Message) {
        while self.page.word(self.input).load(Acquire) == self.taken {
            spin_loop();
        }
        self.taken += 1;
        for (i, word) in message.words.iter_mut().enumerate() {
            *word = self.page.word(self.input + 1 + i).load(Relaxed);
        }
    }
}

impl ClientEnd for Lines {
    #[inline]
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        self.put(request);
        self.get(answer);
        Ok(())
    }
}

impl ServerEnd for Lines {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.get(request);
        Ok(())
    }

    #[inline]
    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.put(answer);
        Ok(())
    }
}
