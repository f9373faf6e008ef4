//! A server on tokio: other tasks run while it waits for requests.
//!
//! ```text
//! cargo build -p m3ipc-daemon
//! export M3_DAEMON=$PWD/target/debug/m3d
//! cargo run -p m3ipc --features tokio --example async_echo
//! ```

use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Message, Node, Source, VmConfig, VmLife};
use std::error::Error;
use std::time::Duration;

const REQUESTS: i32 = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut node = Node::attach()?;
    let vm = node.vm_open_or_create(&VmConfig::new("async-echo").life(VmLife::Creator))?;
    let mut server = AsyncEndpoint::new(vm.bind(1)?)?;
    let server_address = server.endpoint().address();

    let client_vm = vm.clone();
    let client = std::thread::spawn(move || {
        let mut me = client_vm.bind_additional(None).expect("a slot is free");
        (1..=REQUESTS).all(|number| {
            me.sendrec(server_address, &Message::new(number))
                .is_ok_and(|answer| answer.m_type == -number)
        })
    });

    let mut beats = 0;
    let mut beat = tokio::time::interval(Duration::from_millis(1));
    let mut served = 0;
    while served < REQUESTS {
        tokio::select! {
            request = server.receive(Source::Any) => {
                let request = request?;
                server.endpoint().reply(request.source, &Message::new(-request.m_type))?;
                served += 1;
            }
            _ = beat.tick() => beats += 1,
        }
    }
    let all = client.join().map_err(|_panic| "the client panicked")?;
    println!("{served} requests served, all answered right: {all}; {beats} beats beside");
    drop(server);
    node.vm_end(vm.id())?;
    Ok(())
}
