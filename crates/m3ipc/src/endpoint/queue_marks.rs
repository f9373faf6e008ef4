//! What the inbox has of one peer, and the bound of the peer's stamps.

/// The marks of a peer in the inbox.
#[derive(Debug, Default)]
pub(super) struct QueueMarks {
    has_message: bool,
    has_notification: bool,
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

    /// Notes whether the inbox has a message of this peer.
    #[inline]
    pub(super) fn set_message(&mut self, has_message: bool) {
        self.has_message = has_message;
    }

    /// Whether the inbox has a notification of this peer.
    #[inline]
    pub(super) fn has_notification(&self) -> bool {
        self.has_notification
    }

    /// Notes whether the inbox has a notification of this peer.
    #[inline]
    pub(super) fn set_notification(&mut self, has_notification: bool) {
        self.has_notification = has_notification;
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
