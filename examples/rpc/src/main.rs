//! Calls and a stream by gRPC, tarpc or HTTP over shared memory, and the death of the server.
//!
//! ```text
//! cargo build --release -p m3ipc-daemon
//! export M3_DAEMON=$PWD/target/release/m3d
//! cargo run --release --manifest-path examples/rpc/Cargo.toml grpc
//! ```

use m3_rpc::{Calls, Failure, Place, grpc, http1, tarpc};
use m3ipc::{Node, VmConfig, VmLife};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", library, directory, vm] => serve(library, directory.as_ref(), vm).await,
        ["grpc"] => show::<grpc::Client>("grpc").await,
        ["tarpc"] => show::<tarpc::Client>("tarpc").await,
        ["http"] => show::<http1::Client>("http").await,
        _ => Err("usage: m3-rpc grpc | tarpc | http".into()),
    }
}

async fn serve(library: &str, directory: &Path, vm: &str) -> Result<(), Failure> {
    let place = Arc::new(Place::join(directory, vm)?);
    let (listener, at) = place.listen()?;
    println!("{at}");
    match library {
        "grpc" => grpc::serve(place, listener).await,
        "tarpc" => tarpc::serve(place, listener).await,
        _ => http1::serve(place, listener).await,
    }
}

async fn show<C: Calls>(library: &str) -> Result<(), Failure> {
    let mut node = Node::attach()?;
    let vm = node.vm_open_or_create(&VmConfig::new("rpc").life(VmLife::Creator))?;
    let directory = node.directory().to_owned();
    let mut server = Command::new(std::env::current_exe()?)
        .args(["serve", library])
        .args([directory.as_os_str(), vm.name().as_ref()])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let place = Arc::new(Place::join(&directory, vm.name())?);
    let client = C::connect(place, line.trim().parse()?).await?;

    let begun = Instant::now();
    for number in 0..1000_u32 {
        let bytes = number.to_le_bytes().to_vec();
        assert_eq!(client.echo(bytes.clone()).await?, bytes);
    }
    println!("1000 calls, one after the other, in {:.1?}", begun.elapsed());

    let (mut bytes, mut killed) = (0, None);
    let ended = client.stream(|piece| {
        bytes += piece;
        if bytes > 10_000_000 && killed.is_none() {
            killed = Some((Instant::now(), server.kill()));
        }
    });
    let error = ended.await.expect_err("the stream of a dead server");
    let (at, kill) = killed.ok_or("the stream ended by itself")?;
    kill?;
    println!("kill -9 after {} MB; {:.1?} later: {error}", bytes / 1_000_000, at.elapsed());
    server.wait()?;
    node.vm_end(vm.id())?;
    Ok(())
}
