//! Servers that keep the rules, in processes with little memory: each one ends at its first error.

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Endpoint, Message, Node, Source};
use m3ipc_calls::{Config, Request, Server};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The addresses that a server may use, in bytes.
const ADDRESSES_BYTES: u64 = 512 << 20;

/// Says its address, and serves without end.
pub fn serve(directory: &str, name: &str, kind: &str) {
    let limit = Rlimit { current: Some(ADDRESSES_BYTES), maximum: Some(ADDRESSES_BYTES) };
    setrlimit(Resource::As, limit).expect("a lower limit");
    // A program in another language.
    if kind.contains('/') {
        let failed = Command::new(kind).arg(name).env("M3_RUNTIME_DIR", directory).exec();
        panic!("{kind}: {failed}");
    }
    let mut node = Node::find(Path::new(directory)).expect("the node runs");
    let vm = node.vm_named(name).expect("the VM may be seen");
    let mut own = vm.bind_any().expect("a slot");
    println!("{}", own.address());
    match kind {
        "bytes" => with_bytes(&mut own),
        "room" => with_room(&mut own),
        "serve" => own.serve(|call| call.bytes.to_vec()).expect("the VM runs"),
        "calls" | "awaiting" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(on_tokio(own, kind));
        }
        _ => panic!("no server {kind}"),
    }
}

fn with_bytes(own: &mut Endpoint) {
    let (mut request, mut bytes) = own.receive_bytes(Source::Any, None).expect("a request");
    loop {
        let to = request.message.source;
        (request, bytes) = own.reply_receive_bytes(to, 8, &bytes, None).expect("the next request");
    }
}

fn with_room(own: &mut Endpoint) {
    let mut room = vec![0; 1 << 20];
    loop {
        let received = own.receive_long(Source::Any, &mut room, None).expect("a request");
        let (to, bytes) = (received.message.source, received.bytes);
        own.reply_long(to, &Message::new(8), &room[..bytes]).expect("the client waits");
    }
}

async fn on_tokio(own: Endpoint, kind: &str) {
    let mut own = AsyncEndpoint::open(own).await.expect("the daemon runs");
    if kind == "calls" {
        let config = Config { max_body_bytes: 1 << 20, ..Config::default() };
        let server = Server::new(own, config, |request: Request| async { Ok(request.bytes) });
        return server.ended().await;
    }
    loop {
        let (request, bytes) = own.receive_bytes(Source::Any).await.expect("a request");
        if request.is_request {
            let answered = own.endpoint().reply_bytes(request.message.source, 8, &bytes);
            answered.expect("the client waits");
        }
    }
}
