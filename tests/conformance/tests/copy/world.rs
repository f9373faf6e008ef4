//! What the cases share: a VM, parties in threads, and bytes that tell where they belong.

use m3ipc::{Address, Endpoint, Message, Slot, Source, Timeout, Vm, VmConfig};
pub use m3ipc_conformance::pattern;
use m3ipc_conformance::{Field, watchdog};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A node with one VM; the process of the test is bound at slot 1.
pub struct World {
    pub me: Endpoint,
    pub vm: Vm,
    pub field: Field,
}

/// An endpoint in a thread of its own, blocked in a receive from slot 1 until it is told to go.
pub struct Party {
    pub address: Address,
    /// Where its memory lies.
    pub at: u64,
    thread: JoinHandle<Vec<u8>>,
}

impl World {
    pub fn new(granted: bool) -> Self {
        watchdog(120);
        let field = Field::new("copy");
        let vm = field.node().vm_init(&VmConfig::new("copy").copy_granted(granted)).unwrap();
        let me = vm.bind(1).unwrap();
        Self { me, vm, field }
    }

    /// A party with this memory, which waits in a receive from slot 1.
    pub fn party(&self, slot: Slot, memory: Vec<u8>) -> Party {
        self.thread(slot, memory, |endpoint, _| {
            endpoint.receive(Address(1)).unwrap();
        })
    }

    /// A party with this memory in an endpoint of its own, which does this.
    pub fn thread(
        &self,
        slot: Slot,
        mut memory: Vec<u8>,
        work: impl FnOnce(&mut Endpoint, &mut Vec<u8>) + Send + 'static,
    ) -> Party {
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
        Party { address, at, thread }
    }

    /// Waits until a party sleeps in this call.
    pub fn until_blocked(&mut self, party: &Party, verb: &str) {
        self.until_slot_blocked(party.address.slot(), verb);
    }

    /// Waits until who lives in this slot sleeps in this call.
    pub fn until_slot_blocked(&mut self, slot: Slot, verb: &str) {
        let mut node = self.field.node();
        loop {
            let found = node.endpoint(self.vm.id(), slot).unwrap();
            if found.is_some_and(|found| found.wait.verb == verb && found.wait.for_ns > 0) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until nobody lives in this slot.
    pub fn until_free(&mut self, slot: Slot) {
        let mut node = self.field.node();
        while node.endpoint(self.vm.id(), slot).unwrap().is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets a party go, and gives back its memory.
    pub fn end(&mut self, party: Party) -> Vec<u8> {
        self.me.send(party.address, &Message::new(0)).unwrap();
        party.thread.join().unwrap()
    }
}

impl Party {
    /// Its memory, once it has ended by itself.
    pub fn join(self) -> Vec<u8> {
        self.thread.join().unwrap()
    }
}

/// A request from anybody, answered after `work`.
pub fn serve_once(me: &mut Endpoint, work: impl FnOnce(&mut Endpoint, &Message)) {
    let request = me.receive_timeout(Source::Any, Timeout::Never).unwrap();
    work(me, &request);
    me.reply(request.source, &Message::new(0)).unwrap();
}
