//! What the cases share: a node and a VM of their own, partners in threads and processes.

pub use crate::peer::Peer;
use m3ipc::{Address, Code, Delivered, Endpoint, Message, Node, Slot, Vm, VmConfig};
use m3ipc_test_fixture::{NodeFixture, watchdog};
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
    /// The code of a reply that its client does not get.
    pub fn reply_code(&mut self, client: Address) -> Code {
        let replied = self.me.reply(client, &Message::new(0));
        replied.and_then(Delivered::into_result).expect_err("no client waits").code()
    }

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
        Peer::start(self.node_fixture.directory(), self.vm.name(), slot, steps)
    }

    /// A process that is bound at this slot, and its address.
    pub fn bound(&self, slot: Slot, steps: &[&str]) -> (Peer, Address) {
        let mut peer = self.process(&slot.to_string(), steps);
        let address = peer.bound_at();
        (peer, address)
    }

    /// Waits until the endpoint in this slot sleeps in this call.
    pub fn until_blocked(&mut self, slot: Slot, verb: &str) {
        loop {
            let found = self.node.endpoint(self.vm.id(), slot).unwrap();
            if found.is_some_and(|found| found.wait.state.name() == verb && found.wait.for_ns > 0) {
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
