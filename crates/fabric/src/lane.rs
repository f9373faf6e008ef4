//! One direction of one lane: frames in order, each exactly once, over connections that come and
//! go.
//!
//! The sender keeps each frame until the receiver acknowledges it. The receiver accepts only the
//! next number and keeps nothing. After a gap or a new connection the sender repeats all frames
//! from the first missing one.
//!
//! ```text
//!  numbers:  ... | first            cursor          next |  queue
//!                |  kept: sent, not acknowledged         |  not yet sent
//! ```

use std::collections::VecDeque;

use bytes::Bytes;

use crate::faults::{Fault, Planted};
use crate::packet::Frame;

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub struct LaneLimits {
    /// Frames.
    pub frames: usize,
    /// Bytes of their bodies and heads.
    pub bytes: usize,
}

/// A frame with its body.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub frame: Frame,
    pub body: Bytes,
}

impl Outgoing {
    /// What it counts against the window: its body, and more than its head.
    fn bytes(&self) -> usize {
        self.body.len() + 96
    }

    fn is_end(&self) -> bool {
        matches!(self.frame, Frame::End { .. })
    }
}

/// What became of an arrived number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one.
    Next,
    /// It came before.
    Again,
    /// An earlier one is missing.
    Gap,
}

/// The sending and the receiving half of a lane.
#[derive(Debug)]
pub struct LaneState {
    limits: LaneLimits,
    planted: Planted,
    /// Frames that the peer has not acknowledged.
    kept: VecDeque<Outgoing>,
    kept_bytes: usize,
    /// The number of the first kept frame.
    first: u64,
    /// The number of the frame to transmit next.
    cursor: u64,
    queue: VecDeque<Outgoing>,
    queued_bytes: usize,
    /// Kept and queued ends of calls.
    ends: usize,
    /// The last time at which the peer acknowledged a frame, or at which the lane began to wait.
    progress_ns: u64,
    /// The number that this side expects.
    expected: u64,
    /// Frames and bytes received since the last acknowledgement.
    unacknowledged: (usize, usize),
    /// Whether the next acknowledgement asks for missing frames.
    missing: bool,
    /// The first missing frame that this side has asked for. Each frame behind the same gap would
    /// ask again, and each answer repeats all of them.
    asked: Option<u64>,
}

impl LaneState {
    pub fn new(limits: LaneLimits, planted: Planted) -> Self {
        Self {
            limits,
            planted,
            kept: VecDeque::new(),
            kept_bytes: 0,
            first: 0,
            cursor: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            ends: 0,
            progress_ns: 0,
            expected: 0,
            unacknowledged: (0, 0),
            missing: false,
            asked: None,
        }
    }

    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    pub fn expected(&self) -> u64 {
        self.expected
    }

    pub fn bytes(&self) -> u64 {
        (self.kept_bytes + self.queued_bytes) as u64
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.queue.is_empty()
    }

    pub fn push(&mut self, outgoing: Outgoing) {
        self.queued_bytes += outgoing.bytes();
        self.ends += usize::from(outgoing.is_end());
        self.queue.push_back(outgoing);
    }

    /// Ends of calls that the peer has not acknowledged.
    pub fn ends(&self) -> usize {
        self.ends
    }

    /// Frames that wait behind the window.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether a frame that is pushed now would be transmitted next.
    pub fn has_room(&self) -> bool {
        self.queue.is_empty() && self.cursor == self.next() && self.window_has_room()
    }

    fn window_has_room(&self) -> bool {
        self.kept.len() < self.limits.frames && self.kept_bytes < self.limits.bytes
    }

    /// The next frame to transmit, with its number.
    pub fn transmit(&mut self, now_ns: u64) -> Option<(u64, &Outgoing)> {
        if self.cursor == self.next() {
            if !self.window_has_room() {
                return None;
            }
            let outgoing = self.queue.pop_front()?;
            self.queued_bytes -= outgoing.bytes();
            if self.kept.is_empty() {
                self.progress_ns = now_ns;
            }
            self.kept_bytes += outgoing.bytes();
            self.kept.push_back(outgoing);
        }
        let index = usize::try_from(self.cursor - self.first).ok()?;
        let outgoing = self.kept.get(index)?;
        self.cursor += 1;
        Some((self.cursor - 1, outgoing))
    }

    /// The peer expects this number next. `false` if it cannot: the number was never sent.
    #[must_use]
    pub fn acknowledge(&mut self, now_ns: u64, expected: u64) -> bool {
        if expected > self.next() {
            return false;
        }
        while self.first < expected {
            let Some(done) = self.kept.pop_front() else { break };
            self.kept_bytes -= done.bytes();
            self.ends -= usize::from(done.is_end());
            self.first += 1;
            self.progress_ns = now_ns;
        }
        self.cursor = self.cursor.max(self.first);
        true
    }

    /// A new connection: what the peer has not received is sent again.
    #[must_use]
    pub fn resume(&mut self, now_ns: u64, expected: u64) -> bool {
        self.asked = None;
        let known = self.acknowledge(now_ns, expected);
        if self.planted.has(Fault::ResumeLoses) {
            let next = self.next();
            return self.acknowledge(now_ns, next);
        }
        self.repeat(now_ns);
        known
    }

    /// Sends all kept frames again.
    pub fn repeat(&mut self, now_ns: u64) {
        self.cursor = self.first;
        self.progress_ns = now_ns;
    }

    /// When the kept frames are sent again, unless the peer acknowledges one before.
    pub fn repeat_at_ns(&self, resend_ns: u64) -> Option<u64> {
        (!self.kept.is_empty()).then(|| self.progress_ns.saturating_add(resend_ns))
    }

    /// A frame with this number arrived.
    pub fn arrive(&mut self, sequence: u64, bytes: usize) -> Arrival {
        let gap = sequence > self.expected && !self.planted.has(Fault::GapAccepted);
        let again = sequence < self.expected && !self.planted.has(Fault::DoubleAccepted);
        if gap {
            self.missing |= self.asked != Some(self.expected);
            return Arrival::Gap;
        }
        if again {
            return Arrival::Again;
        }
        self.expected = self.expected.max(sequence + 1);
        self.missing = false;
        self.unacknowledged.0 += 1;
        self.unacknowledged.1 += bytes;
        Arrival::Next
    }

    /// Whether the sender may soon lack room.
    pub fn wants_acknowledgement(&self) -> bool {
        self.unacknowledged.0 >= self.limits.frames / 4
            || self.unacknowledged.1 >= self.limits.bytes / 4
    }

    /// Whether frames are missing.
    pub fn is_missing(&self) -> bool {
        self.missing
    }

    /// An acknowledgement leaves. Whether frames are missing.
    pub fn acknowledged(&mut self) -> bool {
        self.unacknowledged = (0, 0);
        if self.missing {
            self.asked = Some(self.expected);
        }
        std::mem::take(&mut self.missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_frame_is_asked_for_once() {
        let limits = LaneLimits { frames: 8, bytes: 800 };
        let mut lane = LaneState::new(limits, Planted::default());
        let asks = |lane: &mut LaneState, sequence| {
            lane.arrive(sequence, 1);
            lane.acknowledged()
        };
        assert!(!asks(&mut lane, 0));
        assert_eq!([2, 3, 4].map(|later| asks(&mut lane, later)), [true, false, false]);
        // The gap closes before the question has left.
        lane.arrive(1, 1);
        lane.arrive(4, 1);
        assert!(!asks(&mut lane, 2));
        assert!(asks(&mut lane, 5), "the next gap");
        // A new connection: the peer may not have got the question.
        assert!(lane.resume(1, 0));
        assert!(asks(&mut lane, 5));
    }
}
