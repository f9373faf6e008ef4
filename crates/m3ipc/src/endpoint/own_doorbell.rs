//! The doorbell of an endpoint, and the epoll descriptor that watches it.
//!
//! The epoll descriptor watches the doorbell (rung by peers) and the control connection (events of
//! the daemon).

use crate::control::Control;
use crate::error::Fail;
use m3ipc_sys::{DoorbellReceiver, Errno, Interest, ParentOnlyFd, Poll, WaitOutcome};
use std::os::fd::{AsFd, BorrowedFd};

const DOORBELL: u64 = 0;
const CONTROL: u64 = 1;
const RETURN: u64 = 2;
/// The time between two requests for a doorbell that a return did not bring.
const RECEIVER_NS: u64 = 1_000_000_000;

/// The doorbell, and the epoll descriptor that watches it.
#[derive(Debug)]
pub(super) struct Doorbell {
    /// Drops before the receiver, as every such entry. A child that kept the receiver would keep
    /// senders of peers alive that ring in vain.
    not_for_children: ParentOnlyFd,
    receiver: DoorbellReceiver,
    poll: Poll,
    /// Whether the caller has the descriptor, so that a poll that finds nothing must arm it.
    polled: bool,
    /// Counts what came for all that await the descriptor: rings, frames, ends of a wait for rings.
    news: u64,
    /// The activity of the control connection that `news` counts.
    activity: u64,
    /// The news at the last receive that found nothing.
    receive_seen: Option<u64>,
    /// Whether other receives than the present one await the descriptor.
    has_other_receives: bool,
    /// Whether the endpoint itself keeps the descriptor readable.
    is_kept_readable: bool,
    /// Whether the present call ends before all was looked at, so that another look is due.
    is_unsettled: bool,
    /// After a return without a doorbell: the time of the next request for one.
    receiver_due_ns: Option<u64>,
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
        Ok(Self {
            not_for_children: ParentOnlyFd::new(&receiver.as_fd()),
            receiver,
            poll,
            polled: false,
            news: 1,
            activity: control.activity(),
            receive_seen: None,
            has_other_receives: false,
            is_kept_readable: false,
            is_unsettled: false,
            receiver_due_ns: None,
        })
    }

    /// After a takeover: keeps the epoll descriptor and replaces what it watches. Without a new
    /// doorbell, the events of the daemon alone are reported.
    pub(super) fn replace(
        &mut self,
        receiver: Option<DoorbellReceiver>,
        control: &Control,
    ) -> Result<(), Fail> {
        // The close of the old control connection removed it from the set.
        self.poll.add(control, CONTROL)?;
        match receiver {
            Some(receiver) => self.replace_receiver(receiver),
            None => {
                self.receiver_due_ns = Some(0);
                Ok(())
            }
        }
    }

    /// Replaces the receiver. Peers get a new sender when they ring next.
    pub(super) fn replace_receiver(&mut self, receiver: DoorbellReceiver) -> Result<(), Fail> {
        self.receiver_due_ns = Some(0);
        self.poll.add(&receiver, DOORBELL)?;
        self.receiver_due_ns = None;
        self.not_for_children = ParentOnlyFd::new(&receiver.as_fd());
        self.receiver = receiver;
        let is_kept_readable = std::mem::take(&mut self.is_kept_readable);
        self.set_readable(is_kept_readable);
        Ok(())
    }

    /// Whether to ask the daemon for a doorbell now. The next request is due a second later.
    pub(super) fn is_due_for_receiver(&mut self) -> bool {
        let Some(due_ns) = self.receiver_due_ns else { return false };
        let now_ns = m3ipc_sys::monotonic_ns();
        if now_ns < due_ns {
            return false;
        }
        self.receiver_due_ns = Some(now_ns + RECEIVER_NS);
        true
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

    /// Removes the rings that have come; whether there were any.
    pub(super) fn hear(&mut self) -> bool {
        let rang = self.receiver.drain();
        self.news += u64::from(rang);
        rang
    }

    /// The news, with those of the daemon.
    pub(super) fn news(&mut self, control: &Control) -> u64 {
        if std::mem::replace(&mut self.activity, control.activity()) != self.activity {
            self.news += 1;
        }
        self.news
    }

    /// Whether a receive has found nothing, so that it awaits the descriptor.
    pub(super) fn awaits_receive(&self) -> bool {
        self.receive_seen.is_some()
    }

    /// Whether the receives from now on are beside others that await the descriptor.
    pub(super) fn set_other_receives(&mut self, has_others: bool) {
        self.has_other_receives = has_others;
    }

    /// Whether the present receive is beside others.
    pub(super) fn has_other_receives(&self) -> bool {
        self.has_other_receives
    }

    /// Whether a receive has not looked since these news.
    pub(super) fn is_receive_behind(&self, news: u64) -> bool {
        self.receive_seen.is_some_and(|seen| seen < news)
    }

    /// Notes that a receive found nothing after these news. `false` if it had seen them before.
    pub(super) fn note_receive(&mut self, news: u64) -> bool {
        self.receive_seen.replace(news) != Some(news)
    }

    /// Notes that a receive found something, so that it has not looked for the rest.
    pub(super) fn note_unfinished_receive(&mut self) {
        if self.receive_seen.is_some() {
            self.receive_seen = Some(0);
        }
    }

    /// Forgets that a receive awaits the descriptor.
    #[cfg(feature = "tokio")]
    pub(super) fn forget_receive(&mut self) {
        self.receive_seen = None;
        self.set_readable(false);
    }

    /// Ends the wait for rings: all that await the descriptor poll again.
    pub(super) fn call_all(&mut self) {
        self.news += 1;
        self.set_readable(true);
    }

    /// Keeps the descriptor readable at the end of the present call, whatever the call has seen.
    pub(super) fn keep_unsettled(&mut self) {
        self.is_unsettled = true;
    }

    /// Keeps the descriptor readable, or leaves it to rings and frames.
    pub(super) fn set_readable(&mut self, is_readable: bool) {
        let is_readable = std::mem::take(&mut self.is_unsettled) | is_readable;
        if self.is_kept_readable == is_readable {
            return;
        }
        // A datagram socket without a connection accepts bytes at any time.
        let interest = if is_readable { Interest::ReadOrWrite } else { Interest::Read };
        if self.poll.set_interest(&self.receiver, DOORBELL, interest).is_ok() {
            self.is_kept_readable = is_readable;
        }
    }

    /// Sleeps until a ring, or until the connection has a frame or closes. Also returns whether it
    /// rang. A connection that is known to be closed is left out: it would end each sleep at once.
    pub(super) fn sleep(
        &self,
        control: &Control,
        until_ns: u64,
    ) -> Result<(WaitOutcome, bool), Fail> {
        let left_ns = until_ns.saturating_sub(m3ipc_sys::monotonic_ns());
        let both = [self.receiver.as_fd(), control.as_fd()];
        let fds = if control.is_known_closed() { &both[..1] } else { &both[..] };
        let waited = m3ipc_sys::wait_readable(fds, left_ns);
        let rang = self.receiver.drain();
        match waited {
            Ok(true) => Ok((WaitOutcome::Changed, rang)),
            Ok(false) => Ok((WaitOutcome::Limit, rang)),
            Err(Errno::INTR) => Ok((WaitOutcome::Signal, rang)),
            Err(errno) => Err(errno.into()),
        }
    }
}
