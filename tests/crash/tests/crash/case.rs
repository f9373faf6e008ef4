//! One case: its own VM, its own peers; and what must be true after it.

use m3ipc::{Node, Vm, VmConfig};
use m3ipc_crash::{CrashFixture, Peer};
use m3ipc_test_fixture::resources::{ProcessResources, left_in_directory, left_in_shm};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many cases passed, and what was wrong in the others.
#[derive(Debug, Default)]
pub struct Score {
    done: u32,
    passed: u32,
    hung: u32,
    pub doubled: u32,
    pub faults: Vec<String>,
}

impl Score {
    /// Runs one case. A fault is noted, and the next case runs all the same.
    pub fn attempt(&mut self, name: &str, case: impl FnOnce()) {
        if std::env::var("M3_CRASH_ONLY").is_ok_and(|only| !name.contains(&only)) {
            return;
        }
        self.done += 1;
        let begin = std::time::Instant::now();
        match catch_unwind(AssertUnwindSafe(case)) {
            Ok(()) => self.passed += 1,
            Err(cause) => {
                let text = cause.downcast_ref::<String>().cloned();
                let text =
                    text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let text = text.unwrap_or_default();
                self.hung +=
                    u32::from(text.contains("hangs") || text.contains("did not come true"));
                self.doubled += u32::from(text.contains("twice"));
                self.faults.push(format!("{name}: {text}"));
            }
        }
        eprintln!("   {name}: {} ms", begin.elapsed().as_millis());
    }

    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    pub fn line(&self) -> String {
        let lost = self.done - self.passed - self.hung - self.doubled;
        let Self { done, passed, hung, doubled, .. } = self;
        format!("T6 kill points: {passed}/{done}, lost {lost}, doubled {doubled}, hung {hung}")
    }
}

/// A VM for one case.
pub struct Case<'a> {
    pub fixture: &'a CrashFixture,
    pub vm: Vm,
    name: String,
}

impl Drop for Case<'_> {
    /// A failed case leaves nothing to the next one.
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(mut node) = Node::find(self.fixture.directory())
        {
            let _ = node.vm_end(self.vm.id());
        }
    }
}

impl<'a> Case<'a> {
    pub fn new(fixture: &'a CrashFixture, name: &str) -> Self {
        let vm = fixture.node().vm_init(&VmConfig::new(name)).expect("a VM for the case");
        Self::of(fixture, vm, name)
    }

    /// A case in a VM that is there.
    pub fn of(fixture: &'a CrashFixture, vm: Vm, name: &str) -> Self {
        Self { fixture, vm, name: name.to_owned() }
    }

    /// A peer in this VM.
    pub fn peer(&self, role: &str, arguments: &[&str]) -> Peer {
        self.fixture.peer(role, &self.with_vm(arguments))
    }

    /// A peer in this VM that stops itself at a pause point.
    pub fn paused(&self, pause: &str, role: &str, arguments: &[&str]) -> Peer {
        self.fixture.paused_peer(pause, role, &self.with_vm(arguments))
    }

    fn with_vm<'b>(&'b self, arguments: &[&'b str]) -> Vec<&'b str> {
        std::iter::once(self.name.as_str()).chain(arguments.iter().copied()).collect()
    }

    /// A peer that is notified when this endpoint is gone.
    pub fn watcher(&self, slot: &str, address: i32) -> Peer {
        let mut watcher = self.peer("watch", &[slot, &address.to_string()]);
        watcher.bound();
        watcher
    }

    /// Waits until the daemon knows nothing of these processes.
    pub fn until_gone(&self, pids: &[i32]) {
        self.fixture.until("the slots of the dead are free", || {
            self.fixture
                .endpoints(self.vm.id())
                .iter()
                .all(|endpoint| !pids.contains(&endpoint.pid))
        });
    }

    /// Waits until the endpoint of this process waits in a call.
    pub fn until_waiting(&self, pid: i32) {
        self.fixture.until("the peer waits", || {
            let endpoints = self.fixture.endpoints(self.vm.id());
            endpoints.iter().any(|endpoint| endpoint.pid == pid && endpoint.wait.state.waits())
        });
    }

    /// Checks that a fresh client of this server gets its answer.
    pub fn still_serves(&self, slot: &str, server: i32) {
        let mut client = self.peer("call", &[slot, &server.to_string(), "sendrec", "1"]);
        client.bound();
        client.go();
        client.expect("answer 2");
        client.expect("done");
        assert!(client.succeeded());
    }

    /// Ends the case, and checks that nothing is left of it.
    pub fn end(self, before: &ProcessResources) {
        let daemon = self.fixture.daemon_pid().expect("a daemon");
        self.fixture.node().vm_end(self.vm.id()).expect("the VM ends");
        let mut differences = Vec::new();
        let mut balanced = || {
            differences = before.differences(&ProcessResources::of(daemon));
            differences.is_empty()
        };
        for _ in 0..8_000 * m3ipc_test_fixture::stretch() {
            if balanced() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(differences.is_empty(), "the daemon keeps: {}", differences.join("; "));
        assert_eq!(left_in_shm(), [""; 0]);
        assert_eq!(left_in_directory(self.fixture.directory()), [""; 0]);
        let info = self.fixture.info();
        assert_eq!(
            (info.endpoints, info.links),
            (0, 0),
            "endpoints and links in the records of the daemon"
        );
    }
}

/// What the daemon holds after one VM was made and ended.
pub fn resources_at_rest(fixture: &CrashFixture) -> ProcessResources {
    let vm = fixture.node().vm_init(&VmConfig::new("warm")).expect("a VM");
    fixture.node().vm_end(vm.id()).expect("its end");
    let daemon = fixture.daemon_pid().expect("a daemon");
    // The connections of the calls above are closed a moment later.
    ProcessResources::at_rest(daemon, fixture.directory())
}

/// The number of links that a process has mapped.
pub fn links_of(peer: &Peer) -> usize {
    ProcessResources::of(peer.pid()).mapped("m3-link")
}
