//! Messages over descriptors that read(2) and write(2) use: pipes, FIFOs, sockets.

use m3ipc_report::schema::Wait;

use crate::ends::Exchange;
use crate::error::Error;
use crate::job::{Load, Report};
use crate::payload::Message;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::channel::{self, Channel, Ends, get_all, put_all};
use crate::subjects::messages;

/// A stream of the kernel.
pub struct Stream {
    name: &'static str,
    open: fn() -> Result<Ends, Error>,
}

/// The streams.
pub const ALL: [Stream; 5] = [
    PIPE,
    Stream { name: "fifo", open: channel::fifos },
    Stream { name: "unix-stream", open: channel::unix_stream },
    Stream { name: "unix-seqpacket", open: channel::unix_seqpacket },
    Stream { name: "tcp", open: channel::tcp },
];

/// Two anonymous pipes.
pub const PIPE: Stream = Stream { name: "pipe", open: channel::pipes };

impl Subject for Stream {
    fn name(&self) -> &'static str {
        self.name
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        messages::blocking(load)
    }

    fn bytes(&self, load: &Load) -> usize {
        messages::bytes(load)
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        Opened::pairs(load.count(), || {
            let (client, server) = (self.open)()?;
            Ok((client.into_inherited(), server.into_inherited()))
        })
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        run.exchange(Bytes::new(run, inherited)?)
    }
}

/// An end that reads and writes messages.
pub struct Bytes {
    channel: Channel,
    bytes: usize,
}

impl Bytes {
    /// The inherited end.
    pub fn new(run: &Run, inherited: Inherited) -> Result<Self, Error> {
        Ok(Self { channel: Channel::from_inherited(inherited)?, bytes: run.load().bytes })
    }
}

impl Exchange for Bytes {
    #[inline]
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        put_all(&self.channel.output, &message.bytes()[..self.bytes])
    }

    #[inline]
    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        get_all(&self.channel.input, &mut message.bytes_mut()[..self.bytes])
    }
}
