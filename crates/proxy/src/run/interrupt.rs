//! SIGTERM and SIGINT: the proxy is told to end. It says so to the other nodes, which a kill does
//! not do.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// The signals that tell the proxy to end.
pub struct Interrupt(OwnedFd);

impl Interrupt {
    /// From here on the signals wait for [`Interrupt::has_come`]. Programs that this one has
    /// started before keep their own rules.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn begin() -> rustix::io::Result<Self> {
        m3ipc_sys::interrupt_signals().map(Self)
    }

    /// Whether one has come.
    pub fn has_come(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec::default())).is_ok_and(|found| found > 0)
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
