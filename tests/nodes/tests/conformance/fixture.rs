//! The fixture of the cases with two nodes: the process of the test on alpha, partners on beta.
//!
//! | slots | node |
//! |---|---|
//! | below 2, with slot 1 of the test itself | alpha |
//! | all others | beta, or those of one parity: see [`Placement`] |

pub use crate::peer::Peer;
use crate::placement::{self, Placement};
use m3ipc::{Address, Code, Delivered, Endpoint, Message, Node, Slot, Vm, VmConfig};
use m3ipc_test_fixture::{NodeFixture, until, watchdog};
use m3ipc_test_nodes::{Directory, OneNode, Process};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

/// The limit of calls that should end by their limit.
pub const SHORT: Duration = Duration::from_millis(20);

/// The limit of calls that end before it.
pub const LONG: Duration = Duration::from_secs(20);

/// An endpoint of alpha that echoes; see [`Nodes::settle`].
const ECHO: Slot = 0;

/// The directories of all fixtures.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes what a case that does not end would leave.
pub fn remove_directories() {
    for directory in DIRECTORIES.lock().unwrap().drain(..) {
        let _ = std::fs::remove_dir_all(directory);
    }
}

/// Two nodes with one VM; the process of the test is bound at slot 1 of alpha.
pub struct Fixture {
    pub me: Endpoint,
    pub vm: Vm,
    pub node: Node,
    pub node_fixture: Nodes,
}

/// Both nodes. It is used as the fixture of alpha.
pub struct Nodes {
    placement: Placement,
    /// The VM in which both nodes are ready.
    ready: RefCell<Option<Ready>>,
    alpha: OneNode,
    beta: OneNode,
    _directory: Directory,
}

/// The process of the test is bound on beta too, in the VM of the case.
struct Ready {
    vm: Vm,
    anchor: Endpoint,
    _echo: Process,
}

impl Deref for Nodes {
    type Target = NodeFixture;

    fn deref(&self) -> &NodeFixture {
        &self.alpha.fixture
    }
}

impl DerefMut for Nodes {
    fn deref_mut(&mut self) -> &mut NodeFixture {
        &mut self.alpha.fixture
    }
}

fn config(name: &str) -> VmConfig {
    let granted = name == "granted";
    VmConfig::new(name).procs(64).tasks(4).grace_ms(200).copy_granted(granted)
}

impl Fixture {
    /// The code of a reply that its client does not get.
    pub fn reply_code(&mut self, client: Address) -> Code {
        let replied = self.me.reply(client, &Message::new(0));
        replied.and_then(Delivered::into_result).expect_err("no client waits").code()
    }

    pub fn new() -> Self {
        watchdog(120);
        let placement = placement::current();
        let slots = placement.slots();
        let vms = [(0, "fixture", &*slots), (1, "granted", &*slots)];
        let directory = Directory::with_vms("conformance", &vms);
        let [alpha, beta] = ["alpha", "beta"]
            .map(|name| OneNode::with_vm(&directory, name, &config("fixture").id(0)));
        let all = [directory.path(), alpha.fixture.directory(), beta.fixture.directory()];
        DIRECTORIES.lock().unwrap().extend(all.map(Path::to_owned));
        let (node, vm) = (alpha.fixture.node(), alpha.vm.clone());
        alpha.await_proxy();
        let me = vm.bind(1).unwrap();
        let ready = RefCell::new(None);
        let node_fixture = Nodes { placement, ready, alpha, beta, _directory: directory };
        node_fixture.prepare(&vm);
        Self { me, vm, node, node_fixture }
    }

    /// An endpoint in a thread of its own, which does this work and ends.
    pub fn thread<T: Send + 'static>(
        &self,
        slot: Slot,
        work: impl FnOnce(&mut Endpoint) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let vm = self.node_fixture.vm_of(slot, &self.vm);
        let (bound, is_bound) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut endpoint = vm.bind_thread(Some(slot)).unwrap();
            bound.send(endpoint.address()).unwrap();
            gone.recv().unwrap();
            work(&mut endpoint)
        });
        self.node_fixture.await_known(&self.vm, is_bound.recv().unwrap());
        go.send(()).unwrap();
        thread
    }

    /// A process that takes these steps, bound at this slot of its node; `-` is not bound.
    pub fn process(&self, slot: &str, steps: &[&str]) -> Peer {
        let node = slot.parse().map_or(&self.node_fixture.alpha, |slot| {
            self.node_fixture.prepare(&self.vm);
            self.node_fixture.owner(slot)
        });
        Peer::start(node.fixture.directory(), self.vm.name(), slot, steps)
    }

    /// A process that is bound at this slot, and its address.
    pub fn bound(&self, slot: Slot, steps: &[&str]) -> (Peer, Address) {
        let mut peer = self.process(&slot.to_string(), steps);
        let address = peer.bound_at();
        self.node_fixture.await_known(&self.vm, address);
        (peer, address)
    }

    /// Waits until the endpoint in this slot sleeps in this call, and nothing is under way.
    pub fn until_blocked(&mut self, slot: Slot, verb: &str) {
        let mut node = self.node_fixture.owner(slot).fixture.node();
        until(&format!("slot {slot} is blocked in {verb}"), || {
            let found = node.endpoint(self.vm.id(), slot).unwrap();
            found.is_some_and(|found| found.wait.state.name() == verb && found.wait.for_ns > 0)
        });
        self.node_fixture.settle();
    }

    /// Waits until this slot is free on both nodes.
    pub fn until_free(&mut self, slot: Slot) {
        for mut node in self.node_fixture.both().map(|one| one.fixture.node()) {
            until(&format!("slot {slot} is free"), || {
                node.endpoint(self.vm.id(), slot).unwrap().is_none()
            });
        }
    }

    /// The address of a slot whose holder has died.
    pub fn dead(&mut self, slot: Slot) -> Address {
        let address = self.thread(slot, |endpoint| endpoint.address()).join().unwrap();
        self.until_free(slot);
        address
    }
}

impl Nodes {
    fn both(&self) -> [&OneNode; 2] {
        [&self.alpha, &self.beta]
    }

    /// The node of a slot that a case uses.
    fn owner(&self, slot: Slot) -> &OneNode {
        placement::note(slot);
        self.node_of(slot)
    }

    fn node_of(&self, slot: Slot) -> &OneNode {
        if self.placement.is_far(slot) { &self.beta } else { &self.alpha }
    }

    /// The VM of a case, on the node of a slot.
    fn vm_of(&self, slot: Slot, vm: &Vm) -> Vm {
        self.prepare(vm);
        if !self.placement.is_far(slot) {
            placement::note(slot);
            return vm.clone();
        }
        self.owner(slot).fixture.node().vm_named(vm.name()).unwrap()
    }

    /// Waits until both nodes know an endpoint, or it has ended.
    fn await_known(&self, vm: &Vm, address: Address) {
        let knows = |one: &OneNode| {
            let found = one.fixture.node().endpoint(vm.id(), address.slot()).unwrap();
            found.is_some_and(|found| found.address == address.0)
        };
        let owner = self.node_of(address.slot());
        until(&format!("{address} is known"), || {
            let lives = knows(owner);
            self.both().into_iter().all(knows) || !lives
        });
    }

    /// Makes both nodes ready for endpoints of this VM.
    fn prepare(&self, vm: &Vm) {
        let mut ready = self.ready.borrow_mut();
        if ready.as_ref().is_some_and(|ready| ready.vm.id() == vm.id()) {
            return;
        }
        // A process is in one VM of a node at a time.
        *ready = None;
        let mut beta = self.beta.fixture.node();
        let there = beta.vm_named(vm.name());
        let there = there.unwrap_or_else(|_| beta.vm_init(&config(vm.name()).id(vm.id())).unwrap());
        self.beta.await_proxy();
        let anchor = there.bind(self.placement.anchor()).unwrap();
        let directory = self.alpha.fixture.directory().to_str().unwrap();
        let mut echo = Process::start(&["echo", directory, vm.name(), &ECHO.to_string()]);
        assert_eq!(echo.line(), "bound");
        self.await_known(vm, anchor.address());
        self.await_known(vm, Address(ECHO));
        if self.alpha.fixture.node().endpoint(vm.id(), 1).unwrap().is_some() {
            self.await_known(vm, Address(1));
        }
        *ready = Some(Ready { vm: vm.clone(), anchor, _echo: echo });
    }

    /// Waits until all that was sent before has arrived: it goes the same way, and first.
    fn settle(&self) {
        if let Some(ready) = &mut *self.ready.borrow_mut() {
            for _ in 0..2 {
                let _ = ready.anchor.sendrec_timeout(Address(ECHO), &Message::new(0), LONG);
            }
        }
    }
}
