//! Runs the measurements of memory and shows them to people.

use m3ipc_area::{Allocator, BlockLifetime, UNIT_BYTES};

use super::plan::{Table as Plan, WARM_NS};
use super::study::{self, Course, Life, Pool};
use super::{Cell, Test, measure};
use crate::measure::Bench;
use crate::mechanism::Family;
use crate::progress::Progress;
use crate::raw::mapping::PAGE_BYTES;
use crate::record::{Count, Results, Row, Subject};
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
    let per = if plan.test == Test::Attach { "per 4K" } else { "block" };
    let mut table = Table::new(&[
        "mechanism",
        "wait",
        "bytes",
        "p50",
        "of rounds",
        per,
        "p99",
        "p99.9",
        "max",
        "per s",
        "x ours",
        "",
    ]);
    let turns = Turns {
        title: &plan.title,
        name: &|cell: &Cell| format!("{} {}", cell.way.name(), size(cell.shape.bytes)),
        measure: &|cell: &Cell| measure(bench, cell, WARM_NS),
    };
    for cells in &plan.sizes {
        let found = turns.take(plan.test.name(), cells, rounds, progress, results);
        let measured = cells.iter().zip(&found).filter(|(_, rounds)| !rounds.is_empty());
        let mut rows: Vec<Row> =
            measured.map(|(cell, rounds)| Row::of(&subject(cell), rounds)).collect();
        results.rows.extend_from_slice(&rows);
        rows.sort_by(|a, b| a.trip_ns().total_cmp(&b.trip_ns()));
        show(&mut table, plan.test, &rows);
    }
    format!("\n{} (medians of {rounds} rounds in turn)\n{}", plan.title, table.text())
}

fn subject(cell: &Cell) -> Subject<'_> {
    Subject {
        test: cell.shape.test.name(),
        mechanism: cell.way.name(),
        family: cell.way.family(),
        placement: cell.placement,
        wait: cell.way.wait(),
        bytes: cell.shape.bytes,
        pairs: 1,
    }
}

/// Adds the rows of one size, the fastest first.
fn show(table: &mut Table, test: Test, rows: &[Row]) {
    let ours = rows.iter().find(|row| row.family == Family::Ours).map(Row::trip_ns);
    for row in rows {
        let record = &row.record;
        let pages = (record.bytes / PAGE_BYTES).max(1) as f64;
        let finer = if test == Test::Attach { Some(row.trip_ns() / pages) } else { row.block_ns };
        table.row(vec![
            record.mechanism.clone(),
            record.wait.to_string(),
            size(record.bytes),
            time(record.p50_ns as f64),
            format!("{}..{}", time(row.spread_ns.0 as f64), time(row.spread_ns.1 as f64)),
            finer.map_or_else(|| "-".into(), time),
            time(record.p99_ns as f64),
            time(record.p999_ns as f64),
            time(record.max_ns as f64),
            rate(1e9 / row.trip_ns()),
            ours.map_or_else(|| "-".into(), |ours| format!("{:.2}", row.trip_ns() / ours)),
            row.family.mark().into(),
        ]);
    }
}

/// Name of the study in the JSON.
pub const FRAGMENTATION: &str = "fragmentation";
/// Names of its two pools.
const KINDS: [&str; 2] = ["two-kinds", "one-kind"];
/// Lines of the drawing, and characters of its longest bar.
const LINES: usize = 10;
const BAR: f64 = 30.0;
/// Seed of the dice.
const SEED: u64 = 1;

/// Lives the study in the allocator of areas, in each room, with the two kinds of blocks and without; adds its
/// samples to the counts and gives drawings of them.
pub fn fragmentation(life: &Life, results: &mut Results) -> String {
    study::ROOMS.iter().map(|&room| in_room(room, life, results)).collect()
}

fn in_room(room: u64, life: &Life, results: &mut Results) -> String {
    let place = size(usize::try_from(room).unwrap_or(0));
    let courses = [true, false].map(|has_kinds| {
        let mut tables = Allocator::default();
        tables.add(0, room);
        study::live(&mut Tables { tables, has_kinds }, life, SEED)
    });
    for (name, course) in KINDS.iter().zip(&courses) {
        let count = |what: String, value: f64, unit: &str| Count {
            test: FRAGMENTATION.into(),
            mechanism: format!("{name} in {place}"),
            what,
            value,
            unit: unit.into(),
        };
        for sample in &course.samples {
            let at = sample.operation;
            results.counts.push(count(
                format!("free after {at}"),
                sample.free_bytes as f64,
                "bytes",
            ));
            results.counts.push(count(
                format!("largest run after {at}"),
                sample.largest_bytes as f64,
                "bytes",
            ));
        }
        results.counts.push(count("refused".into(), course.refused as f64, "blocks"));
        results.counts.push(count("refused for pieces".into(), course.for_pieces as f64, "blocks"));
    }
    draw(life, &place, &courses)
}

fn draw(life: &Life, place: &str, courses: &[Course; 2]) -> String {
    let mut table = Table::new(&["operations", "free", KINDS[0], "", KINDS[1], ""]);
    let [with, without] = courses;
    let every = with.samples.len().div_ceil(LINES).max(1);
    let pairs = with.samples.iter().zip(&without.samples).skip(every - 1).step_by(every);
    let bar =
        |share: f64| "#".repeat(usize::try_from(crate::stats::whole(share * BAR)).unwrap_or(0));
    for (with, without) in pairs {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let padded = |share: f64| format!("{:<30}", bar(share));
        table.row(vec![
            rate(with.operation as f64),
            size(usize::try_from(with.free_bytes >> 10 << 10).unwrap_or(0)),
            percent(with.share()),
            padded(with.share()),
            percent(without.share()),
            bar(without.share()),
        ]);
    }
    format!(
        "\nfragmentation: the largest free run of all that is free, {} operations in {} with random lifetimes\n{}\
         blocks that found no room: {} with the two kinds, {} without\n",
        rate(life.operations as f64),
        place,
        table.text(),
        with.refused,
        without.refused,
    )
}

/// The allocator of areas, told of the two kinds or not.
struct Tables {
    tables: Allocator,
    has_kinds: bool,
}

impl Pool for Tables {
    fn take(&mut self, bytes: u64, is_long: bool) -> Option<u64> {
        let kind =
            if self.has_kinds && is_long { BlockLifetime::Long } else { BlockLifetime::Short };
        self.tables.take(bytes, UNIT_BYTES, kind)
    }

    fn give(&mut self, offset: u64, bytes: u64) {
        self.tables.give(offset, bytes);
    }

    fn free_bytes(&self) -> u64 {
        self.tables.free_bytes()
    }

    fn largest_free(&self) -> u64 {
        self.tables.largest_free()
    }
}
