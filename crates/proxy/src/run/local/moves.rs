//! Moves of endpoints ([ADR 64](../../../../../docs/adr/0064-moving-an-endpoint.md)).
//!
//! | an endpoint moves | its stand-in | messages for it that were not taken |
//! |---|---|---|
//! | from this node | is bound at once, and waits for the claim | -332 in links of this node |
//! | to this node | ends when the place is free | -332 |
//! | between two others | waits for the claim | go back into their slots, and are sent once more |

use super::super::network::Clock;
use super::Local;
use super::places::{backed, slot_of};
use crate::log::say;
use m3ipc::nodes::SlotPlace;
use m3ipc::{Address, Code, NodeError};
use m3ipc_fabric::{EndpointId, Machine, MoveRefusal};

impl Local {
    /// A local endpoint wants to move.
    ///
    /// # Errors
    /// The daemon is gone.
    pub(super) fn begin_move(
        &mut self,
        (vm, address): (i32, i32),
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<(), NodeError> {
        let Some(id) = super::endpoint(vm, address) else { return Ok(()) };
        let node = match machine.move_target(id) {
            Ok(node) => node,
            Err(refusal) => {
                let code = match refusal {
                    MoveRefusal::NoBackup => Code::NoNode,
                    MoveRefusal::LinkDown(_) => Code::NotConn,
                    MoveRefusal::NoEndpoint => Code::Again,
                };
                return self.proxy.refuse_move((vm, id.address), (code, refusal.to_string()));
            }
        };
        let name = self.node_names.get(&node).cloned().unwrap_or_default();
        m3ipc_sys::pause_point("proxy.move_asked");
        if !self.proxy.moves(vm, id.address, &name)? {
            // Its owner has given the move up, or its end is among the events.
            return Ok(());
        }
        m3ipc_sys::pause_point("proxy.move_ended");
        self.end_local(id, machine, clock);
        if machine.moved(clock.now_ns(), id).is_err() {
            machine.died(clock.now_ns(), id);
            // The connection has ended meanwhile. The slot is here as before.
            self.proxy.place(backed(id.vm, id.address.slot()), SlotPlace::Here(None))?;
            return Ok(());
        }
        m3ipc_sys::pause_point("proxy.move_noted");
        say!("moves", "endpoint {} of VM {vm} moves to node {name}", id.address);
        self.owners.place(id.vm, id.address.slot(), node);
        self.forget_sender(id);
        self.end_copies_of(id, machine, clock);
        // Callers of this node wait for the claim with those of others.
        self.wanted.announce(id, node);
        self.turn(id);
        self.wanted.forget(id);
        if let Some(entry) = self.stand_ins.get_mut(&id) {
            entry.begin_wait();
        }
        Ok(())
    }

    /// A remote endpoint moves to another node, perhaps to this one.
    pub fn remote_moved(&mut self, id: EndpointId) {
        let may_come = self.owners.home(id) == Some(self.own)
            || self.owners.backup(id).is_some_and(|backup| backup.node == self.own);
        if may_come {
            self.lost.insert(slot_of(id), id.address);
        }
        self.wanted.forget(id);
        if let Some(entry) = self.stand_ins.get_mut(&id) {
            entry.notified.clear();
            entry.begin_wait();
        }
    }

    /// A call has met an endpoint that had moved. Its message goes back into its slot, once, and is
    /// sent to the node that has the endpoint then. `false` if it cannot.
    pub(super) fn sends_again(&mut self, id: EndpointId, sender: Address) -> bool {
        let Some(entry) = self.stand_ins.get_mut(&id) else { return false };
        let Some(message) = entry.stand_in.number_of_held(sender) else { return false };
        if !entry.stand_in.may_let_go(sender)
            || entry.again.insert(sender, message) == Some(message)
        {
            return false;
        }
        entry.calls.remove(&sender);
        entry.stand_in.let_go(sender);
        if !entry.waits_for_backup() {
            entry.unblock();
        }
        true
    }
}
