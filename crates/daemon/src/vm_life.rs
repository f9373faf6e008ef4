//! VMs that end without a request: with the process that created them, or with their last member.

use crate::quota::{Charge, Resource};
use crate::server::Server;
use crate::tables::{Credentials, Node, Vm, VmState};
use crate::token::Token;
use m3ipc_wire::VmLife;

/// The number of members up to which each is looked at before another process joins.
const MEMBERS_MAX: usize = 64;

impl Server {
    /// Watches the process of this connection, which is about to create a VM that ends with it.
    /// Returns the charge for the descriptor of the watch.
    pub(crate) fn watch_creator(&mut self, token: Token) -> Result<Vec<Charge>, String> {
        let Some(connection) = self.connections.get(token) else {
            return Err("the caller has left".to_owned());
        };
        let cred = &connection.cred;
        let charged = self.accounts.charge(cred.uid, &[(Resource::Descriptors, 1)]);
        let charges = charged.map_err(|exceeded| exceeded.to_string())?;
        let pid = cred.pid;
        let watched =
            m3ipc_sys::peer_pidfd(&connection.socket).and_then(|fd| self.watch_process(pid, fd));
        watched.map(|()| charges).map_err(|errno| {
            format!("the creator of the VM cannot be watched: {errno}; free descriptors")
        })
    }

    /// Whether a running VM ends with this process.
    pub(crate) fn creates_running_vm(&self, pid: i32) -> bool {
        self.node.vms().any(|vm| ends_with(vm, pid))
    }

    /// The start time of a process with which a running VM ends.
    pub(crate) fn start_of_creator(&self, pid: i32) -> Option<u64> {
        let vm = self.node.vms().find(|vm| ends_with(vm, pid))?;
        Some(vm.spec().creator.started)
    }

    /// Ends the VMs that a dead process created, as far as they end with it.
    pub(crate) fn end_vms_of(&mut self, pid: i32) {
        let vms: Vec<i32> = self.node.vms().filter(|vm| ends_with(vm, pid)).map(Vm::id).collect();
        for vm in vms {
            self.end_vm_unasked(vm, "its creator died");
        }
    }

    /// Ends the VMs whose creator had this number before the process that began at `started`.
    pub(crate) fn end_vms_of_earlier(&mut self, pid: i32, started: u64) {
        for vm in vms_of_earlier(&self.node, pid, started) {
            self.end_vm_unasked(vm, "its creator died");
        }
    }

    /// Sees the deaths that decide about the life of a VM, before the event loop does. A program
    /// that starts again at once must not join the VM that ends with its predecessor.
    pub(crate) fn see_deaths_of(&mut self, vm: i32) {
        let Ok(found) = self.node.vm(vm) else { return };
        let pids: Vec<i32> = match found.spec().life {
            VmLife::Creator => vec![found.spec().creator.pid],
            VmLife::Members if found.endpoint_count() <= MEMBERS_MAX => {
                self.node.endpoints(vm).map(|endpoint| endpoint.member.pid).collect()
            }
            VmLife::UntilEnded | VmLife::Members => Vec::new(),
        };
        for pid in pids {
            if self.deaths.has_ended(pid) {
                self.process_died(pid);
            }
        }
    }

    /// Ends a VM that ends with its last member, if that member has left.
    pub(crate) fn end_vm_if_left(&mut self, vm: i32) {
        let is_over =
            self.node.vm(vm).is_ok_and(|vm| vm.is_left_by_all() && vm.state() == VmState::Running);
        if is_over {
            self.end_vm_unasked(vm, "its last member left");
        }
    }

    /// Goes on with the lives of the VMs of a killed predecessor.
    pub(crate) fn take_over_lives(&mut self) {
        let vms: Vec<i32> = self.node.vms().map(Vm::id).collect();
        for vm in vms {
            self.end_vm_if_left(vm);
            let Ok(of_creator) = self.node.vm(vm).map(Vm::spec) else { continue };
            let (creator, owner) = (of_creator.creator, of_creator.owner_uid);
            if !self.node.vm(vm).is_ok_and(|vm| ends_with(vm, creator.pid)) {
                continue;
            }
            if self.watch_if_alive(creator.pid, creator.started) {
                // A user above its quota keeps what it had.
                let charged = self.accounts.charge(owner, &[(Resource::Descriptors, 1)]);
                self.deaths.add_creator(vm, charged.unwrap_or_default());
            } else {
                self.end_vm_unasked(vm, "its creator died");
            }
        }
    }

    fn end_vm_unasked(&mut self, vm: i32, why: &str) {
        let root = Credentials::administrator(0);
        let Ok(ending) = self.node.begin_end(vm, &root) else { return };
        self.record();
        let owner = self.node.vm(vm).map_or(0, |vm| vm.spec().owner_uid);
        if crate::log::admits(owner) {
            tracing::info!(vm, why, "a VM ends");
        }
        self.complete_tickets(&ending.tickets, m3ipc_abi::Code::VmNotRun.number());
        self.end_members(vm, None);
    }
}

/// The running VMs that end with an earlier process of this number.
fn vms_of_earlier(node: &Node, pid: i32, started: u64) -> Vec<i32> {
    let of_earlier = |vm: &&Vm| ends_with(vm, pid) && vm.spec().creator.started != started;
    node.vms().filter(of_earlier).map(Vm::id).collect()
}

fn ends_with(vm: &Vm, pid: i32) -> bool {
    let spec = vm.spec();
    vm.state() == VmState::Running && spec.life == VmLife::Creator && spec.creator.pid == pid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Creator, Quota, VmSpec};
    use m3ipc_abi::{NodeLimits, VmLimits};

    #[test]
    fn a_reused_number_keeps_no_vm_of_its_earlier_process() {
        const PID: i32 = 7;
        let mut node = Node::new(0, NodeLimits::default(), Quota::default());
        let cred = Credentials::new(1000, 1000, PID);
        for (name, started, life) in [
            ("earlier", 10, VmLife::Creator),
            ("later", 20, VmLife::Creator),
            ("lasting", 10, VmLife::UntilEnded),
        ] {
            let limits = VmLimits { procs: 40, tasks: 4 };
            let creator = Creator { pid: PID, started };
            let spec = VmSpec { life, creator, ..VmSpec::new(name, limits, &cred) };
            node.vm_init(spec, &cred).unwrap();
        }
        let earlier = node.vm_by_name("earlier").unwrap();
        assert_eq!(vms_of_earlier(&node, PID, 20), [earlier]);
        assert!(vms_of_earlier(&node, PID + 1, 20).is_empty());
    }
}
