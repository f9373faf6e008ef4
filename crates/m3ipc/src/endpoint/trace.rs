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

use super::Endpoint;
use m3ipc_link::{Arrival, MessageKind, SlotState, TraceHalf, TraceRecord, TraceRing, TraceWhat};
use m3ipc_wire::{Request, TraceEvent, TraceRequest};
use std::os::fd::OwnedFd;

/// Records of a ring by default: 512 KiB, or 40 ms of an endpoint with 100,000 calls a second.
pub const SLOTS_DEFAULT: u32 = 8_192;

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
    fn now(&self) -> u64 {
        if self.sharp { m3ipc_sys::stamp() } else { m3ipc_sys::stamp_soon() }
    }

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

    fn gave(&self) -> TraceHalf {
        let wake = (self.of(Moment::Waking) != 0)
            .then(|| (self.of(Moment::Waking), self.of(Moment::Woken)));
        TraceHalf::Gave {
            begun: self.of(Moment::Begun),
            ready: self.of(Moment::Ready),
            published: self.of(Moment::Published),
            wake,
        }
    }

    fn take(&mut self, record: TraceRecord) {
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
        self.answers = owed.map_or(0, |request| request.sequence);
        self.stamp(Moment::Ready);
    }

    #[cold]
    #[inline(never)]
    fn call_done(&mut self) {
        let now = self.now();
        self.done(now);
    }

    fn done(&mut self, at: u64) {
        let Some(mut record) = self.took.take() else { return };
        if let TraceHalf::Took { done, .. } = &mut record.half {
            *done = at;
        }
        self.ring.write(&record);
    }
}

impl Endpoint {
    /// Stamps a moment if this endpoint is traced.
    #[inline]
    pub(super) fn stamp(&mut self, at: Moment) {
        if let Some(tracing) = &mut self.tracing {
            tracing.stamp(at);
        }
    }

    /// Records the message posted last over this link, after its publication and the wake-up of the
    /// peer.
    #[inline]
    pub(super) fn trace_gave(&mut self, index: u32, m_type: i32, bytes: usize) {
        if self.tracing.is_some() {
            let posted = self.peers.get(index).link.posted();
            let answers = matches!(posted.kind, MessageKind::Reply | MessageKind::Relay);
            let what = (TraceWhat::Message(posted.kind), posted.sequence, answers);
            self.write_gave(index, what, m_type, bytes);
        }
    }

    /// Records a notification, or a copy of `bytes` bytes.
    #[inline]
    pub(super) fn trace_unnumbered(&mut self, index: u32, what: TraceWhat, bytes: usize) {
        if self.tracing.is_some() {
            self.write_gave(index, (what, 0, false), 0, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_gave(&mut self, index: u32, what: (TraceWhat, u64, bool), m_type: i32, bytes: usize) {
        let Some(peer) = self.peers.find_index(index).map(super::peers::Peer::address) else {
            return;
        };
        let Some(tracing) = &mut self.tracing else { return };
        let (what, sequence, answers) = what;
        let record = TraceRecord {
            what,
            sequence,
            answers: if answers { tracing.answers } else { 0 },
            peer,
            m_type,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            half: tracing.gave(),
        };
        tracing.ring.write(&record);
    }

    /// Stamps that a message is taken. The record is written at the [end of the
    /// call](Self::trace_done).
    #[inline]
    pub(super) fn trace_taken(&mut self, index: u32, arrival: Arrival, m_type: i32, bytes: usize) {
        if self.tracing.is_some() {
            self.keep_taken(index, Some(arrival), m_type, bytes);
        }
    }

    /// Keeps the record of a notification until the end of the call.
    #[inline]
    pub(super) fn trace_noted(&mut self, index: u32) {
        if self.tracing.is_some() {
            self.keep_taken(index, None, 0, 0);
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_taken(&mut self, index: u32, arrival: Option<Arrival>, m_type: i32, bytes: usize) {
        let Some(peer) = self.peers.find_index(index).map(super::peers::Peer::address) else {
            return;
        };
        let Some(tracing) = &mut self.tracing else { return };
        let (what, sequence, answers) = match arrival {
            Some(Arrival { state, stamp }) => {
                let answers = matches!(state.kind, MessageKind::Reply | MessageKind::Relay);
                (TraceWhat::Message(state.kind), state.sequence, if answers { stamp } else { 0 })
            }
            None => (TraceWhat::Notify, 0, 0),
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        // `Tracing::take` sets the stamps.
        let half = TraceHalf::Gave { begun: 0, ready: 0, published: 0, wake: None };
        tracing.take(TraceRecord { what, sequence, answers, peer, m_type, bytes, half });
    }

    /// Ends the call: writes the record of the message that it took.
    #[inline]
    pub(super) fn trace_done(&mut self) {
        if let Some(tracing) = &mut self.tracing {
            tracing.call_done();
        }
    }

    /// Switches stamping on or off while this endpoint is traced. For measurements that compare
    /// both.
    pub fn stamp_now(&mut self, stamps: bool) {
        let (from, to) = if stamps {
            (&mut self.suspended, &mut self.tracing)
        } else {
            (&mut self.tracing, &mut self.suspended)
        };
        if let Some(tracing) = from.take() {
            *to = Some(tracing);
        }
    }

    /// Applies an event of the daemon about tracing.
    #[cold]
    pub(super) fn apply_trace_event(&mut self, event: TraceEvent, fds: Vec<OwnedFd>) {
        let TraceEvent::On { sharp } = event else {
            (self.tracing, self.suspended) = (None, None);
            return;
        };
        // Without memory for a ring this endpoint works on untraced.
        let Some(ring) = fds.into_iter().next().and_then(|memory| TraceRing::map(memory).ok())
        else {
            return;
        };
        let mut tracing = Tracing { ring, sharp, at: [0; MOMENTS], answers: 0, took: None };
        // The earlier moments of the present call are unknown.
        tracing.at = [tracing.now(); MOMENTS];
        tracing.at[Moment::Waking as usize] = 0;
        tracing.at[Moment::Ran as usize] = 0;
        self.tracing = Some(Box::new(tracing));
        let _ = self.control.send(&Request::Trace(TraceRequest::Mapped));
    }
}

/// The cost of stamping on this machine, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StampCost {
    /// One moment of a call, stamped as an endpoint does it.
    pub stamp: f64,
    /// One record, written into a ring.
    pub record: f64,
    /// A stamp alone.
    pub bare: f64,
}

/// Repetitions between two readings of the clock, and the number of such readings.
const COST_TIMES: u32 = 256;
const COST_BLOCKS: usize = 101;

/// Measures the cost of stamping: medians, in a ring of this process.
///
/// ```
/// let cost = m3ipc::trace::cost(false)?;
/// assert!(cost.record >= 0.0);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The error of the operating system if there is no memory for a ring.
pub fn cost(sharp: bool) -> Result<StampCost, std::io::Error> {
    let memory = m3ipc_sys::create_memory("m3-trace", m3ipc_link::trace_bytes(SLOTS_DEFAULT))?;
    let ring = TraceRing::map(memory)?;
    let mut tracing =
        Some(Box::new(Tracing { ring, sharp, at: [0; MOMENTS], answers: 0, took: None }));
    let record = TraceRecord {
        what: TraceWhat::Message(MessageKind::Request),
        sequence: 1,
        answers: 0,
        peer: m3ipc_abi::Address(1),
        m_type: 0,
        bytes: 0,
        half: TraceHalf::Gave { begun: 1, ready: 2, published: 3, wake: None },
    };
    let stamp = median_of(|| {
        if let Some(tracing) = std::hint::black_box(&mut tracing) {
            tracing.stamp(Moment::Found);
        }
    });
    let record = median_of(|| {
        if let Some(tracing) = std::hint::black_box(&mut tracing) {
            tracing.ring.write(std::hint::black_box(&record));
        }
    });
    let bare = median_of(|| {
        std::hint::black_box(m3ipc_sys::stamp());
    });
    Ok(StampCost { stamp, record, bare })
}

fn median_of(mut once: impl FnMut()) -> f64 {
    let mut blocks: Vec<u64> = (0..COST_BLOCKS)
        .map(|_| {
            let from = m3ipc_sys::stamp();
            (0..COST_TIMES).for_each(|_| once());
            m3ipc_sys::stamp().saturating_sub(from)
        })
        .collect();
    blocks.sort_unstable();
    blocks[COST_BLOCKS / 2] as f64 / f64::from(COST_TIMES)
}
