//! One case of a test program: its process, its time limit, and its outcome.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::ci::process::{Ended, spawn};
use crate::error::Error;

use super::program::{Program, Turn};

/// Ends a case whose own watchdog hangs too.
const LIMIT: Duration = Duration::from_secs(600);
const POLL_EVERY: Duration = Duration::from_millis(2);
/// How many lines of the output of a failed case are printed.
const TAIL_LINES: usize = 60;

/// One case.
pub struct Case {
    /// What may run beside it.
    pub turn: Turn,
    name: String,
    program: String,
    file: PathBuf,
    folder: PathBuf,
    alone: String,
    is_ignored: bool,
}

/// How a case ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// With these words.
    Failed(String),
    /// It could not run here, or is left out by its author.
    Skipped,
}

/// How a case ended, with its output.
pub struct Report {
    /// Its program and its name.
    pub title: String,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub millis: u128,
    output: String,
}

/// The cases of a program whose names contain `filter`.
///
/// # Errors
/// Where the program cannot be started, or does not list its cases.
pub fn cases_of(program: &Program, filter: Option<&str>) -> Result<Vec<Case>, Error> {
    let ignored = list(program, &["--ignored"])?;
    let names = list(program, &[])?;
    let wanted = names.into_iter().filter(|name| filter.is_none_or(|text| name.contains(text)));
    let make = |name: String| Case {
        turn: program.turn(),
        program: format!("{}::{}", program.package, program.target),
        file: program.file.clone(),
        folder: program.folder.clone(),
        alone: format!(
            "cargo test --profile gate -p {} {} -- --exact {name}",
            program.package, program.option
        ),
        is_ignored: ignored.contains(&name),
        name,
    };
    Ok(wanted.map(make).collect())
}

fn list(program: &Program, words: &[&str]) -> Result<Vec<String>, Error> {
    let mut command = Command::new(&program.file);
    command.args(["--list", "--format", "terse"]).args(words);
    command.current_dir(&program.folder).stderr(Stdio::null());
    let name = || program.file.display().to_string();
    let output = command.output().map_err(|source| Error::Start { program: name(), source })?;
    if !output.status.success() {
        return Err(Error::Failed { command: name() + " --list", status: output.status });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
}

impl Case {
    /// Its program and its name.
    pub fn title(&self) -> String {
        format!("{} {}", self.program, self.name)
    }

    /// Runs it; its output goes through the file `log`.
    ///
    /// # Errors
    /// Where the log cannot be written, or the program cannot be started.
    pub fn run(&self, log: &Path) -> Result<Report, Error> {
        if self.is_ignored {
            let output = "SKIP it needs --ignored".into();
            return Ok(Report {
                title: self.title(),
                outcome: Outcome::Skipped,
                millis: 0,
                output,
            });
        }
        let file = File::create(log).map_err(|e| Error::write(log, e))?;
        let errors = file.try_clone().map_err(|e| Error::write(log, e))?;
        let mut command = Command::new(&self.file);
        command.args(["--exact", &self.name, "--nocapture"]).current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let start = Instant::now();
        let failed = |source| Error::Start { program: self.file.display().to_string(), source };
        let mut running = spawn(command, LIMIT, true).map_err(failed)?;
        let ended = loop {
            match running.poll().map_err(failed)? {
                Some(ended) => break ended,
                None => thread::sleep(POLL_EVERY),
            }
        };
        let output = fs::read(log).map_err(|e| Error::read(log, e))?;
        let output = String::from_utf8_lossy(&output).into_owned();
        let outcome = outcome(&ended, &output);
        Ok(Report { title: self.title(), outcome, millis: start.elapsed().as_millis(), output })
    }
}

fn outcome(ended: &Ended, output: &str) -> Outcome {
    match ended {
        Ended::Exited(status) if !status.success() => Outcome::Failed(status.to_string()),
        Ended::OutOfTime => {
            Outcome::Failed(format!("still running after {} s; ended", LIMIT.as_secs()))
        }
        Ended::Exited(_) if skip_lines(output).next().is_some() => Outcome::Skipped,
        Ended::Exited(_) => Outcome::Passed,
    }
}

/// The lines by which a case says that it, or a part of it, cannot run here. The test runner's
/// words `test NAME ... ` may stand before the first one.
fn skip_lines(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| match line.split_once(" ... ") {
        Some((test, rest)) if test.starts_with("test ") => rest.starts_with("SKIP").then_some(rest),
        _ => line.starts_with("SKIP").then_some(line),
    })
}

impl Report {
    /// What to print of it.
    pub fn lines(&self, case: &Case) -> Vec<String> {
        let seconds = Duration::from_millis(self.millis.try_into().unwrap_or(u64::MAX));
        match &self.outcome {
            Outcome::Passed => Vec::new(),
            Outcome::Skipped => {
                skip_lines(&self.output).map(|line| format!("{line}  [{}]", self.title)).collect()
            }
            Outcome::Failed(how) => {
                let all: Vec<&str> = self.output.lines().collect();
                let tail = &all[all.len().saturating_sub(TAIL_LINES)..];
                let mut lines: Vec<String> =
                    tail.iter().map(|line| format!("  | {line}")).collect();
                lines.push(format!("FAIL {} ({how}, {seconds:.1?})", self.title));
                lines.push(format!("     alone: {}", case.alone));
                lines
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_seen_behind_the_words_of_the_test_runner() {
        let output = "\nrunning 1 test\ntest users ... SKIP users: other users need root\nok\n";
        let lines: Vec<&str> = skip_lines(output).collect();
        assert_eq!(lines, ["SKIP users: other users need root"]);
        assert_eq!(skip_lines("test a ... ok\nit may SKIP\n").next(), None);
    }
}
