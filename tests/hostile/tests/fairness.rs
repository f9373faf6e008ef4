//! A connection that floods the daemon gets its share of each round, and no other waits for it.

use m3ipc_sys::Signal;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{NodeFixture, watchdog};
use m3ipc_wire::{Reply, Request, VmLife, VmParams};
use std::collections::BTreeMap;

/// Connections of the flood, and frames that each has sent before the daemon reads.
const CONNECTIONS: usize = 500;
const FRAMES: usize = 40;

/// The VM of the one request. The flood asks for its state.
const VM: i32 = 5;

fn vm() -> VmParams {
    VmParams {
        id: Some(VM),
        name: "one".into(),
        procs: None,
        tasks: None,
        mode: 0o700,
        gid: None,
        grace_ms: 0,
        copy_granted: false,
        domains: BTreeMap::new(),
        domain_users: BTreeMap::new(),
        life: VmLife::UntilEnded,
    }
}

/// The answers to one connection of the flood from before the VM was made.
fn answers_before(raw: &mut RawMember) -> usize {
    let answers = (0..FRAMES).map(|_| raw.answer().expect("all frames are served in the end").0);
    answers.filter(|answer| !matches!(answer, Reply::Vm(_))).count()
}

#[test]
fn one_request_beside_a_flood_waits_for_a_few_frames_of_it() {
    watchdog(120);
    let _ = m3ipc_sys::raise_fd_limit();
    let fixture = NodeFixture::new("fairness");
    let daemon = m3ipc_sys::open_process(fixture.daemon_pid()).expect("it lives");
    let mut flood: Vec<RawMember> = (0..CONNECTIONS)
        .map(|_| RawMember::greeted(fixture.directory()).expect("a connection"))
        .collect();
    let mut single = RawMember::greeted(fixture.directory()).expect("a connection");
    m3ipc_sys::signal(&daemon, Signal::STOP).expect("our own");
    let question = m3ipc_wire::encode(&Request::VmInfo(VM));
    for raw in &mut flood {
        for _ in 0..FRAMES {
            assert!(raw.send_bytes(&question, &[]), "there is room for that");
        }
    }
    // The last in the queue.
    assert!(single.send_bytes(&m3ipc_wire::encode(&Request::VmInit(vm())), &[]));
    m3ipc_sys::signal(&daemon, Signal::CONT).expect("our own");
    assert!(matches!(single.answer(), Some((Reply::Vm(_), _))));
    // The daemon goes on meanwhile: only the answers themselves tell what came first.
    let before: usize = flood.iter_mut().map(answers_before).sum();
    println!(
        "T14 fairness: {before} of {} frames of the flood before the one request",
        FRAMES * CONNECTIONS
    );
    assert!(before < 2_000, "the one request waited for {before} frames of another connection");
}
