//! Links: which pairs may talk, and under which index each side keeps the other.
//!
//! Indexes are dense, counted per endpoint from 0, so that hint bitmaps stay
//! small; an index is given again after its link is gone. The quota is the
//! asker's: nobody can use up another's by linking to him.

use std::collections::BTreeMap;

use m3ipc_abi::Address;

use super::dense::Dense;
use super::error::LinkError;
use super::identity::MemberId;
use super::journal::Record;
use super::node::Node;

/// A link as its asker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index at the asker.
    pub asker_index: u32,
    /// Its index at the peer.
    pub peer_index: u32,
    /// Whether it was made by this call, so that its page is to be made, too.
    pub fresh: bool,
}

/// The other side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedPeer {
    /// Who it is.
    pub address: Address,
    /// The index of the link at the endpoint that was asked about.
    pub index: u32,
    /// The index of the link at this peer.
    pub peer_index: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) index: u32,
    pub(super) pays: bool,
}

/// The links of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    entries: BTreeMap<Address, Entry>,
    indexes: Dense,
}

/// One side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkEnd {
    pub(super) address: Address,
    pub(super) entry: Entry,
}

impl Links {
    pub(super) fn add(&mut self, peer: Address, index: u32, pays: bool) -> Option<()> {
        let fresh =
            self.indexes.take(index) & self.entries.insert(peer, Entry { index, pays }).is_none();
        fresh.then_some(())
    }

    pub(super) fn remove(&mut self, peer: Address) -> Option<Entry> {
        let entry = self.entries.remove(&peer)?;
        self.indexes.give_back(entry.index);
        Some(entry)
    }

    pub(super) fn get(&self, peer: Address) -> Option<Entry> {
        self.entries.get(&peer).copied()
    }

    pub(super) fn peers(&self) -> Vec<LinkEnd> {
        self.entries
            .iter()
            .map(|(address, entry)| LinkEnd { address: *address, entry: *entry })
            .collect()
    }
}

impl Node {
    /// The link between the asker and a peer, made where there is none.
    ///
    /// # Errors
    /// The VM's, the asker's or the peer's state; -104 where privileges let no
    /// message go in either direction; -12 where the asker's owner has too many links.
    pub fn link(&mut self, asker: MemberId, peer: Address) -> Result<Link, LinkError> {
        let vm = self.running(asker.vm)?;
        let one = vm.endpoint(None, asker.address).map_err(LinkError::Asker)?;
        let other = vm.endpoint(Some(asker.address), peer).map_err(LinkError::Peer)?;
        if let (Some(here), Some(there)) = (one.links.get(peer), other.links.get(asker.address)) {
            return Ok(Link { asker_index: here.index, peer_index: there.index, fresh: false });
        }
        let (here, there) = (asker.address.slot(), peer.slot());
        one.privileges.allow_message(here, &other.privileges, there).or_else(|denied| {
            other.privileges.allow_message(there, &one.privileges, here).map_err(|_| denied)
        })?;
        let uid = one.uid;
        let (asker_index, peer_index) =
            (one.links.indexes.lowest_free(), other.links.indexes.lowest_free());
        let quota = self.quota().links;
        if uid != 0 && self.usage(uid).links >= quota {
            return Err(LinkError::Quota { uid, quota });
        }
        self.commit(Record::Link { asker, asker_index, peer, peer_index });
        Ok(Link { asker_index, peer_index, fresh: true })
    }

    /// Gives a link back before either of its parties died; false where there was none.
    pub fn unlink(&mut self, place: MemberId, peer: Address) -> bool {
        let linked =
            self.endpoint(place).is_some_and(|endpoint| endpoint.links.get(peer).is_some());
        if linked {
            self.commit(Record::Unlink { place, peer });
        }
        linked
    }

    /// The peers that an endpoint has links with, by address.
    #[must_use]
    pub fn peers(&self, place: MemberId) -> Vec<LinkedPeer> {
        let Some(vm) = self.tables.vms.get(&place.vm) else { return Vec::new() };
        let Some(endpoint) = vm.living(place.address) else { return Vec::new() };
        let other_side = |side: LinkEnd| {
            let there = vm.living(side.address)?.links.get(place.address)?;
            Some(LinkedPeer {
                address: side.address,
                index: side.entry.index,
                peer_index: there.index,
            })
        };
        endpoint.links.peers().into_iter().filter_map(other_side).collect()
    }
}
