//! The descriptor of an endpoint: readable when a receive may find something.
//!
//! A `try_receive` that finds nothing arms the doorbell; only then peers ring.

use super::Endpoint;
use super::own_doorbell::Doorbell;
use crate::error::{Fail, NodeError};
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_link::WaitMode;
use m3ipc_sys::{DoorbellReceiver, DoorbellSender, Poll, WaitOutcome};
use m3ipc_wire::Request;
use std::os::fd::{BorrowedFd, OwnedFd};

impl Endpoint {
    /// A descriptor that becomes readable when a receive may find something, for poll(2) and
    /// epoll(7). Call [`try_receive`](Self::try_receive) until it finds nothing, then wait for the
    /// descriptor, and repeat.
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
        match &mut self.doorbell {
            Some(doorbell) => Ok(doorbell.hand_out()),
            None => Err(Fail::from(Code::NoMem).into()),
        }
    }

    /// Makes the doorbell if there is none.
    pub(super) fn open_doorbell(&mut self) -> Result<(), Fail> {
        if self.doorbell.is_some() {
            return Ok(());
        }
        let poll = Poll::new()?;
        let receiver = self.request_doorbell()?;
        self.doorbell = Some(Doorbell::new(poll, receiver, &self.control)?);
        Ok(())
    }

    fn request_doorbell(&mut self) -> Result<DoorbellReceiver, Fail> {
        let (_, fds) = self.control.request(&Request::OpenDoorbell)?;
        one(fds).map(DoorbellReceiver::from_fd)
    }

    /// Lets peers ring; `false` if no program polls the descriptor. The caller polls once more.
    pub(super) fn arm(&mut self, source: Address) -> bool {
        let polled = self.doorbell.as_ref().is_some_and(Doorbell::is_polled);
        if polled {
            self.set_mode(WaitMode::AtDoorbell(source));
            self.armed = true;
            self.fast.close();
        }
        polled
    }

    /// Ends the wait for the descriptor: the endpoint works again.
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
        if let Some(doorbell) = &self.doorbell {
            doorbell.drain();
        }
        self.reattach_soon();
        self.renew_missing_links();
        // Not all events at once: a request in parts may use a peer that has died.
        let _ = self.receive_events();
    }

    /// Sleeps at the doorbell: for endpoints with more links than futex_waitv takes.
    pub(super) fn sleep_on_doorbell(&self, seen: u32, until_ns: u64) -> Result<WaitOutcome, Fail> {
        let Some(doorbell) = &self.doorbell else { return Ok(WaitOutcome::Changed) };
        // The last poll received an event, so the word may not change again.
        if self.control_page.event_word().load(Ordering::Acquire) != seen {
            return Ok(WaitOutcome::Changed);
        }
        doorbell.sleep(&self.control, until_ns)
    }

    /// Rings the doorbell of a peer by a sender that the daemon has connected.
    pub(super) fn ring_doorbell_of(&mut self, index: u32) {
        let peer = self.peers.get(index);
        if let Some(doorbell_sender) = &peer.doorbell_sender
            && doorbell_sender.ring()
        {
            return;
        }
        let request = Request::DoorbellSender(peer.address().0);
        // Without a sender the peer finds the message at its next slow check.
        if let Ok((_, fds)) = self.control.request_soon(&request, u64::MAX)
            && let Ok(doorbell_sender) = one(fds)
        {
            let doorbell_sender = DoorbellSender::from_fd(doorbell_sender);
            doorbell_sender.ring();
            self.peers.get_mut(index).doorbell_sender = Some(doorbell_sender);
        }
    }
}

fn one(fds: Vec<OwnedFd>) -> Result<OwnedFd, Fail> {
    fds.into_iter().next().ok_or_else(crate::control::unexpected)
}

#[cfg(test)]
mod tests {
    use crate::{Endpoint, Message, Source};

    /// Clears all marks as another member may, until this endpoint has one, and once more.
    fn clear_next_mark(server: &Endpoint) {
        let bitmap = &server.page_sets[0].ready_bitmap;
        while !bitmap.any() {
            std::thread::yield_now();
        }
        bitmap.drain(|_| {});
    }

    #[test]
    fn a_message_without_its_mark_reaches_a_server_behind_its_descriptor() {
        let node = crate::test::node();
        let (mut server, mut client) = node.pair();
        let to = server.address();
        let thread = std::thread::spawn(move || {
            client.send(to, &Message::new(6)).expect("the server receives");
            client
        });
        assert_eq!(server.receive(Source::Any).expect("a message").m_type, 6);
        let mut client = thread.join().expect("the client ends");

        server.fd().expect("a descriptor");
        server.try_receive(Source::Any).expect_err("nothing is there");
        assert!(server.armed);
        let thread = std::thread::spawn(move || client.send(to, &Message::new(7)));
        clear_next_mark(&server);
        let received = loop {
            if let Ok(received) = server.try_receive(Source::Any) {
                break received;
            }
            std::thread::yield_now();
        };
        assert_eq!(received.m_type, 7);
        thread.join().expect("the client ends").expect("the message was taken");
    }
}
