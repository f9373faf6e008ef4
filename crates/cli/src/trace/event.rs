//! Traced messages, in order of time.

use m3ipc::trace::{Call, Join, MessageKind, Phases, StampScale, TraceWhat, Transfer};

/// A traced message; an answer carries its whole call.
#[derive(Clone, Copy, Debug)]
pub struct TracedMessage {
    /// The message.
    pub transfer: Transfer,
    /// The call that the message ends.
    pub call: Option<Call>,
}

/// The messages of one poll.
///
/// A batch is filled again at each poll: to allocate its memory each time would cost more than all
/// other work of the tracer.
#[derive(Debug, Default)]
pub struct Batch {
    messages: Vec<TracedMessage>,
    calls: Vec<Call>,
    /// The stamp of each receive, and the index in `messages`.
    order: Vec<(u64, usize)>,
}

impl Batch {
    /// Replaces the content by the messages that the poll has joined.
    pub fn fill(&mut self, join: &mut Join) {
        self.calls.clear();
        self.calls.extend(join.drain_calls());
        // Calls come in the order of their answers.
        let mut calls = self.calls.iter().peekable();
        self.messages.clear();
        self.messages.extend(join.drain_transfers().map(|transfer| {
            let is_answer = transfer.what == TraceWhat::Message(MessageKind::Reply);
            let call = calls.next_if(|call| is_answer && call.answer == transfer).copied();
            TracedMessage { transfer, call }
        }));
        self.order.clear();
        let stamps = self.messages.iter().map(|message| message.transfer.taken);
        self.order.extend(stamps.enumerate().map(|(index, taken)| (taken, index)));
        self.order.sort_unstable();
    }

    /// All messages in order of time.
    pub fn in_order(&self) -> impl Iterator<Item = &TracedMessage> + '_ {
        self.order.iter().map(|(_, index)| &self.messages[*index])
    }
}

/// The verb of a message.
pub fn verb(what: TraceWhat) -> &'static str {
    match what {
        TraceWhat::Message(MessageKind::Send) => "send",
        TraceWhat::Message(MessageKind::Request) => "request",
        TraceWhat::Message(MessageKind::Reply) => "answer",
        TraceWhat::Message(MessageKind::Relay) => "relay",
        TraceWhat::Notify => "notify",
        TraceWhat::Copy => "copy",
    }
}

/// Ticks as whole nanoseconds.
pub fn ns(scale: &StampScale, ticks: u64) -> u64 {
    whole_ns(scale.ns(ticks))
}

/// Nanoseconds, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float-to-integer cast saturates, and a duration is not negative"
)]
pub fn whole_ns(ns: f64) -> u64 {
    ns.round() as u64
}

/// T1 to T5 of a message, in nanoseconds.
pub fn phases_ns(scale: &StampScale, phases: &Phases) -> [u64; 5] {
    let parts = [phases.prepare, phases.deliver, phases.find, phases.handle(), phases.switch()];
    parts.map(|ticks| ns(scale, ticks))
}
