//! The tracer: polls the rings of a VM, shows messages, and sums them up.

use super::cost::{TraceCost, own_cpu_ns};
use super::event::{Batch, TracedMessage, verb};
use super::file::TraceFile;
use super::line;
use super::names::EndpointNames;
use super::statistics::Statistics;
use crate::error::{CliError, Result};
use crate::output::Output;
use m3ipc::trace::{Join, StampCost, StampScale, Trace, TraceConfig};
use m3ipc::{Node, Vm};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The shortest time between two polls.
const POLL_INTERVAL_NS: u64 = 5_000_000;
/// The tracer uses at most 1 / `CPU_SHARE` of a CPU. Under more load, records are lost.
const CPU_SHARE: u64 = 10;
/// The age at which names of endpoints are read again.
const NAME_REFRESH: Duration = Duration::from_millis(500);
/// Records that may wait for their other half.
const PENDING_HALVES_MAX: usize = 1 << 17;
/// The duration of the calibration of the time stamps.
const CALIBRATION_NS: u64 = 20_000_000;

/// Limits of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time after which the trace ends.
    pub time: Option<Duration>,
    /// The number of calls after which the trace ends.
    pub calls: Option<u64>,
    /// The number of lines that are shown per second.
    pub lines_per_second: u64,
    /// The number of slowest calls that are kept.
    pub slowest: usize,
}

/// A running trace of a VM.
pub struct Tracer {
    vm: i32,
    limits: Limits,
    out: Output,
    trace: Trace,
    join: Join,
    cost: StampCost,
    start: Instant,
    scale: StampScale,
    names: EndpointNames,
    names_read: Instant,
    statistics: Statistics,
    files: Vec<TraceFile>,
    lines: LineLimit,
}

impl Tracer {
    /// Starts a trace and prints its head line.
    pub fn start(
        node: &mut Node,
        vm: &Vm,
        config: TraceConfig,
        limits: Limits,
        files: &[PathBuf],
        out: Output,
    ) -> Result<Self> {
        let cost = m3ipc::trace::cost(config.sharp)
            .map_err(|cause| CliError::system("cannot allocate a trace ring", cause))?;
        let scale = StampScale::calibrate(CALIBRATION_NS);
        let files = files.iter().map(|path| TraceFile::create(path, vm.id(), epoch_ns()));
        let files = files.collect::<Result<_>>()?;
        let mut names = EndpointNames::default();
        names.refresh(node, vm.id());
        let trace = node.trace(vm.id(), config)?;
        if out.is_json() {
            out.json(&serde_json::json!({ "tracing": vm.name(), "vm": vm.id() }))?;
        } else {
            let head = format!("tracing VM {} ({}); ^C ends the trace", vm.id(), vm.name());
            out.line(out.dim(&format!("{head}\n{}", line::LEGEND)))?;
        }
        Ok(Self {
            vm: vm.id(),
            limits,
            out,
            trace,
            join: Join::new(PENDING_HALVES_MAX),
            cost,
            start: Instant::now(),
            scale,
            names,
            names_read: Instant::now(),
            statistics: Statistics::new(limits.slowest),
            files,
            lines: LineLimit::new(limits.lines_per_second),
        })
    }

    /// Traces until `interrupt` is readable or a limit is reached, then prints the sums.
    pub fn run(mut self, node: &mut Node, interrupt: &OwnedFd) -> Result<()> {
        let traced = self.poll_until_end(node, interrupt);
        self.files.drain(..).try_for_each(TraceFile::finish)?;
        traced?;
        self.report()
    }

    fn poll_until_end(&mut self, node: &mut Node, interrupt: &OwnedFd) -> Result<()> {
        let mut batch = Batch::default();
        loop {
            // Measured in CPU time: a tracer that waits for a CPU costs nothing.
            let before_ns = own_cpu_ns();
            let join = &mut self.join;
            self.trace.poll(|endpoint, record| join.add(endpoint, &record))?;
            batch.fill(&mut self.join);
            self.refresh_names(node);
            for message in batch.in_order() {
                self.record(message)?;
            }
            let worked_ns = own_cpu_ns().saturating_sub(before_ns);
            let pause_ns = POLL_INTERVAL_NS.max(worked_ns * (CPU_SHARE - 1));
            if self.is_over()
                || m3ipc_sys::wait_readable(&[interrupt.as_fd()], pause_ns) == Ok(true)
            {
                return Ok(());
            }
            self.scale = self.scale.refined();
        }
    }

    fn is_over(&self) -> bool {
        let Limits { time, calls, .. } = self.limits;
        time.is_some_and(|time| self.start.elapsed() >= time)
            || calls.is_some_and(|calls| self.statistics.calls() >= calls)
    }

    fn refresh_names(&mut self, node: &mut Node) {
        let has_unknown =
            || self.trace.traced().any(|endpoint| !self.names.contains(endpoint.address));
        if self.names_read.elapsed() > NAME_REFRESH || has_unknown() {
            self.names.refresh(node, self.vm);
            self.names_read = Instant::now();
        }
    }

    fn record(&mut self, message: &TracedMessage) -> Result<()> {
        self.statistics.add(message, &self.scale);
        for file in &mut self.files {
            file.write(message, &self.names, &self.scale)?;
        }
        // The line of a call is printed with its answer.
        let is_open_request = message.call.is_none() && verb(message.transfer.what) == "request";
        if is_open_request || !self.lines.allow() {
            return Ok(());
        }
        if self.out.is_json() {
            return self.out.json(&line::json(message, &self.names, &self.scale));
        }
        self.out.line(line::text(message, &self.names, &self.scale))
    }

    fn report(&self) -> Result<()> {
        let took = self.start.elapsed();
        let cost = TraceCost::new(&self.scale, self.cost, took);
        let (lost, broken) = (self.trace.lost(), self.trace.broken());
        let single = self.join.single();
        if self.out.is_json() {
            let mut value = self.statistics.json(&self.names);
            value["lost"] = lost.into();
            value["broken"] = broken.into();
            value["single"] = single.into();
            cost.add_to(&mut value);
            return self.out.json(&value);
        }
        let hidden = match self.lines.hidden {
            0 => String::new(),
            hidden => format!(", {hidden} of them not shown"),
        };
        self.out.line(format!(
            "\n{} messages, {} calls in {:.1} s{hidden}; {lost} records lost, {broken} broken, \
             {single} without their other half",
            self.statistics.messages(),
            self.statistics.calls(),
            took.as_secs_f64(),
        ))?;
        let missed = self.trace.missed();
        if missed > 0 {
            self.out.line(format!(
                "{missed} endpoints were not traced, for lack of memory or descriptors here"
            ))?;
        }
        self.out.line(self.statistics.text(&self.names, &self.scale))?;
        self.out.line(format!("\n{}", cost.text()))
    }
}

/// A limit on lines per second.
struct LineLimit {
    per_second: u64,
    second: Instant,
    shown: u64,
    /// Lines that were not shown.
    hidden: u64,
}

impl LineLimit {
    fn new(per_second: u64) -> Self {
        Self { per_second, second: Instant::now(), shown: 0, hidden: 0 }
    }

    /// Whether one more line may be shown now; counts the line.
    fn allow(&mut self) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.shown) = (Instant::now(), 0);
        }
        let is_allowed = self.shown < self.per_second;
        let counter = if is_allowed { &mut self.shown } else { &mut self.hidden };
        *counter += 1;
        is_allowed
    }
}

/// The time of day minus the monotonic clock, in nanoseconds.
fn epoch_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(0).saturating_sub(m3ipc_sys::monotonic_ns())
}
