//! The inbox: peers with messages for this endpoint, in the order of delivery.
//!
//! Peers publish in their own links. The inbox decides which links to poll: the hot set (the links
//! that sent last), the links in the ready bitmap, and at intervals all links. A sender's stamp
//! counts only between the last take from that sender and now, so no sender can move itself
//! forward. A sender that claims a priority comes before others, within the bound of
//! [`super::delivery_order`].

use super::daemon_notifications::{DaemonNotification, DaemonNotifications};
use super::delivery_order::DeliveryOrder;
use super::hot_set::{HotSet, NO_LINK};
use super::peer::Peer;
use super::peers::Peers;
use super::received::{Received, ReceivedKind};
use super::timer_list::TimerList;
use super::watch_list::WatchList;
use crate::info::Identity;
use m3ipc_abi::{Address, Code, SYSTEM};
use m3ipc_link::{HOT_SET_MAX, OwnStatus, ReadyBitmap};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The next notification, by the way on which it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextNotification {
    /// Through the daemon, from this source.
    ViaDaemon(Address),
    /// The report of a death.
    Death,
    /// The pulse of a timer.
    Timer,
    /// On the link of this index.
    OnLink(u32),
}

/// The queue entry of a message: its priority; then stamp for the order, link, stamp as the sender
/// gave it.
type Entry = (u8, Reverse<(u64, u32, u64)>);

/// The priority of a message that others have passed too often.
const PASSED: u8 = u8::MAX;

/// Arrivals that were found and not taken, and the facts about what was taken last.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Messages. An entry may be stale, or one of several of a message whose priority rose; the
    /// link decides.
    messages: BinaryHeap<Entry>,
    /// Notifications: slot and link, so that the lowest slot comes first.
    notifications: BTreeSet<(i32, u32)>,
    /// Notifications that came through the daemon.
    via_daemon: DaemonNotifications,
    /// Whether a poll of the present receive found nothing. The first notification then ends that
    /// receive, and later ones of its source stay pending.
    has_waited: bool,
    watches: WatchList,
    timers: TimerList,
    hot: HotSet,
    order: DeliveryOrder,
    /// The sender and the kind of what was taken last.
    latest: Option<(Identity, ReceivedKind)>,
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
        if !peer.marks().has_notification() && peer.has_notification() {
            peer.marks().set_notification(true);
            self.notifications.insert((peer.address().slot(), index));
        }
        // Of a message that waits, only a higher priority makes another entry. A peer may change
        // its claim at any moment: it is read once.
        let claimed = peer.marks().has_message().then(|| peer.priority());
        if claimed.is_none_or(|claimed| claimed > peer.marks().priority())
            && let Some(arrival) = peer.poll()
        {
            let priority = claimed.unwrap_or_else(|| peer.priority());
            self.messages.push(entry(peer, index, arrival.stamp, priority));
        }
    }

    /// Polls the links of the hot set.
    #[inline]
    pub(super) fn poll_hot(&mut self, peers: &mut Peers) {
        for at in 0..HOT_SET_MAX {
            let index = self.hot.entries()[at];
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
            && !self.watches.has_death()
            && !self.timers.has_due()
    }

    /// Whether the hot set surely has nothing new.
    #[inline]
    pub(super) fn is_quiet(&self, peers: &Peers) -> bool {
        self.hot.links().all(|index| {
            peers
                .find_index(index)
                .is_none_or(|peer| peer.link().is_quiet() && !peer.has_notification())
        })
    }

    /// The one message of the hot set, if there is at most one; `Err` if there is more.
    #[inline]
    pub(super) fn only_message(
        &self,
        peers: &mut Peers,
    ) -> Result<Option<(u32, m3ipc_link::Arrival)>, ()> {
        let mut found = None;
        for index in self.hot.links() {
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

    /// The links that sent last.
    #[inline(always)]
    pub(super) fn hot(&self) -> &HotSet {
        &self.hot
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

    /// The next notification: one through the daemon, else a death, else a timer, else that of the
    /// lowest slot. `in_turn`: that of the slot after the last one in turn comes before a timer.
    pub(super) fn next_notification(
        &mut self,
        peers: &mut Peers,
        in_turn: bool,
    ) -> Option<NextNotification> {
        if let Some(source) = self.via_daemon.first_source() {
            return Some(NextNotification::ViaDaemon(source));
        }
        if self.watches.has_death() {
            self.order.note_own();
            return Some(NextNotification::Death);
        }
        if self.timers.has_due() && !in_turn {
            self.order.note_own();
            return Some(NextNotification::Timer);
        }
        let on_link = self.next_on_link(peers, self.order.slot_before_next(in_turn));
        let Some((slot, index)) = on_link else {
            return self.timers.has_due().then_some(NextNotification::Timer);
        };
        self.order.note_notification(slot, in_turn);
        Some(NextNotification::OnLink(index))
    }

    /// The slot and the link of the next notification on a link: that of the lowest slot above
    /// `after`, or else of the lowest slot.
    fn next_on_link(&mut self, peers: &mut Peers, after: i32) -> Option<(i32, u32)> {
        while let Some(next) = self.notification_after(after) {
            self.notifications.remove(&next);
            let (slot, index) = next;
            // The link of a dead peer may have a new one, which has an entry of its own.
            let peer = peers.claimed(index).filter(|peer| peer.address().slot() == slot);
            if let Some(peer) = peer {
                peer.marks().set_notification(false);
                if peer.has_notification() {
                    return Some(next);
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

    /// The highest priority of a message that waits.
    pub(super) fn highest_priority(&self, peers: &mut Peers) -> u8 {
        let mut highest = 0;
        for (_, Reverse((_, index, _))) in &self.messages {
            let Some(peer) = peers.claimed(*index) else { continue };
            let priority = peer.priority();
            if priority > highest && peer.poll().is_some() {
                highest = priority;
            }
        }
        highest
    }

    /// Leaves one entry for each message that waits. Entries of messages that were taken at a
    /// higher priority stay behind others, and would be the oldest.
    fn forget_stale(&mut self, peers: &mut Peers) {
        let mut indexes: Vec<u32> =
            self.messages.drain().map(|(_, Reverse((_, index, _)))| index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        for index in indexes {
            let Some(peer) = peers.claimed(index) else { continue };
            if !peer.marks().has_message() {
                continue;
            }
            match peer.poll() {
                Some(arrival) => {
                    let priority = peer.priority();
                    self.messages.push(entry(peer, index, arrival.stamp, priority));
                }
                None => peer.marks().set_message(false),
            }
        }
    }

    /// Lets the oldest message be the next one.
    #[cold]
    fn advance_oldest(&mut self, peers: &mut Peers) {
        self.forget_stale(peers);
        // Of reversed ages the highest one is the oldest.
        if let Some(oldest) = self.messages.iter().map(|(_, age)| *age).max() {
            self.messages.push((PASSED, oldest));
        }
    }

    /// The link with the oldest message of the highest priority that `wanted` accepts.
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
        if self.order.is_passing_due() {
            self.advance_oldest(peers);
        }
        while let Some((priority, Reverse((stamp, index, given)))) = self.messages.pop() {
            let Some(peer) = peers.claimed(index) else { continue };
            if !peer.marks().has_message() {
                continue;
            }
            polls_left = polls_left.saturating_sub(1);
            match peer.poll() {
                // The message of the entry was withdrawn, or taken by a receive from this peer;
                // this message is later.
                Some(arrival) if arrival.stamp != given && polls_left > 0 => {
                    let priority = peer.priority();
                    self.messages.push(entry(peer, index, arrival.stamp, priority));
                }
                Some(arrival) if wanted(&arrival) => {
                    peer.marks().set_message(false);
                    let passes = priority != 0 && priority != PASSED && !self.messages.is_empty();
                    self.order.note_priority(passes);
                    found = Some((index, arrival));
                    break;
                }
                Some(_) => put_back.push((priority, Reverse((stamp, index, given)))),
                None => peer.marks().set_message(false),
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
        let Some((place, former)) = self.hot.record(index) else { return };
        for status in statuses {
            status.set_hot(place, index);
        }
        // Its sender may have relied on the hot set until now, and marked nothing.
        self.poll_link(peers, former);
    }

    /// The timers.
    #[inline]
    pub(super) fn timers(&self) -> &TimerList {
        &self.timers
    }

    /// The timers, to be changed.
    pub(super) fn timers_mut(&mut self) -> &mut TimerList {
        &mut self.timers
    }

    /// The watched endpoints.
    pub(super) fn watches(&mut self) -> &mut WatchList {
        &mut self.watches
    }

    /// The order of deliveries.
    #[inline(always)]
    pub(super) fn order(&mut self) -> &mut DeliveryOrder {
        &mut self.order
    }

    /// Whether nothing is queued that must come before a message of a sole sender.
    #[inline]
    pub(super) fn needs_no_order(&self) -> bool {
        !self.order.has_repeated() && self.is_empty()
    }

    /// Whether a poll of the present receive found nothing.
    #[inline]
    pub(super) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Notes whether a poll of the present receive found nothing.
    #[inline]
    pub(super) fn set_waited(&mut self, has_waited: bool) {
        self.has_waited = has_waited;
    }

    /// The sender and the kind of what was taken last.
    #[inline]
    pub(super) fn latest(&self) -> Option<(Identity, ReceivedKind)> {
        self.latest
    }

    /// Notes what was taken.
    #[inline(always)]
    pub(super) fn note_taken(&mut self, sender: Identity, kind: ReceivedKind) {
        self.latest = Some((sender, kind));
    }

    /// Adds a notification that came through the daemon.
    pub(super) fn add_from_daemon(&mut self, source: Address, notification: DaemonNotification) {
        self.via_daemon.add(source, notification);
    }

    /// Whether any notification came through the daemon.
    #[inline]
    pub(super) fn has_any_from_daemon(&self) -> bool {
        !self.via_daemon.is_empty()
    }

    /// Whether a notification of this source came through the daemon.
    pub(super) fn has_from_daemon(&self, source: Address) -> bool {
        self.via_daemon.has(source)
    }

    /// Takes the notification of a source that came through the daemon, if there is one. `since_ns`
    /// is the start of the sleep of this call, or 0.
    pub(super) fn take_from_daemon(&mut self, source: Address, since_ns: u64) -> Option<Received> {
        let since_ns = self.has_waited.then_some(since_ns);
        let DaemonNotification { bits, by, .. } = self.via_daemon.take(source, since_ns)?;
        let (pid, uid, gid) = by.unwrap_or((-1, u32::MAX, u32::MAX));
        self.note_taken(Identity { address: source, pid, uid, gid }, ReceivedKind::Notification);
        Some(Received::notification(source, bits))
    }

    /// Takes the next report of a death.
    pub(super) fn take_death(&mut self) -> Option<Received> {
        let peer = self.watches.next_death()?;
        let system = Identity { address: SYSTEM, pid: -1, uid: u32::MAX, gid: u32::MAX };
        self.note_taken(system, ReceivedKind::Death(peer));
        let [code, endpoint] = [Code::SrcDied.number(), peer.0].map(i32::cast_unsigned);
        let argument = u64::from(code) << 32 | u64::from(endpoint);
        Some(Received { died: Some(peer), ..Received::notification(SYSTEM, argument) })
    }
}

/// The queue entry of a message, which its peer is marked to have.
fn entry(peer: &mut Peer, index: u32, given: u64, priority: u8) -> Entry {
    peer.marks().add_message(priority);
    (priority, Reverse((peer.marks().bound(given), index, given)))
}
