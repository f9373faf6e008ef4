//! `bind`, `tbind`, `lclbind`: the rules by which a member gets a slot.

use m3ipc_abi::{Address, FIRST_USER_SLOT, SYSTEM_SLOTS, Slot};

use crate::quota::Share;

use super::error::BindError;
use super::identity::{Credentials, Member, MemberId, MemberKind, VmAccess};
use super::lookup::slot_in_range;
use super::node::Node;
use super::record::Record;
use super::tickets::TicketId;
use super::vm::Vm;

/// A new endpoint, and the tickets that it completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its address.
    pub address: Address,
    /// Completed tickets of `wait4bind` and `wait4bindep`.
    pub tickets: Vec<TicketId>,
}

impl Node {
    /// Binds a member to a slot.
    ///
    /// # Errors
    /// In this order: VM id -302; VM not running -303; slot range -34; not allowed -335, also for
    /// the place of another node's endpoint; thread without thread id -336; bound already -337;
    /// thread of an unbound process -334; slot taken -337; quota -12.
    pub fn bind(
        &mut self,
        vm: i32,
        slot: Slot,
        member: Member,
        cred: &Credentials,
        kind: MemberKind,
        nonce: Option<u64>,
    ) -> Result<Bound, BindError> {
        let table = self.running(vm)?;
        if !slot_in_range(&table.spec.limits, slot) {
            return Err(BindError::Range(slot));
        }
        let elsewhere = self.foreign.find(vm, slot).or_else(|| self.foreign.unproven(vm, slot));
        if let Some(range) = elsewhere {
            return Err(BindError::OtherNode { slot, node: range.node.clone() });
        }
        self.check_right(vm, slot, member, cred, kind)?;
        let table = self.running(vm)?;
        if table.slots.contains_key(&slot) {
            return Err(BindError::Taken(slot));
        }
        let latest = table.latest.get(&slot).copied();
        let (uid, gid) = match kind {
            MemberKind::Foreign { uid, gid } => (uid, gid),
            MemberKind::Process
            | MemberKind::Thread
            | MemberKind::Additional
            | MemberKind::StandIn => (cred.uid, cred.gid),
        };
        let quota = self.quota().endpoints;
        if uid != 0 && self.usage(uid).endpoints >= quota {
            return Err(BindError::Quota { uid, quota });
        }
        self.check_slot_share(vm, slot, uid, cred)?;
        let address = self.foreign.next_address(vm, slot, latest);
        self.foreign.arrives(vm, slot, None);
        let id = MemberId::new(vm, address);
        let life = self.next_life();
        self.commit(Record::Bind { id, member, kind, uid, gid, nonce, life });
        Ok(Bound { address, tickets: self.tickets.on_bind(id, member, kind) })
    }

    /// Binds a member to the lowest free user slot.
    ///
    /// # Errors
    /// Those of [`Node::bind`]; no free slot -337.
    pub fn bind_free(
        &mut self,
        vm: i32,
        member: Member,
        cred: &Credentials,
        kind: MemberKind,
        nonce: Option<u64>,
    ) -> Result<Bound, BindError> {
        let table = self.running(vm)?;
        let slot = match table.lowest_free_user_slot() {
            Some(slot) if self.foreign.may_be_chosen(vm, slot) => Some(slot),
            Some(slot) => self.foreign.lowest_own_slot(table, slot),
            None => None,
        };
        let slot = slot.ok_or(BindError::Full)?;
        self.bind(vm, slot, member, cred, kind, nonce)
    }

    /// Binds a process to the last free user slot of this node, apart from this one.
    ///
    /// # Errors
    /// Those of [`Node::bind_free`].
    pub fn bind_last(
        &mut self,
        vm: i32,
        besides: Option<Slot>,
        member: Member,
        cred: &Credentials,
        nonce: Option<u64>,
    ) -> Result<Bound, BindError> {
        let slot = self.foreign.last_own_slot(self.running(vm)?, besides).ok_or(BindError::Full)?;
        self.bind(vm, slot, member, cred, MemberKind::Process, nonce)
    }

    /// Checks whether a member may bind a slot of this node, if it is free.
    ///
    /// # Errors
    /// Those of [`Node::bind`] that do not depend on other endpoints.
    pub(super) fn check_right(
        &self,
        vm: i32,
        slot: Slot,
        member: Member,
        cred: &Credentials,
        kind: MemberKind,
    ) -> Result<(), BindError> {
        let table = self.running(vm)?;
        check_allowed(table, slot, member, cred, kind)?;
        let uid = match kind {
            MemberKind::Foreign { uid, .. } => uid,
            MemberKind::Process
            | MemberKind::Thread
            | MemberKind::Additional
            | MemberKind::StandIn => cred.uid,
        };
        // Peers take the backup for the endpoint that was there. The owner of a VM counts for
        // nothing here: any user may have made the VM of this id on this node.
        let is_place = self.foreign.is_of_backup(vm, slot);
        if is_place && !self.may_take_places(uid, cred) {
            return Err(BindError::Place { uid, slot });
        }
        // The same for one that comes back to its home, besides the user that it had there.
        if let Some(address) = self.foreign.arriving(vm, slot)
            && self.foreign.find(vm, slot).is_none()
            && !self.may_take_places(uid, cred)
            && !self.foreign.was_of(vm, address, uid)
        {
            return Err(BindError::Arriving { uid, slot });
        }
        self.check_member(vm, member, kind)
    }

    /// Whether peers may take an endpoint of this user for one that was at its address before.
    fn may_take_places(&self, uid: u32, cred: &Credentials) -> bool {
        (uid != 0 && self.is_privileged(uid)) || cred.owns_all()
    }

    /// The owner of a VM, privileged users and `CAP_IPC_OWNER`.
    fn is_privileged_in(&self, table: &Vm, uid: u32, cred: &Credentials) -> bool {
        let owner = table.spec.owner_uid;
        self.is_privileged(uid) || [uid, cred.uid].contains(&owner) || cred.owns_all()
    }

    /// Checks whether a user may have one more user slot of a VM. The owner of the VM and root may
    /// have all of them.
    fn check_slot_share(
        &self,
        vm: i32,
        slot: Slot,
        uid: u32,
        cred: &Credentials,
    ) -> Result<(), BindError> {
        let table = self.running(vm)?;
        let is_privileged = self.is_privileged_in(table, uid, cred) || slot < FIRST_USER_SLOT;
        let share = table.slot_share(uid);
        if is_privileged || share.admits(1, false) {
            return Ok(());
        }
        Err(BindError::SlotQuota { uid, quota: Share::of_user(share.total) })
    }

    /// Checks that a process has one VM and one process endpoint, and that the process of a thread
    /// is bound in the same VM.
    fn check_member(&self, vm: i32, member: Member, kind: MemberKind) -> Result<(), BindError> {
        match (kind, self.state.processes.get(&member.pid)) {
            (MemberKind::Process | MemberKind::Foreign { .. }, None) => Ok(()),
            (MemberKind::Process | MemberKind::Foreign { .. }, Some(process)) => {
                Err(BindError::Bound(process.address))
            }
            (MemberKind::Thread, Some(process)) if process.vm == vm => {
                let tid = member.tid.ok_or(BindError::Kind)?;
                match process.threads.get(&tid) {
                    Some(address) => Err(BindError::Bound(*address)),
                    None => Ok(()),
                }
            }
            (MemberKind::Additional, Some(process)) if process.vm == vm => Ok(()),
            (MemberKind::StandIn, _) => Ok(()),
            (MemberKind::Thread | MemberKind::Additional, _) => {
                Err(BindError::ProcessUnbound(member.pid))
            }
        }
    }
}

/// Checks the VM's mode and the owner of the process. A caller binds its own process or, by
/// `lclbind`, another process of its user.
fn check_allowed(
    vm: &Vm,
    slot: Slot,
    member: Member,
    cred: &Credentials,
    kind: MemberKind,
) -> Result<(), BindError> {
    let spec = &vm.spec;
    let access = if slot < SYSTEM_SLOTS && !spec.open_slots {
        VmAccess::BindSystemSlot
    } else {
        VmAccess::BindUserSlot
    };
    let is_own = match kind {
        MemberKind::Process | MemberKind::Thread | MemberKind::Additional | MemberKind::StandIn => {
            member.pid == cred.pid
        }
        MemberKind::Foreign { uid, .. } => uid == cred.uid || cred.may_end(),
    };
    if is_own && spec.allows(cred, access) { Ok(()) } else { Err(BindError::NotAllowed(cred.uid)) }
}
