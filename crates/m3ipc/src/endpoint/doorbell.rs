//! The descriptor of an endpoint: readable when a receive or a pending request may find something.
//!
//! A `try_receive` or a `poll_request` that finds nothing arms the doorbell; only then peers ring.
//! One descriptor serves all of them. So a poll that took a ring keeps the descriptor readable for
//! the others, until each of them has polled.

use super::Endpoint;
use super::own_doorbell::Doorbell;
use crate::error::{Fail, NodeError};
use core::sync::atomic::Ordering;
use m3ipc_abi::{ANY, Address, Code};
use m3ipc_link::WaitMode;
use m3ipc_sys::{DoorbellReceiver, DoorbellSender, Poll, WaitOutcome};
use m3ipc_wire::Request;
use std::os::fd::{BorrowedFd, OwnedFd};

impl Endpoint {
    /// A descriptor that becomes readable when a receive or a pending request may find something,
    /// for poll(2) and epoll(7). Call [`try_receive`](Self::try_receive) until it finds nothing,
    /// and [`poll_request`](Self::poll_request) for each pending request. Then wait for the
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

    /// Lets all peers ring; `false` if no program polls the descriptor. The caller polls once more.
    pub(super) fn arm(&mut self) -> bool {
        let Some(doorbell) = self.doorbell.as_mut().filter(|doorbell| doorbell.is_polled()) else {
            return false;
        };
        doorbell.arm();
        self.set_mode(WaitMode::AtDoorbell(ANY));
        self.armed = true;
        self.fast.close();
        true
    }

    /// Polls an armed endpoint until nothing comes from the daemon meanwhile: a late step of `poll`
    /// may read what an early one looks for.
    pub(super) fn poll_armed<T>(
        &mut self,
        mut poll: impl FnMut(&mut Self) -> Result<Option<T>, Fail>,
    ) -> Result<Option<T>, Fail> {
        loop {
            let before = self.control.activity();
            let _ = self.receive_events();
            let found = poll(self)?;
            if found.is_some() || self.control.activity() == before {
                return Ok(found);
            }
        }
    }

    /// The doorbell, if the calls on this endpoint share its descriptor. An asynchronous endpoint
    /// has one call at a time, which polls before it waits.
    fn shared_doorbell(&mut self) -> Option<&mut Doorbell> {
        let is_shared = !self.returns.is_asynchronous;
        self.doorbell.as_mut().filter(|doorbell| is_shared && doorbell.is_polled())
    }

    /// The end of a receive. News that a pending request has not seen keep the descriptor readable.
    pub(super) fn leave_receive(&mut self) {
        if !self.armed {
            return self.leave_disarmed();
        }
        let Some(news) = self.news() else { return };
        if let Some(doorbell) = self.shared_doorbell()
            && doorbell.note_receive(news)
            && self.claims.any_behind(news)
        {
            self.keep_readable();
        }
    }

    /// The end of a poll of the pending request to `peer`, in the same way. A request that looks
    /// twice at the same news ends that: nobody polls for the others.
    pub(super) fn leave_request(&mut self, peer: Address) {
        let Some(news) = self.news() else { return };
        let is_new = self.claims.note_look(peer, news);
        let Some(doorbell) = self.shared_doorbell() else { return };
        if is_new && (doorbell.is_receive_behind(news) || self.claims.any_behind(news)) {
            self.keep_readable();
        }
    }

    /// The end of a pending request. All others poll again, since the endpoint is not armed.
    pub(super) fn leave_ended_request(&mut self) {
        let claimed = self.claims.has_any();
        if let Some(doorbell) = self.shared_doorbell()
            && (claimed || doorbell.awaits_receive())
        {
            doorbell.call_all();
        }
    }

    fn leave_disarmed(&mut self) {
        if self.claims.has_any()
            && let Some(doorbell) = self.shared_doorbell()
        {
            doorbell.call_all();
        }
    }

    fn news(&mut self) -> Option<u64> {
        let is_shared = self.shared_doorbell().is_some();
        let doorbell = self.doorbell.as_mut().filter(|_| is_shared)?;
        Some(doorbell.news(&self.control))
    }

    fn keep_readable(&mut self) {
        if let Some(doorbell) = &mut self.doorbell {
            doorbell.keep_readable();
        }
    }

    /// Ends the wait for the descriptor: the endpoint works again.
    #[inline]
    pub(super) fn disarm(&mut self) {
        if self.armed {
            self.disarm_now();
            self.leave_disarmed();
        }
    }

    /// The same for a receive or a poll, whose end calls one of the functions above.
    #[inline]
    pub(super) fn disarm_for_poll(&mut self) {
        if self.armed {
            self.disarm_now();
        }
    }

    #[cold]
    fn disarm_now(&mut self) {
        self.armed = false;
        self.set_mode(WaitMode::Awake);
        if let Some(doorbell) = &mut self.doorbell {
            doorbell.hear();
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
    use crate::test::TestNode;
    use crate::{Endpoint, Message, PendingRequest, Source};

    /// Clears all marks as another member may, until this endpoint has one, and once more.
    fn clear_next_mark(server: &Endpoint) {
        let bitmap = &server.page_sets[0].ready_bitmap;
        while !bitmap.any() {
            std::thread::yield_now();
        }
        bitmap.drain(|_| {});
    }

    /// A server that is also a client of two workers, in a loop around its descriptor.
    struct EventLoop {
        own: Endpoint,
        client: Endpoint,
        workers: [Endpoint; 2],
        pending: [Option<PendingRequest>; 2],
        _node: TestNode,
    }

    impl EventLoop {
        fn new() -> Self {
            let node = crate::test::node();
            let (mut own, mut client) = node.pair();
            client.notify(own.address()).expect("a link with the client");
            own.receive(Source::Any).expect("the notification");
            own.fd().expect("a descriptor");
            let mut workers =
                [3, 4].map(|slot| node.vm().bind_additional(Some(slot)).expect("a worker"));
            let pending = workers.each_mut().map(|worker| {
                let mut pending =
                    own.begin_request(worker.address(), &Message::new(7)).expect("a request");
                while worker.try_receive(Source::Any).is_err() {
                    assert_eq!(own.poll_request(&mut pending).expect("no failure"), None);
                }
                Some(pending)
            });
            let mut it = Self { own, client, workers, pending, _node: node };
            it.settle();
            it
        }

        /// Whether poll(2) reports the descriptor now.
        fn is_readable(&mut self) -> bool {
            let descriptor = self.own.fd().expect("a descriptor");
            m3ipc_sys::wait_readable(&[descriptor], 0) == Ok(true)
        }

        /// Waits for the descriptor as a program does, without an end.
        fn wait(&mut self) {
            let descriptor = self.own.fd().expect("a descriptor");
            assert_eq!(m3ipc_sys::wait_readable(&[descriptor], u64::MAX), Ok(true));
        }

        /// Polls request `at`, which has no answer.
        fn poll(&mut self, at: usize) {
            if let Some(pending) = &mut self.pending[at] {
                assert_eq!(self.own.poll_request(pending).expect("no failure"), None);
            }
        }

        /// Takes the answer to request `at`, which has come.
        fn take(&mut self, at: usize) {
            let mut pending = self.pending[at].take().expect("a pending request");
            let answer = self.own.poll_request(&mut pending).expect("no failure");
            assert_eq!(answer.expect("an answer").m_type, 8);
        }

        fn answer(&mut self, at: usize) {
            let own = self.own.address();
            self.workers[at].reply(own, &Message::new(8)).expect("the request is pending");
        }

        /// Polls for all, which have nothing, until the descriptor is quiet.
        fn settle(&mut self) {
            loop {
                self.own.try_receive(Source::Any).expect_err("no message");
                self.poll(0);
                self.poll(1);
                if !self.is_readable() {
                    return;
                }
            }
        }
    }

    #[test]
    fn a_poll_of_one_request_hides_no_message() {
        let mut it = EventLoop::new();
        let to = it.own.address();
        it.client.notify(to).expect("the descriptor rings for a sender that no request awaits");
        it.wait();
        it.poll(0);
        assert!(it.is_readable(), "the receive has not looked");
        assert!(it.own.try_receive(Source::Any).expect("a message").is_notification());
        it.settle();
    }

    #[test]
    fn a_receive_or_a_poll_of_another_request_hides_no_answer() {
        for at in 0..2 {
            let mut it = EventLoop::new();
            it.answer(at);
            it.wait();
            it.own.try_receive(Source::Any).expect_err("no message");
            assert!(it.is_readable(), "request {at} has not looked");
            it.poll(1 - at);
            assert!(it.is_readable(), "request {at} has not looked");
            it.take(at);
            it.settle();
            it.answer(1 - at);
            it.wait();
            it.take(1 - at);
            it.settle();
        }
    }

    #[test]
    fn the_end_of_one_request_leaves_the_descriptor_to_the_other() {
        let mut it = EventLoop::new();
        it.poll(0);
        it.answer(1);
        it.take(1);
        // The loop may wait now. It must hear of both, the message and the answer.
        it.answer(0);
        it.wait();
        it.take(0);
        let to = it.own.address();
        it.client.notify(to).expect("the client is allowed");
        it.wait();
        it.own.try_receive(Source::Any).expect("the notification");
        it.settle();
    }

    #[test]
    fn a_call_that_waits_leaves_the_descriptor_to_a_pending_request() {
        let mut it = EventLoop::new();
        it.answer(0);
        let (mut client, to) = (it.client, it.own.address());
        let address = client.address();
        let thread = std::thread::spawn(move || {
            client.receive(Source::From(to)).expect("a message");
            client
        });
        it.own.send(address, &Message::new(9)).expect("the client receives");
        it.client = thread.join().expect("the client ends");
        it.wait();
        it.take(0);
        it.poll(1);
    }

    #[test]
    fn the_death_of_one_server_reaches_its_request_though_another_poll_reads_it() {
        let mut it = EventLoop::new();
        let [first, second] = it.workers;
        drop(second);
        let descriptor = it.own.fd().expect("a descriptor");
        assert_eq!(m3ipc_sys::wait_readable(&[descriptor], u64::MAX), Ok(true));
        let mut pending = it.pending;
        let first_pending = pending[0].as_mut().expect("a pending request");
        assert_eq!(it.own.poll_request(first_pending).expect("no failure"), None);
        let descriptor = it.own.fd().expect("a descriptor");
        assert_eq!(m3ipc_sys::wait_readable(&[descriptor], u64::MAX), Ok(true));
        let second_pending = pending[1].as_mut().expect("a pending request");
        it.own.poll_request(second_pending).expect_err("the server is dead");
        drop(first);
    }

    #[test]
    fn many_deaths_hide_no_later_arrival() {
        let node = crate::test::node();
        let (mut server, mut client) = node.pair();
        let to = server.address();
        client.notify(to).expect("a link");
        server.receive(Source::Any).expect("the notification");
        server.fd().expect("a descriptor");
        let mut peers: Vec<Endpoint> =
            (3..13).map(|slot| node.vm().bind_additional(Some(slot)).expect("a peer")).collect();
        peers.iter_mut().for_each(|peer| peer.notify(to).expect("a link"));
        while server.try_receive(Source::Any).is_ok() {}
        drop(peers);
        // The daemon has sent the deaths before it makes the link of the late one.
        let mut late = node.vm().bind_additional(Some(20)).expect("a peer");
        late.notify(to).expect("a link");
        // A runtime reports the descriptor once for all of them.
        let received = server.try_receive(Source::Any).expect("the notification of the late peer");
        assert_eq!(received.source, late.address());
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
