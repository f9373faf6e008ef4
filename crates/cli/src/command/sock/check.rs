//! `m3 sock check`: the programs of this machine, with the kernel's sockets and under `m3 sock run`.
//!
//! Each pair of server and client runs natively, with both under `m3 sock run`, and with the server alone under it (the
//! client is a plain one then); in turn, so that a busy moment falls on all. What a client reports is compared.

mod figure;
mod form;
mod programs;
mod verdict;

use crate::cli::Format;
use crate::fail::{Fail, Result};
use crate::out::{Out, table};
use clap::Args;
use figure::Figure;
use form::{Field, Form, Policy};
use programs::{CASES, Case};
use verdict::{Verdict, Word};

/// Compare installed programs with the kernel's sockets and under `m3 sock run`.
///
/// Runs those that are installed of redis, nginx, memcached, PostgreSQL, iperf3, sockperf, NetPIPE, HAProxy, curl, rsync, Python's
/// web server and a client in Go, on loopback, each natively, under `m3 sock run`, and with only the server under it.
/// Each round runs all forms one after the other, another one first each time; SPREAD is the least and the greatest ratio of a round. The
/// verdict: `holds` (not slower by more than 5 %), `unclear` (the median is, the best round is not), `slower` with what the counters
/// say, or `pinned`: it stays in the kernel by default, and why. Ends with 1 where a program works natively and not under `m3 sock run`.
#[derive(Args, Debug)]
pub struct Check {
    #[command(flatten)]
    pub format: Format,
    /// Only programs whose name contains this word; may be repeated.
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// How long each client that can be told so runs, in seconds.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// How often each form runs; medians are shown.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// A policy for `m3 sock run`.
    #[arg(long, value_name = "FILE")]
    policy: Option<std::path::PathBuf>,
    /// Move programs too that stay in the kernel by default.
    #[arg(long)]
    no_defaults: bool,
    /// End with 1 as well where one is slower by more than 5 % and not pinned by default.
    #[arg(long)]
    strict: bool,
}

/// What became of one case.
struct Row {
    case: &'static Case,
    native: Side,
    ours: Side,
    mixed: Side,
    counts: Counts,
}

/// What was counted under `m3 sock run`, of streams that were moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Bytes that went through rings, and those that did not.
    pub ring: u64,
    pub kernel: u64,
    pub tokens: u64,
    pub spared: u64,
    pub overflows: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.ring += other.ring;
        self.kernel += other.kernel;
        self.tokens += other.tokens;
        self.spared += other.spared;
        self.overflows += other.overflows;
    }
}

/// The runs of one form.
#[derive(Default)]
struct Side {
    figures: Vec<Figure>,
    failure: Option<String>,
}

impl Side {
    fn note(&mut self, run: std::result::Result<Figure, String>) {
        match run {
            Ok(figure) => self.figures.push(figure),
            Err(why) => self.failure = Some(why),
        }
    }

    fn median(&self, of: impl Fn(&Figure) -> Option<f64>) -> Option<f64> {
        let mut all: Vec<f64> = self.figures.iter().filter_map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }

    fn rate(&self) -> Option<f64> {
        self.median(|figure| figure.rate)
    }

    fn latency_us(&self) -> Option<f64> {
        self.median(|figure| figure.latency_us)
    }

    fn word(&self) -> String {
        self.failure.clone().unwrap_or_else(|| "yes".to_owned())
    }
}

const HEAD: [&str; 10] = [
    "PROGRAM",
    "WORKS",
    "THROUGHPUT",
    "RATIO",
    "SPREAD",
    "LATENCY",
    "RATIO",
    "RING",
    "WITH A PLAIN CLIENT",
    "VERDICT",
];

/// Does what was asked.
pub fn run(args: &Check, out: Out) -> Result<()> {
    let wanted = |case: &&Case| {
        args.only.is_empty() || args.only.iter().any(|word| case.name.contains(word))
    };
    let cases: Vec<&'static Case> = CASES.iter().filter(wanted).collect();
    if cases.is_empty() {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        return Err(Fail::usage(format!(
            "no program of that name; there are {}",
            names.join(", ")
        )));
    }
    crate::sock::library::find()?;
    let (mut rows, mut skipped) = (Vec::new(), Vec::new());
    for case in cases {
        let missing = case.missing();
        if !missing.is_empty() {
            skipped.push(format!(
                "{}: {} not installed (Debian: {})",
                case.name,
                missing.join(", "),
                case.package
            ));
            continue;
        }
        eprintln!("{} ...", case.name);
        match measure(case, args) {
            Ok(row) => rows.push(row),
            Err(cause) => skipped.push(format!("{}: {cause}", case.name)),
        }
    }
    let verdicts: Vec<Verdict> =
        rows.iter().map(|row| verdict::of(row, !args.no_defaults)).collect();
    show(&rows, &verdicts, &skipped, out)?;
    let broken: Vec<&str> =
        rows.iter().filter(|row| row.is_broken()).map(|row| row.case.name).collect();
    let is_slow = |(_, verdict): &(&Row, &Verdict)| verdict.word == Word::Slower;
    let slow: Vec<&str> =
        rows.iter().zip(&verdicts).filter(is_slow).map(|(row, _)| row.case.name).collect();
    if broken.is_empty() && args.strict && !slow.is_empty() {
        return Err(Fail::plain(format!("slower than natively by more than 5 %: {}", slow.join(", "))).next(
            "leave them out by a policy (see m3-sock-run(1)), or look at `m3 sock stat` while they run",
        ));
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(Fail::plain(format!(
        "natively these work, and under m3 sock run they do not: {}",
        broken.join(", ")
    ))
    .next("deny them in a policy (see m3-sock-run(1)), and report it"))
}

fn measure(case: &'static Case, args: &Check) -> std::io::Result<Row> {
    let mut row = Row {
        case,
        native: Side::default(),
        ours: Side::default(),
        mixed: Side::default(),
        counts: Counts::default(),
    };
    for round in 0..args.rounds {
        for form in Form::in_turn(round) {
            let policy = Policy { file: args.policy.as_deref(), no_defaults: args.no_defaults };
            let field = Field::new(case, form, args.seconds, policy)?;
            let run = field.run();
            match form {
                Form::Native => row.native.note(run),
                Form::Ours => {
                    row.ours.note(run);
                    row.counts.add(&field.counts());
                }
                Form::Mixed => row.mixed.note(run),
            }
        }
    }
    Ok(row)
}

impl Row {
    fn is_broken(&self) -> bool {
        self.native.failure.is_none()
            && (self.ours.failure.is_some() || self.mixed.failure.is_some())
    }

    fn cells(&self, verdict: &Verdict) -> Vec<String> {
        let shown = |value: Option<f64>, unit: &str| {
            value.map_or_else(|| "-".to_owned(), |value| figure::short(value, unit))
        };
        let ratio = |ours: Option<f64>, native: Option<f64>| match (ours, native) {
            (Some(ours), Some(native)) if native > 0.0 => format!("{:.2}x", ours / native),
            _ => "-".to_owned(),
        };
        let works = match &self.native.failure {
            Some(why) => format!("not natively either: {why}"),
            None => self.ours.word(),
        };
        vec![
            self.case.name.to_owned(),
            works,
            shown(self.ours.rate(), self.case.unit),
            verdict.ratios.map_or_else(|| "-".to_owned(), |[_, median, _]| format!("{median:.2}x")),
            verdict.ratios.map_or_else(
                || "-".to_owned(),
                |[least, _, most]| format!("{least:.2}..{most:.2}"),
            ),
            shown(self.ours.latency_us().map(|us| us / 1e6), "s"),
            ratio(self.ours.latency_us(), self.native.latency_us()),
            self.share()
                .map_or_else(|| "0 %".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            self.mixed.word(),
            verdict.text(),
        ]
    }

    /// The part of the ring, where any stream was moved.
    fn share(&self) -> Option<f64> {
        let all = self.counts.ring + self.counts.kernel;
        (all > 0).then(|| self.counts.ring as f64 / all as f64)
    }

    fn json(&self, verdict: &Verdict) -> serde_json::Value {
        let side = |side: &Side| {
            serde_json::json!({
                "works": side.failure.is_none(), "failure": side.failure, "throughput": side.rate(),
                "latency_us": side.latency_us(), "runs": side.figures.len(),
            })
        };
        serde_json::json!({
            "program": self.case.name, "unit": self.case.unit, "native": side(&self.native), "ours": side(&self.ours),
            "plain_client": side(&self.mixed), "ring_bytes": self.counts.ring, "kernel_bytes": self.counts.kernel,
            "tokens": self.counts.tokens, "tokens_spared": self.counts.spared, "overflows": self.counts.overflows,
            "verdict": verdict.word.name(), "why": verdict.why, "ratio": verdict.ratios.map(|[_, median, _]| median),
            "ratio_spread": verdict.ratios.map(|[least, _, most]| [least, most]),
        })
    }
}

fn show(rows: &[Row], verdicts: &[Verdict], skipped: &[String], out: Out) -> Result<()> {
    if out.is_json() {
        let programs: Vec<_> =
            rows.iter().zip(verdicts).map(|(row, verdict)| row.json(verdict)).collect();
        return out.json(&serde_json::json!({ "programs": programs, "skipped": skipped }));
    }
    if !rows.is_empty() {
        let cells = rows.iter().zip(verdicts).map(|(row, verdict)| row.cells(verdict));
        out.line(table(&HEAD, &cells.collect::<Vec<_>>()))?;
    }
    for line in skipped {
        out.line(format!("skipped  {line}"))?;
    }
    Ok(())
}
