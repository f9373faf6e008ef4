//! The inbox: peers with messages for this endpoint, in the order of delivery.
//!
//! Peers publish in their own links. The inbox decides which links to poll: the hot set (the links
//! that sent last), the links in the ready bitmap, and at intervals all links. A sender's stamp
//! counts only between the last take from that sender and now, so no sender can move itself
//! forward.

use super::daemon_notifications::DaemonNotifications;
use super::peers::{Peer, Peers};
use m3ipc_abi::Address;
use m3ipc_link::{HOT_SET_MAX, OwnStatus, ReadyBitmap};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// No link.
pub(super) const NO_LINK: u32 = u32::MAX;

/// Arrivals that were found and not taken.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Messages: stamp for the order, link, stamp as the sender gave it. An entry may be stale; the
    /// link decides.
    messages: BinaryHeap<Reverse<(u64, u32, u64)>>,
    /// Notifications: slot and link, so that the lowest slot comes first.
    notifications: BTreeSet<(i32, u32)>,
    /// Notifications that came through the daemon.
    pub(super) via_daemon: DaemonNotifications,
    /// Whether a poll of the present receive found nothing. The first notification then ends that
    /// receive, and later ones of its source stay pending.
    pub(super) has_waited: bool,
    /// Watched endpoints that died, in the order of their deaths.
    pub(super) deaths: VecDeque<Address>,
    hot: [u32; HOT_SET_MAX],
    next_hot: usize,
    /// The link that joined the hot set last.
    likeliest: u32,
    recent: [u32; HOT_SET_MAX],
    next_recent: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            messages: BinaryHeap::new(),
            notifications: BTreeSet::new(),
            via_daemon: DaemonNotifications::default(),
            has_waited: false,
            deaths: VecDeque::new(),
            hot: [NO_LINK; HOT_SET_MAX],
            next_hot: 0,
            likeliest: NO_LINK,
            recent: [NO_LINK; HOT_SET_MAX],
            next_recent: 0,
        }
    }
}

impl Inbox {
    /// Polls one link.
    #[inline]
    pub(super) fn poll_link(&mut self, peers: &mut Peers, index: u32) {
        if let Some(peer) = peers.claimed(index) {
            self.poll_peer(peer, index);
        }
    }

    #[inline]
    fn poll_peer(&mut self, peer: &mut Peer, index: u32) {
        if !peer.note_queued && peer.has_notification() {
            peer.note_queued = true;
            self.notifications.insert((peer.address().slot(), index));
        }
        if !peer.message_queued
            && let Some(arrival) = peer.poll()
        {
            peer.message_queued = true;
            self.messages.push(Reverse(entry(peer, index, arrival.stamp)));
        }
    }

    /// Polls the links of the hot set.
    #[inline]
    pub(super) fn poll_hot(&mut self, peers: &mut Peers) {
        for at in 0..HOT_SET_MAX {
            let index = self.hot[at];
            if index != NO_LINK {
                self.poll_link(peers, index);
            }
        }
    }

    /// Whether nothing that was found waits for delivery.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
            && self.notifications.is_empty()
            && self.via_daemon.is_empty()
            && self.deaths.is_empty()
    }

    /// Whether the hot set surely has nothing new.
    #[inline]
    pub(super) fn is_quiet(&self, peers: &Peers) -> bool {
        self.hot_links().all(|index| {
            peers
                .find_index(index)
                .is_none_or(|peer| peer.link.is_quiet() && !peer.has_notification())
        })
    }

    /// The one message of the hot set, if there is at most one; `Err` if there is more.
    #[inline]
    pub(super) fn only_message(
        &self,
        peers: &mut Peers,
    ) -> Result<Option<(u32, m3ipc_link::Arrival)>, ()> {
        let mut found = None;
        for index in self.hot_links() {
            let Some(peer) = peers.claimed(index) else { continue };
            if peer.has_notification() {
                return Err(());
            }
            if let Some(arrival) = peer.poll()
                && found.replace((index, arrival)).is_some()
            {
                return Err(());
            }
        }
        Ok(found)
    }

    /// The links of the hot set; after them [`NO_LINK`].
    #[inline(always)]
    pub(super) fn hot_entries(&self) -> &[u32; HOT_SET_MAX] {
        &self.hot
    }

    #[inline]
    pub(super) fn hot_links(&self) -> impl Iterator<Item = u32> + '_ {
        // The hot set fills from its first entry on.
        self.hot.iter().copied().take_while(|index| *index != NO_LINK)
    }

    /// Polls the links in the ready bitmap.
    #[inline]
    pub(super) fn poll_ready(&mut self, peers: &mut Peers, ready_bitmap: &ReadyBitmap) {
        if ready_bitmap.any() {
            ready_bitmap.drain(|index| self.poll_link(peers, index));
        }
    }

    /// Polls all links.
    pub(super) fn poll_all(&mut self, peers: &mut Peers) {
        let all: Vec<u32> = peers.indexes().collect();
        for index in all {
            self.poll_link(peers, index);
        }
    }

    /// The link of the next notification: that of the lowest slot above `after`, or else of the
    /// lowest slot.
    pub(super) fn next_notification(&mut self, peers: &mut Peers, after: i32) -> Option<u32> {
        while let Some(next) = self.notification_after(after) {
            self.notifications.remove(&next);
            let (slot, index) = next;
            // The link of a dead peer may have a new one, which has an entry of its own.
            let peer = peers.claimed(index).filter(|peer| peer.address().slot() == slot);
            if let Some(peer) = peer {
                peer.note_queued = false;
                if peer.has_notification() {
                    return Some(index);
                }
            }
        }
        None
    }

    fn notification_after(&self, after: i32) -> Option<(i32, u32)> {
        if after == i32::MIN {
            return self.notifications.first().copied();
        }
        let above = self.notifications.range((after.saturating_add(1), 0)..).next();
        above.or(self.notifications.first()).copied()
    }

    /// The link with the oldest message that `wanted` accepts.
    #[inline]
    pub(super) fn next_message(
        &mut self,
        peers: &mut Peers,
        wanted: impl Fn(&m3ipc_link::Arrival) -> bool,
    ) -> Option<(u32, m3ipc_link::Arrival)> {
        let mut put_back = Vec::new();
        let mut found = None;
        // Bounds the polls: a sender that replaces its message again and again gets no more of
        // them.
        let mut polls_left = 2 * self.messages.len();
        while let Some(Reverse((stamp, index, given))) = self.messages.pop() {
            let Some(peer) = peers.claimed(index).filter(|peer| peer.message_queued) else {
                continue;
            };
            polls_left = polls_left.saturating_sub(1);
            match peer.poll() {
                // The message of the entry was withdrawn, or taken by a receive from this peer;
                // this message is later.
                Some(arrival) if arrival.stamp != given && polls_left > 0 => {
                    self.messages.push(Reverse(entry(peer, index, arrival.stamp)));
                }
                Some(arrival) if wanted(&arrival) => {
                    peer.message_queued = false;
                    found = Some((index, arrival));
                    break;
                }
                Some(_) => put_back.push(Reverse((stamp, index, given))),
                None => peer.message_queued = false,
            }
        }
        self.messages.extend(put_back);
        found
    }

    /// Records a delivery from this link. A link that delivers twice in a short time joins the hot
    /// set.
    #[inline]
    pub(super) fn record_sender<'a>(
        &mut self,
        peers: &mut Peers,
        index: u32,
        statuses: impl Iterator<Item = &'a OwnStatus>,
    ) {
        if self.hot.contains(&index) {
            return;
        }
        if !self.recent.contains(&index) {
            self.recent[self.next_recent] = index;
            self.next_recent = (self.next_recent + 1) % HOT_SET_MAX;
            return;
        }
        let place = self.next_hot;
        self.next_hot = (place + 1) % HOT_SET_MAX;
        self.likeliest = index;
        let former = std::mem::replace(&mut self.hot[place], index);
        for status in statuses {
            status.set_hot(place, index);
        }
        // Its sender may have relied on the hot set until now, and marked nothing.
        self.poll_link(peers, former);
    }

    /// The link that joined the hot set last: the likeliest sender of the next message.
    #[inline]
    pub(super) fn likeliest(&self) -> Option<u32> {
        Some(self.likeliest).filter(|index| *index != NO_LINK)
    }
}

/// The queue entry of a message. The stamp is bounded by the last take from this sender and by now.
fn entry(peer: &Peer, index: u32, given: u64) -> (u64, u32, u64) {
    (given.clamp(peer.earliest_stamp, m3ipc_sys::ticks().max(peer.earliest_stamp)), index, given)
}
