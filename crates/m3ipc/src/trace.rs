//! Tracing a VM from outside: who may look at it sees each message with its stamps, as it happens.
//!
//! A [`Trace`] is a connection to the daemon and a ring per endpoint, which that endpoint alone writes. Rings
//! keep the latest records; whoever reads too slowly loses the oldest and is told how many. Dropping it, or dying,
//! ends the stamping.
//!
//! ```no_run
//! use m3ipc::trace::{Join, TraceConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut node = m3ipc::Node::attach()?;
//! let vm = node.vm_named("shop")?;
//! let mut trace = node.trace(vm.id(), TraceConfig::default())?;
//! let mut join = Join::new(10_000);
//! trace.poll(|endpoint, record| join.add(endpoint, &record))?;
//! for call in join.take_calls() {
//!     println!("{} called {}: {} ticks", call.request.from, call.request.to, call.ticks());
//! }
//! # Ok(())
//! # }
//! ```

mod join;
mod phases;

pub use join::{Call, Join, Side, Transfer};
pub use m3ipc_link::{MessageKind, TRACE_SLOTS, TraceHalf, TraceRecord, TraceWhat};
pub use m3ipc_sys::{StampScale, stamp};
pub use phases::{CallPhases, Phases};

pub use crate::endpoint::{StampCost, cost};

use crate::control::{Absent, Control};
use crate::error::{Fail, NodeError};
use m3ipc_abi::{Address, Code};
use m3ipc_link::TraceView;
use m3ipc_wire::{DaemonEvent, Request, TraceEvent, TraceRequest};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Records of a ring by default: 512 KiB, 40 ms of an endpoint that makes or serves 100,000 calls a second.
pub const SLOTS_DEFAULT: u32 = 8_192;

/// How a VM is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    /// Records that a ring holds: cut to [`TRACE_SLOTS`], and made a power of two.
    pub slots: u32,
    /// Whether stamps wait for what comes before them: sharper, and twice as dear.
    pub sharp: bool,
}

impl Default for TraceConfig {
    fn default() -> Self {
        Self { slots: SLOTS_DEFAULT, sharp: false }
    }
}

/// One endpoint that is traced, or was.
#[derive(Debug)]
struct Ring {
    address: Address,
    pid: i32,
    view: TraceView,
    gone: bool,
}

/// How an endpoint's ring fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The endpoint.
    pub address: Address,
    /// Its process.
    pub pid: i32,
    /// Records that were overwritten before they were read.
    pub lost: u64,
    /// What stood there and was no record: its owner breaks the rules.
    pub broken: u64,
}

/// A VM that is traced, until this is dropped.
#[derive(Debug)]
pub struct Trace {
    control: Control,
    rings: Vec<Ring>,
    /// Of endpoints that have gone.
    former: (u64, u64),
    missed: u32,
}

impl Trace {
    pub(crate) fn begin(directory: &Path, vm: i32, config: TraceConfig) -> Result<Self, Fail> {
        let mut control = Control::connect(directory, Absent::Revive)?;
        let TraceConfig { slots, sharp } = config;
        control.request(&Request::Trace(TraceRequest::Begin { vm, slots, sharp }))?;
        Ok(Self { control, rings: Vec::new(), former: (0, 0), missed: 0 })
    }

    /// Hears who has come and gone, then gives `take` what all have written since the last time: each
    /// endpoint's in its order, at most one ring of each. Never waits. Returns how many records those were.
    ///
    /// # Errors
    /// [`NodeError`] with -318 where the daemon has gone: the trace is over, to be begun anew.
    pub fn poll(&mut self, mut take: impl FnMut(Address, TraceRecord)) -> Result<u64, NodeError> {
        self.hear().map_err(|fail| match fail.code {
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

    fn hear(&mut self) -> Result<(), Fail> {
        while let Some((news, fds, _)) = self.control.next_news()? {
            match news {
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
                        None => self.missed += 1,
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

    /// The endpoints whose rings are here.
    pub fn traced(&self) -> impl Iterator<Item = Traced> + '_ {
        self.rings.iter().map(|ring| Traced {
            address: ring.address,
            pid: ring.pid,
            lost: ring.view.lost(),
            broken: ring.view.broken(),
        })
    }

    /// Records that were overwritten before they were read, of all endpoints that ever were traced here.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.rings.iter().fold(self.former.0, |sum, ring| sum.saturating_add(ring.view.lost()))
    }

    /// What stood in rings and was no record.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.rings.iter().fold(self.former.1, |sum, ring| sum.saturating_add(ring.view.broken()))
    }

    /// Rings that could not be mapped here: this process has no memory or no descriptor for them.
    #[must_use]
    pub fn missed(&self) -> u32 {
        self.missed
    }
}

/// Readable when somebody comes or goes; not when records are written.
impl AsFd for Trace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

impl crate::Node {
    /// Traces a VM, for its owner and root. One tracer a VM.
    ///
    /// # Errors
    /// [`NodeError`] with -335 where the caller may not, -16 where another does already, -302, -303.
    pub fn trace(&mut self, vm: i32, config: TraceConfig) -> Result<Trace, NodeError> {
        Ok(Trace::begin(self.directory(), vm, config)?)
    }
}
