//! The node and the VM of the services, as the supervisor sees them.

use crate::spec::{Config, Program, ReadyBy};
use m3ipc::{
    Address, BindError, Endpoint, EndpointInfo, ForeignVm, NameError, Node, NodeError, Vm,
    VmConfig, VmLife,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long slot and name of a killed supervisor may still be taken.
const TAKEN_LIMIT: Duration = Duration::from_secs(3);
const TAKEN_PAUSE: Duration = Duration::from_millis(5);

/// A connection to the node, which outlives the daemon.
pub(super) struct NodeSession {
    node: Node,
    vm: Vm,
    directory: PathBuf,
}

impl NodeSession {
    /// Joins the VM of the file, or creates it.
    pub(super) fn open(config: &Config, directory: Option<PathBuf>) -> Result<Self, String> {
        let directory = directory.unwrap_or_else(m3ipc::runtime::directory);
        let mut node = Node::attach_at(&directory).map_err(|error| error.to_string())?;
        let life =
            if config.vm_ends_with_supervisor { VmLife::Creator } else { VmLife::UntilEnded };
        let wanted = VmConfig::new(&config.vm).mode(config.mode).life(life);
        let vm = match node.vm_named(&config.vm) {
            Ok(vm) if !config.vm_ends_with_supervisor && !vm.info().ending => Ok(vm),
            _ => node.vm_open_or_create(&wanted),
        };
        let vm = vm.map_err(|error: NodeError| format!("VM {}: {error}", config.vm))?;
        // Its members get the requests of clients, and services may have rights beyond its owner's.
        vm.check_own(config.mode).map_err(|foreign| match foreign {
            ForeignVm::Mode { .. } => format!("{foreign} (vm-mode)"),
            _ => foreign.to_string(),
        })?;
        Ok(Self { node, vm, directory })
    }

    /// Binds the endpoint of the supervisor.
    pub(super) fn bind(&self, config: &Config) -> Result<Endpoint, String> {
        let begun = Instant::now();
        let mut own = loop {
            match self.vm.bind(config.slot) {
                Err(BindError::Taken(_)) if begun.elapsed() < TAKEN_LIMIT => {
                    std::thread::sleep(TAKEN_PAUSE);
                }
                Err(BindError::Taken(_)) => {
                    return Err(format!(
                        "slot {} of VM {} is taken; end the other supervisor, or choose another \
                         slot in [supervisor]: `m3 ps {}` shows the owner",
                        config.slot, config.vm, config.vm
                    ));
                }
                bound => break bound.map_err(|error| format!("slot {}: {error}", config.slot))?,
            }
        };
        loop {
            match own.name_attach(&config.name) {
                Err(NameError::Taken(_)) if begun.elapsed() < TAKEN_LIMIT => {
                    std::thread::sleep(TAKEN_PAUSE);
                }
                attached => {
                    let named = attached.map(|()| own);
                    return named.map_err(|error| format!("name {}: {error}", config.name));
                }
            }
        }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn vm(&self) -> &Vm {
        &self.vm
    }

    /// The endpoints of the VM. Connects again where the daemon was killed.
    pub(super) fn endpoints(&mut self) -> Result<Vec<EndpointInfo>, String> {
        let vm = self.vm.id();
        self.node.endpoints(vm).or_else(|_error| {
            self.node = Node::attach_at(&self.directory).map_err(|error| error.to_string())?;
            self.node.endpoints(vm).map_err(|error| error.to_string())
        })
    }

    /// The number of peers that an endpoint has had.
    pub(super) fn links(&mut self, address: Address) -> Result<u32, String> {
        let (vm, slot) = (self.vm.id(), address.slot());
        let found = self.node.endpoint(vm, slot).or_else(|_error| {
            self.node = Node::attach_at(&self.directory).map_err(|error| error.to_string())?;
            self.node.endpoint(vm, slot).map_err(|error| error.to_string())
        });
        Ok(found?.filter(|found| found.address == address.0).map_or(0, |found| found.links))
    }
}

/// The endpoint that makes a process ready, if it is bound.
pub(super) fn endpoint_of(
    program: &Program,
    pid: i32,
    endpoints: &[EndpointInfo],
) -> Option<Address> {
    let is_own = |endpoint: &EndpointInfo| {
        endpoint.pid == pid || m3ipc_sys::process_group(endpoint.pid) == Ok(pid)
    };
    let is_ready = |endpoint: &EndpointInfo| match program.ready {
        ReadyBy::Name => endpoint.names.contains(&program.name),
        // The launcher binds the slot; the program connects when it takes it.
        ReadyBy::Bind => {
            endpoint.connected && program.slot.is_none_or(|slot| slot == endpoint.slot)
        }
        ReadyBy::Start => false,
    };
    let found = endpoints.iter().find(|endpoint| is_ready(endpoint) && is_own(endpoint));
    found.map(|endpoint| Address(endpoint.address))
}
