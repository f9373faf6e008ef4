//! `m3 sock check`: compares installed programs with the kernel's sockets and under `m3 sock run`.
//!
//! ```text
//! check ── cases ── case             programs, and how they start
//!   ├ case_run ── measurement        one run, and the output of its client
//!   ├ busy                           busy loops beside a run
//!   ├ verdict ── result              judgement of all rounds
//!   ├ report                         table and JSON
//!   └ suite ── project, counts       the tests of a project, with --suite
//! ```
//! Each pair of server and client runs in three modes: natively, with both under `m3 sock run`, and
//! with the server alone under it. A round runs all modes, so a load peak affects each of them.

mod busy;
mod case;
mod case_run;
mod cases;
mod measurement;
mod ports;
mod report;
mod result;
mod suite;
mod verdict;

use crate::error::{CliError, Result};
use crate::output::Output;
use busy::BusyLoops;
use case::Case;
use case_run::{CaseRun, RunMode};
use cases::CASES;
use clap::Args;
use result::CaseResult;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use suite::SuiteOptions;
use verdict::{Verdict, VerdictKind};

/// Compare installed programs with the kernel's sockets and under `m3 sock run`.
///
/// The command runs the installed programs among redis, nginx, memcached, PostgreSQL, iperf3,
/// sockperf, NetPIPE, HAProxy, curl, rsync, Python's web server and a client in Go, on loopback.
/// Each runs natively, under `m3 sock run`, and with only the server under it. A round runs all
/// three modes, each time in another order.
///
/// SPREAD is the least and the greatest ratio of a round. VERDICT is `holds` (not slower by more
/// than 5 %), `unclear` (the median is slower, the best round is not), or `slower` with the
/// counters' explanation.
///
/// Exit code 1 if a program works natively and fails under `m3 sock run`.
///
/// With --suite the command runs the tests of a project in DIR instead, natively and under `m3 sock
/// run`, and compares exit codes and counts: tests that passed, failed or were skipped. It reads
/// the counts of cargo, nextest, pytest, unittest, TAP, Automake, CTest, Tcl, mocha, Go and redis.
/// The test command follows from the files in DIR (Cargo.toml, package.json, CTestTestfile.cmake,
/// runtest, a Makefile with check or test, a project of Python), or stands after `--`. Where the
/// runs differ, both are repeated, up to --rounds times. The verdict is `same`, `unsteady natively`
/// (each result occurs natively, too) or `differs`, with exit code 1 and the directory of the
/// outputs.
///
/// Example: m3 sock check --only redis --rounds 5
///
/// Example: m3 sock check --suite redis-7.0 -- ./runtest --clients 2
#[derive(Args, Debug)]
pub struct Check {
    /// Run the tests of the project in DIR.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["only", "seconds"])]
    suite: Option<PathBuf>,
    /// Only programs whose name contains WORD; repeatable.
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// Duration of a client's measurement in seconds, for clients with such an option.
    #[arg(
        long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=600)
    )]
    seconds: u32,
    /// Number of rounds; medians are shown. With --suite, the most rounds.
    #[arg(
        long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    rounds: u32,
    /// A policy for `m3 sock run`.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Measure beside a busy loop for each CPU, in all modes.
    #[arg(long)]
    busy: bool,
    /// Exit code 1 also if a program is slower by more than 5 %. With --suite, also if no byte went
    /// through a ring.
    #[arg(long)]
    strict: bool,
    /// The test command of the suite.
    #[arg(last = true, requires = "suite", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs all cases and prints the report.
pub fn run(args: &Check, out: Output) -> Result<()> {
    m3ipc_sys::notice_children();
    if let Some(directory) = &args.suite {
        let options = SuiteOptions {
            directory,
            command: &args.command,
            rounds: args.rounds,
            policy: args.policy.as_deref(),
            strict: args.strict,
        };
        return suite::run(&options, out);
    }
    let cases = selected(&args.only)?;
    crate::sock::library::find()?;
    // Before the busy loops: threads inherit the mask.
    let interrupt = m3ipc_sys::interrupt_signals()
        .map_err(|errno| CliError::system("cannot wait for ^C", errno))?;
    let (mut results, mut skipped) = (Vec::new(), Vec::new());
    for case in cases {
        let missing = case.missing().join(", ");
        if !missing.is_empty() {
            let (name, package) = (case.name, case.package);
            skipped.push(format!("{name}: {missing} not installed (Debian: {package})"));
            continue;
        }
        m3ipc_sys::tell!("{} ...", case.name);
        let measured = measure(case, args, interrupt.as_fd());
        if has_come(interrupt.as_fd()) {
            return Err(CliError::failure("interrupted; the programs of the check have ended")
                .advice("start the check again; --only and --seconds shorten it"));
        }
        match measured {
            Ok(result) => results.push(result),
            Err(cause) => skipped.push(format!("{}: {cause}", case.name)),
        }
    }
    let verdicts: Vec<Verdict> = results.iter().map(verdict::of).collect();
    report::print(&results, &verdicts, &skipped, out)?;
    let broken: Vec<&str> =
        results.iter().filter(|result| result.is_broken()).map(|result| result.case.name).collect();
    if !broken.is_empty() {
        let what = format!("these fail under `m3 sock run` only: {}", broken.join(", "));
        return Err(CliError::failure(what)
            .advice("deny them in a policy (see m3-sock-run(1)), and report the defect"));
    }
    let judged = results.iter().zip(&verdicts);
    let slow = judged.filter(|(_, verdict)| verdict.kind == VerdictKind::Slower);
    let slow: Vec<&str> = slow.map(|(result, _)| result.case.name).collect();
    if args.strict && !slow.is_empty() {
        let what = format!("these are slower by more than 5 %: {}", slow.join(", "));
        return Err(CliError::failure(what).advice(
            "deny them in a policy (see m3-sock-run(1)), or watch them with m3 sock stat",
        ));
    }
    Ok(())
}

fn selected(only: &[String]) -> Result<Vec<&'static Case>> {
    let is_selected =
        |case: &&Case| only.is_empty() || only.iter().any(|word| case.name.contains(word));
    let cases: Vec<&'static Case> = CASES.iter().filter(is_selected).collect();
    if cases.is_empty() {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        return Err(CliError::usage(format!("no program matches --only {}", only.join(" ")))
            .advice(format!("choose among: {}", names.join("; "))));
    }
    Ok(cases)
}

fn measure(
    case: &'static Case,
    args: &Check,
    interrupt: BorrowedFd<'_>,
) -> std::io::Result<CaseResult> {
    let mut result = CaseResult::new(case);
    for round in 0..args.rounds {
        for mode in RunMode::in_turn(round) {
            let policy = args.policy.as_deref();
            let run = CaseRun::new(case, mode, args.seconds, policy, interrupt)?;
            let loops = args.busy.then(BusyLoops::one_per_cpu);
            let measured = run.run();
            drop(loops);
            if has_come(interrupt) {
                return Err(std::io::Error::other("interrupted"));
            }
            match mode {
                RunMode::Native => result.native.add(measured),
                RunMode::Preloaded => {
                    result.preloaded.add(measured);
                    result.counts.add(&run.counts());
                }
                RunMode::Mixed => result.mixed.add(measured),
            }
        }
    }
    Ok(result)
}

/// Whether ^C or SIGTERM has come.
fn has_come(interrupt: BorrowedFd<'_>) -> bool {
    m3ipc_sys::wait_readable(&[interrupt], 0) == Ok(true)
}
