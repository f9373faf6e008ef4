//! Copies between processes that the kernel keeps apart, and with peers that fail in the middle.

use m3ipc::runtime::SYSTEM_DIRECTORY;
use m3ipc::{Node, VmConfig};
use m3ipc_test_fixture::{MemberProcess, USERS, UserNode, is_root, pattern, program, signals, sum};
use std::time::Duration;

pub const BYTES: u64 = 5 << 20;
/// The code of a copy beyond its limit, and how often a copy is made at most.
const TIMED_OUT: i32 = -61;
const COPIES: usize = 5;

/// One process of a copy.
pub struct Process {
    pub role: MemberProcess,
    pub place: Place,
    pub pid: i32,
}

/// Its address in the VM, and the address of its memory.
#[derive(Clone)]
pub struct Place {
    pub address: String,
    pub at: String,
}

/// A node for all users with one VM that all may join.
pub fn node(name: &str, granted: bool) -> (UserNode, Node) {
    let users = UserNode::start(name, 0, true);
    let mut node = users.node();
    node.vm_init(&VmConfig::new("copy").mode(0o777).copy_granted(granted).grace_ms(100)).unwrap();
    (users, node)
}

pub fn process(users: &UserNode, user: u32, kind: &str, slot: &str) -> Process {
    let starter =
        if kind.starts_with("apart-") { users.way_for_namespaces().0 } else { Vec::new() };
    process_by(&starter, users, user, kind, slot)
}

pub fn process_by(
    starter: &[&str],
    users: &UserNode,
    user: u32,
    kind: &str,
    slot: &str,
) -> Process {
    let path = if kind.starts_with("apart-") { SYSTEM_DIRECTORY } else { users.path() };
    let mut role = MemberProcess::start_program(
        starter,
        &program("m3-tests-member"),
        user,
        kind,
        &[path, "copy", slot, &BYTES.to_string()],
    );
    let mut pid = role.pid();
    let mut line = role.line();
    if let Some(inner) = line.strip_prefix("inner ") {
        pid = inner.parse().unwrap();
        line = role.line();
    }
    let mut words = line.split(' ').skip(1).map(str::to_owned);
    let place = Place { address: words.next().unwrap(), at: words.next().unwrap() };
    Process { role, place, pid }
}

impl Process {
    /// Copies this number of bytes from the other; the code, and the bytes copied. The other runs:
    /// if the machine is too slow for the limit of a copy, it is made again.
    pub fn copy(&mut self, other: &Place, bytes: u64) -> (i32, u64) {
        (1..COPIES).fold(self.copy_once(other, bytes), |copied, _| match copied.0 {
            TIMED_OUT => self.copy_once(other, bytes),
            _ => copied,
        })
    }

    /// Has the process make an order about a peer that runs, again where the limit was too short.
    fn ask_again(&mut self, order: &str) -> String {
        let is_late = |said: &str| said.starts_with(&format!("{TIMED_OUT} "));
        (1..COPIES).fold(self.role.ask(order), |said, _| match is_late(&said) {
            true => self.role.ask(order),
            false => said,
        })
    }

    /// The same once, also from a process that does not run.
    pub fn copy_once(&mut self, other: &Place, bytes: u64) -> (i32, u64) {
        let said = self.role.ask(&format!("copy {} {} {bytes}", other.address, other.at));
        let (code, copied) = said.split_once(' ').unwrap();
        (code.parse().unwrap(), copied.parse().unwrap())
    }

    pub fn receive_from(&mut self, other: &Process, node: &mut Node) {
        self.begin_receive(&format!("receive {}", other.place.address), node);
    }

    /// Begins a receive; returns when the process sleeps in it.
    fn begin_receive(&mut self, line: &str, node: &mut Node) {
        self.role.tell(line);
        let vm = node.vm_named("copy").unwrap().id();
        loop {
            let all = node.endpoints(vm).unwrap();
            let found =
                all.iter().find(|one| one.address.to_string() == self.place.address).unwrap();
            if found.wait.state == m3ipc::WaitState::Receive && found.wait.for_ns > 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the receive of the other; its code.
    pub fn release(&mut self, other: &mut Process) -> String {
        assert_eq!(self.role.ask(&format!("send {}", other.place.address)), "0");
        other.role.line()
    }
}

/// All memory of a peer is copied by each method, and the peer goes on.
#[test]
fn walls_between_processes_change_no_byte() {
    if !is_root("walls") {
        return;
    }
    let [one, two, ..] = USERS;
    let plain = ["copy-peer"; 2];
    let cases = [
        ("open", false, [one, one], plain, [false; 2]),
        ("rule", true, [one, one], plain, [false; 2]),
        ("users", false, [one, two], plain, [false; 2]),
        ("apart", false, [one, one], ["apart-copy-peer"; 2], [false; 2]),
        ("inside", false, [one, one], ["copy-peer", "apart-copy-peer"], [false; 2]),
        ("outside", false, [one, one], ["apart-copy-peer", "copy-peer"], [false; 2]),
        ("filter", false, [one, one], plain, [true, false]),
        ("filters", false, [one, one], plain, [true, true]),
    ];
    for (name, granted, uids, kinds, filters) in cases {
        let (users, mut node) = node(name, granted);
        let mut requester = process(&users, uids[0], kinds[0], "1");
        let mut peer = process(&users, uids[1], kinds[1], "30");
        for (process, filtered) in [&mut requester, &mut peer].into_iter().zip(filters) {
            assert!(!filtered || process.role.ask("filter") == "0", "{name}: a filter");
        }
        if name == "users" {
            peer.receive_from(&requester, &mut node);
            assert_eq!(requester.copy(&peer.place, BYTES), (-1, 0), "{name}: nothing is granted");
            assert_eq!(requester.release(&mut peer), "0");
        }
        if name != "open" {
            peer.role.ask(&format!("grant {}", requester.place.address));
        }
        peer.receive_from(&requester, &mut node);
        assert_eq!(requester.copy(&peer.place, BYTES), (0, BYTES), "{name}");
        let sent = pattern(1, usize::try_from(BYTES).unwrap());
        assert_eq!(requester.role.ask("sum"), sum(&sent).to_string(), "{name}");
        let vm = node.vm_named("copy").unwrap().id();
        let direct: u64 = node.endpoints(vm).unwrap().iter().map(|one| one.copies_direct).sum();
        // A process of an outer namespace may copy one within. The inner one has no number for the
        // outer one.
        let may_be_direct = ["open", "inside"].contains(&name);
        assert!(direct == 0 || may_be_direct, "{name}: the way");
        assert!(name != "open" || direct >= 1, "{name}: the way");
        assert_eq!(requester.release(&mut peer), "0", "{name}: the peer goes on");
    }
}

/// The requester learns of a peer that fails, by a code, within a bounded time.
#[test]
fn a_failed_peer_ends_the_copy_with_its_code() {
    if !is_root("failing peers") {
        return;
    }
    for granted in [false, true] {
        let (users, mut node) = node(if granted { "failg" } else { "fail" }, granted);
        let mut requester = process(&users, 0, "copy-peer", "1");
        let mut peer = process(&users, 0, "copy-peer", "30");
        peer.role.ask(&format!("grant {}", requester.place.address));
        peer.role.ask("unmap");
        peer.receive_from(&requester, &mut node);
        assert_eq!(requester.copy(&peer.place, BYTES), (-71, BYTES / 2), "half of it is gone");
        signals::stop(peer.pid);
        let stopped = requester.copy_once(&peer.place, 1 << 20);
        let expected = if granted { (TIMED_OUT, 0) } else { (0, 1 << 20) };
        assert_eq!(stopped, expected, "the peer is stopped");
        signals::resume(peer.pid);
        while requester.copy(&peer.place, 1 << 20) != (0, 1 << 20) {}
        let place = peer.place.clone();
        signals::kill(peer.pid);
        let mut dead = requester.copy(&place, 64);
        while dead.0 == 0 || dead.0 == -61 {
            dead = requester.copy(&place, 64);
        }
        assert_eq!(dead, (-108, 0));
    }
}

/// Memory that is never filled holds the requester no longer than it waits for any peer.
#[test]
fn memory_that_never_answers_is_an_error() {
    if !is_root("memory that never answers") {
        return;
    }
    let (users, mut node) = node("never", false);
    let mut requester = process(&users, 0, "copy-peer", "1");
    let mut peer = process(&users, 0, "copy-peer", "30");
    if peer.role.ask("never") != "0" {
        println!("SKIP memory that never answers: no userfaultfd");
        return;
    }
    peer.receive_from(&requester, &mut node);
    assert_eq!(requester.copy_once(&peer.place, 4096), (TIMED_OUT, 0));
}

/// A requester of the same user whose own memory is never filled sleeps in the kernel. It holds the
/// peer's receive for a moment beyond its limit; a peer that it held for ever would end the test by
/// its watchdog.
#[test]
fn a_requester_whose_own_memory_never_answers_holds_no_peer() {
    if !is_root("a requester with memory that never answers") {
        return;
    }
    let (users, mut node) = node("own", false);
    let mut requester = process(&users, 0, "copy-peer", "1");
    let third = process(&users, 0, "copy-peer", "2");
    let mut peer = process(&users, 0, "copy-peer", "30");
    if requester.role.ask("never") != "0" {
        println!("SKIP a requester with memory that never answers: no userfaultfd");
        return;
    }
    for step in ["copy", "put"] {
        peer.begin_receive(&format!("receive-for {} 3000", third.place.address), &mut node);
        requester.role.tell(&format!("{step} {} {} 4096", peer.place.address, peer.place.at));
        assert_eq!(peer.role.line(), "-61", "{step}");
        assert_eq!(peer.role.ask(&format!("send {}", 99_999)), "-34", "the peer goes on");
        signals::kill(requester.pid);
        until_gone(&mut node, &requester);
        requester = process(&users, 0, "copy-peer", "1");
        assert_eq!(requester.role.ask("never"), "0");
    }
}

/// Waits until the daemon knows that a process is gone.
pub fn until_gone(node: &mut Node, process: &Process) {
    let address = m3ipc::Address(process.place.address.parse().unwrap());
    let vm = node.vm_named("copy").unwrap().id();
    while node.endpoint(vm, address.slot()).unwrap().is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A requester that is killed in the middle of a copy holds no peer.
#[test]
fn a_requester_that_dies_holds_no_peer() {
    if !is_root("dying requesters") || !m3ipc_sys::HAS_PAUSE_POINTS {
        return;
    }
    for granted in [false, true] {
        let (users, mut node) = node(if granted { "dieg" } else { "die" }, granted);
        let pause = ["env", "M3_PAUSE=requester.boarded"];
        let mut requester = process_by(&pause, &users, 0, "copy-peer", "1");
        let mut peer = process(&users, 0, "copy-peer", "30");
        peer.role.ask(&format!("grant {}", requester.place.address));
        peer.receive_from(&requester, &mut node);
        requester.role.tell(&format!("copy {} {} 4096", peer.place.address, peer.place.at));
        signals::until_stopped(requester.pid);
        signals::kill(requester.pid);
        assert_eq!(peer.role.line(), "-108");
    }
}

/// A requester of another user that stops in the middle of a copy holds the peer for a moment only.
#[test]
fn a_requester_of_another_user_that_stops_holds_no_peer_for_long() {
    if !is_root("stopped strangers") || !m3ipc_sys::HAS_PAUSE_POINTS {
        return;
    }
    let (users, mut node) = node("stop", false);
    let pause = ["env", "M3_PAUSE=requester.boarded"];
    let mut stranger = process_by(&pause, &users, USERS[0], "copy-peer", "1");
    let mut third = process(&users, USERS[1], "copy-peer", "2");
    let mut peer = process(&users, USERS[1], "copy-peer", "30");
    peer.role.ask(&format!("grant {}", stranger.place.address));
    peer.receive_from(&third, &mut node);
    stranger.role.tell(&format!("copy {} {} 4096", peer.place.address, peer.place.at));
    signals::until_stopped(stranger.pid);
    assert_eq!(third.release(&mut peer), "0");
    signals::resume(stranger.pid);
    assert_eq!(stranger.role.line(), "-324 0");
    // It may try again.
    peer.receive_from(&third, &mut node);
    assert_eq!(stranger.copy(&peer.place, 4096), (0, 4096));
    assert_eq!(third.release(&mut peer), "0");
}

/// Two copies at once into one peer: each is whole, or refused as busy.
#[test]
fn two_requesters_of_one_peer_both_end() {
    if !is_root("two requesters") {
        return;
    }
    for granted in [false, true] {
        let (users, mut node) = node(if granted { "twog" } else { "two" }, granted);
        let mut requesters = ["1", "2"].map(|slot| process(&users, 0, "copy-peer", slot));
        let mut peer = process(&users, 0, "copy-peer", "30");
        for requester in &requesters {
            peer.role.ask(&format!("grant {}", requester.place.address));
        }
        peer.receive_from(&requesters[0], &mut node);
        let mut whole = 0;
        for _ in 0..20 {
            let copy = format!("copy {} {} {BYTES}", peer.place.address, peer.place.at);
            requesters.iter_mut().for_each(|requester| requester.role.tell(&copy));
            for requester in &mut requesters {
                let mut said = requester.role.line();
                if said.starts_with("-61 ") {
                    said = requester.ask_again(&copy);
                }
                let is_whole = said == format!("0 {BYTES}");
                assert!(is_whole || said == "-16 0", "{said}");
                whole += u32::from(is_whole);
            }
        }
        assert!(whole >= 20, "{whole} of 40");
        assert_eq!(requesters[0].release(&mut peer), "0");
    }
}

/// The kernel begins to refuse the call: the next copy goes through a bounce buffer, with the same
/// result.
#[test]
fn a_way_that_closes_is_left() {
    if !is_root("a way that closes") {
        return;
    }
    let (users, mut node) = node("closes", false);
    let [mut requester, mut peer, mut other] =
        ["1", "30", "31"].map(|slot| process(&users, 0, "copy-peer", slot));
    for peer in [&mut peer, &mut other] {
        peer.receive_from(&requester, &mut node);
    }
    let (here, there) = (peer.place.clone(), other.place.clone());
    let between =
        format!("between {} {} {} {} {BYTES}", here.address, here.at, there.address, there.at);
    assert_eq!(requester.role.ask(&between), format!("0 {BYTES}"));
    assert_eq!(requester.copy(&peer.place, BYTES), (0, BYTES));
    assert_eq!(requester.role.ask("filter"), "0");
    assert_eq!(requester.role.ask(&between), format!("0 {BYTES}"));
    assert_eq!(requester.copy(&peer.place, BYTES), (0, BYTES));
    let vm = node.vm_named("copy").unwrap().id();
    let ways: Vec<_> = node
        .endpoints(vm)
        .unwrap()
        .iter()
        .map(|one| (one.copies_direct, one.copies_served))
        .collect();
    assert!(ways.contains(&(1, 3)), "{ways:?}");
    for peer in [&mut peer, &mut other] {
        assert_eq!(requester.release(peer), "0");
    }
    assert_eq!(
        other.role.ask("sum"),
        sum(&pattern(1, usize::try_from(BYTES).unwrap())).to_string()
    );
}

/// The reported number of bytes is copied and the rest is untouched, at either end, by each method.
#[test]
fn the_bytes_copied_before_a_failure_are_exact() {
    if !is_root("exact bytes") {
        return;
    }
    for granted in [false, true] {
        let (users, mut node) = node(if granted { "exactg" } else { "exact" }, granted);
        let [mut requester, mut peer] =
            ["1", "30"].map(|slot| process(&users, 0, "copy-peer", slot));
        peer.role.ask(&format!("grant {}", requester.place.address));
        peer.role.ask("clear");
        requester.role.ask("unmap");
        peer.receive_from(&requester, &mut node);
        let put = format!("put {} {} {BYTES}", peer.place.address, peer.place.at);
        // Its own half is unmapped: a filled bounce buffer is emptied before the code.
        assert_eq!(requester.ask_again(&put), format!("-71 {}", BYTES / 2), "granted: {granted}");
        assert_eq!(requester.release(&mut peer), "0");
        let half = usize::try_from(BYTES / 2).unwrap();
        let mut expected = pattern(1, half);
        expected.resize(2 * half, 0);
        assert_eq!(peer.role.ask("sum"), sum(&expected).to_string());
        // The destination's half is gone.
        let mut whole = process(&users, 0, "copy-peer", "2");
        peer.role.ask(&format!("grant {}", whole.place.address));
        peer.role.ask("unmap");
        peer.receive_from(&requester, &mut node);
        assert_eq!(whole.ask_again(&put), format!("-71 {}", BYTES / 2));
        assert_eq!(requester.release(&mut peer), "0");
        assert_eq!(peer.role.ask("sum"), sum(&pattern(1, half)).to_string());
    }
}
