//! An event descriptor: any thread of the process can make it readable.

use crate::descriptors::above_standard;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// An event descriptor.
///
/// # Source
/// eventfd(2)
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A descriptor that is not readable.
    ///
    /// # Errors
    /// `MFILE`, `NFILE`, `NOMEM`.
    pub fn new() -> Result<Self, Errno> {
        above_standard(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?).map(Self)
    }

    /// Makes it readable.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn set(&self) -> Result<(), Errno> {
        match rustix::io::write(&self.0, &1_u64.to_ne_bytes()) {
            // The counter is full, so it is readable.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Makes it not readable.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
