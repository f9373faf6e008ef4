//! Faults in the middle of a copy: the survivors learn of them and go on.

use crate::processes::{BYTES, Process, node, process, process_by, until_gone};
use crate::slow_file::SlowFile;
use m3ipc::Address;
use m3ipc_test_fixture::is_root;
use m3ipc_test_fixture::signals;

/// Four chunks have gone through a bounce buffer when its peer stops at the fifth.
const FOUR_CHUNKS: u64 = 4 * 65_536;
const AT_THE_FIFTH: [&str; 2] = ["env", "M3_PAUSE=party.chunk:5"];

fn skips(what: &str) -> bool {
    if !m3ipc_sys::HAS_PAUSE_POINTS {
        println!("SKIP {what}: this build has no pause points");
    }
    !is_root(what) || !m3ipc_sys::HAS_PAUSE_POINTS
}

fn address(process: &Process) -> Address {
    Address(process.place.address.parse().unwrap())
}

fn grant(peer: &mut Process, to: &Process) {
    peer.role.ask(&format!("grant {}", to.place.address));
}

#[test]
fn a_peer_that_fails_between_two_chunks_is_reported() {
    if skips("peers that fail in the middle") {
        return;
    }
    for (verb, died) in [("copy", -108), ("put", -109)] {
        for fault in ["kill", "unbind", "stop"] {
            let (users, mut node) = node(&format!("{verb}-{fault}"), true);
            let mut requester = process(&users, 0, "copy-peer", "1");
            let mut peer = process_by(&AT_THE_FIFTH, &users, 0, "copy-peer", "30");
            grant(&mut peer, &requester);
            peer.receive_from(&requester, &mut node);
            let order = format!("{verb} {} {} {BYTES}", peer.place.address, peer.place.at);
            requester.role.tell(&order);
            signals::until_stopped(peer.pid);
            let vm = node.vm_named("copy").unwrap().id();
            let expected = match fault {
                "kill" => {
                    signals::kill(peer.pid);
                    died
                }
                "unbind" => {
                    node.unbind(vm, address(&peer)).unwrap();
                    died
                }
                _ => -61,
            };
            let said = requester.role.line();
            // A peer that does not leave is unbound after a second. The requester waits as long.
            let is_late = fault == "unbind" && said == format!("-61 {FOUR_CHUNKS}");
            assert!(
                is_late || said == format!("{expected} {FOUR_CHUNKS}"),
                "{verb} {fault}: {said}"
            );
            signals::resume(peer.pid);
            if fault == "stop" {
                let whole = format!("0 {BYTES}");
                while requester.role.ask(&order) != whole {}
                assert_eq!(requester.release(&mut peer), "0");
            }
        }
    }
}

#[test]
fn a_peer_that_dies_under_a_copy_by_the_kernel_is_reported() {
    if skips("peers that die under the kernel") {
        return;
    }
    for (verb, died) in [("copy", -108), ("put", -109)] {
        let (users, mut node) = node(&format!("under-{verb}"), false);
        let mut requester =
            process_by(&["env", "M3_PAUSE=requester.boarded"], &users, 0, "copy-peer", "1");
        let mut peer = process(&users, 0, "copy-peer", "30");
        peer.receive_from(&requester, &mut node);
        requester.role.tell(&format!("{verb} {} {} {BYTES}", peer.place.address, peer.place.at));
        signals::until_stopped(requester.pid);
        signals::kill(peer.pid);
        until_gone(&mut node, &peer);
        signals::resume(requester.pid);
        assert_eq!(requester.role.line(), format!("{died} 0"));
    }
}

#[test]
fn a_third_party_learns_which_side_died() {
    if skips("sides that die") {
        return;
    }
    for (dies, code) in [(0, -108), (1, -109)] {
        let (users, mut node) = node(&format!("third-{dies}"), true);
        let mut third = process(&users, 0, "copy-peer", "1");
        let mut peers = [0, 1].map(|side| {
            let starter = if side == dies { &AT_THE_FIFTH[..] } else { &[] };
            process_by(starter, &users, 0, "copy-peer", ["30", "31"][side])
        });
        for peer in &mut peers {
            grant(peer, &third);
            peer.receive_from(&third, &mut node);
        }
        let [from, to] = [0, 1].map(|side| peers[side].place.clone());
        third.role.tell(&format!(
            "between {} {} {} {} {BYTES}",
            from.address, from.at, to.address, to.at
        ));
        signals::until_stopped(peers[dies].pid);
        signals::kill(peers[dies].pid);
        assert_eq!(third.role.line(), format!("{code} {FOUR_CHUNKS}"));
        assert_eq!(third.release(&mut peers[1 - dies]), "0", "the other one goes on");
    }
}

#[test]
fn a_requester_that_dies_between_two_chunks_leaves_nothing_behind() {
    if skips("requesters that die in the middle") {
        return;
    }
    let (users, mut node) = node("leaves", true);
    let mut successor = process(&users, 0, "copy-peer", "2");
    let mut peers = ["30", "31"].map(|slot| process(&users, 0, "copy-peer", slot));
    for (round, kills) in [true, true, false, true].into_iter().enumerate() {
        let mut requester = process_by(
            &["env", "M3_PAUSE=requester.chunk:5"],
            &users,
            0,
            "copy-peer",
            &(3 + round).to_string(),
        );
        for peer in &mut peers {
            grant(peer, &requester);
            grant(peer, &successor);
            peer.receive_from(&successor, &mut node);
        }
        let [from, to] = [0, 1].map(|side| peers[side].place.clone());
        let order =
            format!("between {} {} {} {} {BYTES}", from.address, from.at, to.address, to.at);
        requester.role.tell(&order);
        signals::until_stopped(requester.pid);
        assert_eq!(successor.role.ask(&order), "-16 0", "the peers are in a copy");
        if kills {
            signals::kill(requester.pid);
            until_gone(&mut node, &requester);
        } else {
            signals::resume(requester.pid);
            assert_eq!(requester.role.line(), format!("0 {BYTES}"));
        }
        // They know of the death when they wait for the next requester.
        for peer in &mut peers {
            assert_eq!(successor.release(peer), "0");
            peer.receive_from(&successor, &mut node);
        }
        assert_eq!(successor.role.ask(&order), format!("0 {BYTES}"), "round {round}");
        for peer in &mut peers {
            assert_eq!(successor.release(peer), "0");
            assert_eq!(
                bounce_buffers(peer.pid),
                if kills { 1 } else { 2 },
                "round {round}: only of the living"
            );
        }
        drop(requester);
    }
}

/// The number of bounce buffers that a process has mapped.
fn bounce_buffers(pid: i32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    maps.lines().filter(|line| line.contains("m3-bounce")).count()
}

/// The bounce buffer of a killed or stopped requester is no reason to refuse others.
#[test]
fn the_copy_of_a_dead_requester_makes_room_for_the_next() {
    if skips("commands that stand still") {
        return;
    }
    for kills in [false, true] {
        let (users, mut node) = node(if kills { "way-killed" } else { "way-stopped" }, true);
        let mut first =
            process_by(&["env", "M3_PAUSE=requester.chunk:5"], &users, 0, "copy-peer", "1");
        let mut other = process(&users, 0, "copy-peer", "2");
        let mut peer = process(&users, 0, "copy-peer", "30");
        grant(&mut peer, &first);
        grant(&mut peer, &other);
        peer.receive_from(&other, &mut node);
        let order = format!("copy {} {} {BYTES}", peer.place.address, peer.place.at);
        first.role.tell(&order);
        signals::until_stopped(first.pid);
        if kills {
            signals::kill(first.pid);
        }
        let mut said = other.role.ask(&order);
        while said == "-16 0" {
            said = other.role.ask(&order);
        }
        assert_eq!(said, format!("0 {BYTES}"), "the peer waits all the time");
        if !kills {
            signals::resume(first.pid);
            assert!(first.role.line().starts_with("-324 "));
        }
        assert_eq!(other.release(&mut peer), "0");
    }
}

/// A requester and the daemon die at once: the peer learns of it from the next daemon, and goes on.
#[test]
fn a_requester_that_dies_with_the_daemon_holds_no_peer() {
    if skips("requesters that die with the daemon") {
        return;
    }
    let (mut users, mut node) = node("both-die", false);
    let mut requester =
        process_by(&["env", "M3_PAUSE=requester.boarded"], &users, 0, "copy-peer", "1");
    let mut third = process(&users, 0, "copy-peer", "2");
    let mut peer = process(&users, 0, "copy-peer", "30");
    peer.receive_from(&third, &mut node);
    assert_eq!(third.release(&mut peer), "0");
    peer.receive_from(&third, &mut node);
    requester.role.tell(&format!("copy {} {} 4096", peer.place.address, peer.place.at));
    signals::until_stopped(requester.pid);
    users.kill_daemon();
    signals::kill(requester.pid);
    third.role.tell(&format!("send {}", peer.place.address));
    users.restart_daemon();
    assert_eq!((third.role.line(), peer.role.line()), ("0".to_owned(), "0".to_owned()));
}

/// A requester that is unbound while it copies is gone for the others, though its process lives.
#[test]
fn a_requester_that_is_unbound_holds_no_peer() {
    if skips("requesters that are unbound") {
        return;
    }
    for granted in [false, true] {
        let (users, mut node) = node(if granted { "unboundg" } else { "unbound" }, granted);
        let mut requester =
            process_by(&["env", "M3_PAUSE=requester.boarded"], &users, 0, "copy-peer", "1");
        let mut third = process(&users, 0, "copy-peer", "2");
        let mut peer = process(&users, 0, "copy-peer", "30");
        grant(&mut peer, &requester);
        peer.receive_from(&third, &mut node);
        requester.role.tell(&format!("copy {} {} 4096", peer.place.address, peer.place.at));
        signals::until_stopped(requester.pid);
        let vm = node.vm_named("copy").unwrap().id();
        node.unbind(vm, address(&requester)).unwrap();
        assert_eq!(third.release(&mut peer), "0");
        signals::resume(requester.pid);
    }
}

#[test]
fn changing_memory_is_copied_or_reported() {
    if !is_root("memory without rest") {
        return;
    }
    for granted in [false, true] {
        for unrest in ["protect", "replace", "shrink"] {
            let (users, mut node) = node(&format!("rest-{unrest}-{granted}"), granted);
            let mut requester = process(&users, 0, "copy-peer", "1");
            let mut peer = process(&users, 0, "copy-peer", "30");
            grant(&mut peer, &requester);
            assert_eq!(peer.role.ask(&format!("unrest {unrest}")), "0");
            peer.receive_from(&requester, &mut node);
            for _ in 0..12 {
                for verb in ["copy", "put"] {
                    let order = format!("{verb} {} {} {BYTES}", peer.place.address, peer.place.at);
                    let said = requester.role.ask(&order);
                    let (code, copied) = said.split_once(' ').unwrap();
                    let copied: u64 = copied.parse().unwrap();
                    let whole = code == "0" && copied == BYTES;
                    let told = code == "-71"
                        && (BYTES / 2..BYTES).contains(&copied)
                        && unrest != "replace";
                    // On a loaded machine a peer may seem to be stopped.
                    let late = code == "-61" && copied < BYTES;
                    assert!(whole || told || late, "{unrest}, {verb}, granted {granted}: {said}");
                }
            }
            assert_eq!(requester.release(&mut peer), "0");
        }
    }
}

#[test]
fn a_file_that_never_answers_is_an_error() {
    if !is_root("files that never answer") {
        return;
    }
    for granted in [false, true] {
        let (users, mut node) = node(if granted { "fuseg" } else { "fuse" }, granted);
        let mut requester = process(&users, 0, "copy-peer", "1");
        let mut other = process(&users, 0, "copy-peer", "2");
        let mut peer = process(&users, 0, "copy-peer", "30");
        // The file system ends before the peer, which sleeps in it.
        let Some(file) = SlowFile::mount(&users.directory().join("slow")) else {
            println!(
                "SKIP files that never answer: no file system can be mounted by its user here"
            );
            return;
        };
        grant(&mut peer, &requester);
        assert_eq!(peer.role.ask(&format!("map {}", file.path().display())), "0");
        peer.receive_from(&requester, &mut node);
        assert_eq!(requester.copy_once(&peer.place, 4_096), (-61, 0), "granted: {granted}");
        assert!(file.was_read(), "it was asked for");
        let put = format!("put {} {} 4096", peer.place.address, peer.place.at);
        assert_eq!(requester.role.ask(&put), "-61 0");
        // The requester goes on.
        grant(&mut other, &requester);
        other.receive_from(&requester, &mut node);
        assert_eq!(requester.copy(&other.place, 4_096), (0, 4_096));
    }
}
