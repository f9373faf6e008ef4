//! VMs: begin, end in two steps, list.

use m3ipc_abi::VM_NAME_MAX_BYTES;

use super::error::VmError;
use super::identity::{Credentials, Member, MemberId, Want};
use super::journal::Record;
use super::node::Node;
use super::unbind::Death;
use super::vm::{VmInfo, VmSpec, VmState};

/// Whom to tell that a VM is ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Members to signal, with their endpoints.
    pub members: Vec<(MemberId, Member)>,
    /// Waiters whose wait is over, with -303.
    pub told: Vec<u64>,
}

impl Node {
    /// Begins a VM and returns its id.
    ///
    /// # Errors
    /// Id out of range -302; id or name in use -342; name too long -343; limits
    /// above the node's -338; a node out of range -301, the local one missing
    /// -319; for somebody else -1; quota -12.
    pub fn vm_init(&mut self, spec: VmSpec, cred: &Credentials) -> Result<i32, VmError> {
        let id = self.vm_id(spec.id)?;
        check_vm_name(&spec.name)?;
        if self.tables.vms.values().any(|vm| vm.spec.name == spec.name) {
            return Err(VmError::NameTaken(spec.name));
        }
        if !spec.limits.fit(&self.limits()) {
            return Err(VmError::Limits(spec.limits));
        }
        let nodes = self.vm_nodes(&spec.nodes)?;
        let owner = spec.owner_uid;
        if !cred.is_root() && cred.uid != owner {
            return Err(VmError::OtherOwner(owner));
        }
        let quota = self.quota().vms;
        if owner != 0 && self.usage(owner).vms >= quota {
            return Err(VmError::Quota { uid: owner, quota });
        }
        self.commit(Record::VmInit(VmSpec { id: Some(id), nodes, ..spec }));
        Ok(id)
    }

    fn vm_id(&self, wanted: Option<i32>) -> Result<i32, VmError> {
        let ids = 0..self.limits().vms;
        match wanted {
            Some(id) if !ids.contains(&id) => Err(VmError::IdRange(id)),
            Some(id) if self.tables.vms.contains_key(&id) => Err(VmError::IdTaken(id)),
            Some(id) => Ok(id),
            None => ids
                .clone()
                .find(|id| !self.tables.vms.contains_key(id))
                .ok_or(VmError::IdTaken(ids.end - 1)),
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

    /// Tells a VM to end: from now on nobody can bind in it.
    ///
    /// # Errors
    /// Id -302; not running or ending already -303; neither its owner nor root -335.
    pub fn begin_end(&mut self, id: i32, cred: &Credentials) -> Result<Ending, VmError> {
        let vm = self.running(id)?;
        if !cred.is_root() && cred.uid != vm.spec.owner_uid {
            return Err(VmError::NotAllowed { vm: id, uid: cred.uid });
        }
        let members = vm
            .slots
            .values()
            .map(|endpoint| (MemberId::new(id, endpoint.address), endpoint.member))
            .collect();
        self.commit(Record::VmEnding(id));
        Ok(Ending { members, told: self.waits.end_vm(id) })
    }

    /// Ends a VM that was told to; members that are still there die now.
    ///
    /// # Errors
    /// Id -302; not running -303; never told to end -323.
    pub fn finish_end(&mut self, id: i32) -> Result<Vec<Death>, VmError> {
        let vm = self.vm(id)?;
        if vm.state == VmState::Running {
            return Err(VmError::StillRunning(id));
        }
        let pids: Vec<i32> = vm.slots.values().map(|endpoint| endpoint.member.pid).collect();
        let deaths = pids.into_iter().flat_map(|pid| self.exit(pid)).collect();
        self.commit(Record::VmEnd(id));
        Ok(deaths)
    }

    /// The VMs that the caller may see, by id.
    #[must_use]
    pub fn list(&self, cred: &Credentials) -> Vec<VmInfo> {
        let mut infos: Vec<_> = self.tables.vms.values().map(super::vm::Vm::info).collect();
        infos.retain(|info| self.check_see(info.id, cred).is_ok());
        infos
    }

    /// What may be told about a VM.
    ///
    /// # Errors
    /// Id -302; not there -303; mode -335.
    pub fn vm_info(&self, id: i32, cred: &Credentials) -> Result<VmInfo, VmError> {
        self.check_see(id, cred)?;
        Ok(self.vm(id)?.info())
    }

    /// The id of the VM of this name.
    ///
    /// # Errors
    /// Unknown -316.
    pub fn vm_by_name(&self, name: &str) -> Result<i32, VmError> {
        let found = self.tables.vms.values().find(|vm| vm.spec.name == name);
        found.map(|vm| vm.id).ok_or_else(|| VmError::NameUnknown(name.to_owned()))
    }

    /// Whether the caller may see what is in a VM.
    ///
    /// # Errors
    /// Id -302; not there -303; mode -335.
    pub fn check_see(&self, id: i32, cred: &Credentials) -> Result<(), VmError> {
        self.check_want(id, cred, Want::See)
    }

    /// Whether the caller may be a member of a VM.
    ///
    /// # Errors
    /// Id -302; not there -303; mode -335.
    pub fn check_join(&self, id: i32, cred: &Credentials) -> Result<(), VmError> {
        self.check_want(id, cred, Want::Join)
    }

    fn check_want(&self, id: i32, cred: &Credentials, want: Want) -> Result<(), VmError> {
        let spec = &self.vm(id)?.spec;
        if spec.mode.allows(spec.owner_uid, spec.owner_gid, cred, want) {
            Ok(())
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
    Ok(())
}
