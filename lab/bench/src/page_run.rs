//! `m3 bench report`: measures everything and writes one page about it.
//!
//! ```text
//! steps ──> unfinished run (kept after each step) ──> JSON ──> page (HTML)
//!                                                      └── --from FILE ──┘
//! ```
//! The page follows from the JSON alone.

mod disturbance;
mod unfinished;

use std::path::Path;

use m3ipc_report::results::Results;
use m3ipc_report::schema::Run;
use m3ipc_report::{Error as ReportError, page, replace};

use crate::args::{BenchArgs, ReportArgs, SuiteChoice};
use crate::error::Error;
use crate::measure::Bench;
use crate::outcome::Outcome;
use crate::plan::{Plan, Step};
use crate::progress::Progress;
use crate::runner::run_step;
use crate::{outside, subjects, suites};
use disturbance::Disturbance;
use unfinished::Unfinished;

/// Name of the page in its directory.
const PAGE: &str = "index.html";
/// Name of the JSON beside it.
const JSON: &str = "bench.json";
/// Name of the JSON of the run before.
const BEFORE: &str = "bench.before.json";

/// Measures the missing steps and writes the page.
pub fn run(args: &ReportArgs) -> Result<Outcome, Error> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |source| ReportError::File { path, source }
    };
    std::fs::create_dir_all(&args.out).map_err(file(&args.out))?;
    let (json, before) = (args.out.join(JSON), args.out.join(BEFORE));
    let run = match &args.from {
        Some(from) => Run::read(from)?,
        None => {
            let run = measured(args)?;
            if json.exists() {
                std::fs::rename(&json, &before).map_err(file(&json))?;
            }
            run.write(&json)?;
            Unfinished::remove(&args.out);
            run
        }
    };
    let origin = args.from.as_deref().unwrap_or(Path::new(JSON));
    let path = args.out.join(PAGE);
    replace(&path, page(&run, origin).as_bytes())?;
    println!("{}", path.display());
    if args.from.is_none() {
        println!("{}", json.display());
        if before.exists() {
            let (before, json) = (before.display(), json.display());
            println!("against the run before: m3 bench compare {before} {json}");
        }
    }
    run.failed.iter().for_each(|failed| eprintln!("failed: {failed}"));
    Ok(if run.failed.is_empty() { Outcome::Fine } else { Outcome::Failed })
}

/// Measures the missing steps; each is kept as soon as it is done.
fn measured(args: &ReportArgs) -> Result<Run, Error> {
    let bench = Bench::new()?;
    let suite = Some(SuiteChoice::All);
    let measure = BenchArgs { suite, common: args.common.clone(), ..BenchArgs::default() };
    let found = outside::find(&args.common.with)?;
    let plan =
        Plan { args: &measure, cpus: bench.cpus, libraries: &found.subjects, has_phases: true };
    let steps = suites::steps(&plan);
    if steps.is_empty() {
        let why = "nothing matches --only; m3 bench all --only WORD lists the names";
        return Err(Error::Usage(why.into()));
    }
    let mut unfinished = Unfinished::open(args, &bench)?;
    let skipped: Vec<String> =
        found.skipped.into_iter().chain(suites::left_out(&plan, &steps)).collect();
    unfinished.note(found.versions, &skipped);
    let missing: Vec<&Step> = steps.iter().filter(|step| !unfinished.has(&step.title)).collect();
    if missing.len() < steps.len() {
        let (done, all) = (steps.len() - missing.len(), steps.len());
        eprintln!("{done} of {all} steps are done already; going on");
    }
    let cells: usize = missing.iter().map(|step| step.cells()).sum();
    let rounds = usize::try_from(measure.common.rounds()).unwrap_or(1);
    let mut progress = Progress::new(cells * rounds);
    for step in missing {
        let mut found = Results::default();
        let disturbance = Disturbance::start();
        run_step(&bench, &measure, step, &mut progress, &mut found);
        unfinished.add(disturbance.end(&step.title), &found)?;
    }
    subjects::end_node();
    drop(progress);
    Ok(unfinished.finish())
}
