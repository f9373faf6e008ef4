//! The inbox: peers with messages for this endpoint, in the order of delivery.
//!
//! Peers publish in their own links. The inbox decides which links to poll: the hot set (the links
//! that sent last), the links in the ready bitmap, and at intervals all links. A sender's stamp
//! counts only between the last take from that sender and now, so no sender can move itself
//! forward. A sender that claims a priority comes before others. No arrival keeps others out: see
//! [`super::waiting_arrivals`].

use super::delivery_order::DeliveryOrder;
use super::hot_set::{HotSet, NO_LINK};
use super::kept_notifications::{Kept, KeptNotification, KeptNotifications};
use super::peer::Peer;
use super::peers::Peers;
use super::received::{Pulse, Received, ReceivedKind};
use super::timer_list::TimerList;
use super::waiting_arrivals::{NextArrival, Ticket, WaitingArrivals};
use super::watch_list::WatchList;
use crate::info::Identity;
use m3ipc_abi::{Address, Code, Message, SYSTEM};
use m3ipc_link::{HOT_SET_MAX, OwnStatus, PULSES_MAX, ReadyBitmap};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The queue entry of a message: its priority; then stamp for the order, link, stamp as the sender
/// gave it.
type Entry = (u8, Reverse<(u64, u32, u64)>);

/// Entries of messages that were taken, beyond one for each peer, before they are removed.
const STALE_MAX: usize = 64;

/// Arrivals that were found and not taken, and the facts about what was taken last.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Messages. An entry may be stale, or one of several of a message whose priority rose; the
    /// link decides.
    messages: BinaryHeap<Entry>,
    /// Notifications: slot and link, so that the lowest slot comes first.
    notifications: BTreeSet<(i32, u32)>,
    /// Notifications that lie on no link.
    kept: KeptNotifications,
    /// All of them, in the order in which they were found.
    waiting: WaitingArrivals,
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
            let ticket = self.waiting.add(NextArrival::Notification(index));
            peer.marks().add_notification(ticket);
            self.notifications.insert((peer.address().slot(), index));
        }
        // Of a message that waits, only a higher priority makes another entry. A peer may change
        // its claim at any moment: it is read once.
        let claimed = peer.marks().has_message().then(|| peer.priority());
        if claimed.is_none_or(|claimed| claimed > peer.marks().priority())
            && let Some(arrival) = peer.poll()
        {
            let priority = claimed.unwrap_or_else(|| peer.priority());
            if claimed.is_none() {
                peer.marks().set_message_ticket(self.waiting.add(NextArrival::Message(index)));
            }
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
            && self.kept.is_empty()
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

    /// All links that may have arrivals were polled, or a peer has ended. Bounds what is kept of
    /// arrivals that were taken, withdrawn or ended with their peers.
    pub(super) fn settle(&mut self, peers: &mut Peers) {
        if self.messages.len() > STALE_MAX + peers.count() {
            self.forget_stale(peers);
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.settle(|what, ticket| self.waits(peers, what, ticket));
        self.waiting = waiting;
    }

    /// The overdue arrival whose turn the next delivery is, if there is one. `wanted` tells which
    /// messages may be taken.
    pub(super) fn overdue(
        &mut self,
        peers: &mut Peers,
        wanted: impl Fn(&m3ipc_link::Arrival) -> bool,
    ) -> Option<NextArrival> {
        let waiting = std::mem::take(&mut self.waiting);
        let found = waiting.overdue(|what, ticket| {
            let is_wanted = match what {
                NextArrival::Message(index) => {
                    peers.claimed(index).and_then(Peer::poll).is_some_and(|found| wanted(&found))
                }
                _ => true,
            };
            is_wanted && self.waits(peers, what, ticket)
        });
        self.waiting = waiting;
        found
    }

    /// Whether the arrival of this ticket still waits. Unmarks one that does not.
    fn waits(&mut self, peers: &mut Peers, what: NextArrival, ticket: Ticket) -> bool {
        match what {
            NextArrival::Message(index) => peers.claimed(index).is_some_and(|peer| {
                let is_marked = peer.marks().is_message(ticket);
                let waits = is_marked && peer.poll().is_some();
                if is_marked && !waits {
                    peer.marks().clear_message();
                }
                waits
            }),
            NextArrival::Notification(index) => {
                let Some(peer) = peers.claimed(index) else { return false };
                let is_marked = peer.marks().is_notification(ticket);
                if is_marked && !peer.has_notification() {
                    self.unmark_notification(peers, index);
                    return false;
                }
                is_marked
            }
            NextArrival::Kept(source) => self.kept.ticket(source) == Some(ticket),
            NextArrival::Death => self.watches.has_ticket(ticket),
            NextArrival::Timer => self.timers.has_ticket(ticket),
        }
    }

    /// Notes a delivery by a receive from ANY, and whether it was that of an overdue arrival.
    pub(super) fn note_delivery(&mut self, was_overdue: bool) {
        self.waiting.note_delivery(was_overdue);
    }

    /// The next notification: a death, else a timer, else that of the lowest slot. What came
    /// through the daemon from a task comes before them.
    pub(super) fn next_notification(&mut self, peers: &mut Peers) -> Option<NextArrival> {
        let kept = self.kept.first_source().map(|source| (source.slot(), source));
        let first_kept = kept.map(|(_, source)| NextArrival::Kept(source));
        if kept.is_some_and(|(slot, _)| slot <= SYSTEM.slot()) {
            return first_kept;
        }
        if self.watches.has_death() {
            return Some(NextArrival::Death);
        }
        if self.timers.has_due() {
            return Some(NextArrival::Timer);
        }
        match self.first_on_link(peers) {
            Some((slot, _)) if kept.is_some_and(|(kept, _)| kept <= slot) => first_kept,
            Some((_, index)) => Some(NextArrival::Notification(index)),
            None => first_kept,
        }
    }

    /// The lowest slot with a notification on its link, and the link.
    fn first_on_link(&mut self, peers: &mut Peers) -> Option<(i32, u32)> {
        while let Some((slot, index)) = self.notifications.first().copied() {
            // The link of a dead peer may have a new one, which has an entry of its own.
            let peer = peers.claimed(index).filter(|peer| peer.address().slot() == slot);
            if peer.as_ref().is_some_and(|peer| peer.has_notification()) {
                return Some((slot, index));
            }
            if let Some(peer) = peer {
                peer.marks().clear_notification();
            }
            self.notifications.remove(&(slot, index));
        }
        None
    }

    /// Notes that the inbox has no notification of the peer of this index.
    pub(super) fn unmark_notification(&mut self, peers: &mut Peers, index: u32) {
        if let Some(peer) = peers.claimed(index) {
            peer.marks().clear_notification();
            self.notifications.remove(&(peer.address().slot(), index));
        }
    }

    /// The message of a peer that `wanted` accepts, as [`next_message`](Self::next_message).
    pub(super) fn message_of(
        &mut self,
        peers: &mut Peers,
        index: u32,
        wanted: impl Fn(&m3ipc_link::Arrival) -> bool,
    ) -> Option<(u32, m3ipc_link::Arrival)> {
        let peer = peers.claimed(index)?;
        let arrival = peer.poll().filter(wanted)?;
        peer.marks().clear_message();
        Some((index, arrival))
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

    /// Leaves one entry for each message that waits. Entries of messages that were taken otherwise
    /// stay behind those of a higher priority.
    #[cold]
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
                None => peer.marks().clear_message(),
            }
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
                    peer.marks().clear_message();
                    found = Some((index, arrival));
                    break;
                }
                Some(_) => put_back.push((priority, Reverse((stamp, index, given)))),
                None => peer.marks().clear_message(),
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
    pub(super) fn keep_from_daemon(&mut self, source: Address, notification: KeptNotification) {
        let had_any = self.kept.has(source);
        self.kept.add(source, notification);
        self.note_kept(source, had_any);
    }

    /// Keeps the notifications and pulses of a peer that ends: its calls were told that they
    /// arrive, and its link goes.
    pub(super) fn keep_last_of(&mut self, peer: &mut Peer) {
        if !peer.has_notification() {
            return;
        }
        let Identity { address, pid, uid, gid } = peer.identity();
        let first = peer.link().take_first_notification();
        let notified = first.into_iter().chain(peer.link().take_notifications());
        let notified = notified.map(|bits| Received::argument_of(address, bits));
        let pulses = std::iter::from_fn(|| {
            peer.link_mut().take_pulse().map(|(code, value)| Pulse { code, value })
        });
        let had_any = self.kept.has(address);
        // A peer that lives on elsewhere could send for ever.
        self.kept.add_left(address, (pid, uid, gid), notified, pulses.take(PULSES_MAX));
        self.note_kept(address, had_any);
    }

    fn note_kept(&mut self, source: Address, had_any: bool) {
        if !had_any {
            self.kept.set_ticket(source, || self.waiting.add(NextArrival::Kept(source)));
        }
    }

    /// Whether any notification lies on no link.
    #[inline]
    pub(super) fn has_any_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Whether a notification of this source lies on no link.
    pub(super) fn has_kept(&self, source: Address) -> bool {
        self.kept.has(source)
    }

    /// Takes a notification, or else a pulse, of a source that lies on no link. `since_ns` is the
    /// start of the sleep of this call, or 0.
    pub(super) fn take_kept(&mut self, source: Address, since_ns: u64) -> Option<Received> {
        let since_ns = self.has_waited.then_some(since_ns);
        let kept = self.kept.take(source, since_ns)?;
        // What is left is a new arrival.
        self.note_kept(source, false);
        let (by, kind) = match kept {
            Kept::Notification(KeptNotification { by, .. }) => (by, ReceivedKind::Notification),
            Kept::Pulse(pulse, by) => (Some(by), ReceivedKind::Pulse(pulse)),
        };
        let (pid, uid, gid) = by.unwrap_or((-1, u32::MAX, u32::MAX));
        self.note_taken(Identity { address: source, pid, uid, gid }, kind);
        Some(match kept {
            Kept::Notification(KeptNotification { bits, .. }) => {
                Received::notification(source, bits)
            }
            Kept::Pulse(Pulse { code, value }, _) => {
                Received::pulse(Message::pulse(source, code, value, 1))
            }
        })
    }

    /// Takes anything that lies on no link, with its source.
    pub(super) fn take_left(&mut self) -> Option<(Address, Kept)> {
        let source = self.kept.first_source()?;
        self.take_left_of(source).map(|kept| (source, kept))
    }

    /// The same of this source.
    pub(super) fn take_left_of(&mut self, source: Address) -> Option<Kept> {
        self.kept.take(source, None)
    }

    /// Notes the death of a peer, for its watcher.
    pub(super) fn note_death(&mut self, peer: Address, was_living: bool) {
        let ticket = || self.waiting.add(NextArrival::Death);
        self.watches.note_death(peer, was_living, ticket);
    }

    /// The endpoint whose death is reported next, if something of it is kept: that comes first.
    pub(super) fn left_by_dead(&self) -> Option<Address> {
        self.watches.first_death().filter(|dead| self.kept.has(*dead))
    }

    /// Looks at the clock for the timers.
    pub(super) fn run_timers(&mut self, now_ns: u64) {
        let Self { timers, waiting, .. } = self;
        timers.run(now_ns, || waiting.add(NextArrival::Timer));
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
