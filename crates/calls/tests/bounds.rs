//! What a client or a server that takes nothing can cost the other side.
#![allow(clippy::unwrap_used)]

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Address, Message};
use m3ipc_calls::{CallError, Client, Config, Fault, Reason, Request, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(50);
const TRAIN: i32 = 0x4D33_1000;
/// What streams and answers to one peer may hold: `ROOM_BYTES`.
const ROOM: usize = 4 << 20;

fn frame(kind: u32, number: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend(kind.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend(body);
    bytes
}

fn request(number: u64, body: &[u8]) -> Vec<u8> {
    frame(1, number, &[&[0; 8], body].concat())
}

/// The result of a future, which must have one.
async fn ended<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it hangs")
}

/// Waits until the counter reaches `least`, and then gives it time to go on.
async fn settled(counter: &AtomicUsize, least: usize) -> usize {
    ended(async {
        while counter.load(SeqCst) < least {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    tokio::time::sleep(4 * SOON).await;
    counter.load(SeqCst)
}

#[tokio::test]
async fn a_stream_that_ends_at_once_ends_at_the_server() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let to = one.address();
    let count = |mut request: Request| async move {
        let mut count = 0_u32;
        while let Some(piece) = request.next().await {
            count += u32::try_from(piece.len()).unwrap();
        }
        Ok(count.to_le_bytes().to_vec())
    };
    let _server = Server::new(AsyncEndpoint::open(one).await.unwrap(), Config::default(), count);
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    for _ in 0..10 {
        assert_eq!(ended(client.open(to, vec![]).answer()).await, Ok(vec![0; 4]));
    }
    // More than the window: the last ones wait in the client.
    let calls: Vec<_> = (0..200).map(|_| client.open(to, vec![])).collect();
    for call in calls {
        assert_eq!(ended(call.answer()).await, Ok(vec![0; 4]));
    }
}

#[tokio::test]
async fn credit_without_a_take_costs_the_server_its_room_alone() {
    let node = m3ipc::test::node();
    let (one, _two) = node.pair_without_link();
    let hostile = node.vm().bind_additional(None).unwrap();
    let to = one.address();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let endless = move |request: Request| {
        let counter = Arc::clone(&counter);
        async move {
            while request.send(&[1; 100_000]).await {
                counter.fetch_add(100_000, SeqCst);
            }
            Ok(Vec::new())
        }
    };
    let _server = Server::new(AsyncEndpoint::open(one).await.unwrap(), Config::default(), endless);
    let mut hostile = AsyncEndpoint::open(hostile).await.unwrap();
    let message = Message::new(TRAIN);
    hostile.send(to, &message, request(0, b"")).await.unwrap();
    let credit = frame(11, 0, &(32_u64 << 20).to_le_bytes());
    hostile.send(to, &message, credit.clone()).await.unwrap();
    let bytes = settled(&sent, ROOM - 200_000).await;
    assert!(bytes <= ROOM, "{bytes}");
}

/// The answers of a client that takes none, and the calls of another client meanwhile.
#[tokio::test]
async fn answers_without_a_take_stop_the_handlers_of_that_client_alone() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let hostile = node.vm().bind_additional(None).unwrap();
    let to = one.address();
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let large = move |request: Request| {
        if request.bytes == b"large" {
            counter.fetch_add(1, SeqCst);
        }
        async move { Ok(if request.bytes == b"large" { vec![1; 1 << 20] } else { Vec::new() }) }
    };
    let config = Config { concurrency: 8, ..Config::default() };
    let _server = Server::new(AsyncEndpoint::open(one).await.unwrap(), config, large);
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let mut hostile = AsyncEndpoint::open(hostile).await.unwrap();
    let train = (0..100).flat_map(|number| request(number, b"large")).collect();
    hostile.send(to, &Message::new(TRAIN), train).await.unwrap();
    let answers = settled(&made, 7).await;
    assert!(answers <= 8, "{answers}: those in the room, and half of the handlers");
    assert_eq!(ended(client.call_bytes(to, vec![], None)).await, Ok(vec![]));
}

#[tokio::test]
async fn a_silent_client_takes_half_of_the_handlers() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let silent = node.vm().bind_additional(None).unwrap();
    let to = one.address();
    let waits = |mut request: Request| async move {
        if request.bytes == b"wait" {
            request.next().await;
        }
        Ok::<_, Fault>(request.bytes)
    };
    let config = Config { concurrency: 3, ..Config::default() };
    let _server = Server::new(AsyncEndpoint::open(one).await.unwrap(), config, waits);
    let silent = Client::new(AsyncEndpoint::open(silent).await.unwrap(), Config::default());
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let _calls: Vec<_> = (0..10).map(|_| silent.open(to, b"wait".to_vec())).collect();
    tokio::time::sleep(SOON).await;
    assert_eq!(ended(client.call_bytes(to, b"x".to_vec(), None)).await, Ok(b"x".to_vec()));
}

/// A server that asks for a stream and takes none of it.
#[tokio::test]
async fn credit_without_a_take_costs_the_client_its_room_alone() {
    let node = m3ipc::test::node();
    let (one, two) = node.pair_without_link();
    let to = one.address();
    let here = two.address();
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    let mut hostile = AsyncEndpoint::open(one).await.unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let call = client.open(to, vec![]);
    let sender = tokio::spawn(async move {
        while call.send(&[1; 100_000]).await {
            counter.fetch_add(100_000, SeqCst);
        }
        call.answer().await
    });
    hostile.receive_bytes(m3ipc::Source::Any).await.unwrap();
    let credit = frame(10, 0, &(32_u64 << 20).to_le_bytes());
    hostile.send(here, &Message::new(TRAIN), credit).await.unwrap();
    let bytes = settled(&sent, ROOM - 200_000).await;
    assert!(bytes <= ROOM, "{bytes}");
    // An answer ends the send, although nothing was taken.
    hostile.send(here, &Message::new(TRAIN), frame(2, 0, b"end")).await.unwrap();
    assert_eq!(ended(sender).await.unwrap(), Ok(b"end".to_vec()));
}

#[tokio::test]
async fn a_drop_of_a_server_ends_it_while_its_client_lives() {
    let node = m3ipc::test::node();
    let (_first, two) = node.pair_without_link();
    let one = node.vm().bind_additional(None).unwrap();
    let to: Address = one.address();
    let echo = |request: Request| async move { Ok(request.bytes) };
    let server = Server::new(AsyncEndpoint::open(one).await.unwrap(), Config::default(), echo);
    let client = Client::new(AsyncEndpoint::open(two).await.unwrap(), Config::default());
    assert_eq!(ended(client.call_bytes(to, vec![1], None)).await, Ok(vec![1]));
    let own = server.client();
    drop(server);
    let died = ended(client.call_bytes(to, vec![2], None)).await;
    assert!(
        matches!(died, Err(CallError::NotTaken(Reason::Died) | CallError::Taken(Reason::Died))),
        "{died:?}"
    );
    let closed = ended(own.call_bytes(to, vec![3], None)).await;
    assert_eq!(closed, Err(CallError::NotTaken(Reason::Closed)));
}
