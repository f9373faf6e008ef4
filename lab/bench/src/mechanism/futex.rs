//! The floors of everything that sleeps.
//!
//! ```text
//! futex       both sides sleep: a hand-off each way, four system calls a trip
//! futex-wake  the server sleeps, the client wakes it and spins for its answer:
//!             one wake-up a trip, the least a paced trip to a sleeping server costs
//! ```

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait, wake};

use super::{ClientEnd, Family, Inherited, Mechanism, Paces, ServerEnd, Site, Transport, bounce};
use crate::error::Error;
use crate::job::{Report, Work};
use crate::payload::Message;
use crate::peer::Run;
use crate::raw::Page;

/// Halves of the page, 256 bytes apart; each counts up, and `STOP` ends.
const REQUEST: usize = 0;
const ANSWER: usize = 64;
const STOP: u32 = u32::MAX;

/// Sleeping on both sides.
pub struct Futex;
/// Sleeping on the server's side only.
pub struct FutexWake;

impl Mechanism for Futex {
    fn name(&self) -> &'static str {
        "futex"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Ipc2]
    }

    fn bytes(&self, _: Work) -> usize {
        0
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        bounce::page()
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Words::new(inherited, true)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Words::new(inherited, true)?)
    }
}

impl Mechanism for FutexWake {
    fn name(&self) -> &'static str {
        "futex-wake"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Ipc2]
    }

    fn bytes(&self, _: Work) -> usize {
        0
    }

    fn paces(&self) -> Paces {
        Paces::Asleep
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        bounce::page()
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Words::new(inherited, false)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Words::new(inherited, false)?)
    }
}

struct Words {
    page: Page,
    trip: u32,
    client_sleeps: bool,
}

impl Words {
    fn new(mut inherited: Inherited, client_sleeps: bool) -> Result<Self, Error> {
        Ok(Self { page: Page::map(&inherited.take()?)?, trip: 0, client_sleeps })
    }

    #[inline]
    fn publish(&self, half: usize, value: u32, sleeper: bool) -> Result<(), Error> {
        // pairs with the Acquire in `await_change`
        self.page.half(half).store(value, Release);
        if sleeper {
            wake(self.page.half(half), Flags::empty(), 1).map_err(Error::os("futex wake"))?;
        }
        Ok(())
    }

    #[inline]
    fn await_change(&self, half: usize, from: u32) -> Result<u32, Error> {
        let word = self.page.half(half);
        loop {
            let now = word.load(Acquire);
            if now != from {
                return Ok(now);
            }
            match wait(word, Flags::empty(), from, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(Error::os("futex wait")(error)),
            }
        }
    }
}

impl ClientEnd for Words {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        let before = self.trip;
        self.trip = if request.is_stop() { STOP } else { before + 1 };
        self.publish(REQUEST, self.trip, true)?;
        if self.client_sleeps {
            self.await_change(ANSWER, before)?;
            return Ok(());
        }
        while self.page.half(ANSWER).load(Acquire) == before {
            spin_loop();
        }
        Ok(())
    }
}

impl ServerEnd for Words {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.trip = self.await_change(REQUEST, self.trip)?;
        if self.trip == STOP {
            *request = Message::stop();
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, _: &Message) -> Result<(), Error> {
        self.publish(ANSWER, self.trip, self.client_sleeps)
    }
}
