//! `cargo xtask cases`: builds the test programs of the workspace and runs their cases.
//!
//! Each case runs in a process of its own: some cases use up descriptors, or end their process. A
//! few cases run side by side, the longest of the last run first. [`Turn`] names the programs that
//! need more of the machine. The output of a failed case is printed, and the command that runs it
//! alone. A case that prints `SKIP` counts as skipped. The last line is `N passed, N failed, N
//! skipped`.

mod case;
mod program;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::Error;
use crate::workspace::Workspace;

use self::case::{Case, Report};
use self::program::{Program, Turn};

/// Which cases.
#[derive(clap::Args)]
pub struct Args {
    /// Only the programs of this package; may be given several times
    #[arg(short, long, value_name = "PACKAGE")]
    package: Vec<String>,
    /// Only the programs of this name, as `crash` for tests/crash.rs; may be given several times
    #[arg(long, value_name = "NAME")]
    test: Vec<String>,
    /// Also the programs of the long tier
    #[arg(long)]
    long: bool,
    /// Run all of it several times
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    repeat: usize,
    /// How many cases run side by side
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    jobs: usize,
    /// The profile of cargo
    #[arg(long, value_name = "PROFILE", default_value = "gate")]
    profile: String,
    /// Only the cases whose names contain this
    filter: Option<String>,
}

impl Args {
    fn takes(&self, program: &Program) -> bool {
        (self.package.is_empty() || self.package.contains(&program.package))
            && (self.test.is_empty() || self.test.contains(&program.target))
            && (self.long || !program.is_long())
    }
}

/// Builds the programs and runs the cases.
///
/// # Errors
/// [`Error::Reported`] where a case failed; others where cargo or a program cannot be started.
pub fn run(workspace: &Workspace, args: &Args) -> Result<(), Error> {
    let folder = workspace.target_dir.join("ci/cases");
    fs::create_dir_all(&folder).map_err(|e| Error::write(&folder, e))?;
    let mut cases = Vec::new();
    for program in program::build(workspace, &args.profile)? {
        if args.takes(&program) {
            cases.extend(case::cases_of(&program, args.filter.as_deref())?);
        }
    }
    let mut counts = Counts::default();
    let mut durations = Durations::read(&folder);
    for _ in 0..args.repeat {
        // The queues hand out their last entries first.
        cases.sort_by_key(|case| durations.of(case));
        for report in run_once(&cases, args.jobs.max(1), &folder)? {
            counts.add(&report);
            durations.note(&report);
        }
    }
    durations.write()?;
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    if counts.failed > 0 { Err(Error::Reported) } else { Ok(()) }
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Counts {
    fn add(&mut self, report: &Report) {
        match report.outcome {
            case::Outcome::Passed => self.passed += 1,
            case::Outcome::Failed(_) => self.failed += 1,
            case::Outcome::Skipped => self.skipped += 1,
        }
    }
}

/// How long each case took when it last ran, in milliseconds: a line `MS TITLE` each.
struct Durations {
    file: PathBuf,
    by_title: HashMap<String, u128>,
}

impl Durations {
    fn read(folder: &Path) -> Self {
        let file = folder.join("durations");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let entry = |line: &str| {
            let (ms, title) = line.split_once(' ')?;
            Some((title.to_owned(), ms.parse().ok()?))
        };
        Self { by_title: text.lines().filter_map(entry).collect(), file }
    }

    fn of(&self, case: &Case) -> u128 {
        self.by_title.get(&case.title()).copied().unwrap_or(0)
    }

    fn note(&mut self, report: &Report) {
        self.by_title.insert(report.title.clone(), report.millis);
    }

    fn write(&self) -> Result<(), Error> {
        let mut entries: Vec<_> = self.by_title.iter().collect();
        entries.sort_by_key(|(_, ms)| Reverse(**ms));
        let lines: Vec<String> =
            entries.iter().map(|(title, ms)| format!("{ms} {title}\n")).collect();
        fs::write(&self.file, lines.concat()).map_err(|e| Error::write(&self.file, e))
    }
}

/// The cases that wait, by their turns. Each list hands out its last entry first.
struct Queues<'a> {
    beside: Vec<&'a Case>,
    heavy: Vec<&'a Case>,
    heavy_runs: bool,
}

impl<'a> Queues<'a> {
    fn next(&mut self) -> Option<&'a Case> {
        if !self.heavy_runs
            && let Some(case) = self.heavy.pop()
        {
            self.heavy_runs = true;
            return Some(case);
        }
        self.beside.pop()
    }
}

/// Runs each case once, and those that need the machine after all others.
fn run_once(cases: &[Case], jobs: usize, folder: &Path) -> Result<Vec<Report>, Error> {
    let of = |turn| cases.iter().filter(|case| case.turn == turn).collect();
    let together = Queues { beside: of(Turn::Beside), heavy: of(Turn::Heavy), heavy_runs: false };
    let mut reports = run_queues(together, jobs, folder)?;
    let alone = Queues { beside: of(Turn::Alone), heavy: Vec::new(), heavy_runs: false };
    reports.extend(run_queues(alone, 1, folder)?);
    Ok(reports)
}

fn run_queues(queues: Queues<'_>, jobs: usize, folder: &Path) -> Result<Vec<Report>, Error> {
    let (queues, reports) = (Mutex::new(queues), Mutex::new(Vec::new()));
    let work = |job: usize| -> Result<(), Error> {
        let log = folder.join(format!("case-{job}.log"));
        // The worker of a heavy case takes the next one too.
        while let Some(case) = { hold(&queues).next() } {
            let report = case.run(&log);
            if case.turn == Turn::Heavy {
                hold(&queues).heavy_runs = false;
            }
            let report = report?;
            // In one piece: other workers print too.
            let lines = report.lines(case);
            if !lines.is_empty() {
                println!("{}", lines.join("\n"));
            }
            hold(&reports).push(report);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..jobs).map(|job| scope.spawn(move || work(job))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    Ok(reports.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
