//! Messages that serve as answers: of parts, of requests, and what follows them.
#![allow(clippy::unwrap_used)]

use m3ipc::{Address, Delivered, Delivery, Endpoint, Message, ReceiveError, SendRecError, Source};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::thread::JoinHandle;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(50);

/// What a client does after the answer to its request.
type Then = fn(&mut Endpoint, Address) -> Result<i32, ReceiveError>;

/// A node, a server in slot 1, and a client that has sent request 1 in a thread; the type of its
/// answer and what it did then.
fn asked(name: &str, then: Then) -> (NodeFixture, Endpoint, JoinHandle<(i32, i32)>) {
    watchdog(60);
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    let mut server = vm.bind(1).unwrap();
    let to = server.address();
    let client = std::thread::spawn(move || {
        let mut own = vm.bind_thread(Some(2)).unwrap();
        let answer = own.sendrec_timeout(to, &Message::new(1), LIMIT).unwrap();
        (answer.m_type, then(&mut own, to).unwrap())
    });
    assert_eq!(server.receive_timeout(Source::Any, LIMIT).unwrap().m_type, 1);
    (fixture, server, client)
}

/// From anybody: a receive from the server alone would close a circle with its call.
fn receive_one(own: &mut Endpoint, _server: Address) -> Result<i32, ReceiveError> {
    own.receive_timeout(Source::Any, LIMIT).map(|message| message.m_type)
}

fn sent_in_parts(server: &mut Endpoint, to: Address, m_type: i32) {
    let mut sent = server.begin_send(to, &Message::new(m_type), Vec::new()).unwrap();
    while !server.poll_send(&mut sent).unwrap() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_send_in_parts_answers_and_the_next_message_is_a_message() {
    let (_fixture, mut server, client) = asked("parts", receive_one);
    let to = server.latest_peer().unwrap().address;
    sent_in_parts(&mut server, to, 2);
    // The answer is there: another one is none.
    let late = server.reply(to, &Message::new(3)).unwrap();
    assert!(matches!(late, Delivered::No(_)), "{late:?}");
    server.send_timeout(to, &Message::new(4), LIMIT).unwrap();
    assert_eq!(client.join().unwrap(), (2, 4));
}

#[test]
fn a_request_in_parts_answers_and_gets_an_answer() {
    let (_fixture, mut server, client) = asked("request", |own, to| {
        // The answer was a request of its own.
        own.reply(to, &Message::new(5)).unwrap();
        receive_one(own, to)
    });
    let to = server.latest_peer().unwrap().address;
    let mut asked = server.begin_request(to, &Message::new(2)).unwrap();
    let answer = loop {
        if let Some(answer) = server.poll_request(&mut asked).unwrap() {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(answer.m_type, 5);
    server.send_timeout(to, &Message::new(6), LIMIT).unwrap();
    assert_eq!(client.join().unwrap(), (2, 6));
}

#[test]
fn a_reply_ends_a_request_that_answered() {
    let (_fixture, mut server, client) = asked("reply", |own, to| {
        // The server may not wait yet.
        while !own.reply(to, &Message::new(5)).unwrap().is_yes() {
            std::thread::sleep(Duration::from_millis(1));
        }
        receive_one(own, to)
    });
    let to = server.latest_peer().unwrap().address;
    let answer = server.sendrec_timeout(to, &Message::new(2), LIMIT).unwrap();
    assert_eq!(answer.m_type, 5);
    server.send_timeout(to, &Message::new(6), LIMIT).unwrap();
    assert_eq!(client.join().unwrap(), (2, 6));
}

#[test]
fn a_request_that_answered_and_gets_no_answer_says_that_it_was_taken() {
    let (_fixture, mut server, client) = asked("taken", receive_one);
    let to = server.latest_peer().unwrap().address;
    let late = server.sendrec_timeout(to, &Message::new(2), SHORT).unwrap_err();
    assert!(matches!(late, SendRecError::TimedOutAfter(_)), "{late:?}");
    assert_eq!(late.delivery(), Delivery::Taken);
    server.send_timeout(to, &Message::new(3), LIMIT).unwrap();
    assert_eq!(client.join().unwrap(), (2, 3));
}
