//! The daemon is killed in every state of its work. The next member that needs a daemon starts one,
//! and the new daemon knows the records of the old one.

use crate::case::{Case, Score};
use m3ipc_crash::CrashFixture;
use m3ipc_test_fixture::resources::{left_in_directory, left_in_shm};

pub fn run(score: &mut Score) {
    for state in ["bind_recorded", "pages_given", "sealed"] {
        score.attempt(&format!("daemon.{state}"), || bind(state, false));
    }
    score.attempt("journal half written", || bind("bind_recorded", true));
    for state in ["link_recorded", "peer_notified", "both_notified"] {
        for waits_alone in [false, true] {
            score.attempt(&format!("daemon.{state}, the peer awaits one: {waits_alone}"), || {
                contact(state, waits_alone);
            });
        }
    }
    for state in ["death_seen", "death_recorded", "death_notified_one"] {
        score.attempt(&format!("daemon.{state}"), || death(state));
    }
    score.attempt("daemon.death_recorded, an unbind by another", unbind);
    score.attempt("daemon.vm_recorded", vm);
}

/// A bind that was recorded and not answered is valid.
fn bind(state: &str, torn: bool) {
    let mut fixture = CrashFixture::paused(state, Some(&format!("daemon.{state}")));
    let case_vm = fixture.node().vm_init(&m3ipc::VmConfig::new("vm")).expect("a VM");
    let mut server = fixture.peer("serve", &["vm", "1", "any", "0"]);
    fixture.await_paused();
    fixture.kill_daemon();
    if torn {
        tear(&fixture);
    }
    server.bound();
    let mut intruder = fixture.peer("intruder", &["vm", "1"]);
    intruder.expect("ready");
    intruder.finish();
    let said = intruder.next_line().expect("the intruder's report");
    assert!(said.starts_with("tried"), "the slot in the gap: {said}");
    let mut client = fixture.peer("call", &["vm", "30", "1", "sendrec", "1"]);
    client.bound();
    client.go();
    client.expect("answer 2");
    client.expect("done");
    let endpoints = fixture.endpoints(case_vm.id());
    let pids: Vec<_> = endpoints.iter().map(|endpoint| endpoint.pid).collect();
    assert_eq!(pids, [server.pid()], "the records after the takeover");
    nothing_left(&fixture);
}

/// Cuts the last bytes off the journal, as a kill in the middle of a write does.
fn tear(fixture: &CrashFixture) {
    let journal = std::fs::OpenOptions::new().write(true).open(fixture.directory().join("journal"));
    let journal = journal.expect("a journal");
    let bytes = journal.metadata().expect("its length").len();
    journal.set_len(bytes - 3).expect("a cut");
}

fn contact(state: &str, waits_alone: bool) {
    let mut fixture = CrashFixture::paused(state, Some(&format!("daemon.{state}")));
    let vm = fixture.node().vm_init(&m3ipc::VmConfig::new("vm")).expect("a VM");
    let mut client = fixture.peer("call", &["vm", "30", "1", "sendrec", "3"]);
    let address = client.bound().to_string();
    let source = if waits_alone { address.as_str() } else { "any" };
    let mut server = fixture.peer("serve", &["vm", "1", source, "0"]);
    server.bound();
    client.go();
    fixture.await_paused();
    fixture.kill_daemon();
    for n in 1..=3 {
        client.expect(&format!("answer {}", n + 1));
    }
    client.expect("done");
    if !waits_alone {
        let mut second = fixture.peer("call", &["vm", "31", "1", "sendrec", "1"]);
        second.bound();
        second.go();
        second.expect("answer 2");
        second.expect("done");
    }
    let takes = server.said().iter().filter(|line| line.starts_with("took")).count();
    assert!(takes <= if waits_alone { 3 } else { 4 }, "a request was taken twice");
    // A server that awaits the client alone learns that the client has left, and ends too.
    fixture.until("all records are removed", || {
        fixture.info().links == 0 && fixture.endpoints(vm.id()).len() == usize::from(!waits_alone)
    });
    nothing_left(&fixture);
}

/// The daemon knew of a death and had not notified all members: the next daemon notifies them.
fn death(state: &str) {
    let mut fixture = CrashFixture::paused(state, Some(&format!("daemon.{state}")));
    let vm = fixture.node().vm_init(&m3ipc::VmConfig::new("vm")).expect("a VM");
    let case = Case::of(&fixture, vm.clone(), "vm");
    let mut server = case.paused("server.taken", "serve", &["1", "any", "0"]);
    let address = server.bound();
    let mut taken = case.peer("call", &["30", "1", "sendrec", "1"]);
    taken.bound();
    taken.go();
    server.await_paused();
    let mut queued = case.peer("call", &["31", "1", "sendrec", "1"]);
    queued.bound();
    queued.go();
    case.until_waiting(queued.pid());
    let mut watcher = case.watcher("40", address);
    server.kill();
    fixture.await_paused();
    drop(case);
    fixture.kill_daemon();
    taken.expect("code -108");
    queued.expect("code -109");
    watcher.expect("gone");
    taken.expect("done");
    queued.expect("done");
    fixture.until("all records are removed", || {
        let info = fixture.info();
        info.links == 0 && fixture.endpoints(vm.id()).is_empty()
    });
    nothing_left(&fixture);
}

/// An unbind of another endpoint that was recorded and not answered is done.
fn unbind() {
    let mut fixture = CrashFixture::paused("unbind", Some("daemon.death_recorded"));
    let vm = fixture.node().vm_init(&m3ipc::VmConfig::new("vm")).expect("a VM");
    let mut client = fixture.peer("unbind-other", &["vm", "30", "1"]);
    let address = client.bound().to_string();
    let mut server = fixture.peer("serve", &["vm", "1", &address, "0"]);
    server.bound();
    client.go();
    fixture.await_paused();
    fixture.kill_daemon();
    client.expect("unbound");
    drop(server);
    fixture.until("all records are removed", || fixture.endpoints(vm.id()).is_empty());
    nothing_left(&fixture);
}

/// A VM that was recorded and not answered exists; its maker gets a code for an unknown outcome.
fn vm() {
    let mut fixture = CrashFixture::paused("vm", Some("daemon.vm_recorded"));
    let mut maker = fixture.peer("make-vm", &["vm"]);
    fixture.await_paused();
    fixture.kill_daemon();
    maker.expect("code -64");
    let mut again = fixture.peer("make-vm", &["vm"]);
    again.expect("code -342");
    let mut other = fixture.peer("make-vm", &["other"]);
    assert!(other.next_line().is_some_and(|said| said.starts_with("vm ")));
    assert_eq!(fixture.node().vms().expect("a list").len(), 2);
    nothing_left(&fixture);
}

fn nothing_left(fixture: &CrashFixture) {
    assert_eq!(left_in_shm(), [""; 0]);
    assert_eq!(left_in_directory(fixture.directory()), [""; 0]);
}
