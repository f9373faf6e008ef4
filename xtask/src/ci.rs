//! `cargo xtask ci`: every check and test in order, and a table at the end.
//!
//! The rungs are data, in `ci/rungs.rs`. The ladder stops at the first rung that fails; what is left out is always
//! said with its reason. The last line is `N passed, N failed, N skipped` and counts rungs.

mod figure;
mod rungs;
mod step;

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::workspace::Workspace;

use self::rungs::Rung;
use self::step::Ended;

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// Only the rungs of a working loop: fmt, clippy, deps, tests
    #[arg(long)]
    fast: bool,
    /// Print the rungs and their commands, and run nothing
    #[arg(long)]
    list: bool,
}

/// How one rung ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// One row of the closing table.
struct Row {
    rung: &'static str,
    outcome: Outcome,
    took: Duration,
    figure: String,
}

/// Climbs the ladder.
///
/// # Errors
/// [`Error::Reported`] where a rung failed; others where one could not be started.
pub fn run(workspace: &Workspace, args: &Args) -> Result<(), Error> {
    if args.list {
        for rung in rungs::LADDER {
            println!("{:<12} {}", rung.name, rung.command_line());
        }
        return Ok(());
    }
    let start = Instant::now();
    let mut rows: Vec<Row> = Vec::new();
    for (index, rung) in rungs::LADDER.iter().enumerate() {
        if let Some(failed) = rows.iter().find(|row| row.outcome == Outcome::Failed) {
            rows.push(skipped(rung, format!("not reached: `{}` failed", failed.rung)));
            continue;
        }
        let reason = if args.fast && !rung.fast {
            Some("left out by --fast".into())
        } else {
            rung.needs.iter().find_map(|need| need.missing(workspace))
        };
        println!(
            "\n== {}/{} {}: {}",
            index + 1,
            rungs::LADDER.len(),
            rung.name,
            rung.command_line()
        );
        let row = match reason {
            Some(reason) => {
                println!("SKIP {reason}");
                skipped(rung, reason)
            }
            None => climb(workspace, rung)?,
        };
        rows.push(row);
    }
    close(&rows, start.elapsed())
}

fn skipped(rung: &Rung, reason: String) -> Row {
    Row { rung: rung.name, outcome: Outcome::Skipped, took: Duration::ZERO, figure: reason }
}

fn climb(workspace: &Workspace, rung: &Rung) -> Result<Row, Error> {
    let start = Instant::now();
    let report = step::run(workspace, rung)?;
    let took = start.elapsed();
    let (outcome, figure) = match report.ended {
        Ended::Exited(status) if status.success() => {
            (Outcome::Passed, rung.figure.read(&report.lines))
        }
        Ended::Exited(status) => (Outcome::Failed, rung.figure.of_failure(status, &report.lines)),
        Ended::OutOfTime => {
            (Outcome::Failed, format!("still running after {} s; ended", rung.limit_s))
        }
    };
    match outcome {
        Outcome::Failed => {
            println!("== {} FAILED after {:.1} s: {figure}", rung.name, took.as_secs_f64());
            println!("   alone: {}\n   next:  {}", rung.command_line(), rung.next);
        }
        _ => println!("== {} passed in {:.1} s: {figure}", rung.name, took.as_secs_f64()),
    }
    Ok(Row { rung: rung.name, outcome, took, figure })
}

/// Prints the table and the closing line.
fn close(rows: &[Row], took: Duration) -> Result<(), Error> {
    println!("\n{:<12} {:<7} {:>8}  figure", "rung", "result", "seconds");
    for row in rows {
        let result = match row.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "SKIP",
        };
        println!("{:<12} {result:<7} {:>8.1}  {}", row.rung, row.took.as_secs_f64(), row.figure);
    }
    println!("{:<12} {:<7} {:>8.1}", "all", "", took.as_secs_f64());
    let count = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    println!(
        "\n{}",
        closing_line(count(Outcome::Passed), count(Outcome::Failed), count(Outcome::Skipped))
    );
    if count(Outcome::Failed) > 0 { Err(Error::Reported) } else { Ok(()) }
}

fn closing_line(passed: usize, failed: usize, skipped: usize) -> String {
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcome: Outcome) -> Row {
        Row { rung: "any", outcome, took: Duration::ZERO, figure: String::new() }
    }

    #[test]
    fn one_failed_rung_fails_the_whole() {
        assert!(close(&[row(Outcome::Passed), row(Outcome::Skipped)], Duration::ZERO).is_ok());
        assert!(close(&[row(Outcome::Passed), row(Outcome::Failed)], Duration::ZERO).is_err());
    }

    #[test]
    fn the_closing_line_is_plain() {
        assert_eq!(closing_line(7, 0, 2), "7 passed, 0 failed, 2 skipped");
    }
}
