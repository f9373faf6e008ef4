//! Runs the tests of sockets and shows them to people.

use super::plan::{Table as Plan, WARM_NS};
use super::{Cell, FIRST, Test, measure};
use crate::copy::copy_ns;
use crate::measure::{Bench, Round};
use crate::mechanism::Family;
use crate::progress::Progress;
use crate::record::{Results, Row, Subject};
use crate::report::{Table, rate, size, time};
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
        "test",
        "socket",
        "wait",
        "bytes",
        "n",
        "p50",
        "of rounds",
        "p99",
        "p99.9",
        "max",
        "per s",
        "GB/s",
        "cpu each",
        "cpu/byte",
        "switches",
        "bells",
        "ring",
        "x unix",
        "x floor",
        "",
    ]);
    let turns = Turns {
        title: &plan.title,
        name: &|cell: &Cell| {
            format!("{} {} n {}", cell.way.name(), size(cell.shape.bytes), cell.shape.connections)
        },
        measure: &|cell: &Cell| measure(bench, cell, WARM_NS),
    };
    for cells in &plan.sizes {
        let Some(test) = cells.first().map(|cell| cell.shape.test) else { continue };
        let found = turns.take(test.name(), cells, rounds, progress, results);
        let measured = || cells.iter().zip(&found).filter(|(_, rounds)| !rounds.is_empty());
        let rows = measured().map(|(cell, rounds)| Row::of(&subject(cell, test.name()), rounds));
        show(&mut table, rows.collect(), results);
        if test == Test::Connect {
            let rows =
                measured().map(|(cell, rounds)| Row::of(&subject(cell, FIRST), &answered(rounds)));
            show(&mut table, rows.collect(), results);
        }
    }
    format!("\n{} (medians of {rounds} rounds in turn)\n{}", plan.title, table.text())
}

/// The times to the first answer, as rounds of their own.
fn answered(rounds: &[Round]) -> Vec<Round> {
    rounds.iter().map(|round| Round { samples: round.binds.clone(), ..round.clone() }).collect()
}

fn subject<'a>(cell: &Cell, test: &'a str) -> Subject<'a> {
    Subject {
        test,
        mechanism: cell.way.name(),
        family: cell.way.family(),
        placement: cell.placement,
        wait: cell.wait(),
        bytes: cell.shape.bytes,
        pairs: cell.shape.connections,
    }
}

/// Whether rows of this test differ in the size of their messages, so that one size compares with the same.
#[must_use]
pub fn is_of_messages(test: &str) -> bool {
    test.starts_with("sock-")
}

/// Adds the rows of one size, the fastest first.
fn show(table: &mut Table, mut rows: Vec<Row>, results: &mut Results) {
    results.rows.extend_from_slice(&rows);
    rows.sort_by(|a, b| copy_ns(a).total_cmp(&copy_ns(b)));
    let unix = rows.iter().find(|row| row.record.mechanism == "unix-stream").map(copy_ns);
    let floor = rows.iter().find(|row| row.family == Family::Floor).map(copy_ns);
    let ratio =
        |of: f64, to: Option<f64>| to.map_or_else(|| "-".into(), |to| format!("{:.2}", of / to));
    for row in &rows {
        let record = &row.record;
        let bytes = record.bytes as f64;
        table.row(vec![
            record.test.clone(),
            record.mechanism.clone(),
            record.wait.to_string(),
            size(record.bytes),
            record.pairs.to_string(),
            time(copy_ns(row)),
            format!("{}..{}", time(row.spread_ns.0 as f64), time(row.spread_ns.1 as f64)),
            time(record.p99_ns as f64),
            time(record.p999_ns as f64),
            time(record.max_ns as f64),
            rate(record.per_s),
            format!("{:.3}", bytes / copy_ns(row)),
            time(record.cpu_ns_per_op),
            format!("{:.3} ns", record.cpu_ns_per_op / bytes),
            format!("{:.2}", row.switches_per_op),
            row.bells_per_op.map_or_else(|| "-".into(), |bells| format!("{bells:.4}")),
            row.ring_share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0)),
            ratio(copy_ns(row), unix),
            ratio(copy_ns(row), floor),
            row.family.mark().into(),
        ]);
    }
}
