//! Runs steps side by side where they allow it, and prints a line for each.
//!
//! A step starts when the steps that it follows have ended and a slot is free. A quiet step waits
//! until nothing else runs, and nothing starts beside it. Steps that lock the same folder of cargo
//! run one after the other. After a failure nothing more starts.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::workspace::Workspace;

use super::process::{self, Ended, Running};
use super::step::Step;

/// How many lines of the log of a failed step are printed.
const TAIL_LINES: usize = 100;
const POLL_EVERY: Duration = Duration::from_millis(20);

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// The steps that wait, that run, and that have ended.
pub struct Schedule<'a> {
    workspace: &'a Workspace,
    logs: PathBuf,
    slots: usize,
    waiting: Vec<&'a Step>,
    running: Vec<(&'a Step, Running)>,
    ended: Vec<Outcome>,
}

impl<'a> Schedule<'a> {
    /// A schedule of these steps; their output goes to `logs`.
    pub fn new(workspace: &'a Workspace, logs: PathBuf, steps: Vec<&'a Step>) -> Self {
        // One more than CPUs: some steps wait for processes or for the network.
        let slots = thread::available_parallelism().map_or(1, |cpus| cpus.get() + 1).min(4);
        let (running, ended) = (Vec::new(), Vec::new());
        Self { workspace, logs, slots, waiting: steps, running, ended }
    }

    /// Runs all steps, or those until the first failure, and prints the totals.
    ///
    /// # Errors
    /// [`Error::Reported`] where a step failed; others where a step could not be started.
    pub fn run(mut self) -> Result<(), Error> {
        let start = Instant::now();
        let result = self.run_steps();
        for (step, running) in &mut self.running {
            println!("{:<12} ended: another step failed", step.name);
            // It may have ended by itself since the last poll.
            let _ = running.end();
        }
        result?;
        for step in &self.waiting {
            println!("{:<12} SKIP    {:>7}  an earlier step failed", step.name, "");
        }
        let count = |outcome| self.ended.iter().filter(|ended| **ended == outcome).count();
        let skipped = count(Outcome::Skipped) + self.waiting.len() + self.running.len();
        println!("{:<12} {:<7} {:>7.1}", "all", "", start.elapsed().as_secs_f64());
        println!("{}", closing_line(count(Outcome::Passed), self.failed(), skipped));
        if self.failed() > 0 { Err(Error::Reported) } else { Ok(()) }
    }

    fn failed(&self) -> usize {
        self.ended.iter().filter(|ended| **ended == Outcome::Failed).count()
    }

    fn run_steps(&mut self) -> Result<(), Error> {
        loop {
            while let Some(index) = self.startable() {
                let step = self.waiting.remove(index);
                self.start(step)?;
            }
            if self.running.is_empty() {
                return Ok(());
            }
            for index in (0..self.running.len()).rev() {
                let (step, running) = &mut self.running[index];
                let ended = running
                    .poll()
                    .map_err(|source| Error::Start { program: step.name.into(), source })?;
                if let Some(ended) = ended {
                    let (step, running) = self.running.remove(index);
                    self.close(step, running.took(), &ended);
                }
            }
            if self.failed() > 0 {
                return Ok(());
            }
            thread::sleep(POLL_EVERY);
        }
    }

    /// The first waiting step that may start now.
    fn startable(&self) -> Option<usize> {
        let is_quiet = self.running.iter().any(|(step, _)| step.quiet);
        if is_quiet || self.running.len() >= self.slots {
            return None;
        }
        self.waiting.iter().position(|step| {
            let is_open = |name: &&str| {
                self.waiting.iter().any(|other| other.name == *name)
                    || self.running.iter().any(|(other, _)| other.name == *name)
            };
            let locks =
                |(other, _): &(&Step, Running)| !step.lock.is_empty() && other.lock == step.lock;
            !step.after.iter().any(is_open)
                && !self.running.iter().any(locks)
                && (!step.quiet || self.running.is_empty())
        })
    }

    fn start(&mut self, step: &'a Step) -> Result<(), Error> {
        if let Some(reason) = step.missing(self.workspace) {
            println!("{:<12} SKIP    {:>7}  {reason}", step.name, "");
            self.ended.push(Outcome::Skipped);
            return Ok(());
        }
        if let Some(reason) = step.falls_back(self.workspace) {
            println!("{:<12} NOTE    {:>7}  {reason}: {}", step.name, "", step.fallback);
        }
        let running = process::start(self.workspace, step, &self.log(step))?;
        self.running.push((step, running));
        Ok(())
    }

    fn log(&self, step: &Step) -> PathBuf {
        self.logs.join(format!("{}.log", step.name))
    }

    /// Prints the line of a step that has ended, and after a failure the end of its log.
    fn close(&mut self, step: &Step, took: Duration, ended: &Ended) {
        let log = self.log(step);
        let output = fs::read(&log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let output = output.split_once('\n').map_or("", |(_command, rest)| rest);
        let (outcome, figure) = match ended {
            Ended::Exited(status) if status.success() => {
                (Outcome::Passed, step.figure.read(output))
            }
            Ended::Exited(status) => (Outcome::Failed, status.to_string()),
            Ended::OutOfTime => {
                (Outcome::Failed, format!("still running after {} s; ended", step.limit_s))
            }
        };
        for line in step.figure.closing_lines(output) {
            println!("{line}");
        }
        let result = if outcome == Outcome::Passed { "passed" } else { "FAILED" };
        let seconds = took.as_secs_f64();
        let log = log.strip_prefix(&self.workspace.root).unwrap_or(&log).display();
        println!("{:<12} {result:<7} {seconds:>7.1}  {figure}  [{log}]", step.name);
        if outcome == Outcome::Failed {
            let lines: Vec<&str> = output.lines().collect();
            for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
                println!("    | {line}");
            }
            println!("    alone: {}\n    next:  {}", step.command_line(), step.next);
        }
        self.ended.push(outcome);
    }
}

fn closing_line(passed: usize, failed: usize, skipped: usize) -> String {
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

#[cfg(test)]
mod tests {
    use super::super::step::PLAIN;
    use super::*;

    /// Runs steps, each with its script, and returns the words that the scripts wrote to `order`.
    fn run(steps: &[(Step, &str)], name: &str) -> (Result<(), Error>, String) {
        let folder = std::env::temp_dir().join(format!("m3-ci-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder can be made");
        for (step, script) in steps {
            fs::write(folder.join(step.name), script).expect("a script can be written");
        }
        let workspace =
            Workspace { root: folder.clone(), target_dir: folder.clone(), packages: Vec::new() };
        let steps = steps.iter().map(|(step, _)| step).collect();
        let mut schedule = Schedule::new(&workspace, folder.clone(), steps);
        schedule.slots = 2;
        let result = schedule.run();
        let order = fs::read_to_string(folder.join("order")).unwrap_or_default();
        let _ = fs::remove_dir_all(&folder);
        (result, order.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_closing_line_is_plain() {
        assert_eq!(closing_line(7, 0, 2), "7 passed, 0 failed, 2 skipped");
    }

    const A: Step = Step { name: "a", command: "sh a", ..PLAIN };
    const B: Step = Step { name: "b", command: "sh b", ..PLAIN };
    const C: Step = Step { name: "c", command: "sh c", ..PLAIN };
    const D: Step = Step { name: "d", command: "sh d", ..PLAIN };

    /// Step `a` ends after `c`, and `c` writes while `a` runs.
    const WITH_C: &str =
        "echo a >>order; until [ -e c-done ]; do sleep 0.02; done; echo -a >>order";
    const WITH_A: &str = "until grep -qsx a order; do sleep 0.02; done; echo c >>order; : >c-done";

    #[test]
    fn steps_run_side_by_side_and_quiet_steps_alone() {
        let (result, order) = run(
            &[
                (Step { limit_s: 60, ..A }, WITH_C),
                (Step { quiet: true, ..B }, "echo b >>order; sleep 0.2; echo -b >>order"),
                (Step { limit_s: 60, ..C }, WITH_A),
                (Step { after: &["b"], ..D }, "echo d >>order"),
            ],
            "order",
        );
        assert!(result.is_ok());
        assert_eq!(order, "a c -a b -b d");
    }

    #[test]
    fn steps_with_one_lock_run_one_after_the_other() {
        let (_, order) = run(
            &[
                (Step { lock: "debug", ..A }, "echo a >>order; sleep 0.3; echo -a >>order"),
                (Step { lock: "debug", ..B }, "echo b >>order"),
            ],
            "lock",
        );
        assert_eq!(order, "a -a b");
    }

    #[test]
    fn the_first_failure_ends_the_others() {
        let (result, order) = run(
            &[
                (A, "sleep 600; echo a >>order"),
                (B, "echo b >>order; exit 1"),
                (Step { after: &["b"], ..C }, "echo c >>order"),
            ],
            "failure",
        );
        assert!(matches!(result, Err(Error::Reported)));
        assert_eq!(order, "b");
    }
}
