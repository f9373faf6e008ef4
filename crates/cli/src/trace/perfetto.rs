//! Trace-event JSON for Perfetto and Chrome: a track per endpoint, slices for phases, arrows for
//! messages.
//!
//! The file has the array form. Both tools read an array without its end, so the file of a killed
//! tracer is usable.
//!
//! # Source
//! Trace Event Format, Google: events X (complete), M (metadata), s and f (flows).

use super::event::{TracedMessage, verb};
use super::names::EndpointNames;
use m3ipc::Address;
use m3ipc::trace::{Call, Phases, StampScale, Transfer};
use serde_json::json;
use std::collections::HashSet;
use std::io::{self, Write};

/// A writer of trace events.
#[derive(Debug)]
pub struct Perfetto<W> {
    file: W,
    /// Endpoints whose tracks have a name.
    named: HashSet<i32>,
    flows: u64,
    empty: bool,
}

impl<W: Write> Perfetto<W> {
    /// Writes the head of a file.
    pub fn create(mut file: W) -> io::Result<Self> {
        file.write_all(b"[\n")?;
        Ok(Self { file, named: HashSet::new(), flows: 0, empty: true })
    }

    /// Writes a message. A call is written with its answer.
    pub fn write(
        &mut self,
        message: &TracedMessage,
        names: &EndpointNames,
        scale: &StampScale,
    ) -> io::Result<()> {
        for endpoint in [message.transfer.from, message.transfer.to] {
            self.name(endpoint, names)?;
        }
        let tracks = Tracks { names, scale };
        if let Some(call) = &message.call {
            return self.call(call, &tracks);
        }
        // The request of an open call is written with the answer.
        if verb(message.transfer.what) == "request" {
            return Ok(());
        }
        self.transfer(&message.transfer, &tracks)
    }

    fn call(&mut self, call: &Call, tracks: &Tracks<'_>) -> io::Result<()> {
        let (request, answer) = (&call.request, &call.answer);
        let name = format!("call {} type {}", tracks.names.name(request.to), request.m_type);
        self.event(tracks.slice(request.from, &name, request.begun, answer.done))?;
        let name = format!("serve {}", tracks.names.name(request.from));
        self.event(tracks.slice(request.to, &name, request.done, answer.begun))?;
        self.transfer(request, tracks)?;
        self.transfer(answer, tracks)
    }

    fn transfer(&mut self, transfer: &Transfer, tracks: &Tracks<'_>) -> io::Result<()> {
        let Transfer {
            from, to: receiver, begun, ready, published, wake, found, taken, done, ..
        } = *transfer;
        let phases = Phases::of(transfer);
        let find_start = found.saturating_sub(phases.find);
        let verb = verb(transfer.what);
        self.event(tracks.slice(from, &format!("T1 prepare {verb}"), begun, ready))?;
        self.event(tracks.slice(from, &format!("T2 deliver {verb}"), ready, published))?;
        if from == receiver || verb == "copy" {
            return Ok(());
        }
        if let Some((waking, woken)) = wake {
            self.event(tracks.slice(from, "wake", waking, woken))?;
        }
        self.event(tracks.slice(receiver, &format!("T3 find {verb}"), find_start, found))?;
        self.event(tracks.slice(receiver, &format!("T4 handle {verb}"), found, done))?;
        self.flows += 1;
        let flow = |phase: &str, endpoint: Address, at: u64| {
            json!({
                "ph": phase, "cat": "message", "name": "T5 switch", "id": self.flows, "bp": "e",
                "pid": tracks.names.pid(endpoint), "tid": endpoint.0, "ts": tracks.us(at),
            })
        };
        let (start, end) =
            (flow("s", from, published.saturating_sub(1)), flow("f", receiver, taken));
        self.event(start)?;
        self.event(end)
    }

    fn name(&mut self, endpoint: Address, names: &EndpointNames) -> io::Result<()> {
        if !self.named.insert(endpoint.0) {
            return Ok(());
        }
        let name = names.name(endpoint);
        let (pid, tid) = (names.pid(endpoint), endpoint.0);
        self.event(json!({
            "ph": "M", "name": "process_name", "pid": pid, "tid": tid, "args": { "name": name },
        }))?;
        self.event(json!({
            "ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
            "args": { "name": format!("endpoint {tid}") },
        }))
    }

    fn event(&mut self, event: serde_json::Value) -> io::Result<()> {
        let separator = if std::mem::take(&mut self.empty) { "" } else { ",\n" };
        write!(self.file, "{separator}{event}")
    }

    /// Completes the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.write_all(b"\n]\n")?;
        self.file.flush()
    }
}

/// Names of the tracks, and the time scale.
struct Tracks<'a> {
    names: &'a EndpointNames,
    scale: &'a StampScale,
}

impl Tracks<'_> {
    /// A stamp in microseconds of the monotonic clock.
    fn us(&self, stamp: u64) -> f64 {
        self.scale.monotonic_ns(stamp) as f64 / 1e3
    }

    fn slice(&self, endpoint: Address, name: &str, from: u64, to: u64) -> serde_json::Value {
        json!({
            "ph": "X", "cat": "ipc", "name": name,
            "pid": self.names.pid(endpoint), "tid": endpoint.0,
            "ts": self.us(from), "dur": self.scale.ns(to.saturating_sub(from)) / 1e3,
        })
    }
}
