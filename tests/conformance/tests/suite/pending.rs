//! Requests in parts: what a pending request claims, and how it ends.

use m3ipc::{
    Code, Delivered, Endpoint, Message, PendingRequest, ReplyError, SendError, SendRecError, Source,
};
use m3ipc_test_fixture::{NodeFixture, signals, take_pending, watchdog};
use std::time::Duration;

/// A node, a server in slot 1 and a client in slot 2.
fn pair(name: &str) -> (NodeFixture, Endpoint, Endpoint) {
    watchdog(60);
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    // The further endpoints of a process end with its first one.
    let client = vm.bind(2).expect("slot 2 is free");
    let server = vm.bind_additional(Some(1)).expect("slot 1 is free");
    (fixture, server, client)
}

/// The outcome of a request.
fn outcome(
    client: &mut Endpoint,
    pending: &mut PendingRequest,
) -> Result<(Message, Vec<u8>), SendRecError> {
    loop {
        if let Some(answer) = client.poll_request_bytes(pending)? {
            return Ok(answer);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Serves one request of a new pending one.
fn still_works(server: &mut Endpoint, client: &mut Endpoint) {
    let mut pending =
        client.begin_request(server.address(), &Message::new(70)).expect("the server lives");
    let request = take_pending(server, client, &mut pending);
    assert_eq!(request.m_type, 70);
    server.reply(request.source, &Message::new(71)).expect("the client waits");
    assert_eq!(outcome(client, &mut pending).expect("the answer comes").0.m_type, 71);
}

#[test]
fn a_pending_request_claims_its_peer() {
    let (_fixture, mut server, mut client) = pair("claims");
    let to = server.address();
    still_works(&mut server, &mut client); // so that a link exists, and the request is posted
    let mut first = client.begin_request(to, &Message::new(1)).unwrap();
    for is_taken in [false, true] {
        let second = client.begin_request(to, &Message::new(2));
        assert!(matches!(second, Err(SendRecError::RequestPending(peer)) if peer == to));
        let asked = client.sendrec_timeout(to, &Message::new(3), Duration::from_secs(5));
        assert!(matches!(asked, Err(SendRecError::RequestPending(_))), "{asked:?}");
        let sent = client.send_timeout(to, &Message::new(4), Duration::from_secs(5));
        assert!(matches!(sent, Err(SendError::RequestPending(_))), "{sent:?}");
        assert_eq!(sent.unwrap_err().code(), Code::Busy);
        let replied = client.reply(to, &Message::new(5));
        assert!(matches!(replied, Err(ReplyError::RequestPending(_))), "{replied:?}");
        assert!(client.poll_request(&mut first).unwrap().is_none());
        if !is_taken {
            assert_eq!(server.receive(Source::Any).unwrap().m_type, 1);
        }
    }
    server.reply(client.address(), &Message::new(10)).unwrap();
    assert_eq!(client.poll_request(&mut first).unwrap().unwrap().m_type, 10);
    let again = client.poll_request(&mut first);
    assert!(matches!(again, Err(SendRecError::System { .. })), "{again:?}");
    // The claim has ended with the answer, not with the drop.
    still_works(&mut server, &mut client);
}

#[test]
fn requests_to_two_servers_are_answered_in_any_order() {
    let (fixture, mut one, mut client) = pair("two");
    let vm = fixture.node().vm(one.vm()).unwrap();
    let mut two = vm.bind_additional(Some(3)).unwrap();
    let mut to_one = client.begin_request(one.address(), &Message::new(1)).unwrap();
    let mut to_two = client.begin_request(two.address(), &Message::new(2)).unwrap();
    for (server, pending, request) in [(&mut two, &mut to_two, 2), (&mut one, &mut to_one, 1)] {
        assert_eq!(take_pending(server, &mut client, pending).m_type, request);
        server.reply(client.address(), &Message::new(10 * request)).unwrap();
    }
    assert_eq!(client.poll_request(&mut to_one).unwrap().unwrap().m_type, 10);
    assert_eq!(client.poll_request(&mut to_two).unwrap().unwrap().m_type, 20);
}

#[test]
fn a_drop_withdraws_the_request_at_once() {
    let (_fixture, mut server, mut client) = pair("withdraw");
    still_works(&mut server, &mut client); // so that a link exists, and the requests are posted
    for bytes in [0, 100, 100_000] {
        let to = server.address();
        let pending = client.begin_request_bytes(to, 1, vec![1; bytes]).unwrap();
        // The thread of the endpoint makes no call.
        std::thread::spawn(move || drop(pending)).join().unwrap();
        assert!(server.try_receive(Source::Any).is_err(), "{bytes} bytes are withdrawn");
        still_works(&mut server, &mut client);
    }
}

#[test]
fn a_drop_ends_the_wait_for_the_answer() {
    let (_fixture, mut server, mut client) = pair("drop");
    for is_answered in [false, true] {
        let mut pending = client.begin_request(server.address(), &Message::new(1)).unwrap();
        let request = take_pending(&mut server, &mut client, &mut pending);
        if is_answered {
            server.reply(request.source, &Message::new(2)).unwrap();
        }
        drop(pending);
        if !is_answered {
            let replied = server.reply(request.source, &Message::new(2));
            assert_eq!(replied, Ok(Delivered::No(ReplyError::NotWaiting(request.source))));
        }
        still_works(&mut server, &mut client);
        // A late answer is no message.
        assert!(client.try_receive(Source::Any).is_err());
        client.notify(server.address()).unwrap();
        assert!(server.receive(Source::Any).unwrap().is_notification());
    }
}

#[test]
fn a_request_does_not_wait_for_the_take_of_an_earlier_answer() {
    let (_fixture, mut server, mut client) = pair("slot");
    let (to, back) = (server.address(), client.address());
    let mut first = client.begin_request(to, &Message::new(1)).unwrap();
    take_pending(&mut server, &mut client, &mut first);
    server.reply(back, &Message::new(2)).unwrap();
    // The slot of the server still has the answer.
    let mut second = server.begin_request(back, &Message::new(3)).unwrap();
    assert!(server.poll_request(&mut second).unwrap().is_none());
    assert_eq!(client.poll_request(&mut first).unwrap().unwrap().m_type, 2);
    assert!(server.poll_request(&mut second).unwrap().is_none());
    assert_eq!(client.receive(Source::Any).unwrap().m_type, 3);
    client.reply(to, &Message::new(4)).unwrap();
    assert_eq!(server.poll_request(&mut second).unwrap().unwrap().m_type, 4);
}

/// Waits until the client has learnt of the death of a peer and has dropped its link.
fn forget(client: &mut Endpoint, peer: m3ipc::Address) {
    while client.peer(peer).is_some() {
        let _ = client.receive_timeout(Source::Any, Duration::from_millis(5));
    }
}

#[test]
fn an_answer_from_just_before_the_death_arrives() {
    for bytes in [0, 500] {
        let (_fixture, mut server, mut client) = pair("last");
        let to = server.address();
        let mut pending = client.begin_request(to, &Message::new(1)).unwrap();
        take_pending(&mut server, &mut client, &mut pending);
        server.reply_bytes(client.address(), 2, &vec![7; bytes]).unwrap();
        drop(server);
        forget(&mut client, to);
        let (answer, payload) = outcome(&mut client, &mut pending).unwrap();
        assert_eq!((answer.m_type, payload), (2, vec![7; bytes]));
    }
}

#[test]
fn the_error_tells_whether_the_dead_server_took_the_request() {
    for is_taken in [false, true] {
        let (_fixture, mut server, mut client) = pair("taken");
        let to = server.address();
        still_works(&mut server, &mut client); // so that a link exists, and the request is posted
        let mut pending = client.begin_request(to, &Message::new(1)).unwrap();
        if is_taken {
            take_pending(&mut server, &mut client, &mut pending);
        }
        drop(server);
        forget(&mut client, to);
        let expected =
            if is_taken { SendRecError::DiedAfter(to) } else { SendRecError::DiedBefore(to) };
        assert_eq!(outcome(&mut client, &mut pending).unwrap_err(), expected);
    }
}

#[test]
fn a_request_begins_while_the_daemon_is_stopped() {
    let (fixture, mut server, mut client) = pair("stopped");
    signals::stop(fixture.daemon_pid());
    let mut pending = client.begin_request(server.address(), &Message::new(1)).unwrap();
    assert!(client.poll_request(&mut pending).unwrap().is_none());
    let dropped = client.begin_request(m3ipc::Address(5), &Message::new(1)).unwrap();
    drop(dropped);
    signals::resume(fixture.daemon_pid());
    while server.try_receive(Source::Any).is_err() {
        assert!(client.poll_request(&mut pending).unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    server.reply(client.address(), &Message::new(2)).unwrap();
    assert_eq!(client.poll_request(&mut pending).unwrap().unwrap().m_type, 2);
    let nobody = client.sendrec(m3ipc::Address(5), &Message::new(1));
    assert!(matches!(nobody, Err(SendRecError::Nobody(_))), "{nobody:?}");
}
