//! The links of one endpoint, by peer.

use std::collections::BTreeMap;

use m3ipc_abi::Address;

use super::index_pool::IndexPool;

/// The other side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedPeer {
    /// The peer's address.
    pub address: Address,
    /// The index of the link at the endpoint itself.
    pub index: u32,
    /// The index of the link at the peer.
    pub peer_index: u32,
}

/// A link as one of its parties keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkEntry {
    pub(super) index: u32,
    /// Whether the link counts against the quota of this endpoint's user.
    pub(super) pays: bool,
}

/// The links of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkTable {
    entries: BTreeMap<Address, LinkEntry>,
    indexes: IndexPool,
}

impl LinkTable {
    /// Adds a link; `None` if the peer or the index is in the table already.
    pub(super) fn add(&mut self, peer: Address, index: u32, pays: bool) -> Option<()> {
        let entry = LinkEntry { index, pays };
        let fresh = self.indexes.take(index) & self.entries.insert(peer, entry).is_none();
        fresh.then_some(())
    }

    pub(super) fn remove(&mut self, peer: Address) -> Option<LinkEntry> {
        let entry = self.entries.remove(&peer)?;
        self.indexes.release(entry.index);
        Some(entry)
    }

    pub(super) fn get(&self, peer: Address) -> Option<LinkEntry> {
        self.entries.get(&peer).copied()
    }

    pub(super) fn lowest_free_index(&self) -> u32 {
        self.indexes.lowest_free()
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = (Address, LinkEntry)> {
        self.entries.iter().map(|(address, entry)| (*address, *entry))
    }
}
