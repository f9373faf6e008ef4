//! Whether one run is slower than another: `m3 bench compare A.json B.json`.
//!
//! ```text
//! samples of A, samples of B -> rounds as figures -> against the reference of their own run -> rank test, effect
//! ```
//! A round is one observation: the trips inside a round share the machine's mood, so counting each of them would
//! find a difference in everything. A machine is now faster, now slower, also with all that is measured on it;
//! therefore each round is divided by the same round of a *reference* that took turns with it (the floor of its
//! test, else the kernel's fastest there). Times as such are compared on request.
//!
//! Slower means: by more than the given part, found by the rank test at the given level, corrected (Holm) for as
//! many rows as are judged. What too few rounds can never show is said to be undecided.

mod rank;
mod report;

use std::path::PathBuf;

use crate::error::Error;
use crate::mechanism::Family;
use crate::output::Output;
use crate::record::{RawRound, Results, Row};
use crate::{Outcome, stats};

/// Compares two runs.
#[derive(Clone, Debug, clap::Args)]
pub struct CompareArgs {
    /// JSON of the run before, written by --json or by report
    #[arg(value_name = "A.json")]
    pub before: PathBuf,
    /// JSON of the run after
    #[arg(value_name = "B.json")]
    pub after: PathBuf,
    /// Slow-down in percent that is borne
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = part)]
    pub part: f64,
    /// Chance of a false alarm, over all rows together
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = level)]
    pub level: f64,
    /// Compare only what matches, as for a measurement
    #[arg(long, value_name = "WORD")]
    pub only: Vec<String>,
    /// Judge every mechanism, not only m3ipc
    #[arg(long)]
    pub all: bool,
    /// Compare times as such, not against the floors of their own run: for one quiet machine
    #[arg(long)]
    pub absolute: bool,
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..1e6).contains(&part) => Ok(part),
        _ => Err("a number of percent from 0 up".into()),
    }
}

fn level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if level > 0.0 && level < 0.5 => Ok(level),
        _ => Err("a share above 0 and below 0.5".into()),
    }
}

/// How a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Slower by more than what is borne, and not by chance.
    Slower,
    /// Faster by more than that part, and not by chance.
    Faster,
    /// Neither.
    Same,
    /// So few rounds cannot show anything at this level.
    TooFew,
}

/// One row of both runs.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The row of the run before.
    pub row: Row,
    /// What its rounds were divided by, where they were.
    pub reference: Option<String>,
    /// Figures before and after, summed up: nanoseconds, or times the reference.
    pub middle: (f64, f64),
    /// How many times as long the run after takes, with the interval that holds it.
    pub ratio: (f64, f64, f64),
    /// Chance of such a slow-down where it is not more than what is borne.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares two runs and prints what was found.
///
/// # Errors
/// Where a file cannot be read, holds no samples, or nothing is in both.
pub fn run(args: &CompareArgs) -> Result<Outcome, Error> {
    let [before, after] = [&args.before, &args.after].map(|path| Output::read(path));
    let (before, after) = (before?, after?);
    let compared = compare(args, &before.results(), &after.results());
    if compared.is_empty() {
        return Err(Error::Usage(
            "nothing is in both runs that could be compared; were they written by this version (with samples), \
             with the same tests, and does --only leave anything? --all judges more than m3ipc"
                .into(),
        ));
    }
    print!("{}", report::text(args, (&before.machine, &after.machine), &compared));
    let slower = compared.iter().any(|row| row.verdict == Verdict::Slower);
    Ok(if slower { Outcome::FallsShort } else { Outcome::Fine })
}

/// Compares all rows that are in both.
#[must_use]
pub fn compare(args: &CompareArgs, before: &Results, after: &Results) -> Vec<Compared> {
    let judged = |row: &&Row| {
        let record = &row.record;
        let names =
            [&*record.test, &*record.mechanism, record.placement.name(), record.wait.name()];
        let matches = args
            .only
            .iter()
            .all(|word| word.split(',').any(|word| names.iter().any(|n| n.contains(word))));
        (args.all || row.family == Family::Ours) && matches
    };
    let pair = |a: &Row| {
        let b = after.rows.iter().find(|b| is_same(a, b))?;
        let reference = if args.absolute { None } else { reference(a, before, after) };
        one(args, a, b, reference)
    };
    let mut found: Vec<Compared> = before.rows.iter().filter(judged).filter_map(pair).collect();
    holm(args, &mut found);
    found
}

fn is_same(a: &Row, b: &Row) -> bool {
    let key = |row: &Row| {
        let record = &row.record;
        (
            record.test.clone(),
            record.mechanism.clone(),
            record.placement,
            record.wait,
            record.bytes,
            record.pairs,
        )
    };
    key(a) == key(b)
}

/// What took turns with this row in both runs and is none of ours: the floor that waits alike, another floor,
/// else the kernel's fastest.
fn reference<'a>(row: &Row, before: &'a Results, after: &'a Results) -> Option<(&'a Row, &'a Row)> {
    let record = &row.record;
    let beside = |other: &&Row| {
        let it = &other.record;
        let alike =
            it.test == record.test && it.placement == record.placement && it.pairs == record.pairs;
        let size = it.bytes == record.bytes || !crate::copy::is_of_blocks(&it.test);
        alike
            && size
            && [Family::Floor, Family::Kernel].contains(&other.family)
            && !is_same(row, other)
    };
    let both = |a: &'a Row| Some((a, after.rows.iter().find(|b| is_same(a, b))?));
    let rank = |row: &Row| {
        let floor = row.family == Family::Floor;
        (
            !(floor && row.record.wait == record.wait),
            !floor,
            stats::whole(crate::copy::copy_ns(row)),
        )
    };
    before.rows.iter().filter(beside).filter_map(both).min_by_key(|(a, _)| rank(a))
}

/// Figures of the rounds of a row in both runs, in nanoseconds. Where the blocks' means are the finer figure, and both have them, those.
fn figures(a: &Row, b: &Row) -> (Vec<f64>, Vec<f64>) {
    let blocks = a.trip_ns() < 1_000.0
        && [a, b].iter().all(|row| row.rounds.iter().all(|r| r.block_ns.is_some()));
    let stream = a.record.test == "stream";
    let of = |row: &Row| {
        let figure = |round: &RawRound| match round.block_ns {
            _ if stream => 1e9 / round.per_s.max(f64::MIN_POSITIVE),
            Some(block_ns) if blocks => block_ns,
            _ => round.p50_ns() as f64,
        };
        row.rounds.iter().map(figure).collect::<Vec<f64>>()
    };
    (of(a), of(b))
}

fn one(args: &CompareArgs, a: &Row, b: &Row, reference: Option<(&Row, &Row)>) -> Option<Compared> {
    let (mut before, mut after) = figures(a, b);
    if let Some((ra, rb)) = reference {
        let (floor_before, floor_after) = figures(ra, rb);
        // Rounds take turns, so the same number is the same moment; a row that lost some has none to divide by.
        if floor_before.len() != before.len() || floor_after.len() != after.len() {
            return None;
        }
        before.iter_mut().zip(floor_before).for_each(|(figure, floor)| *figure /= floor);
        after.iter_mut().zip(floor_after).for_each(|(figure, floor)| *figure /= floor);
    }
    let ratio = rank::ratio(&before, &after, 0.95)?;
    let borne = 1.0 + args.part / 100.0;
    let scaled = |values: &[f64]| values.iter().map(|value| value * borne).collect::<Vec<f64>>();
    let slower_p = rank::higher_p(&scaled(&before), &after);
    let faster_p = rank::higher_p(&scaled(&after), &before);
    let few = rank::least_p(before.len(), after.len()) > args.level;
    let verdict = if few {
        Verdict::TooFew
    } else if faster_p < slower_p && faster_p <= args.level {
        Verdict::Faster
    } else {
        Verdict::Same
    };
    let middle = |values| stats::median(values).unwrap_or(0.0);
    Some(Compared {
        row: a.clone(),
        reference: reference.map(|(row, _)| row.record.mechanism.clone()),
        middle: (middle(before), middle(after)),
        ratio,
        p: slower_p,
        verdict,
    })
}

/// Holm's correction: the least p must be below the level over all rows, the next over all but one, and so on.
fn holm(args: &CompareArgs, rows: &mut [Compared]) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&a, &b| rows[a].p.total_cmp(&rows[b].p));
    for (place, &number) in order.iter().enumerate() {
        let row = &mut rows[number];
        let bar = args.level / (order.len() - place) as f64;
        if row.p > bar {
            break;
        }
        row.verdict = Verdict::Slower;
    }
    // What could not have been found slower among so many is no finding of sameness.
    let bar = args.level / rows.len().max(1) as f64;
    for row in rows.iter_mut().filter(|row| row.verdict == Verdict::Same) {
        let rounds = row.row.rounds.len();
        if rank::least_p(rounds, rounds) > bar {
            row.verdict = Verdict::TooFew;
        }
    }
}

#[cfg(test)]
mod tests;
