//! The node of a run, and a VM of it for each measurement.
//!
//! A guard process starts the node and ends it after the supervisor.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use m3ipc::{Address, Endpoint, Node, NodeParams, Timeout, Vm, VmConfig, WaitStrategy};
use m3ipc_report::schema::Wait;

use crate::error::Error;
use crate::guard::Guard;
use crate::subject::{Cleanup, Inherited, Site};
use crate::unique;

/// The subject whose guard keeps the node.
pub const OWNER: &str = "m3ipc";
/// Process slots of a VM beside its clients: servers, endpoints of a mesh, and some room.
const PROCS: u32 = 1_000;
/// The most process slots of a VM.
const MOST_PROCS: i32 = 12_000;
/// VMs of a node.
const VMS: i32 = 1_024;

/// The node of this run, started by the first measurement that needs it.
static NODE: Mutex<Option<(Guard, PathBuf)>> = Mutex::new(None);

/// The runtime directory of this run's node.
pub fn directory(site: &Site) -> Result<PathBuf, Error> {
    let mut node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, directory)) = &*node {
        return Ok(directory.clone());
    }
    let directory = std::env::temp_dir().join(format!("m3-bench-{}", std::process::id()));
    let names = vec![directory.to_string_lossy().into_owned()];
    let environment = [("M3_RUNTIME_DIR".into(), directory.clone().into())];
    let guard = Guard::start(site, OWNER, names, &environment)?;
    *node = Some((guard, directory.clone()));
    Ok(directory)
}

/// Ends the node of this run, if there is one; returns after the end of its daemon.
pub fn end() {
    drop(NODE.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Starts the node in the guard process; the result ends it.
pub fn guard(names: &[String]) -> Result<Cleanup, Error> {
    let params = NodeParams { procs: Some(MOST_PROCS), vms: Some(VMS), ..NodeParams::default() };
    let node = Node::init(&params).map_err(|error| Error::Unavailable {
        why: format!("no node can be started: {error}"),
        next: "build the node daemon (cargo build --release -p m3ipc-daemon), or name it with \
               M3_DAEMON",
    })?;
    let directory: PathBuf = names.iter().collect();
    Ok(Box::new(move || {
        node.end().map_err(Error::of("end the node"))?;
        // The daemon answers before it ends. It removes its directory last.
        while directory.exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(())
    }))
}

/// A VM for one measurement, which ends with it.
pub struct BenchVm {
    node: Node,
    vm: Vm,
    directory: PathBuf,
}

impl BenchVm {
    /// A VM in the node of this run.
    pub fn open(site: &Site) -> Result<Self, Error> {
        Self::with_room(site, 0)
    }

    /// The same with room for so many clients.
    pub fn with_room(site: &Site, clients: u32) -> Result<Self, Error> {
        let directory = directory(site)?;
        let mut node = Node::find(&directory).map_err(Error::of("reach the node of this run"))?;
        let name = format!("bench-{}", unique::number());
        let procs = i32::try_from(PROCS + clients).unwrap_or(MOST_PROCS).min(MOST_PROCS);
        let config = VmConfig::new(&name).procs(procs).grace_ms(0);
        let vm = node.vm_init(&config).map_err(Error::of("make a VM"))?;
        Ok(Self { node, vm, directory })
    }

    /// The names for a process that is, or looks for, a server of this name.
    pub fn inherited(&self, server: &str) -> Inherited {
        let directory = self.directory.to_string_lossy().into_owned();
        Inherited::names(vec![directory, self.vm.id().to_string(), server.into()])
    }

    /// The runtime directory and the id of the VM.
    pub fn id(&self) -> (&Path, i32) {
        (&self.directory, self.vm.id())
    }
}

impl Drop for BenchVm {
    fn drop(&mut self) {
        // Its members have ended before. On failure the end of the node ends it, too.
        let _ = self.node.vm_end(self.vm.id());
    }
}

/// The VM of a measured process, and the name of the server in it.
pub struct VmPeer {
    /// The runtime directory.
    pub directory: PathBuf,
    /// The VM.
    pub vm: Vm,
    /// The server's name.
    pub server: String,
}

impl VmPeer {
    /// The VM that the names describe.
    pub fn new(inherited: &Inherited) -> Result<Self, Error> {
        let [directory, vm, server] = inherited.names.as_slice() else {
            return Err(Error::Usage("a peer of m3ipc gets directory, VM and server".into()));
        };
        let id = vm.parse().map_err(|_| Error::Usage(format!("{vm:?} is no VM id")))?;
        let node = Node::find(directory.as_ref());
        let mut node = node.map_err(Error::of("reach the node of this run"))?;
        let vm = node.vm(id).map_err(Error::of("find the VM"))?;
        Ok(Self { directory: directory.into(), vm, server: server.clone() })
    }

    /// An endpoint of this process.
    pub fn bind(&self) -> Result<Endpoint, Error> {
        let mut endpoint = self.vm.bind_any().map_err(Error::of("bind"))?;
        // Some cells have payloads of any size.
        endpoint.set_receive_limit(m3ipc::LARGE_MAX_BYTES);
        Ok(endpoint)
    }

    /// An endpoint that waits so.
    pub fn bind_with(&self, wait: Wait) -> Result<Endpoint, Error> {
        let mut endpoint = self.bind()?;
        endpoint.set_strategy(strategy(wait));
        Ok(endpoint)
    }

    /// Gives an endpoint the server's name.
    pub fn attach_name(&self, endpoint: &mut Endpoint) -> Result<(), Error> {
        endpoint.name_attach(&self.server).map_err(Error::of("take the server's name"))
    }

    /// The server's address; waits for its name.
    pub fn find_server(&self, endpoint: &mut Endpoint) -> Result<Address, Error> {
        endpoint.wait_name(&self.server, Timeout::Never).map_err(Error::of("wait for the server"))
    }
}

const fn strategy(wait: Wait) -> WaitStrategy {
    match wait {
        Wait::Spin => WaitStrategy::Spin,
        Wait::Block => WaitStrategy::Block,
        Wait::Adaptive | Wait::Yield => WaitStrategy::Adaptive,
    }
}
