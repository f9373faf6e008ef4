//! An unfinished run, kept in its directory after each step so that it can be resumed.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use m3ipc_report::results::Results;
use m3ipc_report::schema::{Run, RunCard, StepCard};

use crate::args::ReportArgs;
use crate::error::Error;
use crate::machine;
use crate::measure::Bench;

/// Name of the file.
const FILE: &str = "unfinished.json";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An unfinished run.
pub struct Unfinished {
    path: PathBuf,
    run: Run,
}

impl Unfinished {
    /// The unfinished run of the directory, or a new one.
    pub fn open(args: &ReportArgs, bench: &Bench) -> Result<Self, Error> {
        let path = args.out.join(FILE);
        let machine = machine::find(&bench.cpus, bench.clock);
        let (command, version) = (args.command(), VERSION.to_owned());
        if args.fresh || !path.exists() {
            let mut run = Run::new(&machine, &Results::default());
            let began_s = unix_s();
            run.run = Some(RunCard { command, version, began_s, ended_s: 0, resumed: 0 });
            return Ok(Self { path, run });
        }
        let mut run = Run::read(&path)?;
        let other = |what: String| {
            let out = args.out.display();
            Err(Error::Usage(format!(
                "{out} holds an unfinished run {what}; --fresh discards it, --out names another \
                 directory"
            )))
        };
        let Some(card) = &mut run.run else { return other("of another kind".into()) };
        if card.command != command {
            return other(format!("of `{}`", card.command));
        }
        if card.version != version {
            return other(format!("of version {}", card.version));
        }
        let (cpu, kernel) = (&run.machine.cpu, &run.machine.kernel);
        if (cpu, kernel) != (&machine.cpu, &machine.kernel) {
            return other(format!("of another machine ({cpu}, {kernel})"));
        }
        card.resumed += 1;
        Ok(Self { path, run })
    }

    /// Notes the libraries and the skipped measurements once.
    pub fn note(&mut self, libraries: Vec<(String, String)>, skipped: &[String]) {
        self.run.libraries = libraries;
        for text in skipped {
            if !self.run.skipped.contains(text) {
                self.run.skipped.push(text.clone());
            }
        }
    }

    /// Whether a step of this title is done.
    pub fn has(&self, title: &str) -> bool {
        self.run.steps.iter().any(|step| step.title == title)
    }

    /// Adds a step and writes the file.
    pub fn add(&mut self, step: StepCard, found: &Results) -> Result<(), Error> {
        self.run.steps.push(step);
        self.run.add(found);
        Ok(self.run.write(&self.path)?)
    }

    /// The finished run.
    pub fn finish(mut self) -> Run {
        self.run.machine.loadavg_end = machine::loadavg();
        if let Some(card) = &mut self.run.run {
            card.ended_s = unix_s();
        }
        self.run
    }

    /// Removes the file from this directory.
    pub fn remove(directory: &Path) {
        // It may never have been written.
        let _ = std::fs::remove_file(directory.join(FILE));
    }
}

/// Seconds since 1970.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
