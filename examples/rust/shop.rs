//! A shop in two processes: a server with a name, and a client that learns of its death.
//!
//! ```text
//! cargo build -p m3ipc-daemon
//! export M3_DAEMON=$PWD/target/debug/m3d
//! cargo run -p m3ipc --example shop
//! ```

use m3ipc::{Message, Node, SendRecError, Source, VmConfig, VmLife};
use std::error::Error;
use std::process::Command;
use std::time::Duration;

/// Message types are the programs' own.
const ADD: i32 = 1;
const SLEEP: i32 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some(name) => server(name),
        None => client(),
    }
}

fn server(name: &str) -> Result<(), Box<dyn Error>> {
    let vm = Node::attach()?.vm_named("shop")?;
    let mut me = vm.bind_any()?;
    me.name_attach(name)?;
    loop {
        let request = me.receive(Source::Any)?;
        let mut answer = Message::new(request.m_type);
        match request.m_type {
            ADD => answer.set_word(0, request.word(0) + request.word(1)),
            SLEEP => std::thread::sleep(Duration::from_secs(60)),
            _ => continue,
        }
        // A client that gave up meanwhile needs no answer.
        let _ = me.reply(request.source, &answer);
    }
}

fn client() -> Result<(), Box<dyn Error>> {
    let mut node = Node::attach()?;
    // A kill of this process ends the VM and the server. A restart waits for that end.
    let vm = node.vm_open_or_create(&VmConfig::new("shop").life(VmLife::Creator))?;
    let mut me = vm.bind_any()?;

    // The server of a killed client may still start and enter this VM: each has a name of its own.
    let name = format!("adder-{}", std::process::id());
    let mut child = Command::new(std::env::current_exe()?).arg(&name).spawn()?;
    let adder = me.wait_name(&name, Duration::from_secs(5))?;

    let mut request = Message::new(ADD);
    request.set_word(0, 2);
    request.set_word(1, 40);
    let answer = me.sendrec(adder, &request)?;
    println!("2 + 40 = {}, says endpoint {}", answer.word(0), answer.source);

    match me.sendrec_timeout(adder, &Message::new(SLEEP), Duration::from_millis(50)) {
        Err(SendRecError::TimedOutAfter(_)) => println!("it sleeps: the limit of 50 ms passed"),
        other => println!("unexpected: {other:?}"),
    }

    child.kill()?;
    match me.sendrec(adder, &request) {
        Err(error) => println!("it was killed: {error}"),
        Ok(_) => println!("unexpected: the dead answer"),
    }
    child.wait()?;
    drop(me);
    node.vm_end(vm.id())?;
    Ok(())
}
