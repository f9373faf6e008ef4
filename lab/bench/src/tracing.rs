//! The cost of `m3 trace` for the traced processes: `m3 bench tracing`.
//!
//! ```text
//! round   pairs (IPC2) in a VM of their own, each pair on one of two CPUs    no tracer
//!         the same                                    m3 trace VM beside them, as a user starts it
//! ```
//! A pair stays on its CPU: the placement by the kernel would outweigh every other effect. Both
//! measurements take turns, and each round with the tracer is divided by its round without. The
//! tracer is the program itself: its reading takes CPU time from the pairs, its stamps lengthen
//! their calls, and the figure holds both. With a given rate of calls the figure is loss: records
//! that the tracer could not read in time.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use m3ipc_report::schema::{Placement, Round, Wait};
use m3ipc_report::stats::{median, quantile};
use m3ipc_report::text::{Table, rate, time};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::args::TracingArgs;
use crate::error::Error;
use crate::job::{Load, Role, Test};
use crate::measure::{Bench, Cell};
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::subjects;

/// The program that traces.
const TRACER: &str = "m3";
/// The variable that names its path, if it is not beside this program.
const VARIABLE: &str = "M3_TRACER";
/// Time before the window of unpaced pairs.
const WARM_NS: u64 = 50_000_000;
/// The promised share of the throughput that tracing may take.
const BOUND: f64 = 0.15;

/// The sums that the tracer prints at its end.
#[derive(Clone, Debug, Default, Deserialize)]
struct Sums {
    calls: u64,
    lost: u64,
    broken: u64,
    own_cpu: f64,
    call_cost_ns: f64,
}

/// One round without the tracer and one with it.
struct Pair {
    without: Round,
    with: Round,
    sums: Sums,
}

/// Measures and prints.
pub fn run(args: &TracingArgs) -> Result<Outcome, Error> {
    let tracer = tracer()?;
    let bench = Bench::new()?;
    let subject = subjects::M3IPC;
    let pace_ns = args.calls.map(|calls| u64::from(args.pairs) * 1_000_000_000 / calls);
    let warm_ns = if pace_ns.is_some() { 0 } else { WARM_NS };
    let load = Load::new(Test::Ipc2, 0).over(args.millis * 1_000_000, warm_ns);
    let load = Load { count: args.pairs, pace_ns, bytes: subject.bytes(&load), ..load };
    let (wait, placement) = (Wait::Adaptive, Placement::Any);
    let cell = Cell { subject, load, wait, placement, experiment: None };
    let mut progress = Progress::new(usize::try_from(2 * args.rounds).unwrap_or(0));
    let mut pairs = vec![];
    for round in 0..args.rounds {
        let mut one = |traced: bool| {
            let name = if traced { "traced" } else { "not traced" };
            progress.next("cost of tracing", name, round, args.rounds);
            measure(&bench, &cell, traced.then_some(&tracer))
        };
        // The first of two measurements is not always the same.
        let (without, (with, sums)) = if round % 2 == 0 {
            let without = one(false)?.0;
            (without, one(true)?)
        } else {
            let with = one(true)?;
            (one(false)?.0, with)
        };
        pairs.push(Pair { without, with, sums });
    }
    progress.clear();
    subjects::end_node();
    let (text, cost) = table(args, &pairs);
    print!("{text}");
    Ok(if cost <= BOUND || args.calls.is_some() { Outcome::Fine } else { Outcome::FallsShort })
}

fn tracer() -> Result<PathBuf, Error> {
    let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()).map(PathBuf::from);
    let own = std::env::current_exe().map_err(Error::os("find this binary"))?;
    let path = named.or(Some(own.with_file_name(TRACER))).filter(|path| path.is_file());
    path.ok_or_else(|| {
        Error::Usage(format!(
            "there is no program {TRACER} beside this one; build it (cargo build --release -p \
             m3ipc-cli), or name it with {VARIABLE}"
        ))
    })
}

/// All pairs at once, with or without a tracer beside them.
fn measure(bench: &Bench, cell: &Cell, tracer: Option<&PathBuf>) -> Result<(Round, Sums), Error> {
    let is_paced = cell.load.pace_ns.is_some();
    let cpu = |number: usize, role: Role| {
        // Paced clients poll the clock all the time, so their servers get the other CPU.
        let is_second = (number + usize::from(is_paced && role == Role::Server)) % 2 == 1;
        let second = bench.cpus.second.filter(|_| is_second);
        Some(second.unwrap_or(bench.cpus.first))
    };
    let session = bench.start(cell, &cpu)?;
    let tracer = match (tracer, session.names.as_slice()) {
        (Some(tracer), [directory, vm, ..]) => {
            Some(Tracer::start(tracer, Path::new(directory), vm)?)
        }
        _ => None,
    };
    let round = session.finish()?.round;
    Ok((round, tracer.map_or_else(|| Ok(Sums::default()), Tracer::end)?))
}

/// A running tracer; the drop kills it.
struct Tracer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Tracer {
    fn start(program: &Path, directory: &Path, vm: &str) -> Result<Self, Error> {
        let mut child = Command::new(program)
            .args(["trace", vm, "--json", "--lines", "0"])
            .env("M3_RUNTIME_DIR", directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::os("start m3 trace"))?;
        let output = child.stdout.take().ok_or(Error::PeerGone)?;
        let mut tracer = Self { child, output: BufReader::new(output) };
        // The first line reports the begin.
        let mut line = String::new();
        tracer.output.read_line(&mut line).map_err(Error::os("read from m3 trace"))?;
        if line.is_empty() { Err(Error::PeerGone) } else { Ok(tracer) }
    }

    /// Ends the tracer as Ctrl-C does, and takes its sums.
    fn end(mut self) -> Result<Sums, Error> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(Error::PeerGone)?;
        kill_process(pid, Signal::INT).map_err(Error::os("end m3 trace"))?;
        let mut text = String::new();
        self.output.read_to_string(&mut text).map_err(Error::os("read from m3 trace"))?;
        self.child.wait().map_err(Error::os("wait for m3 trace"))?;
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last).map_err(Error::json("the sums of m3 trace"))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Fails only for a process that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The table, and the share of the throughput that tracing takes.
fn table(args: &TracingArgs, pairs: &[Pair]) -> (String, f64) {
    let middle = |of: &dyn Fn(&Pair) -> f64| median(pairs.iter().map(of)).unwrap_or(0.0);
    let share = |pair: &Pair| 1.0 - pair.with.per_s / pair.without.per_s.max(1.0);
    let mut shares: Vec<f64> = pairs.iter().map(share).collect();
    shares.sort_by(f64::total_cmp);
    let cost = middle(&share);
    let mut table = Table::new(&["", "m3 trace", "calls/s", "cpu/call", "p50", "p99"]);
    let without: fn(&Pair) -> &Round = |pair| &pair.without;
    for (name, of) in [("off", without), ("on", |pair| &pair.with)] {
        let at = |share| middle(&|pair| quantile(&of(pair).samples, share) as f64);
        table.row(vec![
            String::new(),
            name.into(),
            rate(middle(&|pair| of(pair).per_s)),
            time(middle(&|pair| of(pair).cpu_ns_per_op)),
            time(at(0.5)),
            time(at(0.99)),
        ]);
    }
    let sum = |of: fn(&Sums) -> u64| pairs.iter().map(|pair| of(&pair.sums)).sum::<u64>();
    let (calls, lost, broken) = (sum(|it| it.calls), sum(|it| it.lost), sum(|it| it.broken));
    let pace = args.calls.map_or_else(
        || "back to back".to_owned(),
        |calls| format!("{} calls/s requested", rate(calls as f64)),
    );
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let verdict = match args.calls {
        Some(_) => String::new(),
        None if cost <= BOUND => format!("; below the {:.0} % that are allowed", BOUND * 100.0),
        None => format!("; ABOVE the {:.0} % that are allowed", BOUND * 100.0),
    };
    let text = format!(
        "m3 trace beside {} pairs, IPC2, {pace}; {} rounds, each without and with it\n{}\
         tracing takes {} % of the throughput (rounds {} to {} %){verdict}\n\
         its reading used {} % of a CPU, its stamps about {} of CPU a call; \
         {calls} calls seen whole, {lost} records lost, {broken} broken\n",
        args.pairs,
        pairs.len(),
        table.text(),
        percent(cost),
        percent(*shares.first().unwrap_or(&0.0)),
        percent(*shares.last().unwrap_or(&0.0)),
        percent(middle(&|pair| pair.sums.own_cpu)),
        time(middle(&|pair| pair.sums.call_cost_ns)),
    );
    (text, cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(without: f64, with: f64, lost: u64) -> Pair {
        let round = |per_s| Round { per_s, ..Round::default() };
        let sums = Sums { calls: 10, lost, ..Sums::default() };
        Pair { without: round(without), with: round(with), sums }
    }

    #[test]
    fn the_cost_is_the_median_of_pairs_of_rounds() {
        let args = TracingArgs { pairs: 8, rounds: 3, millis: 100, calls: None };
        let pairs = [pair(100.0, 90.0, 1), pair(1_000.0, 700.0, 2), pair(10.0, 8.0, 0)];
        let (text, cost) = table(&args, &pairs);
        assert!((cost - 0.2).abs() < 1e-9, "{cost}");
        for words in ["20.0 %", "10.0 to 30.0 %", "ABOVE", "30 calls seen whole, 3 records lost"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
