//! `m3 sock check`: the programs of this machine, with the kernel's sockets and under `m3 sock run`.
//!
//! Each pair of server and client runs natively, with both under `m3 sock run`, and with the server alone under it (the
//! client is a plain one then); in turn, so that a busy moment falls on all. What a client reports is compared.

mod figure;
mod form;
mod programs;

use crate::cli::Format;
use crate::fail::{Fail, Result};
use crate::out::{Out, table};
use clap::Args;
use figure::Figure;
use form::{Field, Form};
use programs::{CASES, Case};

/// Compare installed programs with the kernel's sockets and under `m3 sock run`.
///
/// Runs those that are installed of redis, nginx, memcached, PostgreSQL, iperf3, sockperf, NetPIPE, HAProxy, curl, rsync, Python's
/// web server and a client in Go, on loopback, each natively, under `m3 sock run`, and with only the server under it.
/// Ends with 1 where a program works natively and not under `m3 sock run`.
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
}

/// What became of one case.
struct Row {
    case: &'static Case,
    native: Side,
    ours: Side,
    mixed: Side,
    /// Of the bytes of streams that were moved, how many went through rings.
    ring_bytes: u64,
    kernel_bytes: u64,
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

const HEAD: [&str; 8] =
    ["PROGRAM", "WORKS", "THROUGHPUT", "RATIO", "LATENCY", "RATIO", "RING", "WITH A PLAIN CLIENT"];

/// Does what was asked.
pub fn run(args: &Check, out: Out) -> Result<()> {
    let wanted = |case: &&Case| args.only.is_empty() || args.only.iter().any(|word| case.name.contains(word));
    let cases: Vec<&'static Case> = CASES.iter().filter(wanted).collect();
    if cases.is_empty() {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        return Err(Fail::usage(format!("no program of that name; there are {}", names.join(", "))));
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
    show(&rows, &skipped, out)?;
    let broken: Vec<&str> = rows.iter().filter(|row| row.is_broken()).map(|row| row.case.name).collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Fail::plain(format!("natively these work, and under m3 sock run they do not: {}", broken.join(", ")))
        .next("deny them in a policy (see m3-sock-run(1)), and report it"))
}

fn measure(case: &'static Case, args: &Check) -> std::io::Result<Row> {
    let mut row = Row {
        case,
        native: Side::default(),
        ours: Side::default(),
        mixed: Side::default(),
        ring_bytes: 0,
        kernel_bytes: 0,
    };
    for round in 0..args.rounds {
        for form in Form::in_turn(round) {
            let field = Field::new(case, form, args.seconds, args.policy.as_deref())?;
            let run = field.run();
            let (ring, kernel) = field.bytes();
            match form {
                Form::Native => row.native.note(run),
                Form::Ours => {
                    row.ours.note(run);
                    row.ring_bytes += ring;
                    row.kernel_bytes += kernel;
                }
                Form::Mixed => row.mixed.note(run),
            }
        }
    }
    Ok(row)
}

impl Row {
    fn is_broken(&self) -> bool {
        self.native.failure.is_none() && (self.ours.failure.is_some() || self.mixed.failure.is_some())
    }

    fn cells(&self) -> Vec<String> {
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
            ratio(self.ours.rate(), self.native.rate()),
            shown(self.ours.latency_us().map(|us| us / 1e6), "s"),
            ratio(self.ours.latency_us(), self.native.latency_us()),
            self.share().map_or_else(|| "0 %".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            self.mixed.word(),
        ]
    }

    /// The part of the ring, where any stream was moved.
    fn share(&self) -> Option<f64> {
        let all = self.ring_bytes + self.kernel_bytes;
        (all > 0).then(|| self.ring_bytes as f64 / all as f64)
    }

    fn json(&self) -> serde_json::Value {
        let side = |side: &Side| {
            serde_json::json!({
                "works": side.failure.is_none(), "failure": side.failure, "throughput": side.rate(),
                "latency_us": side.latency_us(), "runs": side.figures.len(),
            })
        };
        serde_json::json!({
            "program": self.case.name, "unit": self.case.unit, "native": side(&self.native), "ours": side(&self.ours),
            "plain_client": side(&self.mixed), "ring_bytes": self.ring_bytes, "kernel_bytes": self.kernel_bytes,
        })
    }
}

fn show(rows: &[Row], skipped: &[String], out: Out) -> Result<()> {
    if out.is_json() {
        let programs: Vec<_> = rows.iter().map(Row::json).collect();
        return out.json(&serde_json::json!({ "programs": programs, "skipped": skipped }));
    }
    if !rows.is_empty() {
        out.line(table(&HEAD, &rows.iter().map(Row::cells).collect::<Vec<_>>()))?;
    }
    for line in skipped {
        out.line(format!("skipped  {line}"))?;
    }
    Ok(())
}
