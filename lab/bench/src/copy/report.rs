//! Runs the copies and shows them to people.

use super::plan::{Table as Plan, WARM_NS};
use super::{Cell, measure};
use crate::measure::Bench;
use crate::mechanism::Family;
use crate::progress::Progress;
use crate::record::{Results, Row, Subject};
use crate::report::{Table, size, time};
use crate::rounds::Turns;

/// Measures all cells of a table, adds their rows, and gives it as text.
pub fn run(
    bench: &Bench,
    plan: &Plan,
    rounds: u32,
    progress: &mut Progress,
    results: &mut Results,
) -> String {
    let mut table = Table::new(&[
        "mechanism",
        "wait",
        "bytes",
        "p50",
        "of rounds",
        "block",
        "p99",
        "p99.9",
        "max",
        "GB/s",
        "cpu/copy",
        "x memcpy",
        "x ours",
        "",
    ]);
    let turns = Turns {
        title: &plan.title,
        name: &|cell: &Cell| format!("{} {}", cell.way.name(), size(cell.shape.bytes)),
        measure: &|cell: &Cell| measure(bench, cell, WARM_NS),
    };
    for cells in &plan.sizes {
        let Some(test) = cells.first().map(|cell| cell.shape.test()) else { continue };
        let found = turns.take(test, cells, rounds, progress, results);
        let measured = cells.iter().zip(&found).filter(|(_, rounds)| !rounds.is_empty());
        let mut rows: Vec<Row> =
            measured.map(|(cell, rounds)| Row::of(&subject(cell), rounds)).collect();
        results.rows.extend_from_slice(&rows);
        rows.sort_by(|a, b| copy_ns(a).total_cmp(&copy_ns(b)));
        show(&mut table, &rows);
    }
    format!("\n{} (medians of {rounds} rounds in turn)\n{}", plan.title, table.text())
}

fn subject(cell: &Cell) -> Subject<'_> {
    Subject {
        test: cell.shape.test(),
        mechanism: cell.way.name(),
        family: cell.way.family(),
        placement: cell.placement,
        wait: cell.way.wait(),
        bytes: cell.shape.bytes,
        pairs: 1,
    }
}

/// The time of one copy that ratios are made of. Of a stream it is that between two blocks: what a single
/// one took its sender says nothing of when it came.
#[must_use]
pub fn copy_ns(row: &Row) -> f64 {
    if ["stream", "sock-stream"].contains(&row.record.test.as_str()) {
        1e9 / row.record.per_s.max(f64::MIN_POSITIVE)
    } else {
        row.trip_ns()
    }
}

/// Whether the rows of a test differ in the size of their block, so that one size compares with the same.
#[must_use]
pub fn is_of_blocks(test: &str) -> bool {
    test.starts_with("copy")
        || crate::sock::is_of_messages(test)
        || ["stream", "attach", "handover", "pool"].contains(&test)
}

/// Adds the rows of one size, the fastest first.
fn show(table: &mut Table, rows: &[Row]) {
    let named = |name: &str| rows.iter().find(|row| row.record.mechanism == name).map(copy_ns);
    let ours = rows.iter().find(|row| row.family == Family::Ours).map(copy_ns);
    let ratio =
        |of: f64, to: Option<f64>| to.map_or_else(|| "-".into(), |to| format!("{:.2}", of / to));
    for row in rows {
        let record = &row.record;
        table.row(vec![
            record.mechanism.clone(),
            record.wait.to_string(),
            size(record.bytes),
            time(record.p50_ns as f64),
            format!("{}..{}", time(row.spread_ns.0 as f64), time(row.spread_ns.1 as f64)),
            row.block_ns.map_or_else(|| "-".into(), time),
            time(record.p99_ns as f64),
            time(record.p999_ns as f64),
            time(record.max_ns as f64),
            format!("{:.2}", record.bytes as f64 / copy_ns(row)),
            time(record.cpu_ns_per_op),
            ratio(copy_ns(row), named("memcpy")),
            ratio(copy_ns(row), ours),
            row.family.mark().into(),
        ]);
    }
}
