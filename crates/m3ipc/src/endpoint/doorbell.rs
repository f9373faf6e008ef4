//! The descriptor of an endpoint: readable when a receive or a pending request may find something.
//!
//! A `try_receive` or a `poll_request` that finds nothing arms the doorbell; only then peers ring.
//! One descriptor serves a receive and all pending requests. So a poll beside others leaves the
//! doorbell armed, and counts the rings and frames that it takes as news. The descriptor stays
//! readable while one of them has not polled since the latest news. Any other call that may read
//! frames disarms, which is news for all.

use super::own_doorbell::Doorbell;
use super::{Endpoint, Received, Source};
use crate::error::{Fail, NodeError, ReceiveError};
use crate::timeout::{Deadline, Timeout};
use core::sync::atomic::Ordering;
use m3ipc_abi::{ANY, Address, Code};
use m3ipc_link::WaitMode;
use m3ipc_link::waiting::EndsWait;
use m3ipc_sys::{DoorbellReceiver, Poll, WaitOutcome};
use m3ipc_wire::Request;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Polls of one call that may all read something of the daemon.
const SETTLING_POLLS: u32 = 256;

impl Endpoint {
    /// A descriptor that becomes readable when a receive or a pending request may find something,
    /// for poll(2) and epoll(7). Call [`try_receive`](Self::try_receive) until it finds nothing,
    /// and [`poll_request`](Self::poll_request) for each pending request. Then wait for the
    /// descriptor, and repeat. Any other call in between makes the descriptor readable, so that all
    /// poll again. After a drop of a pending request, poll for the others once more.
    ///
    /// The descriptor is for level-triggered waits: it may stay readable from one wait to the next.
    /// [`AsyncEndpoint`](crate::asynchronous) is for runtimes with edge-triggered waits.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::Source;
    /// use std::os::fd::AsRawFd;
    ///
    /// let descriptor = server.fd()?.as_raw_fd();
    /// assert!(descriptor >= 0 && server.try_receive(Source::Any).is_err());
    /// // Now poll(2) reports the descriptor as soon as a client sends.
    /// # client.notify(to)?;
    /// # assert!(server.try_receive(Source::Any).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NodeError::NoResources`] if no descriptor is left.
    pub fn fd(&mut self) -> Result<BorrowedFd<'_>, NodeError> {
        self.open_doorbell()?;
        match self.waiter.doorbell_mut() {
            Some(doorbell) => Ok(doorbell.hand_out()),
            None => Err(Fail::from(Code::NoMem).into()),
        }
    }

    /// Makes the doorbell if there is none.
    pub(super) fn open_doorbell(&mut self) -> Result<(), Fail> {
        if self.waiter.doorbell().is_some() {
            return Ok(());
        }
        let poll = Poll::new()?;
        let receiver = self.request_doorbell()?;
        self.waiter.set_doorbell(Doorbell::new(poll, receiver, self.session.control())?);
        Ok(())
    }

    /// Asks once more for the doorbell that a return to a new daemon did not bring.
    #[cold]
    fn request_lost_doorbell(&mut self) {
        let control = self.session.control_mut();
        if let Ok((_, fds)) = control.request_soon(&Request::OpenDoorbell, u64::MAX)
            && let (Ok(receiver), Some(doorbell)) = (one(fds), self.waiter.doorbell_mut())
        {
            // A failure leaves it due.
            let _ = doorbell.replace_receiver(DoorbellReceiver::from_fd(receiver));
        }
    }

    /// Makes the doorbell, if there is none, for a sleep in a call with this deadline. `false` if
    /// the daemon gives none now: it has ended, or does not answer soon.
    pub(super) fn open_doorbell_for_sleep(&mut self, deadline: Deadline) -> Result<bool, Fail> {
        if self.waiter.doorbell().is_some() {
            return Ok(true);
        }
        if self.session.control().is_known_closed() || !self.waiter.is_doorbell_due() {
            return Ok(false);
        }
        let poll = Poll::new()?;
        let control = self.session.control_mut();
        match control.request_soon(&Request::OpenDoorbell, deadline.at_ns) {
            Ok((_, fds)) => {
                let receiver = DoorbellReceiver::from_fd(one(fds)?);
                self.waiter.set_doorbell(Doorbell::new(poll, receiver, self.session.control())?);
                Ok(true)
            }
            Err(fail) if fail.code == Code::Intr && self.waiter.interruption().by_signal() => {
                Err(fail)
            }
            Err(fail) if matches!(fail.code, Code::NotConn | Code::TimedOut | Code::Intr) => {
                self.look_for_close();
                Ok(false)
            }
            Err(fail) => Err(fail),
        }
    }

    fn request_doorbell(&mut self) -> Result<DoorbellReceiver, Fail> {
        let (_, fds) = self.session.control_mut().request(&Request::OpenDoorbell)?;
        one(fds).map(DoorbellReceiver::from_fd)
    }

    /// Lets all peers ring; `false` if no program polls the descriptor. The caller polls once more.
    pub(super) fn arm(&mut self) -> bool {
        if self.waiter.is_silent() {
            return false;
        }
        let Some(doorbell) = self.waiter.polled_doorbell() else {
            return false;
        };
        if doorbell.is_due_for_receiver() {
            self.request_lost_doorbell();
        }
        let mode = self.mode_at_doorbell();
        if self.waiter.arm(mode) {
            self.fast.close();
        }
        true
    }

    /// Whether polls that find nothing leave the doorbell alone. The caller polls again soon: once
    /// more with the doorbell, before it waits for the descriptor.
    pub(crate) fn set_silent(&mut self, is_silent: bool) {
        if is_silent && self.waiter.is_armed() && self.membership.is_original() {
            self.begin_poll(false);
        }
        self.waiter.set_silent(is_silent);
    }

    /// Arms if that changes the mode; `false` if all peers ring already, or no program polls.
    pub(super) fn arm_anew(&mut self) -> bool {
        !self.waiter.is_armed_by(self.mode_at_doorbell()) && self.arm()
    }

    /// A request that is not posted may await the take of an answer of this endpoint.
    fn mode_at_doorbell(&self) -> WaitMode {
        if self.claims.any_unposted() {
            WaitMode::AtDoorbellForTakes
        } else {
            WaitMode::AtDoorbell(ANY)
        }
    }

    /// Polls until nothing comes from the daemon meanwhile: a late step of `poll` may read what an
    /// early one looks for. After some polls that all read something, the descriptor stays readable
    /// in place of one more.
    pub(super) fn poll_settled<T>(
        &mut self,
        mut poll: impl FnMut(&mut Self) -> Result<Option<T>, Fail>,
    ) -> Result<Option<T>, Fail> {
        let mut polls_left = SETTLING_POLLS;
        loop {
            let before = self.session.control().activity();
            let found = poll(self);
            let is_empty = match &found {
                Ok(found) => found.is_none(),
                Err(fail) => fail.code == Code::Again,
            };
            if !is_empty || self.session.control().activity() == before {
                return found;
            }
            polls_left -= 1;
            if polls_left == 0 {
                if let Some(doorbell) = self.waiter.doorbell_mut() {
                    doorbell.keep_unsettled();
                }
                return found;
            }
        }
    }

    /// The end of a receive.
    pub(super) fn leave_receive(&mut self, found_nothing: bool) {
        let Some(news) = self.news() else { return };
        let is_asynchronous = self.session.returns().is_asynchronous();
        let is_armed = self.waiter.is_armed();
        let Some(doorbell) = self.waiter.doorbell_mut() else { return };
        let is_new = if !found_nothing {
            doorbell.note_unfinished_receive();
            true
        } else {
            // Each receive of an asynchronous endpoint polls before it waits.
            is_asynchronous || doorbell.note_receive(news)
        };
        if is_armed {
            doorbell.set_readable(is_new && self.claims.any_behind(news));
        }
    }

    /// The end of a poll of the pending request to `peer`, which found nothing. A call that looks
    /// twice at the same news waits for no other one: nobody polls for that.
    pub(super) fn leave_request(&mut self, peer: Address) {
        let Some(news) = self.news() else { return };
        let is_new = self.claims.note_look(peer, news);
        if let Some(doorbell) = self.waiter.doorbell_mut() {
            let any_behind = doorbell.is_receive_behind(news) || self.claims.any_behind(news);
            doorbell.set_readable(is_new && any_behind);
        }
    }

    /// The end of a pending request.
    pub(super) fn leave_ended_request(&mut self) {
        let Some(news) = self.news() else { return };
        let any_awaits = self.any_awaits();
        let is_armed = self.waiter.is_armed();
        let Some(doorbell) = self.waiter.doorbell_mut() else { return };
        if is_armed {
            let any_behind = doorbell.is_receive_behind(news) || self.claims.any_behind(news);
            doorbell.set_readable(any_behind);
        } else if any_awaits {
            doorbell.call_all();
        }
    }

    /// The end of a call that disarms nothing, and may have read frames.
    pub(super) fn leave_other_call(&mut self, activity_before: u64) {
        if self.waiter.is_armed() && self.session.control().activity() != activity_before {
            self.call_all();
        }
    }

    /// The news of the doorbell; `None` if no program polls the descriptor. A child by fork shares
    /// the epoll set of its parent, and must not change it.
    fn news(&mut self) -> Option<u64> {
        if !self.membership.is_original() {
            return None;
        }
        let doorbell = self.waiter.polled_doorbell()?;
        Some(doorbell.news(self.session.control()))
    }

    fn any_awaits(&self) -> bool {
        self.claims.has_any() || self.waiter.awaits_receive()
    }

    fn call_all(&mut self) {
        if self.any_awaits()
            && let Some(doorbell) = self.waiter.doorbell_mut()
        {
            doorbell.call_all();
        }
    }

    /// Ends the wait for the descriptor: the endpoint works again.
    #[inline]
    pub(super) fn disarm(&mut self) {
        // A child by fork has no mapping of the pages; its call fails after this.
        if self.waiter.is_armed() && self.membership.is_original() {
            self.waiter.disarm();
            self.hear();
            self.call_all();
        }
    }

    /// The same for a receive that does not wait, and arms again. Beside pending requests the
    /// endpoint stays armed.
    #[inline]
    pub(super) fn begin_receive(&mut self) {
        if self.waiter.is_armed() {
            let others = self.waiter.doorbell().is_some_and(Doorbell::has_other_receives);
            self.begin_poll(others || self.claims.has_any());
        }
    }

    /// Receives without a wait as [`receive_bytes`](Self::receive_bytes), for one of several tasks
    /// that await the descriptor: beside others it leaves the doorbell armed. Also returns the
    /// count of all news. If it has grown, the others poll too.
    #[doc(hidden)]
    pub fn receive_beside(
        &mut self,
        source: Source,
        has_others: bool,
    ) -> (Result<(Received, Vec<u8>), ReceiveError>, u64) {
        self.set_other_receives(has_others);
        let received = self.receive_bytes(source, Timeout::NoWait);
        self.set_other_receives(false);
        (received, self.news().unwrap_or_default())
    }

    fn set_other_receives(&mut self, has_others: bool) {
        if let Some(doorbell) = self.waiter.doorbell_mut() {
            doorbell.set_other_receives(has_others);
        }
    }

    /// The same for a poll of a pending request.
    pub(super) fn begin_request_poll(&mut self) {
        if self.waiter.is_armed() {
            let receives = self.waiter.awaits_receive();
            self.begin_poll(receives || self.claims.count() > 1);
        }
    }

    #[cold]
    fn begin_poll(&mut self, beside_others: bool) {
        if !beside_others {
            self.waiter.disarm();
        }
        self.hear();
    }

    /// Takes the rings and the events that have come.
    #[cold]
    fn hear(&mut self) {
        let before = self.session.control().activity();
        let rang = self.waiter.doorbell_mut().is_some_and(Doorbell::hear);
        self.reattach_soon();
        self.ring_again();
        let any_news = rang || self.session.control().activity() != before;
        self.session.renew_missing_links_for_poll(any_news);
        // Not all events at once: a request in parts may use a peer that has died.
        let _ = self.receive_events();
    }

    /// Sleeps at the doorbell: for endpoints with more links than futex_waitv takes. Also returns
    /// whether it rang, or whether there was no sleep.
    pub(super) fn sleep_on_doorbell(
        &self,
        seen: u32,
        until_ns: u64,
    ) -> Result<(WaitOutcome, bool), Fail> {
        let Some(doorbell) = self.waiter.doorbell() else {
            return Ok((WaitOutcome::Changed, true));
        };
        // The last poll received an event, so the word may not change again.
        if self.session.page().event_word().load(Ordering::Acquire) != seen
            || self.session.control().has_queued_events()
        {
            return Ok((WaitOutcome::Changed, true));
        }
        doorbell.sleep(self.session.control(), until_ns)
    }

    /// Wakes the peer of this index after a publication of the fast path, where it may sleep.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_if_ended(&mut self, index: u32, ends: EndsWait) {
        self.conversation(index).wake_if_ended(ends);
        self.ring_again();
    }

    /// Repeats failed rings. After each publication of a call, and in sleeps.
    #[inline]
    pub(super) fn ring_again(&mut self) {
        if self.session.failed_rings_mut().any() {
            self.ring_if_due();
        }
    }

    #[cold]
    fn ring_if_due(&mut self) {
        if self.session.failed_rings_mut().is_due() {
            // On the fast path of a call in C too, which encloses nothing itself.
            m3ipc_sys::enclosed(|| {
                // If the daemon died, the peer may have returned to its successor already.
                self.reattach_soon();
                self.repeat_rings();
            });
        }
    }

    /// Repeats the rings until one fails again.
    pub(super) fn repeat_rings(&mut self) {
        while let Some(peer) = self.session.failed_rings_mut().next() {
            // A dead peer needs no ring.
            let Some(index) = self.peers.find(peer) else { continue };
            if !self.conversation(index).request_ring() {
                return self.session.failed_rings_mut().add(peer);
            }
        }
    }
}

fn one(fds: Vec<OwnedFd>) -> Result<OwnedFd, Fail> {
    fds.into_iter().next().ok_or_else(crate::control::unexpected)
}

#[cfg(test)]
mod rings;
#[cfg(test)]
mod tests;
