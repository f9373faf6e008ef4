//! T9: frames that the library never sends, against a living daemon; and the parsers alone, with
//! any bytes.
//!
//! A script is what one connection sends. After it comes a second hello, which
//! the daemon answers by closing: a reader that comes to the end knows that all
//! frames were served. Scripts that found a fault stay in `corpus/frames`.

mod frames {
    pub mod make;
}

use frames::make::{self, PAIR_VM, Script};
use m3ipc::VmConfig;
use m3ipc_daemon::tables::{Node, Quota, Record};
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{MemberProcess, UserNode, until};
use m3ipc_wire::{FromDaemon, Request, VERSION, decode, encode};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The time that the daemon has to close what it no longer needs.
const CLOSE_LIMIT: Duration = Duration::from_secs(40);

/// A daemon with a pair that keeps the rules, and what the daemon held before the first script.
struct Target {
    node: UserNode,
    pair: MemberProcess,
    fds: usize,
    frames: usize,
}

impl Target {
    fn new(name: &str) -> Self {
        let node = UserNode::start(name, 0, false);
        node.node().vm_init(&VmConfig::new("pair").id(PAIR_VM)).expect("a VM");
        let mut pair = MemberProcess::start(0, "pair", &[node.path(), "pair"]);
        assert!(pair.line().starts_with("ready"));
        let mut target = Self { node, pair, fds: 0, frames: 0 };
        assert_eq!(target.pair.ask("10"), "ok 10");
        target.fds = target.fds_at_rest();
        target
    }

    /// The descriptors of the daemon, once it neither opens nor closes any.
    fn fds_at_rest(&self) -> usize {
        let (mut latest, mut equal) = (0, 0);
        until("the daemon is at rest", || {
            std::thread::sleep(Duration::from_millis(8));
            let now = self.node.daemon_fds();
            equal = if now == latest { equal + 1 } else { 0 };
            latest = now;
            equal == 20
        });
        latest
    }

    fn say(&mut self, script: &Script) {
        let Some(mut raw) = RawMember::connect(self.node.directory()) else {
            panic!("the daemon listens")
        };
        for frame in &script.frames {
            if make::may_be_said(frame) {
                self.frames += 1;
                let fds = [raw.as_fd()];
                let fds = if script.with_fds { &fds[..] } else { &[] };
                // Refused by the kernel where the socket takes no descriptors.
                let _ = raw.send_bytes(frame, fds);
            }
        }
        let hello = encode(&Request::Hello { version: VERSION });
        let _ = raw.send_bytes(&hello, &[]);
        let _ = raw.send_bytes(&hello, &[]);
        raw.read_to_end();
    }

    /// The daemon serves the pair. Returns how many descriptors it holds more or less than before.
    fn check(&mut self) -> usize {
        self.clean();
        let begun = Instant::now();
        while self.node.daemon_fds() != self.fds && begun.elapsed() < CLOSE_LIMIT {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.node.daemon_fds().abs_diff(self.fds)
    }

    /// Ends the VMs of the scripts. The daemon still serves the pair.
    fn clean(&mut self) {
        let mut node = self.node.node();
        for vm in node.vms().expect("its VMs") {
            if vm.id != PAIR_VM {
                let _ = node.vm_end(vm.id);
            }
        }
        drop(node);
        assert_eq!(self.pair.ask("3"), "ok 3", "the pair is served");
    }
}

#[test]
fn frames_of_any_bytes_harm_nobody() {
    let mut target = Target::new("frames");
    let kept = make::corpus();
    assert!(kept.len() >= 10, "the corpus is there");
    for (name, script) in &kept {
        target.say(script);
        assert_eq!(target.check(), 0, "descriptors leaked after {name}");
    }
    let (mut runner, scripts) = (TestRunner::deterministic(), make::scripts());
    let (mut said, mut leaked) = (0, 0);
    while target.frames < 20_000 && leaked == 0 {
        for _ in 0..200 {
            let script = scripts.new_tree(&mut runner).unwrap().current();
            target.say(&script);
            said += 1;
        }
        leaked += target.check();
    }
    println!(
        "T9 frames: {} frames in {said} scripts and {} kept ones, daemon alive, fds leaked \
         {leaked}",
        target.frames,
        kept.len()
    );
    assert_eq!(leaked, 0);
}

#[test]
fn a_planted_leak_is_noticed() {
    let mut target = Target::new("leak");
    let held = RawMember::greeted(target.node.directory()).unwrap();
    target.clean();
    // The connection of `clean` closes a moment later.
    until("one descriptor is too many", || target.node.daemon_fds() == target.fds + 1);
    assert_eq!(target.fds_at_rest(), target.fds + 1, "a connection that stays is noticed");
    drop(held);
    assert_eq!(target.check(), 0);
    println!("T9 frames: planted leak noticed 1/1");
}

#[test]
fn descriptors_are_not_taken() {
    let mut target = Target::new("sent");
    for number in 0..200 {
        let raw = RawMember::greeted(target.node.directory()).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let frame = encode(&Request::NodeInfo);
        let taken = raw.send_bytes(&frame, &[file.as_fd(), file.as_fd(), raw.as_fd()]);
        let mut raw = raw;
        // Either the kernel refuses to send them, or the daemon closes without taking them.
        assert!(!taken || raw.answer().is_none(), "descriptors were taken at {number}");
    }
    assert_eq!(target.check(), 0);
}

#[test]
fn parsers_take_any_bytes() {
    let mut runner = TestRunner::deterministic();
    let (any, requests) = (make::any_bytes().boxed(), make::mutated().boxed());
    let mut parsed = 0;
    for _ in 0..10_000 {
        for bytes in [&any, &requests] {
            let bytes = bytes.new_tree(&mut runner).unwrap().current();
            if let Ok(request) = decode::<Request>(&bytes) {
                assert_eq!(decode(&encode(&request)), Ok(request));
                parsed += 1;
            }
            let _ = decode::<FromDaemon>(&bytes);
            // The daemon replays or refuses a journal, and never trusts it.
            if let Ok(record) = decode::<Record>(&bytes) {
                let node = Record::clone(&first_record());
                let _ = Node::replay(&[node, record], Quota::default());
            }
        }
    }
    println!("T9 parsers: 20000 inputs, {parsed} were requests, panics 0");
    assert!(parsed > 100, "the generator makes requests too");
}

fn first_record() -> Record {
    Node::new(0, m3ipc_abi::NodeLimits::DEFAULT, Quota::default()).snapshot().remove(0)
}

#[test]
fn a_journal_of_any_bytes_is_no_harm() {
    let mut runner = TestRunner::deterministic();
    let any = make::any_bytes();
    for number in 0..8 {
        let directory =
            std::env::temp_dir().join(format!("m3-test-{}-journal-{number}", std::process::id()));
        let mut bytes = any.new_tree(&mut runner).unwrap().current();
        if number % 2 == 1 {
            // A sound beginning: title, length and sum fit, the rest may still be nonsense.
            let body = encode(&first_record());
            let sum = body.iter().fold(0x811c_9dc5_u32, |sum, byte| {
                (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
            });
            let length = u32::try_from(body.len()).unwrap();
            let namespaces = m3ipc_sys::Namespaces::own().0.map(u64::to_le_bytes);
            let title = [&b"m3ipc journal \x07\0"[..], namespaces.as_flattened()].concat();
            bytes = [&title[..], &length.to_le_bytes()[..], &sum.to_le_bytes(), &body[..], &bytes]
                .concat();
        }
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&directory)
            .unwrap();
        std::fs::write(directory.join("journal"), bytes).unwrap();
        // A killed daemon leaves its lock too.
        std::fs::write(directory.join("lock"), "").unwrap();
        let path = directory.to_str().unwrap();
        let _daemon =
            MemberProcess::start(0, "daemon", &["--runtime-dir", path, "--log-level", "error"]);
        let lives = || m3ipc::Node::find(&directory).is_ok();
        until(&format!("the daemon serves after journal {number}"), lives);
        m3ipc::Node::find(&directory).unwrap().end().unwrap();
        let _ = std::fs::remove_dir_all(&directory);
    }
}
