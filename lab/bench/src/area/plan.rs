//! Which of them are measured, and for how long.

use super::{Cell, Shape, Test, way};
use crate::args::BenchArgs;
use crate::job::Placement;
use crate::place::Cpus;

/// One table: one test in all sizes.
pub struct Table {
    /// What a person reads above it.
    pub title: String,
    /// What is measured.
    pub test: Test,
    /// Cells that are measured in turn, one list for each size.
    pub sizes: Vec<Vec<Cell>>,
}

const MS: u64 = 1_000_000;
/// How long a measurement warms up.
pub const WARM_NS: u64 = 2 * MS;

/// All tables that the arguments ask for.
#[must_use]
pub fn tables(args: &BenchArgs, cpus: &Cpus) -> Vec<Table> {
    let attach: &[usize] = if args.quick {
        &[1 << 20, 16 << 20]
    } else {
        &[64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20]
    };
    let hand: &[usize] = if args.quick {
        &[4 << 10, 1 << 20]
    } else {
        &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30]
    };
    let pool: &[usize] = if args.quick { &[4 << 10] } else { &[64, 4 << 10, 64 << 10, 1 << 20] };
    let mut tables = vec![
        table(
            args,
            cpus,
            Test::Attach,
            attach,
            "attach: memory of others comes into a process, all its pages",
        ),
        table(
            args,
            cpus,
            Test::HandOver,
            hand,
            "hand-over: a block to another process and back, which is two of them",
        ),
        table(
            args,
            cpus,
            Test::Pool,
            pool,
            "pool: the oldest of 1,000 blocks is given back, a new one taken; up to",
        ),
    ];
    tables.retain(|table| !table.sizes.is_empty());
    tables
}

fn table(args: &BenchArgs, cpus: &Cpus, test: Test, sizes: &[usize], title: &str) -> Table {
    let span_ns = args.millis.unwrap_or(if args.quick { 8 } else { 60 }) * MS;
    let placement = if cpus.second.is_some() { Placement::TwoCpus } else { Placement::SameCpu };
    let cells = |&bytes: &usize| -> Vec<Cell> {
        let shape = Shape { test, bytes, span_ns };
        let fits = |way: &&dyn way::Way| {
            way.test() == test
                && args.lets(&[test.name(), way.name(), placement.name(), way.wait().name()])
        };
        way::all().into_iter().filter(fits).map(|way| Cell { way, shape, placement }).collect()
    };
    Table {
        title: title.into(),
        test,
        sizes: sizes.iter().map(cells).filter(|cells| !cells.is_empty()).collect(),
    }
}
