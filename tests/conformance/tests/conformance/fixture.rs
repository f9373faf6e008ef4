//! What the cases share: a node and a VM of their own, partners in threads and processes.

use m3ipc::{Address, Endpoint, Node, Slot, Vm, VmConfig};
use m3ipc_test_fixture::{NodeFixture, program, watchdog};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// The limit of calls that should end by their limit.
pub const SHORT: Duration = Duration::from_millis(20);

/// The limit of calls that end before it: a first contact waits for the daemon, which may be slow.
pub const LONG: Duration = Duration::from_secs(20);

/// A node with one VM; the process of the test is bound at slot 1.
pub struct Fixture {
    pub me: Endpoint,
    pub vm: Vm,
    pub node: Node,
    pub node_fixture: NodeFixture,
}

impl Fixture {
    pub fn new() -> Self {
        watchdog(120);
        let node_fixture = NodeFixture::new("conformance");
        let mut node = node_fixture.node();
        let vm = node.vm_init(&VmConfig::new("fixture").procs(64).tasks(4).grace_ms(200)).unwrap();
        let me = vm.bind(1).unwrap();
        Self { me, vm, node, node_fixture }
    }

    /// An endpoint in a thread of its own, which does this work and ends.
    pub fn thread<T: Send + 'static>(
        &self,
        slot: Slot,
        work: impl FnOnce(&mut Endpoint) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let vm = self.vm.clone();
        let (bound, is_bound) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut endpoint = vm.bind_thread(Some(slot)).unwrap();
            bound.send(()).unwrap();
            work(&mut endpoint)
        });
        is_bound.recv().unwrap();
        thread
    }

    /// A process that takes these steps, bound at this slot; `-` is not bound.
    pub fn process(&self, slot: &str, steps: &[&str]) -> Peer {
        let mut command = Command::new(program("m3-tests-partner"));
        command.arg(self.node_fixture.directory()).arg(self.vm.name()).arg(slot).args(steps);
        command.env("M3_RUNTIME_DIR", self.node_fixture.directory());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Peer { child, output }
    }

    /// A process that is bound at this slot, and its address.
    pub fn bound(&self, slot: Slot, steps: &[&str]) -> (Peer, Address) {
        let mut peer = self.process(&slot.to_string(), steps);
        let line = peer.line();
        let address = line.strip_prefix("bound ").unwrap().parse().unwrap();
        (peer, Address(address))
    }

    /// Waits until the endpoint in this slot sleeps in this call.
    pub fn until_blocked(&mut self, slot: Slot, verb: &str) {
        loop {
            let found = self.node.endpoint(self.vm.id(), slot).unwrap();
            if found.is_some_and(|found| found.wait.verb == verb && found.wait.for_ns > 0) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until this slot is free.
    pub fn until_free(&mut self, slot: Slot) {
        while self.node.endpoint(self.vm.id(), slot).unwrap().is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The address of a slot whose holder has died.
    pub fn dead(&mut self, slot: Slot) -> Address {
        let address = self.thread(slot, |endpoint| endpoint.address()).join().unwrap();
        self.until_free(slot);
        address
    }
}

/// Another process.
pub struct Peer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The next line of its output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The code or number in the next line.
    pub fn code(&mut self) -> i32 {
        self.line().parse().unwrap()
    }

    /// Sends signals until one ends a blocked call; the code of that call.
    pub fn interrupted(&mut self) -> i32 {
        let (pid, done) = (self.pid(), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    m3ipc_test_fixture::signals::send(pid, pid);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let code = self.code();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            code
        })
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends its input, and waits until it leaves.
    pub fn leave(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }

    /// The signal that ended it.
    pub fn died_of(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.child.wait().unwrap().signal()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
