//! The daemon is killed in every state of its work; whoever needs it next
//! starts another, which knows what was promised.

use crate::field::{Case, Score};
use m3ipc_conformance::crash::{Ground, left_in_directory, left_in_shm};

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
    score.attempt("daemon.vm_recorded", vm);
}

/// A bind that was written down and not answered is the binder's all the same.
fn bind(state: &str, torn: bool) {
    let mut ground = Ground::paused(state, Some(&format!("daemon.{state}")));
    let case_vm = ground.node().vm_init(&m3ipc::VmConfig::new("vm")).expect("a VM");
    let mut server = ground.peer("serve", &["vm", "1", "any", "0"]);
    ground.await_paused();
    ground.kill_daemon();
    if torn {
        tear(&ground);
    }
    server.bound();
    let mut stranger = ground.peer("stranger", &["vm", "1"]);
    stranger.expect("ready");
    stranger.finish();
    let said = stranger.next_line().expect("the stranger's report");
    assert!(said.starts_with("tried"), "the slot in the gap: {said}");
    let mut client = ground.peer("call", &["vm", "30", "1", "sendrec", "1"]);
    client.bound();
    client.go();
    client.expect("answer 2");
    client.expect("done");
    let endpoints = ground.endpoints(case_vm.id());
    let pids: Vec<_> = endpoints.iter().map(|endpoint| endpoint.pid).collect();
    assert_eq!(pids, [server.pid()], "the books after the takeover");
    nothing_left(&ground);
}

/// Cuts the last bytes of the journal off, as a kill in the middle of a write does.
fn tear(ground: &Ground) {
    let journal = std::fs::OpenOptions::new().write(true).open(ground.directory().join("journal"));
    let journal = journal.expect("a journal");
    let bytes = journal.metadata().expect("its length").len();
    journal.set_len(bytes - 3).expect("a cut");
}

fn contact(state: &str, waits_alone: bool) {
    let mut ground = Ground::paused(state, Some(&format!("daemon.{state}")));
    let vm = ground.node().vm_init(&m3ipc::VmConfig::new("vm")).expect("a VM");
    let mut client = ground.peer("call", &["vm", "30", "1", "sendrec", "3"]);
    let address = client.bound().to_string();
    let source = if waits_alone { address.as_str() } else { "any" };
    let mut server = ground.peer("serve", &["vm", "1", source, "0"]);
    server.bound();
    client.go();
    ground.await_paused();
    ground.kill_daemon();
    for n in 1..=3 {
        client.expect(&format!("answer {}", n + 1));
    }
    client.expect("done");
    if !waits_alone {
        let mut second = ground.peer("call", &["vm", "31", "1", "sendrec", "1"]);
        second.bound();
        second.go();
        second.expect("answer 2");
        second.expect("done");
    }
    let takes = server.said().iter().filter(|line| line.starts_with("took")).count();
    assert!(takes <= if waits_alone { 3 } else { 4 }, "a request was taken twice");
    // Who awaits the client alone is told that it has gone, and goes too.
    ground.until("the books balance", || {
        ground.info().links == 0 && ground.endpoints(vm.id()).len() == usize::from(!waits_alone)
    });
    nothing_left(&ground);
}

/// A death that the daemon knew of and had not told everybody of is told by the next one.
fn death(state: &str) {
    let mut ground = Ground::paused(state, Some(&format!("daemon.{state}")));
    let vm = ground.node().vm_init(&m3ipc::VmConfig::new("vm")).expect("a VM");
    let case = Case::of(&ground, vm.clone(), "vm");
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
    ground.await_paused();
    drop(case);
    ground.kill_daemon();
    taken.expect("code -108");
    queued.expect("code -109");
    watcher.expect("gone");
    taken.expect("done");
    queued.expect("done");
    ground.until("the books balance", || {
        let info = ground.info();
        info.links == 0 && ground.endpoints(vm.id()).is_empty()
    });
    nothing_left(&ground);
}

/// A VM that was written down and not answered is there; its maker is told that it cannot know.
fn vm() {
    let mut ground = Ground::paused("vm", Some("daemon.vm_recorded"));
    let mut maker = ground.peer("make-vm", &["vm"]);
    ground.await_paused();
    ground.kill_daemon();
    maker.expect("code -64");
    let mut again = ground.peer("make-vm", &["vm"]);
    again.expect("code -342");
    let mut other = ground.peer("make-vm", &["other"]);
    assert!(other.next_line().is_some_and(|said| said.starts_with("vm ")));
    assert_eq!(ground.node().vms().expect("a list").len(), 2);
    nothing_left(&ground);
}

fn nothing_left(ground: &Ground) {
    assert_eq!(left_in_shm(), [""; 0]);
    assert_eq!(left_in_directory(ground.directory()), [""; 0]);
}
