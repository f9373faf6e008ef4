//! The members that `m3-tests-attacks` measures: a pair that exchanges messages, and a process that
//! binds again and again. All of them keep the rules.

use m3ipc::{Address, Message, Node, Source, Vm};
use std::path::Path;
use std::time::{Duration, Instant};

/// The pause between two binds of the binder.
const PAUSE: Duration = Duration::from_millis(2);

fn vm(directory: &str, name: &str) -> Vm {
    let mut node = Node::find(Path::new(directory)).expect("the node runs");
    node.vm_named(name).expect("the VM may be seen")
}

fn pin(cpu: &str) {
    let cpu = cpu.parse().expect("the number of a CPU");
    m3ipc_sys::pin_to(cpu).expect("a CPU of this machine");
}

fn lines() -> impl Iterator<Item = String> {
    std::io::stdin().lines().map_while(Result::ok)
}

/// Answers requests without end.
pub fn answer(directory: &str, name: &str, cpu: &str) {
    pin(cpu);
    let mut server = vm(directory, name).bind_any().expect("a slot");
    println!("{}", server.address());
    loop {
        let Ok(request) = server.receive(Source::Any) else { continue };
        let _ = server.reply(request.source, &Message::new(request.m_type));
    }
}

/// Each line of input is a time in milliseconds: says the calls made in it, and those that failed.
pub fn call(directory: &str, name: &str, cpu: &str, to: &str) {
    pin(cpu);
    let to = Address(to.parse().expect("an address"));
    let mut client = vm(directory, name).bind_any().expect("a slot");
    println!("{}", client.address());
    for line in lines() {
        let time = Duration::from_millis(line.parse().unwrap_or(0));
        let (begun, mut calls, mut failed) = (Instant::now(), 0, 0);
        while begun.elapsed() < time {
            match client.sendrec(to, &Message::new(1)) {
                Ok(_) => calls += 1,
                Err(_) => failed += 1,
            }
        }
        println!("{calls} {failed}");
    }
}

/// Each line of input is a number of binds: says the median and the worst time in microseconds, and
/// the number of failures. A bind is what a new process does: connect, look up the VM, bind.
pub fn bind(directory: &str, name: &str, cpu: &str) {
    pin(cpu);
    println!("ready");
    for line in lines() {
        let count: usize = line.parse().unwrap_or(1);
        let (mut times, mut failed) = (Vec::new(), 0);
        for _ in 0..count {
            std::thread::sleep(PAUSE);
            let begun = Instant::now();
            let bound = Node::find(Path::new(directory))
                .and_then(|mut node| node.vm_named(name))
                .ok()
                .and_then(|vm| vm.bind_any().ok());
            failed += usize::from(bound.is_none());
            times.push(begun.elapsed().as_micros());
        }
        times.sort_unstable();
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{median} {worst} {failed}");
    }
}

/// Keeps its CPU busy with system calls.
pub fn be_busy() {
    println!("ready");
    loop {
        m3ipc_sys::yield_cpu();
    }
}
