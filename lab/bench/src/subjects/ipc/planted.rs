//! Subjects for tests.
//!
//! ```text
//! planted-fault  a pipe whose server spoils one bit of the hundredth answer: the check finds it
//! planted-ours   a pipe that takes the tests of m3ipc alone: they reach their subject
//! ```

use m3ipc_report::schema::Wait;

use super::streams::{Bytes, PIPE};
use crate::ends::{ClientEnd, Exchange};
use crate::error::Error;
use crate::job::{Load, Report, Role, Test};
use crate::payload::Message;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};

/// A pipe with a fault.
pub struct Fault;
/// A pipe in place of m3ipc.
pub struct Ours;

impl Subject for Fault {
    fn name(&self) -> &'static str {
        "planted-fault"
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        PIPE.waits(load)
    }

    fn bytes(&self, load: &Load) -> usize {
        PIPE.bytes(load)
    }

    fn open(&self, site: &Site, load: &Load) -> Result<Opened, Error> {
        PIPE.open(site, load)
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let pipe = Bytes::new(run, inherited)?;
        run.exchange(Spoiler { pipe, spoils: !run.is_client(), sent: 0 })
    }
}

struct Spoiler {
    pipe: Bytes,
    spoils: bool,
    sent: u32,
}

impl Exchange for Spoiler {
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        self.sent += 1;
        let mut message = *message;
        if self.spoils && self.sent == 100 {
            message.bytes_mut()[0] ^= 1;
        }
        self.pipe.put(&message)
    }

    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        self.pipe.get(message)
    }
}

impl Subject for Ours {
    fn name(&self) -> &'static str {
        "planted-ours"
    }

    fn waits(&self, _: &Load) -> &'static [Wait] {
        &[Wait::Block]
    }

    fn bytes(&self, load: &Load) -> usize {
        PIPE.bytes(load)
    }

    fn open(&self, site: &Site, load: &Load) -> Result<Opened, Error> {
        match load.test {
            Test::Straight => Ok(Opened::alone(Inherited::default())),
            Test::Clients => {
                let mut pair = PIPE.open(site, &Load { count: 1, ..*load })?.parties.into_iter();
                let (server, client) = pair.next().zip(pair.next()).ok_or(Error::PeerGone)?;
                let opened = Opened::default().with(Role::Server, server.inherited);
                let opened = opened.then(Role::Idle, Inherited::default());
                Ok(opened.then(Role::Client, client.inherited))
            }
            _ => PIPE.open(site, load),
        }
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        match (run.load().test, run.job().role) {
            (_, Role::Idle) => {
                run.at_the_start()?;
                run.until_the_end()
            }
            (Test::Contact, Role::Client) => contact(run, Bytes::new(run, inherited)?),
            (Test::Straight, _) => {
                run.at_the_start()?;
                let trips = run.load().limit.unwrap_or(0);
                let switches = (0..trips).fold(0, |sum, trip| std::hint::black_box(sum ^ trip));
                Ok(Report { trips, switches, ..Report::default() })
            }
            _ => PIPE.run(run, inherited),
        }
    }
}

fn contact(run: &Run, mut pipe: Bytes) -> Result<Report, Error> {
    run.at_the_start()?;
    let mut report = Report::default();
    for number in 0..run.load().limit.unwrap_or(0) {
        let (request, mut answer) = (Message::request(number), Message::default());
        pipe.trip(&request, &mut answer)?;
        answer.check_answer(&request, run.load().bytes)?;
        report.samples.record(2_000);
        report.second.record(1_000);
    }
    pipe.stop()?;
    Ok(report)
}
