//! A front end and its worker: typed calls, 64 in flight, a stream of 100 MB, a crash, a restart.
//!
//! ```text
//! cargo build --release -p m3ipc-daemon
//! export M3_DAEMON=$PWD/target/release/m3d
//! cargo run --release -p m3ipc-calls --example front_end
//! ```

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Node, VmConfig, VmLife};
use m3ipc_calls::{CallError, Client, Codec, Config, Postcard, Request, Retry, Server, typed};
use std::process::Command;
use std::time::Instant;
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match std::env::args().nth(1) {
        Some(vm) => worker(vm).await,
        None => front_end().await,
    }
}

/// Squares a number, and counts the bytes of the stream that comes with it.
async fn worker(name: String) -> Result<(), Failure> {
    let vm = Node::attach()?.vm_named(&name)?;
    let mut endpoint = AsyncEndpoint::bind(move || vm.bind_any()).await?;
    endpoint.name_attach("worker").await?;
    let work = typed(|number: u64, mut request: Request| async move {
        let mut bytes = 0;
        while let Some(piece) = request.next().await {
            bytes += piece.len();
        }
        Ok((number * number, bytes))
    });
    Server::new(endpoint, Config::default(), work).ended().await;
    Ok(())
}

async fn front_end() -> Result<(), Failure> {
    let mut node = Node::attach()?;
    let vm = node.vm_open_or_create(&VmConfig::new("front-end").life(VmLife::Creator))?;
    let (name, id) = (vm.name().to_owned(), vm.id());
    let start = || Command::new(std::env::current_exe()?).arg(&name).spawn();
    let client = Client::new(AsyncEndpoint::bind(move || vm.bind_any()).await?, Config::default());
    let mut child = start()?;

    let calls: JoinSet<_> = (0..64).map(|number| square(client.clone(), number)).collect();
    let squares = calls.join_all().await.into_iter().collect::<Result<Vec<u64>, _>>()?;
    println!("64 calls in flight, the sum of the squares is {}", squares.iter().sum::<u64>());

    let begun = Instant::now();
    let stream = client.open(client.wait_name("worker").await?, vec![0]);
    for _ in 0..100 {
        stream.send(&vec![7; 1 << 20]).await;
    }
    let (_, bytes): (u64, usize) = Postcard::decode(&stream.answer().await?)?;
    println!("{} MB streamed in {:.0?}", bytes >> 20, begun.elapsed());

    let stream = client.open(client.wait_name("worker").await?, vec![0]);
    stream.send(b"some").await; // the worker has begun
    child.kill()?;
    println!("a kill -9: {}", stream.answer().await.expect_err("the worker is dead"));
    child.wait()?;
    child = start()?;
    println!("after the restart: 9 * 9 = {}", square(client.clone(), 9).await?);
    drop(client);
    node.vm_end(id)?;
    child.wait()?;
    Ok(())
}

/// Repeats what no worker took.
async fn square(client: Client, number: u64) -> Result<u64, CallError> {
    let answer = client.call_named("worker", &number, Retry::default()).await;
    answer.map(|(square, _): (u64, usize)| square)
}
