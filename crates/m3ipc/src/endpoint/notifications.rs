//! Delivery of notifications: from links, and through the daemon.

use super::Endpoint;
use super::daemon_notifications::DaemonNotification;
use super::received::{Received, ReceivedKind};
use super::stamps::Moment;
use crate::info::Identity;
use m3ipc_abi::{Address, HARDWARE, Message, SYSTEM};
use m3ipc_link::Counter;
use std::time::{SystemTime, UNIX_EPOCH};

impl Endpoint {
    /// The next notification: of the lowest slot, or (`in_turn`) of the slot after the last one in
    /// turn.
    pub(super) fn next_notification(&mut self, in_turn: bool) -> Option<Received> {
        if let Some(source) = self.inbox.via_daemon.first_source() {
            return self.take_daemon_notification(source);
        }
        if let Some(death) = self.next_death() {
            // Peers may come and go without end.
            self.repeated_notifications += 1;
            return Some(death);
        }
        let after = if in_turn { self.round_robin_slot } else { i32::MIN };
        let index = self.inbox.next_notification(&mut self.peers, after)?;
        let slot = self.peers.get(index).address().slot();
        if slot <= self.latest_notified_slot {
            self.repeated_notifications += 1;
        }
        self.latest_notified_slot = slot;
        if in_turn {
            self.round_robin_slot = slot;
        }
        self.take_notification(index)
    }

    /// Takes the notification of a peer, if it has one. A receive that waited takes the first one:
    /// that one ended the wait.
    pub(super) fn take_notification(&mut self, index: u32) -> Option<Received> {
        self.trace.stamp(Moment::Found);
        let peer = self.peers.get_mut(index);
        let identity = peer.identity;
        let source = identity.address;
        let bits = if self.inbox.has_waited {
            peer.link.take_first_notification()?
        } else {
            peer.link.take_notifications()?
        };
        self.trace.took_notification(source);
        self.taken_ticks = m3ipc_sys::ticks();
        self.control_page.count(Counter::Received);
        self.latest = identity;
        self.latest_kind = Some(ReceivedKind::Notification);
        let statuses = self.page_sets.iter().map(|page_set| &page_set.status);
        self.inbox.record_sender(&mut self.peers, index, statuses);
        if self.inbox.has_waited {
            // Later notifications wait for the next receive.
            self.inbox.poll_link(&mut self.peers, index);
        }
        let has_argument = source == HARDWARE || source == SYSTEM;
        Some(notification_message(source, if has_argument { bits } else { 0 }))
    }

    /// Takes the notification of a source that came through the daemon, if there is one.
    pub(super) fn take_daemon_notification(&mut self, source: Address) -> Option<Received> {
        let since_ns = self.blocked.map_or(0, |(_, _, since_ns)| since_ns);
        let since_ns = self.inbox.has_waited.then_some(since_ns);
        let DaemonNotification { bits, by, .. } = self.inbox.via_daemon.take(source, since_ns)?;
        let (pid, uid, gid) = by.unwrap_or((-1, u32::MAX, u32::MAX));
        self.latest = Identity { address: source, pid, uid, gid };
        self.latest_kind = Some(ReceivedKind::Notification);
        Some(notification_message(source, bits))
    }
}

/// A notification as a message, with the time of day.
pub(super) fn notification_message(source: Address, bits: u64) -> Received {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, rest_ns) = (now.as_secs().cast_signed(), i64::from(now.subsec_nanos()));
    let message = Message::notification(source, bits, seconds, rest_ns);
    Received { message, bytes: 0, is_request: false, is_notification: true, died: None }
}
