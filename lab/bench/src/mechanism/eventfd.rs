//! Two eventfds, which carry a count only: the 48 bytes lie in a shared page.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

use super::{ClientEnd, Inherited, Mechanism, ServerEnd, Site, Transport};
use crate::error::Error;
use crate::job::Report;
use crate::payload::Message;
use crate::peer::Run;
use crate::raw::Page;

/// Index of the first word of the requests' line; the answers' line is 256 bytes further.
const REQUEST_WORD: usize = 0;
const ANSWER_WORD: usize = 32;

/// eventfd(2), one per direction.
pub struct EventFd;

impl Mechanism for EventFd {
    fn name(&self) -> &'static str {
        "eventfd"
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        let bell = || eventfd(0, EventfdFlags::CLOEXEC).map_err(Error::os("eventfd"));
        let (requests, answers, page) = (bell()?, bell()?, Page::create()?);
        let again = |fd: &OwnedFd| fd.try_clone().map_err(Error::os("dup of an eventfd"));
        Ok(Transport {
            client: vec![again(&answers)?, again(&requests)?, again(&page)?],
            server: vec![requests, answers, page],
            ..Transport::default()
        })
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Bells::new(inherited, run, ANSWER_WORD, REQUEST_WORD)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Bells::new(inherited, run, REQUEST_WORD, ANSWER_WORD)?)
    }
}

struct Bells {
    input: OwnedFd,
    output: OwnedFd,
    page: Page,
    input_word: usize,
    output_word: usize,
    words: usize,
}

impl Bells {
    fn new(
        mut inherited: Inherited,
        run: &Run,
        input_word: usize,
        output_word: usize,
    ) -> Result<Self, Error> {
        let (input, output) = (inherited.take()?, inherited.take()?);
        let page = Page::map(&inherited.take()?)?;
        Ok(Self { input, output, page, input_word, output_word, words: run.bytes().div_ceil(8) })
    }

    #[inline]
    fn put(&self, message: &Message) -> Result<(), Error> {
        for i in 0..self.words {
            // The eventfd orders the two sides; Release and Acquire say so to the compiler.
            self.page.word(self.output_word + i).store(message.words[i], Release);
        }
        loop {
            match write(&self.output, &1_u64.to_ne_bytes()) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::os("write to an eventfd")(error)),
            }
        }
    }

    #[inline]
    fn get(&self, message: &mut Message) -> Result<(), Error> {
        loop {
            match read(&self.input, &mut [0; 8]) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::os("read of an eventfd")(error)),
            }
        }
        for i in 0..self.words {
            message.words[i] = self.page.word(self.input_word + i).load(Acquire);
        }
        Ok(())
    }
}

impl ClientEnd for Bells {
    #[inline]
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        self.put(request)?;
        self.get(answer)
    }
}

impl ServerEnd for Bells {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.get(request)
    }

    #[inline]
    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.put(answer)
    }
}
