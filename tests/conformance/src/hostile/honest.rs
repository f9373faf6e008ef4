//! Honest members: they keep the rules, count every message and check its sum.
//!
//! The payload of a counted message: number, time it was sent, random word,
//! check sum over those and the sender.

use m3ipc::{Address, Endpoint, Message, Node, SendError, Source, Timeout, Vm};
use m3ipc_conformance::tally::{Tally, answer_to, counted};
use std::io::BufRead;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn vm(directory: &str, name: &str) -> Vm {
    let mut node = Node::find(Path::new(directory)).expect("the node runs");
    node.vm_named(name).expect("the VM is there")
}

fn lines() -> impl Iterator<Item = String> {
    std::io::stdin().lock().lines().map_while(Result::ok)
}

static ENDING: AtomicBool = AtomicBool::new(false);

/// Tells the role to end when its input does. Its thread runs when this returns: one that starts later
/// could find no memory for its stack of signals, where a test has taken the memory away meanwhile.
fn end_with_input() {
    let (tell, runs) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = tell.send(());
        lines().for_each(drop);
        ENDING.store(true, Ordering::Release);
    });
    runs.recv().expect("the thread runs");
}

/// Two endpoints of one process that talk when told: so many calls a line.
pub fn pair(directory: &str, name: &str) {
    let vm = vm(directory, name);
    let mut server = vm.bind_any().expect("a slot for the pair");
    let to = server.address();
    std::thread::spawn(move || {
        let mut client = vm.bind_thread(None).expect("a slot for its thread");
        println!("ready {}", client.address());
        for line in lines() {
            if let Some(whom) = line.strip_prefix("notify ") {
                let whom = Address(whom.parse().expect("an address"));
                println!("notified {:?}", client.notify(whom));
                continue;
            }
            let calls: i32 = line.parse().unwrap_or(1);
            for number in 0..calls {
                let answer = client.sendrec(to, &Message::new(number)).expect("the pair talks");
                assert_eq!(answer.m_type, number + 1);
            }
            println!("ok {calls}");
        }
        std::process::exit(0);
    });
    while let Ok(request) = server.receive(Source::Any) {
        server.reply(request.source, &Message::new(request.m_type + 1)).expect("its client waits");
    }
}

/// Traces a VM, if it may, until its input ends.
pub fn tracer(directory: &str, name: &str) {
    let vm = vm(directory, name).id();
    let mut node = Node::find(Path::new(directory)).expect("the node runs");
    let traced = node.trace(vm, m3ipc::trace::TraceConfig::default());
    match &traced {
        Ok(_) => println!("traces"),
        Err(error) => println!("refused {}", error.code().number()),
    }
    lines().for_each(drop);
}

/// Takes as many names as one may, each as long as it may be.
pub fn named(directory: &str, name: &str, number: &str) {
    let mut me = vm(directory, name).bind_any().expect("a slot");
    let names = (0..64).map(|at| format!("{number:>31}.{at:>31}"));
    println!("named {}", names.filter(|name| me.name_attach(name).is_ok()).count());
    lines().for_each(drop);
}

/// Answers everybody, counts the honest; its last line is the tally.
pub fn server(directory: &str, name: &str) {
    end_with_input();
    let mut me = vm(directory, name).bind_any().expect("a slot for the server");
    println!("at {}", me.address().0);
    let mut tally = Tally::default();
    let mut room = [0; m3ipc_abi::LONG_MAX_BYTES];
    while !ENDING.load(Ordering::Acquire) {
        let limit = Timeout::from(Duration::from_millis(50));
        let Ok(long) = me.receive_long(Source::Any, &mut room, limit) else { continue };
        tally.take(&long.message, &room[..long.bytes.min(room.len())]);
        if long.is_request {
            let answer = answer_to(&long.message, me.address());
            // Who asks and does not wait gets nothing, and nobody else loses by it.
            let _ = me.reply(long.message.source, &answer);
        }
    }
    println!("{tally}");
}

/// Asks the server again and again, every word counted; its last line is the tally.
pub fn client(directory: &str, name: &str, server: &str, plant: &str) {
    end_with_input();
    let mut me = vm(directory, name).bind_any().expect("a slot for the client");
    println!("at {}", me.address().0);
    let server = Address(server.parse().expect("an address"));
    let mut tally = Tally::default();
    for number in 1.. {
        if ENDING.load(Ordering::Acquire) {
            break;
        }
        let (mut message, mut long) = counted(number, me.address());
        match plant {
            "lose" if number == 50 => continue,
            "alter" if number == 50 => message.payload[17] ^= 1,
            "alter-long" if number == 50 => long[7] ^= 1,
            _ => {}
        }
        call(&mut me, server, &message, &long, &mut tally);
        // Some calls find the server asleep, some awake.
        if number % 3 == 0 {
            std::thread::sleep(Duration::from_micros(300));
        }
    }
    println!("{tally}");
}

/// Calls whom it is told to, one a line, and says how that ended: `0`, or the code and why.
pub fn caller(directory: &str, name: &str) {
    let mut me = vm(directory, name).bind_any().expect("a slot for the caller");
    println!("at {}", me.address().0);
    for line in lines() {
        let ended = match line.parse() {
            Ok(address) => {
                let limit = Duration::from_secs(60);
                let answered = me.sendrec_timeout(Address(address), &Message::new(1), limit);
                answered.map(drop).map_err(|error| (error.code(), error.to_string()))
            }
            // Not a call: a new connection to the node.
            Err(_) => Node::find(Path::new(directory))
                .map(drop)
                .map_err(|error| (error.code(), error.to_string())),
        };
        match ended {
            Ok(()) => println!("0"),
            Err((code, why)) => println!("{} {why}", code.number()),
        }
    }
}

fn call(me: &mut Endpoint, server: Address, message: &Message, long: &[u8], tally: &mut Tally) {
    let began_ns = m3ipc_sys::monotonic_ns();
    let limit = Timeout::from(Duration::from_secs(60));
    match me.sendrec_long(server, message, long, &mut [], limit) {
        Ok((answer, _)) => tally.answered(message, &answer, server, began_ns),
        Err(error) => tally.failed(&error.to_string()),
    }
}

/// Holds a secret, says where it is, and sends what it is told to.
pub fn sitter(directory: &str, name: &str) {
    let mut me = vm(directory, name).bind_any().expect("a slot for the sitter");
    let secret: Box<[u8; 16]> = Box::new(*b"a secret of mine");
    println!("at {} {}", me.address().0, std::ptr::from_ref(&*secret).addr());
    for line in lines() {
        match line.split_once(' ') {
            // A message of its own: nobody else is to have a hand in it.
            Some(("send", to)) => {
                let to = Address(to.parse().expect("an address"));
                let sent = me.send_timeout(to, &Message::new(77), Duration::from_secs(3));
                println!(
                    "{}",
                    if sent == Err(SendError::TimedOut(to)) {
                        "late".into()
                    } else {
                        format!("{sent:?}")
                    }
                );
            }
            _ => println!(
                "{}",
                if std::hint::black_box(&*secret) == b"a secret of mine" {
                    "whole"
                } else {
                    "altered"
                }
            ),
        }
    }
}

/// Receives when told, and says what it got from whom.
pub fn listener(directory: &str, name: &str) {
    let mut me = vm(directory, name).bind_any().expect("a slot for the listener");
    println!("at {} 0", me.address().0);
    for line in lines() {
        let ms: u64 = line.parse().unwrap_or(100);
        match me.receive_timeout(Source::Any, Duration::from_millis(ms)) {
            Ok(message) => println!("{} {}", message.source.0, message.m_type),
            Err(_) => println!("nothing"),
        }
    }
}
