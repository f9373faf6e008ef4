//! What the inbox has of one peer, and the bound of the peer's stamps.

use super::waiting_arrivals::{PASSES_MAX, Ticket};

/// The marks of a peer in the inbox.
#[derive(Debug, Default)]
pub(super) struct QueueMarks {
    has_message: bool,
    message_ticket: Ticket,
    has_notification: bool,
    notification_ticket: Ticket,
    /// Notifications that were taken while pulses waited.
    passes: u64,
    /// The highest priority of an entry of the present message in the inbox.
    priority: u8,
    /// The time of the last take from this peer: no later message can be older.
    earliest_stamp: u64,
}

impl QueueMarks {
    /// Whether the inbox has a message of this peer.
    #[inline]
    pub(super) fn has_message(&self) -> bool {
        self.has_message
    }

    /// Notes that the inbox has a message of this peer, with this priority.
    #[inline]
    pub(super) fn add_message(&mut self, priority: u8) {
        (self.has_message, self.priority) = (true, priority);
    }

    /// The priority of the message in the inbox.
    #[inline]
    pub(super) fn priority(&self) -> u8 {
        self.priority
    }

    /// Gives the message in the inbox its ticket.
    #[inline]
    pub(super) fn set_message_ticket(&mut self, ticket: Ticket) {
        self.message_ticket = ticket;
    }

    /// Whether the inbox has a message of this peer, with this ticket.
    pub(super) fn is_message(&self, ticket: Ticket) -> bool {
        self.has_message && self.message_ticket == ticket
    }

    /// Notes that the inbox has no message of this peer.
    #[inline]
    pub(super) fn clear_message(&mut self) {
        self.has_message = false;
    }

    /// Whether the inbox has a notification of this peer.
    #[inline]
    pub(super) fn has_notification(&self) -> bool {
        self.has_notification
    }

    /// Notes that the inbox has a notification of this peer.
    #[inline]
    pub(super) fn add_notification(&mut self, ticket: Ticket) {
        (self.has_notification, self.notification_ticket) = (true, ticket);
    }

    /// Notes that the inbox has no notification of this peer.
    #[inline]
    pub(super) fn clear_notification(&mut self) {
        self.has_notification = false;
    }

    /// Whether the inbox has a notification of this peer, with this ticket.
    pub(super) fn is_notification(&self, ticket: Ticket) -> bool {
        self.has_notification && self.notification_ticket == ticket
    }

    /// Whether a pulse of this peer, which waits, comes before its notifications.
    pub(super) fn is_pulse_due(&self) -> bool {
        self.passes >= PASSES_MAX
    }

    /// Notes a take from this peer: of a notification that passed pulses, or of anything else.
    pub(super) fn note_pass(&mut self, passed: bool) {
        self.passes = if passed { self.passes + 1 } else { 0 };
    }

    /// Notes the time of a take from this peer, or of one that failed.
    pub(super) fn note_take(&mut self, ticks: u64) {
        self.earliest_stamp = ticks;
    }

    /// A stamp of this peer as it counts: not before the last take from the peer, nor after now. So
    /// no sender can move itself forward.
    pub(super) fn bound(&self, stamp: u64) -> u64 {
        stamp.clamp(self.earliest_stamp, m3ipc_sys::ticks().max(self.earliest_stamp))
    }
}
