//! The peers of an endpoint: one link each, found by address and by index.

use crate::endpoint::Identity;
use crate::endpoint::copy::{Copying, Serving};
use crate::error::Fail;
use m3ipc_abi::{Address, Code};
use m3ipc_link::{Arrival, Link, LinkSide, MessageKind, PeerStatus, ReadyBitmap};
use m3ipc_sys::DoorbellSender;
use m3ipc_wire::PeerInfo;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// The stamp of an answer to one who receives without having asked; requests are counted from 1.
pub(super) const UNASKED: u64 = 0;

/// One peer, and all that is shared with it.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) identity: Identity,
    pub(super) link: Link,
    pub(super) status: PeerStatus,
    pub(super) hints: ReadyBitmap,
    pub(super) clapper: Option<DoorbellSender>,
    /// The index of this link in the peer's hints.
    index_there: u32,
    pub(super) may_send: u32,
    pub(super) may_receive: u32,
    /// When its last message was taken: no later one can have come before.
    pub(super) floor: u64,
    /// It waits in the inbox with a message.
    pub(super) queued: bool,
    /// It waits in the inbox with a notification.
    pub(super) noted: bool,
    /// The daemon says that it has died.
    pub(super) dead: bool,
    /// It broke the rules.
    pub(super) poisoned: bool,
    /// It may copy with this endpoint.
    pub(super) berthed: bool,
    /// How often it has held this endpoint longer than it may.
    pub(super) evictions: u8,
    /// Its window into this endpoint.
    pub(super) serving: Option<Box<Serving>>,
    /// How this endpoint copies with it.
    pub(super) copying: Box<Copying>,
    /// A later link has taken the place of this one.
    replaced: bool,
}

impl Peer {
    /// Takes up a link that the daemon made.
    fn adopt(info: &PeerInfo, fds: Vec<OwnedFd>, side: LinkSide) -> Result<Self, Fail> {
        let Ok([link, status, hints]) = <[OwnedFd; 3]>::try_from(fds) else {
            return Err(crate::control::unexpected());
        };
        Ok(Self {
            identity: Identity {
                address: Address(info.address),
                pid: info.pid,
                uid: info.uid,
                gid: info.gid,
            },
            link: Link::map(link, side)?,
            status: PeerStatus::map(status)?,
            hints: ReadyBitmap::map(hints)?,
            clapper: None,
            index_there: info.index_there,
            may_send: info.may_send,
            may_receive: info.may_receive,
            floor: 0,
            queued: false,
            noted: false,
            dead: false,
            poisoned: false,
            berthed: false,
            evictions: 0,
            serving: None,
            copying: Box::default(),
            replaced: false,
        })
    }

    pub(super) fn address(&self) -> Address {
        self.identity.address
    }

    /// Whether nothing can be said over this link any more, and why.
    #[inline]
    pub(super) fn check(&self, died: Code) -> Result<(), Fail> {
        if self.poisoned {
            return Err(Code::PeerBroke.into());
        }
        if self.replaced {
            return Err(Code::Unknown.into());
        }
        if self.dead { Err(died.into()) } else { Ok(()) }
    }

    /// Whether privileges let a message of this kind go to the peer.
    #[inline]
    pub(super) fn allow(&self, kind: MessageKind) -> Result<(), Fail> {
        if self.may_send & (1 << kind as u32) == 0 { Err(Code::CallDenied.into()) } else { Ok(()) }
    }

    /// The message or request that the peer waits with, if it may be said here.
    #[inline]
    pub(super) fn look(&mut self) -> Option<Arrival> {
        if self.dead || self.poisoned {
            return None;
        }
        match self.link.peek() {
            Ok(found) => found.filter(|arrival| {
                let kind = arrival.state.kind;
                matches!(kind, MessageKind::Send | MessageKind::Request)
                    && self.may_receive & (1 << kind as u32) != 0
            }),
            Err(_broken) => {
                self.poisoned = true;
                None
            }
        }
    }

    /// An answer of the peer to one who receives from it without having asked.
    pub(super) fn look_unasked(&self) -> Option<Arrival> {
        let found = self.link.peek().ok().flatten();
        found.filter(|arrival| arrival.state.kind == MessageKind::Reply && arrival.stamp == UNASKED)
    }

    /// Whether the peer has notified, and may.
    #[inline]
    pub(super) fn has_notification(&self) -> bool {
        self.may_receive & PeerInfo::MAY_NOTIFY != 0 && self.link.has_notification() && !self.dead
    }

    /// Makes the peer look at this link, unless it looks by itself.
    #[inline]
    pub(super) fn hint(&self) {
        if !self.status.is_hot(self.index_there) {
            self.hints.set(self.index_there);
        }
    }
}

/// All peers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    slots: Vec<Option<Box<Peer>>>,
    by_address: HashMap<i32, u32>,
    /// The peer that was looked up last: most calls go to the same one again.
    last: Option<(i32, u32)>,
    /// Peers whose links were made anew in the present call.
    remade: Vec<i32>,
    /// Indexes of links that others have taken the place of.
    retired: Vec<u32>,
}

impl Peers {
    /// The index of this peer.
    #[inline]
    pub(super) fn find(&self, address: Address) -> Option<u32> {
        match self.last {
            Some((known, index)) if known == address.0 => Some(index),
            _ => self.by_address.get(&address.0).copied(),
        }
    }

    /// Remembers the peer that was looked up.
    #[inline]
    pub(super) fn remember(&mut self, address: Address, index: u32) {
        self.last = Some((address.0, index));
    }

    /// The peer of this index.
    ///
    /// # Panics
    /// Where there is none: indexes come from [`Peers::find`] and live as long as the call.
    #[inline]
    pub(super) fn get(&self, index: u32) -> &Peer {
        self.slots[index as usize].as_deref().expect("an index of a living peer")
    }

    /// The peer of this index, to be changed.
    ///
    /// # Panics
    /// As [`Peers::get`].
    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Peer {
        self.slots[index as usize].as_deref_mut().expect("an index of a living peer")
    }

    /// The peer of this index, if there is one.
    #[inline]
    pub(super) fn find_index(&self, index: u32) -> Option<&Peer> {
        self.slots.get(index as usize)?.as_deref()
    }

    /// The peer of an index that came from shared memory, if there is one.
    #[inline]
    pub(super) fn claimed(&mut self, index: u32) -> Option<&mut Peer> {
        self.slots.get_mut(index as usize)?.as_deref_mut()
    }

    /// Takes up a link; returns its index.
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
        // Made anew after a takeover, since the peer never got the old one: what was
        // said there has been heard by nobody, and whoever waits there says it again.
        if let Some(old) = self.by_address.remove(&info.address)
            && !self.get(old).dead
        {
            self.remade.push(info.address);
            if old != info.index_here {
                let old_peer = self.get_mut(old);
                (old_peer.replaced, old_peer.dead) = (true, true);
                self.retired.push(old);
            }
        }
        if let Some(former) = self.slots[at].replace(Box::new(peer)) {
            self.by_address.remove(&former.address().0);
        }
        self.by_address.insert(info.address, info.index_here);
        self.last = None;
        Ok(info.index_here)
    }

    /// Whether the link with this peer was made anew since [`settle`](Self::settle).
    #[inline]
    pub(super) fn is_remade(&self, address: Address) -> bool {
        !self.remade.is_empty() && self.remade.contains(&address.0)
    }

    /// A call begins: from here on it is told of links that are made anew.
    #[inline]
    pub(super) fn settle(&mut self) {
        if !self.remade.is_empty() {
            self.remade.clear();
        }
    }

    /// Lets go of the links that others have taken the place of; not while a call looks at one.
    #[inline]
    pub(super) fn remove_retired(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        for index in std::mem::take(&mut self.retired) {
            self.remove_dead(index);
        }
    }

    /// Lets go of a dead peer; another that came to its index or its address stays.
    pub(super) fn remove_dead(&mut self, index: u32) {
        let Some(peer) = self.slots[index as usize].take_if(|peer| peer.dead) else { return };
        if self.by_address.get(&peer.address().0) == Some(&index) {
            self.by_address.remove(&peer.address().0);
        }
        self.last = None;
    }

    /// All indexes that are in use.
    pub(super) fn indexes(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_address.values().copied()
    }

    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.by_address.len()
    }
}
