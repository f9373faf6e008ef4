//! A planted fault: a pipe whose server spoils one bit of the hundredth answer.
//!
//! It is in no list of measurements; the tests ask for it by name to see that
//! the check of payloads finds it.

use super::bytes::Bytes;
use super::pipe::Pipe;
use super::{Inherited, Mechanism, ServerEnd, Site, Transport};
use crate::error::Error;
use crate::job::Report;
use crate::payload::Message;
use crate::peer::Run;

/// The pipe that lies.
pub struct Planted;

impl Mechanism for Planted {
    fn name(&self) -> &'static str {
        "planted-fault"
    }

    fn open(&self, site: &Site) -> Result<Transport, Error> {
        Pipe.open(site)
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        Pipe.client(inherited, run)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Liar { pipe: Bytes::pair(inherited, run)?, answers: 0 })
    }
}

struct Liar {
    pipe: Bytes,
    answers: u32,
}

impl ServerEnd for Liar {
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.pipe.receive(request)
    }

    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.answers += 1;
        let mut answer = *answer;
        if self.answers == 100 {
            answer.bytes_mut()[0] ^= 1;
        }
        self.pipe.send(&answer)
    }
}
