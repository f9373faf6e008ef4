//! Runs all rows in turn, round after round, and prints their medians.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use m3ipc::test::TestNode;
use m3ipc_report::text::{Table, or_dash, rate, time};

use crate::Failure;
use crate::bounds;
use crate::figures::Figures;
use crate::stack::STACKS;

/// Calls in flight in the second part of a row.
pub const MANY: usize = 64;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Rounds; all rows take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The length of a row in one round
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(20..=10_000))]
    millis: u64,
    /// Stacks by name, separated by commas; default: all
    #[arg(long, value_delimiter = ',', value_name = "STACK")]
    only: Vec<String>,
}

/// A stack with a number of calls in flight.
pub type RowName = (&'static str, usize);

/// The medians of all rows.
pub struct Medians(HashMap<RowName, Vec<Figures>>);

impl Medians {
    /// The median of the rounds.
    pub fn of(&self, row: RowName, figure: impl Fn(&Figures) -> f64) -> Option<f64> {
        let mut all: Vec<f64> = self.0.get(&row)?.iter().map(figure).collect();
        all.sort_unstable_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }
}

/// A server that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then both calls have nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures, prints the table and the bounds.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let known = |name: &String| STACKS.iter().any(|(stack, _)| stack == name);
    if let Some(unknown) = args.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = STACKS.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        return Err(format!("there is no stack {unknown}; --only takes {names}").into());
    }
    let chosen = |name: &str| args.only.is_empty() || args.only.iter().any(|it| it == name);
    let rows: Vec<RowName> = STACKS
        .iter()
        .filter(|(name, _)| chosen(name))
        .flat_map(|(name, many)| {
            [(*name, 1), (*name, MANY)].into_iter().take(1 + usize::from(*many))
        })
        .collect();
    let node = m3ipc::test::try_node()?;
    let (mut medians, mut failed) = (Medians(HashMap::new()), vec![]);
    for _ in 0..args.rounds {
        for row in &rows {
            match measure(&node, *row, args.millis) {
                Ok(figures) => medians.0.entry(*row).or_default().push(figures),
                Err(error) => failed.push(format!("{} with {} in flight: {error}", row.0, row.1)),
            }
        }
    }
    print!("{}", table(&medians, &rows));
    failed.iter().for_each(|line| println!("no figure: {line}"));
    let holds = bounds::print(&medians);
    Ok(ExitCode::from(match (failed.is_empty(), holds) {
        (false, _) => 4,
        (true, false) => 1,
        (true, true) => 0,
    }))
}

/// One row in one round: a server, then a client beside it.
fn measure(node: &TestNode, (stack, in_flight): RowName, millis: u64) -> Result<Figures, Failure> {
    let program = std::env::current_exe()?;
    let process = |role: &str, more: &[&str]| -> Result<Running, Failure> {
        let mut command = Command::new(&program);
        command.args([role, stack]).arg(Path::new(node.directory())).arg(node.vm().name());
        let child = command.args(more).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        Ok(Running(child))
    };
    let mut server = process("__serve", &[])?;
    let at = first_line(&mut server)?;
    let mut client = process("__call", &[&at, &millis.to_string(), &in_flight.to_string()])?;
    first_line(&mut client)?.parse()
}

fn first_line(process: &mut Running) -> Result<String, Failure> {
    let output = process.0.stdout.take().ok_or("no output of the process")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let line = line.trim();
    if line.is_empty() { Err("a process ended without a figure".into()) } else { Ok(line.into()) }
}

fn table(medians: &Medians, rows: &[RowName]) -> String {
    let columns = [
        "stack",
        "",
        "p50",
        "p99",
        "1 in flight/s",
        "64 in flight/s",
        "CPU per call",
        "of it kernel",
    ];
    let mut table = Table::new(&columns);
    for (name, _) in rows.iter().filter(|(_, in_flight)| *in_flight == 1) {
        let one = |figure: fn(&Figures) -> f64| medians.of((name, 1), figure);
        table.row(vec![
            (*name).to_owned(),
            String::new(),
            or_dash(one(|it| it.p50_ns), time),
            or_dash(one(|it| it.p99_ns), time),
            or_dash(one(|it| it.per_s), rate),
            or_dash(medians.of((name, MANY), |it| it.per_s), rate),
            or_dash(medians.of((name, MANY), |it| it.program_ns + it.kernel_ns), time),
            or_dash(medians.of((name, MANY), |it| it.kernel_ns), time),
        ]);
    }
    table.text()
}
