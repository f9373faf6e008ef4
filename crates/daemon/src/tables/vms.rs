//! The operations on VMs: begin, end in two steps, list, access checks.

use m3ipc_abi::VM_NAME_MAX_BYTES;

use crate::quota::Share;

use super::error::VmError;
use super::identity::{Credentials, Member, MemberId, VmAccess};
use super::node::Node;
use super::record::Record;
use super::tickets::TicketId;
use super::unbind::Death;
use super::vm::{Vm, VmSpec, VmState};

/// The effects of the begin of a VM's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The members of the VM, with their endpoints.
    pub members: Vec<(MemberId, Member)>,
    /// Tickets that end with -303.
    pub tickets: Vec<TicketId>,
}

impl Node {
    /// Begins a VM and returns its id.
    ///
    /// # Errors
    /// Id out of range -302; id or name in use -342; name too long -343; limits above the node's
    /// -338; a node out of range -301, the local node missing -319; another owner -1; quota -12.
    pub fn vm_init(&mut self, spec: VmSpec, cred: &Credentials) -> Result<i32, VmError> {
        let id = self.vm_id(spec.id)?;
        check_vm_name(&spec.name)?;
        if self.state.vms.values().any(|vm| vm.spec.name == spec.name) {
            return Err(VmError::NameTaken(spec.name));
        }
        if !spec.limits.fit(&self.limits()) {
            return Err(VmError::Limits { wanted: spec.limits, most: self.limits() });
        }
        let nodes = self.vm_nodes(&spec.nodes)?;
        let owner = spec.owner_uid;
        if cred.uid != owner && !cred.owns_all() {
            return Err(VmError::OtherOwner(owner));
        }
        let share = Share {
            total: u64::from(self.limits().vms.unsigned_abs()),
            used: self.state.vms.len() as u64,
            used_by_user: u64::from(self.usage(owner).vms),
        };
        if !share.admits(1, self.is_privileged(owner)) {
            let quota = Share::of_user(share.total);
            return Err(VmError::Quota { uid: owner, quota });
        }
        self.commit(Record::VmInit(VmSpec { id: Some(id), nodes, ..spec }));
        Ok(id)
    }

    fn vm_id(&self, wanted: Option<i32>) -> Result<i32, VmError> {
        let ids = 0..self.limits().vms;
        match wanted {
            Some(id) if !ids.contains(&id) => Err(VmError::IdRange { id, vms: ids.end }),
            Some(id) if self.state.vms.contains_key(&id) => Err(VmError::IdTaken(id)),
            Some(id) => Ok(id),
            None => ids
                .clone()
                .find(|id| !self.state.vms.contains_key(id))
                .ok_or(VmError::Full(ids.end)),
        }
    }

    fn vm_nodes(&self, nodes: &[i32]) -> Result<Vec<i32>, VmError> {
        if nodes.is_empty() {
            return Ok(vec![self.nodeid()]);
        }
        if let Some(bad) = nodes.iter().find(|node| !(0..self.limits().nodes).contains(*node)) {
            return Err(VmError::NodeRange(*bad));
        }
        if !nodes.contains(&self.nodeid()) {
            return Err(VmError::NotHere(self.nodeid()));
        }
        Ok(nodes.to_vec())
    }

    /// Begins the end of a VM. The VM takes no new members from now on.
    ///
    /// # Errors
    /// Id -302; not running, or ending already -303; not the owner, without `CAP_KILL`
    /// -335.
    pub fn begin_end(&mut self, id: i32, cred: &Credentials) -> Result<Ending, VmError> {
        let vm = self.running(id)?;
        if cred.uid != vm.spec.owner_uid && !cred.may_end() {
            return Err(VmError::NotAllowed { vm: id, uid: cred.uid });
        }
        let members = vm
            .slots
            .values()
            .map(|endpoint| (MemberId::new(id, endpoint.address), endpoint.member))
            .collect();
        self.commit(Record::VmEnding(id));
        Ok(Ending { members, tickets: self.tickets.end_vm(id) })
    }

    /// Ends a VM after [`Node::begin_end`]. The endpoints of its remaining members end now.
    ///
    /// # Errors
    /// Id -302; not running -303; without [`Node::begin_end`] -323.
    pub fn finish_end(&mut self, id: i32) -> Result<Vec<Death>, VmError> {
        let vm = self.vm(id)?;
        if vm.state == VmState::Running {
            return Err(VmError::StillRunning(id));
        }
        let pids: Vec<i32> = vm.slots.values().map(|endpoint| endpoint.member.pid).collect();
        let mut deaths: Vec<Death> = pids.into_iter().flat_map(|pid| self.exit(pid)).collect();
        // Stand-ins belong to no process.
        let left = self.endpoints(id).map(|endpoint| MemberId::new(id, endpoint.address));
        for left in left.collect::<Vec<_>>() {
            deaths.extend(self.unbind(left).unwrap_or_default());
        }
        self.commit(Record::VmEnd(id));
        Ok(deaths)
    }

    /// The VMs that the caller may see, by id.
    pub fn visible_vms(&self, cred: &Credentials) -> impl Iterator<Item = &Vm> {
        self.vms().filter(|vm| vm.spec.allows(cred, VmAccess::See))
    }

    /// The VM with this id, if the caller may see it.
    ///
    /// # Errors
    /// Id -302; no such VM -303; mode -335.
    pub fn visible_vm(&self, id: i32, cred: &Credentials) -> Result<&Vm, VmError> {
        self.vm_with(id, cred, VmAccess::See)
    }

    /// The id of the VM with this name.
    ///
    /// # Errors
    /// Unknown -316.
    pub fn vm_by_name(&self, name: &str) -> Result<i32, VmError> {
        let found = self.state.vms.values().find(|vm| vm.spec.name == name);
        found.map(|vm| vm.id).ok_or_else(|| VmError::NameUnknown(name.to_owned()))
    }

    /// The VM with this id, if the caller may be a member of it.
    ///
    /// # Errors
    /// Id -302; no such VM -303; mode -335.
    pub fn joinable_vm(&self, id: i32, cred: &Credentials) -> Result<&Vm, VmError> {
        self.vm_with(id, cred, VmAccess::BindUserSlot)
    }

    fn vm_with(&self, id: i32, cred: &Credentials, access: VmAccess) -> Result<&Vm, VmError> {
        let vm = self.vm(id)?;
        if vm.spec.allows(cred, access) {
            Ok(vm)
        } else {
            Err(VmError::NotAllowed { vm: id, uid: cred.uid })
        }
    }
}

fn check_vm_name(name: &str) -> Result<(), VmError> {
    if name.len() > VM_NAME_MAX_BYTES {
        return Err(VmError::NameTooLong(name.len()));
    }
    if name.is_empty() || name.contains(|c: char| c == '/' || c.is_control()) {
        return Err(VmError::NameBad(name.to_owned()));
    }
    if name.parse::<i64>().is_ok() {
        return Err(VmError::NameIsNumber(name.to_owned()));
    }
    Ok(())
}
