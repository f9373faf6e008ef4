//! Rings that the ringing endpoint may lose: beside a dead, a stopped and a new daemon.

use crate::test::TestNode;
use crate::{Endpoint, Message, Node, PendingRequest, Source};

/// The process number of the daemon.
fn daemon_of(node: &TestNode) -> String {
    let info = Node::find(node.directory()).and_then(|mut node| node.info());
    info.expect("a daemon").daemon_pid.to_string()
}

fn signal(name: &str, pid: &str) {
    let sent = std::process::Command::new("kill").args([name, pid]).status();
    assert!(sent.expect("kill runs").success());
}

fn is_readable(endpoint: &mut Endpoint, limit_ns: u64) -> bool {
    let descriptor = endpoint.fd().expect("a descriptor");
    m3ipc_sys::wait_readable(&[descriptor], limit_ns) == Ok(true)
}

/// A server that has taken a request, and its client, which waits behind its descriptor.
fn taken_request() -> (TestNode, Endpoint, Endpoint, PendingRequest) {
    let node = crate::test::node();
    let (mut server, mut client) = node.pair_without_link();
    client.fd().expect("a descriptor");
    let mut pending = client.begin_request(server.address(), &Message::new(7)).expect("a request");
    while server.try_receive(Source::Any).is_err() {
        assert_eq!(client.poll_request(&mut pending).expect("no failure"), None);
    }
    settle(&mut client, &mut pending);
    (node, server, client, pending)
}

/// Polls until the descriptor is quiet.
fn settle(client: &mut Endpoint, pending: &mut PendingRequest) {
    loop {
        assert_eq!(client.poll_request(pending).expect("no failure"), None);
        client.try_receive(Source::Any).expect_err("no message");
        if !is_readable(client, 0) {
            return;
        }
    }
}

fn assert_answered(client: &mut Endpoint, pending: &mut PendingRequest) {
    assert!(is_readable(client, u64::MAX));
    let answer = client.poll_request(pending).expect("no failure");
    assert_eq!(answer.expect("an answer").m_type, 8);
}

#[test]
fn a_reply_reaches_a_client_that_returned_to_the_new_daemon_first() {
    let (node, mut server, mut client, mut pending) = taken_request();
    signal("-9", &daemon_of(&node));
    assert!(is_readable(&mut client, u64::MAX), "the end of the daemon");
    settle(&mut client, &mut pending);
    server.reply(client.address(), &Message::new(8)).expect("the client waits");
    assert_answered(&mut client, &mut pending);
}

#[test]
fn a_notification_reaches_a_client_that_returned_to_the_new_daemon_first() {
    let (node, mut server, mut client, mut pending) = taken_request();
    signal("-9", &daemon_of(&node));
    assert!(is_readable(&mut client, u64::MAX), "the end of the daemon");
    settle(&mut client, &mut pending);
    server.notify(client.address()).expect("the client is there");
    assert!(is_readable(&mut client, u64::MAX));
    assert!(client.try_receive(Source::Any).expect("a message").is_notification());
}

#[test]
fn a_reply_beside_a_stopped_daemon_reaches_its_client_when_the_daemon_goes_on() {
    let (node, mut server, mut client, mut pending) = taken_request();
    let daemon = daemon_of(&node);
    signal("-STOP", &daemon);
    server.reply(client.address(), &Message::new(8)).expect("the client waits");
    signal("-CONT", &daemon);
    assert_answered(&mut client, &mut pending);
}

/// Returns to a new daemon, which gives no doorbell.
fn return_without_doorbell(node: &TestNode, client: &mut Endpoint) {
    signal("-9", &daemon_of(node));
    let mut attached = client.attachment().attach().expect("a new connection");
    attached.doorbell = None;
    client.take_over(attached).expect("the daemon knows the endpoint");
}

#[test]
fn a_reply_reaches_a_client_that_returned_without_a_doorbell() {
    let (node, mut server, mut client, mut pending) = taken_request();
    return_without_doorbell(&node, &mut client);
    assert!(!is_readable(&mut client, 0));
    server.reply(client.address(), &Message::new(8)).expect("the client waits");
    assert_answered(&mut client, &mut pending);
}

#[test]
fn an_endpoint_that_returned_without_a_doorbell_asks_again() {
    let (node, mut server, mut client, mut pending) = taken_request();
    return_without_doorbell(&node, &mut client);
    client.disarm();
    settle(&mut client, &mut pending);
    assert!(client.waiter.doorbell_mut().is_some_and(|own| !own.is_due_for_receiver()));
    server.reply(client.address(), &Message::new(8)).expect("the client waits");
    assert_answered(&mut client, &mut pending);
}
