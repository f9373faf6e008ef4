//! The bare sketch of the protocol: what an exchange with sleep costs without death, rights or
//! checks of the peer.
//!
//! ```text
//! side, 256 bytes apart        line 0: words 0 to 5 the message, futex word 14 the number of it
//!                              line 1: futex word 16: this side sleeps
//! publish                      message, number; wakes the other side if it sleeps
//! await                        spin: polls the number; block: notes the sleep, polls, sleeps
//! ```
//! It is `sketch.c` of the design in Rust. A side sleeps on the number of the other side. The floor
//! has no time limit and trusts its peer: a killed peer leaves it waiting.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use m3ipc_report::schema::{Family, Wait};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait, wake};

use crate::ends::Exchange;
use crate::error::Error;
use crate::job::{Load, Report, Test};
use crate::payload::{MESSAGE_BYTES, Message};
use crate::raw::Page;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::channel::duplicate;

/// First bytes of the two sides, 256 bytes apart so that no prefetch joins them.
const CLIENT: usize = 0;
const SERVER: usize = 256;
/// Byte of the number in the line of its message.
const NUMBER: usize = 56;
/// Byte of the mark of a sleeper, in the next line.
const ASLEEP: usize = 64;

/// Publish, check for a sleeper, wait.
pub struct Sketch;

impl Subject for Sketch {
    fn name(&self) -> &'static str {
        m3ipc_report::names::SKETCH
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        match (load.test, load.pace_ns) {
            (Test::Ipc2, None) => &[Wait::Spin, Wait::Block],
            _ => &[],
        }
    }

    fn bytes(&self, _: &Load) -> usize {
        MESSAGE_BYTES
    }

    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        Opened::pairs(load.count(), || {
            let page = Page::create()?;
            Ok((Inherited::fds(vec![duplicate(&page)?]), Inherited::fds(vec![page])))
        })
    }

    fn run(&self, run: &Run, mut inherited: Inherited) -> Result<Report, Error> {
        let page = Page::map(&inherited.take()?)?;
        let sides = [CLIENT, SERVER];
        let [own, peer] = if run.is_client() { sides } else { [sides[1], sides[0]] };
        let sleeps = run.job().wait == Wait::Block;
        run.exchange(Side { page, own, peer, sleeps, sent: 0, taken: 0 })
    }
}

struct Side {
    page: Page,
    own: usize,
    peer: usize,
    sleeps: bool,
    sent: u32,
    taken: u32,
}

impl Side {
    fn number_of(&self, side: usize) -> &AtomicU32 {
        self.page.futex((side + NUMBER) / 4)
    }

    fn asleep(&self, side: usize) -> &AtomicU32 {
        self.page.futex((side + ASLEEP) / 4)
    }

    #[inline]
    fn has_next(&self) -> bool {
        // Pairs with the store of the number in `put`.
        self.number_of(self.peer).load(Acquire) != self.taken
    }

    /// Sleeps until the number of the other side changes.
    #[inline]
    fn sleep(&self) -> Result<(), Error> {
        while !self.has_next() {
            // Pairs with the load of the mark in `put`: either this side finds the number below, or
            // the other side finds the mark.
            self.asleep(self.own).store(1, SeqCst);
            let number = self.number_of(self.peer);
            if number.load(SeqCst) == self.taken {
                match wait(number, Flags::empty(), self.taken, None) {
                    Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(error) => return Err(Error::os("futex wait")(error)),
                }
            }
            self.asleep(self.own).store(0, Relaxed);
        }
        Ok(())
    }
}

impl Exchange for Side {
    #[inline]
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        for (i, &word) in message.words.iter().enumerate() {
            self.page.word(self.own / 8 + i).store(word, Relaxed);
        }
        self.sent = self.sent.wrapping_add(1);
        let number = self.number_of(self.own);
        // Pairs with the loads of `has_next` and `sleep`.
        number.store(self.sent, SeqCst);
        // Pairs with the store of the mark in `sleep`.
        if self.asleep(self.peer).load(SeqCst) != 0 {
            wake(number, Flags::empty(), 1).map_err(Error::os("futex wake"))?;
        }
        Ok(())
    }

    #[inline]
    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        if self.sleeps {
            self.sleep()?;
        } else {
            while !self.has_next() {
                spin_loop();
            }
        }
        self.taken = self.taken.wrapping_add(1);
        for (i, word) in message.words.iter_mut().enumerate() {
            *word = self.page.word(self.peer / 8 + i).load(Relaxed);
        }
        Ok(())
    }
}
