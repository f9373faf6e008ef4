//! `m3 trace`: shows the calls of a VM and the time of each phase.

use crate::error::{CliError, Result};
use crate::lookup;
use crate::options::{NodeOptions, count};
use crate::output::Output;
use crate::trace::tracer::{Limits, Tracer};
use clap::Args;
use m3ipc::trace::TraceConfig;
use std::path::PathBuf;
use std::time::Duration;

/// Trace the calls of a VM: sender, receiver, duration and phases.
///
/// Only the owner of the VM and root may trace. ^C ends the trace. The command then prints
/// histograms per verb and per pair of endpoints, the slowest calls, the number of lost records,
/// and the cost of tracing.
///
/// Example: m3 trace shop --for 10 --out calls.json
#[derive(Args, Debug)]
pub struct Trace {
    #[command(flatten)]
    node: NodeOptions,
    /// The VM, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: String,
    /// Also write to this file: .json for Perfetto or Chrome, .pcapng for Wireshark (with
    /// dist/wireshark/m3ipc.lua).
    #[arg(long, value_name = "FILE")]
    out: Vec<PathBuf>,
    /// End after this time.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// End after N calls.
    #[arg(long, value_name = "N", value_parser = count::<u64>)]
    count: Option<u64>,
    /// Show at most N lines per second; all messages are counted.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count::<u64>)]
    lines: u64,
    /// Keep the N slowest calls.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count::<usize>)]
    slowest: usize,
    /// Take each time stamp after all earlier instructions: exact phases at twice the cost.
    #[arg(long)]
    sharp: bool,
    /// Records (64 bytes each) that an endpoint keeps until they are read.
    #[arg(long, value_name = "N", default_value_t = m3ipc::trace::SLOTS_DEFAULT)]
    ring: u32,
}

fn seconds(written: &str) -> std::result::Result<Duration, String> {
    let number = written.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    let time = number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "write a number of seconds above 0, as in 0.5".to_owned())
}

/// Traces until ^C or a limit.
pub fn run(args: &Trace, out: Output) -> Result<()> {
    let mut node = lookup::node(&args.node)?;
    let vm = lookup::vm(&mut node, &args.vm)?;
    let interrupt = m3ipc_sys::interrupt_signals()
        .map_err(|errno| CliError::system("cannot wait for ^C", errno))?;
    let limits = Limits {
        time: args.seconds,
        calls: args.count,
        lines_per_second: args.lines,
        slowest: args.slowest,
    };
    let config = TraceConfig { slots: args.ring, sharp: args.sharp };
    Tracer::start(&mut node, &vm, config, limits, &args.out, out)?.run(&mut node, &interrupt)
}
