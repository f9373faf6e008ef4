//! What a supervisor asks of a peer process and what it gets back, as JSON:
//! the job as an argument, the answers as lines on the peer's standard output.

use std::fmt;
use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::stats::Samples;
use crate::{area, copy, phases, sock};

/// The kinds of round trip of the source paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Client send, server receive; server send, client receive.
    Ipc1,
    /// Client sendrec; server receive, send.
    Ipc2,
    /// Notify and receive, both ways: no payload; one byte where a mechanism must carry something.
    Ipc3,
}

/// How a side waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// It looks again and again, and never leaves the CPU.
    Spin,
    /// It looks, and yields the CPU between two looks.
    Yield,
    /// It sleeps in the kernel.
    Block,
    /// It spins for as long as that pays, then sleeps.
    Adaptive,
}

/// Where the two sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Both pinned to one CPU.
    SameCpu,
    /// Each pinned to its own.
    TwoCpus,
    /// Where the kernel puts them.
    Any,
}

/// The name of a variant as JSON shows it.
macro_rules! shown {
    ($($kind:ident { $($variant:ident = $name:literal),* })*) => {$(
        impl $kind {
            /// Its name in tables and JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}
shown! {
    Work { Ipc1 = "ipc1", Ipc2 = "ipc2", Ipc3 = "ipc3" }
    Wait { Spin = "spin", Yield = "yield", Block = "block", Adaptive = "adaptive" }
    Placement { SameCpu = "same-cpu", TwoCpus = "two-cpus", Any = "any" }
}

/// The two sides of a conversation, and those who only look on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// Asks, and keeps the time.
    Client,
    /// Answers until it gets the stop message.
    Server,
    /// Has the block that a third process copies.
    Source,
    /// Is bound to the server and says nothing while others are measured.
    Idle,
}

/// What a peer is to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Round trips, for a time or up to a number.
    Trips {
        /// One trip at each multiple of this, the server asleep in between; back to back where absent.
        pace_ns: Option<u64>,
        /// For how long.
        span_ns: u64,
        /// Where present: to the end of the block (a few hundred trips at most) that reaches so many.
        limit: Option<u64>,
    },
    /// The server takes one request and kills itself; the client waits for its error.
    Death {
        /// Memory of its own that the server has touched, in MB.
        own_mb: u32,
    },
    /// One trip, by sides that were started for it.
    First,
    /// The client binds and makes first contact so many times.
    Contact {
        /// How often.
        times: u32,
    },
    /// So many clients are bound, each makes one trip, then all keep still.
    Idle {
        /// How many.
        clients: u32,
    },
    /// Both halves of so many trips in one process without any wait, to be counted from outside.
    Straight {
        /// How many.
        trips: u64,
    },
    /// So many endpoints are bound and linked with all others, then all keep still.
    Mesh {
        /// How many.
        endpoints: u32,
    },
    /// Copies blocks, each a trip of the client's.
    Copy(copy::Shape),
    /// Maps, takes or hands over memory.
    Area(area::Shape),
    /// Round trips that are cut into phases.
    Phases(phases::Shape),
    /// Is one side of a socket.
    Sock(sock::Shape),
    /// Keeps the node of a run until the supervisor's end.
    Keeper,
    /// Waits for the supervisor's end and then removes the System V queue that is named.
    Janitor,
}

impl Task {
    /// Pace, span and limit of the trips that a client makes, where it makes any.
    #[must_use]
    pub fn window(&self) -> Option<(Option<u64>, u64, Option<u64>)> {
        match *self {
            Self::Trips { pace_ns, span_ns, limit } => Some((pace_ns, span_ns, limit)),
            Self::Copy(shape) => Some((None, shape.span_ns, None)),
            Self::Area(shape) => Some((None, shape.span_ns, None)),
            Self::Sock(shape) => Some(shape.window()),
            _ => None,
        }
    }
}

/// Everything a peer process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Name of the mechanism.
    pub mechanism: String,
    /// Which side to be.
    pub side: Side,
    /// The kind of round trip.
    pub work: Work,
    /// How to wait.
    pub wait: Wait,
    /// Size of the payload in bytes: 48, 1, or 0 where only the fact travels.
    pub bytes: usize,
    /// The CPU to pin to, if any.
    pub cpu: Option<usize>,
    /// Inherited descriptors, in the order in which the mechanism opened them.
    pub fds: Vec<RawFd>,
    /// What has a name instead of a descriptor.
    pub names: Vec<String>,
    /// How to read time.
    pub clock: Clock,
    /// What to do.
    pub task: Task,
}

/// What one peer measured. A field that its task does not fill stays empty.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Round trips in all, those before the measured window included.
    pub trips: u64,
    /// CPU time of this process for all of them.
    pub cpu_ns: u64,
    /// Voluntary context switches of this process for all of them.
    pub switches: u64,
    /// Round trips inside the measured window.
    pub window_trips: u64,
    /// Length of that window.
    pub window_ns: u64,
    /// Times of single trips (of first contacts, in that task), in nanoseconds.
    pub samples: Samples,
    /// Mean time per trip of each block that was timed as a whole, in nanoseconds.
    pub blocks_ns: Vec<f64>,
    /// Times of the trips that were stamped, of those who stamp for themselves.
    #[serde(default)]
    pub stamped: Samples,
    /// Times of binds, in nanoseconds.
    pub binds: Samples,
    /// Memory that an idle client's endpoint took, in bytes.
    pub bytes: u64,
    /// CLOCK_MONOTONIC when the awaited error came, or the first answer.
    pub error_at_ns: u64,
    /// Bells that this side of a com-socket rang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bells: Option<u64>,
    /// Stamps of single trips, of those who stamp for themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stamps: Vec<[u64; 8]>,
}

/// One line that a peer writes.
#[derive(Debug, Serialize, Deserialize)]
pub enum Line {
    /// It stands at the start.
    Ready,
    /// It will kill itself at this CLOCK_MONOTONIC time.
    DiesAt(u64),
    /// It is done.
    Report(Box<Report>),
    /// It has failed.
    Failed(String),
    /// The other side has gone; why, the other side may say.
    Gone,
    /// This machine cannot do it.
    Unavailable(String),
}
