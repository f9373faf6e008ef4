//! The endpoint's descriptor: readable when there may be something to receive.
//!
//! A bell (rung by peers) and the control connection (news of the daemon)
//! stand behind one epoll descriptor. It is armed when a try_receive finds
//! nothing, and only then do peers ring.

use super::Endpoint;
use crate::error::{Fail, NodeError};
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_link::WaitMode;
use m3ipc_sys::{DoorbellReceiver, DoorbellSender, Poll, WaitOutcome};
use m3ipc_wire::Request;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const BELL: u64 = 0;
const CONTROL: u64 = 1;

/// The bell, and the descriptor that polls for it.
#[derive(Debug)]
pub(super) struct Bells {
    bell: DoorbellReceiver,
    poll: Poll,
    /// The descriptor was given out: try_receive arms it.
    polled: bool,
}

impl Endpoint {
    /// A descriptor that becomes readable when there may be something to
    /// receive, for poll, epoll and the like. Call [`try_receive`](Self::try_receive) until it finds
    /// nothing, then wait for the descriptor, again and again.
    ///
    /// # Errors
    /// [`NodeError`] where no more descriptors can be had.
    pub fn fd(&mut self) -> Result<BorrowedFd<'_>, NodeError> {
        self.hang_bell()?;
        match &mut self.bell {
            Some(bells) => {
                bells.polled = true;
                Ok(bells.poll.as_fd())
            }
            None => Err(Fail::from(Code::NoMem).into()),
        }
    }

    /// Makes the bell, where there is none yet.
    pub(super) fn hang_bell(&mut self) -> Result<(), Fail> {
        if self.bell.is_some() {
            return Ok(());
        }
        let poll = Poll::new()?;
        let bell = self.request_bell()?;
        poll.add(&bell, BELL)?;
        poll.add(&self.control, CONTROL)?;
        self.bell = Some(Bells { bell, poll, polled: false });
        Ok(())
    }

    fn request_bell(&mut self) -> Result<DoorbellReceiver, Fail> {
        let (_, fds) = self.control.request(&Request::OpenDoorbell)?;
        one(fds).map(DoorbellReceiver::from_fd)
    }

    /// After a takeover: the descriptor stays, what stands behind it is new.
    pub(super) fn reopen_bell(&mut self) -> Result<(), Fail> {
        if self.bell.is_none() {
            return Ok(());
        }
        let bell = self.request_bell()?;
        if let Some(bells) = &mut self.bell {
            // The old control connection left the set when it was closed.
            bells.poll.add(&bell, BELL)?;
            bells.poll.add(&self.control, CONTROL)?;
            // The former bell goes: whoever holds its clapper gets a new one at the next ring.
            bells.bell = bell;
        }
        Ok(())
    }

    /// Lets peers ring; `false` where nobody polls. The caller looks once more.
    pub(super) fn arm(&mut self, source: Address) -> bool {
        let polled = self.bell.as_ref().is_some_and(|bells| bells.polled);
        if polled {
            self.set_mode(WaitMode::AtDoorbell(source));
            self.armed = true;
        }
        polled
    }

    /// The endpoint is at work again.
    #[inline]
    pub(super) fn disarm(&mut self) {
        if self.armed {
            self.disarm_now();
        }
    }

    #[cold]
    fn disarm_now(&mut self) {
        self.armed = false;
        self.set_mode(WaitMode::Awake);
        self.last_look_ns = 0;
        if let Some(bells) = &self.bell {
            bells.bell.drain();
        }
        self.reattach_if_cut();
        self.take_up_missed();
        // Not all news at once: a request in pieces may look at one that has died.
        let _ = self.hear();
    }

    /// Sleeps at the bell: for endpoints with more links than a futex wait takes.
    pub(super) fn sleep_at_bell(&self, seen: u32, until_ns: u64) -> Result<WaitOutcome, Fail> {
        let Some(bells) = &self.bell else { return Ok(WaitOutcome::Changed) };
        // Heard in the last look, and so not to be waited for.
        if self.desk.event_word().load(Ordering::Acquire) != seen {
            return Ok(WaitOutcome::Changed);
        }
        let left_ns = until_ns.saturating_sub(m3ipc_sys::monotonic_ns());
        let fds = [bells.bell.as_fd(), self.control.as_fd()];
        let waited = m3ipc_sys::wait_readable(&fds, left_ns);
        bells.bell.drain();
        match waited {
            Ok(true) => Ok(WaitOutcome::Changed),
            Ok(false) => Ok(WaitOutcome::Limit),
            Err(m3ipc_sys::Errno::INTR) => Ok(WaitOutcome::Signal),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Rings a peer's bell, with a clapper that the daemon has connected.
    pub(super) fn ring(&mut self, index: u32) {
        let peer = self.peers.get(index);
        if let Some(clapper) = &peer.clapper
            && clapper.ring()
        {
            return;
        }
        let request = Request::DoorbellSender(peer.address().0);
        // Without a bell to ring the peer finds the message at its next slow look.
        if let Ok((_, fds)) = self.control.request_soon(&request)
            && let Ok(clapper) = one(fds)
        {
            let clapper = DoorbellSender::from_fd(clapper);
            clapper.ring();
            self.peers.get_mut(index).clapper = Some(clapper);
        }
    }
}

fn one(fds: Vec<OwnedFd>) -> Result<OwnedFd, Fail> {
    fds.into_iter().next().ok_or_else(crate::control::unexpected)
}
