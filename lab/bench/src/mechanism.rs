//! What is measured: one file per mechanism, all behind one trait.
//!
//! A mechanism opens its transport in the supervisor. Two peer processes (the
//! same binary, executed again) inherit the descriptors or are told names, and
//! each runs one side. The loops that keep time and check payloads are in
//! `peer`, generic over [`ClientEnd`] and [`ServerEnd`], so that no indirect
//! call stands inside a round trip.

mod bounce;
mod bytes;
mod eventfd;
mod fifo;
mod futex;
pub mod outside;
mod pipe;
mod planted;
mod posix_mq;
mod sched_yield;
mod sysv_mq;
mod tcp;
mod unix;

use std::any::Any;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub use sysv_mq::remove_queue;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::job::{Report, Wait, Work};
use crate::ours::{self, Ours};
use crate::payload::{MESSAGE_BYTES, Message};
use crate::peer::Run;

/// What a mechanism stands for in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// m3ipc.
    Ours,
    /// What the kernel offers to everybody.
    Kernel,
    /// The least that any mechanism of this shape can cost here.
    Floor,
    /// A library of others.
    Peer,
}

impl Family {
    /// What the last column of a table says.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Ours => "<- ours",
            Self::Floor => "floor",
            Self::Kernel => "",
            Self::Peer => "library",
        }
    }
}

/// Where peers come from.
#[derive(Clone, Debug)]
pub struct Site {
    /// The binary that answers to `__peer`.
    pub exe: PathBuf,
}

/// What both sides need, opened before either exists.
#[derive(Default)]
pub struct Transport {
    /// Descriptors that only the client inherits.
    pub client: Vec<OwnedFd>,
    /// Descriptors that only the server inherits.
    pub server: Vec<OwnedFd>,
    /// What has a name instead of a descriptor; both are told.
    pub names: Vec<String>,
    /// What must live for as long as the measurement.
    pub keep: Vec<Box<dyn Any>>,
}

/// What one side got from its [`Transport`].
pub struct Inherited {
    /// The descriptors, in order.
    pub fds: Vec<OwnedFd>,
    /// The names.
    pub names: Vec<String>,
}

impl Inherited {
    /// The next descriptor.
    ///
    /// # Errors
    /// Where the supervisor passed fewer.
    pub fn take(&mut self) -> Result<OwnedFd, Error> {
        if self.fds.is_empty() {
            return Err(Error::Usage("the supervisor passed too few descriptors".into()));
        }
        Ok(self.fds.remove(0))
    }
}

/// The client's half of a conversation.
pub trait ClientEnd {
    /// One round trip: sends the request, waits for the answer.
    ///
    /// # Errors
    /// Where the transport failed or the server has gone.
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error>;

    /// The trip that ends the server.
    ///
    /// # Errors
    /// As for [`ClientEnd::trip`].
    fn stop(&mut self) -> Result<(), Error> {
        self.trip(&Message::stop(), &mut Message::default())
    }
}

/// The server's half of a conversation.
pub trait ServerEnd {
    /// Waits for the next request. Where no payload travels it sets `request`
    /// to [`Message::stop`] for the last one and leaves it alone otherwise.
    ///
    /// # Errors
    /// Where the transport failed or the client has gone.
    fn receive(&mut self, request: &mut Message) -> Result<(), Error>;

    /// Sends the answer.
    ///
    /// # Errors
    /// As for [`ServerEnd::receive`].
    fn send(&mut self, answer: &Message) -> Result<(), Error>;
}

/// A way for two processes to talk.
pub trait Mechanism: Sync {
    /// Its name in tables and JSON.
    fn name(&self) -> &'static str;

    /// What it stands for.
    fn family(&self) -> Family {
        Family::Kernel
    }

    /// The round trips it can do. For a kernel mechanism IPC1 and IPC2 are the same calls.
    fn works(&self) -> &'static [Work] {
        &[Work::Ipc1, Work::Ipc2, Work::Ipc3]
    }

    /// The ways of waiting it offers. One that spins is never put on one CPU.
    fn waits(&self) -> &'static [Wait] {
        &[Wait::Block]
    }

    /// Payload of this work in bytes: 48, 1 or 0.
    fn bytes(&self, work: Work) -> usize {
        if work == Work::Ipc3 { 1 } else { MESSAGE_BYTES }
    }

    /// Whether it belongs in paced measurements (the server asleep), in back-to-back ones, or both.
    fn paces(&self) -> Paces {
        Paces::Both
    }

    /// Whether a client is told that its server has died.
    fn tells_death(&self) -> bool {
        false
    }

    /// Opens what one pair needs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where this machine does not offer it.
    fn open(&self, site: &Site) -> Result<Transport, Error>;

    /// Opens what so many pairs need, which may share what is not measured (a daemon).
    ///
    /// # Errors
    /// As for [`Mechanism::open`].
    fn open_many(&self, site: &Site, pairs: usize) -> Result<Vec<Transport>, Error> {
        (0..pairs).map(|_| self.open(site)).collect()
    }

    /// Is the client: prepares its end, then `run.drive(end)`.
    ///
    /// # Errors
    /// Where the transport fails or a payload is wrong.
    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error>;

    /// Is the server: prepares its end, then `run.serve(end)`.
    ///
    /// # Errors
    /// As for [`Mechanism::client`].
    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error>;

    /// The binary that its peers are, where it is not the one that measures.
    fn exe(&self) -> Option<&Path> {
        None
    }

    /// Removes what its killed processes have left behind.
    fn tidy(&self) {}

    /// The further measurements that only m3ipc has.
    fn ours(&self) -> Option<&dyn Ours> {
        None
    }
}

/// Which tests a mechanism belongs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paces {
    /// Back to back only.
    Awake,
    /// Paced only.
    Asleep,
    /// Both.
    Both,
}

/// All mechanisms that are measured, ours first.
#[must_use]
pub fn all() -> Vec<&'static dyn Mechanism> {
    let mut all: Vec<&'static dyn Mechanism> = ours::mechanism().into_iter().collect();
    all.extend(FLOORS);
    all.extend(KERNEL);
    all
}

/// The mechanism of this name, those planted for tests included.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Mechanism> {
    let planted: [&'static dyn Mechanism; 2] = [&planted::Planted, &planted::PlantedOurs];
    all().into_iter().chain(planted).find(|mechanism| mechanism.name() == name)
}

const FLOORS: [&dyn Mechanism; 5] =
    [&bounce::Bounce, &bounce::Line, &sched_yield::SchedYield, &futex::Futex, &futex::FutexWake];

const KERNEL: [&dyn Mechanism; 8] = [
    &pipe::Pipe,
    &fifo::Fifo,
    &unix::Stream,
    &unix::Seqpacket,
    &tcp::Tcp,
    &posix_mq::PosixMq,
    &sysv_mq::SysvMq,
    &eventfd::EventFd,
];
