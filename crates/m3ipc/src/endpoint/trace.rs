//! The trace of an endpoint's calls: stamps and records, and the daemon's events about it.
//!
//! Without a tracer an endpoint has no ring, and each moment costs one branch. The drawing of the
//! moments is in `stamps`.

use super::peer::Peer;
use super::stamps::{Moment, Tracing};
use crate::control::Control;
use m3ipc_abi::Address;
use m3ipc_link::{Arrival, MessageKind, SlotState, TraceHalf, TraceRecord, TraceRing, TraceWhat};
use m3ipc_wire::{Request, TraceEvent, TraceRequest};
use std::os::fd::OwnedFd;

/// The trace of an endpoint's calls.
#[derive(Debug, Default)]
pub(super) struct EndpointTrace {
    /// Present while the VM has a tracer.
    tracing: Option<Box<Tracing>>,
    /// The tracing state while stamps are switched off.
    suspended: Option<Box<Tracing>>,
}

impl EndpointTrace {
    /// Whether calls are stamped.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.tracing.is_some()
    }

    /// Stamps a moment if this endpoint is traced.
    #[inline]
    pub(super) fn stamp(&mut self, at: Moment) {
        if let Some(tracing) = &mut self.tracing {
            tracing.stamp(at);
        }
    }

    /// Stamps that a message is published next, in answer to `owed`.
    #[inline]
    pub(super) fn ready(&mut self, owed: Option<SlotState>) {
        if let Some(tracing) = &mut self.tracing {
            tracing.ready(owed);
        }
    }

    /// Records the message posted last to this peer, after its publication and the wake-up of the
    /// peer.
    #[inline]
    pub(super) fn gave(&mut self, peer: &Peer, m_type: i32, bytes: usize) {
        if self.is_on() {
            let posted = peer.link().posted();
            let answers = matches!(posted.kind(), MessageKind::Reply | MessageKind::Relay);
            let what = (TraceWhat::Message(posted.kind()), posted.sequence(), answers);
            self.write_gave(peer.address(), what, m_type, bytes);
        }
    }

    /// Records a notification, or a copy of `bytes` bytes.
    #[inline]
    pub(super) fn gave_unnumbered(&mut self, peer: &Peer, what: TraceWhat, bytes: usize) {
        if self.is_on() {
            self.write_gave(peer.address(), (what, 0, false), 0, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_gave(
        &mut self,
        peer: Address,
        (what, sequence, answers): (TraceWhat, u64, bool),
        m_type: i32,
        bytes: usize,
    ) {
        let Some(tracing) = &mut self.tracing else { return };
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

    /// Stamps that a message is taken. The record is written at the [end of the call](Self::done).
    #[inline]
    pub(super) fn took(&mut self, peer: Address, arrival: Arrival, m_type: i32, bytes: usize) {
        if self.is_on() {
            self.keep_taken(peer, Some(arrival), m_type, bytes);
        }
    }

    /// Keeps the record of a notification until the end of the call.
    #[inline]
    pub(super) fn took_notification(&mut self, peer: Address) {
        if self.is_on() {
            self.keep_taken(peer, None, 0, 0);
        }
    }

    #[cold]
    #[inline(never)]
    fn keep_taken(&mut self, peer: Address, arrival: Option<Arrival>, m_type: i32, bytes: usize) {
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
    pub(super) fn done(&mut self) {
        if let Some(tracing) = &mut self.tracing {
            tracing.call_done();
        }
    }

    /// Begins within a call: the VM has a tracer from now on.
    fn begin(&mut self, ring: TraceRing, sharp: bool) {
        let mut tracing = Tracing::new(ring, sharp);
        tracing.begin_within_call();
        self.tracing = Some(Box::new(tracing));
    }

    /// Ends the trace: the VM has no tracer any more, or a new daemon knows of none.
    pub(super) fn end(&mut self) {
        (self.tracing, self.suspended) = (None, None);
    }

    /// Switches stamping on or off. `false` if that changes nothing.
    pub(super) fn switch(&mut self, stamps: bool) -> bool {
        let (from, to) = if stamps {
            (&mut self.suspended, &mut self.tracing)
        } else {
            (&mut self.tracing, &mut self.suspended)
        };
        let Some(tracing) = from.take() else { return false };
        *to = Some(tracing);
        true
    }

    /// Applies an event of the daemon about tracing.
    #[cold]
    pub(super) fn apply(&mut self, event: TraceEvent, fds: Vec<OwnedFd>, control: &Control) {
        let TraceEvent::On { sharp } = event else {
            return self.end();
        };
        // Without memory for a ring this endpoint works on untraced.
        if let Some(ring) = fds.into_iter().next().and_then(|memory| TraceRing::map(memory).ok()) {
            self.begin(ring, sharp);
        }
        // The daemon keeps the ring until this answer.
        let _ = control.send(&Request::Trace(TraceRequest::Mapped));
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::{Trace, TraceConfig};
    use m3ipc_wire::DaemonEvent;

    #[test]
    fn an_endpoint_without_memory_for_its_ring_answers() {
        let node = crate::test::node();
        let (mut server, _client) = node.pair_without_link();
        let config = TraceConfig::default();
        let mut trace = Trace::begin(node.directory(), node.vm().id(), config).expect("a trace");
        let (event, _ring, side) = loop {
            match server.session.control_mut().next_event().expect("a daemon") {
                Some(found) if matches!(found.0, DaemonEvent::Trace(_)) => break found,
                _ => std::thread::yield_now(),
            }
        };
        server.apply_event(event, Vec::new(), side);
        server.name_attach("behind").expect("the daemon has got the answer about the ring");
        trace.poll(|_, _| {}).expect("a daemon");
        assert!(trace.traced().any(|traced| traced.address == server.address()));
    }
}
