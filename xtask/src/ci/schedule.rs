//! Runs steps side by side where they allow it, and prints a line for each.
//!
//! A step starts when the steps that it follows have ended and a slot is free. A quiet step waits
//! until nothing else runs, and nothing starts beside it. Steps that lock the same folder of cargo
//! run one after the other. A failed step leaves out the steps that take its output, and no others.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::workspace::Workspace;

use super::figure::{FailedCase, Totals, failed_cases};
use super::process::{self, Ended, Running};
use super::step::Step;

/// How many lines of the log of a failed step are printed.
const TAIL_LINES: usize = 100;
const POLL_EVERY: Duration = Duration::from_millis(20);

/// A step that failed, with the cases that its output names.
struct Failure<'a> {
    step: &'a Step,
    cases: Vec<FailedCase>,
}

/// The steps that wait, that run, and that have ended.
pub struct Schedule<'a> {
    workspace: &'a Workspace,
    logs: PathBuf,
    slots: usize,
    waiting: Vec<&'a Step>,
    running: Vec<(&'a Step, Running)>,
    failures: Vec<Failure<'a>>,
    /// Steps whose output others cannot take.
    unusable: Vec<&'static str>,
    totals: Totals,
}

impl<'a> Schedule<'a> {
    /// A schedule of these steps; their output goes to `logs`.
    pub fn new(workspace: &'a Workspace, logs: PathBuf, steps: Vec<&'a Step>) -> Self {
        // One more than CPUs: some steps wait for processes or for the network.
        let slots = thread::available_parallelism().map_or(1, |cpus| cpus.get() + 1).min(4);
        Self {
            workspace,
            logs,
            slots,
            waiting: steps,
            running: Vec::new(),
            failures: Vec::new(),
            unusable: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Runs all steps. The last lines name each failed case with the command that runs it alone,
    /// and count: the cases of a step with cases, and each other step as one.
    ///
    /// # Errors
    /// [`Error::Reported`] where a step failed; others where a step could not be started.
    pub fn run(mut self) -> Result<(), Error> {
        let start = Instant::now();
        let result = self.run_steps();
        for (_, running) in &mut self.running {
            // It may have ended by itself since the last poll.
            let _ = running.end();
        }
        result?;
        println!("{:<12} {:<7} {:>7.1}", "all", "", start.elapsed().as_secs_f64());
        for failure in &self.failures {
            failure.print(self.workspace);
        }
        println!("{}", self.totals);
        if self.failures.is_empty() { Ok(()) } else { Err(Error::Reported) }
    }

    fn run_steps(&mut self) -> Result<(), Error> {
        loop {
            self.leave_out();
            while let Some(index) = self.startable() {
                let step = self.waiting.remove(index);
                self.start(step)?;
            }
            if self.running.is_empty() && self.waiting.is_empty() {
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
            thread::sleep(POLL_EVERY);
        }
    }

    /// Leaves out the steps that take the output of a step that has none.
    fn leave_out(&mut self) {
        let lacks = |step: &Step| step.takes.iter().find(|name| self.unusable.contains(name));
        let lacking = self.waiting.iter().enumerate();
        let Some((index, name)) = lacking.flat_map(|(i, step)| Some((i, *lacks(step)?))).next()
        else {
            return;
        };
        let step = self.waiting.remove(index);
        self.skip(step, &format!("it needs the output of `{name}`"));
        self.leave_out();
    }

    fn skip(&mut self, step: &Step, reason: &str) {
        println!("{:<12} SKIP    {:>7}  {reason}", step.name, "");
        self.totals.skipped += 1;
        self.unusable.push(step.name);
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
            !step.after.iter().chain(step.takes).any(is_open)
                && !self.running.iter().any(locks)
                && (!step.quiet || self.running.is_empty())
        })
    }

    fn start(&mut self, step: &'a Step) -> Result<(), Error> {
        if let Some(reason) = step.missing(self.workspace) {
            self.skip(step, &reason);
            return Ok(());
        }
        let running = process::start(self.workspace, step, &self.log(step))?;
        self.running.push((step, running));
        Ok(())
    }

    fn log(&self, step: &Step) -> PathBuf {
        self.logs.join(format!("{}.log", step.name))
    }

    /// Prints the line of a step that has ended, and after a failure the end of its log.
    fn close(&mut self, step: &'a Step, took: Duration, ended: &Ended) {
        let log = self.log(step);
        let output = fs::read(&log).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let output = output.split_once('\n').map_or("", |(_command, rest)| rest);
        let fault = match ended {
            Ended::Exited(status) if status.success() => None,
            Ended::Exited(status) => Some(status.to_string()),
            Ended::OutOfTime => Some(format!("still running after {} s; ended", step.limit_s)),
        };
        for line in step.figure.closing_lines(output) {
            println!("{line}");
        }
        let mut totals = step.figure.totals(output).unwrap_or_default();
        let figure = step.figure.read(output);
        let (result, figure) = match &fault {
            None => ("passed", figure),
            Some(fault) => ("FAILED", format!("{figure}; {fault}")),
        };
        let seconds = took.as_secs_f64();
        let log = log.strip_prefix(&self.workspace.root).unwrap_or(&log).display();
        println!("{:<12} {result:<7} {seconds:>7.1}  {figure}  [{log}]", step.name);
        if fault.is_some() {
            let lines: Vec<&str> = output.lines().collect();
            for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
                println!("    | {line}");
            }
            // A build that failed, or a runner that ended early, is a failure without a case.
            totals.failed = totals.failed.max(1);
            self.failures.push(Failure { step, cases: failed_cases(output) });
            self.unusable.push(step.name);
        } else if totals == Totals::default() {
            totals.passed = 1;
        }
        self.totals = self.totals.plus(totals);
    }
}

impl Failure<'_> {
    fn print(&self, workspace: &Workspace) {
        let step = self.step;
        if self.cases.is_empty() {
            println!("FAILED {}\n       alone: {}", step.name, step.command_line(workspace));
        }
        for case in &self.cases {
            println!("FAILED {}: {}", step.name, case.name);
            match &case.alone {
                Some(command) => println!("       alone: {command}"),
                None if !step.case.is_empty() => {
                    println!("       alone: {}", step.case_command(&case.name));
                }
                None => {}
            }
        }
        println!("       next:  {}", step.next);
    }
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
    fn a_failure_leaves_out_the_steps_that_take_its_output_alone() {
        let (result, order) = run(
            &[
                (A, "echo a >>order; exit 1"),
                (Step { takes: &["a"], ..B }, "echo b >>order"),
                (Step { takes: &["b"], ..C }, "echo c >>order"),
                (Step { after: &["a"], ..D }, "echo d >>order"),
            ],
            "failure",
        );
        assert!(matches!(result, Err(Error::Reported)));
        assert_eq!(order, "a d");
    }
}
