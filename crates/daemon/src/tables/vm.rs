//! One VM: its specification and its content.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::{ANY, Address, FIRST_USER_SLOT, NONE, SELF, Slot, VmLimits};
use m3ipc_wire::{Privileges, VmLife};
use serde::{Deserialize, Serialize};

use crate::quota::Share;

use super::area::{Area, LatestArea};
use super::error::LookupError;
use super::identity::{Credentials, Member, MemberKind, VmAccess, VmMode};
use super::index_pool::IndexPool;
use super::link_table::LinkTable;
use super::lookup::{Holder, check_destination};
use super::privileges::{Party, UNRESTRICTED};
use super::reservation::Reservation;
use super::serde_abi;

/// The grace time of a VM whose creator names none, in milliseconds.
pub const GRACE_DEFAULT_MS: u32 = 1_000;

/// The specification of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmSpec {
    /// The id; `None` is the lowest free one.
    pub id: Option<i32>,
    /// The name, unique on the node: 1 to 15 bytes, without slashes and control characters.
    pub name: String,
    /// The number of slots.
    #[serde(with = "serde_abi::VmLimitsForm")]
    pub limits: VmLimits,
    /// The ids of the nodes that the VM spans; an empty list is the local node alone.
    pub nodes: Vec<i32>,
    /// User id of the owner.
    pub owner_uid: u32,
    /// Group id of the owner.
    pub owner_gid: u32,
    /// The permissions to see the VM and to bind in it.
    pub mode: VmMode,
    /// Whether the permission to bind a user slot also covers system and task slots, as in the
    /// paper. Otherwise those need the mode's write bit, which only the owner has by default.
    pub open_slots: bool,
    /// Whether copies between members of one user, too, need a lease or a grant.
    pub copy_granted: bool,
    /// The privileges of an endpoint at its bind. A hostile member can unbind and bind again, so
    /// restrictions that must last belong here.
    pub privileges: Privileges,
    /// The named domains of com-sockets, with their numbers. A process that names no domain gets
    /// none of these.
    pub domains: BTreeMap<String, u32>,
    /// The users of named domains, by name. Others are for the owner of the VM.
    pub domain_users: BTreeMap<String, u32>,
    /// Time that members have between SIGPIPE and SIGKILL at the end of the VM, in milliseconds.
    pub grace_ms: u32,
    /// When the VM ends without a request.
    pub life: VmLife,
    /// The process that created the VM.
    pub creator: Creator,
}

/// The process that created a VM. Number and start time identify it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Creator {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks.
    pub started: u64,
}

impl VmSpec {
    /// A VM with this name and these limits, owned by the caller; the rest has defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, limits: VmLimits, cred: &Credentials) -> Self {
        Self {
            id: None,
            name: name.into(),
            limits,
            nodes: Vec::new(),
            owner_uid: cred.uid,
            owner_gid: cred.gid,
            mode: VmMode::DEFAULT,
            open_slots: false,
            copy_granted: false,
            privileges: UNRESTRICTED,
            domains: BTreeMap::new(),
            domain_users: BTreeMap::new(),
            grace_ms: GRACE_DEFAULT_MS,
            life: VmLife::default(),
            creator: Creator { pid: cred.pid, started: 0 },
        }
    }

    /// The user that may join the domain with this number, if the domain has a name.
    #[must_use]
    pub fn domain_user(&self, number: u32) -> Option<u32> {
        let (name, _) = self.domains.iter().find(|(_, named)| **named == number)?;
        Some(self.domain_users.get(name).copied().unwrap_or(self.owner_uid))
    }

    /// Whether the mode allows `access` to the caller.
    #[must_use]
    pub fn allows(&self, cred: &Credentials, access: VmAccess) -> bool {
        self.mode.allows(self.owner_uid, self.owner_gid, cred, access)
    }
}

/// Whether a VM takes new members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmState {
    /// It takes new members.
    Running,
    /// It is ending: it takes no new members, and ends with its last one.
    Ending,
}

/// One bound endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub address: Address,
    /// The process or thread behind it.
    pub member: Member,
    /// The call that bound it.
    pub kind: MemberKind,
    /// User id of the member.
    pub uid: u32,
    /// Group id of the member.
    pub gid: u32,
    /// The nonce of the request that bound it, if the member bound itself.
    pub nonce: Option<u64>,
    /// The number of its bind among all of the node: the next endpoint of its address has another.
    pub life: u64,
    /// Its privileges.
    pub privileges: Privileges,
    /// Its names.
    pub names: BTreeSet<String>,
    pub(super) links: LinkTable,
}

impl Endpoint {
    pub(super) fn party(&self) -> Party<'_> {
        Party { privileges: &self.privileges, slot: self.address.slot() }
    }
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    pub(super) id: i32,
    pub(super) spec: VmSpec,
    pub(super) state: VmState,
    pub(super) slots: BTreeMap<Slot, Endpoint>,
    /// The latest address of each slot that was ever bound.
    pub(super) latest: BTreeMap<Slot, Address>,
    pub(super) names: BTreeMap<String, Address>,
    pub(super) reserved: BTreeMap<String, Reservation>,
    pub(super) areas: BTreeMap<u32, Area>,
    pub(super) latest_area: LatestArea,
    /// User slots that are taken or reserved, counted from the first user slot.
    pub(super) user_slots: IndexPool,
    /// The user slots of each user.
    pub(super) slots_of: BTreeMap<u32, u64>,
}

/// The index of a user slot in [`Vm::user_slots`].
pub(super) fn user_slot_index(slot: Slot) -> Option<u32> {
    u32::try_from(slot - FIRST_USER_SLOT).ok()
}

impl Vm {
    pub(super) fn new(id: i32, spec: VmSpec) -> Self {
        let mut user_slots = IndexPool::default();
        for reserved in [ANY, NONE, SELF] {
            if let Some(index) = user_slot_index(reserved.0) {
                user_slots.take(index);
            }
        }
        Self {
            id,
            spec,
            state: VmState::Running,
            slots: BTreeMap::new(),
            latest: BTreeMap::new(),
            names: BTreeMap::new(),
            reserved: BTreeMap::new(),
            areas: BTreeMap::new(),
            latest_area: LatestArea::default(),
            user_slots,
            slots_of: BTreeMap::new(),
        }
    }

    /// The VM's id.
    #[must_use]
    pub const fn id(&self) -> i32 {
        self.id
    }

    /// The specification, with id and nodes filled in.
    #[must_use]
    pub const fn spec(&self) -> &VmSpec {
        &self.spec
    }

    /// Whether the VM takes new members.
    #[must_use]
    pub const fn state(&self) -> VmState {
        self.state
    }

    /// Whether the VM ends with its last member, and that member has left.
    #[must_use]
    pub fn is_left_by_all(&self) -> bool {
        let had_members = !self.latest.is_empty();
        let mut endpoints = self.slots.values();
        let left = endpoints.all(|endpoint| endpoint.kind == MemberKind::StandIn);
        self.spec.life == VmLife::Members && had_members && left
    }

    /// The number of bound endpoints.
    #[must_use]
    pub fn endpoint_count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn holder(&self, slot: Slot) -> Holder {
        match (self.slots.get(&slot), self.latest.get(&slot)) {
            (Some(endpoint), _) => Holder::Living(endpoint.address),
            (None, Some(last)) => Holder::Last(*last),
            (None, None) => Holder::Never,
        }
    }

    /// Checks an address as a destination of `caller`, by [`check_destination`].
    pub(super) fn check_destination(
        &self,
        caller: Option<Address>,
        address: Address,
    ) -> Result<(), LookupError> {
        check_destination(&self.spec.limits, caller, address, |slot| self.holder(slot))
    }

    pub(super) fn endpoint(
        &self,
        caller: Option<Address>,
        address: Address,
    ) -> Result<&Endpoint, LookupError> {
        self.check_destination(caller, address)?;
        self.living(address).ok_or(LookupError::Dead(address))
    }

    pub(super) fn living(&self, address: Address) -> Option<&Endpoint> {
        self.slots.get(&address.slot()).filter(|endpoint| endpoint.address == address)
    }

    pub(super) fn living_mut(&mut self, address: Address) -> Option<&mut Endpoint> {
        self.slots.get_mut(&address.slot()).filter(|endpoint| endpoint.address == address)
    }

    /// The use of the user slots, by this user and by all.
    pub(super) fn slot_share(&self, uid: u32) -> Share {
        let slots = self.spec.limits.procs - FIRST_USER_SLOT;
        Share {
            total: u64::try_from(slots).unwrap_or(0),
            used: self.slots_of.values().sum(),
            used_by_user: self.slots_of.get(&uid).copied().unwrap_or(0),
        }
    }

    /// Counts a user slot that a user got or gave back.
    pub(super) fn count_slot(&mut self, uid: u32, is_taken: bool) {
        let slots = self.slots_of.entry(uid).or_default();
        *slots = if is_taken { *slots + 1 } else { slots.saturating_sub(1) };
        if *slots == 0 {
            self.slots_of.remove(&uid);
        }
    }

    pub(super) fn lowest_free_user_slot(&self) -> Option<Slot> {
        let slot = i32::try_from(self.user_slots.lowest_free()).ok()? + FIRST_USER_SLOT;
        (slot < self.spec.limits.procs).then_some(slot)
    }
}
