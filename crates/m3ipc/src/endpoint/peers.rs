//! The peers of an endpoint: one link each, found by address and by index.

use super::admission::Admission;
use super::call_stop::CallStop;
use super::peer_copies::PeerCopies;
use super::queue_marks::QueueMarks;
use crate::error::Fail;
use crate::info::Identity;
use crate::timeout::Deadline;
use m3ipc_abi::{Address, Code, Message};
use m3ipc_link::{
    Arrival, Link, LinkSide, MessageKind, PeerStatus, ReadyBitmap, SlotState, WaitMode,
};
use m3ipc_sys::DoorbellSender;
use m3ipc_wire::PeerInfo;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// The stamp of an answer to an endpoint that receives without a request. Requests count from 1.
pub(super) const UNASKED: u64 = 0;

/// One peer and everything shared with it.
#[derive(Debug)]
pub(super) struct Peer {
    identity: Identity,
    link: Link,
    status: PeerStatus,
    ready_bitmap: ReadyBitmap,
    /// The index of this link in the peer's ready bitmap.
    index_there: u32,
    doorbell_sender: Option<DoorbellSender>,
    admission: Admission,
    marks: QueueMarks,
    copies: PeerCopies,
}

impl Peer {
    /// Maps a link that the daemon made.
    fn adopt(info: &PeerInfo, fds: Vec<OwnedFd>, side: LinkSide) -> Result<Self, Fail> {
        let Ok([link, status, ready_bitmap]) = <[OwnedFd; 3]>::try_from(fds) else {
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
            ready_bitmap: ReadyBitmap::map(ready_bitmap)?,
            index_there: info.index_there,
            doorbell_sender: None,
            admission: Admission::new(info.may_send, info.may_receive),
            marks: QueueMarks::default(),
            copies: PeerCopies::default(),
        })
    }

    #[inline(always)]
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    #[inline(always)]
    pub(super) fn address(&self) -> Address {
        self.identity.address
    }

    #[inline(always)]
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    #[inline(always)]
    pub(super) fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// How the peer waits.
    #[inline]
    pub(super) fn mode(&self) -> WaitMode {
        self.status.mode()
    }

    /// Whether the peer surely needs no wake-up.
    #[inline(always)]
    pub(super) fn is_awake(&self) -> bool {
        self.status.is_awake()
    }

    /// The CPU on which the peer was last seen.
    #[inline]
    pub(super) fn cpu(&self) -> u32 {
        self.status.cpu()
    }

    /// The messages that may pass now.
    #[inline(always)]
    pub(super) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The messages that may pass now, to be changed.
    #[inline]
    pub(super) fn admission_mut(&mut self) -> &mut Admission {
        &mut self.admission
    }

    /// What the inbox has of this peer.
    #[inline]
    pub(super) fn marks(&mut self) -> &mut QueueMarks {
        &mut self.marks
    }

    /// The copies with this peer.
    #[inline]
    pub(super) fn copies(&self) -> &PeerCopies {
        &self.copies
    }

    /// The copies with this peer, to be changed.
    #[inline]
    pub(super) fn copies_mut(&mut self) -> &mut PeerCopies {
        &mut self.copies
    }

    /// Rings the doorbell of the peer; `false` if there is no sender, or the doorbell is gone.
    pub(super) fn ring(&self) -> bool {
        self.doorbell_sender.as_ref().is_some_and(DoorbellSender::ring)
    }

    /// From now on the doorbell of the peer is rung by this sender.
    pub(super) fn set_doorbell_sender(&mut self, doorbell_sender: DoorbellSender) {
        self.doorbell_sender = Some(doorbell_sender);
    }

    /// Takes a short message of the peer; `None` if its sender withdrew it.
    #[inline(always)]
    pub(super) fn take_short(&mut self, kind: MessageKind, found: SlotState) -> Option<Message> {
        self.link.take_short(kind, found, self.identity.address)
    }

    /// Fails if the link is closed; a dead peer gives the code `died`.
    #[inline]
    pub(super) fn check(&self, died: Code) -> Result<(), CallStop> {
        self.admission.check(died)
    }

    /// Fails if no message of this kind may go to the peer; a dead peer gives the code `died`.
    #[inline]
    pub(super) fn admit(&self, kind: MessageKind, died: Code) -> Result<(), CallStop> {
        self.check(died)?;
        Ok(self.admission.allow(kind)?)
    }

    /// Whether the peer is sending to this endpoint.
    pub(super) fn sends_here(&self) -> bool {
        matches!(self.link.peek(), Ok(Some(arrival)) if is_outgoing(arrival.state.kind()))
    }

    /// Fails if both sides have posted at once, and this endpoint has to give way. The later
    /// message by its stamp is withdrawn; of equal stamps, that of the side that did not ask for
    /// the link.
    pub(super) fn check_crossing(
        &self,
        posted: SlotState,
        deadline: Deadline,
    ) -> Result<(), CallStop> {
        if deadline.no_wait || self.link.is_taken(posted) != Ok(false) {
            return Ok(());
        }
        match self.link.peek() {
            Ok(Some(arrival))
                if is_outgoing(arrival.state.kind())
                    && self.link.is_younger_than(arrival.stamp) =>
            {
                Err(Code::Locked.into())
            }
            _ => Ok(()),
        }
    }

    /// The message or request of the peer, if privileges allow it.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<Arrival> {
        if self.admission.is_closed() {
            return None;
        }
        match self.link.peek() {
            Ok(found) => found.filter(|arrival| {
                let kind = arrival.state.kind();
                is_outgoing(kind) && self.admission.receives(kind) && !self.is_answer_to_pending()
            }),
            Err(_broken) => {
                self.admission.set_poisoned();
                None
            }
        }
    }

    /// A message or request of the peer, as [`poll`](Self::poll), if no request is pending.
    #[inline]
    pub(super) fn look(&self) -> Option<(MessageKind, SlotState)> {
        self.link.look().filter(|(kind, _)| self.admission.receives(*kind))
    }

    /// Whether any message of the peer answers the pending request: the peer has taken that.
    fn is_answer_to_pending(&self) -> bool {
        self.admission.pending().is_some_and(|request| self.link.is_taken(request) == Ok(true))
    }

    /// An answer of the peer to a receive without a request.
    pub(super) fn poll_unasked_reply(&self) -> Option<Arrival> {
        let found = self.link.peek().ok().flatten();
        found.filter(|arrival| {
            arrival.state.kind() == MessageKind::Reply && arrival.stamp == UNASKED
        })
    }

    /// Whether the peer has sent a notification that privileges allow.
    #[inline]
    pub(super) fn has_notification(&self) -> bool {
        self.link.has_notification() && self.admission.receives_notification()
    }

    /// Marks this link in the peer's ready bitmap, unless it is in the peer's hot set.
    #[inline(always)]
    pub(super) fn mark_link_ready(&self) {
        self.ready_bitmap.set_unless_hot(self.index_there, &self.status);
    }
}

/// Whether a message of this kind begins a conversation, and answers no request.
fn is_outgoing(kind: MessageKind) -> bool {
    matches!(kind, MessageKind::Send | MessageKind::Request)
}

/// A link that a later link with the same peer replaced.
#[derive(Debug)]
struct ReplacedLink {
    address: i32,
    /// Whether the peer had taken the last message on it.
    was_taken: bool,
}

/// All peers of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Peers {
    slots: Vec<Option<Box<Peer>>>,
    by_address: HashMap<i32, u32>,
    /// The result of the last search: most calls go to the same peer again.
    last: Option<(i32, u32)>,
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
        match self.last {
            Some((known, index)) if known == address.0 => Some(index),
            _ => self.by_address.get(&address.0).copied(),
        }
    }

    /// The peer of this address and its index. Remembers the result of the search.
    #[inline(always)]
    pub(super) fn find_again(&mut self, address: Address) -> Option<(u32, &mut Peer)> {
        let index = match self.last {
            Some((known, index)) if known == address.0 => index,
            _ => self.search(address)?,
        };
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
        self.last = Some((address.0, index));
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

    /// Whether no link has a message or a notification.
    pub(super) fn are_quiet(&self) -> bool {
        let mut peers = self.slots.iter().flatten();
        peers.all(|peer| peer.link.is_quiet() && !peer.has_notification())
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
            && !self.get(old).admission.is_dead()
        {
            let link = &self.get(old).link;
            let was_taken = link.is_taken(link.posted()) == Ok(true);
            self.replaced_peers.push(ReplacedLink { address: info.address, was_taken });
            if old != info.index_here {
                self.get_mut(old).admission.set_replaced();
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
        self.last = None;
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
        self.get_mut(index).admission.set_dead();
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
        let Some(peer) = self.slots[index as usize].take_if(|peer| peer.admission.is_dead()) else {
            return;
        };
        if self.by_address.get(&peer.address().0) == Some(&index) {
            self.by_address.remove(&peer.address().0);
        }
        self.last = None;
    }

    /// The indexes of all peers.
    pub(super) fn indexes(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_address.values().copied()
    }

    /// The number of peers.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.by_address.len()
    }
}

#[cfg(test)]
mod tests;
