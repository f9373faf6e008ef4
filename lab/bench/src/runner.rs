//! A run: the steps of a plan, one after the other.

use m3ipc_report::names::{BIND, SOCK_FIRST};
use m3ipc_report::results::{Results, Row};
use m3ipc_report::schema::{Count, Placement, Round, Run};
use m3ipc_report::{columns, host, libraries, notes, phases, promises};

use crate::args::{BenchArgs, SuiteChoice};
use crate::error::Error;
use crate::job::{SuiteName, Test};
use crate::measure::{Bench, Cell};
use crate::measured::Measured;
use crate::outcome::Outcome;
use crate::plan::{Plan, Step, StepWork};
use crate::progress::Progress;
use crate::rounds::measure;
use crate::{counts, fragmentation, machine, outside, subjects, suites, untold};

/// Measures the suites of the command line; prints tables on standard output.
pub fn run(args: &BenchArgs) -> Result<Outcome, Error> {
    let bench = Bench::new()?;
    let mut machine = machine::find(&bench.cpus, bench.clock);
    let found = outside::find(&args.common.with)?;
    let has_phases = args.suite == Some(SuiteChoice::Phases);
    let plan = Plan { args, cpus: bench.cpus, libraries: &found.subjects, has_phases };
    let steps = suites::steps(&plan);
    if steps.is_empty() {
        return Err(nothing_matches(args.suite));
    }
    let cells: usize = steps.iter().map(Step::cells).sum();
    let mut progress = Progress::new(cells * usize::try_from(args.common.rounds()).unwrap_or(1));
    let mut results = Results::on(&machine);
    (results.libraries, results.skipped) = (found.versions, found.skipped);
    results.skipped.extend(suites::left_out(&plan, &steps));
    if bench.cpus.second.is_none() {
        results.skipped.push(format!(
            "{}: this process may use one CPU only; widen its affinity (taskset) or its cpuset",
            Placement::TwoCpus
        ));
    }
    print!("{}{}", machine.card(), notes::libraries(&results));
    if !steps.iter().all(|step| matches!(step.work, StepWork::Phases)) {
        print!("{}", columns::LEGEND);
    }
    for step in &steps {
        let text = run_step(&bench, args, step, &mut progress, &mut results);
        progress.clear();
        print!("{text}");
    }
    subjects::end_node();
    machine.loadavg_end = machine::loadavg();
    let (table, short) = if args.promises { promises::text(&results) } else { (String::new(), 0) };
    let host = host::text(&results).map(|text| format!("\nhost     {text}\n"));
    let host = host.unwrap_or_default();
    print!("{}{table}{host}{}", libraries::text(&results), notes::left_out(&results));
    if let Some(path) = &args.json {
        Run::new(&machine, &results).write(path)?;
    }
    Ok(match (results.failed.is_empty(), short) {
        (false, _) => Outcome::Failed,
        (true, 0) => Outcome::Fine,
        (true, _) => Outcome::FallsShort,
    })
}

/// Measures a step, adds its results, and returns its text.
pub fn run_step(
    bench: &Bench,
    args: &BenchArgs,
    step: &Step,
    progress: &mut Progress,
    results: &mut Results,
) -> String {
    let rounds = args.common.rounds();
    match step.work {
        StepWork::Rows(columns) => {
            let (mut groups, mut found) = (vec![], vec![]);
            for cells in step.turns() {
                found.extend(measure(bench, step, &cells, rounds, progress, results));
                let died = cells.iter().filter(|it| matches!(it.load.test, Test::Death { .. }));
                died.for_each(|cell| cell.subject.tidy());
            }
            let mut found = found.into_iter();
            for cells in &step.groups {
                let found = found.by_ref().take(cells.len()).collect();
                groups.extend(rows(step, cells, found));
            }
            let rows = || groups.iter().flatten();
            let is_of_messages = |cell: &Cell| cell.load.test.suite() == SuiteName::Ipc;
            if step.groups.iter().flatten().all(is_of_messages) {
                results.counts.extend(rows().filter_map(block_count));
            }
            results.rows.extend(rows().cloned());
            if groups.iter().all(Vec::is_empty) {
                return String::new();
            }
            columns::table(&step.title, columns, rounds, &groups)
        }
        StepWork::Untold => untold::run(bench, step, progress, results),
        StepWork::Phases => run_phases(bench, step, rounds, progress, results),
        StepWork::Fragmentation => {
            let whole = fragmentation::LIFE;
            let divisor = if args.common.quick { 10 } else { 1 };
            let life = fragmentation::Life { operations: whole.operations / divisor, ..whole };
            fragmentation::study(&life, &mut results.counts)
        }
        StepWork::Counts => {
            counts::run(bench, &args.common.only, results);
            notes::counts(results)
        }
    }
}

/// The rows of a group, and those of the times of a second kind.
fn rows(step: &Step, cells: &[Cell], found: Vec<Vec<Measured>>) -> Vec<Vec<Row>> {
    let second = match step.test {
        "contact" => Some(BIND),
        "sock-connect" => Some(SOCK_FIRST),
        _ => None,
    };
    let (mut first_rows, mut second_rows) = (vec![], vec![]);
    for (cell, found) in cells.iter().zip(found).filter(|(_, found)| !found.is_empty()) {
        if let Some(second) = second {
            let round = |it: &Measured| Round { samples: it.second.clone(), ..it.round.clone() };
            let rounds = found.iter().map(round).collect();
            second_rows.push(Row::of(cell.series(second, rounds)));
        }
        let rounds = found.into_iter().map(|measured| measured.round).collect();
        first_rows.push(Row::of(cell.series(step.test, rounds)));
    }
    [first_rows, second_rows].into_iter().filter(|rows| !rows.is_empty()).collect()
}

/// The median of the blocks, which the fixed fields of a record have no room for.
fn block_count(row: &Row) -> Option<Count> {
    let record = &row.record;
    Some(Count {
        test: record.test.clone(),
        mechanism: record.mechanism.clone(),
        what: format!("block {} {} {}", record.placement, record.wait, record.pairs),
        value: m3ipc_report::stats::tenth(row.block_ns?),
        unit: "ns".into(),
    })
}

fn run_phases(
    bench: &Bench,
    step: &Step,
    rounds: u32,
    progress: &mut Progress,
    results: &mut Results,
) -> String {
    let costs = match subjects::Costs::get() {
        Ok(costs) => costs.ns,
        Err(error) => {
            results.failed.push(format!("phases: {error}"));
            return String::new();
        }
    };
    let mut records = vec![];
    for cells in &step.groups {
        let found = measure(bench, step, cells, rounds, progress, results);
        for (cell, found) in cells.iter().zip(found).filter(|(_, found)| !found.is_empty()) {
            let trips: Vec<_> = found.into_iter().filter_map(|it| it.phases).collect();
            records.push(subjects::phase_record(cell, &trips, costs));
        }
    }
    let text = phases::text(&records, costs);
    results.phases.extend(records);
    text
}

/// The names that `--only` may have in the chosen suite.
fn nothing_matches(choice: Option<SuiteChoice>) -> Error {
    use SuiteName::{Area, Copy, Ipc, Sock};
    let of = |suite, name: &str, tests: &str| {
        let mechanisms: Vec<&str> = subjects::all(suite).iter().map(|it| it.name()).collect();
        format!("tests of {name} are {tests}; its mechanisms are {}", mechanisms.join(", "))
    };
    let ipc = || {
        let tests = "ipc1, ipc2, ipc3, ipc2-paced, pairs, clients, death, death-heavy, untold, \
                     restart, contact, instructions, memory";
        of(Ipc, "ipc", tests)
    };
    let copy = || of(Copy, "copy", "copy1, copy2, stream, misaligned");
    let area = || of(Area, "area", "attach, handover, pool, fragmentation");
    let sock = || {
        let tests = "sock-stream, sock-trip, sock-asleep, sock-epoll, sock-connect, sock-bulk";
        of(Sock, "sock", tests)
    };
    let phases = || {
        "phases are of short, long, block, vcopy messages, and of pipe, unix-stream and futex"
            .to_owned()
    };
    let names = match choice {
        Some(SuiteChoice::Ipc) => ipc(),
        Some(SuiteChoice::Copy) => copy(),
        Some(SuiteChoice::Area) => area(),
        Some(SuiteChoice::Sock) => sock(),
        Some(SuiteChoice::Phases) => phases(),
        Some(SuiteChoice::All) | None => [ipc(), copy(), area(), sock(), phases()].join("; "),
    };
    Error::Usage(format!("nothing matches --only; {names}"))
}
