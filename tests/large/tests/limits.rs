//! Calls with large payloads keep their limits while the daemon is stopped, and wait within their
//! limits while it is gone. A call that waits longer would end by the watchdog.

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::test::TestNode;
use m3ipc::{AreaConfig, AreaError, BlockLifetime, ReceiveError, SendError, SendRecError, Source};
use m3ipc::{Endpoint, Message, Timeout};
use m3ipc_large::{outcome, payload, signal_daemon, take_pending, watchdog};
use rustix::process::Signal;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(200);
const LIMIT: Duration = Duration::from_secs(60);

/// A stopped daemon, which goes on at the end of the test.
struct Stopped<'a>(&'a TestNode);

impl<'a> Stopped<'a> {
    fn new(node: &'a TestNode) -> Self {
        signal_daemon(node, Signal::STOP);
        Self(node)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        signal_daemon(self.0, Signal::CONT);
    }
}

#[test]
fn a_sender_keeps_its_limit_while_the_daemon_is_stopped() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    // The link exists, the area does not.
    client.notify(to).unwrap();
    server.receive(Source::Any).unwrap();
    let stopped = Stopped::new(&node);
    let sent = client.send_bytes(to, 7, &payload(1, 10_000), SHORT);
    assert!(matches!(sent, Err(SendError::TimedOut(_))), "{sent:?}");
    let asked = client.sendrec_bytes(to, 7, &payload(1, 10_000), SHORT);
    assert!(matches!(asked, Err(SendRecError::TimedOut(_))), "{asked:?}");
    let sent = client.send_bytes(to, 7, &payload(1, 10_000), Timeout::NoWait);
    assert!(matches!(sent, Err(SendError::WouldBlock(_))), "{sent:?}");
    drop(stopped);
    let thread = std::thread::spawn(move || client.send_bytes(to, 7, &payload(2, 10_000), LIMIT));
    let (_, bytes) = server.receive_bytes(Source::Any, LIMIT).unwrap();
    assert!(bytes == payload(2, 10_000));
    thread.join().unwrap().unwrap();
}

/// Makes the link of the two, so that a request is posted before the daemon stops.
fn link(server: &mut Endpoint, client: &mut Endpoint) {
    let mut first =
        client.begin_request_bytes(server.address(), 7, payload(1, 100)).expect("a private node");
    let source = take_pending(server, client, &mut first).0.message.source;
    server.reply_bytes(source, 0, b"").expect("a private node");
    outcome(client, &mut first).expect("a private node");
}

#[test]
fn a_receiver_keeps_its_limit_while_the_daemon_is_stopped() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    link(&mut server, &mut client);
    let mut pending = client.begin_request_bytes(to, 7, payload(1, 10_000)).unwrap();
    let stopped = Stopped::new(&node);
    for source in [Source::Any, Source::From(client.address())] {
        let received = server.receive_bytes(source, SHORT);
        assert!(matches!(received, Err(ReceiveError::TimedOut(_))), "{received:?}");
        let received = server.receive_bytes(source, Timeout::NoWait);
        assert!(matches!(received, Err(ReceiveError::WouldBlock(_))), "{received:?}");
    }
    drop(stopped);
    // The message is still there, whole: the next receive without wait finds it.
    let (received, bytes) = take_pending(&mut server, &mut client, &mut pending);
    assert!(bytes == payload(1, 10_000));
    server.reply_bytes(received.message.source, 0, &payload(2, 20_000)).unwrap();
    assert!(outcome(&mut client, &mut pending).unwrap() == payload(2, 20_000));
}

#[test]
fn an_asynchronous_receiver_goes_on_after_a_stop_of_the_daemon() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    link(&mut server, &mut client);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut server = AsyncEndpoint::open(server).await.unwrap();
        let mut pending = client.begin_request_bytes(to, 7, payload(1, 10_000)).unwrap();
        let stopped = Stopped::new(&node);
        let client = std::thread::spawn(move || outcome(&mut client, &mut pending));
        let mut receive = Box::pin(server.receive_bytes(Source::Any));
        let early = tokio::time::timeout(2 * SHORT, &mut receive).await;
        assert!(early.is_err(), "only the daemon gives the area of the payload");
        drop(stopped);
        let (received, bytes) = receive.await.unwrap();
        assert!(bytes == payload(1, 10_000));
        server.endpoint().reply_bytes(received.message.source, 0, b"answer").unwrap();
        assert_eq!(client.join().unwrap().unwrap(), b"answer");
    });
}

#[test]
fn a_first_contact_without_wait_ends_while_the_daemon_is_stopped() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (server, mut client) = node.pair_without_link();
    let stopped = Stopped::new(&node);
    let sent = client.try_send(server.address(), &Message::new(7));
    assert!(matches!(sent, Err(SendError::WouldBlock(_))), "{sent:?}");
    drop(stopped);
}

#[test]
fn a_block_in_a_message_waits_no_longer_than_the_call() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (server, mut client) = node.pair_without_link();
    let to = server.address();
    let area = client.create_area(&AreaConfig::pair(1 << 20, to)).unwrap();
    let block = client.allocate(&area, 10, BlockLifetime::Short).unwrap();
    let stopped = Stopped::new(&node);
    let unsent = client.send_block(to, &Message::new(7), block, SHORT).unwrap_err();
    assert!(matches!(unsent.error, SendError::TimedOut(_)), "{unsent:?}");
    assert!(unsent.block.is_some());
    // Calls about areas have no limit of their own, and end all the same.
    let asked = client.create_area(&AreaConfig::pair(1 << 20, to));
    assert!(matches!(asked, Err(AreaError::System(_))), "{asked:?}");
    drop(stopped);
}

#[test]
fn a_first_large_message_waits_for_the_next_daemon() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    client.notify(to).unwrap();
    server.receive(Source::Any).unwrap();
    // No daemon can start while a folder lies in the place of its lock.
    let lock = node.directory().join("lock");
    m3ipc_large::kill_daemon(&node);
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let (tell, is_early) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let sent = client.send_bytes(to, 7, &payload(1, 10_000), SHORT);
        let early = matches!(sent, Err(SendError::TimedOut(_)));
        tell.send(()).unwrap();
        (early, client.send_bytes(to, 7, &payload(1, 10_000), LIMIT))
    });
    is_early.recv().unwrap();
    std::fs::remove_dir(&lock).unwrap();
    let (_, bytes) = server.receive_bytes(Source::Any, LIMIT).unwrap();
    assert!(bytes == payload(1, 10_000));
    let (early, sent) = thread.join().unwrap();
    assert!(early);
    sent.unwrap();
}

#[test]
fn a_member_that_freed_all_its_blocks_leaves_room_for_others() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let area = client.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    let there = server.attach_area(area.id()).unwrap();
    let mut blocks = Vec::new();
    while let Ok(block) = client.allocate(&area, 16_000, BlockLifetime::Short) {
        blocks.push(block);
    }
    let last = blocks.pop();
    assert!(blocks.len() > 40);
    drop(blocks);
    let mut try_allocate = |client: &mut m3ipc::Endpoint| {
        let _ = server.allocate(&there, 1 << 19, BlockLifetime::Short);
        // The client learns that room is wanted at one of its next calls.
        let _ = client.try_receive(Source::Any);
        server.allocate(&there, 1 << 19, BlockLifetime::Short).is_ok()
    };
    assert!(!try_allocate(&mut client), "a block is in use");
    drop(last);
    assert!(try_allocate(&mut client));
    // What is left is for the client.
    client.allocate(&area, 16_000, BlockLifetime::Short).unwrap();
}

#[test]
fn calls_without_a_limit_name_the_stopped_daemon() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let (to, vm) = (server.address(), node.vm().clone());
    let mut idle = m3ipc::Node::find(node.directory()).unwrap();
    let directory = node.directory().to_owned();
    let stopped = Stopped::new(&node);
    let contact = std::thread::spawn(move || {
        let sent = client.send(to, &Message::new(7)).unwrap_err();
        (sent.to_string(), client)
    });
    let name = std::thread::spawn(move || server.name_locate("stock").unwrap_err().to_string());
    let bind = std::thread::spawn(move || vm.bind_additional(None).unwrap_err().to_string());
    let found = m3ipc::Node::find_timeout(&directory, SHORT).unwrap_err();
    assert!(matches!(found, m3ipc::NodeError::TimedOut(_)), "{found}");
    let asked = idle.vms().unwrap_err();
    assert!(matches!(asked, m3ipc::NodeError::TimedOut(_)), "{asked}");
    let (contact, client) = contact.join().unwrap();
    for text in
        [contact, name.join().unwrap(), bind.join().unwrap(), found.to_string(), asked.to_string()]
    {
        assert!(text.contains("it is stopped; continue it with `kill -CONT"), "{text}");
    }
    drop(stopped);
    drop(client);
}

#[test]
fn a_wait_with_time_left_names_the_stopped_daemon() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (_server, mut client) = node.pair_without_link();
    let stopped = Stopped::new(&node);
    let waited = client.wait_name("stock", Duration::from_secs(600)).unwrap_err();
    assert_eq!(waited.code(), m3ipc::Code::NotConn);
    let text = waited.to_string();
    assert!(text.contains("it is stopped; continue it with `kill -CONT"), "{text}");
    drop(stopped);
}
