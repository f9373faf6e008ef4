//! What of a run is done: kept in its directory after each step, so that an interrupted run goes on.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{ReportArgs, unix_s};
use crate::error::Error;
use crate::machine::Machine;
use crate::measure::Bench;
use crate::output::{Output, Raw};
use crate::record::Results;

/// Name of the file of an unfinished run.
const UNFINISHED: &str = "unfinished.json";

/// How a run was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCard {
    /// The command that repeats it.
    pub command: String,
    /// Version of the benchmark.
    pub version: String,
    /// When it began, in seconds since 1970.
    pub began_s: u64,
    /// When it ended.
    pub ended_s: u64,
    /// How often it was interrupted and gone on with.
    pub resumed: u32,
}

/// What went on beside one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCard {
    /// Title of the step.
    pub title: String,
    /// How long it took.
    pub seconds: f64,
    /// CPUs that processes of others used on average.
    pub foreign_cpus: f64,
    /// CPUs that the hypervisor took away on average.
    pub stolen_cpus: f64,
}

/// An unfinished run.
pub struct State {
    path: PathBuf,
    output: Output,
}

impl State {
    /// The unfinished run of this directory, or a new one.
    ///
    /// # Errors
    /// Where there is one that was asked for otherwise, by another version, or on another machine.
    pub fn open(args: &ReportArgs, bench: &Bench) -> Result<Self, Error> {
        let path = args.out.join(UNFINISHED);
        let machine = Machine::find(&bench.cpus, bench.clock);
        if args.fresh || !path.exists() {
            let run = RunCard {
                command: args.command(),
                version: env!("CARGO_PKG_VERSION").into(),
                began_s: unix_s(),
                ended_s: 0,
                resumed: 0,
            };
            let mut output = Output::new(&machine, &Results::default());
            output.run = Some(run);
            return Ok(Self { path, output });
        }
        let mut output = Output::read(&path)?;
        let other = |what: String| {
            let out = args.out.display();
            Err(Error::Usage(format!(
                "{out} holds an unfinished run {what}; --fresh throws it away, --out takes another directory"
            )))
        };
        let Some(run) = &mut output.run else { return other("of another kind".into()) };
        if run.command != args.command() {
            return other(format!("of `{}`", run.command));
        }
        if run.version != env!("CARGO_PKG_VERSION") {
            return other(format!("of version {}", run.version));
        }
        if (&output.machine.cpu, &output.machine.kernel) != (&machine.cpu, &machine.kernel) {
            return other(format!(
                "of another machine ({}, {})",
                output.machine.cpu, output.machine.kernel
            ));
        }
        run.resumed += 1;
        Ok(Self { path, output })
    }

    /// Notes the libraries of others and what is missing of them, once.
    pub fn note(&mut self, libraries: Vec<(String, String)>, skipped: &[String]) {
        self.output.libraries = libraries;
        for text in skipped {
            if !self.output.skipped.contains(text) {
                self.output.skipped.push(text.clone());
            }
        }
    }

    /// Whether a step of this title is done.
    #[must_use]
    pub fn is_done(&self, title: &str) -> bool {
        self.output.steps.iter().any(|step| step.title == title)
    }

    /// Adds a step that is done, and keeps it.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn add(&mut self, step: StepCard, found: &Results) -> Result<(), Error> {
        let output = &mut self.output;
        output.steps.push(step);
        output.results.extend(found.rows.iter().map(|row| row.record.clone()));
        output.samples.extend(found.rows.iter().map(Raw::of));
        output.phases.extend_from_slice(&found.phases);
        output.counts.extend_from_slice(&found.counts);
        output.skipped.extend_from_slice(&found.skipped);
        output.failed.extend_from_slice(&found.failed);
        output.write(&self.path)
    }

    /// The run as it is in the end.
    #[must_use]
    pub fn finished(mut self) -> Output {
        self.output.machine.end();
        if let Some(run) = &mut self.output.run {
            run.ended_s = unix_s();
        }
        self.output
    }

    /// Removes the file of an unfinished run from this directory.
    pub fn remove(directory: &Path) {
        // It may never have been written.
        let _ = std::fs::remove_file(directory.join(UNFINISHED));
    }
}
