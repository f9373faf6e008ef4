//! Stamps: the moments of a call, kept for a ring while the VM has a tracer.
//!
//! ```text
//! begun ── ready ── published ── (waking ── woken)             sender
//!                       └──> (ran) ── looked ── found ── taken ── done     receiver
//! ```
//!
//! Without a tracer an endpoint has no ring, and each moment costs one branch. The stamping code
//! lies in cold functions. A record is written when no peer waits for it any more: the sender's
//! after the wake-up of the peer, the receiver's at the end of the call.

use m3ipc_link::{SlotState, TraceHalf, TraceRecord, TraceRing};

/// A moment of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Moment {
    /// The call begins.
    Begun = 0,
    /// Every check has passed; the message is published next.
    Ready = 1,
    /// The message is published.
    Published = 2,
    /// The peer sleeps and is woken next.
    Waking = 3,
    /// The peer has been woken.
    Woken = 4,
    /// The thread runs again after a sleep.
    Ran = 5,
    /// A poll begins.
    Looked = 6,
    /// The poll has found a message.
    Found = 7,
    /// The message is taken.
    Taken = 8,
}

const MOMENTS: usize = 9;

/// The state of a traced endpoint.
#[derive(Debug)]
pub(super) struct Tracing {
    ring: TraceRing,
    /// Whether a stamp waits for all earlier instructions.
    sharp: bool,
    /// The latest stamps; 0 for a moment that the present call has not reached.
    at: [u64; MOMENTS],
    /// The number of the request that the next published message answers.
    answers: u64,
    /// The record of the message taken in the present call, without its last stamp.
    took: Option<TraceRecord>,
}

impl Tracing {
    /// Stamps for this ring, with no call begun.
    pub(super) fn new(ring: TraceRing, sharp: bool) -> Self {
        Self { ring, sharp, at: [0; MOMENTS], answers: 0, took: None }
    }

    /// Sets the earlier moments of the present call, which are unknown, to now.
    pub(super) fn begin_within_call(&mut self) {
        self.at = [self.now(); MOMENTS];
        self.at[Moment::Waking as usize] = 0;
        self.at[Moment::Ran as usize] = 0;
    }

    fn now(&self) -> u64 {
        if self.sharp { m3ipc_sys::stamp() } else { m3ipc_sys::stamp_soon() }
    }

    /// Stamps a moment.
    #[cold]
    #[inline(never)]
    pub(super) fn stamp(&mut self, at: Moment) {
        match at {
            Moment::Begun => {
                // The former call took a message and did not reach its end.
                if self.took.is_some() {
                    self.done(self.at[Moment::Taken as usize]);
                }
                self.at[Moment::Ran as usize] = 0;
            }
            Moment::Ready => self.at[Moment::Waking as usize] = 0,
            _ => {}
        }
        self.at[at as usize] = self.now();
    }

    fn of(&self, at: Moment) -> u64 {
        self.at[at as usize]
    }

    /// The stamps of the message that was given last.
    pub(super) fn gave(&self) -> TraceHalf {
        let wake = (self.of(Moment::Waking) != 0)
            .then(|| (self.of(Moment::Waking), self.of(Moment::Woken)));
        TraceHalf::Gave {
            begun: self.of(Moment::Begun),
            ready: self.of(Moment::Ready),
            published: self.of(Moment::Published),
            wake,
        }
    }

    /// Stamps that a message is taken, and keeps its record until the end of the call.
    pub(super) fn take(&mut self, record: TraceRecord) {
        self.at[Moment::Taken as usize] = self.now();
        let ran = self.of(Moment::Ran);
        let half = TraceHalf::Took {
            ran: (ran != 0).then_some(ran),
            looked: self.of(Moment::Looked),
            found: self.of(Moment::Found),
            taken: self.of(Moment::Taken),
            done: 0,
        };
        self.took = Some(TraceRecord { half, ..record });
    }

    /// Stamps that a message is published next, in answer to `owed`.
    #[cold]
    #[inline(never)]
    pub(super) fn ready(&mut self, owed: Option<SlotState>) {
        self.answers = owed.map_or(0, |request| request.sequence());
        self.stamp(Moment::Ready);
    }

    /// Ends the call: writes the record of the message that it took.
    #[cold]
    #[inline(never)]
    pub(super) fn call_done(&mut self) {
        let now = self.now();
        self.done(now);
    }

    /// The number of the request that the next published message answers.
    pub(super) fn answers(&self) -> u64 {
        self.answers
    }

    /// Writes a record into the ring.
    pub(super) fn write(&mut self, record: &TraceRecord) {
        self.ring.write(record);
    }

    fn done(&mut self, at: u64) {
        let Some(mut record) = self.took.take() else { return };
        if let TraceHalf::Took { done, .. } = &mut record.half {
            *done = at;
        }
        self.ring.write(&record);
    }
}
