//! Tasks of tokio over com-sockets.

use crate::fixture::Fixture;
use m3ipc_sockets::{AsyncListener, AsyncPoller, AsyncStream};
use m3ipc_test_fixture::pattern;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_talk_through_one_listener() {
    let fixture = Fixture::new("tasks");
    let listener = AsyncListener::new(fixture.domain.listen(80, 64).unwrap()).unwrap();
    let server = tokio::spawn(async move {
        for _ in 0..50 {
            let mut stream = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut bytes = vec![0; 10_000];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    stream.write_all(&bytes[..count]).await.unwrap();
                }
            });
        }
    });
    let clients: Vec<_> = (0..50_u64)
        .map(|serial| {
            let (domain, to) = (fixture.domain.clone(), fixture.at(0, 80));
            tokio::spawn(async move {
                let stream =
                    tokio::task::spawn_blocking(move || domain.connect(to).unwrap()).await.unwrap();
                let (mut read, mut write) = tokio::io::split(AsyncStream::new(stream).unwrap());
                let sent = pattern(serial, 700_000);
                let writes = {
                    let sent = sent.clone();
                    tokio::spawn(async move {
                        write.write_all(&sent).await.unwrap();
                        write.shutdown().await.unwrap();
                    })
                };
                let mut got = Vec::new();
                read.read_to_end(&mut got).await.unwrap();
                writes.await.unwrap();
                assert!(got == sent, "{} bytes came back", got.len());
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    server.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_talk_through_pollers() {
    let fixture = Fixture::new("polled_tasks");
    let listener = AsyncListener::new(fixture.domain.listen(80, 64).unwrap()).unwrap();
    let server = tokio::spawn(async move {
        let poller = AsyncPoller::new().unwrap();
        let mut tasks = vec![];
        for _ in 0..50 {
            let mut stream = listener.accept_in(&poller).await.unwrap();
            tasks.push(tokio::spawn(async move {
                let mut bytes = vec![0; 10_000];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    stream.write_all(&bytes[..count]).await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    let poller = Arc::new(AsyncPoller::new().unwrap());
    let clients: Vec<_> = (0..50_u64)
        .map(|serial| {
            let (domain, to, poller) =
                (fixture.domain.clone(), fixture.at(0, 80), Arc::clone(&poller));
            tokio::spawn(async move {
                let stream =
                    tokio::task::spawn_blocking(move || domain.connect(to).unwrap()).await.unwrap();
                let mut stream = AsyncStream::new_in(&poller, stream).unwrap();
                for round in 0..20 {
                    let sent = pattern(serial + round, 100);
                    stream.write_all(&sent).await.unwrap();
                    let mut got = vec![0; 100];
                    stream.read_exact(&mut got).await.unwrap();
                    assert!(got == sent, "other bytes came back");
                }
                let (mut read, mut write) = tokio::io::split(stream);
                let sent = pattern(serial, 700_000);
                let writes = {
                    let sent = sent.clone();
                    tokio::spawn(async move {
                        write.write_all(&sent).await.unwrap();
                        write.shutdown().await.unwrap();
                    })
                };
                let mut got = Vec::new();
                read.read_to_end(&mut got).await.unwrap();
                writes.await.unwrap();
                assert!(got == sent, "{} bytes came back", got.len());
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    server.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_go_on_after_the_drop_of_their_poller() {
    let fixture = Fixture::new("dropped_poller");
    let listener = AsyncListener::new(fixture.domain.listen(80, 64).unwrap()).unwrap();
    let poller = AsyncPoller::new().unwrap();
    let (domain, to) = (fixture.domain.clone(), fixture.at(0, 80));
    let connected = tokio::task::spawn_blocking(move || domain.connect(to).unwrap());
    let mut server = listener.accept_in(&poller).await.unwrap();
    let mut client = AsyncStream::new_in(&poller, connected.await.unwrap()).unwrap();
    drop(poller);
    let echo = tokio::spawn(async move {
        let mut bytes = vec![0; 100];
        server.read_exact(&mut bytes).await.unwrap();
        server.write_all(&bytes).await.unwrap();
    });
    // The task of the server waits before the bytes come.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let sent = pattern(1, 100);
    client.write_all(&sent).await.unwrap();
    let mut got = vec![0; 100];
    let answer = client.read_exact(&mut got);
    let answer = tokio::time::timeout(std::time::Duration::from_secs(60), answer).await;
    answer.expect("the stream waits for ever").unwrap();
    assert!(got == sent, "other bytes came back");
    echo.await.unwrap();
}
