//! Clients with large payloads or areas come and go: server and daemon keep nothing of them.

use m3ipc::test::TestNode;
use m3ipc::{AreaConfig, BlockLifetime, Endpoint, Message, Source};
use m3ipc_large::{Resources, daemon_pid, outcome, payload, take_pending, watchdog};
use m3ipc_test_fixture::resources::one_heap;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// The time that server and daemon have to close what they no longer need.
const CLOSE_LIMIT: Duration = Duration::from_secs(40);
/// Clients before the first count: the allocators of server and daemon have grown by then.
const WARM_UP: usize = 20;

/// What this process and the daemon hold.
fn resources(node: &TestNode) -> [Resources; 2] {
    let daemon = daemon_pid(node.directory()).expect("a private node");
    [Resources::of(std::process::id().cast_signed()), Resources::of(daemon)]
}

/// Runs `visit` with so many clients, one after the other, and compares the counts.
fn come_and_go(clients: usize, mut visit: impl FnMut(&mut Endpoint, &mut Endpoint)) {
    one_heap();
    let node = m3ipc::test::node();
    let mut server = node.vm().bind(1).expect("a private node");
    let mut visits = |count: usize, server: &mut Endpoint| {
        for _ in 0..count {
            let mut client = node.vm().bind_additional(Some(40)).expect("a private node");
            visit(server, &mut client);
            drop(client);
            // The server learns of the end of the client at one of its next calls.
            let _ = server.try_receive(Source::Any);
        }
        std::thread::sleep(Duration::from_millis(50));
        let _ = server.try_receive(Source::Any);
        std::thread::sleep(Duration::from_millis(50));
    };
    visits(WARM_UP, &mut server);
    let before = resources(&node);
    visits(clients, &mut server);
    assert_keeps_nothing(&node, &before, || drop(server.try_receive(Source::Any)));
}

/// Server and daemon hold what they held, or will: they learn of the end of a client a bit later.
fn assert_keeps_nothing(node: &TestNode, before: &[Resources; 2], mut learn: impl FnMut()) {
    let begun = Instant::now();
    loop {
        learn();
        let after = resources(node);
        let more: Vec<_> =
            before.iter().zip(&after).flat_map(|(had, has)| grown(had, has)).collect();
        if more.is_empty() || begun.elapsed() > CLOSE_LIMIT {
            println!("before {before:?}\nafter  {after:?}");
            assert_eq!(more, [""; 0], "what server or daemon keeps");
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a process holds now and did not hold before.
fn grown(had: &Resources, has: &Resources) -> Vec<&'static str> {
    let kinds = [
        ("descriptors", has.descriptors > had.descriptors + 4),
        ("mappings", has.mappings > had.mappings + 16),
        ("addresses", has.address_space_kib > had.address_space_kib + (64 << 10)),
        ("shared memory", has.shared_kib > had.shared_kib + (8 << 10)),
    ];
    kinds.into_iter().filter_map(|(kind, is_more)| is_more.then_some(kind)).collect()
}

/// A large request with a large answer.
fn call(server: &mut Endpoint, client: &mut Endpoint) {
    let mut pending = client
        .begin_request_bytes(server.address(), 7, payload(1, 20_000))
        .expect("a private node");
    let (received, bytes) = take_pending(server, client, &mut pending);
    assert_eq!(bytes, payload(1, 20_000));
    server.reply_bytes(received.message.source, 0, &payload(2, 30_000)).expect("a private node");
    assert_eq!(outcome(client, &mut pending).expect("a private node"), payload(2, 30_000));
}

/// A block of an area of the client, which the server takes and drops.
fn give(server: &mut Endpoint, client: &mut Endpoint) {
    let to = server.address();
    let area = client.create_area(&AreaConfig::pair(1 << 20, to)).expect("a private node");
    let mut block = client.allocate(&area, 5, BlockLifetime::Short).expect("a private node");
    block.copy_from(b"bytes").expect("a private node");
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| client.send_block(to, &Message::new(7), block, LIMIT).is_ok());
        server.receive_timeout(Source::Any, LIMIT).expect("a private node");
        assert_eq!(
            server.take_block().expect("a private node").expect("a private node").to_vec(),
            b"bytes"
        );
        assert!(sender.join().expect("no panic"));
    });
}

#[test]
fn clients_with_large_payloads_leave_nothing() {
    watchdog(Duration::from_secs(120));
    come_and_go(200, call);
}

#[test]
#[ignore = "10,000 clients take a minute"]
fn many_clients_with_large_payloads_leave_nothing() {
    watchdog(Duration::from_secs(1_200));
    come_and_go(10_000, call);
}

#[test]
fn clients_with_areas_leave_nothing() {
    watchdog(Duration::from_secs(120));
    come_and_go(200, give);
}

#[test]
fn a_client_that_never_got_its_payload_taken_leaves_nothing() {
    watchdog(Duration::from_secs(120));
    come_and_go(100, |server, client| {
        let sent = client.send_bytes(server.address(), 7, &payload(1, 20_000), LIMIT / 60_000);
        assert!(sent.is_err());
    });
}

#[test]
fn areas_that_are_created_and_dropped_end() {
    watchdog(Duration::from_secs(120));
    let node = m3ipc::test::node();
    let (server, mut client) = node.pair_without_link();
    let mut create = |count: usize| {
        for _ in 0..count {
            let area = client.create_area(&AreaConfig::pair(1 << 20, server.address())).unwrap();
            drop(client.allocate(&area, 5_000, BlockLifetime::Short).unwrap());
        }
    };
    create(WARM_UP);
    let before = resources(&node);
    create(500);
    assert_keeps_nothing(&node, &before, || {});
}

#[test]
fn an_area_with_a_block_out_outlives_its_handle() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let area = client.create_area(&AreaConfig::pair(1 << 20, server.address())).unwrap();
    let id = area.id();
    let mut block = client.allocate(&area, 5, BlockLifetime::Short).unwrap();
    block.copy_from(b"bytes").unwrap();
    let given = client.give_block(server.address(), block).unwrap().name();
    drop(area);
    let sweep = |client: &mut Endpoint| {
        drop(client.create_area(&AreaConfig::vm(1 << 20)).unwrap());
    };
    sweep(&mut client);
    let block = server.accept_given(client.address(), &given).unwrap();
    sweep(&mut client);
    assert_eq!(block.to_vec(), b"bytes");
    assert!(client.attached(id).is_some());
    drop(block);
    // The allocator member finds the free block at one of its next calls.
    for _ in 0..100 {
        sweep(&mut client);
    }
    assert!(client.attached(id).is_none());
}
