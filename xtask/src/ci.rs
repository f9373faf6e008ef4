//! `cargo xtask ci`: all checks and tests.
//!
//! The steps are data, in `ci/steps.rs` and `ci/long_tier.rs`. Independent steps run side by side;
//! a quiet step runs alone. Each step prints one line at its end, and its output goes to
//! `target/ci/STEP.log`. The first failure ends the steps that still run, and the end of its log is
//! printed. A step that lacks a tool is skipped with the reason. The last line is `N passed,
//! N failed, N skipped` and counts steps.

mod figure;
mod long_tier;
mod process;
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
use self::step::{Run, Step};
use self::steps::GATE;

/// All steps, in the order in which they start where nothing else decides.
fn all_steps() -> impl Iterator<Item = &'static Step> + Clone {
    GATE.iter().chain(LONG_TIER)
}

/// The step that keeps the programs for later ones.
const KEPT: &str = "programs";
/// The steps that make these programs.
const PROGRAM_STEPS: &[&str] = &["build", "build-proxy", KEPT];

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// Only the quick steps of a working loop
    #[arg(long, conflicts_with = "full")]
    fast: bool,
    /// Also soak, long fuzzing, miri and sanitizers
    #[arg(long)]
    full: bool,
    /// Print the steps and their commands, and run nothing
    #[arg(long)]
    list: bool,
    /// Only this step, and the builds that it takes programs from; may be given several times
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
}

impl Args {
    fn run(&self) -> Run {
        match (self.fast, self.full) {
            (true, _) => Run::Fast,
            (_, true) => Run::Full,
            _ => Run::Gate,
        }
    }

    fn steps(&self) -> Result<Vec<&'static Step>, Error> {
        let unknown = self.only.iter().find(|name| all_steps().all(|step| step.name != **name));
        match unknown {
            Some(name) => Err(Error::Unknown {
                what: format!("step `{name}`"),
                next: "`cargo xtask ci --list` names them.",
            }),
            None if self.only.is_empty() => {
                Ok(all_steps().filter(|step| step.run <= self.run()).collect())
            }
            None => {
                let named = |step: &&Step| self.only.iter().any(|name| *name == step.name);
                let follows =
                    |name: &str| all_steps().filter(named).any(|it| it.after.contains(&name));
                // Scripts would test programs of an earlier build, and tests its daemon.
                let (takes_programs, starts_daemon) = (follows(KEPT), follows("test"));
                let is_build = |step: &&Step| {
                    takes_programs && PROGRAM_STEPS.contains(&step.name)
                        || starts_daemon && step.name == "build"
                };
                Ok(all_steps().filter(|step| named(step) || is_build(step)).collect())
            }
        }
    }
}

/// Runs the steps.
///
/// # Errors
/// [`Error::Reported`] where a step failed; others where a step could not be started.
pub fn run(workspace: &Workspace, args: &Args) -> Result<(), Error> {
    let steps = args.steps()?;
    if args.list {
        for step in steps {
            println!("{:<12} {}", step.name, step.command_line());
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
            for name in step.after {
                let before = earlier.clone().find(|other| other.name == *name);
                assert!(before.is_some(), "{} waits for {name}", step.name);
            }
        }
    }
}
