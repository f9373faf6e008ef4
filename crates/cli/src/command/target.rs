//! The endpoints of a command: its target, and the endpoint that this process binds.

use crate::error::{CliError, Result};
use crate::lookup::{self, Target};
use crate::options::{self, NodeOptions, TimeLimit};
use clap::Args;
use m3ipc::{Address, Endpoint, Node, Timeout, Vm};
use std::time::Instant;

/// The arguments of every command that addresses an endpoint.
#[derive(Args, Clone, Debug)]
pub struct TargetArgs {
    #[command(flatten)]
    pub node: NodeOptions,
    /// The endpoint: VM/NAME, VM/SLOT or VM/ADDRESS.
    #[arg(value_name = "TARGET")]
    pub target: Target,
    /// Time limit of the whole operation; 0 does not wait, -1 has no limit.
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub timeout: Option<TimeLimit>,
    /// Bind this process to this slot or name meanwhile [default: any free slot].
    #[arg(long = "as", value_name = "NAME|SLOT", allow_negative_numbers = true)]
    pub bind_as: Option<String>,
    /// Wait until the target is bound, within the time limit.
    #[arg(long)]
    pub wait: bool,
}

/// An endpoint of this process, and the address of its target.
pub struct TargetSession {
    /// The node.
    pub node: Node,
    /// The VM of both endpoints.
    pub vm: Vm,
    /// The endpoint of this process.
    pub own: Endpoint,
    /// The address of the target.
    pub to: Address,
    begin: Instant,
    limit: TimeLimit,
}

impl TargetSession {
    /// The time that is left for the call.
    pub fn timeout(&self) -> Timeout {
        self.limit.left_since(self.begin)
    }
}

impl TargetArgs {
    /// Binds this process and finds the target.
    pub fn open(&self) -> Result<TargetSession> {
        let (begin, limit) = (options::begin(), self.timeout.unwrap_or(TimeLimit::NONE));
        let mut node = lookup::node_within(&self.node, limit.left_since(begin))?;
        let vm = lookup::vm(&mut node, &self.target.vm)?;
        let mut own = lookup::bind(&vm, self.bind_as.as_deref())?;
        let wait = self.wait.then(|| limit.left_since(begin));
        let to = lookup::address(&mut node, &vm, &mut own, &self.target.endpoint, wait)?;
        if to == own.address() {
            return Err(CliError::usage("the target is the endpoint of this command itself")
                .advice("choose another target, or another slot or name with --as"));
        }
        Ok(TargetSession { node, vm, own, to, begin, limit })
    }
}

/// The arguments of every command that serves as an endpoint.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    #[command(flatten)]
    node: NodeOptions,
    /// The VM, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: String,
    /// Bind this process to this slot or name [default: any free slot].
    #[arg(long = "as", value_name = "NAME|SLOT", allow_negative_numbers = true)]
    bind_as: Option<String>,
}

impl ServerArgs {
    /// Binds this process within the time limit; with `announce`, says so on standard error.
    pub fn bind(&self, announce: bool, activity: &str, limit: Timeout) -> Result<Endpoint> {
        let mut node = lookup::node_within(&self.node, limit)?;
        let vm = lookup::vm(&mut node, &self.vm)?;
        let own = lookup::bind(&vm, self.bind_as.as_deref())?;
        if announce {
            let address = own.address();
            m3ipc_sys::tell!(
                "{activity} as {address} (slot {}) in VM {}",
                address.slot(),
                vm.name()
            );
        }
        Ok(own)
    }
}
