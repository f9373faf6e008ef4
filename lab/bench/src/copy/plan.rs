//! Which copies are measured, and for how long.

use super::{Cell, Kind, Shape, way};
use crate::args::BenchArgs;
use crate::job::Placement;
use crate::place::Cpus;

/// One table: copies of one kind, in all sizes.
pub struct Table {
    /// What a person reads above it.
    pub title: String,
    /// Cells that are measured in turn, one list for each size.
    pub sizes: Vec<Vec<Cell>>,
}

const MS: u64 = 1_000_000;
/// How long requester and destination warm up.
pub const WARM_NS: u64 = 3 * MS;

/// Sizes in bytes, all of them and those of a quick run.
const SIZES: [usize; 10] =
    [64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
const FEW_SIZES: [usize; 4] = [64, 4 << 10, 64 << 10, 1 << 20];
/// Beyond this, where both sides run makes little difference.
const SAME_CPU_BYTES: usize = 64 << 10;

/// All tables that the arguments ask for.
#[must_use]
pub fn tests(args: &BenchArgs, cpus: &Cpus) -> Vec<Table> {
    use Placement::{SameCpu, TwoCpus};
    let mut tables = vec![];
    let mut add = |kind, aligned, placement, sizes: &[usize]| {
        tables.push(table(args, kind, aligned, placement, sizes))
    };
    let sizes: &[usize] = if args.quick { &FEW_SIZES } else { &SIZES };
    let few: &[usize] = if args.quick { &FEW_SIZES[1..2] } else { &FEW_SIZES };
    let small: Vec<usize> =
        sizes.iter().copied().filter(|&bytes| bytes <= SAME_CPU_BYTES).collect();
    let across = if cpus.second.is_some() { TwoCpus } else { SameCpu };
    add(Kind::Copy1, true, across, sizes);
    add(Kind::Copy1, false, across, if args.quick { few } else { sizes });
    if across == TwoCpus && !args.quick {
        add(Kind::Copy1, true, SameCpu, &small);
    }
    add(Kind::Copy2, true, across, sizes);
    add(Kind::Copy2, false, across, few);
    add(Kind::Stream, true, across, sizes);
    tables.retain(|table| !table.sizes.is_empty());
    tables
}

fn table(
    args: &BenchArgs,
    kind: Kind,
    aligned: bool,
    placement: Placement,
    sizes: &[usize],
) -> Table {
    let span_ns = args.millis.unwrap_or(if args.quick { 8 } else { 40 }) * MS;
    let cells = |&bytes: &usize| -> Vec<Cell> {
        let shape = Shape { kind, bytes, aligned, span_ns };
        let fits = |way: &&dyn way::Way| {
            let names = [shape.test(), way.name(), placement.name(), way.wait().name()];
            way.kinds().contains(&kind) && bytes <= way.most_bytes() && args.lets(&names)
        };
        way::all().into_iter().filter(fits).map(|way| Cell { way, shape, placement }).collect()
    };
    let what = match kind {
        Kind::Copy1 => "COPY1: from the requester's memory into another process's",
        Kind::Copy2 => "COPY2: from one process's memory into another's, by a third",
        Kind::Stream => {
            "streams: block after block, none awaited; of a mechanism's rate, not of single blocks"
        }
    };
    let ends = if aligned { "" } else { ", misaligned" };
    Table {
        title: format!("{what}{ends}; {placement}"),
        sizes: sizes.iter().map(cells).filter(|cells| !cells.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: Cpus = Cpus { first: 0, second: Some(1), allowed: 2 };

    fn cells(args: &BenchArgs) -> Vec<Cell> {
        tests(args, &CPUS).into_iter().flat_map(|table| table.sizes).flatten().collect()
    }

    #[test]
    fn every_size_has_its_floor_beside_it() {
        let tables = tests(&BenchArgs::default(), &CPUS);
        for table in tables.iter().filter(|table| table.title.starts_with("COPY1")) {
            for cells in &table.sizes {
                for floor in ["memcpy", "process-vm"] {
                    assert!(cells.iter().any(|cell| cell.way.name() == floor), "{}", table.title);
                }
            }
        }
    }

    #[test]
    fn only_narrows_down() {
        let only = |words: &[&str]| {
            cells(&BenchArgs {
                only: words.iter().map(|&word| word.into()).collect(),
                ..BenchArgs::default()
            })
        };
        let found = only(&["misaligned", "pipe"]);
        assert!(!found.is_empty());
        assert!(found.iter().all(|cell| cell.way.name() == "pipe" && !cell.shape.aligned));
        assert!(only(&["carrier-pigeon"]).is_empty());
    }

    #[test]
    fn a_block_fits_its_way() {
        let found = cells(&BenchArgs::default());
        assert!(found.iter().all(|cell| cell.shape.bytes <= cell.way.most_bytes()));
        assert!(found.iter().any(|cell| cell.shape.bytes == 16 << 20));
    }
}
