//! Backups: a slot that another node may take when its home has ended (ADR 63).
//!
//! | | holder |
//! |---|---|
//! | as the registry says | the home |
//! | taken, after the end of the home | the node of the backup |
//!
//! The registry alone names the backup, one for each slot. The holder is what this node knows; the
//! rules by which it changes are those of the machine.

use m3ipc_abi::{Address, Slot};

use super::backup::Backup;
use super::{Owners, OwnersError};
use crate::ids::{EndpointId, NodeId, VmId};

impl Owners {
    /// Names the backup of a slot.
    ///
    /// # Errors
    /// [`OwnersError::Backup`]: no node or the same one has the slot, or it has a backup.
    pub fn add_backup(&mut self, vm: VmId, slot: Slot, backup: Backup) -> Result<(), OwnersError> {
        let home = self.home(EndpointId::new(vm, Address::new(0, slot)));
        let is_other = home.is_some_and(|home| home != backup.node);
        if !is_other || self.places.backups.contains_key(&(vm, slot)) {
            return Err(OwnersError::Backup { vm, slot, node: backup.node });
        }
        self.places.backups.insert((vm, slot), backup);
        Ok(())
    }

    /// The backup of the slot of an endpoint.
    #[must_use]
    pub fn backup(&self, endpoint: EndpointId) -> Option<Backup> {
        if self.places.backups.is_empty() || endpoint.address.is_reserved() {
            return None;
        }
        self.places.backups.get(&(endpoint.vm, endpoint.address.slot())).copied()
    }

    /// All backups, by VM and slot.
    pub fn backups(&self) -> impl Iterator<Item = (VmId, Slot, Backup)> + '_ {
        self.places.backups.iter().map(|(&(vm, slot), backup)| (vm, slot, *backup))
    }

    /// The slots that the node of their backup holds.
    pub fn held(&self) -> impl Iterator<Item = (VmId, Slot, NodeId)> + '_ {
        self.places.held.iter().map(|(&(vm, slot), node)| (vm, slot, *node))
    }

    /// Puts the slot at a node: at the one of its backup, or back at its home. Whether that is new.
    pub fn place(&mut self, vm: VmId, slot: Slot, node: NodeId) -> bool {
        let endpoint = EndpointId::new(vm, Address::new(0, slot));
        if self.owner(endpoint) == Some(node) {
            return false;
        }
        if self.home(endpoint) == Some(node) {
            return self.places.held.remove(&(vm, slot)).is_some();
        }
        let is_backup = self.backup(endpoint).is_some_and(|backup| backup.node == node);
        is_backup && self.places.held.insert((vm, slot), node).is_none()
    }

    /// The same table with the holders that another one knows.
    #[must_use]
    pub fn with_held_of(mut self, known: &Self) -> Self {
        self.places.held.clone_from(&known.places.held);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owners::{EndSign, SlotRange};

    const HOME: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);
    const BACKUP: Backup = Backup { node: OTHER, after: EndSign::Left };

    fn owners() -> Owners {
        let mut owners = Owners::default();
        let range = SlotRange::new(0, 9).expect("not empty");
        owners.add(1, range, HOME).expect("disjoint");
        owners.add_backup(1, 3, BACKUP).expect("another node");
        owners
    }

    #[test]
    fn a_slot_is_at_its_home_or_at_its_one_backup() {
        let mut owners = owners();
        let at = |slot| EndpointId::new(1, Address::new(7, slot));
        assert!(!owners.place(1, 3, HOME) && !owners.place(1, 3, NodeId(3)));
        assert!(!owners.place(1, 4, OTHER), "it has no backup");
        assert!(owners.place(1, 3, OTHER) && !owners.place(1, 3, OTHER));
        assert_eq!([3, 4].map(|slot| owners.owner(at(slot))), [Some(OTHER), Some(HOME)]);
        assert_eq!(owners.home(at(3)), Some(HOME));
        assert!(owners.place(1, 3, HOME));
        assert_eq!(owners, self::owners());
    }

    #[test]
    fn a_backup_that_is_none_is_refused() {
        let mut owners = owners();
        for (slot, node) in [(4, HOME), (10, OTHER), (3, NodeId(3))] {
            let error = owners.add_backup(1, slot, Backup { node, ..BACKUP }).expect_err("none");
            assert!(error.to_string().contains(&format!("slot {slot}")), "{error}");
        }
    }
}
