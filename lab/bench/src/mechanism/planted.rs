//! Mechanisms for the tests only, in no list of measurements, found by name.
//!
//! ```text
//! planted-fault  a pipe whose server spoils one bit of the hundredth answer: the check must find it
//! planted-ours   a pipe that claims what only m3ipc has: the way to those measurements must be open
//! ```

use super::bytes::Bytes;
use super::pipe::Pipe;
use super::{ClientEnd, Inherited, Mechanism, ServerEnd, Site, Transport};
use crate::error::Error;
use crate::job::Report;
use crate::ours::{Memory, Ours};
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

/// The pipe that claims to be ours.
pub struct PlantedOurs;

impl Mechanism for PlantedOurs {
    fn name(&self) -> &'static str {
        "planted-ours"
    }

    fn open(&self, site: &Site) -> Result<Transport, Error> {
        Pipe.open(site)
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        Pipe.client(inherited, run)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        Pipe.server(inherited, run)
    }

    fn ours(&self) -> Option<&dyn Ours> {
        Some(self)
    }
}

impl Ours for PlantedOurs {
    fn idle(&self, _: Inherited, run: &Run, _: u32) -> Result<Report, Error> {
        run.at_the_start()?;
        run.until_the_end()
    }

    fn contact(&self, inherited: Inherited, run: &Run, times: u32) -> Result<Report, Error> {
        let mut pipe = Bytes::pair(inherited, run)?;
        run.at_the_start()?;
        let mut report = Report::default();
        for number in 0..times {
            let request = Message::request(u64::from(number));
            let mut answer = Message::default();
            pipe.trip(&request, &mut answer)?;
            answer.check_answer(&request, run.bytes())?;
            report.samples.record(2_000);
            report.binds.record(1_000);
        }
        pipe.stop()?;
        Ok(report)
    }

    fn straight(&self, _: Inherited, run: &Run, trips: u64) -> Result<Report, Error> {
        run.at_the_start()?;
        let sum = (0..trips).fold(0, |sum, trip| std::hint::black_box(sum ^ trip));
        Ok(Report { trips, switches: sum, ..Report::default() })
    }

    fn mesh(&self, inherited: Inherited, run: &Run, endpoints: u32) -> Result<Report, Error> {
        self.idle(inherited, run, endpoints)
    }

    fn keep(&self, _: &Inherited) -> Result<(), Error> {
        Ok(())
    }

    fn memory(&self, _: &Site) -> Result<Memory, Error> {
        Ok(Memory { link_bytes: 4_096, ..Memory::default() })
    }
}
