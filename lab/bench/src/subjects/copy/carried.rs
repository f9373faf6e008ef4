//! Blocks through the kernel: the sender writes, the receiver reads and confirms.
//!
//! ```text
//! copy1    requester ──block──> destination ──number──> requester
//! copy2    requester ──number──> source ──block──> destination ──number──> requester
//! stream   requester ──block──> destination, which confirms only the last block
//! ```

use std::os::fd::OwnedFd;

use m3ipc_report::schema::Wait;
use rustix::io::Errno;

use super::block::{self, LAST, PrivateBlock};
use crate::ends::ClientEnd;
use crate::error::Error;
use crate::job::{Load, Report, Role, Test};
use crate::payload::Message;
use crate::raw::{self, copies, queues};
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::channel::{self, Channel, Ends, get_all, put_all, receive_exactly};

/// Bytes of a message that carries a number.
const NUMBER_BYTES: usize = 8;

/// A mechanism of the kernel that carries blocks.
#[derive(Clone, Copy)]
pub struct Carrier {
    name: &'static str,
    /// The size of the largest block.
    most: fn() -> usize,
    /// Whether its blocks can go without an answer.
    streams: bool,
    /// A channel for blocks of this size there, and of that size back.
    open: fn(usize, usize) -> Result<Ends, Error>,
    /// Sends a number that its sender may overwrite at once.
    put_number: fn(&OwnedFd, &[u8]) -> Result<(), Error>,
    put: fn(&OwnedFd, &[u8]) -> Result<(), Error>,
    get: fn(&OwnedFd, &mut [u8]) -> Result<(), Error>,
    /// Whether the destination spoils the last block, for the test of the check.
    spoils: bool,
}

const PIPE: Carrier = Carrier {
    name: "pipe",
    most: || usize::MAX,
    streams: true,
    open: |_, _| channel::pipes(),
    put_number: put_all,
    put: put_all,
    get: get_all,
    spoils: false,
};

/// The carriers.
pub const ALL: [Carrier; 5] = [
    PIPE,
    // A page in a pipe must stay unchanged until its reader has it, and a stream never asks.
    Carrier { name: "vmsplice", streams: false, put: splice_all, ..PIPE },
    Carrier { name: "unix-stream", open: |_, _| channel::unix_stream(), ..PIPE },
    Carrier { name: "tcp", open: |_, _| channel::tcp(), ..PIPE },
    Carrier {
        name: "posix-mq",
        most: queue_limit,
        open: channel::posix_queues,
        put_number: queue_put,
        put: queue_put,
        get: |from, bytes| {
            let length = bytes.len();
            receive_exactly(from, bytes, length)
        },
        ..PIPE
    },
];

/// A pipe whose destination spoils the last block.
pub const PLANTED: Carrier = Carrier { name: "planted-copy", spoils: true, ..PIPE };

fn splice_all(to: &OwnedFd, bytes: &[u8]) -> Result<(), Error> {
    copies::splice_to(to, bytes).map_err(|error| match error {
        Errno::PIPE => Error::PeerGone,
        error => Error::os("vmsplice")(error),
    })
}

fn queue_put(to: &OwnedFd, bytes: &[u8]) -> Result<(), Error> {
    queues::posix_send(to, bytes).map_err(Error::os("mq_send"))
}

/// The kernel's limit for a message.
fn queue_limit() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/fs/mqueue/msgsize_max").unwrap_or_default();
    limit.trim().parse().unwrap_or(8_192)
}

impl Subject for Carrier {
    fn name(&self) -> &'static str {
        self.name
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        let fits = load.bytes <= (self.most)() && (self.streams || load.test != Test::Stream);
        if fits { &[Wait::Block] } else { &[] }
    }

    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        let blocks = (self.open)(load.bytes, NUMBER_BYTES)?;
        if !matches!(load.test, Test::Copy2 { .. }) {
            return Ok(Opened::pair(blocks.0.into_inherited(), blocks.1.into_inherited()));
        }
        // Three channels, each used in one direction.
        let (request, requests) = (self.open)(NUMBER_BYTES, NUMBER_BYTES)?;
        let (confirm, confirmed) = (self.open)(NUMBER_BYTES, NUMBER_BYTES)?;
        let crossed = |input, output| Channel { input, output }.into_inherited();
        Ok(Opened::default()
            .with(Role::Server, crossed(blocks.1.input, confirmed.output))
            .with(Role::Source, crossed(requests.input, blocks.0.output))
            .with(Role::Client, crossed(confirm.input, request.output)))
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let end = End { carrier: *self, channel: Channel::from_inherited(inherited)? };
        let (bytes, test) = (run.load().bytes, run.load().test);
        let skew = block::skews(test);
        match run.job().role {
            Role::Client if matches!(test, Test::Copy2 { .. }) => run.drive(Requester(end)),
            Role::Client => {
                let mut from = PrivateBlock::new(bytes, skew.0)?;
                block::fill(from.bytes_mut());
                run.drive(Sender { end, from, is_awaited: test != Test::Stream })
            }
            Role::Source => source(run, &end, PrivateBlock::new(bytes, skew.0)?),
            _ => destination(run, &end, PrivateBlock::new(bytes, skew.1)?),
        }
    }
}

/// One end of a carrier.
struct End {
    carrier: Carrier,
    channel: Channel,
}

impl End {
    #[inline]
    fn put(&self, block: &PrivateBlock) -> Result<(), Error> {
        (self.carrier.put)(&self.channel.output, block.bytes())
    }

    #[inline]
    fn put_number(&self, number: u64) -> Result<(), Error> {
        (self.carrier.put_number)(&self.channel.output, &number.to_le_bytes())
    }

    #[inline]
    fn get_number(&self) -> Result<u64, Error> {
        let mut number = [0; NUMBER_BYTES];
        (self.carrier.get)(&self.channel.input, &mut number)?;
        Ok(u64::from_le_bytes(number))
    }

    /// Waits until the destination confirms this block.
    #[inline]
    fn confirmed(&self, trip: u64) -> Result<(), Error> {
        match self.get_number()? {
            number if number == trip => Ok(()),
            // The destination found its last block wrong and reports that itself.
            0 if trip == LAST => Err(Error::PeerGone),
            got => Err(Error::Payload { trip, word: 0, got, wanted: trip }),
        }
    }
}

fn destination(run: &Run, end: &End, mut to: PrivateBlock) -> Result<Report, Error> {
    run.at_the_start()?;
    let before = raw::usage();
    let mut trips = 0;
    loop {
        (end.carrier.get)(&end.channel.input, to.bytes_mut())?;
        let number = block::number(to.bytes())?;
        if number == LAST {
            break;
        }
        trips += 1;
        if run.load().test != Test::Stream {
            end.put_number(number)?;
        }
    }
    let report = Report { trips, ..Report::since(before) };
    if end.carrier.spoils {
        to.bytes_mut()[run.load().bytes / 2] ^= 1;
    }
    let checked = block::check_last(to.bytes());
    end.put_number(if checked.is_ok() { LAST } else { 0 })?;
    checked.map(|()| report)
}

fn source(run: &Run, end: &End, mut from: PrivateBlock) -> Result<Report, Error> {
    block::fill(from.bytes_mut());
    run.at_the_start()?;
    let before = raw::usage();
    loop {
        let number = end.get_number()?;
        if number == LAST {
            block::fill_last(from.bytes_mut());
        } else {
            block::stamp(from.bytes_mut(), number);
        }
        end.put(&from)?;
        if number == LAST {
            break;
        }
    }
    // The reader of a pipe may not have its pages yet: the memory must not be reused.
    std::mem::forget(from);
    Ok(Report::since(before))
}

/// Sends its own blocks.
struct Sender {
    end: End,
    from: PrivateBlock,
    is_awaited: bool,
}

impl ClientEnd for Sender {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        block::stamp(self.from.bytes_mut(), request.number());
        self.end.put(&self.from)?;
        if self.is_awaited { self.end.confirmed(request.number()) } else { Ok(()) }
    }

    fn stop(&mut self) -> Result<(), Error> {
        block::fill_last(self.from.bytes_mut());
        self.end.put(&self.from)?;
        self.end.confirmed(LAST)
    }
}

/// Requests blocks of a third process.
struct Requester(End);

impl ClientEnd for Requester {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        self.0.put_number(request.number())?;
        self.0.confirmed(request.number())
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.0.put_number(LAST)?;
        self.0.confirmed(LAST)
    }
}
