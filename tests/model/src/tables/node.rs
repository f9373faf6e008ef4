//! The node: the tables, and beside them what no journal holds.

use m3ipc_abi::{Address, NodeLimits};

use super::error::{Denied, LookupError, PrivError, ReplayError, VmError};
use super::identity::{Credentials, MemberId};
use super::journal::{Record, Tables, Usage};
use super::privileges::{Privileges, Verb};
use super::vm::{Endpoint, Vm, VmState};
use super::waits::Waits;

/// What one user may have; root is not counted against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// VMs owned.
    pub vms: u32,
    /// Endpoints bound, in all VMs.
    pub endpoints: u32,
    /// Links asked for.
    pub links: u32,
    /// Names of one endpoint.
    pub names: u32,
}

impl Default for Quota {
    fn default() -> Self {
        Self { vms: 32, endpoints: 4096, links: 65_536, names: 64 }
    }
}

/// All that the node daemon knows.
///
/// Two nodes are equal where their tables are: quota, waits and records not
/// yet drained do not count.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) tables: Tables,
    pub(super) waits: Waits,
    quota: Quota,
    records: Vec<Record>,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.tables == other.tables
    }
}

impl Eq for Node {}

impl Node {
    /// A node without VMs. The caller has checked `nodeid` and `limits`
    /// ([`NodeLimits::in_bounds`]).
    #[must_use]
    pub fn new(nodeid: i32, limits: NodeLimits, quota: Quota) -> Self {
        Self {
            tables: Tables::new(nodeid, limits),
            waits: Waits::default(),
            quota,
            records: vec![Record::Node { nodeid, limits }],
        }
    }

    /// The node that these records made, with nothing left to drain.
    ///
    /// # Errors
    /// Where the first record is no [`Record::Node`], or a record contradicts those before it.
    pub fn replay<'a>(
        records: impl IntoIterator<Item = &'a Record>,
        quota: Quota,
    ) -> Result<Self, ReplayError> {
        let mut records = records.into_iter();
        let Some(Record::Node { nodeid, limits }) = records.next() else {
            return Err(ReplayError { at: 0 });
        };
        let mut node = Self::new(*nodeid, *limits, quota);
        node.records.clear();
        for (at, record) in records.enumerate() {
            node.tables.apply(record).ok_or(ReplayError { at: at + 1 })?;
        }
        Ok(node)
    }

    /// The records of what changed since the last call: to be written, in this
    /// order, before anybody is told of the change.
    pub fn drain_records(&mut self) -> Vec<Record> {
        core::mem::take(&mut self.records)
    }

    /// The node's id.
    #[must_use]
    pub const fn nodeid(&self) -> i32 {
        self.tables.nodeid
    }

    /// The node's limits.
    #[must_use]
    pub const fn limits(&self) -> NodeLimits {
        self.tables.limits
    }

    /// What one user may have.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// The endpoint that lives there.
    #[must_use]
    pub fn endpoint(&self, place: MemberId) -> Option<&Endpoint> {
        self.tables.vms.get(&place.vm)?.living(place.address)
    }

    /// Every endpoint of a VM, by slot.
    pub fn endpoints(&self, vm: i32) -> impl Iterator<Item = &Endpoint> {
        self.tables.vms.get(&vm).into_iter().flat_map(|vm| vm.slots.values())
    }

    /// Where a process lives (getep): its process endpoint.
    #[must_use]
    pub fn place_of(&self, pid: i32) -> Option<MemberId> {
        self.tables.homes.get(&pid).map(|home| MemberId::new(home.vm, home.address))
    }

    /// Where a thread lives.
    #[must_use]
    pub fn place_of_thread(&self, pid: i32, tid: i32) -> Option<MemberId> {
        let home = self.tables.homes.get(&pid)?;
        home.threads.get(&tid).map(|address| MemberId::new(home.vm, *address))
    }

    /// The peer that `address` leads `caller` to: the rule of every call's destination.
    ///
    /// # Errors
    /// Range, self, generation, dead, in this order; a VM that is not there has no slots in range.
    pub fn lookup(
        &self,
        vm: i32,
        caller: Option<Address>,
        address: Address,
    ) -> Result<&Endpoint, LookupError> {
        self.tables
            .vms
            .get(&vm)
            .ok_or(LookupError::Range(address.slot()))?
            .endpoint(caller, address)
    }

    /// Whether `from` may use the verb with `to` (`None`: with ANY).
    ///
    /// To be asked after [`Node::lookup`], which has the codes for the dead and
    /// the absent: here they are simply denied.
    ///
    /// # Errors
    /// -110 for the verb, -104 for the peer.
    pub fn may(&self, from: MemberId, to: Option<Address>, verb: Verb) -> Result<(), Denied> {
        let slot = from.address.slot();
        let caller = &self.endpoint(from).ok_or(Denied::Trap(verb))?.privileges;
        let Some(address) = to else { return caller.allow(slot, None, verb) };
        let absent = Denied::Call { from: slot, to: address.slot() };
        let peer = self.endpoint(MemberId::new(from.vm, address)).ok_or(absent)?;
        caller.allow(slot, Some((&peer.privileges, address.slot())), verb)
    }

    /// Sets an endpoint's privileges; links it has already stay.
    ///
    /// # Errors
    /// Where it does not live, or the caller is neither the VM's owner nor root.
    pub fn set_priv(
        &mut self,
        place: MemberId,
        privileges: Privileges,
        cred: &Credentials,
    ) -> Result<(), PrivError> {
        let vm = self.vm(place.vm)?;
        vm.judge(None, place.address)?;
        if !cred.is_root() && cred.uid != vm.spec.owner_uid {
            return Err(PrivError::NotAllowed(cred.uid));
        }
        self.commit(Record::Priv { place, privileges });
        Ok(())
    }

    /// An endpoint's privileges.
    ///
    /// # Errors
    /// Where it does not live.
    pub fn get_priv(&self, place: MemberId) -> Result<&Privileges, PrivError> {
        Ok(&self.vm(place.vm)?.endpoint(None, place.address)?.privileges)
    }

    /// Knows a member by a new token (it came back after the daemon did); false where nobody lives there.
    pub fn set_token(&mut self, place: MemberId, token: u64) -> bool {
        let lives = self.endpoint(place).is_some();
        if lives {
            self.commit(Record::Token { place, token });
        }
        lives
    }

    /// Applies and notes a change that was checked before.
    pub(super) fn commit(&mut self, record: Record) {
        let applied = self.tables.apply(&record);
        debug_assert!(applied.is_some(), "checked before: {record:?}");
        self.records.push(record);
    }

    pub(super) fn usage(&self, uid: u32) -> Usage {
        self.tables.usage.get(&uid).copied().unwrap_or_default()
    }

    /// The VM, running or ending: id out of range -302, no such VM -303.
    pub(super) fn vm(&self, id: i32) -> Result<&Vm, VmError> {
        if !(0..self.tables.limits.vms).contains(&id) {
            return Err(VmError::IdRange(id));
        }
        self.tables.vms.get(&id).ok_or(VmError::NotRunning(id))
    }

    /// The VM, if it takes new members.
    pub(super) fn running(&self, id: i32) -> Result<&Vm, VmError> {
        let vm = self.vm(id)?;
        match vm.state {
            VmState::Running => Ok(vm),
            VmState::Ending => Err(VmError::Ending(id)),
        }
    }
}
