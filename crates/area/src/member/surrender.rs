//! The return of extents that another member needs.

use super::AreaMember;
use crate::own_blocks::OwnBlocks;
use crate::words::{LedgerWords, OwnLedgerWords};
use m3ipc_abi::Extent;

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// Gives up the extents of this member if none of its blocks is in use anywhere. Return them to
    /// the daemon. [`sweep_all`](Self::sweep_all) before, in two rounds, finds the blocks that came
    /// back.
    ///
    /// A block may have its number from one extent and lie in another, so a member gives up all
    /// extents or none.
    pub fn surrender_extents(&mut self) -> Vec<Extent> {
        if !self.blocks.is_idle() {
            return Vec::new();
        }
        let own = self.extents.extents().filter(|extent| extent.allocator == self.index);
        let own: Vec<Extent> = own.copied().collect();
        for extent in &own {
            self.extents.remove(extent.offset);
        }
        self.blocks = OwnBlocks::default();
        own
    }
}
