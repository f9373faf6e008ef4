//! Tracing: the rights, the records, and the end with the tracer.

use m3ipc::VmConfig;
use m3ipc::trace::{Join, Trace, TraceConfig};
use m3ipc_test_fixture::{MemberProcess, USERS, UserNode, is_root};
use std::time::{Duration, Instant};

/// The time after which a wait counts as hung.
const LIMIT: Duration = Duration::from_secs(60);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "this did not come true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number of rings that a process has mapped.
fn rings_of(pid: i32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process of ours");
    maps.lines().filter(|line| line.contains("memfd:m3-trace")).count()
}

fn read(trace: &mut Trace, join: &mut Join) {
    trace.poll(|endpoint, record| join.add(endpoint, &record)).expect("the daemon runs");
}

#[test]
fn calls_are_seen_whole_and_in_order_and_it_ends_with_its_tracer() {
    let node = UserNode::start("traced", 0, false);
    let vm = node.node().vm_init(&VmConfig::new("traced")).expect("a VM");
    let mut pair = MemberProcess::start(0, "pair", &[node.path(), "traced"]);
    assert!(pair.line().starts_with("ready"));
    assert_eq!(pair.ask("3"), "ok 3");
    assert_eq!(rings_of(pair.pid()), 0, "who is not traced holds no ring");

    let mut trace = node.node().trace(vm.id(), TraceConfig::default()).expect("the owner may");
    let mut join = Join::new(10_000);
    until("both have their rings", || {
        pair.ask("1");
        read(&mut trace, &mut join);
        trace.traced().count() == 2
    });
    assert_eq!(rings_of(pair.pid()), 2);
    read(&mut trace, &mut join);
    let _ = join.take_calls();
    assert_eq!(pair.ask("100"), "ok 100");
    let mut calls = Vec::new();
    until("a hundred calls are seen", || {
        read(&mut trace, &mut join);
        calls.extend(join.take_calls());
        // A call from before may be among them.
        calls.len() >= 100 && calls.last().is_some_and(|call| call.request.m_type == 99)
    });
    let types: Vec<i32> = calls.iter().map(|call| call.request.m_type).collect();
    assert!(types.ends_with(&(0..100).collect::<Vec<i32>>()), "{types:?}");
    for call in &calls {
        assert_eq!(call.answer.m_type, call.request.m_type + 1);
        assert_eq!((call.request.from, call.request.to), (call.answer.to, call.answer.from));
        assert!(call.request.found >= call.request.ready, "{call:?}");
        // All of its time is in some phase.
        assert_eq!(call.phases().total(), call.ticks(), "{call:?}");
    }
    assert_eq!((trace.lost(), trace.broken()), (0, 0));

    let other = node.node().trace(vm.id(), TraceConfig::default());
    assert_eq!(other.map(drop).map_err(|error| error.code().number()), Err(-16), "one tracer a VM");
    drop(trace);
    until("nobody stamps any more", || {
        pair.ask("1");
        rings_of(pair.pid()) == 0
    });
    let again = node
        .node()
        .trace(vm.id(), TraceConfig { slots: 64, sharp: true })
        .expect("it is free again");
    until("newcomers are traced too", || {
        pair.ask("1");
        rings_of(pair.pid()) == 2
    });
    drop(again);
}

#[test]
fn a_small_ring_loses_the_oldest_and_counts_them() {
    let node = UserNode::start("small", 0, false);
    let vm = node.node().vm_init(&VmConfig::new("small")).expect("a VM");
    let mut pair = MemberProcess::start(0, "pair", &[node.path(), "small"]);
    assert!(pair.line().starts_with("ready"));
    let config = TraceConfig { slots: 64, ..TraceConfig::default() };
    let mut trace = node.node().trace(vm.id(), config).expect("the owner may");
    let mut join = Join::new(10_000);
    until("both have their rings", || {
        pair.ask("1");
        read(&mut trace, &mut join);
        trace.traced().count() == 2
    });
    assert_eq!(pair.ask("1000"), "ok 1000");
    let mut read_now = 0;
    trace.poll(|_, _| read_now += 1).expect("the daemon runs");
    assert!(read_now <= 2 * 64, "{read_now} records of two rings of 64");
    assert!(trace.lost() >= 2_000, "{} lost", trace.lost());
}

#[test]
fn a_stranger_is_refused() {
    if !is_root("tracing by others") {
        return;
    }
    let node = UserNode::start("strange", 0, true);
    // All may see and join this VM; tracing it needs more.
    node.node().vm_init(&VmConfig::new("strange").mode(0o777)).expect("a VM");
    let mut pair = MemberProcess::start(USERS[0], "pair", &[node.path(), "strange"]);
    assert!(pair.line().starts_with("ready"));
    for user in [USERS[0], USERS[1]] {
        let (lines, succeeded) =
            MemberProcess::start(user, "tracer", &[node.path(), "strange"]).finish();
        assert!(succeeded && lines == ["refused -335"], "user {user}: {lines:?}");
    }
    let (lines, succeeded) = MemberProcess::start(0, "tracer", &[node.path(), "strange"]).finish();
    assert!(succeeded && lines == ["traces"], "root: {lines:?}");
    assert_eq!(pair.ask("5"), "ok 5");
}
