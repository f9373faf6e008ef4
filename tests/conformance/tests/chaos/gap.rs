//! What happens while no daemon lives is put right by the next one.

use m3ipc::VmConfig;
use m3ipc_conformance::crash::{Ground, Peer, Tally};
use std::time::Instant;

/// Kills the daemon, then these; how long until each of those has said something, in milliseconds.
fn die_in_the_gap(
    ground: &mut Ground,
    dying: &mut Peer,
    waiting: &mut [(&mut Peer, &str)],
) -> u128 {
    assert!(ground.kill_daemon());
    dying.kill();
    let begin = Instant::now();
    for (peer, code) in waiting {
        peer.expect(code);
    }
    begin.elapsed().as_millis()
}

#[test]
fn a_death_while_no_daemon_lives_is_told_by_the_next() {
    m3ipc_conformance::watchdog(120);
    let mut ground = Ground::new("gap");
    let vm = ground.node().vm_init(&VmConfig::new("gap")).expect("a VM").id();
    // It takes one request and thinks for long.
    let mut server = ground.peer("serve", &["gap", "1", "any", "600000"]);
    server.bound();
    let client = |slot: &str, verb: &str| {
        let mut client = ground.peer("call", &["gap", slot, "1", verb, "1"]);
        client.bound();
        client.go();
        ground.until("it waits", || {
            let endpoints = ground.endpoints(vm);
            endpoints
                .iter()
                .any(|endpoint| endpoint.pid == client.pid() && endpoint.wait.for_ns > 0)
        });
        client
    };
    let mut taken = client("30", "sendrec");
    server.expect("took 35600 1");
    let mut queued = client("31", "sendrec");
    let mut sending = client("32", "send");
    let mut watcher = ground.peer("watch", &["gap", "33", "1"]);
    watcher.bound();
    let ms = die_in_the_gap(
        &mut ground,
        &mut server,
        &mut [
            (&mut taken, "code -108"),
            (&mut queued, "code -109"),
            (&mut sending, "code -109"),
            (&mut watcher, "gone"),
        ],
    );
    println!("T12 deaths in the gap: 4 of 4 told, the last after {ms} ms");
    [taken, queued, sending].iter_mut().for_each(|client| client.expect("done"));
    ground.until("the books balance", || ground.endpoints(vm).is_empty());
}

#[test]
fn an_endpoint_that_leaves_in_the_gap_is_gone() {
    m3ipc_conformance::watchdog(120);
    let mut ground = Ground::new("leave");
    let vm = ground.node().vm_init(&VmConfig::new("gap")).expect("a VM").id();
    let mut client = ground.peer("leave", &["gap", "1"]);
    client.bound();
    assert!(ground.kill_daemon());
    client.go();
    client.expect("left");
    // Its process lives, and may bind again; so may others.
    let mut other = ground.peer("serve", &["gap", "1", "any", "0"]);
    other.bound();
    client.go();
    assert!(client.bound() > 1);
    assert_eq!(ground.endpoints(vm).len(), 2);
}

/// The rung can fail: a doubled and a lost number are found among many.
#[test]
fn planted_faults_are_found() {
    let mut tally = Tally::default();
    for number in 0..1_000 {
        assert!(tally.note(&format!("t {number}")) && tally.note(&format!("a {number}")));
    }
    assert_eq!((tally.verdict(&[]).doubled, tally.verdict(&[]).lost), (0, 0));
    let mut doubled = tally.clone();
    doubled.note("t 500");
    assert_eq!(doubled.verdict(&[]).doubled, 1);
    tally.note("a 1000");
    assert_eq!(tally.verdict(&[]).lost, 1);
}
