//! One descriptor for all who await it.

use crate::test::TestNode;
use crate::{Endpoint, Message, PendingRequest, Source};
use m3ipc_link::LinkSide;
use m3ipc_wire::DaemonEvent;

/// Clears all marks as another member may, until this endpoint has one, and once more.
fn clear_next_mark(server: &Endpoint) {
    let bitmap = server.waiter.pages().ready_bitmaps().next().expect("a bitmap");
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
        let (mut own, mut client) = node.pair_without_link();
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
fn a_message_in_the_middle_of_a_poll_reaches_the_receive() {
    let mut it = EventLoop::new();
    let to = it.own.address();
    it.own.begin_request_poll();
    it.client.notify(to).expect("the client is allowed");
    it.poll(0);
    assert!(it.is_readable(), "the receive has not looked");
    it.own.try_receive(Source::Any).expect("the notification");
    it.settle();
}

#[test]
fn an_answer_in_the_middle_of_a_receive_reaches_the_request() {
    let mut it = EventLoop::new();
    it.own.begin_receive();
    it.answer(0);
    it.own.try_receive(Source::Any).expect_err("no message");
    it.poll(1);
    assert!(it.is_readable(), "the first request has not looked");
    it.take(0);
    it.settle();
}

#[test]
fn a_message_after_another_call_reaches_the_receive() {
    let mut it = EventLoop::new();
    let (to, client) = (it.own.address(), it.client.address());
    it.answer(0);
    it.wait();
    it.own.try_receive(Source::Any).expect_err("no message");
    // The endpoint is disarmed from here on.
    it.own.notify(client).expect("the client is allowed");
    it.client.notify(to).expect("the client is allowed");
    it.take(0);
    it.poll(1);
    assert!(it.is_readable(), "the receive has not looked");
    it.own.try_receive(Source::Any).expect("the notification");
    it.settle();
}

#[test]
fn a_death_that_another_call_reads_reaches_the_request() {
    let calls: [fn(&mut Endpoint); 3] = [
        |own| assert!(own.is_bound()),
        |own| drop(own.name_locate("nobody").expect_err("no such name")),
        |own| drop(own.try_send(own.address(), &Message::new(1)).expect_err("itself")),
    ];
    for call in calls {
        let mut it = EventLoop::new();
        let mut pending = it.pending[1].take().expect("a pending request");
        let [_first, second] = it.workers;
        drop(second);
        let readable = |own: &mut Endpoint| {
            let descriptor = own.fd().expect("a descriptor");
            assert_eq!(m3ipc_sys::wait_readable(&[descriptor], u64::MAX), Ok(true));
        };
        readable(&mut it.own);
        call(&mut it.own);
        readable(&mut it.own);
        it.own.poll_request(&mut pending).expect_err("the server is dead");
    }
}

#[test]
fn a_request_that_awaits_its_slot_hears_of_the_take() {
    let node = crate::test::node();
    let (mut own, mut client) = node.pair_without_link();
    let (to, address) = (own.address(), client.address());
    let mut asked = client.begin_request(to, &Message::new(1)).expect("a request");
    while own.try_receive(Source::Any).is_err() {
        assert_eq!(client.poll_request(&mut asked).expect("no failure"), None);
    }
    own.reply(address, &Message::new(2)).expect("the client waits");
    own.fd().expect("a descriptor");
    let mut pending = own.begin_request(address, &Message::new(3)).expect("a request");
    let mut readable = loop {
        assert_eq!(own.poll_request(&mut pending).expect("no failure"), None);
        let descriptor = own.fd().expect("a descriptor");
        if m3ipc_sys::wait_readable(&[descriptor], 0) == Ok(false) {
            break own;
        }
    };
    let answer = client.poll_request(&mut asked).expect("no failure").expect("an answer");
    assert_eq!(answer.m_type, 2);
    let descriptor = readable.fd().expect("a descriptor");
    assert_eq!(m3ipc_sys::wait_readable(&[descriptor], u64::MAX), Ok(true));
    assert_eq!(readable.poll_request(&mut pending).expect("no failure"), None);
    assert_eq!(client.try_receive(Source::Any).expect("the request").m_type, 3);
}

#[test]
fn many_deaths_hide_no_later_arrival() {
    let node = crate::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    client.notify(to).expect("a link");
    server.receive(Source::Any).expect("the notification");
    server.fd().expect("a descriptor");
    let mut peers: Vec<Endpoint> =
        (3..53).map(|slot| node.vm().bind_additional(Some(slot)).expect("a peer")).collect();
    peers.iter_mut().for_each(|peer| peer.notify(to).expect("a link"));
    while server.try_receive(Source::Any).is_ok() {}
    drop(peers);
    // The daemon has sent the deaths before it makes the link of the late one.
    let mut late = node.vm().bind_additional(Some(60)).expect("a peer");
    late.notify(to).expect("a link");
    // A runtime reports the descriptor once for all of them.
    let received = server.try_receive(Source::Any).expect("the notification of the late peer");
    assert_eq!(received.source, late.address());
}

#[test]
fn a_message_without_its_mark_reaches_a_server_behind_its_descriptor() {
    let node = crate::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    let thread = std::thread::spawn(move || {
        client.send(to, &Message::new(6)).expect("the server receives");
        client
    });
    assert_eq!(server.receive(Source::Any).expect("a message").m_type, 6);
    let mut client = thread.join().expect("the client ends");

    server.fd().expect("a descriptor");
    server.try_receive(Source::Any).expect_err("nothing is there");
    assert!(server.waiter.is_armed());
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

#[test]
fn a_daemon_with_news_for_each_poll_holds_no_call() {
    let mut it = EventLoop::new();
    let mut polls = 0;
    let found = it.own.poll_settled(|own| {
        polls += 1;
        let control = own.session.control_mut();
        control.requeue((DaemonEvent::Died(0), Vec::new(), LinkSide::One));
        control.next_event()?;
        Ok((polls == 10_000).then_some(()))
    });
    assert_eq!(found.expect("no failure"), None, "the call ends after {polls} polls");
    it.own.leave_receive(true);
    assert!(it.is_readable(), "news may be there that no poll has looked for");
    it.settle();
}
