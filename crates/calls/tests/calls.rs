//! Calls between two endpoints of one process.
#![allow(clippy::unwrap_used)]

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::test::TestNode;
use m3ipc::{Address, Message};
use m3ipc_calls::{CallError, Client, Config, Fault, Reason, Request, Server};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

async fn pair(
    node: &TestNode,
    config: Config,
    handler: impl m3ipc_calls::Handler,
) -> (Server, Client, Address) {
    let (one, two) = node.pair_without_link();
    let to = one.address();
    let server = Server::new(AsyncEndpoint::open(one).await.unwrap(), config, handler);
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    (server, client, to)
}

async fn echo(request: Request) -> Result<Vec<u8>, Fault> {
    Ok(request.bytes)
}

/// An echo that tells when it has begun, and ends when the test wants.
fn held(begun: &Arc<Notify>, end: &Arc<Notify>) -> impl m3ipc_calls::Handler + use<> {
    let (begun, end) = (Arc::clone(begun), Arc::clone(end));
    move |request: Request| {
        let (begun, end) = (Arc::clone(&begun), Arc::clone(&end));
        async move {
            begun.notify_one();
            end.notified().await;
            Ok(request.bytes)
        }
    }
}

const SOON: Duration = Duration::from_millis(50);
/// The time that a shutdown gives handlers. None of the tests waits for its end.
const GRACE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn bytes_of_each_size_come_back() {
    let node = m3ipc::test::node();
    let (_server, client, to) = pair(&node, Config::default(), echo).await;
    for length in [0, 1, 40, 41, 1_700, 1_792, 5_000, 300_000, 20_000_000] {
        let bytes: Vec<u8> = (0..length).map(|at: usize| at.to_le_bytes()[0]).collect();
        assert_eq!(client.call_bytes(to, bytes.clone(), None).await.unwrap(), bytes, "{length}");
    }
}

#[tokio::test]
async fn a_body_above_the_limit_of_its_peer_is_an_error_of_that_call_alone() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let to = one.address();
    let config = Config { max_body_bytes: 200_000, ..Config::default() };
    let handler = |request: Request| async move {
        match request.bytes.first_chunk().copied().map(u32::from_le_bytes) {
            Some(length) => Ok(vec![1; length as usize]),
            None => std::future::pending().await,
        }
    };
    let _server = Server::new(AsyncEndpoint::open(one).await.unwrap(), config, handler);
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let open = tokio::spawn({
        let client = client.clone();
        async move { client.call_bytes(to, Vec::new(), None).await }
    });
    let refused = client.call_bytes(to, vec![0; 1_000_000], None).await.unwrap_err();
    let CallError::NotTaken(Reason::Link(error)) = refused else { panic!("{refused}") };
    assert_eq!(error.code().number(), -73);
    assert!(error.to_string().contains("200040"), "{error}");
    // An answer that its own server allows, and its client does not.
    let third = node.vm().bind_additional(None).unwrap();
    let config = Config { max_body_bytes: 150_000, ..Config::default() };
    let small = Client::new(AsyncEndpoint::open(third).await.unwrap(), config);
    let fault = small.call_bytes(to, 160_000_u32.to_le_bytes().to_vec(), None).await.unwrap_err();
    let CallError::Answered(fault) = fault else { panic!("{fault}") };
    assert!(fault.message.contains("150040"), "{fault}");
    for (client, length) in [(&small, 100_000_u32), (&client, 200_000)] {
        let answer = client.call_bytes(to, length.to_le_bytes().to_vec(), None).await.unwrap();
        assert_eq!(answer.len(), length as usize);
    }
    assert!(!open.is_finished(), "other calls go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_are_outstanding_and_end_out_of_order() {
    let node = m3ipc::test::node();
    let open = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (opened, gates) = (Arc::clone(&open), Arc::clone(&gate));
    let handler = move |request: Request| {
        let (opened, gates) = (Arc::clone(&opened), Arc::clone(&gates));
        async move {
            opened.fetch_add(1, SeqCst);
            let _permit = gates.acquire().await.unwrap();
            Ok(request.bytes)
        }
    };
    let config = Config { concurrency: 20_000, ..Default::default() };
    let (_server, client, to) = pair(&node, config, handler).await;
    let mut calls = JoinSet::new();
    for number in 0..10_000_u32 {
        let client = client.clone();
        calls.spawn(async move {
            let bytes = number.to_le_bytes().to_vec();
            assert_eq!(client.call_bytes(to, bytes.clone(), None).await.unwrap(), bytes);
        });
    }
    while open.load(SeqCst) < 10_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    gate.add_permits(10_000);
    while let Some(ended) = calls.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn a_drop_and_a_time_limit_end_the_handler() {
    struct Ended(Arc<AtomicUsize>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let node = m3ipc::test::node();
    let (ended, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counter, begins) = (Arc::clone(&ended), Arc::clone(&begun));
    let handler = move |request: Request| {
        let (ended, begins) = (Ended(Arc::clone(&counter)), Arc::clone(&begins));
        async move {
            match request.bytes.as_slice() {
                b"short" => return Ok(request.bytes),
                b"dropped" => begins.notify_one(),
                _ => {}
            }
            std::future::pending::<()>().await;
            drop(ended);
            Ok(Vec::new())
        }
    };
    let (_server, client, to) = pair(&node, Config::default(), handler).await;
    // No first contact is within the limit of the next call.
    client.call_bytes(to, b"short".to_vec(), None).await.unwrap();
    let timed = client.call_bytes(to, Vec::new(), Some(Duration::from_secs(2))).await;
    // The server's own end of the limit may come first.
    assert!(
        matches!(timed, Err(CallError::Taken(Reason::TimedOut) | CallError::Answered(_))),
        "{timed:?}"
    );
    tokio::select! {
        ended = client.call_bytes(to, b"dropped".to_vec(), None) => panic!("{ended:?}"),
        () = begun.notified() => {}
    }
    while ended.load(SeqCst) < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_receive_takes_nothing() {
    let node = m3ipc::test::node();
    let (_first, two) = node.pair_without_link();
    let one = node.vm().bind_additional(None).unwrap();
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let to = one.address();
    let timed = client.call_bytes(to, b"x".to_vec(), Some(SOON)).await;
    assert_eq!(timed, Err(CallError::NotTaken(Reason::TimedOut)));
    let waits = tokio::spawn({
        let client = client.clone();
        async move { client.call_bytes(to, b"y".to_vec(), None).await }
    });
    tokio::time::sleep(SOON).await;
    drop(one);
    assert_eq!(waits.await.unwrap(), Err(CallError::NotTaken(Reason::Died)));
    let gone = client.call_bytes(to, b"z".to_vec(), None).await;
    assert_eq!(gone, Err(CallError::NotTaken(Reason::Died)));
}

#[tokio::test]
async fn the_death_of_a_server_tells_what_it_took() {
    let node = m3ipc::test::node();
    let (_first, two) = node.pair_without_link();
    let mut one = node.vm().bind_additional(None).unwrap();
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let to = one.address();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_bytes(to, b"x".to_vec(), None).await }
    });
    let taker = tokio::task::spawn_blocking(move || {
        one.receive_bytes(m3ipc::Source::Any, None).unwrap();
        one
    });
    drop(taker.await.unwrap());
    assert_eq!(call.await.unwrap(), Err(CallError::Taken(Reason::Died)));
}

#[tokio::test]
async fn a_shutdown_refuses_what_has_not_begun() {
    let node = m3ipc::test::node();
    let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = held(&begun, &end);
    let config = Config { concurrency: 1, ..Default::default() };
    let (server, client, to) = pair(&node, config, handler).await;
    let mut calls = JoinSet::new();
    for _ in 0..2 {
        let client = client.clone();
        calls.spawn(async move { client.call_bytes(to, b"x".to_vec(), None).await });
    }
    begun.notified().await;
    tokio::time::sleep(Duration::from_secs(1)).await; // The other request comes, and queues.
    tokio::join!(server.shutdown(GRACE), async { end.notify_one() });
    let mut results = calls.join_all().await;
    results.sort_by_key(Result::is_err);
    assert_eq!(results[0], Ok(b"x".to_vec()));
    assert_eq!(results[1], Err(CallError::NotTaken(Reason::ShuttingDown)));
}

#[tokio::test]
async fn a_panic_of_a_handler_is_an_answer() {
    let node = m3ipc::test::node();
    let handler = |_request: Request| async move { panic!("as the test wants") };
    let (_server, client, to) = pair(&node, Config::default(), handler).await;
    let ended = client.call_bytes(to, Vec::new(), None).await;
    assert!(matches!(ended, Err(CallError::Answered(_))), "{ended:?}");
}

#[tokio::test]
async fn a_plain_call_reaches_the_same_handler() {
    let node = m3ipc::test::node();
    let (one, mut two) = node.pair_without_link();
    let to = one.address();
    let _server = Server::new(AsyncEndpoint::open(one).await.unwrap(), Config::default(), echo);
    let plain = tokio::task::spawn_blocking(move || {
        [0, 10, 40, 41, 100_000].map(|length| two.call(to, &vec![7; length], None).unwrap().len())
    });
    assert_eq!(plain.await.unwrap(), [0, 10, 40, 41, 100_000]);
}

#[tokio::test]
async fn both_sides_call_each_other() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let (there, here) = (one.address(), two.address());
    let one = Server::new(AsyncEndpoint::open(one).await.unwrap(), Config::default(), echo);
    let two = Server::new(AsyncEndpoint::open(two).await.unwrap(), Config::default(), echo);
    let mut calls = JoinSet::new();
    for _ in 0..500 {
        let (one, two) = (one.client(), two.client());
        calls.spawn(async move { one.call_bytes(here, vec![1; 100], None).await });
        calls.spawn(async move { two.call_bytes(there, vec![2; 100], None).await });
    }
    assert!(calls.join_all().await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_call_by_name_is_repeated_only_if_it_was_not_taken() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let vm = node.vm().clone();
    let mut first = AsyncEndpoint::open(vm.bind_additional(None).unwrap()).await.unwrap();
    first.name_attach("adder").await.unwrap();
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let call = tokio::spawn(async move {
        client.call_named::<_, u32>("adder", &20_u32, m3ipc_calls::Retry::default()).await
    });
    tokio::time::sleep(SOON).await;
    drop(first); // it took nothing
    let mut second = AsyncEndpoint::open(one).await.unwrap();
    second.name_attach("adder").await.unwrap();
    let add = m3ipc_calls::typed(|number: u32, _request| async move { Ok(number + 22) });
    let _server = Server::new(second, Config::default(), add);
    assert_eq!(call.await.unwrap(), Ok(42));
}

/// Trains that no honest peer sends: each ends the calls of that peer, and of no other.
#[tokio::test]
async fn a_hostile_client_harms_only_its_own_calls() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let hostile = node.vm().bind_additional(None).unwrap();
    let to = one.address();
    let _server = Server::new(AsyncEndpoint::open(one).await.unwrap(), Config::default(), echo);
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let mut hostile = AsyncEndpoint::open(hostile).await.unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..300_u32 {
        let length = random.usize(..200);
        let mut train: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        if length >= 16 && round % 2 == 0 {
            // A whole frame of each kind with any number.
            train[..4].copy_from_slice(&u32::try_from(length - 16).unwrap().to_le_bytes());
            train[4..8].copy_from_slice(&random.u32(1..8).to_le_bytes());
        }
        let message = Message::new(0x4D33_1000).with_bytes(&random.u64(..).to_le_bytes());
        let sent = tokio::time::timeout(Duration::from_secs(10), hostile.send(to, &message, train));
        sent.await.expect("the server receives").unwrap();
        let bytes = round.to_le_bytes().to_vec();
        assert_eq!(client.call_bytes(to, bytes.clone(), None).await, Ok(bytes));
    }
}

/// A server that answers numbers it was never asked for.
#[tokio::test]
async fn an_answer_to_an_unknown_number_ends_the_calls_of_that_server() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let to = one.address();
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let here = Address(2);
    let mut hostile = AsyncEndpoint::open(one).await.unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_bytes(to, b"x".to_vec(), None).await }
    });
    hostile.receive_bytes(m3ipc::Source::Any).await.unwrap();
    let mut train = vec![0; 16];
    train[4] = 2;
    train[8] = 99;
    hostile.send(here, &Message::new(0x4D33_1000), train).await.unwrap();
    assert_eq!(call.await.unwrap(), Err(CallError::Taken(Reason::PeerBroke)));
}

#[tokio::test]
async fn a_hundred_megabytes_stream_in_both_directions_at_once() {
    const BYTES: usize = 100 << 20;
    let node = m3ipc::test::node();
    let back = |mut request: Request| async move {
        let mut count = 0_u64;
        while let Some(piece) = request.next().await {
            count += piece.len() as u64;
            assert!(request.send(&piece).await);
        }
        Ok(count.to_le_bytes().to_vec())
    };
    let (_server, client, to) = pair(&node, Config::default(), back).await;
    let mut call = client.open(to, Vec::new());
    let piece: Vec<u8> = (0..1 << 20).map(|at: u32| at.to_le_bytes()[1]).collect();
    let mut came = 0;
    let mut sent = 0;
    while sent < BYTES {
        assert!(call.send(&piece[..piece.len() / 4]).await);
        sent += piece.len() / 4;
        let mut round = 0;
        while round < piece.len() / 4 {
            round += call.next().await.expect("the server sends it back").len();
        }
        came += round;
    }
    assert_eq!(
        (came, call.answer().await.unwrap()),
        (BYTES, (BYTES as u64).to_le_bytes().to_vec())
    );
}

#[tokio::test]
async fn a_stream_without_end_costs_its_credit_and_no_more() {
    let node = m3ipc::test::node();
    let endless = |request: Request| async move {
        while request.send(&[1; 100_000]).await {}
        Ok(Vec::new())
    };
    let (_server, client, to) = pair(&node, Config::default(), endless).await;
    let mut call = client.open(to, Vec::new());
    let mut bytes = 0;
    while bytes < 10_000_000 {
        bytes += call.next().await.expect("the stream goes on").len();
    }
    tokio::time::sleep(SOON).await;
    drop(call);
    // The client goes on with other calls.
    let mut other = client.open(to, Vec::new());
    assert!(other.next().await.is_some());
}

#[tokio::test]
async fn a_wait_for_a_name_ends_with_the_endpoint() {
    let node = m3ipc::test::node();
    let (server, _client, _to) = pair(&node, Config::default(), echo).await;
    let client = server.client();
    server.shutdown(SOON).await;
    let waited = tokio::time::timeout(Duration::from_secs(10), client.wait_name("nobody")).await;
    assert!(matches!(waited, Ok(Err(_))), "{waited:?}");
}

#[tokio::test]
async fn an_open_call_has_the_length_limit_of_a_call() {
    let node = m3ipc::test::node();
    let (_first, two) = node.pair_without_link();
    let config = Config { max_body_bytes: 10, ..Config::default() };
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), config);
    let call = client.open(Address(1), vec![0; 11]);
    let ended = call.answer().await;
    assert!(matches!(ended, Err(CallError::NotTaken(Reason::BadRequest(_)))), "{ended:?}");
}

#[tokio::test]
async fn a_shutdown_answers_a_plain_call_and_a_limit_refuses_it() {
    let node = m3ipc::test::node();
    let (one, mut two) = node.pair_without_link();
    let to = one.address();
    let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let config = Config { max_body_bytes: 1_000, ..Config::default() };
    let handler = held(&begun, &end);
    let server = Server::new(AsyncEndpoint::open(one).await.unwrap(), config, handler);
    let plain = tokio::task::spawn_blocking(move || {
        let refused = two.call(to, &[7; 1_001], None).unwrap();
        assert_eq!(refused, b"the request is longer than max_body_bytes");
        two.call(to, &[7; 1_000], None).unwrap()
    });
    begun.notified().await;
    // The shutdown begins before the handler ends.
    tokio::join!(server.shutdown(GRACE), async { end.notify_one() });
    assert_eq!(plain.await.unwrap(), [7; 1_000]);
}

#[tokio::test]
async fn a_fault_that_needs_a_stopped_daemon_comes_cut() {
    let node = m3ipc::test::node();
    let (one, mut two) = node.pair();
    let to = one.address();
    let fault = |request: Request| async move {
        Err(Fault::new("x".repeat(1_000 * usize::from(request.bytes[0]))))
    };
    let _server = Server::new(AsyncEndpoint::open(one).await.unwrap(), Config::default(), fault);
    let info = m3ipc::Node::find(node.directory()).unwrap().info().unwrap();
    let signal = move |signal: &str| {
        let pid = info.daemon_pid.to_string();
        assert!(
            std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success()
        );
    };
    let plain = tokio::task::spawn_blocking(move || {
        assert_eq!(two.call(to, &[1], None).unwrap().len(), 1_000);
        // No area is there for the longer text.
        signal("-STOP");
        let text = two.call(to, &[2], None);
        signal("-CONT");
        text.unwrap()
    });
    assert_eq!(plain.await.unwrap(), [b'x'; m3ipc::LONG_MAX_BYTES]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_wait_for_a_name_is_lost_beside_other_events() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let vm = node.vm().clone();
    for round in 0..1_000 {
        let waits: Vec<_> = (0..3)
            .map(|name| {
                let client = client.clone();
                tokio::spawn(async move { client.wait_name(&format!("{round}/{name}")).await })
            })
            .collect();
        let vm = vm.clone();
        let named = tokio::task::spawn_blocking(move || {
            let server = vm.bind_additional(None);
            let mut server = server.unwrap();
            (0..3).for_each(|name| server.name_attach(&format!("{round}/{name}")).unwrap());
            server
        });
        let server = named.await.unwrap();
        for wait in waits {
            let found = tokio::time::timeout(Duration::from_secs(30), wait).await;
            assert_eq!(found.expect("a lost wait").unwrap().unwrap(), server.address(), "{round}");
        }
        tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
    }
    drop(one);
}

/// Users call without end while their server shuts down. Each of their requests that ended without
/// an answer, with whether its handler began.
async fn ends_beside_a_shutdown(length: usize, has_stream: bool) -> Vec<(CallError, bool)> {
    let node = m3ipc::test::node();
    let begun: Arc<Mutex<HashSet<u64>>> = Arc::default();
    let seen = Arc::clone(&begun);
    let work = move |request: Request| {
        let id = u64::from_le_bytes(*request.bytes.first_chunk().unwrap());
        let seen = Arc::clone(&seen);
        async move {
            seen.lock().unwrap().insert(id);
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(Vec::new())
        }
    };
    let config = Config { concurrency: 64, ..Config::default() };
    let (server, client, to) = pair(&node, config, work).await;
    let mut users = JoinSet::new();
    for user in 0..24_u64 {
        let client = client.clone();
        users.spawn(async move {
            for number in 0.. {
                let id = user << 32 | number;
                let mut bytes = id.to_le_bytes().to_vec();
                bytes.resize(length, 0);
                let ended = match has_stream {
                    true => client.open(to, bytes).answer().await,
                    false => client.call_bytes(to, bytes, None).await,
                };
                if let Err(error) = ended {
                    return (id, error);
                }
            }
            unreachable!("the server ends")
        });
    }
    while begun.lock().unwrap().len() < 100 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.shutdown(GRACE).await;
    let ends = users.join_all().await;
    let begun = begun.lock().unwrap();
    ends.into_iter().map(|(id, error)| (error, begun.contains(&id))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_never_began_is_not_taken_by_a_shutdown() {
    for (length, has_stream) in [(8, false), (100_000, false), (8, true), (100_000, true)] {
        for _ in 0..8 {
            for (error, has_begun) in ends_beside_a_shutdown(length, has_stream).await {
                let is_taken = !matches!(error, CallError::NotTaken(_));
                assert!(!is_taken || has_begun, "{length}, {has_stream}: {error:?}");
            }
        }
    }
}
