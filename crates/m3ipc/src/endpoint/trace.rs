//! Tracing of an endpoint: the calls that stamp and record, and the daemon's events about it.
//!
//! Without a tracer an endpoint has no ring, and each moment costs one branch. The drawing of the
//! moments is in `stamps`.

use super::Endpoint;
use super::peers::Peer;
use super::stamps::{Moment, Tracing};
use m3ipc_link::{Arrival, MessageKind, TraceHalf, TraceRecord, TraceRing, TraceWhat};
use m3ipc_wire::{Request, TraceEvent, TraceRequest};
use std::os::fd::OwnedFd;

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
            let answers = matches!(posted.kind(), MessageKind::Reply | MessageKind::Relay);
            let what = (TraceWhat::Message(posted.kind()), posted.sequence(), answers);
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
        let Some(peer) = self.peers.find_index(index).map(Peer::address) else {
            return;
        };
        let Some(tracing) = &mut self.tracing else { return };
        let (what, sequence, answers) = what;
        let record = TraceRecord {
            what,
            sequence,
            answers: if answers { tracing.answers() } else { 0 },
            peer,
            m_type,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            half: tracing.gave(),
        };
        tracing.write(&record);
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
        let Some(peer) = self.peers.find_index(index).map(Peer::address) else {
            return;
        };
        let Some(tracing) = &mut self.tracing else { return };
        let (what, sequence, answers) = match arrival {
            Some(Arrival { state, stamp }) => {
                let answers = matches!(state.kind(), MessageKind::Reply | MessageKind::Relay);
                (
                    TraceWhat::Message(state.kind()),
                    state.sequence(),
                    if answers { stamp } else { 0 },
                )
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
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// client.stamp_now(false);
    /// client.notify(server.address())?; // no record, also if a tracer is there
    /// client.stamp_now(true);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stamp_now(&mut self, stamps: bool) {
        let (from, to) = if stamps {
            (&mut self.suspended, &mut self.tracing)
        } else {
            (&mut self.tracing, &mut self.suspended)
        };
        if let Some(tracing) = from.take() {
            *to = Some(tracing);
            self.fast.close();
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
        let mut tracing = Tracing::new(ring, sharp);
        tracing.begin_within_call();
        self.tracing = Some(Box::new(tracing));
        let _ = self.control.send(&Request::Trace(TraceRequest::Mapped));
    }
}
