//! The request of a supervisor to a measured process, and its report, as JSON.
//!
//! The job is an argument of the process. Its answers are lines on its standard output.

use std::os::fd::RawFd;

use m3ipc_report::schema::Wait;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::raw::{self, Usage};
use crate::samples::Samples;

/// A suite: the tests that share subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuiteName {
    /// Messages.
    Ipc,
    /// Copies of blocks.
    Copy,
    /// Shared memory.
    Area,
    /// Sockets.
    Sock,
    /// Phases of a round trip.
    Phases,
}

/// The payload of a trip that is cut into phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carries {
    /// The 48 bytes of a message, inline.
    Short,
    /// A long payload in the link, beside the message.
    Long,
    /// A block of an area, handed over and back.
    Block,
    /// A message with the address from which the server copies.
    Vcopy,
    /// No payload.
    Nothing,
}

impl Carries {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long",
            Self::Block => "block",
            Self::Vcopy => "vcopy",
            Self::Nothing => "none",
        }
    }
}

/// The work of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Test {
    /// Client send, server receive; server send, client receive.
    Ipc1,
    /// Client sendrec; server receive, send.
    Ipc2,
    /// Notify and receive, both ways.
    Ipc3,
    /// IPC2 of one client among [`Load::count`] bound clients.
    Clients,
    /// The server takes one request and kills itself; the client waits for its error.
    Death {
        /// Memory that the server has touched, in MB.
        own_mb: u32,
    },
    /// IPC2 of sides that were started for one trip.
    Restart,
    /// Binds and first contacts.
    Contact,
    /// IPC2 of two threads of one process on one CPU, for a counter of instructions.
    Straight,
    /// [`Load::count`] endpoints, each linked with all others.
    Mesh,
    /// From the requester's memory into another process.
    Copy1 {
        /// Whether both ends begin at a page.
        aligned: bool,
    },
    /// From one process into another, requested by a third.
    Copy2 {
        /// Whether both ends begin at a page.
        aligned: bool,
    },
    /// Blocks of [`Test::Copy1`], none awaited.
    Stream,
    /// Memory of another process comes into this process.
    Attach,
    /// A block goes to another process and comes back.
    HandOver,
    /// One of many blocks is freed, another one allocated.
    Pool,
    /// Messages one way, none awaited.
    SockStream,
    /// Requests and answers, back to back.
    SockTrip,
    /// Requests and answers, the server asleep in between.
    SockAsleep,
    /// Requests and answers on many connections in turn; the server uses epoll.
    SockEpoll,
    /// Connections.
    SockConnect,
    /// Bytes one way between two programs that are not ours.
    SockBulk,
    /// Round trips cut into phases.
    Phases {
        /// The payload.
        carries: Carries,
        /// Whether the server uses its queue of senders even for a single sender.
        queued: bool,
    },
    /// [`Load::count`] clients of one process call the server at the same time.
    Fairness,
    /// Cleans up after the supervisor.
    Guard,
}

impl Test {
    /// The suite of the test.
    pub const fn suite(self) -> SuiteName {
        match self {
            Self::Copy1 { .. } | Self::Copy2 { .. } | Self::Stream => SuiteName::Copy,
            Self::Attach | Self::HandOver | Self::Pool => SuiteName::Area,
            Self::SockStream
            | Self::SockTrip
            | Self::SockAsleep
            | Self::SockEpoll
            | Self::SockConnect
            | Self::SockBulk => SuiteName::Sock,
            Self::Phases { .. } => SuiteName::Phases,
            _ => SuiteName::Ipc,
        }
    }

    /// Whether a trip carries a checked message.
    pub const fn is_message(self) -> bool {
        matches!(self, Self::Ipc1 | Self::Ipc2 | Self::Ipc3 | Self::Clients)
    }

    /// Whether the test is a call of IPC2, alone or among other steps.
    pub const fn is_ipc2(self) -> bool {
        matches!(self, Self::Ipc2 | Self::Death { .. } | Self::Restart)
    }
}

/// A test with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The test.
    pub test: Test,
    /// Payload each way, or size of the block.
    pub bytes: usize,
    /// Pairs at once, connections, bound clients, or endpoints.
    pub count: u32,
    /// Length of the measured window.
    pub span_ns: u64,
    /// Time before the window.
    pub warm_ns: u64,
    /// One trip at each multiple of this; back to back without it.
    pub pace_ns: Option<u64>,
    /// The end of the window before its time: trips, bytes of a stream, connections, repetitions.
    pub limit: Option<u64>,
}

impl Load {
    /// A load of one pair without a window.
    pub const fn new(test: Test, bytes: usize) -> Self {
        Self { test, bytes, count: 1, span_ns: 0, warm_ns: 0, pace_ns: None, limit: None }
    }

    /// The load with this window.
    pub const fn over(self, span_ns: u64, warm_ns: u64) -> Self {
        Self { span_ns, warm_ns, ..self }
    }

    /// The load with this limit.
    pub const fn limited(self, limit: u64) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// The number of pairs, connections, clients or endpoints.
    pub fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }
}

/// The part of a process in a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Requests, and keeps the time.
    Client,
    /// Answers until the stop message.
    Server,
    /// Owns the block that a third process copies.
    Source,
    /// Is bound to the server and stays idle.
    Idle,
}

/// The request to a measured process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Name of the subject.
    pub subject: String,
    /// The part of the process.
    pub role: Role,
    /// How to wait.
    pub wait: Wait,
    /// The work.
    pub load: Load,
    /// The CPU to pin to, if any.
    pub cpu: Option<usize>,
    /// Inherited descriptors, in the order of [`crate::subject::Inherited`].
    pub fds: Vec<RawFd>,
    /// Names in place of descriptors.
    pub names: Vec<String>,
    /// How to read time.
    pub clock: Clock,
}

/// How long a client waited for its answers, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ClientWaits {
    /// The mean.
    pub mean: f64,
    /// The longest wait.
    pub longest: f64,
}

/// The measurement of one process. Fields that a test does not fill stay empty.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// All round trips, those before the window included.
    pub trips: u64,
    /// CPU time of this process for all trips.
    pub cpu_ns: u64,
    /// Voluntary context switches of this process for all trips.
    pub switches: u64,
    /// Round trips inside the window.
    pub window_trips: u64,
    /// Length of the window.
    pub window_ns: u64,
    /// Times of single trips.
    pub samples: Samples,
    /// Mean time per trip of each block that was timed as a whole, in nanoseconds.
    pub blocks_ns: Vec<f64>,
    /// Times of the trips with stamps, for phases.
    #[serde(default)]
    pub stamped: Samples,
    /// Times of a second kind: of binds, or to the first answer of a connection.
    pub second: Samples,
    /// Memory of an idle client's endpoint, in bytes.
    pub bytes: u64,
    /// The waits of each of many clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_ns: Vec<ClientWaits>,
    /// CLOCK_MONOTONIC at the awaited error, or at the first answer.
    pub ended_at_ns: u64,
    /// Wakeups that this side of a com-socket sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bells: Option<u64>,
    /// Stamps of single trips, for phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stamps: Vec<[u64; 8]>,
}

impl Report {
    /// A report of the resources that this process has used since then.
    pub fn since(before: Usage) -> Self {
        let mut report = Self::default();
        report.add_usage(before);
        report
    }

    /// Adds the resources that this process has used since then.
    pub fn add_usage(&mut self, before: Usage) {
        let now = raw::usage();
        self.cpu_ns += now.cpu_ns - before.cpu_ns;
        self.switches += now.voluntary_switches - before.voluntary_switches;
    }
}

/// A line from a measured process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Line {
    /// The process waits for the start.
    Ready,
    /// The process will kill itself at this CLOCK_MONOTONIC time.
    DiesAt(u64),
    /// The process has finished.
    Report(Box<Report>),
    /// The process has failed.
    Failed(String),
    /// The other side has ended; the other side may give the reason.
    Gone,
    /// This machine cannot make the measurement.
    Unavailable(String),
}
