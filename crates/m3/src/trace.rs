//! What `m3 trace` makes of the calls it sees: lines as they come, sums at the end, files for other tools.
//!
//! ```text
//! command/trace ── seen: one poll in order of time
//!    ├ live: a line a call        ├ tally: histograms, the slowest
//!    └ out ─ perfetto (JSON), pcapng
//! ```

pub mod live;
pub mod names;
pub mod out;
mod pcapng;
mod perfetto;
pub mod tally;

use m3ipc::trace::{Call, Join, Kind, Phases, StampScale, TraceWhat, Transfer};
use std::collections::HashSet;

/// One message as it is shown: an answer with its call.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The message.
    pub transfer: Transfer,
    /// The call that it ends.
    pub call: Option<Call>,
}

/// What a poll has put together, in order of time.
pub fn seen(join: &mut Join) -> Vec<Seen> {
    let calls = join.take_calls();
    let mut all: Vec<Seen> =
        calls.iter().map(|call| Seen { transfer: call.answer, call: Some(*call) }).collect();
    let key = |transfer: &Transfer| (transfer.from.0, transfer.to.0, transfer.sequence);
    let ended: HashSet<_> = calls.iter().map(|call| key(&call.answer)).collect();
    all.extend(join.take_transfers().into_iter().filter_map(|transfer| {
        let ends = transfer.what == TraceWhat::Message(Kind::Reply) && ended.contains(&key(&transfer));
        (!ends).then_some(Seen { transfer, call: None })
    }));
    all.sort_by_key(|seen| seen.transfer.taken);
    all
}

/// How a message is called.
pub fn verb(what: TraceWhat) -> &'static str {
    match what {
        TraceWhat::Message(Kind::Send) => "send",
        TraceWhat::Message(Kind::Request) => "request",
        TraceWhat::Message(Kind::Reply) => "answer",
        TraceWhat::Message(Kind::Relay) => "relay",
        TraceWhat::Notify => "notify",
        TraceWhat::Copy => "copy",
    }
}

/// Ticks as whole nanoseconds.
pub fn ns(scale: &StampScale, ticks: u64) -> u64 {
    m3_bench::stats::whole(scale.ns(ticks))
}

/// T1 to T5 of a message, in nanoseconds.
pub fn phases_ns(scale: &StampScale, phases: &Phases) -> [u64; 5] {
    let parts = [phases.prepare, phases.deliver, phases.find, phases.handle(), phases.switch()];
    parts.map(|ticks| ns(scale, ticks))
}
