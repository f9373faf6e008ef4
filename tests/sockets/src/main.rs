//! A peer in a process of its own: `m3-tests-sock DIRECTORY VM DOMAIN ROLE ARGUMENT...`.
//!
//! | role | what it does |
//! |---|---|
//! | `echo PORT` | answers each connection with its own bytes, in a thread each |
//! | `sum PORT` | reads each connection to its end, then says `LENGTH SUM` on it |
//! | `flood ADDRESS` | connects and sends without end |
//! | `deaf PORT` | takes connections and never reads |
//! | `mute ADDRESS` | connects, sends five bytes, then sits |
//! | `fork ADDRESS` | connects, and checks the errors of a child by fork; says `ready` if they are right |
//! | `blocks PORT` | adds 1 to each byte of a block, and sends it back; closes if anything else comes |
//! | `claims ADDRESS` | connects, and claims bytes that never come |
//! | `garbage ADDRESS` | connects again and again, and writes random values into all its memory |
//!
//! Says `ready` when it is, and leaves when its input ends.

mod garbage;

use m3ipc::Node;
use m3ipc_sockets::{Domain, Errno, Stream};
use m3ipc_test_fixture::sum;
use std::io::{Read, Write};
use std::path::Path;

fn main() {
    let _ = m3ipc_sys::die_with_parent();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, vm, domain, role, argument, ..] = &arguments[..] else {
        eprintln!("usage: m3-tests-sock DIRECTORY VM DOMAIN ROLE ARGUMENT");
        std::process::exit(2);
    };
    let directory = Path::new(directory);
    let vm = Node::find(directory).expect("a daemon").vm_named(vm).expect("a VM");
    let domain = domain.parse().expect("a number");
    if role == "garbage" {
        return garbage::spoil(directory, vm.id(), domain, argument.parse().expect("an address"));
    }
    if role == "claims" {
        return garbage::claim(directory, vm.id(), domain, argument.parse().expect("an address"));
    }
    let domain = Domain::join_numbered(directory, &vm, domain).expect("a domain");
    let port = || argument.parse().expect("a port");
    let address = || argument.parse().expect("an address");
    match role.as_str() {
        "echo" => serve(&domain, port(), echo),
        "sum" => serve(&domain, port(), tell_sum),
        "deaf" => serve(&domain, port(), |stream| {
            std::mem::forget(stream);
        }),
        "flood" => {
            let mut stream = domain.connect(address()).expect("a connection");
            println!("ready");
            while stream.write_all(&[7; 4096]).is_ok() {}
        }
        "mute" => {
            let mut stream = domain.connect(address()).expect("a connection");
            stream.write_all(b"hello").expect("room");
            println!("ready");
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        "blocks" => blocks(&vm, &domain, port()),
        "fork" => fork(&domain, argument.parse().expect("an address")),
        other => panic!("no role {other}"),
    }
}

fn serve(domain: &Domain, port: u16, with: fn(Stream)) {
    let listener = domain.listen(port, 128).expect("a port");
    println!("ready");
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    loop {
        let Ok((stream, _)) = listener.accept() else { continue };
        std::thread::spawn(move || with(stream));
    }
}

fn echo(mut stream: Stream) {
    let mut bytes = vec![0; 70_000];
    while let Ok(length @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
}

fn blocks(vm: &m3ipc::Vm, domain: &Domain, port: u16) {
    let mut me = vm.bind_any().expect("a slot");
    let listener = domain.listen(port, 128).expect("a port");
    println!("ready");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    loop {
        let Ok((stream, _)) = listener.accept() else { continue };
        while let Ok(Some(mut block)) = stream.receive_block(&mut me) {
            let add = |_, bytes: &mut [u8]| {
                bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            };
            block.update(add).expect("it is held");
            if stream.send_block(&mut me, block).is_err() {
                break;
            }
        }
    }
}

fn tell_sum(mut stream: Stream) {
    let mut all = Vec::new();
    if stream.read_to_end(&mut all).is_ok() {
        let _ = write!(stream, "{} {}", all.len(), sum(&all));
    }
}

fn fork(domain: &Domain, address: std::net::SocketAddrV4) {
    let mut stream = domain.connect(address).expect("a connection");
    let told = m3ipc_test_fixture::in_child(|| {
        let send = stream.send(b"y", true) == Err(Errno::NOTCONN);
        let receive = stream.receive(&mut [0; 4], m3ipc_sockets::ReceiveOptions::default())
            == Err(Errno::NOTCONN);
        send && receive && domain.reserve(0).is_err_and(|error| error.errno() == Errno::NOTCONN)
    });
    stream.write_all(b"still").expect("room");
    println!("{}", if told { "ready" } else { "a child was told otherwise" });
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
