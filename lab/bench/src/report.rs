//! Tables for people.

use crate::job::Placement;
use crate::mechanism::Family;
use crate::plan::{Shape, Test};
use crate::record::{Results, Row};

/// Text in aligned columns: the first two to the left, figures to the right, the last to the left.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|&head| head.into()).collect()] }
    }

    /// Adds a row of as many cells as there are headings.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as lines.
    #[must_use]
    pub fn text(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> = (0..columns)
                .map(|column| {
                    let (cell, width) = (&row[column], widths[column]);
                    let left = column < 2 || column + 1 == columns;
                    if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                })
                .collect();
            text.push_str("  ");
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// A time with three or four digits and its unit.
#[must_use]
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 100.0 => format!("{ns:.1} ns"),
        ns if ns < 10_000.0 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A size in bytes as a whole number of its largest unit.
#[must_use]
pub fn size(bytes: usize) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// A rate with its unit.
#[must_use]
pub fn rate(per_s: f64) -> String {
    match per_s {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.1} k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

/// One test with all its rows, the fastest first.
#[must_use]
pub fn table(test: &Test, rows: &[Row]) -> String {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| a.trip_ns().total_cmp(&b.trip_ns()));
    let rounds = rows.iter().map(|row| row.record.rounds).max().unwrap_or(0);
    let ours = rows.iter().find(|row| row.family == Family::Ours).map(|row| row.trip_ns());
    let floor = rows.iter().find(|row| row.family == Family::Floor).map(|row| row.trip_ns());
    let ratio =
        |of: f64, to: Option<f64>| to.map_or_else(|| "-".into(), |to| format!("{:.2}", of / to));
    let mut table = Table::new(&[
        "mechanism",
        "wait",
        "bytes",
        "n",
        "p50",
        "of rounds",
        "block",
        "p99",
        "p99.9",
        "max",
        "trips/s",
        "cpu/trip",
        "switches",
        "x ours",
        "x floor",
        "",
    ]);
    for row in rows {
        let record = &row.record;
        let whole_or_none = |figure: String| if trips(test) { figure } else { "-".into() };
        table.row(vec![
            record.mechanism.clone(),
            record.wait.to_string(),
            record.bytes.to_string(),
            record.pairs.to_string(),
            time(record.p50_ns as f64),
            format!("{}..{}", time(row.spread_ns.0 as f64), time(row.spread_ns.1 as f64)),
            row.block_ns.map_or_else(|| "-".into(), time),
            time(record.p99_ns as f64),
            time(record.p999_ns as f64),
            time(record.max_ns as f64),
            whole_or_none(rate(record.per_s)),
            whole_or_none(time(record.cpu_ns_per_op)),
            whole_or_none(format!("{:.2}", row.switches_per_op)),
            ratio(row.trip_ns(), ours),
            ratio(row.trip_ns(), floor),
            row.family.mark().into(),
        ]);
    }
    format!("\n{} (medians of {rounds} rounds in turn)\n{}", test.title, table.text())
}

/// Whether rates and costs per trip mean something in this test.
fn trips(test: &Test) -> bool {
    matches!(test.shape, Shape::Trips | Shape::OneOfMany)
}

/// What the columns mean, once per run.
pub const LEGEND: &str = "\
times are of one round trip; p50 is of single trips less the clock's own cost, \"of rounds\" its least and greatest\n\
in a round, \"block\" the median of blocks timed as a whole; ratios are of p50, below 1 us of block. cpu/trip and\n\
switches (voluntary) count both sides. n: pairs at once, or bound clients.\n";

/// The libraries of others, with their versions.
#[must_use]
pub fn libraries(results: &Results) -> String {
    if results.libraries.is_empty() {
        return String::new();
    }
    let one = |(name, version): &(String, String)| format!("{name} {version}");
    format!("libraries {}\n", results.libraries.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// What was counted and not timed.
#[must_use]
pub fn counts(results: &Results) -> String {
    let mut table = Table::new(&["test", "what", "figure", ""]);
    for count in results
        .counts
        .iter()
        .filter(|count| ["instructions", "memory"].contains(&count.test.as_str()))
    {
        table.row(vec![
            count.test.clone(),
            count.what.clone(),
            format!("{:.0}", count.value),
            count.unit.clone(),
        ]);
    }
    format!("\ncounted\n{}", table.text())
}

/// What was left out, and why.
#[must_use]
pub fn left_out(results: &Results) -> String {
    let lines = |head: &str, list: &[String]| {
        list.iter().map(|text| format!("{head}: {text}\n")).collect::<String>()
    };
    let text = lines("skipped", &results.skipped) + &lines("failed", &results.failed);
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// A note for placements that this machine does not have.
#[must_use]
pub fn missing(placement: Placement) -> String {
    format!(
        "{placement}: this process may use one CPU only; widen its affinity (taskset) or its cpuset"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_have_units() {
        let times = [73.25, 431.0, 13_240.0, 1_500_000.0, 2e9].map(time);
        assert_eq!(times, ["73.2 ns", "431 ns", "13.2 us", "1.50 ms", "2.00 s"]);
        assert_eq!([999.0, 12_345.0, 8_000_000.0].map(rate), ["999", "12.3 k", "8.00 M"]);
    }

    #[test]
    fn sizes_are_whole() {
        let sizes = [0, 64, 1 << 10, 1_500, 64 << 10, 3 << 20, 1 << 30].map(size);
        assert_eq!(sizes, ["0", "64", "1K", "1500", "64K", "3M", "1G"]);
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["a", "b", "c", "d"]);
        table.row(vec!["long".into(), "x".into(), "1".into(), "end".into()]);
        table.row(vec!["s".into(), "y".into(), "1000".into(), String::new()]);
        assert_eq!(table.text(), "  a     b     c  d\n  long  x     1  end\n  s     y  1000\n");
    }
}
