//! The node: the journalled state, with the tickets and quotas that no journal holds.

use m3ipc_abi::{Address, NodeLimits, Verb};
use m3ipc_wire::Privileges;

use crate::quota;

use super::error::{Denied, LookupError, PrivError, ReplayError, VmError};
use super::foreign::Foreign;
use super::identity::{Credentials, MemberId};
use super::record::{NodeTerms, Record};
use super::state::{State, Usage};
use super::tickets::Tickets;
use super::vm::{Endpoint, Vm, VmState};

/// The quota of one user, as far as the tables check it. Root has none. The shares of VMs, slots
/// and areas follow from their totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bound endpoints, in all VMs.
    pub endpoints: u32,
    /// Links that the user's endpoints requested.
    pub links: u32,
    /// Names of one endpoint.
    pub names: u32,
    /// The user of a node that serves one user alone. It has all totals of the node.
    pub owner: Option<u32>,
}

impl Default for Quota {
    fn default() -> Self {
        Self { endpoints: quota::MEMBERS, links: quota::LINKS, names: quota::NAMES, owner: None }
    }
}

/// All tables of a node.
///
/// Two nodes are equal if their journalled states are equal. Quota, tickets and undrained records
/// do not count.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) state: State,
    pub(super) tickets: Tickets,
    pub(super) foreign: Foreign,
    quota: Quota,
    records: Vec<Record>,
    /// The size of a page of the system, in bytes.
    pub(super) page_bytes: u64,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state
    }
}

impl Eq for Node {}

impl Node {
    /// A node without VMs. The caller has checked `nodeid` and `limits`
    /// ([`NodeLimits::in_bounds`]).
    #[must_use]
    pub fn new(nodeid: i32, limits: NodeLimits, quota: Quota) -> Self {
        Self::with_terms(nodeid, limits, NodeTerms::default(), quota)
    }

    /// As [`Node::new`], with other terms.
    #[must_use]
    pub fn with_terms(nodeid: i32, limits: NodeLimits, terms: NodeTerms, quota: Quota) -> Self {
        Self {
            state: State::new(nodeid, limits, terms.clone()),
            tickets: Tickets::default(),
            foreign: Foreign::default(),
            quota,
            records: vec![Record::Node { nodeid, limits, terms }],
            page_bytes: m3ipc_sys::page_bytes(),
        }
    }

    /// The node that these records made, without records to drain.
    ///
    /// # Errors
    /// The first record is no [`Record::Node`], or a record contradicts earlier ones.
    pub fn replay<'a>(
        records: impl IntoIterator<Item = &'a Record>,
        quota: Quota,
    ) -> Result<Self, ReplayError> {
        let mut records = records.into_iter();
        let Some(Record::Node { nodeid, limits, terms }) = records.next() else {
            return Err(ReplayError { at: 0 });
        };
        let mut node = Self::with_terms(*nodeid, *limits, terms.clone(), quota);
        node.records.clear();
        for (at, record) in records.enumerate() {
            node.state.apply(record).ok_or(ReplayError { at: at + 1 })?;
        }
        Ok(node)
    }

    /// Takes the records of the changes since the last call. The daemon writes them in this order
    /// before it reports any of the changes.
    pub fn drain_records(&mut self) -> Vec<Record> {
        core::mem::take(&mut self.records)
    }

    /// The node's id.
    #[must_use]
    pub const fn nodeid(&self) -> i32 {
        self.state.nodeid
    }

    /// The node's limits.
    #[must_use]
    pub const fn limits(&self) -> NodeLimits {
        self.state.limits
    }

    /// What `drvs_init` set besides.
    #[must_use]
    pub const fn terms(&self) -> &NodeTerms {
        &self.state.terms
    }

    /// The quota of one user.
    #[must_use]
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// The living endpoint with this identity.
    #[must_use]
    pub fn endpoint(&self, id: MemberId) -> Option<&Endpoint> {
        self.state.vms.get(&id.vm)?.living(id.address)
    }

    /// Every endpoint of a VM, by slot.
    pub fn endpoints(&self, vm: i32) -> impl Iterator<Item = &Endpoint> {
        self.state.vms.get(&vm).into_iter().flat_map(|vm| vm.slots.values())
    }

    /// The process endpoint of a process (`getep`).
    #[must_use]
    pub fn endpoint_of_process(&self, pid: i32) -> Option<MemberId> {
        let process = self.state.processes.get(&pid)?;
        Some(MemberId::new(process.vm, process.address))
    }

    /// The endpoint of a thread.
    #[must_use]
    pub fn endpoint_of_thread(&self, pid: i32, tid: i32) -> Option<MemberId> {
        let process = self.state.processes.get(&pid)?;
        process.threads.get(&tid).map(|address| MemberId::new(process.vm, *address))
    }

    /// Every VM, by id.
    pub fn vms(&self) -> impl Iterator<Item = &Vm> {
        self.state.vms.values()
    }

    /// The VM with this id, running or ending.
    ///
    /// # Errors
    /// Id out of range -302; no such VM -303.
    pub fn vm(&self, id: i32) -> Result<&Vm, VmError> {
        if !(0..self.state.limits.vms).contains(&id) {
            return Err(VmError::IdRange { id, vms: self.state.limits.vms });
        }
        self.state.vms.get(&id).ok_or(VmError::NotRunning(id))
    }

    /// The endpoint that `address` names for `caller`: the rule for the destination of every call.
    ///
    /// # Errors
    /// In this order: range, self, generation, dead. A VM that does not exist has no slots.
    pub fn lookup(
        &self,
        vm: i32,
        caller: Option<Address>,
        address: Address,
    ) -> Result<&Endpoint, LookupError> {
        let vm = self.state.vms.get(&vm).ok_or(LookupError::Range(address.slot()))?;
        vm.endpoint(caller, address)
    }

    /// Checks whether `from` may use the verb with `to` (`None`: with ANY).
    ///
    /// Call [`Node::lookup`] first: it has the codes for dead and absent endpoints. This function
    /// denies the verb to both.
    ///
    /// # Errors
    /// -110 for the verb, -104 for the peer.
    pub fn check_verb(
        &self,
        from: MemberId,
        to: Option<Address>,
        verb: Verb,
    ) -> Result<(), Denied> {
        let caller = self.endpoint(from).ok_or(Denied::Trap(verb))?.party();
        let Some(address) = to else { return caller.check_verb(None, verb) };
        let absent = Denied::Call { from: from.address.slot(), to: address.slot() };
        let peer = self.endpoint(MemberId::new(from.vm, address)).ok_or(absent)?;
        caller.check_verb(Some(peer.party()), verb)
    }

    /// Sets an endpoint's privileges. Its present links stay.
    ///
    /// # Errors
    /// The endpoint does not live, or the caller is neither the VM's owner nor has `CAP_IPC_OWNER`.
    pub fn set_priv(
        &mut self,
        id: MemberId,
        mut privileges: Privileges,
        cred: &Credentials,
    ) -> Result<(), PrivError> {
        let vm = self.vm(id.vm)?;
        vm.check_destination(None, id.address)?;
        if cred.uid != vm.spec.owner_uid && !cred.owns_all() {
            return Err(PrivError::NotAllowed(cred.uid));
        }
        for slots in [&mut privileges.ipc_to, &mut privileges.ipc_from].into_iter().flatten() {
            slots.sort_unstable();
            slots.dedup();
        }
        self.commit(Record::Priv { id, privileges });
        Ok(())
    }

    /// An endpoint's privileges.
    ///
    /// # Errors
    /// The endpoint does not live.
    pub fn get_priv(&self, id: MemberId) -> Result<&Privileges, PrivError> {
        Ok(&self.vm(id.vm)?.endpoint(None, id.address)?.privileges)
    }

    /// Applies and records a change that the caller has checked.
    pub(super) fn commit(&mut self, record: Record) {
        let applied = self.state.apply(&record);
        debug_assert!(applied.is_some(), "the caller checked {record:?}");
        self.records.push(record);
    }

    /// The number of the next bind.
    pub(super) const fn next_life(&self) -> u64 {
        self.state.lives + 1
    }

    /// Whether no share of the node limits this user.
    pub(super) fn is_privileged(&self, uid: u32) -> bool {
        uid == 0 || self.quota.owner == Some(uid)
    }

    /// The VMs, endpoints and links of one user.
    #[must_use]
    pub fn use_of(&self, uid: u32) -> [u64; 3] {
        let Usage { vms, endpoints, links } = self.usage(uid);
        [vms, endpoints, links].map(u64::from)
    }

    /// The users that own VMs, endpoints or links.
    pub fn users(&self) -> impl Iterator<Item = u32> {
        self.state.usage.keys().copied()
    }

    pub(super) fn usage(&self, uid: u32) -> Usage {
        self.state.usage.get(&uid).copied().unwrap_or_default()
    }

    /// The VM, if it takes new members.
    ///
    /// # Errors
    /// Id -302; not running, or ending -303.
    pub fn running(&self, id: i32) -> Result<&Vm, VmError> {
        let vm = self.vm(id)?;
        match vm.state {
            VmState::Running => Ok(vm),
            VmState::Ending => Err(VmError::Ending(id)),
        }
    }
}
