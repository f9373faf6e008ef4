//! A connection that floods the daemon gets its share of each round, and no other waits for it.

use m3ipc_sys::Signal;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{NodeFixture, watchdog};
use m3ipc_wire::{Reply, Request};
use std::os::fd::AsFd;

/// Connections of the flood, and frames that each has sent before the daemon reads.
const CONNECTIONS: usize = 500;
const FRAMES: usize = 40;

/// The number of answers that are ready on a connection.
fn answers(raw: &mut RawMember) -> usize {
    let mut count = 0;
    while m3ipc_sys::wait_readable(&[raw.as_fd()], 0) == Ok(true) && raw.answer().is_some() {
        count += 1;
    }
    count
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
    let question = m3ipc_wire::encode(&Request::NodeInfo);
    for raw in &mut flood {
        for _ in 0..FRAMES {
            assert!(raw.send_bytes(&question, &[]), "there is room for that");
        }
    }
    // The last in the queue.
    assert!(single.send_bytes(&question, &[]));
    m3ipc_sys::signal(&daemon, Signal::CONT).expect("our own");
    assert!(matches!(single.answer(), Some((Reply::Node(_), _))));
    m3ipc_sys::signal(&daemon, Signal::STOP).expect("our own");
    let served: Vec<usize> = flood.iter_mut().map(answers).collect();
    m3ipc_sys::signal(&daemon, Signal::CONT).expect("our own");
    // All frames of the flood are served in the end.
    for (raw, served) in flood.iter_mut().zip(&served) {
        (*served..FRAMES).for_each(|_| drop(raw.answer().expect("an answer")));
    }
    let before: usize = served.iter().sum();
    println!(
        "T14 fairness: {before} of {} frames of the flood before the one request",
        FRAMES * CONNECTIONS
    );
    assert!(before < 2_000, "the one request waited for {before} frames of another connection");
}
