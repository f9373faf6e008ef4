//! A server and its client in one file. The client learns of the death of the server.
//!
//! ```text
//! cargo build -p m3ipc-daemon
//! export M3_DAEMON=$PWD/target/debug/m3d
//! cargo run -p m3ipc --example hello
//! ```

use m3ipc::{Node, Source, Timeout, VmConfig, VmLife};
use std::error::Error;
use std::process::Command;

const GREET: i32 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(vm) => server(&vm),
        None => client(),
    }
}

fn server(vm: &str) -> Result<(), Box<dyn Error>> {
    let mut me = Node::attach()?.vm_named(vm)?.bind_any()?;
    me.name_attach("greeter")?;
    loop {
        let (request, bytes) = me.receive_bytes(Source::Any, Timeout::Never)?;
        let answer = format!("hello, {}", String::from_utf8_lossy(&bytes));
        me.reply_bytes(request.message.source, GREET, answer.as_bytes())?;
    }
}

fn client() -> Result<(), Box<dyn Error>> {
    let mut node = Node::attach()?; // starts the node daemon if none runs
    // A kill of this process ends the VM and the server.
    let config = VmConfig::new("hello").life(VmLife::Creator);
    let vm = node.vm_open_or_create(&config)?;
    let mut me = vm.bind_any()?;

    let mut server = Command::new(std::env::current_exe()?).arg(vm.name()).spawn()?;
    let greeter = me.wait_name("greeter", Timeout::from_ms(5_000))?;

    let (_, answer) = me.sendrec_bytes(greeter, GREET, b"world", Timeout::Never)?;
    println!("answer: {}", String::from_utf8(answer)?);

    server.kill()?; // kill -9
    match me.sendrec_bytes(greeter, GREET, b"anyone?", Timeout::Never) {
        Ok(_) => println!("unexpected: an answer of the dead"),
        Err(error) => println!("error: {error}"),
    }
    server.wait()?;
    drop(me);
    node.vm_end(vm.id())?;
    Ok(())
}
