//! Blocks through the kernel: the sender writes, the receiver reads into its own memory and says so.
//!
//! ```text
//! copy1    requester ──block──> destination ──number──> requester
//! copy2    requester ──number──> source ──block──> destination ──number──> requester
//! stream   requester ──block──> destination, which answers the last one only
//! ```

use std::os::fd::OwnedFd;

use super::{Opened, Requester, Way, drive};
use crate::copy::buffer::{self, Buffer, LAST};
use crate::copy::{Kind, Shape};
use crate::error::Error;
use crate::job::{Report, Side};
use crate::mechanism::{Inherited, Site};
use crate::peer::Run;
use crate::raw;

/// Bytes of a message that carries a trip's number.
const NUMBER_BYTES: usize = 8;

/// One end of a connection: what it reads from and what it writes to.
pub struct Line {
    /// What comes.
    pub input: OwnedFd,
    /// What goes.
    pub output: OwnedFd,
}

/// Something of the kernel that carries bytes.
#[derive(Clone, Copy)]
pub struct Carried {
    /// Its name.
    pub name: &'static str,
    /// The copies it can make.
    pub kinds: &'static [Kind],
    /// The largest block.
    pub most: fn() -> usize,
    /// Two ends of a connection that carries blocks of so many bytes there, and so many back.
    pub lines: fn(usize, usize) -> Result<(Line, Line), Error>,
    /// Sends this number, which its sender may forget at once.
    pub tell: fn(&OwnedFd, &[u8]) -> Result<(), Error>,
    /// Sends all of this block.
    pub put: fn(&OwnedFd, &[u8]) -> Result<(), Error>,
    /// Fills all of this.
    pub get: fn(&OwnedFd, &mut [u8]) -> Result<(), Error>,
    /// Whether its destination spoils the last block, for the test of the check.
    pub lies: bool,
}

impl Way for Carried {
    fn name(&self) -> &'static str {
        self.name
    }

    fn kinds(&self) -> &'static [Kind] {
        self.kinds
    }

    fn most_bytes(&self) -> usize {
        (self.most)()
    }

    fn open(&self, _: &Site, shape: &Shape) -> Result<Opened, Error> {
        let inherited = |lines: [Line; 1]| Inherited {
            fds: lines.into_iter().flat_map(|line| [line.input, line.output]).collect(),
            names: vec![],
        };
        if shape.kind != Kind::Copy2 {
            let (requester, destination) = (self.lines)(shape.bytes, NUMBER_BYTES)?;
            let sides = vec![
                (Side::Server, inherited([destination])),
                (Side::Client, inherited([requester])),
            ];
            return Ok(Opened { sides, ..Opened::default() });
        }
        // Three connections, each used one way.
        let (asks, asked) = (self.lines)(NUMBER_BYTES, NUMBER_BYTES)?;
        let (sends, takes) = (self.lines)(shape.bytes, NUMBER_BYTES)?;
        let (says, hears) = (self.lines)(NUMBER_BYTES, NUMBER_BYTES)?;
        let crossed = |input: OwnedFd, output: OwnedFd| inherited([Line { input, output }]);
        let sides = vec![
            (Side::Server, crossed(takes.input, says.output)),
            (Side::Source, crossed(asked.input, sends.output)),
            (Side::Client, crossed(hears.input, asks.output)),
        ];
        Ok(Opened { sides, ..Opened::default() })
    }

    fn requester(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let line = line(inherited)?;
        if shape.kind == Kind::Copy2 {
            return drive(run, Asker { way: *self, line });
        }
        let mut from = Buffer::new(shape.bytes, shape.source_skew())?;
        buffer::fill(from.bytes_mut());
        drive(run, Sender { way: *self, line, from, is_awaited: shape.kind == Kind::Copy1 })
    }

    fn destination(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let line = line(inherited)?;
        let mut to = Buffer::new(shape.bytes, shape.destination_skew())?;
        run.at_the_start()?;
        let before = raw::usage();
        let mut trips = 0;
        loop {
            (self.get)(&line.input, to.bytes_mut())?;
            let number = buffer::number(to.bytes())?;
            if number == LAST {
                break;
            }
            trips += 1;
            if shape.kind != Kind::Stream {
                (self.tell)(&line.output, &number.to_le_bytes())?;
            }
        }
        let used = raw::usage();
        if self.lies {
            to.bytes_mut()[shape.bytes / 2] ^= 1;
        }
        let checked = buffer::check_last(to.bytes());
        (self.tell)(&line.output, &if checked.is_ok() { LAST } else { 0 }.to_le_bytes())?;
        checked.map(|()| Report {
            trips,
            cpu_ns: used.cpu_ns - before.cpu_ns,
            switches: used.voluntary_switches - before.voluntary_switches,
            ..Report::default()
        })
    }

    fn source(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let line = line(inherited)?;
        let mut from = Buffer::new(shape.bytes, shape.source_skew())?;
        buffer::fill(from.bytes_mut());
        run.at_the_start()?;
        let before = raw::usage();
        loop {
            let number = heard(self, &line)?;
            if number == LAST {
                buffer::fill_last(from.bytes_mut());
            } else {
                buffer::stamp(from.bytes_mut(), number);
            }
            (self.put)(&line.output, from.bytes())?;
            if number == LAST {
                break;
            }
        }
        // Pages that were given to a pipe may not have been read yet: nothing else may be put there.
        std::mem::forget(from);
        let used = raw::usage();
        Ok(Report {
            cpu_ns: used.cpu_ns - before.cpu_ns,
            switches: used.voluntary_switches - before.voluntary_switches,
            ..Report::default()
        })
    }
}

fn line(mut inherited: Inherited) -> Result<Line, Error> {
    Ok(Line { input: inherited.take()?, output: inherited.take()? })
}

/// The number that came.
fn heard(way: &Carried, line: &Line) -> Result<u64, Error> {
    let mut number = [0; NUMBER_BYTES];
    (way.get)(&line.input, &mut number)?;
    Ok(u64::from_le_bytes(number))
}

/// Waits until the destination says that it has this block.
fn known(way: &Carried, line: &Line, trip: u64) -> Result<(), Error> {
    match heard(way, line)? {
        number if number == trip => Ok(()),
        // The destination found its last block spoilt and says so itself.
        0 if trip == LAST => Err(Error::PeerGone),
        number => Err(Error::Payload { trip, word: 0, got: number, wanted: trip }),
    }
}

struct Sender {
    way: Carried,
    line: Line,
    from: Buffer,
    is_awaited: bool,
}

impl Requester for Sender {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        buffer::stamp(self.from.bytes_mut(), trip);
        (self.way.put)(&self.line.output, self.from.bytes())?;
        if self.is_awaited { known(&self.way, &self.line, trip) } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), Error> {
        buffer::fill_last(self.from.bytes_mut());
        (self.way.put)(&self.line.output, self.from.bytes())?;
        known(&self.way, &self.line, LAST)
    }
}

struct Asker {
    way: Carried,
    line: Line,
}

impl Requester for Asker {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        (self.way.tell)(&self.line.output, &trip.to_le_bytes())?;
        known(&self.way, &self.line, trip)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.copy(LAST)
    }
}
