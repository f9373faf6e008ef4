//! Whether run B is slower than run A: `m3 bench compare A.json B.json`.
//!
//! ```text
//! rounds of A, rounds of B -> figures -> divided by a reference of their own run -> rank test
//! ```
//! A round is one observation: trips inside a round share the state of the machine. A machine
//! speeds up and slows down with everything on it, so each round is divided by the same round of
//! a *reference* that took turns with it: the floor of its test, else the fastest kernel
//! mechanism. `--absolute` compares times instead.
//!
//! Slower means: by more than the given part, by the rank test at the given level, with Holm's
//! correction for the number of rows. A row with too few rounds for the level is undecided.

mod rank;

use std::path::PathBuf;

use crate::file::Error;
use crate::results::{Results, Row, is_sized, is_stream};
use crate::schema::{Family, Machine, Round, Run};
use crate::stats::{median, quantile, whole};
use crate::text::{Table, size, time};

/// Compares two runs.
#[derive(Clone, Debug, clap::Args)]
pub struct CompareArgs {
    /// JSON of the run before, written by --json or by report
    #[arg(value_name = "A.json")]
    pub before: PathBuf,
    /// JSON of the run after
    #[arg(value_name = "B.json")]
    pub after: PathBuf,
    /// Slow-down in percent that is accepted
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
    /// Compare times, not ratios to the floors of each run: for one quiet machine
    #[arg(long)]
    pub absolute: bool,
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse::<f64>().ok().filter(|part| (0.0..1e6).contains(part));
    part.ok_or_else(|| "a number of percent from 0 up".into())
}

fn level(text: &str) -> Result<f64, String> {
    let level = text.parse::<f64>().ok().filter(|&level| level > 0.0 && level < 0.5);
    level.ok_or_else(|| "a share above 0 and below 0.5".into())
}

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Slower by more than the accepted part, and not by chance.
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
    /// The mechanism that the rounds were divided by, if any.
    pub reference: Option<String>,
    /// Median figures before and after: nanoseconds, or ratios to the reference.
    pub middle: (f64, f64),
    /// Ratio of after to before, with its 95 % interval.
    pub ratio: (f64, f64, f64),
    /// Chance of such a slow-down if it is not above the accepted part.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares two runs; gives the text, and whether a row is slower.
pub fn run(args: &CompareArgs) -> Result<(String, bool), Error> {
    let (before, after) = (Run::read(&args.before)?, Run::read(&args.after)?);
    let compared = compare(args, &before.results(), &after.results());
    if compared.is_empty() {
        return Err(Error::NothingInCommon);
    }
    let slower = compared.iter().any(|row| row.verdict == Verdict::Slower);
    Ok((text(args, (&before.machine, &after.machine), &compared), slower))
}

/// Compares all rows that both runs have.
#[must_use]
pub fn compare(args: &CompareArgs, before: &Results, after: &Results) -> Vec<Compared> {
    let judged = |row: &&Row| {
        let it = &row.record;
        let names = [&*it.test, &*it.mechanism, it.placement.name(), it.wait.name()];
        (args.all || row.family == Family::Ours) && crate::matches(&args.only, &names)
    };
    let pair = |a: &Row| {
        let b = after.rows.iter().find(|b| a.is_same(b))?;
        let reference = if args.absolute { None } else { reference(a, before, after) };
        compare_row(args, (a, b), reference)
    };
    let mut found: Vec<Compared> = before.rows.iter().filter(judged).filter_map(pair).collect();
    holm(args, &mut found);
    found
}

/// The row of both runs that took turns with this one and is not ours.
///
/// In order: the floor of the same wait mode, another floor, the fastest kernel mechanism.
fn reference<'a>(row: &Row, before: &'a Results, after: &'a Results) -> Option<(&'a Row, &'a Row)> {
    let record = &row.record;
    let beside = |other: &&Row| {
        let it = &other.record;
        let alike = it.placement == record.placement && it.pairs == record.pairs;
        let size = it.bytes == record.bytes || !is_sized(&it.test);
        let family = [Family::Floor, Family::Kernel].contains(&other.family);
        alike && size && family && !row.is_same(other)
    };
    let both = |a: &'a Row| Some((a, after.rows.iter().find(|b| a.is_same(b))?));
    let rank = |it: &Row| {
        let floor = it.family == Family::Floor;
        (!(floor && it.record.wait == record.wait), !floor, whole(it.ns()))
    };
    let rows = before.rows.iter().filter(|it| it.record.test == record.test);
    rows.filter(beside).filter_map(both).min_by_key(|(a, _)| rank(a))
}

/// Figures of the rounds of a row in both runs, in nanoseconds.
///
/// The means of blocks are the finer figure below a microsecond, if both runs have them.
fn figures(a: &Row, b: &Row) -> (Vec<f64>, Vec<f64>) {
    let has_blocks = |row: &&Row| row.rounds.iter().all(|round| round.block_ns.is_some());
    let blocks = a.trip_ns() < 1_000.0 && [a, b].iter().all(has_blocks);
    let stream = is_stream(&a.record.test);
    let figure = |round: &Round| match round.block_ns {
        _ if stream => 1e9 / round.per_s.max(f64::MIN_POSITIVE),
        Some(block_ns) if blocks => block_ns,
        _ => quantile(&round.samples, 0.5) as f64,
    };
    let of = |row: &Row| row.rounds.iter().map(figure).collect();
    (of(a), of(b))
}

fn compare_row(
    args: &CompareArgs,
    (a, b): (&Row, &Row),
    reference: Option<(&Row, &Row)>,
) -> Option<Compared> {
    let (mut before, mut after) = figures(a, b);
    if let Some((ra, rb)) = reference {
        let floors = figures(ra, rb);
        // Rounds take turns, so equal numbers mean the same moment. Lost rounds break that.
        if floors.0.len() != before.len() || floors.1.len() != after.len() {
            return None;
        }
        before.iter_mut().zip(floors.0).for_each(|(figure, floor)| *figure /= floor);
        after.iter_mut().zip(floors.1).for_each(|(figure, floor)| *figure /= floor);
    }
    let ratio = rank::ratio(&before, &after, 0.95)?;
    let accepted = 1.0 + args.part / 100.0;
    let scaled = |values: &[f64]| values.iter().map(|value| value * accepted).collect::<Vec<_>>();
    let slower_p = rank::higher_p(&scaled(&before), &after);
    let faster_p = rank::higher_p(&scaled(&after), &before);
    let verdict = if rank::least_p(before.len(), after.len()) > args.level {
        Verdict::TooFew
    } else if faster_p < slower_p && faster_p <= args.level {
        Verdict::Faster
    } else {
        Verdict::Same
    };
    let middle = |values| median(values).unwrap_or(0.0);
    Some(Compared {
        row: a.clone(),
        reference: reference.map(|(row, _)| row.record.mechanism.clone()),
        middle: (middle(before), middle(after)),
        ratio,
        p: slower_p,
        verdict,
    })
}

/// Holm's correction: the least p against the level over all rows, the next over one row less.
fn holm(args: &CompareArgs, rows: &mut [Compared]) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&a, &b| rows[a].p.total_cmp(&rows[b].p));
    for (position, &number) in order.iter().enumerate() {
        if rows[number].p > args.level / (order.len() - position) as f64 {
            break;
        }
        rows[number].verdict = Verdict::Slower;
    }
    // A slow-down that so few rounds could never show among so many rows is undecided.
    let limit = args.level / rows.len().max(1) as f64;
    for row in rows.iter_mut().filter(|row| row.verdict == Verdict::Same) {
        let rounds = row.row.rounds.len();
        if rank::least_p(rounds, rounds) > limit {
            row.verdict = Verdict::TooFew;
        }
    }
}

/// One line per comparison, and their sum.
fn text(args: &CompareArgs, (before, after): (&Machine, &Machine), rows: &[Compared]) -> String {
    let mut table = Table::new(&[
        "test",
        "mechanism",
        "bytes",
        "n",
        "before",
        "after",
        "change",
        "95 % interval",
        "p",
        "against",
        "",
    ]);
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    for row in rows {
        let record = &row.row.record;
        let (middle, low, high) = row.ratio;
        let divided = row.reference.is_some();
        let figure = |value| if divided { format!("{value:.3} x") } else { time(value) };
        let verdict = match row.verdict {
            Verdict::Slower => "SLOWER",
            Verdict::Faster => "faster",
            Verdict::Same => "",
            Verdict::TooFew => "too few rounds",
        };
        table.row(vec![
            format!("{} {}", record.test, record.placement),
            format!("{} ({})", record.mechanism, record.wait),
            size(record.bytes),
            record.pairs.to_string(),
            figure(row.middle.0),
            figure(row.middle.1),
            percent(middle),
            format!("{} to {}", percent(low), percent(high)),
            if row.p < 0.001 { format!("{:.0e}", row.p) } else { format!("{:.3}", row.p) },
            row.reference.clone().unwrap_or_else(|| "time itself".into()),
            verdict.into(),
        ]);
    }
    let number = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let machines = if (&before.cpu, &before.kernel) == (&after.cpu, &after.kernel) {
        String::new()
    } else {
        format!(
            "two machines: {}, {} and {}, {}; only ratios to a floor compare\n",
            before.cpu, before.kernel, after.cpu, after.kernel
        )
    };
    format!(
        "{machines}{}{} rows: {} slower by more than {} % (level {}, Holm), {} faster, \
         {} undecided for too few rounds\n",
        table.text(),
        rows.len(),
        number(Verdict::Slower),
        args.part,
        args.level,
        number(Verdict::Faster),
        number(Verdict::TooFew),
    )
}

#[cfg(test)]
mod tests;
