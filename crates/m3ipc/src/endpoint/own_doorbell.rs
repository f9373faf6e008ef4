//! The doorbell of an endpoint, and the epoll descriptor that watches it.
//!
//! The epoll descriptor watches the doorbell (rung by peers) and the control connection (events of
//! the daemon).

use crate::control::Control;
use crate::error::Fail;
use m3ipc_sys::{DoorbellReceiver, Errno, Poll, WaitOutcome};
use std::os::fd::{AsFd, BorrowedFd};

const DOORBELL: u64 = 0;
const CONTROL: u64 = 1;
const RETURN: u64 = 2;

/// The doorbell, and the epoll descriptor that watches it.
#[derive(Debug)]
pub(super) struct Doorbell {
    receiver: DoorbellReceiver,
    poll: Poll,
    /// Whether the caller has the descriptor, so that `try_receive` must arm it.
    polled: bool,
}

impl Doorbell {
    /// Watches a doorbell and the control connection.
    pub(super) fn new(
        poll: Poll,
        receiver: DoorbellReceiver,
        control: &Control,
    ) -> Result<Self, Fail> {
        poll.add(&receiver, DOORBELL)?;
        poll.add(control, CONTROL)?;
        Ok(Self { receiver, poll, polled: false })
    }

    /// After a takeover: keeps the epoll descriptor and replaces what it watches.
    pub(super) fn replace(
        &mut self,
        receiver: DoorbellReceiver,
        control: &Control,
    ) -> Result<(), Fail> {
        // The close of the old control connection removed it from the set.
        self.poll.add(&receiver, DOORBELL)?;
        self.poll.add(control, CONTROL)?;
        // This drops the former doorbell. Peers get a new sender when they ring next.
        self.receiver = receiver;
        Ok(())
    }

    /// Watches the end of a return, too.
    pub(super) fn watch(&self, done: &impl AsFd) -> Result<(), Errno> {
        self.poll.add(done, RETURN)
    }

    /// Ends that watch.
    pub(super) fn unwatch(&self, done: &impl AsFd) {
        // This fails for a descriptor that was never watched.
        let _ = self.poll.remove(done);
    }

    /// The epoll descriptor, for the caller to poll.
    pub(super) fn hand_out(&mut self) -> BorrowedFd<'_> {
        self.polled = true;
        self.poll.as_fd()
    }

    /// Whether the caller has the descriptor.
    pub(super) fn is_polled(&self) -> bool {
        self.polled
    }

    /// Removes the rings that have come.
    pub(super) fn drain(&self) {
        self.receiver.drain();
    }

    /// Sleeps until a ring or an event of the daemon.
    pub(super) fn sleep(&self, control: &Control, until_ns: u64) -> Result<WaitOutcome, Fail> {
        let left_ns = until_ns.saturating_sub(m3ipc_sys::monotonic_ns());
        let fds = [self.receiver.as_fd(), control.as_fd()];
        let waited = m3ipc_sys::wait_readable(&fds, left_ns);
        self.receiver.drain();
        match waited {
            Ok(true) => Ok(WaitOutcome::Changed),
            Ok(false) => Ok(WaitOutcome::Limit),
            Err(Errno::INTR) => Ok(WaitOutcome::Signal),
            Err(errno) => Err(errno.into()),
        }
    }
}
