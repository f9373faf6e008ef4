//! Answers of the daemon that come after their requests were given up.
//!
//! The test is alone in its process: it counts descriptors, and areas of two nodes in one process
//! can have one address.

use m3ipc::{AreaConfig, SendError, Source};
use m3ipc_large::{payload, signal_daemon, watchdog};
use rustix::process::Signal;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn areas_that_came_too_late_leave_no_descriptor_after_the_next_join() {
    watchdog(Duration::from_secs(120));
    let node = m3ipc::test::node();
    let (_server, mut client) = node.pair_without_link();
    let mut others: Vec<_> = (0..8).map(|_| node.vm().bind_additional(None).unwrap()).collect();
    for other in &mut others {
        client.notify(other.address()).unwrap();
        other.receive(Source::Any).unwrap();
    }
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    signal_daemon(&node, Signal::STOP);
    for other in &others {
        let sent = client.send_bytes(other.address(), 7, &payload(1, 10_000), SHORT);
        assert!(matches!(sent, Err(SendError::TimedOut(_))), "{sent:?}");
    }
    signal_daemon(&node, Signal::CONT);
    // The answers to the requests that were given up come before this one.
    let area = client.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    client.detach_area(&area).unwrap();
    drop(area);
    let after = descriptors();
    assert!(after < before + others.len(), "{before} descriptors before, {after} after");
}
