//! bind, tbind, lclbind: who gets which slot.

use m3ipc_abi::{Address, SYSTEM_SLOTS, Slot};

use super::error::BindError;
use super::identity::{Credentials, Member, MemberId, MemberKind, Want};
use super::journal::Record;
use super::lookup::slot_in_range;
use super::node::Node;
use super::vm::Vm;

/// A new endpoint, and whom to tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its address.
    pub address: Address,
    /// Waiters (wait4bind, wait4bindep) whose wait is over.
    pub told: Vec<u64>,
}

impl Node {
    /// Binds a member to a slot.
    ///
    /// # Errors
    /// In this order: VM id -302; VM not running -303; slot range -34; not
    /// allowed -335; thread without thread id -336; bound already -337; thread of
    /// an unbound process -334; slot taken -337; quota -12.
    pub fn bind(
        &mut self,
        vm: i32,
        slot: Slot,
        member: Member,
        cred: &Credentials,
        kind: MemberKind,
    ) -> Result<Bound, BindError> {
        let table = self.running(vm)?;
        if !slot_in_range(&table.spec.limits, slot) {
            return Err(BindError::Range(slot));
        }
        check_allowed(table, slot, member, cred, kind)?;
        self.check_member(vm, member, kind)?;
        let table = self.running(vm)?;
        if table.slots.contains_key(&slot) {
            return Err(BindError::Taken(slot));
        }
        let address = Address::next_life(slot, table.latest.get(&slot).copied());
        let (uid, gid) = match kind {
            MemberKind::Foreign { uid, gid } => (uid, gid),
            MemberKind::Process | MemberKind::Thread => (cred.uid, cred.gid),
        };
        let quota = self.quota().endpoints;
        if uid != 0 && self.usage(uid).endpoints >= quota {
            return Err(BindError::Quota { uid, quota });
        }
        let place = MemberId::new(vm, address);
        self.commit(Record::Bind { place, member, kind, uid, gid });
        Ok(Bound { address, told: self.waits.on_bind(place, member, kind) })
    }

    /// Binds a member to the lowest free user slot.
    ///
    /// # Errors
    /// As [`Node::bind`]; no slot free -337.
    pub fn bind_free(
        &mut self,
        vm: i32,
        member: Member,
        cred: &Credentials,
        kind: MemberKind,
    ) -> Result<Bound, BindError> {
        let slot = self.running(vm)?.lowest_free_user_slot().ok_or(BindError::Full)?;
        self.bind(vm, slot, member, cred, kind)
    }

    /// One VM per process, pid and endpoint one-to-one; a thread needs its process bound in the same VM.
    fn check_member(&self, vm: i32, member: Member, kind: MemberKind) -> Result<(), BindError> {
        let home = self.tables.homes.get(&member.pid);
        match (kind, home) {
            (MemberKind::Process | MemberKind::Foreign { .. }, None) => Ok(()),
            (MemberKind::Process | MemberKind::Foreign { .. }, Some(home)) => {
                Err(BindError::Bound(home.address))
            }
            (MemberKind::Thread, Some(home)) if home.vm == vm => {
                let tid = member.tid.ok_or(BindError::Kind)?;
                home.threads.get(&tid).map_or(Ok(()), |address| Err(BindError::Bound(*address)))
            }
            (MemberKind::Thread, _) => Err(BindError::ProcessUnbound(member.pid)),
        }
    }
}

/// The VM's mode, and whose process it is: one's own, or (lclbind) one of the same user.
fn check_allowed(
    vm: &Vm,
    slot: Slot,
    member: Member,
    cred: &Credentials,
    kind: MemberKind,
) -> Result<(), BindError> {
    let spec = &vm.spec;
    let want = if slot < SYSTEM_SLOTS && !spec.open_slots { Want::Serve } else { Want::Join };
    let his = match kind {
        MemberKind::Process | MemberKind::Thread => member.pid == cred.pid,
        MemberKind::Foreign { uid, .. } => cred.is_root() || uid == cred.uid,
    };
    if his && spec.mode.allows(spec.owner_uid, spec.owner_gid, cred, want) {
        Ok(())
    } else {
        Err(BindError::NotAllowed(cred.uid))
    }
}
