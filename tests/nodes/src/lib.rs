//! Nodes on one machine for one test: `alpha` and `beta`, one VM, two proxies over TLS. [`Three`]
//! has a third node, and cables that a test can cut.
//!
//! | node | slots |
//! |---|---|
//! | alpha | -35 to 9, 29 to 99 |
//! | beta | 10 to 28, 100 to 199 |

pub mod blocks;
mod flow;
mod relay;
pub mod servers;
mod spaces;
mod three;

pub use flow::{Account, Flow};
pub use relay::Relay;
pub use spaces::Spaces;
pub use three::Three;

use m3ipc::{Address, Endpoint, Vm, VmConfig};
use m3ipc_proxy::{NodeName, keys};
use m3ipc_test_fixture::{NodeFixture, program, until, unused_directory};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The id of the VM on both nodes.
pub const VM: i32 = 3;

/// The time that a process may be silent. After it, the test counts the process as hung.
const SILENCE: Duration = Duration::from_secs(90);

/// A process that dies with the test. Its output is read all the time, so a process that nobody
/// asks for its lines never waits for room in the pipe.
#[derive(Debug)]
pub struct Process(Child, Mutex<Receiver<String>>);

impl Process {
    /// Starts `m3-tests-nodes` with these words.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(words: &[&str]) -> Self {
        Self::start_by(&[], words)
    }

    /// The same through a program such as nsenter(1), which becomes `m3-tests-nodes`.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_by(starter: &[&str], words: &[&str]) -> Self {
        Self::start_at(starter, words, None)
    }

    /// The same; the program stops at this pause point.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_at(starter: &[&str], words: &[&str], pause: Option<&str>) -> Self {
        let own = program("m3-tests-nodes");
        let mut command = match starter {
            [] => Command::new(own),
            [first, more @ ..] => {
                let mut command = Command::new(first);
                command.args(more).arg(own);
                command
            }
        };
        // A proxy starts a daemon if none runs.
        command.env("M3_DAEMON", program("m3-tests-daemon"));
        command.env("M3_TESTS_OWNER", std::process::id().to_string());
        command.envs(pause.map(|point| ("M3_PAUSE", point)));
        let command = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let output = child.stdout.take().expect("piped above");
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let line = line.expect("the output is text");
                if tell.send(line.trim().to_owned()).is_err() {
                    return;
                }
            }
        });
        Self(child, Mutex::new(lines))
    }

    /// Its next line; an empty one if it has ended.
    ///
    /// # Panics
    /// If it is silent.
    pub fn line(&mut self) -> String {
        match self
            .1
            .get_mut()
            .expect("no reader panics")
            .recv_timeout(SILENCE * m3ipc_test_fixture::stretch())
        {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => String::new(),
            Err(RecvTimeoutError::Timeout) => panic!("process {} says nothing", self.pid()),
        }
    }

    /// Gives it a line: one that waits for it goes on.
    ///
    /// # Panics
    /// If it has ended.
    pub fn go_on(&mut self) {
        let input = self.0.stdin.as_mut().expect("piped");
        input.write_all(b"\n").expect("it lives");
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Kills it, and reads the lines that are left.
    pub fn rest(&mut self) -> Vec<String> {
        self.kill();
        self.1.get_mut().expect("no reader panics").iter().collect()
    }

    /// Sends it a signal, such as STOP.
    ///
    /// # Panics
    /// If it has ended.
    pub fn signal(&self, name: &str) {
        let words = [format!("-{name}"), self.pid().to_string()];
        let sent = Command::new("kill").args(words).status().expect("every system has it");
        assert!(sent.success(), "the process lives");
    }

    /// Its open descriptors.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One node: its daemon, its VM, its proxy.
#[derive(Debug)]
pub struct OneNode {
    /// The daemon.
    pub fixture: NodeFixture,
    /// The VM.
    pub vm: Vm,
    /// The proxy.
    pub proxy: Process,
    config: PathBuf,
    /// A process whose network namespace is that of the proxy.
    space: Option<u32>,
    /// The process is bound here as long as this endpoint lives.
    anchor: Mutex<Option<Endpoint>>,
}

impl OneNode {
    fn new(directory: &Path, name: &str, space: Option<u32>) -> Self {
        Self::with(directory, name, space, "\"nodes.toml\"", &VmConfig::new("shop").id(VM))
    }

    /// A node of the directory with a VM of its own.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn with_vm(directory: &Directory, name: &str, vm: &VmConfig) -> Self {
        Self::with(directory.path(), name, None, "\"nodes.toml\"", vm)
    }

    /// A node with this value of `registry` in its configuration.
    fn with(
        directory: &Path,
        name: &str,
        space: Option<u32>,
        registry: &str,
        vm: &VmConfig,
    ) -> Self {
        let fixture = NodeFixture::new(name);
        let config = directory.join(format!("{name}.toml"));
        let text = format!(
            "node = \"{name}\"\nregistry = {registry}\nkeys = \"keys\"\nruntime_dir = {:?}\n",
            fixture.directory()
        );
        std::fs::write(&config, text).expect("a test may write there");
        let vm = fixture.node().vm_init(vm).expect("a fresh VM");
        let proxy = start_proxy(&config, space, None);
        Self { fixture, vm, proxy, config, space, anchor: Mutex::new(None) }
    }

    /// Starts the proxy again, after a kill.
    pub fn restart_proxy(&mut self) {
        self.proxy.kill();
        self.proxy = start_proxy(&self.config, self.space, None);
    }

    /// The same with a proxy that stops at a pause point. In its sandbox it could not stop itself.
    ///
    /// # Panics
    /// If its configuration cannot be changed.
    pub fn restart_proxy_at(&mut self, point: &str) {
        self.proxy.kill();
        let text = std::fs::read_to_string(&self.config).expect("it was written");
        let text = text + "sandbox = \"off\"\n";
        std::fs::write(&self.config, text).expect("a test may write there");
        self.proxy = start_proxy(&self.config, self.space, Some(point));
    }

    /// Starts an ordinary program of this node, and waits until it is bound.
    ///
    /// # Panics
    /// If it is not.
    #[must_use]
    pub fn program(&self, role: &str, slot: i32) -> Process {
        let directory = self.fixture.directory().to_str().expect("a text");
        let mut process = Process::start(&[role, directory, "shop", &slot.to_string()]);
        assert_eq!(process.line(), "bound");
        process
    }

    /// Binds an endpoint of the test itself, beside others that it may have here.
    ///
    /// # Panics
    /// If the slot is taken.
    #[must_use]
    pub fn bind(&self, slot: i32) -> Endpoint {
        let mut anchor = self.anchor.lock().expect("no test panics here");
        anchor.get_or_insert_with(|| {
            self.await_proxy();
            self.vm.bind_any().expect("a free slot")
        });
        self.vm.bind_additional(Some(slot)).expect("the slot is free")
    }

    /// Waits until the proxy has registered. Before that, any free slot may be one of another node,
    /// and a program there makes the registration fail.
    pub fn await_proxy(&self) {
        let lives = self.config.with_extension("lives");
        until("the proxy has counted its start", || lives.exists());
    }

    /// Whether a program of this node can call the endpoint.
    #[must_use]
    pub fn knows(&self, address: Address) -> bool {
        let listed = self.fixture.node().endpoints(VM);
        listed.is_ok_and(|all| all.iter().any(|endpoint| endpoint.address == address.0))
    }

    /// Waits until a program of this node can call the endpoint at a slot, and tells its address:
    /// that of a user slot has a generation.
    #[must_use]
    pub fn await_slot(&self, slot: i32) -> Address {
        let mut found = None;
        until("the endpoint is known here", || {
            let listed = self.fixture.node().endpoints(VM).unwrap_or_default();
            let mut addresses = listed.iter().map(|endpoint| Address(endpoint.address));
            found = addresses.rfind(|it| it.slot() == slot);
            found.is_some()
        });
        found.expect("it was found just now")
    }

    /// Waits until the endpoint at a slot of this node sleeps in a call, as `m3 ps` names it.
    pub fn await_call(&self, slot: i32, call: &str) {
        until("the endpoint sleeps in its call", || {
            let listed = self.fixture.node().endpoints(VM).unwrap_or_default();
            listed
                .iter()
                .any(|endpoint| endpoint.slot == slot && endpoint.wait.state.name() == call)
        });
    }

    /// Waits until a program of this node can call the endpoint.
    pub fn await_endpoint(&self, address: Address) {
        until("the endpoint is known here", || self.knows(address));
    }
}

fn start_proxy(config: &Path, space: Option<u32>, pause: Option<&str>) -> Process {
    let words = ["proxy", config.to_str().expect("a text")];
    match space {
        None => Process::start_at(&[], &words, pause),
        Some(holder) => {
            let enter = ["nsenter", "--target", &holder.to_string(), "--net"];
            Process::start_at(&enter, &words, pause)
        }
    }
}

/// Two nodes.
#[derive(Debug)]
pub struct Cluster {
    /// The node of the clients.
    pub alpha: OneNode,
    /// The node of the servers.
    pub beta: OneNode,
    directory: Directory,
}

impl Cluster {
    /// Starts two nodes.
    ///
    /// # Panics
    /// If one of them does not start.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::with(Directory::new(name), |_node| "\"nodes.toml\"".to_owned())
    }

    /// Starts two nodes in a prepared directory. `registry` gives the value of that name in the
    /// configuration of a node.
    ///
    /// # Panics
    /// If one of them does not start.
    #[must_use]
    pub fn with(directory: Directory, registry: impl Fn(&str) -> String) -> Self {
        let vm = VmConfig::new("shop").id(VM);
        let [alpha, beta] = ["alpha", "beta"]
            .map(|name| OneNode::with(directory.path(), name, None, &registry(name), &vm));
        Self { alpha, beta, directory }
    }

    /// The directory of the configuration.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// The directory of two nodes: their keys and the registry. It goes with this value.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Makes it.
    ///
    /// # Panics
    /// If the test may not write.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let slots = "{ alpha = [[-35, 9], [29, 99]], beta = [[10, 28], [100, 199]] }";
        Self::with_vms(name, &[(VM, "shop", slots)])
    }

    /// The same with these VMs: id, name, and the slots of each node.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub fn with_vms(name: &str, vms: &[(i32, &str, &str)]) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let directory = unused_directory(&format!("nodes-{serial}-{name}"));
        let names = ["alpha", "beta"].map(|name| NodeName::new(name).expect("a name"));
        keys::make(&directory.join("keys"), &names).expect("keys can be made");
        let [a, b] = free_ports();
        let mut registry = format!(
            "cluster = \"test\"\n\
             [[node]]\nid = 1\nname = \"alpha\"\naddress = \"127.0.0.1:{a}\"\n\
             [[node]]\nid = 2\nname = \"beta\"\naddress = \"127.0.0.1:{b}\"\n"
        );
        for (id, name, slots) in vms {
            let entry = format!("[[vm]]\nid = {id}\nname = \"{name}\"\nslots = {slots}\n");
            registry.push_str(&entry);
        }
        std::fs::write(directory.join("nodes.toml"), registry).expect("a test may write there");
        Self(directory)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ports of loopback that nobody has.
///
/// They lie below those that the kernel gives to connections of other programs, so none of these
/// takes one before the program that will listen there.
///
/// # Panics
/// Where all of them are in use.
#[must_use]
pub fn free_ports<const N: usize>() -> [u16; N] {
    let mut candidates = std::iter::repeat_with(|| fastrand::u16(10_000..32_000)).take(10_000);
    let mut listener = || candidates.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let listeners = [(); N].map(|()| listener().expect("a free port"));
    listeners.map(|it| it.local_addr().expect("it listens").port())
}
