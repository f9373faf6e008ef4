//! `m3 trace`: calls of a VM as they happen, with where their time went.

use crate::cli::Common;
use crate::fail::{Fail, Result};
use crate::out::{Out, time};
use crate::reach;
use crate::trace::names::Names;
use crate::trace::out::OutFile;
use crate::trace::tally::Tally;
use crate::trace::{Heap, Seen, live, ns, phases_ns, verb, whole};
use clap::Args;
use m3ipc::Node;
use m3ipc::trace::{Join, StampCost, StampScale, Trace as Tracing, TraceConfig};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The shortest time between two looks at the rings.
const LOOK_NS: u64 = 5_000_000;
/// One part in so many of a CPU is what reading may take; where more is said than that reads, records are lost.
const SHARE: u64 = 10;
/// How often names are looked up anew.
const NAMES: Duration = Duration::from_millis(500);
/// Halves that may wait for their other.
const HALVES: usize = 1 << 17;
/// Stamps and records of one call, both sides: awake.
const CALL_STAMPS: f64 = 16.0;
const CALL_RECORDS: f64 = 4.0;

/// Watch the calls of a VM: who calls whom, how long it takes, and in which phase. For the VM's owner and root.
///
/// Ends with ^C, then prints histograms per verb and pair, the slowest calls, what was lost and what it cost.
#[derive(Args, Debug)]
pub struct Trace {
    #[command(flatten)]
    pub common: Common,
    /// The VM, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: String,
    /// Write to this file as well: .json for Perfetto or Chrome, .pcapng for Wireshark (with dist/wireshark/m3ipc.lua).
    #[arg(long, value_name = "FILE")]
    out: Vec<PathBuf>,
    /// End after so many seconds.
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<f64>,
    /// End after so many calls.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Show at most so many lines a second; all are counted.
    #[arg(long, value_name = "N", default_value_t = 20)]
    lines: u64,
    /// Keep so many of the slowest calls.
    #[arg(long, value_name = "N", default_value_t = 5)]
    slowest: usize,
    /// Stamps that wait for what comes before them: sharper phases, at twice the cost.
    #[arg(long)]
    sharp: bool,
    /// Records that are kept of each endpoint until they are read (64 bytes each).
    #[arg(long, value_name = "N", default_value_t = m3ipc::trace::SLOTS_DEFAULT)]
    ring: u32,
}

/// What is known while it runs.
struct Watch<'a> {
    args: &'a Trace,
    out: Out,
    vm: i32,
    scale: StampScale,
    names: Names,
    looked: Instant,
    tally: Tally,
    files: Vec<OutFile>,
    /// Lines shown in the present second.
    second: (Instant, u64),
    hidden: u64,
}

/// Watches until it is to end.
pub fn run(args: &Trace, out: Out) -> Result<()> {
    let mut node = reach::node(&args.common)?;
    let vm = reach::vm(&mut node, &args.vm)?;
    let stop = m3ipc_sys::interrupt_signals()
        .map_err(|errno| Fail::system("cannot wait for ^C", errno))?;
    let cost = m3ipc::trace::cost(args.sharp)
        .map_err(|cause| Fail::system("no memory for a ring", cause))?;
    let scale = StampScale::calibrate(20_000_000);
    let files = args.out.iter().map(|path| OutFile::begin(path, vm.id(), epoch_ns()));
    let mut watch = Watch {
        args,
        out,
        vm: vm.id(),
        scale,
        names: Names::default(),
        looked: Instant::now(),
        tally: Tally::new(args.slowest),
        files: files.collect::<Result<_>>()?,
        second: (Instant::now(), 0),
        hidden: 0,
    };
    watch.names.look(&mut node, watch.vm);
    let mut trace = node.trace(vm.id(), TraceConfig { slots: args.ring, sharp: args.sharp })?;
    if out.is_json() {
        out.json(&serde_json::json!({ "tracing": vm.name(), "vm": vm.id() }))?;
    } else {
        out.line(out.dim(&format!(
            "tracing VM {} ({}); ^C ends it\n{}",
            vm.id(),
            vm.name(),
            live::LEGEND
        )))?;
    }
    let begun = Instant::now();
    let mut join = Join::new(HALVES);
    let watched = watch.until_the_end(&mut node, &mut trace, &mut join, &stop, begun);
    watch.files.drain(..).try_for_each(OutFile::end)?;
    watched?;
    watch.end(&trace, &join, cost, begun.elapsed())
}

impl Watch<'_> {
    fn until_the_end(
        &mut self,
        node: &mut Node,
        trace: &mut Tracing,
        join: &mut Join,
        stop: &OwnedFd,
        begun: Instant,
    ) -> Result<()> {
        let limit = self
            .args
            .seconds
            .map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        let mut heap = Heap::default();
        loop {
            // Its own CPU time: what it waits for a CPU costs nobody anything.
            let before_ns = process_cpu_ns();
            trace.poll(|endpoint, record| join.add(endpoint, &record))?;
            heap.fill(join);
            self.learn_names(node, trace);
            self.begin_second();
            for seen in heap.in_order() {
                self.take(seen)?;
            }
            let worked_ns = process_cpu_ns().saturating_sub(before_ns);
            let over = limit.is_some_and(|limit| begun.elapsed() >= limit)
                || self.args.count.is_some_and(|count| self.tally.calls() >= count);
            let pause_ns = LOOK_NS.max(worked_ns * (SHARE - 1));
            if over || m3ipc_sys::wait_readable(&[stop.as_fd()], pause_ns) == Ok(true) {
                return Ok(());
            }
            self.scale = self.scale.refined();
        }
    }

    fn learn_names(&mut self, node: &mut Node, trace: &Tracing) {
        let unknown = || trace.traced().any(|traced| !self.names.knows(traced.address));
        if self.looked.elapsed() > NAMES || unknown() {
            self.names.look(node, self.vm);
            self.looked = Instant::now();
        }
    }

    fn begin_second(&mut self) {
        if self.second.0.elapsed() >= Duration::from_secs(1) {
            self.second = (Instant::now(), 0);
        }
    }

    fn take(&mut self, seen: &Seen) -> Result<()> {
        self.tally.add(seen, &self.scale);
        for file in &mut self.files {
            file.write(seen, &self.names, &self.scale)?;
        }
        // A call is one line, when it is over.
        if seen.call.is_none() && verb(seen.transfer.what) == "request" {
            return Ok(());
        }
        if self.second.1 >= self.args.lines {
            self.hidden += 1;
            return Ok(());
        }
        self.second.1 += 1;
        if self.out.is_json() {
            return self.out.json(&self.json(seen));
        }
        self.out.line(live::line(seen, &self.names, &self.scale))
    }

    fn json(&self, seen: &Seen) -> serde_json::Value {
        let transfer = &seen.transfer;
        let named = |verb: &str, from, to, total: u64, phases: [u64; 5]| {
            let [t1, t2, t3, t4, t5] = phases;
            serde_json::json!({
                "verb": verb, "from": self.names.name(from), "to": self.names.name(to), "type": transfer.m_type,
                "bytes": transfer.bytes, "total_ns": total, "T1": t1, "T2": t2, "T3": t3, "T4": t4, "T5": t5,
            })
        };
        match &seen.call {
            Some(call) => {
                let phases = call.phases();
                let both = phases_ns(&self.scale, &phases.both());
                let total_ns = ns(&self.scale, call.ticks());
                let mut value = named("call", call.request.from, call.request.to, total_ns, both);
                value["type"] = call.request.m_type.into();
                value["server"] = ns(&self.scale, phases.server).into();
                value
            }
            None => {
                let phases = m3ipc::trace::Phases::of(transfer);
                let total_ns = ns(&self.scale, phases.total());
                named(
                    verb(transfer.what),
                    transfer.from,
                    transfer.to,
                    total_ns,
                    phases_ns(&self.scale, &phases),
                )
            }
        }
    }

    fn end(&self, trace: &Tracing, join: &Join, cost: StampCost, took: Duration) -> Result<()> {
        let (stamp_ns, record_ns) = (self.scale.ns(1) * cost.stamp, self.scale.ns(1) * cost.record);
        let call_ns = CALL_STAMPS * stamp_ns + CALL_RECORDS * record_ns;
        let own_cpu = process_cpu_ns() as f64 / took.as_nanos().max(1) as f64;
        let (lost, broken, single) = (trace.lost(), trace.broken(), join.single());
        if self.out.is_json() {
            let mut value = self.tally.json(&self.names);
            value["lost"] = lost.into();
            value["broken"] = broken.into();
            value["single"] = single.into();
            value["stamp_ns"] = stamp_ns.into();
            value["record_ns"] = record_ns.into();
            value["call_cost_ns"] = call_ns.into();
            value["own_cpu"] = own_cpu.into();
            return self.out.json(&value);
        }
        let hidden = if self.hidden > 0 {
            format!(", {} of them not shown", self.hidden)
        } else {
            String::new()
        };
        self.out.line(format!(
            "\n{} messages, {} calls in {:.1} s{hidden}; {lost} records lost, {broken} broken, {single} without their other half",
            self.tally.messages(),
            self.tally.calls(),
            took.as_secs_f64(),
        ))?;
        if trace.missed() > 0 {
            self.out.line(format!(
                "{} endpoints not traced: no memory or descriptors here",
                trace.missed()
            ))?;
        }
        self.out.line(self.tally.text(&self.names, &self.scale))?;
        self.out.line(format!(
            "\ncost of tracing: {} a stamp, {} a record, so about {} of CPU a call (both sides); this process used {:.1} % of a CPU",
            time(whole(stamp_ns)),
            time(whole(record_ns)),
            time(whole(call_ns)),
            own_cpu * 100.0,
        ))
    }
}

/// What is added to the monotonic clock to get the time of day.
/// CPU time of this process.
fn process_cpu_ns() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, ns) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + ns.unwrap_or(0)
}

fn epoch_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(0).saturating_sub(m3ipc_sys::monotonic_ns())
}
