//! What the cases share: a VM, peers in threads, and bytes that differ from place to place.

use m3ipc::{Address, Endpoint, Message, Slot, Source, Timeout, Vm, VmConfig};
pub use m3ipc_test_fixture::pattern;
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A node with one VM; the process of the test is bound at slot 1.
pub struct Fixture {
    pub me: Endpoint,
    pub vm: Vm,
    pub node_fixture: NodeFixture,
}

/// An endpoint in a thread of its own, which waits in a receive from slot 1.
pub struct Peer {
    pub address: Address,
    /// The address of its memory.
    pub at: u64,
    thread: JoinHandle<Vec<u8>>,
}

impl Fixture {
    pub fn new(granted: bool) -> Self {
        watchdog(120);
        let node_fixture = NodeFixture::new("copy");
        let vm = node_fixture.node().vm_init(&VmConfig::new("copy").copy_granted(granted)).unwrap();
        let me = vm.bind(1).unwrap();
        Self { me, vm, node_fixture }
    }

    /// A peer with this memory, which waits in a receive from slot 1.
    pub fn peer(&self, slot: Slot, memory: Vec<u8>) -> Peer {
        self.thread(slot, memory, |endpoint, _| {
            endpoint.receive(Address(1)).unwrap();
        })
    }

    /// A peer with this memory in an endpoint of its own, which does this.
    pub fn thread(
        &self,
        slot: Slot,
        mut memory: Vec<u8>,
        work: impl FnOnce(&mut Endpoint, &mut Vec<u8>) + Send + 'static,
    ) -> Peer {
        let vm = self.vm.clone();
        let (bound, is_bound) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut endpoint = vm.bind_thread(Some(slot)).unwrap();
            let at = memory.as_mut_ptr().expose_provenance() as u64;
            bound.send((endpoint.address(), at)).unwrap();
            work(&mut endpoint, &mut memory);
            memory
        });
        let (address, at) = is_bound.recv().unwrap();
        Peer { address, at, thread }
    }

    /// Waits until a peer sleeps in this call.
    pub fn until_blocked(&mut self, peer: &Peer, verb: &str) {
        self.until_slot_blocked(peer.address.slot(), verb);
    }

    /// Waits until the endpoint in this slot sleeps in this call.
    pub fn until_slot_blocked(&mut self, slot: Slot, verb: &str) {
        let mut node = self.node_fixture.node();
        loop {
            let found = node.endpoint(self.vm.id(), slot).unwrap();
            if found.is_some_and(|found| found.wait.state.name() == verb && found.wait.for_ns > 0) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until this slot is free.
    pub fn until_free(&mut self, slot: Slot) {
        let mut node = self.node_fixture.node();
        while node.endpoint(self.vm.id(), slot).unwrap().is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the receive of a peer, and returns its memory.
    pub fn end(&mut self, peer: Peer) -> Vec<u8> {
        self.me.send(peer.address, &Message::new(0)).unwrap();
        peer.thread.join().unwrap()
    }
}

impl Peer {
    /// Its memory, once it has ended by itself.
    pub fn join(self) -> Vec<u8> {
        self.thread.join().unwrap()
    }
}

/// Answers a request of any peer after `work`.
pub fn serve_once(me: &mut Endpoint, work: impl FnOnce(&mut Endpoint, &Message)) {
    let request = me.receive_timeout(Source::Any, Timeout::Never).unwrap();
    work(me, &request);
    me.reply(request.source, &Message::new(0)).unwrap();
}
