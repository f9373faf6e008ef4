//! One VM: what it was asked to be, and what it holds.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::{ANY, Address, FIRST_USER_SLOT, NONE, SELF, Slot, VmLimits};
use serde::{Deserialize, Serialize};

use super::areas::Area;
use super::dense::Dense;
use super::error::LookupError;
use super::foreign;
use super::identity::{Credentials, Member, MemberKind, VmMode};
use super::links::Links;
use super::lookup::{Holder, check_destination};
use super::privileges::Privileges;

/// What a VM is asked to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmSpec {
    /// Its id; `None`: the lowest free one.
    pub id: Option<i32>,
    /// Its name, unique on the node: 1 to 15 bytes, no slash, no control character.
    pub name: String,
    /// Slots it has.
    #[serde(with = "foreign::VmLimitsForm")]
    pub limits: VmLimits,
    /// Ids of the nodes it spans; empty: the local one alone.
    pub nodes: Vec<i32>,
    /// User id of its owner.
    pub owner_uid: u32,
    /// Group id of its owner.
    pub owner_gid: u32,
    /// Who may see it and bind in it.
    pub mode: VmMode,
    /// Whether who may join may also take system and task slots, as in the
    /// paper; otherwise that needs the mode's write bit, which by default the
    /// owner's processes alone have.
    pub open_slots: bool,
    /// Whether copies between members need a lease or a grant also within one user.
    pub copy_granted: bool,
    /// What each endpoint may do when it is bound. A hostile member can always
    /// unbind and bind anew, so restrictions that must last belong here.
    pub privileges: Privileges,
    /// Domains of com-sockets that have names, and their numbers. Who names no domain gets none of them.
    pub domains: BTreeMap<String, u32>,
}

impl VmSpec {
    /// A VM of that name and those limits, owned by the caller, else of defaults.
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
            privileges: Privileges::default(),
            domains: BTreeMap::new(),
        }
    }
}

/// Whether a VM takes new members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmState {
    /// It does.
    Running,
    /// It was told to end and waits for its members to leave.
    Ending,
}

/// What may be told about a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmInfo {
    /// Its id.
    pub id: i32,
    /// What it was asked to be (with id and nodes filled in).
    pub spec: VmSpec,
    /// Whether it runs.
    pub state: VmState,
    /// Endpoints bound in it.
    pub bound: usize,
}

/// One bound endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub address: Address,
    /// Who is behind it.
    pub member: Member,
    /// How it was bound.
    pub kind: MemberKind,
    /// User id of the member.
    pub uid: u32,
    /// Group id of the member.
    pub gid: u32,
    /// What it may do.
    pub privileges: Privileges,
    /// The names it bears.
    pub names: BTreeSet<String>,
    pub(super) links: Links,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vm {
    pub(super) id: i32,
    pub(super) spec: VmSpec,
    pub(super) state: VmState,
    pub(super) slots: BTreeMap<Slot, Endpoint>,
    /// The address of the latest life of each slot that was ever bound.
    pub(super) latest: BTreeMap<Slot, Address>,
    pub(super) names: BTreeMap<String, Address>,
    pub(super) areas: BTreeMap<u32, Area>,
    /// User slots that are taken or never to be given, counted from the first user slot.
    pub(super) user_slots: Dense,
}

/// The number of a user slot in [`Vm::user_slots`].
pub(super) fn user_number(slot: Slot) -> Option<u32> {
    u32::try_from(slot - FIRST_USER_SLOT).ok()
}

impl Vm {
    pub(super) fn new(id: i32, spec: VmSpec) -> Self {
        let mut user_slots = Dense::default();
        for number in [ANY, NONE, SELF].into_iter().filter_map(|reserved| user_number(reserved.0)) {
            user_slots.take(number);
        }
        Self {
            id,
            spec,
            state: VmState::Running,
            slots: BTreeMap::new(),
            latest: BTreeMap::new(),
            names: BTreeMap::new(),
            areas: BTreeMap::new(),
            user_slots,
        }
    }

    pub(super) fn holder(&self, slot: Slot) -> Holder {
        match (self.slots.get(&slot), self.latest.get(&slot)) {
            (Some(endpoint), _) => Holder::Living(endpoint.address),
            (None, Some(last)) => Holder::Last(*last),
            (None, None) => Holder::Never,
        }
    }

    pub(super) fn judge(
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
        self.judge(caller, address)?;
        self.living(address).ok_or(LookupError::Dead(address))
    }

    pub(super) fn living(&self, address: Address) -> Option<&Endpoint> {
        self.slots.get(&address.slot()).filter(|endpoint| endpoint.address == address)
    }

    pub(super) fn living_mut(&mut self, address: Address) -> Option<&mut Endpoint> {
        self.slots.get_mut(&address.slot()).filter(|endpoint| endpoint.address == address)
    }

    pub(super) fn lowest_free_user_slot(&self) -> Option<Slot> {
        let slot = i32::try_from(self.user_slots.lowest_free()).ok()? + FIRST_USER_SLOT;
        (slot < self.spec.limits.procs).then_some(slot)
    }

    pub(super) fn info(&self) -> VmInfo {
        VmInfo { id: self.id, spec: self.spec.clone(), state: self.state, bound: self.slots.len() }
    }
}
