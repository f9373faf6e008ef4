//! The operations on links. A link has an index at each of its two parties.
//!
//! Indexes are dense and start at 0 at each endpoint, so that ready bitmaps stay small. A free
//! index is given again. A link counts against the quota of its requester's user. No endpoint can
//! therefore use up the quota of another by requests for links.

use m3ipc_abi::Address;

use super::error::LinkError;
use super::identity::MemberId;
use super::link_table::{LinkEntry, LinkedPeer};
use super::node::Node;
use super::record::Record;

/// A link as its requester sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The index at the requester.
    pub requester_index: u32,
    /// The index at the peer.
    pub peer_index: u32,
    /// Whether this call made the link. The daemon then makes its page, too.
    pub fresh: bool,
}

impl Node {
    /// The link between the requester and a peer; makes one if there is none.
    ///
    /// # Errors
    /// The state of the VM, the requester or the peer; -104 if the privileges allow messages in
    /// neither direction; -12 if the requester's user has too many links.
    pub fn link(&mut self, requester: MemberId, peer: Address) -> Result<Link, LinkError> {
        let vm = self.running(requester.vm)?;
        let own = vm.endpoint(None, requester.address).map_err(LinkError::Requester)?;
        let other = vm.endpoint(Some(requester.address), peer).map_err(LinkError::Peer)?;
        let known = (own.links.get(peer), other.links.get(requester.address));
        if let (Some(here), Some(there)) = known {
            let (requester_index, peer_index) = (here.index, there.index);
            return Ok(Link { requester_index, peer_index, fresh: false });
        }
        let (here, there) = (own.party(), other.party());
        here.check_message_to(there)
            .or_else(|denied| there.check_message_to(here).map_err(|_| denied))?;
        let uid = own.uid;
        let requester_index = own.links.lowest_free_index();
        let peer_index = other.links.lowest_free_index();
        let quota = self.quota().links;
        if uid != 0 && self.usage(uid).links >= quota {
            return Err(LinkError::Quota { uid, quota });
        }
        self.commit(Record::Link { requester, requester_index, peer, peer_index });
        Ok(Link { requester_index, peer_index, fresh: true })
    }

    /// Removes a link while both parties live; `false` if there was none.
    pub fn unlink(&mut self, id: MemberId, peer: Address) -> bool {
        let linked = self.endpoint(id).is_some_and(|endpoint| endpoint.links.get(peer).is_some());
        if linked {
            self.commit(Record::Unlink { id, peer });
        }
        linked
    }

    /// Whether two endpoints of one VM live and have a link.
    #[must_use]
    pub fn is_linked(&self, id: MemberId, peer: Address) -> bool {
        let knows = |id, peer| self.endpoint(id).is_some_and(|it| it.links.get(peer).is_some());
        knows(id, peer) && knows(MemberId::new(id.vm, peer), id.address)
    }

    /// The peers with which an endpoint has links, by address.
    #[must_use]
    pub fn peers(&self, id: MemberId) -> Vec<LinkedPeer> {
        let Some(vm) = self.state.vms.get(&id.vm) else { return Vec::new() };
        let Some(endpoint) = vm.living(id.address) else { return Vec::new() };
        let peer = |(address, entry): (Address, LinkEntry)| {
            let there = vm.living(address)?.links.get(id.address)?;
            Some(LinkedPeer { address, index: entry.index, peer_index: there.index })
        };
        endpoint.links.peers().filter_map(peer).collect()
    }
}
