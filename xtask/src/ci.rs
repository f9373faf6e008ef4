//! `cargo xtask test` and `cargo xtask check`: the gate in two halves.
//!
//! The steps are data, in `ci/steps.rs` and `ci/long_tier.rs`. Independent steps run side by side;
//! a quiet step runs alone. Each step prints one line at its end, and its output goes to
//! `target/ci/STEP.log`. A failure leaves out the steps that take the output of the failed step,
//! and no others. A step that lacks a tool is skipped with the reason. The last lines name each
//! failed case with the command that runs it alone, and count over all suites.

mod figure;
mod long_tier;
pub mod process;
mod schedule;
mod step;
mod steps;

use std::env;
use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::workspace::Workspace;

use self::long_tier::LONG_TIER;
use self::schedule::Schedule;
pub use self::step::Gate;
use self::step::{Run, Step};
use self::steps::GATE;

/// All steps, in the order in which they start where nothing else decides.
fn all_steps() -> impl Iterator<Item = &'static Step> + Clone {
    GATE.iter().chain(LONG_TIER)
}

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// Only the quick steps of a working loop
    #[arg(long, conflicts_with = "full")]
    fast: bool,
    /// The long tier too: soak, long fuzzing, simulation, sanitizers
    #[arg(long)]
    full: bool,
    /// Print the steps and their commands, and run nothing
    #[arg(long)]
    list: bool,
    /// Only these steps, and the builds whose output they take
    #[arg(value_name = "STEP")]
    pub steps: Vec<String>,
}

impl Args {
    fn run(&self) -> Run {
        match (self.fast, self.full) {
            (true, _) => Run::Fast,
            (_, true) => Run::Full,
            _ => Run::Gate,
        }
    }

    fn chosen(&self, gate: Gate) -> Result<Vec<&'static Step>, Error> {
        if let Some(name) = self.steps.iter().find(|name| all_steps().all(|s| s.name != **name)) {
            return Err(Error::Unknown {
                what: format!("step `{name}`"),
                next: "`cargo xtask test --full --list` and `cargo xtask check --full --list` \
                       name them.",
            });
        }
        let is_chosen = |step: &Step| match self.steps.is_empty() {
            true => step.gate == gate && step.run <= self.run(),
            false => self.steps.iter().any(|name| name == step.name),
        };
        let mut chosen: Vec<&Step> = Vec::new();
        // The takers of a step follow it in the list.
        let all: Vec<&'static Step> = all_steps().collect();
        for step in all.into_iter().rev() {
            if is_chosen(step) || chosen.iter().any(|taker| taker.takes.contains(&step.name)) {
                chosen.insert(0, step);
            }
        }
        Ok(chosen)
    }
}

/// Runs the steps.
///
/// # Errors
/// [`Error::Reported`] where a step failed; others where a step could not be started.
pub fn run(workspace: &Workspace, gate: Gate, args: &Args) -> Result<(), Error> {
    let steps = args.chosen(gate)?;
    if args.list {
        for step in steps {
            println!("{:<18} {}", step.name, step.command_line(workspace));
        }
        return Ok(());
    }
    let logs = workspace.target_dir.join("ci");
    fs::create_dir_all(&logs).map_err(|e| Error::write(&logs, e))?;
    copy_program(&logs)?;
    println!("logs: {}/STEP.log", logs.display());
    Schedule::new(workspace, logs, steps).run()
}

/// Copies this program for the steps: a build during the run may replace the original.
fn copy_program(folder: &Path) -> Result<(), Error> {
    let own = env::current_exe().map_err(|e| Error::read(folder, e))?;
    let copy = folder.join("xtask");
    // The system refuses to write to a program that still runs; a removed one lives on.
    let _ = fs::remove_file(&copy);
    fs::copy(&own, &copy).map(drop).map_err(|e| Error::write(&copy, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_whole_and_follows_earlier_steps_alone() {
        for (index, step) in all_steps().enumerate() {
            let earlier = all_steps().take(index);
            assert!(!step.name.is_empty() && !step.command.is_empty() && !step.next.is_empty());
            assert!(earlier.clone().all(|other| other.name != step.name), "{} twice", step.name);
            for name in step.after.iter().chain(step.takes) {
                let before = earlier.clone().find(|other| other.name == *name);
                assert!(before.is_some(), "{} waits for {name}", step.name);
            }
        }
    }

    fn names(gate: Gate, words: &[&str]) -> Vec<&'static str> {
        let steps = words.iter().map(|word| (*word).to_owned()).collect();
        let args = Args { fast: false, full: false, list: false, steps };
        let chosen = args.chosen(gate).ok();
        chosen.into_iter().flatten().map(|step| step.name).collect()
    }

    #[test]
    fn a_named_step_brings_the_builds_that_it_takes() {
        assert_eq!(names(Gate::Test, &["capi"]), ["build", "programs", "capi"]);
        assert!(names(Gate::Test, &["no-such-step"]).is_empty());
    }

    #[test]
    fn the_tests_need_no_tool_that_is_installed_for_the_checks() {
        let tests = names(Gate::Test, &[]);
        let checks = names(Gate::Check, &[]);
        assert!(tests.contains(&"test") && checks.contains(&"clippy"));
        assert!(tests.iter().all(|name| !checks.contains(name)));
        assert!(!tests.contains(&"tools"));
    }
}
