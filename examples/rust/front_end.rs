//! A front end and its worker: typed calls, 64 in flight, a stream of 100 MB, a crash, a restart.
//!
//! ```text
//! cargo build -p m3ipc-daemon
//! export M3_DAEMON=$PWD/target/debug/m3d
//! cargo run --release -p m3ipc-calls --example front_end
//! ```

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Node, VmConfig, VmLife};
use m3ipc_calls::{Client, Config, Request, Retry, Server, typed};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match std::env::args().nth(1) {
        Some(vm) => worker(vm).await,
        None => front_end().await,
    }
}

/// Squares numbers under one name, and counts the bytes of streams under another.
async fn worker(name: String) -> Result<(), Failure> {
    let vm = Node::attach()?.vm_named(&name)?;
    let sizer_vm = vm.clone();
    let mut squares = AsyncEndpoint::bind(move || vm.bind_any()).await?;
    let mut sizes = AsyncEndpoint::bind(move || sizer_vm.bind_additional(None)).await?;
    squares.name_attach("square").await?;
    sizes.name_attach("size").await?;
    let square = typed(|number: u64, _request| async move { Ok(number * number) });
    let size = |mut request: Request| async move {
        let mut bytes = 0_u64;
        while let Some(piece) = request.next().await {
            bytes += piece.len() as u64;
        }
        Ok(bytes.to_le_bytes().to_vec())
    };
    let _squares = Server::new(squares, Config::default(), square);
    let _sizes = Server::new(sizes, Config::default(), size);
    std::future::pending().await
}

async fn front_end() -> Result<(), Failure> {
    let mut node = Node::attach()?;
    let vm = node.vm_open_or_create(&VmConfig::new("front-end").life(VmLife::Creator))?;
    let (name, id) = (vm.name().to_owned(), vm.id());
    let start =
        || -> std::io::Result<Child> { Command::new(std::env::current_exe()?).arg(&name).spawn() };
    let client = Client::new(AsyncEndpoint::bind(move || vm.bind_any()).await?, Config::default());
    let mut child = start()?;

    let mut calls = JoinSet::new();
    for number in 0..64_u64 {
        let client = client.clone();
        let retry = Retry::default();
        calls.spawn(async move { client.call_named::<_, u64>("square", &number, retry).await });
    }
    let squares = calls.join_all().await.into_iter().collect::<Result<Vec<u64>, _>>()?;
    println!("64 calls in flight, the sum of the squares is {}", squares.iter().sum::<u64>());

    let begun = Instant::now();
    let stream = client.open(client.wait_name("size").await?, Vec::new());
    for _ in 0..100 {
        stream.send(&vec![7; 1 << 20]).await;
    }
    let bytes = u64::from_le_bytes(stream.answer().await?.try_into().map_err(|_| "8 bytes")?);
    println!("{} MB streamed in {:.0?}", bytes >> 20, begun.elapsed());

    let stream = client.open(client.wait_name("size").await?, Vec::new());
    stream.send(b"some").await; // the worker has begun
    child.kill()?;
    println!("a kill -9: {}", stream.answer().await.expect_err("the worker is dead"));
    child.wait()?;
    child = start()?;
    let retry = Retry { limit: Duration::from_secs(5), ..Default::default() };
    println!("after the restart: {}", client.call_named::<_, u64>("square", &9_u64, retry).await?);
    drop(client);
    node.vm_end(id)?;
    child.wait()?;
    Ok(())
}
