//! Delivery of notifications: from links, and through the daemon.

use super::Endpoint;
use super::inbox::NextNotification;
use super::received::{Received, ReceivedKind};
use super::stamps::Moment;
use m3ipc_abi::{Address, HARDWARE, SYSTEM};
use m3ipc_link::Counter;

impl Endpoint {
    /// Takes the next notification. `in_turn`: those of other peers than the last ones first.
    pub(super) fn next_notification(&mut self, in_turn: bool) -> Option<Received> {
        match self.inbox.next_notification(&mut self.peers, in_turn)? {
            NextNotification::ViaDaemon(source) => self.take_daemon_notification(source),
            NextNotification::Death => self.inbox.take_death(),
            NextNotification::OnLink(index) => self.take_notification(index),
        }
    }

    /// Takes the notification of a peer, if it has one. A receive that waited takes the first one:
    /// that one ended the wait.
    pub(super) fn take_notification(&mut self, index: u32) -> Option<Received> {
        self.trace.stamp(Moment::Found);
        let peer = self.peers.get_mut(index);
        let identity = peer.identity();
        let source = identity.address;
        let bits = if self.inbox.has_waited() {
            peer.link().take_first_notification()?
        } else {
            peer.link().take_notifications()?
        };
        self.trace.took_notification(source);
        self.inbox.order().note_time(m3ipc_sys::ticks());
        self.session.page().count(Counter::Received);
        self.inbox.note_taken(identity, ReceivedKind::Notification);
        let statuses = self.waiter.pages().statuses();
        self.inbox.record_sender(&mut self.peers, index, statuses);
        if self.inbox.has_waited() {
            // Later notifications wait for the next receive.
            self.inbox.poll_link(&mut self.peers, index);
        }
        let has_argument = source == HARDWARE || source == SYSTEM;
        Some(Received::notification(source, if has_argument { bits } else { 0 }))
    }

    /// Takes the notification of a source that came through the daemon, if there is one.
    pub(super) fn take_daemon_notification(&mut self, source: Address) -> Option<Received> {
        self.inbox.take_from_daemon(source, self.session.slept_since_ns())
    }
}
