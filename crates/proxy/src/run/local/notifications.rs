//! Notifications between local and remote endpoints.

use super::super::network::Clock;
use super::super::wanted::Turn;
use super::Local;
use super::late_notifications::must_wait;
use m3ipc::Address;
use m3ipc_fabric::{EndpointId, Machine};
use std::time::Instant;

impl Local {
    /// Notifies a local endpoint in the name of a remote one.
    pub fn notify(&mut self, from: EndpointId, to: Address, argument: u64) {
        let Some(node) = self.owners.owner(from) else { return };
        self.late_notifications.add(node, (from, to), argument);
        self.notify_late(from);
    }

    /// Sends the notifications of an endpoint on if it has its stand-in. Whether none waits then.
    fn notify_late(&mut self, from: EndpointId) -> bool {
        if self.turn(from) == Turn::Later {
            return false;
        }
        let waiting = self.late_notifications.take(from);
        if let Some(entry) = self.stand_ins.get_mut(&from) {
            for (to, bits) in waiting {
                // The receiver may have died meanwhile.
                let _ = entry.stand_in.notify(to, bits);
            }
        }
        true
    }

    /// Whether the death of an endpoint must wait for its notifications.
    pub(super) fn postpones_death(&mut self, id: EndpointId) -> bool {
        let waits = self.late_notifications.has(id) && !self.notify_late(id);
        if waits {
            self.late_notifications.postpone_death(id);
        }
        waits
    }

    /// Goes on with the notifications and deaths that wait.
    pub(super) fn step_late_notifications(&mut self, machine: &mut Machine, clock: &Clock) {
        for from in self.late_notifications.senders(Instant::now()) {
            self.notify_late(from);
        }
        for id in self.late_notifications.take_dead() {
            self.remote_died(id, machine, clock);
        }
    }

    /// Keeps a notification until the machine takes it, or its sender ends.
    pub(super) fn keep_notification(&mut self, id: EndpointId, from: Address, bits: u64) {
        if let Some(entry) = self.stand_ins.get_mut(&id) {
            *entry.notified.entry(from).or_default() |= bits;
        }
    }

    /// The machine knows a local endpoint from now on, and takes what is kept of it.
    pub(super) fn send_kept_of(&mut self, from: EndpointId, machine: &mut Machine, clock: &Clock) {
        for (id, entry) in self.stand_ins.iter_mut().filter(|(it, _)| it.vm == from.vm) {
            if let Some(bits) = entry.notified.remove(&from.address)
                && must_wait(machine.notify(clock.now_ns(), from, id.address, bits))
            {
                entry.notified.insert(from.address, bits);
            }
        }
    }
}
