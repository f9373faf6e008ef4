//! `reply_receive` with payloads: the answer goes first, and an error says which half it is of.

use m3ipc::{
    Code, Delivered, Endpoint, Message, ReceiveError, ReceivedKind, ReplyError, ReplyReceiveError,
    Source, Timeout, WaitStrategy,
};
use m3ipc_test_fixture::{NodeFixture, pattern, watchdog};
use std::time::Duration;

const LENGTHS: [usize; 7] = [0, 1, 40, 1_792, 1_793, 100_000, 0];
const LIMIT: Duration = Duration::from_secs(60);
const WAITS: [WaitStrategy; 3] = [WaitStrategy::Adaptive, WaitStrategy::Block, WaitStrategy::Spin];

/// A node, a server in slot 1 and a client in slot 2.
fn pair(name: &str) -> (NodeFixture, Endpoint, Endpoint) {
    watchdog(60);
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    let server = vm.bind(1).expect("slot 1 is free");
    let client = vm.bind_additional(Some(2)).expect("slot 2 is free");
    (fixture, server, client)
}

#[test]
fn each_answer_and_the_next_request_arrive_whole() {
    let (_fixture, mut server, mut client) = pair("whole");
    let to = server.address();
    let calls = || WAITS.iter().flat_map(|wait| LENGTHS.map(|length| (*wait, length)));
    let thread = std::thread::spawn(move || {
        for (number, (wait, length)) in (0..).zip(calls()) {
            client.set_strategy(wait);
            let sent = pattern(number, length);
            let (answer, bytes) = client.sendrec_bytes(to, 7, &sent, LIMIT).unwrap();
            assert_eq!((answer.m_type, answer.payload[0]), (8, 9));
            assert!(bytes == pattern(number + 1, length), "{length} bytes");
        }
        client.send_bytes(to, 99, &[], LIMIT).unwrap();
    });
    let mut room = vec![0; 100_000];
    let (mut request, mut bytes) = server.receive_bytes(Source::Any, LIMIT).unwrap();
    for (number, (wait, length)) in (0..).zip(calls()) {
        assert!((request.message.m_type, request.is_request) == (7, true));
        assert!(bytes == pattern(number, length), "{length} bytes");
        server.set_strategy(wait);
        let answer = Message::new(8).with_bytes(&[9]);
        let (from, long) = (request.message.source, pattern(number + 1, length));
        // Both forms in turn.
        if number % 2 == 0 {
            let next = server.reply_receive_long_bytes(from, &answer, &long, LIMIT);
            (request, bytes) = next.unwrap();
        } else {
            request = server.reply_receive_long(from, &answer, &long, &mut room, LIMIT).unwrap();
            bytes = room[..request.bytes].to_vec();
        }
    }
    assert!((request.message.m_type, request.is_request, request.bytes) == (99, false, 0));
    thread.join().unwrap();
}

#[test]
fn a_failed_answer_takes_nothing() {
    let (_fixture, mut server, mut client) = pair("answer");
    let (to, from) = (server.address(), client.address());
    let waiting = std::thread::spawn(move || {
        client.notify(to).unwrap();
        client.send_bytes(to, 5, b"kept", LIMIT).unwrap();
        client
    });
    let fails = |server: &mut Endpoint, client, long: &[u8], wanted: Code| match server
        .reply_receive_bytes(client, 1, long, LIMIT)
    {
        Err(error @ ReplyReceiveError::Reply(_)) => assert_eq!(error.code(), wanted),
        other => panic!("{other:?}"),
    };
    let too_long = vec![0; m3ipc::LARGE_MAX_BYTES + 1];
    fails(&mut server, from, &too_long, Code::MsgSize);
    drop(too_long);
    fails(&mut server, to, b"x", Code::Endpoint);
    fails(&mut server, m3ipc::Address(1_000_000), b"x", Code::Range);
    server.receive_timeout(Source::Any, LIMIT).expect("the notification is still there");
    assert_eq!(server.latest_kind(), Some(ReceivedKind::Notification));
    let (kept, bytes) = server.receive_bytes(Source::Any, LIMIT).expect("so is the message");
    assert_eq!((kept.message.m_type, &bytes[..]), (5, &b"kept"[..]));
    drop(waiting.join().unwrap());
}

#[test]
fn a_client_that_is_gone_ends_no_loop() {
    let (_fixture, mut server, mut client) = pair("gone");
    let (to, from) = (server.address(), client.address());
    let (done, next) = std::sync::mpsc::channel();
    let sending = std::thread::spawn(move || {
        for number in 0..5 {
            client.send(to, &Message::new(number)).unwrap();
        }
        next.recv().unwrap();
        client
    });
    // The client does not wait for an answer: the loop takes the next message.
    assert_eq!(server.receive_timeout(Source::Any, LIMIT).unwrap().m_type, 0);
    for (number, length) in [(1, 0), (2, 10), (3, 1_793), (4, 100_000)] {
        let taken = server.reply_receive_bytes(from, 1, &vec![1; length], LIMIT);
        assert_eq!(taken.unwrap().0.message.m_type, number);
    }
    for length in [0, 10, 1_793, 100_000] {
        let replied = server.reply_bytes(from, 1, &vec![1; length]);
        assert_eq!(replied, Ok(Delivered::No(ReplyError::NotWaiting(from))));
    }
    done.send(()).unwrap();
    drop(sending.join().unwrap());
    let late = server.reply_receive_bytes(from, 1, b"late", Timeout::NoWait).unwrap_err();
    assert_eq!(late, ReplyReceiveError::Receive(ReceiveError::WouldBlock(m3ipc::ANY)));
    let replied = server.reply(from, &Message::new(1));
    assert_eq!(replied, Ok(Delivered::No(ReplyError::Died(from))));
}

#[test]
fn a_failed_receive_has_answered() {
    let (_fixture, mut server, mut client) = pair("receive");
    let to = server.address();
    let (go, next) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        for length in [0, 1_793, 5] {
            next.recv().unwrap();
            let (_, bytes) = client.sendrec_bytes(to, 1, &[], LIMIT).unwrap();
            assert_eq!(bytes, vec![3; length]);
        }
        client.sendrec_bytes(to, 2, &[6; 100], LIMIT).unwrap();
    });
    let short = Timeout::from(Duration::from_millis(1));
    for (length, limit, code) in [(0, Timeout::NoWait, Code::Again), (1_793, short, Code::TimedOut)]
    {
        go.send(()).unwrap();
        let request = server.receive_timeout(Source::Any, LIMIT).unwrap();
        match server.reply_receive_bytes(request.source, 0, &vec![3; length], limit) {
            Err(error @ ReplyReceiveError::Receive(_)) => {
                assert_eq!(error.code(), code);
                assert!(
                    error.to_string().starts_with("no message was received after the answer"),
                    "{error}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    go.send(()).unwrap();
    let request = server.receive_timeout(Source::Any, LIMIT).unwrap();
    let mut room = [0; 10];
    let (answer, long) = (Message::new(0), [3; 5]);
    let cut = server.reply_receive_long(request.source, &answer, &long, &mut room, LIMIT);
    let Err(ReplyReceiveError::Receive(ReceiveError::BufferTooSmall {
        message,
        needed_bytes,
        is_request,
        ..
    })) = cut
    else {
        panic!("{cut:?}");
    };
    assert_eq!((message.m_type, needed_bytes, is_request, room), (2, 100, true, [6; 10]));
    server.reply(message.source, &Message::new(0)).expect("the request is taken");
    thread.join().unwrap();
}
