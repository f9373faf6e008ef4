//! The inbox: who has something for this endpoint, in the order it is to be taken.
//!
//! Peers publish in their own links; the inbox finds out where to look: the
//! links it watches (those that spoke last), the links that are hinted, and
//! now and then all of them. A sender's stamp counts only between the time its
//! previous message was taken and now, so nobody can push himself forward.

use super::peers::{Peer, Peers};
use m3ipc_link::{HOT_SET_MAX, OwnStatus, ReadyBitmap};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// No link.
const NOBODY: u32 = u32::MAX;

/// A notification that no link brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) bits: u64,
    /// Process, user and group of its source; none where nobody stands behind it.
    pub(super) by: Option<(i32, u32, u32)>,
}

/// What has been found and not been taken.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Messages: stamp, index, and the stamp as the sender gave it. An entry may
    /// be stale; the link decides.
    messages: BinaryHeap<Reverse<(u64, u32, u64)>>,
    /// Notifications: slot and index, so the lowest slot comes first.
    notifications: BTreeSet<(i32, u32)>,
    /// Notifications that came through the daemon, by the source's address.
    pub(super) foreign: BTreeMap<i32, Foreign>,
    watch: [u32; HOT_SET_MAX],
    next_place: usize,
    recent: [u32; HOT_SET_MAX],
    next_recent: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            messages: BinaryHeap::new(),
            notifications: BTreeSet::new(),
            foreign: BTreeMap::new(),
            watch: [NOBODY; HOT_SET_MAX],
            next_place: 0,
            recent: [NOBODY; HOT_SET_MAX],
            next_recent: 0,
        }
    }
}

impl Inbox {
    /// Looks at one link.
    #[inline]
    pub(super) fn look_at(&mut self, peers: &mut Peers, index: u32) {
        if let Some(peer) = peers.claimed(index) {
            self.examine(peer, index);
        }
    }

    #[inline]
    fn examine(&mut self, peer: &mut Peer, index: u32) {
        if !peer.noted && peer.has_notification() {
            peer.noted = true;
            self.notifications.insert((peer.address().slot(), index));
        }
        if !peer.queued
            && let Some(arrival) = peer.look()
        {
            peer.queued = true;
            self.messages.push(Reverse(entry(peer, index, arrival.stamp)));
        }
    }

    /// Looks at the watched links.
    #[inline]
    pub(super) fn look_watched(&mut self, peers: &mut Peers) {
        for at in 0..HOT_SET_MAX {
            let index = self.watch[at];
            if index != NOBODY {
                self.look_at(peers, index);
            }
        }
    }

    /// Whether nothing that was found waits to be taken.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.notifications.is_empty() && self.foreign.is_empty()
    }

    /// Whether the watched links surely have nothing new.
    #[inline]
    pub(super) fn is_quiet(&self, peers: &Peers) -> bool {
        self.watched().all(|index| {
            peers
                .find_index(index)
                .is_none_or(|peer| peer.link.is_quiet() && !peer.has_notification())
        })
    }

    /// What the watched links have, where that is one message at most; `Err` where it is more.
    #[inline]
    pub(super) fn only_message(
        &self,
        peers: &mut Peers,
    ) -> Result<Option<(u32, m3ipc_link::Arrival)>, ()> {
        let mut found = None;
        for index in self.watched() {
            let Some(peer) = peers.claimed(index) else { continue };
            if peer.has_notification() {
                return Err(());
            }
            if let Some(arrival) = peer.look()
                && found.replace((index, arrival)).is_some()
            {
                return Err(());
            }
        }
        Ok(found)
    }

    #[inline]
    fn watched(&self) -> impl Iterator<Item = u32> + '_ {
        // Places are filled from the first one on.
        self.watch.iter().copied().take_while(|index| *index != NOBODY)
    }

    /// Looks where hints say.
    #[inline]
    pub(super) fn look_hinted(&mut self, peers: &mut Peers, hints: &ReadyBitmap) {
        if hints.any() {
            hints.drain(|index| self.look_at(peers, index));
        }
    }

    /// Looks at all links.
    pub(super) fn look_everywhere(&mut self, peers: &mut Peers) {
        let all: Vec<u32> = peers.indexes().collect();
        for index in all {
            self.look_at(peers, index);
        }
    }

    /// The notification to deliver next, of the lowest slot above `after` (else of the
    /// lowest): the index of its link.
    pub(super) fn next_notification(&mut self, peers: &mut Peers, after: i32) -> Option<u32> {
        while let Some(next) = self.note_after(after) {
            self.notifications.remove(&next);
            let (_, index) = next;
            if let Some(peer) = peers.claimed(index) {
                peer.noted = false;
                if peer.has_notification() {
                    return Some(index);
                }
            }
        }
        None
    }

    fn note_after(&self, after: i32) -> Option<(i32, u32)> {
        if after == i32::MIN {
            return self.notifications.first().copied();
        }
        let above = self.notifications.range((after.saturating_add(1), 0)..).next();
        above.or(self.notifications.first()).copied()
    }

    /// The link whose message is the oldest; `wanted` says whether it may be taken now.
    #[inline]
    pub(super) fn next_message(
        &mut self,
        peers: &mut Peers,
        wanted: impl Fn(&m3ipc_link::Arrival) -> bool,
    ) -> Option<(u32, m3ipc_link::Arrival)> {
        let mut put_back = Vec::new();
        let mut found = None;
        // Whoever changes his message again and again gets no further look.
        let mut looks_left = 2 * self.messages.len();
        while let Some(Reverse((stamp, index, given))) = self.messages.pop() {
            let Some(peer) = peers.claimed(index).filter(|peer| peer.queued) else { continue };
            looks_left = looks_left.saturating_sub(1);
            match peer.look() {
                // The entry's was withdrawn, or taken by a receive from this peer alone: this one came later.
                Some(arrival) if arrival.stamp != given && looks_left > 0 => {
                    self.messages.push(Reverse(entry(peer, index, arrival.stamp)));
                }
                Some(arrival) if wanted(&arrival) => {
                    peer.queued = false;
                    found = Some((index, arrival));
                    break;
                }
                Some(_) => put_back.push(Reverse((stamp, index, given))),
                None => peer.queued = false,
            }
        }
        self.messages.extend(put_back);
        found
    }

    /// Remembers that this link has spoken; a link that speaks often is watched.
    #[inline]
    pub(super) fn spoke<'a>(
        &mut self,
        peers: &mut Peers,
        index: u32,
        statuses: impl Iterator<Item = &'a OwnStatus>,
    ) {
        if self.watch.contains(&index) {
            return;
        }
        if !self.recent.contains(&index) {
            self.recent[self.next_recent] = index;
            self.next_recent = (self.next_recent + 1) % HOT_SET_MAX;
            return;
        }
        let place = self.next_place;
        self.next_place = (place + 1) % HOT_SET_MAX;
        let former = std::mem::replace(&mut self.watch[place], index);
        for status in statuses {
            status.set_hot(place, index);
        }
        // Its sender may have relied on being watched until now.
        self.look_at(peers, former);
    }

    /// The link that is likeliest to speak next.
    #[inline]
    pub(super) fn likeliest(&self) -> Option<u32> {
        let latest = (self.next_place + HOT_SET_MAX - 1) % HOT_SET_MAX;
        Some(self.watch[latest]).filter(|index| *index != NOBODY)
    }
}

/// The place of a message in the queue: by its stamp, between the time the
/// sender's previous message was taken and now.
fn entry(peer: &Peer, index: u32, given: u64) -> (u64, u32, u64) {
    (given.clamp(peer.floor, m3ipc_sys::ticks().max(peer.floor)), index, given)
}
