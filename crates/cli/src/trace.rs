//! What `m3 trace` makes of the calls it sees: lines as they come, sums at the end, files for other tools.
//!
//! ```text
//! command/trace ── heap: what one poll has put together, in order of time
//!    ├ live: a line a call        ├ tally: histograms, the slowest
//!    └ out ─ perfetto (JSON), pcapng
//! ```

pub mod live;
pub mod names;
pub mod out;
mod pcapng;
mod perfetto;
pub mod tally;

use m3ipc::trace::{Call, Join, MessageKind, Phases, StampScale, TraceWhat, Transfer};

/// One message as it is shown: an answer with its call.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The message.
    pub transfer: Transfer,
    /// The call that it ends.
    pub call: Option<Call>,
}

/// What one poll has put together. Its room is used again: memory that comes and goes costs more than all else here.
#[derive(Debug, Default)]
pub struct Heap {
    all: Vec<Seen>,
    calls: Vec<Call>,
    /// When each came, and its place in `all`.
    order: Vec<(u64, usize)>,
}

impl Heap {
    /// Takes what a poll has put together.
    pub fn fill(&mut self, join: &mut Join) {
        self.calls.clear();
        self.calls.extend(join.drain_calls());
        // Calls come in the order of their answers.
        let mut calls = self.calls.iter().peekable();
        self.all.clear();
        self.all.extend(join.drain_transfers().map(|transfer| {
            let is_answer = transfer.what == TraceWhat::Message(MessageKind::Reply);
            let call = calls.next_if(|call| is_answer && call.answer == transfer).copied();
            Seen { transfer, call }
        }));
        self.order.clear();
        self.order.extend(self.all.iter().enumerate().map(|(at, seen)| (seen.transfer.taken, at)));
        self.order.sort_unstable();
    }

    /// All of it, in order of time.
    pub fn in_order(&self) -> impl Iterator<Item = &Seen> + '_ {
        self.order.iter().map(|(_, at)| &self.all[*at])
    }
}

/// How a message is called.
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
    whole(scale.ns(ticks))
}

/// A figure as a whole number; negative values and NaN become 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float-to-integer cast saturates"
)]
pub fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// T1 to T5 of a message, in nanoseconds.
pub fn phases_ns(scale: &StampScale, phases: &Phases) -> [u64; 5] {
    let parts = [phases.prepare, phases.deliver, phases.find, phases.handle(), phases.switch()];
    parts.map(|ticks| ns(scale, ticks))
}
