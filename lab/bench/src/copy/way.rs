//! The ways a block gets from one process into another, one file per family, all behind one trait.

mod carried;
mod carriers;
mod memcpy;
mod process_vm;

use std::any::Any;

pub use carried::Carried;

use super::{Copies, Kind, Shape};
use crate::error::Error;
use crate::job::{Report, Side, Wait};
use crate::mechanism::{Family, Inherited, Site};
use crate::ours::blocks;
use crate::peer::Run;

/// The processes of one measurement and what each of them gets; the requester comes last.
#[derive(Default)]
pub struct Opened {
    /// Sides, in the order in which they are started.
    pub sides: Vec<(Side, Inherited)>,
    /// What must live for as long as the measurement.
    pub keep: Vec<Box<dyn Any>>,
}

/// The half that asks for copies.
pub trait Requester {
    /// Copies one block with this number; returns when the destination has it, in the test `stream` when it is sent.
    ///
    /// # Errors
    /// Where the copy failed.
    fn copy(&mut self, trip: u64) -> Result<(), Error>;

    /// Copies the last block, lets the destination check all of it, and ends the conversation.
    ///
    /// # Errors
    /// Where the copy failed or the block is not what was sent.
    fn finish(&mut self) -> Result<(), Error>;
}

/// A way to copy a block.
pub trait Way: Sync {
    /// Its name in tables and JSON.
    fn name(&self) -> &'static str;

    /// What it stands for.
    fn family(&self) -> Family {
        Family::Kernel
    }

    /// How its destination waits.
    fn wait(&self) -> Wait {
        Wait::Block
    }

    /// Which copies it can make.
    fn kinds(&self) -> &'static [Kind];

    /// Blocks of more bytes than this it does not take.
    fn most_bytes(&self) -> usize {
        usize::MAX
    }

    /// Whether two processes take part, which then can be put on one CPU or on two.
    fn is_between_processes(&self) -> bool {
        true
    }

    /// Opens what one measurement needs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where this machine does not offer it.
    fn open(&self, site: &Site, shape: &Shape) -> Result<Opened, Error>;

    /// Is the requester: prepares its end, then [`drive`].
    ///
    /// # Errors
    /// Where a copy fails or a block is wrong.
    fn requester(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error>;

    /// Is the destination until the last block came.
    ///
    /// # Errors
    /// As for [`Way::requester`].
    fn destination(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error>;

    /// Is the source of a copy between two others.
    ///
    /// # Errors
    /// As for [`Way::requester`].
    fn source(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error>;
}

/// All ways that are measured.
#[must_use]
pub fn all() -> Vec<&'static dyn Way> {
    let mut all: Vec<&'static dyn Way> = blocks::ALL.iter().map(|way| way as &dyn Way).collect();
    all.extend([&memcpy::Memcpy as &dyn Way, &process_vm::ProcessVm]);
    all.extend(carriers::ALL.iter().map(|way| way as &dyn Way));
    all
}

/// The way of this name, the one planted for tests included.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Way> {
    let planted: &'static dyn Way = &carriers::PLANTED;
    all().into_iter().chain([planted]).find(|way| way.name() == name)
}

/// Keeps time over this requester until the job is done.
///
/// # Errors
/// Where a copy fails or a block is wrong.
pub fn drive(run: &Run, requester: impl Requester) -> Result<Report, Error> {
    run.drive(Copies(requester))
}
