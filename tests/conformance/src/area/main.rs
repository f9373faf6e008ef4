//! A member of areas in a process of its own.
//!
//! `m3-tests-area DIRECTORY VM SLOT ROLE [ARGUMENT]`: binds, says `ready`, and takes part:
//!
//! | role | what it does with each message |
//! |---|---|
//! | `pass NEXT` | adds 1 to each 64th byte of its block, and sends the block on |
//! | `echo` | answers a request with its block, or with its large payload |
//! | `sum` | answers with the sum of the bytes of its block, which it drops |
//! | `give AREA` | answers with a new block of 200,000 bytes |
//! | `hold` | keeps its block, and says its number |
//! | `walk` | follows pointers in the area from the address in the message, and answers with their sum |
//! | `liar AREA VICTIM KEEPER` | breaks every rule of areas, without the library: see `liar.rs` |
//! | `scribble AREA VICTIM` | gives VICTIM a block and goes on writing it |
//! | `moved` | binds in a thread that ends, and receives in another thread; binds a second endpoint |
//! | `forge AREA` | says how many ways there are to write where only the owner may |
//! | `churn AREA` | allocates, gives, accepts and frees at random with the members of its area, until it is killed |

mod churn;
mod liar;

use m3ipc::{Address, Endpoint, Message, Node, Source, Timeout};
use m3ipc_conformance::watchdog;
use std::path::Path;

fn main() {
    let _ = m3ipc_sys::die_with_parent();
    watchdog(300);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, vm, slot, role, rest @ ..] = &arguments[..] else {
        eprintln!("usage: m3-tests-area DIRECTORY VM SLOT ROLE [ARGUMENT]");
        std::process::exit(2);
    };
    let number =
        |at: usize| -> i32 { rest.get(at).and_then(|text| text.parse().ok()).unwrap_or(0) };
    let (path, own) = (Path::new(directory), slot.parse().expect("a slot"));
    match role.as_str() {
        "liar" => return liar::run(path, vm, own, number(0).cast_unsigned(), number(1), number(2)),
        "scribble" => {
            return liar::scribble(path, vm, own, number(0).cast_unsigned(), number(1));
        }
        "moved" => return moved(path, vm, own),
        "forge" => return liar::forge(path, vm, own, number(0).cast_unsigned()),
        _ => {}
    }
    let mut node = Node::find(path).expect("the daemon of the test runs");
    let vm = node.vm_named(vm).expect("the VM of the test");
    let mut me = vm.bind(own).expect("a free slot");
    println!("ready");
    let argument = number(0);
    match role.as_str() {
        "pass" => pass(&mut me, Address(argument)),
        "pass_and_leave" => drop(pass_once(&mut me, Address(argument))),
        "echo" => echo(&mut me),
        "sum" => sum(&mut me),
        "give" => give(&mut me, argument.cast_unsigned()),
        "hold" => hold(&mut me),
        "walk" => walk(&mut me),
        "churn" => churn::run(&mut me, argument),
        other => panic!("no role {other}"),
    }
}

/// Binds in a thread that ends before the endpoint is used, and takes two requests without an answer.
fn moved(path: &Path, vm: &str, slot: i32) {
    let mut node = Node::find(path).expect("the daemon of the test runs");
    let vm = node.vm_named(vm).expect("the VM of the test");
    let binder = std::thread::spawn(move || {
        let first = vm.bind(slot).expect("a free slot");
        let second = vm.bind_additional(Some(slot + 1)).expect("a free slot");
        [first, second]
    });
    let endpoints = binder.join().expect("both are bound");
    println!("ready");
    let users = endpoints.map(|mut endpoint| {
        std::thread::spawn(move || {
            endpoint.receive(Source::Any).expect("a request");
            println!("{}", endpoint.address().0);
            // The test kills this process while the client awaits its answer.
            let _ = endpoint.receive(Source::Any);
        })
    });
    for user in users {
        let _ = user.join();
    }
}

fn pass(me: &mut Endpoint, next: Address) {
    while pass_once(me, next) {}
}

fn pass_once(me: &mut Endpoint, next: Address) -> bool {
    let Ok(message) = me.receive(Source::Any) else { return false };
    let Some(mut block) = me.take_block().expect("a block that was given") else { return true };
    let changed = block.update(|_, bytes| {
        bytes.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
    });
    changed.expect("a block of one's own");
    me.send_block(next, &message, block, Timeout::Never).expect("the next one receives");
    true
}

fn echo(me: &mut Endpoint) {
    let mut room = vec![0; 64 << 20];
    while let Ok(request) = me.receive_long(Source::Any, &mut room, Timeout::Never) {
        let to = request.message.source;
        match me.take_block().expect("a block that was given") {
            Some(block) => {
                me.reply_block(to, &request.message, block).map_err(|unsent| unsent.error)
            }
            None => me.reply_long(to, &request.message, &room[..request.bytes]),
        }
        .expect("the client waits");
    }
}

fn sum(me: &mut Endpoint) {
    while let Ok(request) = me.receive(Source::Any) {
        let mut answer = Message::new(0);
        match me.take_block() {
            Ok(Some(block)) => answer.set_long(0, block.iter().map(i64::from).sum()),
            Ok(None) => answer.m_type = 1,
            Err(error) => answer.m_type = error.code().number(),
        }
        let _ = me.reply(request.source, &answer);
    }
}

fn give(me: &mut Endpoint, area: u32) {
    let area = me.attach_area(area).expect("an area of the VM");
    while let Ok(request) = me.receive(Source::Any) {
        let mut block = me.allocate(&area, 200_000, m3ipc::BlockLifetime::Short).expect("room");
        block.fill(3).expect("its own");
        me.reply_block(request.source, &request, block).expect("the client waits");
    }
}

fn hold(me: &mut Endpoint) {
    let mut held = Vec::new();
    while me.receive(Source::Any).is_ok() {
        let Ok(Some(block)) = me.take_block() else { continue };
        println!("{}", block.number());
        held.push(block);
    }
}

fn walk(me: &mut Endpoint) {
    while let Ok(request) = me.receive(Source::Any) {
        let block = me.take_block().expect("a block that was given").expect("a block");
        let words = block.cast::<u64>().expect("words");
        let base = words.address();
        // Each node: the address of the next one, and a value.
        let (mut at, mut sum) = (request.long(0).cast_unsigned(), 0_u64);
        while at != 0 {
            let index = usize::try_from((at - base) / 8).expect("inside");
            sum += words.get(index + 1).expect("inside");
            at = words.get(index).expect("inside");
        }
        let mut answer = Message::new(0);
        answer.set_long(0, sum.cast_signed());
        me.reply(request.source, &answer).expect("the client waits");
    }
}
