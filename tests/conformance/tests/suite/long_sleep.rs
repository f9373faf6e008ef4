//! Endpoints that sleep for long: they use no CPU, and the end of their daemon reaches them.

use m3ipc::{Code, Endpoint, Message, Source, Timeout, Vm};
use m3ipc_sys::Signal;
use m3ipc_test_fixture::{MemberProcess, NodeFixture, watchdog};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than the first second of a sleep, which ends with a check.
const LONG: Duration = Duration::from_millis(2_500);
/// The time in which a sleeper that checks by the clock runs several times.
const SPAN: Duration = Duration::from_millis(3_500);
const STOP: i32 = 1;

/// An endpoint of this process, which a thread of its own sleeps on.
struct SleepingThread {
    thread: JoinHandle<()>,
    address: m3ipc::Address,
    tid: i32,
}

/// Starts a thread that binds a slot and waits.
fn sleeper(vm: &Vm, slot: i32, wait: impl FnOnce(Endpoint) + Send + 'static) -> SleepingThread {
    let vm = vm.clone();
    let (send, bound): (Sender<_>, Receiver<_>) = channel();
    let thread = std::thread::spawn(move || {
        let endpoint = vm.bind_thread(Some(slot)).expect("an endpoint of a thread");
        send.send((endpoint.address(), m3ipc_sys::thread_id())).expect("the test waits");
        wait(endpoint);
    });
    let (address, tid) = bound.recv().expect("a bound thread");
    SleepingThread { thread, address, tid }
}

/// Receives from any endpoint until a message tells to stop.
fn receive_until_stop(mut endpoint: Endpoint) {
    while endpoint.receive(Source::Any).expect("a message").m_type != STOP {}
}

/// How often a thread has been put on a CPU.
fn runs(process: i32, thread: i32) -> u64 {
    let path = format!("/proc/{process}/task/{thread}/schedstat");
    let text = std::fs::read_to_string(path).expect("the thread lives");
    text.split_whitespace().nth(2).and_then(|word| word.parse().ok()).expect("a number")
}

fn until(mut happened: impl FnMut() -> bool) {
    while !happened() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process with an endpoint that sleeps in a receive with a far limit.
fn listener(fixture: &NodeFixture, role: &str) -> (MemberProcess, m3ipc::Address) {
    let directory = fixture.directory().to_str().expect("a plain path");
    let mut process = MemberProcess::start(0, role, &[directory, "vm"]);
    let line = process.line();
    let address = line.strip_prefix("at ").and_then(|word| word.split_whitespace().next());
    let address = address.and_then(|number| number.parse().ok()).expect("its address");
    process.tell("100000");
    (process, m3ipc::Address(address))
}

/// Whether each of these endpoints has a connection with the present daemon.
fn have_returned(fixture: &NodeFixture, vm: i32, addresses: &[m3ipc::Address]) -> bool {
    let Ok(mut node) = m3ipc::Node::find(fixture.directory()) else { return false };
    let Ok(list) = node.endpoints(vm) else { return false };
    addresses.iter().all(|address| list.iter().any(|it| it.address == address.0 && it.connected))
}

#[test]
fn a_long_sleep_runs_no_check() {
    watchdog(120);
    let fixture = NodeFixture::new("idle");
    let vm = fixture.vm("vm");
    let mut own = vm.bind(30).expect("an endpoint");
    let server = sleeper(&vm, 1, receive_until_stop);
    // Receives from one endpoint, and awaits an answer.
    let to = server.address;
    let specific = sleeper(&vm, 2, move |mut endpoint| {
        endpoint.receive(Source::From(to)).expect("a message");
    });
    std::thread::sleep(LONG);
    let pid = m3ipc_sys::process_id();
    let before = [runs(pid, server.tid), runs(pid, specific.tid)];
    std::thread::sleep(SPAN);
    assert_eq!(runs(pid, server.tid), before[0], "a receive from any");
    // It asks for a deadlock 1, 10, 100 and 1,000 ms after the begin, and then after 10 s.
    assert!(runs(pid, specific.tid) <= before[1] + 1, "a receive from one");
    own.send(server.address, &Message::new(STOP)).expect("it receives");
    server.thread.join().expect("it ends");
    // The end of its peer ends the other one.
    assert!(specific.thread.join().is_err());
}

#[test]
fn a_kill_of_the_daemon_reaches_all_long_sleepers() {
    watchdog(120);
    let mut fixture = NodeFixture::new("kill");
    let vm = fixture.vm("vm");
    let mut own = vm.bind(30).expect("an endpoint");
    let threads: Vec<_> = (1..=6).map(|slot| sleeper(&vm, slot, receive_until_stop)).collect();
    let roles = ["listener", "listener", "listener-of-old-kernel"];
    let mut listeners: Vec<_> = roles.iter().map(|role| listener(&fixture, role)).collect();
    let of_threads = threads.iter().map(|it| it.address);
    let addresses: Vec<_> = of_threads.chain(listeners.iter().map(|it| it.1)).collect();
    for _ in 0..2 {
        std::thread::sleep(LONG);
        fixture.restart_daemon();
        until(|| have_returned(&fixture, vm.id(), &addresses));
    }
    for thread in &threads {
        own.send(thread.address, &Message::new(STOP)).expect("it receives");
    }
    for thread in threads {
        thread.thread.join().expect("it ends");
    }
    for (process, address) in &mut listeners {
        own.send(*address, &Message::new(9)).expect("it receives");
        assert_eq!(process.line(), format!("{} 9", own.address().0));
    }
}

#[test]
fn a_long_sleeper_learns_of_a_death_that_no_daemon_has_seen() {
    watchdog(120);
    let mut fixture = NodeFixture::new("alone");
    let vm = fixture.vm("vm");
    let _own = vm.bind(30).expect("the first endpoint of this process");
    let (process, address) = listener(&fixture, "listener");
    let waiter = sleeper(&vm, 1, move |mut endpoint| {
        // The listener takes no request of this type, so only its death ends the call.
        let failed = endpoint.receive(Source::From(address)).expect_err("it never sends");
        assert_eq!(failed.code(), Code::SrcDied);
    });
    std::thread::sleep(LONG);
    fixture.kill_daemon();
    let fd = m3ipc_sys::open_process(process.pid()).expect("it lives");
    m3ipc_sys::signal(&fd, Signal::KILL).expect("a process of this test");
    until(|| m3ipc_sys::wait_readable(&[fd.as_fd()], u64::MAX) == Ok(true));
    fixture.restart_daemon();
    waiter.thread.join().expect("the code of a death");
}

#[test]
fn a_stopped_daemon_disturbs_no_long_sleeper() {
    watchdog(120);
    let fixture = NodeFixture::new("stop");
    let vm = fixture.vm("vm");
    let mut own = vm.bind(30).expect("an endpoint");
    let server = sleeper(&vm, 1, receive_until_stop);
    own.send(server.address, &Message::new(7)).expect("it receives");
    std::thread::sleep(LONG);
    let daemon = m3ipc_sys::open_process(fixture.daemon_pid()).expect("it lives");
    m3ipc_sys::signal(&daemon, Signal::STOP).expect("a process of this test");
    let before = runs(m3ipc_sys::process_id(), server.tid);
    std::thread::sleep(SPAN);
    assert_eq!(runs(m3ipc_sys::process_id(), server.tid), before);
    own.send(server.address, &Message::new(8)).expect("it receives");
    m3ipc_sys::signal(&daemon, Signal::CONT).expect("a process of this test");
    own.send(server.address, &Message::new(STOP)).expect("it receives");
    server.thread.join().expect("it ends");
}

#[test]
fn a_timeout_ends_a_long_sleep() {
    watchdog(120);
    let fixture = NodeFixture::new("timeout");
    let mut own = fixture.vm("vm").bind_any().expect("an endpoint");
    let begun = std::time::Instant::now();
    let failed = own.receive_timeout(Source::Any, Timeout::from_ms(2_200)).expect_err("no sender");
    assert_eq!(failed.code(), Code::TimedOut);
    assert!(begun.elapsed() >= Duration::from_millis(2_200));
}
