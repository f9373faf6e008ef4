//! The peers of an endpoint: one link each, found by address and by index.

use super::hot_set::NO_LINK;
use super::peer::Peer;
use crate::error::Fail;
use m3ipc_abi::{Address, NONE};
use m3ipc_link::LinkSide;
use m3ipc_wire::PeerInfo;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// A link that a later link with the same peer replaced.
#[derive(Debug)]
struct ReplacedLink {
    address: i32,
    /// Whether the peer had taken the last message on it.
    was_taken: bool,
}

/// The result of a search. Without one, the address is that of no peer.
#[derive(Clone, Copy, Debug)]
struct Search {
    address: Address,
    index: u32,
}

impl Default for Search {
    fn default() -> Self {
        Self { address: NONE, index: NO_LINK }
    }
}

/// All peers of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Peers {
    slots: Vec<Option<Box<Peer>>>,
    by_address: HashMap<i32, u32>,
    /// The result of the last search: most calls go to the same peer again.
    last: Search,
    /// Peers whose links were replaced during the present call.
    replaced_peers: Vec<ReplacedLink>,
    /// Indexes of replaced links.
    retired: Vec<u32>,
    /// Indexes of dead peers.
    dead: Vec<u32>,
}

impl Peers {
    /// The index of a peer.
    #[inline]
    pub(super) fn find(&self, address: Address) -> Option<u32> {
        if self.last.address == address && address != NONE {
            return Some(self.last.index);
        }
        self.by_address.get(&address.0).copied()
    }

    /// The peer of this address and its index. Remembers the result of the search.
    #[inline(always)]
    pub(super) fn find_again(&mut self, address: Address) -> Option<(u32, &mut Peer)> {
        // Without a last search no peer has the index.
        let index =
            if self.last.address == address { self.last.index } else { self.search(address)? };
        Some((index, self.claimed(index)?))
    }

    #[cold]
    fn search(&mut self, address: Address) -> Option<u32> {
        let index = *self.by_address.get(&address.0)?;
        self.remember(address, index);
        Some(index)
    }

    /// Remembers the result of a search.
    #[inline]
    pub(super) fn remember(&mut self, address: Address, index: u32) {
        self.last = Search { address, index };
    }

    /// The peer of this index.
    ///
    /// # Panics
    /// If there is none. Indexes come from [`Peers::find`] and live as long as the call.
    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> &Peer {
        self.slots[index as usize].as_deref().expect("an index of a living peer")
    }

    /// The peer of this index, to be changed.
    ///
    /// # Panics
    /// As [`Peers::get`].
    #[inline(always)]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Peer {
        self.slots[index as usize].as_deref_mut().expect("an index of a living peer")
    }

    /// The peer of this index, if there is one.
    #[inline(always)]
    pub(super) fn find_index(&self, index: u32) -> Option<&Peer> {
        self.slots.get(index as usize)?.as_deref()
    }

    /// The peer of an index that came from shared memory, if there is one.
    #[inline(always)]
    pub(super) fn claimed(&mut self, index: u32) -> Option<&mut Peer> {
        self.slots.get_mut(index as usize)?.as_deref_mut()
    }

    /// Whether the peer of this index lives, and in the life of this number.
    pub(super) fn is_in_life(&self, index: u32, life: u64) -> bool {
        let peer = self.find_index(index);
        peer.is_some_and(|peer| peer.life() == life && !peer.admission().is_dead())
    }

    /// Whether no link has a message or a notification.
    pub(super) fn are_quiet(&self) -> bool {
        let mut peers = self.slots.iter().flatten();
        peers.all(|peer| peer.link().is_quiet() && !peer.has_notification())
    }

    /// A number above all indexes.
    #[inline]
    pub(super) fn index_limit(&self) -> usize {
        self.slots.len()
    }

    /// Maps a link and returns its index.
    pub(super) fn adopt(
        &mut self,
        info: &PeerInfo,
        fds: Vec<OwnedFd>,
        side: LinkSide,
    ) -> Result<u32, Fail> {
        let peer = Peer::adopt(info, fds, side)?;
        let at = info.index_here as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        // A link made anew after a takeover: the peer never got the old one. A waiting call repeats
        // its message, unless the peer had taken it on the old link all the same.
        if let Some(old) = self.by_address.remove(&info.address)
            && !self.get(old).admission().is_dead()
        {
            let link = self.get(old).link();
            let was_taken = link.may_be_taken(link.posted());
            self.replaced_peers.push(ReplacedLink { address: info.address, was_taken });
            if old != info.index_here {
                self.get_mut(old).admission_mut().set_replaced();
                self.retired.push(old);
            }
        }
        // The former peer of this index may have a later link of another index.
        if let Some(former) = self.slots[at].replace(Box::new(peer))
            && self.by_address.get(&former.address().0) == Some(&info.index_here)
        {
            self.by_address.remove(&former.address().0);
        }
        self.by_address.insert(info.address, info.index_here);
        self.last = Search::default();
        Ok(info.index_here)
    }

    /// Whether the link with this peer was replaced since [`begin_call`](Self::begin_call).
    #[inline]
    pub(super) fn is_replaced_link(&self, address: Address) -> bool {
        self.replaced_peers.iter().any(|link| link.address == address.0)
    }

    /// Whether the peer had taken the last message on a link that was replaced. A repetition of the
    /// message could then run it twice.
    pub(super) fn took_on_replaced_link(&self, address: Address) -> bool {
        self.replaced_peers.iter().any(|link| link.address == address.0 && link.was_taken)
    }

    /// Begins a call, which from now on learns of replaced links.
    #[inline]
    pub(super) fn begin_call(&mut self) {
        if !self.replaced_peers.is_empty() {
            self.replaced_peers.clear();
        }
    }

    /// Whether links died or were replaced, and no call has cleared that yet.
    #[inline]
    pub(super) fn has_gone(&self) -> bool {
        !self.replaced_peers.is_empty() || self.must_forget()
    }

    /// Whether links that died or were replaced are kept until no call uses them.
    #[inline]
    pub(super) fn must_forget(&self) -> bool {
        !self.dead.is_empty() || !self.retired.is_empty()
    }

    /// Notes the death of the peer of this index. The link stays until no call uses it.
    pub(super) fn note_death(&mut self, index: u32) {
        self.get_mut(index).admission_mut().set_dead();
        self.dead.push(index);
    }

    /// Drops the links that died or were replaced. Not while a call uses one.
    pub(super) fn forget_dead(&mut self) {
        for index in std::mem::take(&mut self.dead) {
            self.remove_dead(index);
        }
        for index in std::mem::take(&mut self.retired) {
            self.remove_dead(index);
        }
    }

    /// Drops a dead peer. Another peer with the same index or address stays.
    fn remove_dead(&mut self, index: u32) {
        let Some(peer) = self.slots[index as usize].take_if(|peer| peer.admission().is_dead())
        else {
            return;
        };
        if self.by_address.get(&peer.address().0) == Some(&index) {
            self.by_address.remove(&peer.address().0);
        }
        self.last = Search::default();
    }

    /// The indexes of all peers.
    pub(super) fn indexes(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_address.values().copied()
    }

    /// The peers that live, as far as this endpoint knows.
    pub(super) fn living(&self) -> impl Iterator<Item = &Peer> {
        self.indexes().map(|index| self.get(index)).filter(|peer| !peer.admission().is_dead())
    }

    /// The number of peers.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.by_address.len()
    }
}

#[cfg(test)]
mod tests;
