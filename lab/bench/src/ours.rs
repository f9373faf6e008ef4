//! What only m3ipc is asked: many clients of one server, first contact, bind,
//! instructions and memory.
//!
//! ```text
//! m3ipc    Mechanism and Ours; the two ends    keeper    the node of a run and its end
//! idle     many endpoints of one process       contact   binds and first contacts
//! straight both halves in one process          memory    what a node costs
//! blocks   vcopy, for the bench of copies       areas     attach, hand-over, allocation
//! ```

pub mod areas;
pub mod blocks;
mod contact;
mod idle;
mod keeper;
mod m3ipc;
mod memory;
pub mod phases;
mod straight;

pub use keeper::end;
pub use m3ipc::{OpenVm, Place, told};

use crate::error::Error;
use crate::job::Report;
use crate::mechanism::{Inherited, Mechanism, Site};
use crate::peer::Run;

/// The further measurements of m3ipc; every method but `memory` runs in a peer process.
pub trait Ours: Mechanism {
    /// Binds `clients` endpoints, makes one checked trip with the server from each, then says
    /// `run.at_the_start()` and keeps still: `run.until_the_end()`. The trips come before
    /// `at_the_start`, because the active client is started when that has been said.
    ///
    /// # Errors
    /// Where a bind or a trip fails.
    fn idle(&self, inherited: Inherited, run: &Run, clients: u32) -> Result<Report, Error>;

    /// After `run.at_the_start()`, so many times: binds (its time goes to `Report::binds`), makes the
    /// first sendrec with a server that it has no link with (its time goes to `Report::samples`),
    /// unbinds. The last contact sends the stop message, which ends the server.
    ///
    /// # Errors
    /// Where a call fails.
    fn contact(&self, inherited: Inherited, run: &Run, times: u32) -> Result<Report, Error>;

    /// After `run.at_the_start()`: both sides' halves of so many IPC2 trips in this one process, in turn,
    /// with neither a wait nor a system call between them, so that the instructions can be counted.
    ///
    /// # Errors
    /// Where a call fails.
    fn straight(&self, inherited: Inherited, run: &Run, trips: u64) -> Result<Report, Error>;

    /// Binds so many endpoints, links each with all that are bound already, then says
    /// `run.at_the_start()` and keeps still until the supervisor lets go.
    ///
    /// # Errors
    /// Where a call fails.
    fn mesh(&self, inherited: Inherited, run: &Run, endpoints: u32) -> Result<Report, Error>;

    /// Keeps the node of a run until the supervisor has gone, then ends it.
    ///
    /// # Errors
    /// Where it cannot be ended.
    fn keep(&self, inherited: &Inherited) -> Result<(), Error>;

    /// Memory and idle CPU, found in the supervisor by whatever processes it takes.
    ///
    /// # Errors
    /// Where something cannot be started or read.
    fn memory(&self, site: &Site) -> Result<Memory, Error>;
}

/// What a node costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Of one link.
    pub link_bytes: u64,
    /// Of one endpoint with one link, beyond what its process has anyway.
    pub endpoint_bytes: u64,
    /// Of the daemon that holds `daemon_links` links.
    pub daemon_bytes: u64,
    /// How many links that were.
    pub daemon_links: u64,
    /// CPU time that a sleeping endpoint used in `idle_span_ns`.
    pub idle_cpu_ns: u64,
    /// Over how long.
    pub idle_span_ns: u64,
}

/// m3ipc.
#[must_use]
pub fn mechanism() -> Option<&'static dyn Mechanism> {
    Some(&m3ipc::M3ipc)
}
