//! The text table of each suite: a list of columns over rows, the fastest row first.

use crate::PAGE_BYTES;
use crate::results::Row;
use crate::schema::Family;
use crate::text::{Table, or_dash, rate, size, time};

/// One column.
pub struct Column {
    head: &'static str,
    show: fn(&Row, &Group<'_>) -> String,
}

/// The rows that took turns with each other, the fastest first.
pub struct Group<'a>(Vec<&'a Row>);

impl<'a> Group<'a> {
    /// These rows, sorted.
    #[must_use]
    pub fn new(rows: &'a [Row]) -> Self {
        let mut rows: Vec<&Row> = rows.iter().collect();
        rows.sort_by(|a, b| a.ns().total_cmp(&b.ns()));
        Self(rows)
    }

    fn ratio(&self, row: &Row, to: impl Fn(&Row) -> bool) -> String {
        let found = self.0.iter().find(|row| to(row));
        or_dash(found, |to| format!("{:.2}", row.ns() / to.ns()))
    }
}

macro_rules! columns {
    ($($head:literal: $show:expr),* $(,)?) => { &[$(Column { head: $head, show: $show }),*] };
}

/// Round trips.
pub const TRIPS: &[Column] = columns![
    "mechanism": mechanism,
    "wait": wait,
    "bytes": |row, _| row.record.bytes.to_string(),
    "n": number,
    "p50": |row, _| time(row.record.p50_ns as f64),
    "of rounds": spread,
    "block": block,
    "p99": p99,
    "p99.9": p999,
    "max": longest,
    "trips/s": |row, _| per_trip(row, rate(row.record.per_s)),
    "cpu/trip": |row, _| per_trip(row, time(row.record.cpu_ns_per_op)),
    "switches": |row, _| per_trip(row, format!("{:.2}", row.switches_per_op)),
    "x ours": to_ours,
    "x floor": to_floor,
    "": mark,
];

/// Copies of blocks.
pub const COPIES: &[Column] = columns![
    "mechanism": mechanism,
    "wait": wait,
    "bytes": bytes,
    "p50": |row, _| time(row.record.p50_ns as f64),
    "of rounds": spread,
    "block": block,
    "p99": p99,
    "p99.9": p999,
    "max": longest,
    "GB/s": |row, _| format!("{:.2}", row.record.bytes as f64 / row.ns()),
    "cpu/copy": cpu,
    "x memcpy": |row, group| group.ratio(row, |other| other.record.mechanism == "memcpy"),
    "x ours": to_ours,
    "": mark,
];

/// Attaches of memory; the time per page stands beside the whole.
pub const ATTACHES: &[Column] = columns![
    "mechanism": mechanism,
    "wait": wait,
    "bytes": bytes,
    "p50": |row, _| time(row.record.p50_ns as f64),
    "of rounds": spread,
    "per 4K": |row, _| time(row.trip_ns() / (row.record.bytes / PAGE_BYTES).max(1) as f64),
    "p99": p99,
    "p99.9": p999,
    "max": longest,
    "per s": |row, _| rate(1e9 / row.trip_ns()),
    "x ours": to_ours,
    "": mark,
];

/// Hand-over and allocation of blocks.
pub const BLOCKS: &[Column] = columns![
    "mechanism": mechanism,
    "wait": wait,
    "bytes": bytes,
    "p50": |row, _| time(row.record.p50_ns as f64),
    "of rounds": spread,
    "block": block,
    "p99": p99,
    "p99.9": p999,
    "max": longest,
    "per s": |row, _| rate(1e9 / row.trip_ns()),
    "x ours": to_ours,
    "": mark,
];

/// Sockets.
pub const SOCKETS: &[Column] = columns![
    "test": |row, _| row.record.test.clone(),
    "socket": mechanism,
    "wait": wait,
    "bytes": bytes,
    "n": number,
    "p50": |row, _| time(row.ns()),
    "of rounds": spread,
    "p99": p99,
    "p99.9": p999,
    "max": longest,
    "per s": |row, _| rate(row.record.per_s),
    "GB/s": |row, _| format!("{:.3}", row.record.bytes as f64 / row.ns()),
    "cpu each": cpu,
    "cpu/byte": |row, _| format!("{:.3} ns", row.record.cpu_ns_per_op / row.record.bytes as f64),
    "switches": |row, _| format!("{:.2}", row.switches_per_op),
    "bells": |row, _| or_dash(row.bells_per_op, |bells| format!("{bells:.4}")),
    "ring": |row, _| or_dash(row.ring_share, |share| format!("{:.0} %", share * 100.0)),
    "x unix": |row, group| group.ratio(row, |other| other.record.mechanism == "unix-stream"),
    "x floor": to_floor,
    "": mark,
];

/// The columns of a test of round trips.
pub const LEGEND: &str = "\
times are of one round trip; p50 is of single trips less the clock's own cost, \"of rounds\" its\n\
least and greatest in a round, \"block\" the median of blocks timed as a whole; ratios are of\n\
p50, below 1 us of block. cpu/trip and switches (voluntary) count both sides. n: pairs at once,\n\
or bound clients.\n";

/// The table of a step: one group per size, in order.
#[must_use]
pub fn table(title: &str, columns: &[Column], rounds: u32, groups: &[Vec<Row>]) -> String {
    let heads: Vec<&str> = columns.iter().map(|column| column.head).collect();
    let mut table = Table::new(&heads);
    for group in groups.iter().map(|rows| Group::new(rows)) {
        for row in &group.0 {
            table.row(columns.iter().map(|column| (column.show)(row, &group)).collect());
        }
    }
    format!("\n{title} (medians of {rounds} rounds in turn)\n{}", table.text())
}

/// Deaths, restarts and contacts have no rate, and their costs per trip mean nothing.
fn per_trip(row: &Row, shown: String) -> String {
    if row.record.per_s > 0.0 { shown } else { "-".into() }
}

fn mechanism(row: &Row, _: &Group<'_>) -> String {
    row.record.mechanism.clone()
}

fn wait(row: &Row, _: &Group<'_>) -> String {
    row.record.wait.to_string()
}

fn bytes(row: &Row, _: &Group<'_>) -> String {
    size(row.record.bytes)
}

fn number(row: &Row, _: &Group<'_>) -> String {
    row.record.pairs.to_string()
}

fn spread(row: &Row, _: &Group<'_>) -> String {
    format!("{}..{}", time(row.spread_ns.0 as f64), time(row.spread_ns.1 as f64))
}

fn block(row: &Row, _: &Group<'_>) -> String {
    or_dash(row.block_ns, time)
}

fn p99(row: &Row, _: &Group<'_>) -> String {
    time(row.record.p99_ns as f64)
}

fn p999(row: &Row, _: &Group<'_>) -> String {
    time(row.record.p999_ns as f64)
}

fn longest(row: &Row, _: &Group<'_>) -> String {
    time(row.record.max_ns as f64)
}

fn cpu(row: &Row, _: &Group<'_>) -> String {
    time(row.record.cpu_ns_per_op)
}

fn to_ours(row: &Row, group: &Group<'_>) -> String {
    group.ratio(row, |other| other.family == Family::Ours)
}

fn to_floor(row: &Row, group: &Group<'_>) -> String {
    group.ratio(row, |other| other.family == Family::Floor)
}

fn mark(row: &Row, _: &Group<'_>) -> String {
    row.family.mark().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::rounds;

    #[test]
    fn the_fastest_row_comes_first_and_ratios_are_of_its_group() {
        let rows = vec![
            rounds("pipe", Family::Kernel, &[&[3_000]]),
            rounds("m3ipc", Family::Ours, &[&[2_000]]),
        ];
        let text = table("a title", TRIPS, 1, &[rows]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[3].contains("m3ipc") && lines[3].ends_with("<- ours"), "{text}");
        assert!(lines[4].contains("pipe") && lines[4].contains("1.50"), "{text}");
    }
}
