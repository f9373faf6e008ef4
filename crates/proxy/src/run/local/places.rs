//! Slots with a backup ([ADR 63](../../../../docs/adr/0063-who-takes-the-place-of-an-endpoint.md)).
//!
//! | the home is lost | its stand-in | messages for it |
//! |---|---|---|
//! | on the node of the backup | ends | -64 |
//! | on other nodes | waits for the backup, at most for [`WAIT`] | stay in their slots, unless they have left this node |
//!
//! The backup has the address of the endpoint whose place it takes. So the stand-in that waits is
//! that of the backup as soon as it is announced, and sends on what lies there.

use super::super::network::Clock;
use super::{Entry, Local};
use m3ipc::nodes::{BackedSlot, SlotPlace};
use m3ipc::{Address, Code, NodeError};
use m3ipc_fabric::{EndpointId, Failure, Machine, NodeId, VmId};
use std::time::{Duration, Instant};

/// The time that the messages for an endpoint wait for its backup.
const WAIT: Duration = Duration::from_secs(2);

pub(super) fn slot_of(id: EndpointId) -> (VmId, i32) {
    (id.vm, id.address.slot())
}

pub(super) fn backed(vm: VmId, slot: i32) -> BackedSlot {
    BackedSlot { vm: i32::from(vm), slot }
}

impl Entry {
    /// Whether this stand-in waits for the backup of its endpoint.
    pub(super) fn waits_for_backup(&self) -> bool {
        self.waits_until.is_some()
    }

    pub(super) fn begin_wait(&mut self) {
        self.blocked = true;
        self.waits_until.get_or_insert_with(|| Instant::now() + WAIT);
    }
}

impl Local {
    /// Whether any slot has a backup: in most clusters none has.
    fn has_backups(&self) -> bool {
        self.owners.backups().next().is_some()
    }

    /// Whether another node than this one may take the slot of an endpoint that its home has.
    fn has_backup_elsewhere(&self, id: EndpointId) -> bool {
        let backup = self.owners.backup(id).is_some_and(|backup| backup.node != self.own);
        backup && self.owners.owner(id) == self.owners.home(id)
    }

    /// A call has not left this node, and its node is lost: the message goes back into its slot,
    /// for the backup. `false` if it cannot.
    pub(super) fn keep_for_backup(&mut self, id: EndpointId, sender: Address) -> bool {
        let has_backup = self.has_backup_elsewhere(id);
        let entry = self.stand_ins.get_mut(&id).filter(|_| has_backup);
        let Some(entry) = entry.filter(|entry| entry.stand_in.may_let_go(sender)) else {
            return false;
        };
        entry.begin_wait();
        entry.stand_in.let_go(sender);
        true
    }

    /// The node of endpoints is lost: the stand-ins of those with a backup elsewhere wait for it.
    /// The other ones are left.
    pub(super) fn wait_for_backups(
        &mut self,
        lost: Vec<EndpointId>,
        machine: &mut Machine,
        clock: &Clock,
    ) -> Vec<EndpointId> {
        let (waiting, left) = lost.into_iter().partition(|id| self.has_backup_elsewhere(*id));
        let waiting: Vec<EndpointId> = waiting;
        for id in &waiting {
            self.end_traffic(*id, machine, clock);
            for sender in self.kept.forget(*id) {
                if let Some(entry) = self.stand_ins.get_mut(id) {
                    entry.stand_in.failed(sender, Code::NotConn);
                }
            }
            if let Some(entry) = self.stand_ins.get_mut(id) {
                entry.notified.clear();
                entry.begin_wait();
            }
        }
        left
    }

    /// An endpoint lives at the address of a stand-in that waits, or in its slot. Whether the
    /// stand-in is that of the endpoint from now on.
    pub(super) fn ends_wait(
        &mut self,
        id: EndpointId,
        node: NodeId,
        machine: &mut Machine,
        clock: &Clock,
    ) -> bool {
        if self.owners.backup(id).is_none() {
            return false;
        }
        let of_slot = self
            .stand_ins
            .iter()
            .filter(|(other, entry)| entry.waits_for_backup() && slot_of(**other) == slot_of(id));
        let waiting: Vec<EndpointId> = of_slot.map(|(other, _)| *other).collect();
        let mut is_resumed = false;
        for other in waiting {
            if other != id {
                self.end_wait(other, machine, clock);
            } else if let Some(entry) = self.stand_ins.get_mut(&other) {
                entry.waits_until = None;
                entry.unblock();
                self.wanted.adopt(id, node);
                is_resumed = true;
            }
        }
        is_resumed
    }

    /// No backup has come: the stand-in ends, as the endpoints of a lost node do.
    fn end_wait(&mut self, id: EndpointId, machine: &mut Machine, clock: &Clock) {
        // Its drop says that the node cannot be reached.
        drop(self.remove(id, machine, clock));
        self.names.forget(id);
    }

    /// Ends the waits whose time is over.
    pub(super) fn end_waits(&mut self, now: Instant, machine: &mut Machine, clock: &Clock) {
        if !self.has_backups() {
            return;
        }
        let is_over = |entry: &Entry| entry.waits_until.is_some_and(|until| until <= now);
        let over = self.stand_ins.iter().filter(|(_, entry)| is_over(entry));
        let over: Vec<EndpointId> = over.map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.end_wait(id, machine, clock));
    }

    /// When the next wait is over.
    pub(super) fn next_wait_end(&self) -> Option<Instant> {
        let all = self.has_backups().then(|| self.stand_ins.values());
        all.into_iter().flatten().filter_map(|entry| entry.waits_until).min()
    }

    /// Notes the addresses of a lost node whose backup is on this one.
    pub(super) fn note_lost(&mut self, node: NodeId, cause: Failure) {
        let owners = &self.owners;
        let is_own = |id: &EndpointId| owners.backup(*id).is_some_and(|it| it.node == self.own);
        let home = |(vm, slot)| owners.home(EndpointId::new(vm, Address::new(0, slot)));
        self.lost.retain(|at, _| home(*at) != Some(node));
        // After a new start of its proxy, an endpoint that lives is announced again.
        if cause == Failure::LinkDown {
            let lost = self.wanted.of_node(node).filter(is_own);
            self.lost.extend(lost.map(|id| (slot_of(id), id.address)));
        }
    }

    /// A slot is at another node than before. A local endpoint there ends.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn placed(
        &mut self,
        (vm, slot): (VmId, i32),
        (node, name): (NodeId, &str),
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<(), NodeError> {
        self.owners.place(vm, slot, node);
        let address = self.lost.remove(&(vm, slot)).filter(|_| node == self.own);
        let place = match node == self.own {
            true => SlotPlace::Here(address.map(|address| address.0)),
            false => SlotPlace::There(name.to_owned()),
        };
        self.place_here_or_there((vm, slot), place, machine, clock)
    }

    /// Tells the daemon where a slot is. If it is here, the daemon has ended the stand-in there:
    /// the address may be that of a new endpoint already.
    fn place_here_or_there(
        &mut self,
        (vm, slot): (VmId, i32),
        place: SlotPlace,
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<(), NodeError> {
        let is_here = matches!(place, SlotPlace::Here(_));
        self.proxy.place(backed(vm, slot), place)?;
        let of_slot = self.stand_ins.keys().filter(|id| is_here && slot_of(**id) == (vm, slot));
        let of_slot: Vec<EndpointId> = of_slot.copied().collect();
        for id in of_slot {
            if let Some(entry) = self.remove(id, machine, clock) {
                entry.stand_in.ended();
            }
            self.names.forget(id);
        }
        Ok(())
    }

    /// A local endpoint may take the place of one whose node has ended.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn place_free(
        &mut self,
        (vm, slot): (VmId, i32),
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<(), NodeError> {
        self.owners.place(vm, slot, self.own);
        let address = self.lost.remove(&(vm, slot)).map(|address| address.0);
        m3ipc_sys::pause_point("proxy.place_free");
        self.place_here_or_there((vm, slot), SlotPlace::Here(address), machine, clock)?;
        m3ipc_sys::pause_point("proxy.place_known");
        Ok(())
    }

    /// The home of a slot is back. Whether the place is given back: no local endpoint has it.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn give_back(
        &mut self,
        (vm, slot): (VmId, i32),
        (home, name): (NodeId, &str),
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<bool, NodeError> {
        let is_back = self.proxy.place(backed(vm, slot), SlotPlace::Back(name.to_owned()))?;
        if is_back {
            // A backup may have come and gone. Its events are read later, and count for nothing.
            machine.gave_back(clock.now_ns(), vm, slot);
            self.owners.place(vm, slot, home);
        }
        Ok(is_back)
    }

    /// A local endpoint lives in a slot that it took before this proxy began.
    pub(super) fn note_adopted(&mut self, id: EndpointId, machine: &Machine) {
        if machine.owners().owner(id) == Some(self.own) {
            self.owners.place(id.vm, id.address.slot(), self.own);
        }
    }
}
