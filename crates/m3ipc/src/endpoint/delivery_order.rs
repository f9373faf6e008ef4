//! The order of deliveries: when messages and notifications may pass each other.
//!
//! Notifications come before messages, and messages of one priority in the order of their arrival.
//! Four bounds keep every sender in reach:
//!
//! | bound | so that |
//! |---|---|
//! | [`REPEATED_NOTIFICATIONS_MAX`] | a peer that notifies without end lets messages through |
//! | [`PASSES_MAX`] | a peer that claims a high priority delays others by so many messages |
//! | [`UNORDERED_MAX`] | a sole sender does not hide others |
//! | [`TICKS_PER_FULL_POLL`] | a cleared bit of the ready bitmap delays its victim only |

/// After so many ticks of work, at most 100 ms, all links are polled (a tick is a nanosecond or
/// less). A hostile peer that clears a bit of the ready bitmap delays its victim by that time.
const TICKS_PER_FULL_POLL: u64 = 100_000_000;
/// A peer that notifies without end delivers at most so many notifications before a message of
/// another peer.
const REPEATED_NOTIFICATIONS_MAX: u32 = 32;
/// Messages that pass others by their priority before the oldest message is the next one.
const PASSES_MAX: u32 = 32;
/// Messages that pass beside the queue before the clock is read. It tells whether all links must be
/// polled.
const UNORDERED_MAX: u32 = 64;
/// Messages of one sender that receives from it take before the clock is read.
const DIRECTED_MAX: u32 = 64;

/// What was delivered since the order was looked at last.
#[derive(Debug)]
pub(super) struct DeliveryOrder {
    /// The time of the last take, and of the last poll of all links because of a take.
    taken_ticks: u64,
    polled_ticks: u64,
    /// Messages that may pass beside the queue before the clock is read.
    passes_left: u32,
    /// The same after it was read.
    passes_max: u32,
    /// Messages that receives from one sender took since the clock was read last.
    directed: u32,
    /// Notifications delivered out of slot order since the last message.
    repeated_notifications: u32,
    latest_notified_slot: i32,
    /// Messages that passed others by their priority since another one was taken.
    passes: u32,
    /// The slot of the last notification that was delivered in round-robin order.
    round_robin_slot: i32,
}

impl Default for DeliveryOrder {
    fn default() -> Self {
        Self {
            taken_ticks: 0,
            polled_ticks: 0,
            passes_left: UNORDERED_MAX,
            passes_max: UNORDERED_MAX,
            directed: 0,
            repeated_notifications: 0,
            latest_notified_slot: i32::MIN,
            passes: 0,
            round_robin_slot: i32::MIN,
        }
    }
}

impl DeliveryOrder {
    /// Makes every message pass the queue, or not.
    pub(super) fn set_always(&mut self, always: bool) {
        self.passes_max = if always { 0 } else { UNORDERED_MAX };
        self.passes_left = self.passes_left.min(self.passes_max);
    }

    /// Whether a message of a sole sender may pass beside the queue.
    #[inline(always)]
    pub(super) fn may_pass_queue(&self) -> bool {
        self.passes_left != 0
    }

    /// Whether notifications were delivered out of slot order since the last message.
    #[inline]
    pub(super) fn has_repeated(&self) -> bool {
        self.repeated_notifications != 0
    }

    /// Whether a notification may come before messages.
    pub(super) fn may_repeat(&self) -> bool {
        self.repeated_notifications < REPEATED_NOTIFICATIONS_MAX
    }

    /// The slot after which the next notification is looked for. `in_turn`: in round-robin order.
    pub(super) fn slot_before_next(&self, in_turn: bool) -> i32 {
        if in_turn { self.round_robin_slot } else { i32::MIN }
    }

    /// Notes the time of a take.
    #[inline]
    pub(super) fn note_time(&mut self, ticks: u64) {
        (self.taken_ticks, self.directed) = (ticks, 0);
    }

    /// Notes that something passed beside the queue. Whether the clock must be read. A notification
    /// that passes comes before no message, so its repetition is none.
    #[inline(always)]
    pub(super) fn note_passing(&mut self) -> bool {
        self.latest_notified_slot = i32::MIN;
        self.passes_left -= 1;
        self.passes_left == 0
    }

    /// Notes that the clock was read for what passed beside the queue. If all links must be polled,
    /// nothing passes the queue before.
    pub(super) fn note_look_at_clock(&mut self) {
        if !self.is_full_poll_due() {
            self.passes_left = self.passes_max;
        }
    }

    /// Notes that a receive from one sender took a message. Whether the clock must be read.
    #[inline(always)]
    pub(super) fn note_directed(&mut self) -> bool {
        self.directed += 1;
        self.directed >= DIRECTED_MAX
    }

    /// Notes that the queue decides about the next delivery.
    pub(super) fn note_look_at_queue(&mut self) {
        self.passes_left = self.passes_max;
    }

    /// Notes that a message was taken out of the queue, or that nothing is left in it.
    pub(super) fn note_message(&mut self) {
        self.repeated_notifications = 0;
        self.latest_notified_slot = i32::MIN;
    }

    /// Whether the oldest message must be the next one. Notes that it is.
    pub(super) fn is_passing_due(&mut self) -> bool {
        let is_due = self.passes >= PASSES_MAX;
        if is_due {
            self.passes = 0;
        }
        is_due
    }

    /// Notes that a message was chosen, and whether it passes others by its priority.
    pub(super) fn note_priority(&mut self, passes: bool) {
        self.passes = if passes { self.passes + 1 } else { 0 };
    }

    /// Notes that a notification of this slot was taken out of the queue.
    pub(super) fn note_notification(&mut self, slot: i32, in_turn: bool) {
        if slot <= self.latest_notified_slot {
            self.repeated_notifications += 1;
        }
        self.latest_notified_slot = slot;
        if in_turn {
            self.round_robin_slot = slot;
        }
    }

    /// Notes the report of a death or the end of a timer: both may come without end.
    pub(super) fn note_own(&mut self) {
        self.repeated_notifications += 1;
    }

    /// Notes that no message waited, so that notifications go on.
    pub(super) fn note_no_message(&mut self) {
        self.repeated_notifications = 0;
    }

    /// Whether all links must be polled now.
    fn is_full_poll_due(&self) -> bool {
        self.taken_ticks.saturating_sub(self.polled_ticks) > TICKS_PER_FULL_POLL
    }

    /// Whether all links must be polled now. Notes the poll.
    #[inline]
    pub(super) fn begin_full_poll(&mut self) -> bool {
        let is_due = self.is_full_poll_due();
        if is_due {
            self.polled_ticks = self.taken_ticks;
        }
        is_due
    }
}
