//! What the machine has decided of slots with a backup.

use super::Life;
use crate::log::say;
use m3ipc::{Address, NodeError};
use m3ipc_fabric::{Action, EndpointId};

impl Life<'_> {
    /// Carries out what the machine has decided of slots with a backup.
    pub(super) fn act_on_place(&mut self, action: &Action) -> Result<(), NodeError> {
        match *action {
            Action::Placed { vm, slot, node } => {
                let name = self.name_of(node);
                say!("backups", "slot {slot} of VM {vm} is at node {name} now");
                let Self { machine, clock, local, .. } = self;
                local.placed((vm, slot), (node, &name), machine, clock)
            }
            Action::PlaceFree { vm, slot } => {
                say!(
                    "backups",
                    "slot {slot} of VM {vm}: its node has ended, or its endpoint moves; \
                     its backup may be bound here"
                );
                let Self { machine, clock, local, .. } = self;
                local.place_free((vm, slot), machine, clock)
            }
            Action::GiveBack { vm, slot } => {
                let home = self.machine.owners().home(EndpointId::new(vm, Address::new(0, slot)));
                let Some(home) = home else { return Ok(()) };
                let name = self.name_of(home);
                let Self { machine, clock, local, .. } = self;
                if local.give_back((vm, slot), (home, &name), machine, clock)? {
                    say!("backups", "slot {slot} of VM {vm} is at node {name} again");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
