//! Tracing a VM from outside: each message with its stamps, as it happens.
//!
//! A [`Trace`] is a connection to the daemon and one ring per endpoint, which that endpoint alone
//! writes. A ring keeps the latest records. A slow reader loses the oldest records and sees how
//! many. A drop of the trace, or the end of its process, ends the stamping.
//!
//! ```
//! # let test = m3ipc::test::node();
//! # let (server, mut client) = test.pair();
//! # let to = server.address();
//! # let thread = m3ipc::test::serve(server, |request| request);
//! # let mut node = m3ipc::Node::attach_at(test.directory())?;
//! # let vm = test.vm();
//! use m3ipc::trace::{Join, TraceConfig};
//!
//! let mut trace = node.trace(vm.id(), TraceConfig::default())?;
//! let mut join = Join::new(10_000);
//! # client.sendrec(to, &m3ipc::Message::new(7))?;
//! trace.poll(|endpoint, record| join.add(endpoint, &record))?;
//! for call in join.take_calls() {
//!     println!("{} called {}: {} ticks", call.request.from, call.request.to, call.ticks());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod join;
mod phases;
mod transfer;

pub use join::{Call, Join};
pub use m3ipc_link::{MessageKind, TRACE_SLOTS, TraceHalf, TraceRecord, TraceWhat};
pub use m3ipc_sys::{StampScale, stamp};
pub use phases::{CallPhases, Phases};
pub use transfer::Transfer;

pub use crate::endpoint::{SLOTS_DEFAULT, StampCost, cost};

use crate::control::{Control, IfAbsent};
use crate::error::{Fail, NodeError};
use m3ipc_abi::{Address, Code};
use m3ipc_link::TraceView;
use m3ipc_wire::{DaemonEvent, Request, TraceEvent, TraceRequest};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// How a VM is traced. The example is at [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    /// Records of a ring: at most [`TRACE_SLOTS`], and rounded to a power of two.
    pub slots: u32,
    /// Whether a stamp waits for all earlier instructions: more exact, at twice the cost.
    pub sharp: bool,
}

impl Default for TraceConfig {
    fn default() -> Self {
        Self { slots: SLOTS_DEFAULT, sharp: false }
    }
}

/// One endpoint that is or was traced.
#[derive(Debug)]
struct Ring {
    address: Address,
    pid: i32,
    view: TraceView,
    gone: bool,
}

/// The state of an endpoint's ring. The example is at [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The endpoint.
    pub address: Address,
    /// Its process.
    pub pid: i32,
    /// Records that were overwritten before they were read.
    pub lost: u64,
    /// Entries that are no records: their owner breaks the rules.
    pub broken: u64,
}

/// A traced VM. A drop ends the tracing.
///
/// ```
/// # let test = m3ipc::test::node();
/// # let (server, mut client) = test.pair();
/// # let to = server.address();
/// # let thread = m3ipc::test::serve(server, |request| request);
/// # let mut node = m3ipc::Node::attach_at(test.directory())?;
/// # let vm = test.vm();
/// use m3ipc::trace::TraceConfig;
///
/// let config = TraceConfig { slots: 1024, ..TraceConfig::default() };
/// let mut trace = node.trace(vm.id(), config)?;
/// # client.sendrec(to, &m3ipc::Message::new(7))?;
/// trace.poll(|endpoint, record| println!("{endpoint}: {record:?}"))?;
/// for traced in trace.traced() {
///     println!("{} of process {}: {} records lost", traced.address, traced.pid, traced.lost);
/// }
/// assert_eq!((trace.lost(), trace.broken(), trace.missed()), (0, 0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    control: Control,
    rings: Vec<Ring>,
    /// Lost and broken records of endpoints that are gone.
    former: (u64, u64),
    unmapped: u32,
}

impl Trace {
    pub(crate) fn begin(directory: &Path, vm: i32, config: TraceConfig) -> Result<Self, Fail> {
        let mut control = Control::connect(directory, IfAbsent::Revive)?;
        let TraceConfig { slots, sharp } = config;
        control.request(&Request::Trace(TraceRequest::Begin { vm, slots, sharp }))?;
        Ok(Self { control, rings: Vec::new(), former: (0, 0), unmapped: 0 })
    }

    /// Receives the events about endpoints, then gives `take` every record since the last call:
    /// each endpoint's in order, at most one ring of each. Never waits. Returns the number of
    /// records. The example is at [`Trace`].
    ///
    /// # Errors
    /// [`NodeError::NotRunning`] if the daemon has ended: the trace is over, and must begin anew.
    pub fn poll(&mut self, mut take: impl FnMut(Address, TraceRecord)) -> Result<u64, NodeError> {
        self.receive_events().map_err(|fail| match fail.code {
            Code::NotConn => {
                Fail::new(Code::DrvsInit, "the node daemon has gone, and the trace with it")
            }
            _ => fail,
        })?;
        let mut read = 0;
        for ring in &mut self.rings {
            let address = ring.address;
            read += ring.view.read(|record| take(address, record));
        }
        let (lost, broken) = &mut self.former;
        self.rings.retain(|ring| {
            if ring.gone {
                *lost = lost.saturating_add(ring.view.lost());
                *broken = broken.saturating_add(ring.view.broken());
            }
            !ring.gone
        });
        Ok(read)
    }

    fn receive_events(&mut self) -> Result<(), Fail> {
        while let Some((event, fds, _)) = self.control.next_event()? {
            match event {
                DaemonEvent::Trace(TraceEvent::Ring { address, pid }) => {
                    let memory = fds.into_iter().next();
                    match memory.and_then(|memory| TraceView::map(memory).ok()) {
                        Some(view) => {
                            self.rings.push(Ring {
                                address: Address(address),
                                pid,
                                view,
                                gone: false,
                            });
                        }
                        None => self.unmapped += 1,
                    }
                }
                DaemonEvent::Trace(TraceEvent::Gone { address }) => {
                    let of_it = |ring: &&mut Ring| ring.address.0 == address;
                    self.rings.iter_mut().filter(of_it).for_each(|ring| ring.gone = true);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The endpoints whose rings are mapped here. The example is at [`Trace`].
    pub fn traced(&self) -> impl Iterator<Item = Traced> + '_ {
        self.rings.iter().map(|ring| Traced {
            address: ring.address,
            pid: ring.pid,
            lost: ring.view.lost(),
            broken: ring.view.broken(),
        })
    }

    /// Records of all endpoints so far that were overwritten before they were read. The example is
    /// at [`Trace`].
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.rings.iter().fold(self.former.0, |sum, ring| sum.saturating_add(ring.view.lost()))
    }

    /// Entries of all rings so far that are no records. The example is at [`Trace`].
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.rings.iter().fold(self.former.1, |sum, ring| sum.saturating_add(ring.view.broken()))
    }

    /// Rings that could not be mapped here: this process has no memory or no descriptor for them.
    /// The example is at [`Trace`].
    #[must_use]
    pub fn missed(&self) -> u32 {
        self.unmapped
    }
}

/// Readable when an endpoint comes or goes; not when records are written.
impl AsFd for Trace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}
