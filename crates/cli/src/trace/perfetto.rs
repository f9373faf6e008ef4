//! The trace-event JSON that Perfetto and Chrome read: a track an endpoint, slices of phases, arrows of messages.
//!
//! It is the array form, which both read also where its end is missing: a trace whose writer was killed is whole
//! up to there.
//!
//! # Source
//! Trace Event Format, Google: phases X (complete), M (metadata), s and f (flows).

use super::names::Names;
use super::{Seen, verb};
use m3ipc::Address;
use m3ipc::trace::{Call, Phases, StampScale, Transfer};
use serde_json::json;
use std::collections::HashSet;
use std::io::{self, Write};

/// A file that is being written.
#[derive(Debug)]
pub struct Perfetto<W> {
    file: W,
    /// Endpoints whose tracks have a name.
    named: HashSet<i32>,
    flows: u64,
    empty: bool,
}

impl<W: Write> Perfetto<W> {
    /// Begins one.
    pub fn begin(mut file: W) -> io::Result<Self> {
        file.write_all(b"[\n")?;
        Ok(Self { file, named: HashSet::new(), flows: 0, empty: true })
    }

    /// Writes a message; a call is written with its answer.
    pub fn write(&mut self, seen: &Seen, names: &Names, scale: &StampScale) -> io::Result<()> {
        for endpoint in [seen.transfer.from, seen.transfer.to] {
            self.name(endpoint, names)?;
        }
        let to = Track { names, scale };
        if let Some(call) = &seen.call {
            return self.call(call, &to);
        }
        // The request of a call that is not over yet is written with it.
        if verb(seen.transfer.what) == "request" {
            return Ok(());
        }
        self.transfer(&seen.transfer, &to)
    }

    fn call(&mut self, call: &Call, to: &Track<'_>) -> io::Result<()> {
        let (request, answer) = (&call.request, &call.answer);
        let name = format!("call {} type {}", to.names.name(request.to), request.m_type);
        self.event(to.slice(request.from, &name, request.begun, answer.done))?;
        let name = format!("serve {}", to.names.name(request.from));
        self.event(to.slice(request.to, &name, request.done, answer.begun))?;
        self.transfer(request, to)?;
        self.transfer(answer, to)
    }

    fn transfer(&mut self, transfer: &Transfer, to: &Track<'_>) -> io::Result<()> {
        let Transfer { from, to: taker, begun, ready, published, wake, found, taken, done, .. } =
            *transfer;
        let phases = Phases::of(transfer);
        let looked = found.saturating_sub(phases.find);
        let what = verb(transfer.what);
        self.event(to.slice(from, &format!("T1 prepare {what}"), begun, ready))?;
        self.event(to.slice(from, &format!("T2 deliver {what}"), ready, published))?;
        if from == taker || what == "copy" {
            return Ok(());
        }
        if let Some((waking, woken)) = wake {
            self.event(to.slice(from, "wake", waking, woken))?;
        }
        self.event(to.slice(taker, &format!("T3 find {what}"), looked, found))?;
        self.event(to.slice(taker, &format!("T4 handle {what}"), found, done))?;
        self.flows += 1;
        let flow = |phase: &str, endpoint: Address, at: u64| {
            json!({
                "ph": phase, "cat": "message", "name": "T5 switch", "id": self.flows, "bp": "e",
                "pid": to.names.pid(endpoint), "tid": endpoint.0, "ts": to.us(at),
            })
        };
        let (start, end) = (flow("s", from, published.saturating_sub(1)), flow("f", taker, taken));
        self.event(start)?;
        self.event(end)
    }

    fn name(&mut self, endpoint: Address, names: &Names) -> io::Result<()> {
        if !self.named.insert(endpoint.0) {
            return Ok(());
        }
        let name = names.name(endpoint);
        let (pid, tid) = (names.pid(endpoint), endpoint.0);
        self.event(json!({
            "ph": "M", "name": "process_name", "pid": pid, "tid": tid, "args": { "name": name },
        }))?;
        self.event(json!({
            "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": { "name": format!("endpoint {tid}") },
        }))
    }

    fn event(&mut self, event: serde_json::Value) -> io::Result<()> {
        let before = if std::mem::take(&mut self.empty) { "" } else { ",\n" };
        write!(self.file, "{before}{event}")
    }

    /// Ends the file.
    pub fn end(mut self) -> io::Result<()> {
        self.file.write_all(b"\n]\n")?;
        self.file.flush()
    }
}

/// Whose track, and when.
struct Track<'a> {
    names: &'a Names,
    scale: &'a StampScale,
}

impl Track<'_> {
    /// Microseconds of the monotonic clock.
    fn us(&self, stamp: u64) -> f64 {
        self.scale.monotonic_ns(stamp) as f64 / 1e3
    }

    fn slice(&self, endpoint: Address, name: &str, from: u64, to: u64) -> serde_json::Value {
        json!({
            "ph": "X", "cat": "ipc", "name": name, "pid": self.names.pid(endpoint), "tid": endpoint.0,
            "ts": self.us(from), "dur": self.scale.ns(to.saturating_sub(from)) / 1e3,
        })
    }
}
