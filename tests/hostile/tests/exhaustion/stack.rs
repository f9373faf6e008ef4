//! A short stack of the daemon, and a chain of endpoints that each await the end of the one before.

use m3ipc::{Node, VmConfig};
use m3ipc_sys::Signal;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{program, until, watchdog};
use m3ipc_wire::{AwaitedEvent, BindKind, Reply, Request};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The number of endpoints in the chain.
const ENDPOINTS: u64 = 180;
/// The stack of the daemon, in KB.
const STACK: u32 = 256;

/// A daemon with a short stack.
struct Short {
    directory: PathBuf,
    daemon: Child,
}

impl Short {
    fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("m3-test-{}-stack", std::process::id()));
        let script = format!("ulimit -s {STACK} && exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(program("m3-tests-daemon"));
        command.arg("--runtime-dir").arg(&directory).args(["--log-level", "error"]);
        let daemon = command.spawn().expect("the daemon starts");
        until("the daemon answers", || Node::find(&directory).is_ok());
        Self { directory, daemon }
    }

    fn signal(&self, signal: Signal) {
        let daemon = m3ipc_sys::open_process(self.daemon.id().cast_signed()).expect("it lives");
        m3ipc_sys::signal(&daemon, signal).expect("a child of this process");
    }
}

impl Drop for Short {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Binds an additional endpoint of this process; its connection and its address.
fn bind_additional(directory: &Path, vm: i32, nonce: u64) -> (RawMember, i32) {
    let mut raw = RawMember::greeted(directory).expect("a greeting");
    let bind = Request::Bind { vm, slot: None, kind: BindKind::Additional, nonce };
    let Some((Reply::Bound { address, .. }, _)) = raw.request(&bind) else { panic!("no endpoint") };
    assert!(matches!(raw.request(&Request::Mapped), Some((Reply::Done, _))));
    (raw, address)
}

#[test]
fn a_chain_of_dead_endpoints_needs_no_stack() {
    watchdog(120);
    let mut short = Short::new();
    let mut node = Node::find(&short.directory).expect("the daemon");
    let vm = node.vm_init(&VmConfig::new("chain")).expect("a VM").id();
    let mut own = RawMember::greeted(&short.directory).expect("a greeting");
    let _pages = own.bind(vm, None).expect("a bind");
    let mut chain: Vec<(RawMember, i32)> = Vec::new();
    for nonce in 2..ENDPOINTS + 2 {
        let (mut raw, address) = bind_additional(&short.directory, vm, nonce);
        if let Some((_, before)) = chain.last() {
            let wait = Request::Await(AwaitedEvent::Unbind(*before));
            assert!(matches!(raw.request(&wait), Some((Reply::Wait(_), _))));
        }
        chain.push((raw, address));
    }
    // The daemon sees all ends at once, and finds each next member gone when it sends.
    short.signal(Signal::STOP);
    drop(chain);
    short.signal(Signal::CONT);
    until("all endpoints but one are gone", || {
        assert_eq!(short.daemon.try_wait().expect("a child"), None, "the daemon lives");
        node.endpoints(vm).is_ok_and(|endpoints| endpoints.len() == 1)
    });
    println!("T14 stack: a chain of {ENDPOINTS} dead endpoints, daemon with {STACK} KB of stack");
}
