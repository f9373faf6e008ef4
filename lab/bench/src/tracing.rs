//! What `m3 trace` costs those it watches: `m3 bench tracing`.
//!
//! ```text
//! round   so many pairs (IPC2) in a VM of their own, each on one CPU, shared out over two     nobody looks
//!         the same                                                          m3 trace VM beside them, as a person starts it
//! ```
//! A pair stays on its CPU: where the kernel puts the sides decides more than anything that is measured here, and it decides anew each time.
//! Both take turns, round by round, and each round of the second is divided by its round of the first. The tracer is the very program: its
//! reading takes CPU time from the pairs, and its rings' stamps lengthen their calls; both are in the figure. With a pace, what is looked at is not speed but
//! loss: so many calls a second, and how many records the tracer could not read in time.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Deserialize;

use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{Placement, Side, Task, Wait, Work};
use crate::measure::{Bench, Cell, Round};
use crate::mechanism::{self, Transport};
use crate::progress::Progress;
use crate::report::{Table, rate};
use crate::stats::median;
use crate::supervise::Crew;
use crate::{Outcome, ours};

/// The name of the program that traces.
const TRACER: &str = "m3";
/// Where it is, if not beside this program.
const NAMED: &str = "M3_TRACER";
/// How long pairs that are not paced warm up.
const WARM_NS: u64 = 50_000_000;
/// What is promised: throughput that tracing may take.
const BOUND: f64 = 0.15;

/// Measures what m3 trace costs those it watches, and what it loses.
#[derive(Clone, Debug, clap::Args)]
pub struct TracingArgs {
    /// Pairs at once
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub pairs: u32,
    /// Rounds, each without the tracer and with it
    #[arg(long, value_name = "NUMBER", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Length of each measurement in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub millis: u64,
    /// Calls a second of all pairs together, instead of as many as they can
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub calls: Option<u64>,
}

/// What the tracer says at its end.
#[derive(Clone, Debug, Default, Deserialize)]
struct Said {
    calls: u64,
    lost: u64,
    broken: u64,
    own_cpu: f64,
    call_cost_ns: f64,
}

/// One round: without, with, and what the tracer said.
struct Pair {
    without: Round,
    with: Round,
    said: Said,
}

/// Measures and prints.
///
/// # Errors
/// Where there is no tracer, or nothing can be measured.
pub fn run(args: &TracingArgs) -> Result<Outcome, Error> {
    let tracer = tracer()?;
    let bench = Bench::new()?;
    let ours = mechanism::by_name("m3ipc")
        .ok_or_else(|| Error::Usage("m3ipc is not measured here".into()))?;
    let (work, wait, placement) = (Work::Ipc2, Wait::Adaptive, Placement::Any);
    let cell = Cell { mechanism: ours, work, wait, placement, pairs: args.pairs };
    let span_ns = args.millis * 1_000_000;
    let pace_ns = args.calls.map(|calls| u64::from(args.pairs) * 1_000_000_000 / calls);
    let task = Task::Trips { pace_ns, span_ns, limit: None };
    let mut progress = Progress::new(usize::try_from(2 * args.rounds).unwrap_or(0));
    let mut pairs = vec![];
    for round in 0..args.rounds {
        let mut one = |traced: bool| {
            progress.next(
                "cost of tracing",
                if traced { "traced" } else { "not traced" },
                round,
                args.rounds,
            );
            measure(&bench, &cell, task, traced.then_some(&tracer))
        };
        // The first of two is not always the same.
        let (without, (with, said)) = if round % 2 == 0 {
            let without = one(false)?.0;
            (without, one(true)?)
        } else {
            let with = one(true)?;
            (one(false)?.0, with)
        };
        pairs.push(Pair { without, with, said });
    }
    progress.clear();
    ours::end();
    let (text, cost) = table(args, &pairs);
    print!("{text}");
    Ok(if cost <= BOUND || args.calls.is_some() { Outcome::Fine } else { Outcome::FallsShort })
}

fn tracer() -> Result<PathBuf, Error> {
    let named = std::env::var_os(NAMED).filter(|named| !named.is_empty()).map(PathBuf::from);
    let own = std::env::current_exe().map_err(Error::os("find this binary"))?;
    let beside = own.with_file_name(TRACER);
    named.or(Some(beside)).filter(|path| path.is_file()).ok_or_else(|| {
        Error::Usage("there is no program m3 beside this one; build it (cargo build --release -p m3), or name it with M3_TRACER".into())
    })
}

/// All pairs at once, with or without a tracer beside them.
fn measure(
    bench: &Bench,
    cell: &Cell,
    task: Task,
    tracer: Option<&PathBuf>,
) -> Result<(Round, Said), Error> {
    let pairs = usize::try_from(cell.pairs).unwrap_or(1);
    let mut keep = vec![];
    let mut crew = Crew::new(bench.grace_ns);
    let mut clients = vec![];
    let mut place = None;
    let warm_ns = if task.window().is_some_and(|(pace, ..)| pace.is_some()) { 0 } else { WARM_NS };
    let job = |number: usize, side, names: &[String]| {
        let mut job = bench.job(cell, side, task, names);
        // Paced clients look at the clock all the time, so their servers are elsewhere.
        let is_second = (number + usize::from(warm_ns == 0 && side == Side::Server)) % 2 == 1;
        job.cpu = Some(if is_second {
            bench.cpus.second.unwrap_or(bench.cpus.first)
        } else {
            bench.cpus.first
        });
        job
    };
    for (number, transport) in cell.mechanism.open_many(&bench.site, pairs)?.into_iter().enumerate()
    {
        let Transport { client, server, names, keep: kept } = transport;
        keep.push(kept);
        // Names of ours begin with the runtime directory and the VM.
        place = place.or_else(|| names.first().cloned().zip(names.get(1).cloned()));
        crew.start(&bench.site, job(number, Side::Server, &names), server)?;
        clients.push((client, names));
    }
    for (number, (fds, names)) in clients.into_iter().enumerate() {
        crew.start(&bench.site, job(number, Side::Client, &names), fds)?;
    }
    crew.ready()?;
    let looking = match (tracer, place) {
        (Some(tracer), Some((directory, vm))) => {
            Some(Looking::start(tracer, Path::new(&directory), &vm)?)
        }
        _ => None,
    };
    crew.go(0, monotonic_ns() + warm_ns)?;
    let span_ns = task.window().map_or(0, |(_, span_ns, _)| span_ns);
    crew.finish(warm_ns + span_ns, &(0..crew.size()).collect::<Vec<_>>())?;
    let said = looking.map_or_else(|| Ok(Said::default()), Looking::end)?;
    let reports = |range: std::ops::Range<usize>| range.filter_map(|number| crew.report(number));
    Ok((Round::of(reports(pairs..2 * pairs), reports(0..pairs)), said))
}

/// A tracer that runs; killed where it is dropped.
struct Looking {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Looking {
    fn start(tracer: &Path, directory: &Path, vm: &str) -> Result<Self, Error> {
        let mut command = Command::new(tracer);
        command.args(["trace", vm, "--json", "--lines", "0"]).env("M3_RUNTIME_DIR", directory);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::os("start m3 trace"))?;
        let output = child.stdout.take().ok_or(Error::PeerGone)?;
        let mut looking = Self { child, output: BufReader::new(output) };
        // Its first line says that it has begun.
        let mut line = String::new();
        looking.output.read_line(&mut line).map_err(Error::os("read what m3 trace says"))?;
        if line.is_empty() { Err(Error::PeerGone) } else { Ok(looking) }
    }

    /// Ends it as ^C does, and takes its sums.
    fn end(mut self) -> Result<Said, Error> {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or(Error::PeerGone)?;
        rustix::process::kill_process(pid, rustix::process::Signal::INT)
            .map_err(Error::os("end m3 trace"))?;
        let mut text = String::new();
        self.output.read_to_string(&mut text).map_err(Error::os("read what m3 trace says"))?;
        self.child.wait().map_err(Error::os("wait for m3 trace"))?;
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last).map_err(Error::json("what m3 trace says"))
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        // Only fails for one that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The table, and the part of throughput that tracing takes.
fn table(args: &TracingArgs, pairs: &[Pair]) -> (String, f64) {
    let middle = |of: &dyn Fn(&Pair) -> f64| median(pairs.iter().map(of)).unwrap_or(0.0);
    let part = |pair: &Pair| 1.0 - pair.with.per_s / pair.without.per_s.max(1.0);
    let mut parts: Vec<f64> = pairs.iter().map(part).collect();
    parts.sort_by(f64::total_cmp);
    let cost = middle(&part);
    let mut table = Table::new(&["", "m3 trace", "calls/s", "cpu/call", "p50", "p99"]);
    let time = crate::report::time;
    for (name, of) in
        [("off", (|pair| &pair.without) as fn(&Pair) -> &Round), ("on", |pair| &pair.with)]
    {
        table.row(vec![
            String::new(),
            name.into(),
            rate(middle(&|pair| of(pair).per_s)),
            time(middle(&|pair| of(pair).cpu_ns_per_op)),
            time(middle(&|pair| of(pair).samples.quantile(0.5) as f64)),
            time(middle(&|pair| of(pair).samples.quantile(0.99) as f64)),
        ]);
    }
    let sum = |of: &dyn Fn(&Said) -> u64| pairs.iter().map(|pair| of(&pair.said)).sum::<u64>();
    let (calls, lost, broken) =
        (sum(&|said| said.calls), sum(&|said| said.lost), sum(&|said| said.broken));
    let pace = args.calls.map_or_else(
        || "back to back".to_owned(),
        |calls| format!("{} calls/s asked for", rate(calls as f64)),
    );
    let verdict = match args.calls {
        Some(_) => String::new(),
        None if cost <= BOUND => format!("; below the {:.0} % that are allowed", BOUND * 100.0),
        None => format!("; ABOVE the {:.0} % that are allowed", BOUND * 100.0),
    };
    let text = format!(
        "m3 trace beside {} pairs, IPC2, {pace}; {} rounds, each without and with it\n{}\
         tracing takes {:.1} % of the throughput (rounds {:.1} to {:.1} %){verdict}\n\
         its reading used {:.1} % of a CPU, its stamps about {} of CPU a call; {calls} calls seen whole, {lost} records lost, {broken} broken\n",
        args.pairs,
        pairs.len(),
        table.text(),
        cost * 100.0,
        parts.first().unwrap_or(&0.0) * 100.0,
        parts.last().unwrap_or(&0.0) * 100.0,
        middle(&|pair| pair.said.own_cpu) * 100.0,
        time(middle(&|pair| pair.said.call_cost_ns)),
    );
    (text, cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(without: f64, with: f64, lost: u64) -> Pair {
        let round = |per_s| Round { per_s, ..Round::default() };
        Pair {
            without: round(without),
            with: round(with),
            said: Said { calls: 10, lost, ..Said::default() },
        }
    }

    #[test]
    fn the_cost_is_the_median_of_pairs_of_rounds() {
        let args = TracingArgs { pairs: 8, rounds: 3, millis: 100, calls: None };
        let (text, cost) =
            table(&args, &[pair(100.0, 90.0, 1), pair(1_000.0, 700.0, 2), pair(10.0, 8.0, 0)]);
        assert!((cost - 0.2).abs() < 1e-9, "{cost}");
        assert!(
            text.contains("20.0 %") && text.contains("10.0 to 30.0 %") && text.contains("ABOVE"),
            "{text}"
        );
        assert!(text.contains("30 calls seen whole, 3 records lost"), "{text}");
    }
}
