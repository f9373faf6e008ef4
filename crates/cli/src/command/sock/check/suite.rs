//! `m3 sock check --suite`: a project's own tests, natively and under `m3 sock run`.
//!
//! Both runs must end with the same exit code, and their outputs must have the same counts. Where
//! they do not, the runs are repeated: a suite whose native runs differ among themselves proves
//! nothing. The outputs stay on the disk unless all is equal.

mod counts;
mod project;

use crate::error::{CliError, Result};
use crate::output::{Output, table};
use crate::sock::library;
use counts::TestCounts;
use m3ipc_shim::counters::{Counter, Snapshot};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to run, and how.
pub struct SuiteOptions<'a> {
    /// The directory of the project.
    pub directory: &'a Path,
    /// The test command; found by the project's files if empty.
    pub command: &'a [OsString],
    /// Pairs of runs at most.
    pub rounds: u32,
    /// A policy for `m3 sock run`.
    pub policy: Option<&'a Path>,
    /// Whether a suite without a byte in a ring is a failure.
    pub strict: bool,
}

/// The suite and its command.
struct Suite<'a> {
    directory: &'a Path,
    command: Vec<OsString>,
    /// The directory of outputs and counters.
    outputs: PathBuf,
    library: PathBuf,
    options: &'a SuiteOptions<'a>,
}

/// One run of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    /// The exit code or the signal, as text.
    exit: String,
    counts: Option<TestCounts>,
}

/// All runs, in pairs.
#[derive(Default)]
struct SuiteResult {
    native: Vec<Outcome>,
    preloaded: Vec<Outcome>,
    ring_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SuiteVerdict {
    /// The first runs are equal.
    Same,
    /// All results under `m3 sock run` occur natively, too.
    Unsteady,
    /// A result that no native run has.
    Differs,
}

impl SuiteVerdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Unsteady => "unsteady natively",
            Self::Differs => "differs",
        }
    }
}

impl SuiteResult {
    fn verdict(&self) -> SuiteVerdict {
        if self.native.first() == self.preloaded.first() {
            SuiteVerdict::Same
        } else if self.preloaded.iter().all(|outcome| self.native.contains(outcome)) {
            SuiteVerdict::Unsteady
        } else {
            SuiteVerdict::Differs
        }
    }
}

/// Runs the suite and prints the report.
pub fn run(options: &SuiteOptions<'_>, out: Output) -> Result<()> {
    let suite = Suite::new(options)?;
    let mut result = SuiteResult::default();
    for round in 0..options.rounds {
        result.native.push(suite.run(round, None)?);
        let counters = suite.outputs.join(format!("{round}.counters"));
        result.preloaded.push(suite.run(round, Some(&counters))?);
        let snapshot = std::fs::read(&counters).ok().and_then(|bytes| Snapshot::of(&bytes));
        result.ring_bytes += snapshot.map_or(0, |snapshot| snapshot.read(Counter::RingBytes));
        if result.verdict() == SuiteVerdict::Same {
            break;
        }
    }
    let verdict = result.verdict();
    if verdict == SuiteVerdict::Same {
        let _ = std::fs::remove_dir_all(&suite.outputs);
    }
    suite.print(&result, out)?;
    let outputs = suite.outputs.display();
    if verdict == SuiteVerdict::Differs {
        return Err(CliError::failure("the suite differs under `m3 sock run`").advice(format!(
            "compare native.0 with preloaded.0 in {outputs}, deny the program in a policy (see \
             m3-sock-run(1)), and report the defect"
        )));
    }
    if options.strict && result.ring_bytes == 0 {
        return Err(CliError::failure("no byte of the suite went through a ring").advice(
            "programs with both ends in one process need `same-process = true` in the section \
             `test` of a policy",
        ));
    }
    Ok(())
}

impl<'a> Suite<'a> {
    fn new(options: &'a SuiteOptions<'a>) -> Result<Self> {
        let directory = options.directory;
        if !directory.is_dir() {
            let what = format!("{} is not a directory", directory.display());
            return Err(CliError::usage(what).advice("name the directory of a project"));
        }
        let command = if options.command.is_empty() {
            let found = project::test_command(directory).ok_or_else(|| {
                CliError::usage(format!(
                    "{} does not show how its tests are run",
                    directory.display()
                ))
                .advice("write the command after `--`, as in: --suite DIR -- make check")
            })?;
            found.iter().map(OsString::from).collect()
        } else {
            options.command.to_vec()
        };
        let library = library::find()?;
        let name = format!("m3-sock-check-suite-{}", std::process::id());
        let outputs = std::env::temp_dir().join(name);
        std::fs::create_dir(&outputs)
            .map_err(|cause| CliError::system(format!("no {}", outputs.display()), cause))?;
        Ok(Self { directory, command, outputs, library, options })
    }

    /// Runs the suite natively, or under `m3 sock run` with a file for its counters.
    fn run(&self, round: u32, counters: Option<&Path>) -> Result<Outcome> {
        let (mode, mut command) = match counters {
            None => {
                let mut command = Command::new(&self.command[0]);
                command.args(&self.command[1..]);
                ("native", command)
            }
            Some(counters) => {
                let own = std::env::current_exe()
                    .map_err(|cause| CliError::system("cannot find the program m3", cause))?;
                let mut command = Command::new(own);
                // The command starts the programs that the suite tests.
                command.args(["sock", "run", "--children", "--counters"]).arg(counters);
                if let Some(policy) = self.options.policy {
                    let whole = policy.canonicalize();
                    command.arg("--policy").arg(whole.as_deref().unwrap_or(policy));
                }
                command.arg("--").args(&self.command);
                // Another directory gives a relative path another meaning.
                command.env(library::VARIABLE, &self.library);
                ("preloaded", command)
            }
        };
        m3ipc_sys::tell!("{mode}: {} ...", self.words());
        let path = self.outputs.join(format!("{mode}.{round}"));
        let fail = |cause| CliError::system(format!("cannot write {}", path.display()), cause);
        let output = File::create(&path).map_err(fail)?;
        let errors = output.try_clone().map_err(fail)?;
        let status = command
            .current_dir(self.directory)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .status()
            .map_err(|cause| {
                CliError::system(format!("cannot run {}", self.words()), cause)
                    .advice("name a command that runs in the directory of the suite")
            })?;
        let text = std::fs::read(&path).map_err(fail)?;
        let exit = status.code().map_or_else(|| status.to_string(), |code| code.to_string());
        Ok(Outcome { exit, counts: counts::of(&String::from_utf8_lossy(&text)) })
    }

    fn words(&self) -> String {
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    fn print(&self, result: &SuiteResult, out: Output) -> Result<()> {
        let verdict = result.verdict();
        let outputs = (verdict != SuiteVerdict::Same).then_some(&self.outputs);
        if out.is_json() {
            let outcomes = |outcomes: &[Outcome]| outcomes.iter().map(json).collect::<Vec<_>>();
            return out.json(&serde_json::json!({
                "suite": self.directory, "command": self.words(), "verdict": verdict.name(),
                "native": outcomes(&result.native), "preloaded": outcomes(&result.preloaded),
                "ring_bytes": result.ring_bytes, "outputs": outputs,
            }));
        }
        let pairs = result.native.iter().zip(&result.preloaded);
        let rows: Vec<_> = pairs
            .flat_map(|(native, preloaded)| [("natively", native), ("m3 sock run", preloaded)])
            .map(|(mode, outcome)| row(mode, outcome))
            .collect();
        out.line(table(&["RUN", "EXIT", "PASSED", "FAILED", "SKIPPED"], &rows))?;
        if result.native.iter().all(|outcome| outcome.counts.is_none()) {
            out.line("no counts in the output: only the exit codes are compared")?;
        }
        out.line(format!("{}, {} bytes through rings", verdict.name(), result.ring_bytes))?;
        outputs.map_or(Ok(()), |path| out.line(format!("outputs in {}", path.display())))
    }
}

fn row(mode: &str, outcome: &Outcome) -> Vec<String> {
    let count = |of: fn(&TestCounts) -> u64| {
        outcome.counts.as_ref().map_or_else(|| "-".to_owned(), |counts| of(counts).to_string())
    };
    vec![
        mode.to_owned(),
        outcome.exit.clone(),
        count(|counts| counts.passed),
        count(|counts| counts.failed),
        count(|counts| counts.skipped),
    ]
}

fn json(outcome: &Outcome) -> serde_json::Value {
    serde_json::json!({
        "exit": outcome.exit,
        "passed": outcome.counts.map(|counts| counts.passed),
        "failed": outcome.counts.map(|counts| counts.failed),
        "skipped": outcome.counts.map(|counts| counts.skipped),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(exit: &str, passed: u64) -> Outcome {
        Outcome { exit: exit.into(), counts: Some(TestCounts { passed, ..TestCounts::default() }) }
    }

    #[test]
    fn only_results_that_no_native_run_has_differ() {
        let (good, bad) = (outcome("0", 5), outcome("1", 4));
        let of = |native: &[&Outcome], preloaded: &[&Outcome]| {
            let all = |runs: &[&Outcome]| runs.iter().map(|run| (*run).clone()).collect();
            let (native, preloaded) = (all(native), all(preloaded));
            SuiteResult { native, preloaded, ring_bytes: 0 }.verdict()
        };
        assert_eq!(of(&[&good], &[&good]), SuiteVerdict::Same);
        assert_eq!(of(&[&bad], &[&bad]), SuiteVerdict::Same);
        assert_eq!(of(&[&good, &good], &[&bad, &good]), SuiteVerdict::Differs);
        assert_eq!(of(&[&good, &bad], &[&bad, &good]), SuiteVerdict::Unsteady);
        assert_eq!(of(&[&good], &[&outcome("0", 4)]), SuiteVerdict::Differs);
    }
}
