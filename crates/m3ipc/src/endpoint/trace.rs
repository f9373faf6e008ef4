//! Stamps: the moments of a call, kept for a ring where somebody traces this VM.
//!
//! ```text
//! begun ── ready ── published ── (waking ── woken)             who gives
//!                       └──> (ran) ── looked ── found ── taken ── done     who takes
//! ```
//! Untraced an endpoint has no ring, and each moment costs one branch that never goes the other way.
//! What a moment costs where it is stamped is in cold functions, away from the path. The halves are written
//! when nobody waits for that any more: of who gives after the peer was woken, of who takes at the call's end.

use super::Endpoint;
use m3ipc_link::{Arrival, MessageKind, SlotState, TraceHalf, TraceRecord, TraceRing, TraceWhat};
use m3ipc_wire::{Request, TraceEvent, TraceRequest};
use std::os::fd::OwnedFd;

/// A moment of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum At {
    /// The call begins.
    Begun = 0,
    /// All is checked; the message is about to be published.
    Ready = 1,
    /// It is published.
    Published = 2,
    /// The peer sleeps, and is about to be woken.
    Waking = 3,
    /// It has been.
    Woken = 4,
    /// The thread runs again, having slept.
    Ran = 5,
    /// A look begins.
    Looked = 6,
    /// It has found something that may be taken.
    Found = 7,
    /// That is taken.
    Taken = 8,
}

const MOMENTS: usize = 9;

/// What a traced endpoint has.
#[derive(Debug)]
pub(super) struct Tracing {
    ring: TraceRing,
    /// Whether stamps wait for what comes before them.
    sharp: bool,
    /// The latest stamps; 0 where the present call has not come there.
    at: [u64; MOMENTS],
    /// The request that the message to be published answers.
    answers: u64,
    /// What the present call has taken; without its last stamp.
    took: Option<TraceRecord>,
}

impl Tracing {
    fn now(&self) -> u64 {
        if self.sharp { m3ipc_sys::stamp() } else { m3ipc_sys::stamp_soon() }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn stamp(&mut self, at: At) {
        match at {
            At::Begun => {
                // A call that took something and did not come to its end.
                if self.took.is_some() {
                    self.done(self.at[At::Taken as usize]);
                }
                self.at[At::Ran as usize] = 0;
            }
            At::Ready => self.at[At::Waking as usize] = 0,
            _ => {}
        }
        self.at[at as usize] = self.now();
    }

    fn of(&self, at: At) -> u64 {
        self.at[at as usize]
    }

    fn gave(&self) -> TraceHalf {
        let wake = (self.of(At::Waking) != 0).then(|| (self.of(At::Waking), self.of(At::Woken)));
        TraceHalf::Gave {
            begun: self.of(At::Begun),
            ready: self.of(At::Ready),
            published: self.of(At::Published),
            wake,
        }
    }

    fn take(&mut self, record: TraceRecord) {
        self.at[At::Taken as usize] = self.now();
        let ran = self.of(At::Ran);
        let half = TraceHalf::Took {
            ran: (ran != 0).then_some(ran),
            looked: self.of(At::Looked),
            found: self.of(At::Found),
            taken: self.of(At::Taken),
            done: 0,
        };
        self.took = Some(TraceRecord { half, ..record });
    }

    /// Stamps that a message is about to be published, in answer to what is owed.
    #[cold]
    #[inline(never)]
    pub(super) fn ready(&mut self, owed: Option<SlotState>) {
        self.answers = owed.map_or(0, |request| request.sequence);
        self.stamp(At::Ready);
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
    /// Stamps a moment, where this endpoint is traced.
    #[inline]
    pub(super) fn stamp(&mut self, at: At) {
        if let Some(tracing) = &mut self.tracing {
            tracing.stamp(at);
        }
    }

    /// Writes down that the message posted last over this link was published, and its peer woken.
    #[inline]
    pub(super) fn trace_gave(&mut self, index: u32, m_type: i32, bytes: usize) {
        if self.tracing.is_some() {
            let posted = self.peers.get(index).link.posted();
            let answers = matches!(posted.kind, MessageKind::Reply | MessageKind::Relay);
            let what = (TraceWhat::Message(posted.kind), posted.sequence, answers);
            self.write_gave(index, what, m_type, bytes);
        }
    }

    /// Writes down a notification, or a copy of so many bytes.
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

    /// Stamps that a message is taken; it is written down when the [call ends](Self::trace_done).
    #[inline]
    pub(super) fn trace_taken(&mut self, index: u32, arrival: Arrival, m_type: i32, bytes: usize) {
        if self.tracing.is_some() {
            self.keep_taken(index, Some(arrival), m_type, bytes);
        }
    }

    /// Keeps a notification until the call ends.
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
        // Its stamps come with `take`.
        let half = TraceHalf::Gave { begun: 0, ready: 0, published: 0, wake: None };
        tracing.take(TraceRecord { what, sequence, answers, peer, m_type, bytes, half });
    }

    /// The call is over: what it took is written down.
    #[inline]
    pub(super) fn trace_done(&mut self) {
        if let Some(tracing) = &mut self.tracing {
            tracing.call_done();
        }
    }

    /// Whether stamps are made while this endpoint is traced: for measurements that compare calls with and
    /// without them.
    pub fn stamp_now(&mut self, stamps: bool) {
        let (from, to) = if stamps {
            (&mut self.set_aside, &mut self.tracing)
        } else {
            (&mut self.tracing, &mut self.set_aside)
        };
        if let Some(tracing) = from.take() {
            *to = Some(tracing);
        }
    }

    /// What the daemon says about tracing.
    #[cold]
    pub(super) fn trace_news(&mut self, news: TraceEvent, fds: Vec<OwnedFd>) {
        let TraceEvent::On { sharp } = news else {
            (self.tracing, self.set_aside) = (None, None);
            return;
        };
        // Where there is no memory for a ring this endpoint is not traced, and works as ever.
        let Some(ring) = fds.into_iter().next().and_then(|memory| TraceRing::map(memory).ok())
        else {
            return;
        };
        let mut tracing = Tracing { ring, sharp, at: [0; MOMENTS], answers: 0, took: None };
        // Of the present call only what is to come is known.
        tracing.at = [tracing.now(); MOMENTS];
        tracing.at[At::Waking as usize] = 0;
        tracing.at[At::Ran as usize] = 0;
        self.tracing = Some(Box::new(tracing));
        let _ = self.control.send(&Request::Trace(TraceRequest::Mapped));
    }
}

/// What stamping costs on this machine, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StampCost {
    /// One moment of a call, stamped as an endpoint does it.
    pub stamp: f64,
    /// One record, written into a ring.
    pub record: f64,
    /// A stamp alone.
    pub bare: f64,
}

/// How often something is done between two looks at the clock, and how often that is repeated.
const COST_TIMES: u32 = 256;
const COST_BLOCKS: usize = 101;

/// Measures what stamping costs: medians of many, in a ring of this process.
///
/// # Errors
/// Where there is no memory for a ring.
pub fn cost(sharp: bool) -> Result<StampCost, std::io::Error> {
    let memory =
        m3ipc_sys::create_memory("m3-trace", m3ipc_link::trace_bytes(crate::trace::SLOTS_DEFAULT))?;
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
            tracing.stamp(At::Found);
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
