//! What happens while no daemon lives: the next daemon learns of it.

use m3ipc::VmConfig;
use m3ipc_crash::{CallLog, CrashFixture, Peer};
use std::time::Instant;

/// Kills the daemon, then a peer. The time until each waiting peer reports its code, in
/// milliseconds.
fn die_in_the_gap(
    fixture: &mut CrashFixture,
    dying: &mut Peer,
    waiting: &mut [(&mut Peer, &str)],
) -> u128 {
    assert!(fixture.kill_daemon());
    dying.kill();
    let begin = Instant::now();
    for (peer, code) in waiting {
        peer.expect(code);
    }
    begin.elapsed().as_millis()
}

#[test]
fn a_death_while_no_daemon_lives_is_reported_by_the_next() {
    m3ipc_test_fixture::watchdog(120);
    let mut fixture = CrashFixture::new("gap");
    let vm = fixture.node().vm_init(&VmConfig::new("gap")).expect("a VM").id();
    // The server takes one request, and its answer takes long.
    let mut server = fixture.peer("serve", &["gap", "1", "any", "600000"]);
    server.bound();
    let client = |slot: &str, verb: &str| {
        let mut client = fixture.peer("call", &["gap", slot, "1", verb, "1"]);
        client.bound();
        client.go();
        fixture.until("it waits", || {
            let endpoints = fixture.endpoints(vm);
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
    let mut watcher = fixture.peer("watch", &["gap", "33", "1"]);
    watcher.bound();
    let ms = die_in_the_gap(
        &mut fixture,
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
    fixture.until("all records are removed", || fixture.endpoints(vm).is_empty());
}

#[test]
fn an_endpoint_that_leaves_while_no_daemon_lives_is_gone() {
    m3ipc_test_fixture::watchdog(120);
    let mut fixture = CrashFixture::new("leave");
    let vm = fixture.node().vm_init(&VmConfig::new("gap")).expect("a VM").id();
    let mut client = fixture.peer("leave", &["gap", "1"]);
    client.bound();
    assert!(fixture.kill_daemon());
    client.go();
    client.expect("left");
    // The process lives, and may bind again; so may others.
    let mut other = fixture.peer("serve", &["gap", "1", "any", "0"]);
    other.bound();
    client.go();
    assert!(client.bound() > 1);
    assert_eq!(fixture.endpoints(vm).len(), 2);
}

/// The suite can fail: a doubled and a lost number are found among many.
#[test]
fn planted_faults_are_found() {
    let mut log = CallLog::default();
    for number in 0..1_000 {
        assert!(log.note(&format!("t {number}")) && log.note(&format!("a {number}")));
    }
    assert_eq!((log.verdict(&[]).doubled, log.verdict(&[]).lost), (0, 0));
    let mut doubled = log.clone();
    doubled.note("t 500");
    assert_eq!(doubled.verdict(&[]).doubled, 1);
    log.note("a 1000");
    assert_eq!(log.verdict(&[]).lost, 1);
}
