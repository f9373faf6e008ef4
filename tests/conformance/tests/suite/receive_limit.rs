//! The receive limit: a longer payload is an error of its sender alone, which takes nothing from
//! the receiver, and says both lengths.

use m3ipc::{
    Address, Code, Endpoint, LARGE_MAX_BYTES, LONG_MAX_BYTES, Message, RECEIVE_LIMIT_BYTES,
    ReceiveError, ReplyError, ReplyReceiveError, SendError, SendRecError, Source, Timeout,
};
use m3ipc_test_fixture::{NodeFixture, signals, watchdog};
use std::time::Duration;

const LIMIT: usize = 4096;
/// Longer than the limit, and than what a process of the tests may have.
const HUGE: usize = 900 << 20;
const SOON: Duration = Duration::from_millis(20);

/// A node, a server in slot 1 and a client in slot 2.
fn pair(name: &str) -> (NodeFixture, Endpoint, Endpoint) {
    watchdog(120);
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    let server = vm.bind(1).expect("slot 1 is free");
    let client = vm.bind_additional(Some(2)).expect("slot 2 is free");
    (fixture, server, client)
}

/// The server has seen nothing, and takes the next message.
fn goes_on(server: &mut Endpoint, client: &mut Endpoint) {
    let nothing = server.receive_bytes(Source::Any, SOON);
    assert!(matches!(nothing, Err(ReceiveError::TimedOut(_))), "{nothing:?}");
    let to = server.address();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| client.send_bytes(to, 9, &[9; LIMIT], None));
        let (received, bytes) = server.receive_bytes(Source::Any, None).expect("it is short");
        assert_eq!((received.message.m_type, bytes), (9, vec![9; LIMIT]));
        sending.join().expect("no panic").expect("it is taken");
    });
}

#[test]
fn each_verb_of_a_sender_gets_both_lengths() {
    let (_fixture, mut server, mut client) = pair("verbs");
    let to = server.address();
    server.set_receive_limit(LIMIT);
    let huge = vec![0; HUGE];
    for bytes in [LIMIT + 1, HUGE] {
        let payload = &huge[..bytes];
        let sent = SendError::TooLong { bytes, max_bytes: LIMIT };
        let asked = SendRecError::TooLong { bytes, max_bytes: LIMIT };
        assert_eq!(asked.code(), Code::MsgSize);
        let text = sent.to_string();
        assert!(text.contains(&bytes.to_string()) && text.contains("4096"), "{text}");
        assert!(text.contains("receive limit"), "{text}");
        assert_eq!(client.send_bytes(to, 7, payload, None), Err(sent.clone()));
        assert_eq!(client.send_bytes(to, 7, payload, Timeout::NoWait), Err(sent.clone()));
        assert_eq!(client.sendrec_bytes(to, 7, payload, None).unwrap_err(), asked);
        assert_eq!(client.call(to, payload, None).unwrap_err(), asked);
        let begun = client.begin_request_bytes(to, 7, vec![0; bytes]);
        assert_eq!(begun.expect_err("it is too long"), asked);
        let begun = client.begin_send(to, &Message::new(7), vec![0; bytes]);
        assert_eq!(begun.expect_err("it is too long"), sent);
        goes_on(&mut server, &mut client);
    }
}

#[test]
fn the_default_is_16_mib_and_the_owner_chooses_another_one() {
    let (_fixture, mut server, mut client) = pair("default");
    let to = server.address();
    assert_eq!((server.receive_limit(), RECEIVE_LIMIT_BYTES), (16 << 20, 16 << 20));
    let longer = vec![3; RECEIVE_LIMIT_BYTES + 1];
    let (bytes, max_bytes) = (longer.len(), RECEIVE_LIMIT_BYTES);
    let refused = client.send_bytes(to, 7, &longer, None);
    assert_eq!(refused, Err(SendError::TooLong { bytes, max_bytes }));
    let mut cross = |server: &mut Endpoint, payload: &[u8]| {
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| client.send_bytes(to, 7, payload, None));
            let (_, bytes) = server.receive_bytes(Source::Any, None).expect("it is sent");
            assert!(bytes == payload, "{} bytes", payload.len());
            sending.join().expect("no panic").expect("it is taken");
        });
    };
    cross(&mut server, &longer[..RECEIVE_LIMIT_BYTES]);
    server.set_receive_limit(usize::MAX);
    assert_eq!(server.receive_limit(), LARGE_MAX_BYTES);
    cross(&mut server, &longer);
    // What lies in the link is always below the limit.
    server.set_receive_limit(0);
    assert_eq!(server.receive_limit(), LONG_MAX_BYTES);
    cross(&mut server, &longer[..LONG_MAX_BYTES]);
}

#[test]
fn a_message_that_was_sent_before_the_limit_fell_is_refused_alone() {
    let (_fixture, mut server, mut client) = pair("falls");
    let to = server.address();
    let bytes = 100_000;
    let mut sending = client.begin_send(to, &Message::new(7), vec![7; bytes]).expect("a post");
    server.set_receive_limit(LIMIT);
    let nothing = server.receive_bytes(Source::Any, SOON);
    assert!(matches!(nothing, Err(ReceiveError::TimedOut(_))), "{nothing:?}");
    let polled = client.poll_send(&mut sending);
    assert_eq!(polled, Err(SendError::TooLong { bytes, max_bytes: LIMIT }));
    server.set_receive_limit(bytes);
    let mut asking = client.begin_request_bytes(to, 7, vec![7; bytes]).expect("a post");
    server.set_receive_limit(LIMIT);
    // Memory of the caller with enough room makes no difference.
    let mut room = vec![0; bytes];
    let nothing = server.receive_long(Source::Any, &mut room, SOON);
    assert!(matches!(nothing, Err(ReceiveError::TimedOut(_))), "{nothing:?}");
    let polled = client.poll_request_bytes(&mut asking);
    assert_eq!(polled, Err(SendRecError::TooLong { bytes, max_bytes: LIMIT }));
    drop((sending, asking));
    goes_on(&mut server, &mut client);
}

#[test]
fn an_answer_above_the_limit_of_its_client_leaves_room_for_another_one() {
    let (_fixture, mut server, mut client) = pair("answers");
    let to = server.address();
    client.set_receive_limit(LIMIT);
    let asking = std::thread::spawn(move || {
        let first = client.sendrec_bytes(to, 7, b"one", None).expect("an answer");
        (first, client.sendrec_bytes(to, 7, b"two", None).expect("an answer"))
    });
    let (request, _) = server.receive_bytes(Source::Any, None).expect("a request");
    let from = request.message.source;
    let (bytes, max_bytes) = (HUGE, LIMIT);
    let long = vec![0; HUGE];
    let refused = server.reply_bytes(from, 8, &long);
    assert_eq!(refused, Err(ReplyError::TooLong { bytes, max_bytes }));
    let refused = server.reply_receive_bytes(from, 8, &long, None);
    let Err(ReplyReceiveError::Reply(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!(refused, ReplyError::TooLong { bytes, max_bytes });
    let (request, _) =
        server.reply_receive_bytes(from, 8, b"short", None).expect("the next request");
    server.reply_bytes(request.message.source, 8, &[5; LIMIT]).expect("it is short enough");
    let (first, second) = asking.join().expect("no panic");
    assert_eq!((&first.1[..], second.1), (&b"short"[..], vec![5; LIMIT]));
}

#[test]
fn a_call_whose_answer_is_too_long_ends() {
    let (_fixture, mut server, mut client) = pair("serve");
    let to = server.address();
    client.set_receive_limit(LIMIT);
    let serving = std::thread::spawn(move || server.serve(|call| vec![1; call.bytes.len() * 2]));
    let lost = client.call(to, &[0; LIMIT], None).unwrap_err();
    assert_eq!(lost.code(), Code::AnswerLost);
    let text = lost.to_string();
    assert!(text.contains("8192") && text.contains("4096"), "{text}");
    let (said, bytes) = client.sendrec_bytes(to, 7, &[0; LIMIT], None).expect("an answer");
    assert_eq!((said.m_type, bytes.len()), (Code::MsgSize.number(), 0));
    assert_eq!(client.call(to, &[0; 10], None), Ok(vec![1; 20]));
    let _ = client.wakeup(to);
    serving.join().expect("no panic").expect("a wakeup ends it");
}

#[test]
fn a_call_whose_answer_cannot_be_sent_ends() {
    let (fixture, mut server, mut client) = pair("unsent");
    let to = server.address();
    let serving = std::thread::spawn(move || server.serve(|call| vec![1; call.bytes.len() * 99]));
    assert_eq!(client.call(to, &[0], None), Ok(vec![1; 99]));
    // The daemon gives no area for a long answer.
    signals::stop(fixture.daemon_pid());
    let lost = client.call(to, &[0; 100], None);
    let said = client.sendrec_bytes(to, 7, &[0; 100], None);
    signals::resume(fixture.daemon_pid());
    let lost = lost.expect_err("it cannot be sent");
    assert_eq!(lost.code(), Code::AnswerLost);
    assert!(lost.to_string().contains("EMOLTIMEDOUT"), "{lost}");
    let (said, bytes) = said.expect("an answer");
    assert_eq!((said.m_type, bytes.len()), (Code::TimedOut.number(), 0));
    assert_eq!(client.call(to, &[0; 100], None), Ok(vec![1; 9_900]));
    let _ = client.wakeup(to);
    serving.join().expect("no panic").expect("a wakeup ends it");
}

#[test]
fn a_new_daemon_changes_no_limit() {
    let (mut fixture, mut server, mut client) = pair("takeover");
    server.set_receive_limit(LIMIT);
    fixture.restart_daemon();
    let vm = fixture.node().vm(client.vm()).expect("it lives on");
    let mut late = vm.bind_additional(Some(3)).expect("slot 3 is free");
    // The server returns to the daemon in a call.
    goes_on(&mut server, &mut client);
    let refused = late.send_bytes(server.address(), 7, &[0; LIMIT + 1], None);
    assert_eq!(refused, Err(SendError::TooLong { bytes: LIMIT + 1, max_bytes: LIMIT }));
    assert_eq!(late.address(), Address(3));
}
