//! All that a run measures, as steps: each a table of cells that take turns, or one look at something.

use crate::args::{BenchArgs, Suite};
use crate::measure::Bench;
use crate::mechanism::Mechanism;
use crate::plan::{self, Test};
use crate::progress::Progress;
use crate::record::Results;
use crate::rounds::{LEFT, UNTOLD};
use crate::{area, copy, counts, phases, report, rounds, sock};

/// What a run measures.
pub struct Suites {
    tests: Vec<Test>,
    copies: Vec<copy::Table>,
    areas: Vec<area::Table>,
    socks: Vec<sock::Table>,
    cut: Vec<phases::Cell>,
    is_studied: bool,
    is_counted: bool,
}

/// One part of a run: short enough to be done again after an interruption.
#[derive(Clone, Copy)]
pub enum Step<'a> {
    /// Round trips, deaths or contacts.
    Trips(&'a Test),
    /// Copies of blocks.
    Copies(&'a copy::Table),
    /// Memory that is shared.
    Areas(&'a area::Table),
    /// Sockets.
    Socks(&'a sock::Table),
    /// Round trips cut into their phases.
    Phases(&'a [phases::Cell]),
    /// How free memory falls to pieces.
    Pieces,
    /// Instructions and memory.
    Counts,
}

impl Suites {
    /// What the arguments ask for, and the phases of a round trip where they are wanted.
    #[must_use]
    pub fn plan(
        args: &BenchArgs,
        bench: &Bench,
        all: &[&'static dyn Mechanism],
        has_phases: bool,
    ) -> Self {
        let ipc = args.wants(Suite::Ipc);
        let areas = args.wants(Suite::Area);
        Self {
            tests: if ipc { plan::tests(args, &bench.cpus, all) } else { vec![] },
            copies: if args.wants(Suite::Copy) { copy::tests(args, &bench.cpus) } else { vec![] },
            areas: if areas { area::tables(args, &bench.cpus) } else { vec![] },
            socks: if args.wants(Suite::Sock) { sock::tables(args, &bench.cpus) } else { vec![] },
            is_studied: areas && args.lets(&["fragmentation"]),
            cut: if has_phases { phases::cells(args, &bench.cpus) } else { vec![] },
            is_counted: ipc && counts::wanted(&args.only),
        }
    }

    /// What of it this machine cannot measure, as far as that is known before.
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        if self.socks.is_empty() { None } else { sock::way::left_out() }
    }

    /// Its steps, in the order of their taking.
    #[must_use]
    pub fn steps(&self) -> Vec<Step<'_>> {
        let mut steps: Vec<Step<'_>> = self.tests.iter().map(Step::Trips).collect();
        steps.extend(self.copies.iter().map(Step::Copies));
        steps.extend(self.areas.iter().map(Step::Areas));
        steps.extend(self.socks.iter().map(Step::Socks));
        steps.extend((!self.cut.is_empty()).then_some(Step::Phases(&self.cut)));
        steps.extend(self.is_studied.then_some(Step::Pieces));
        steps.extend(self.is_counted.then_some(Step::Counts));
        steps
    }
}

impl Step<'_> {
    /// What it is called; no two of a run alike.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::Trips(test) => &test.title,
            Self::Copies(table) => &table.title,
            Self::Areas(table) => &table.title,
            Self::Socks(table) => &table.title,
            Self::Phases(_) => "phases of a round trip",
            Self::Pieces => "fragmentation of areas",
            Self::Counts => "instructions and memory",
        }
    }

    /// How many cells it has.
    #[must_use]
    pub fn cells(&self) -> usize {
        match self {
            Self::Trips(test) => test.cells.len(),
            Self::Copies(table) => table.sizes.iter().map(Vec::len).sum(),
            Self::Areas(table) => table.sizes.iter().map(Vec::len).sum(),
            Self::Socks(table) => table.sizes.iter().map(Vec::len).sum(),
            Self::Phases(cells) => cells.len(),
            Self::Pieces | Self::Counts => 0,
        }
    }

    /// Measures it, adds what was found, and gives it as text.
    pub fn run(
        &self,
        bench: &Bench,
        args: &BenchArgs,
        progress: &mut Progress,
        results: &mut Results,
    ) -> String {
        let number = args.rounds();
        match self {
            Self::Trips(test) => {
                let rows = rounds::run(bench, test, number, progress, results);
                let untold: String = results
                    .counts
                    .iter()
                    .filter(|count| {
                        test.name == UNTOLD && [UNTOLD, LEFT].contains(&count.test.as_str())
                    })
                    .map(|count| match count.test.as_str() {
                        UNTOLD => {
                            format!("  {}: not told within {:.0} s\n", count.mechanism, count.value)
                        }
                        _ => format!("  {}: left behind: {}\n", count.mechanism, count.what),
                    })
                    .collect();
                let head = if untold.is_empty() {
                    String::new()
                } else {
                    format!("\n{}\n{untold}", test.title)
                };
                head + &if rows.is_empty() { String::new() } else { report::table(test, &rows) }
            }
            Self::Copies(table) => copy::run(bench, table, number, progress, results),
            Self::Areas(table) => area::run(bench, table, number, progress, results),
            Self::Socks(table) => sock::run(bench, table, number, progress, results),
            Self::Phases(cells) => match phases::run(bench, args, cells, progress, results) {
                Ok(text) => text,
                Err(error) => {
                    results.failed.push(format!("phases: {error}"));
                    String::new()
                }
            },
            Self::Pieces => {
                let whole = area::study::LIFE;
                let operations = if args.quick { whole.operations / 10 } else { whole.operations };
                area::fragmentation(&area::study::Life { operations, ..whole }, results)
            }
            Self::Counts => {
                counts::run(bench, &args.only, results);
                report::counts(results)
            }
        }
    }
}
