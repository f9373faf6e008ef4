//! The order of deliveries: when messages may pass beside the queue, and when links are polled.
//!
//! | bound | so that |
//! |---|---|
//! | [`UNORDERED_MAX`] | a sole sender does not hide others |
//! | [`TICKS_PER_FULL_POLL`] | a cleared bit of the ready bitmap delays its victim only |
//!
//! [`super::waiting_arrivals`] has the bound on the wait of what was found.

/// After so many ticks of work, at most 100 ms, all links are polled (a tick is a nanosecond or
/// less). A hostile peer that clears a bit of the ready bitmap delays its victim by that time.
const TICKS_PER_FULL_POLL: u64 = 100_000_000;
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
}

impl Default for DeliveryOrder {
    fn default() -> Self {
        Self {
            taken_ticks: 0,
            polled_ticks: 0,
            passes_left: UNORDERED_MAX,
            passes_max: UNORDERED_MAX,
            directed: 0,
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

    /// Notes the time of a take.
    #[inline]
    pub(super) fn note_time(&mut self, ticks: u64) {
        (self.taken_ticks, self.directed) = (ticks, 0);
    }

    /// Notes that something passed beside the queue. Whether the clock must be read.
    #[inline(always)]
    pub(super) fn note_passing(&mut self) -> bool {
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
