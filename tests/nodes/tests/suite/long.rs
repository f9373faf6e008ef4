//! Long payloads cross nodes whole, at most once, and beside short messages.

use m3ipc::{Address, Code, Message, SendError, SendRecError, Source};
use m3ipc_test_fixture::{until, watchdog};
use m3ipc_test_nodes::Cluster;
use std::time::Duration;

const CLIENT: i32 = 1;
const SERVER: i32 = 10;
const SERVER_ADDRESS: Address = Address(SERVER);

/// Bytes that differ at each place and for each number.
fn pattern(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ number).to_le_bytes()[0]).collect()
}

#[test]
fn a_long_request_and_its_long_answer_cross_nodes() {
    watchdog(120);
    let cluster = Cluster::new("long");
    let _server = cluster.beta.program("echo", SERVER);
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    // Around each border: the link, one packet, the window of the lane.
    let sizes = [1793, 10_000, 61_439, 61_440, 61_441, 100_000, 600_000, 5 << 20];
    for (number, bytes) in sizes.into_iter().enumerate() {
        let request = pattern(number, bytes);
        let mut answer = vec![0; bytes + 1];
        let asked =
            client.sendrec_long(SERVER_ADDRESS, &Message::new(7), &request, &mut answer, None);
        let (message, length) = asked.expect("the server answers");
        assert_eq!((message.m_type, length), (8, bytes));
        assert!(answer[..bytes] == request, "{bytes} bytes");
        // And a short one after each.
        assert!(client.sendrec(SERVER_ADDRESS, &Message::new(7)).is_ok());
    }
}

#[test]
fn short_requests_pass_long_ones() {
    watchdog(120);
    let cluster = Cluster::new("long-short");
    let _server = cluster.beta.program("echo", SERVER);
    let _other = cluster.beta.program("echo", SERVER + 1);
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    let mut other = cluster.alpha.vm.bind_additional(Some(CLIENT + 1)).expect("a slot of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    cluster.alpha.await_endpoint(Address(SERVER + 1));
    let long = std::thread::spawn(move || {
        for number in 0..8 {
            let request = pattern(number, 4 << 20);
            let mut answer = vec![0; request.len()];
            let asked =
                client.sendrec_long(SERVER_ADDRESS, &Message::new(7), &request, &mut answer, None);
            asked.expect("the server answers");
            assert!(answer == request);
        }
        // It is the first endpoint of this process: the other one ends with it.
        client
    });
    let mut short = 0;
    while !long.is_finished() {
        other.sendrec(Address(SERVER + 1), &Message::new(7)).expect("the server answers");
        short += 1;
    }
    let _client = long.join().expect("all answers came");
    assert!(short > 0);
}

#[test]
fn a_long_message_is_taken_or_comes_back() {
    watchdog(120);
    let cluster = Cluster::new("long-limit");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let bytes = pattern(3, 1 << 20);
    for _ in 0..3 {
        let limit = Duration::from_millis(100);
        let sent = client.send_bytes(SERVER_ADDRESS, 7, &bytes, limit);
        assert!(matches!(sent, Err(SendError::TimedOut(_))), "{sent:?}");
        let received = server.try_receive(Source::Any);
        assert!(received.is_err(), "it came back: {received:?}");
        let asked = client.sendrec_long(SERVER_ADDRESS, &Message::new(7), &bytes, &mut [], limit);
        assert!(matches!(asked, Err(SendRecError::TimedOut(_))), "{asked:?}");
        assert!(server.try_receive(Source::Any).is_err());
    }
    let receiver = std::thread::spawn(move || server.receive_bytes(Source::Any, None));
    client.send_bytes(SERVER_ADDRESS, 8, &bytes, None).expect("the server receives");
    let (message, received) = receiver.join().expect("no panic").expect("it comes");
    assert_eq!(message.message.m_type, 8);
    assert!(received == bytes);
}

#[test]
fn a_server_that_answers_and_dies_has_answered() {
    watchdog(120);
    let cluster = Cluster::new("long-death");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    let bytes = pattern(4, 4 << 20);
    for _ in 0..3 {
        let mut server = cluster.beta.program("once", SERVER);
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
        let mut answer = vec![0; bytes.len()];
        let asked =
            client.sendrec_long(SERVER_ADDRESS, &Message::new(7), &bytes, &mut answer, None);
        match asked {
            Ok((_, length)) => assert!(length == bytes.len() && answer == bytes),
            // The proxy had not looked at the answer yet.
            Err(error) => {
                let codes = [Code::SrcDied, Code::AnswerLost];
                assert!(codes.contains(&error.code()), "{error}");
            }
        }
        server.kill();
        until("the death is known", || !cluster.alpha.knows(SERVER_ADDRESS));
    }
}

/// The memory of a process that no file backs, in kB.
fn anonymous_kb(process: &m3ipc_test_nodes::Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()));
    let status = status.expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|rest| rest.trim().split(' ').next()?.parse().ok()).expect("a number")
}

#[test]
fn a_proxy_keeps_no_bytes_of_a_request_that_was_taken() {
    watchdog(120);
    let cluster = Cluster::new("long-taken");
    let mut server = cluster.beta.program("silent", SERVER);
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let before_kb = anonymous_kb(&cluster.beta.proxy);
    let bytes = pattern(5, 64 << 20);
    let sending = std::thread::spawn(move || {
        client.sendrec_long(SERVER_ADDRESS, &Message::new(7), &bytes, &mut [], None)
    });
    assert_eq!(server.line(), "taken");
    until("the bytes are gone", || anonymous_kb(&cluster.beta.proxy) < before_kb + (16 << 10));
    server.kill();
    let end = sending.join().expect("no panic").map_err(|error| error.code());
    assert_eq!(end.map(|_| ()), Err(Code::SrcDied));
}

/// Two long messages whose receivers take nothing fill what may be under way.
#[test]
fn a_long_message_without_room_holds_up_no_short_one() {
    watchdog(240);
    let cluster = Cluster::new("long-room");
    let mut servers = [SERVER, SERVER + 1].map(|slot| cluster.beta.bind(slot));
    servers.iter_mut().for_each(|server| server.set_receive_limit(128 << 20));
    let _echo = cluster.beta.program("echo", SERVER + 2);
    let echo = Address(SERVER + 2);
    let mut client = cluster.alpha.bind(CLIENT);
    for slot in [SERVER, SERVER + 1, SERVER + 2] {
        cluster.alpha.await_endpoint(Address(slot));
    }
    let send = |slot: i32, to: Address, bytes: usize| {
        let mut sender = cluster.alpha.bind(slot);
        std::thread::spawn(move || {
            sender.send_bytes(to, 7, &vec![1; bytes], None).map_err(|error| error.code())
        })
    };
    let before_kb = [&cluster.alpha, &cluster.beta].map(|node| anonymous_kb(&node.proxy));
    let bytes = 65 << 20;
    let holds = |kb: u64, before_kb: u64| kb > before_kb + (64 << 10);
    let first = send(2, SERVER_ADDRESS, bytes);
    until("the first one waits at its receiver", || {
        holds(anonymous_kb(&cluster.beta.proxy), before_kb[1])
            && !holds(anonymous_kb(&cluster.alpha.proxy), before_kb[0])
    });
    let second = send(3, Address(SERVER + 1), bytes);
    until("the second one waits to be fetched", || {
        holds(anonymous_kb(&cluster.alpha.proxy), before_kb[0])
    });
    let third = send(4, echo, 100_000);
    cluster.alpha.await_call(4, "send");
    for _ in 0..20 {
        client.sendrec(echo, &Message::new(7)).expect("the server answers");
        let medium =
            client.sendrec_long(echo, &Message::new(7), &[1; 60_000], &mut [0; 60_000], None);
        medium.expect("the server answers");
    }
    assert!(!third.is_finished(), "there is no room for it");
    for server in &mut servers {
        let (_, received) = server.receive_bytes(Source::Any, None).expect("it comes");
        assert_eq!(received.len(), bytes);
    }
    for sending in [first, second, third] {
        assert_eq!(sending.join().expect("no panic"), Ok(()));
    }
}
