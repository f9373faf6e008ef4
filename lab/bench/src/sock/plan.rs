//! Which sockets are measured, and for how long.

use super::way::{ALL, Way};
use super::{Cell, Shape, Test};
use crate::args::BenchArgs;
use crate::job::Placement;
use crate::place::Cpus;

/// One table: one test in all sizes, or with all numbers of connections.
pub struct Table {
    /// What a person reads above it.
    pub title: String,
    /// Cells that are measured in turn, one list for each size.
    pub sizes: Vec<Vec<Cell>>,
}

const MS: u64 = 1_000_000;
/// How long a measurement warms up.
pub const WARM_NS: u64 = 3 * MS;
/// Sizes of messages, and of a quick run, in bytes.
const SIZES: [usize; 10] =
    [1, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10];
const FEW_SIZES: [usize; 5] = [64, 1 << 10, 16 << 10, 64 << 10, 512 << 10];
/// Sizes of requests; one of them is that of a message of IPC2.
const TRIPS: [usize; 6] = [1, 48, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
const FEW_TRIPS: [usize; 3] = [48, 4 << 10, 64 << 10];
/// Bytes of one measurement of a stream at most, as in the paper: 1 GB.
const TOTAL_BYTES: u64 = 1 << 30;
/// Connections of one measurement of them: each leaves TCP a minute of waiting.
const CONNECTS: u64 = 300;
const FEW_CONNECTS: u64 = 100;

/// All tables that the arguments ask for.
#[must_use]
pub fn tables(args: &BenchArgs, cpus: &Cpus) -> Vec<Table> {
    let quick = args.quick;
    let plan = Plan {
        args,
        placement: if cpus.second.is_some() { Placement::TwoCpus } else { Placement::SameCpu },
    };
    let span = |short: u64, long: u64| args.millis.unwrap_or(if quick { short } else { long }) * MS;
    let sizes: &[usize] = if quick { &FEW_SIZES } else { &SIZES };
    let trips: &[usize] = if quick { &FEW_TRIPS } else { &TRIPS };
    let asleep: &[usize] = if quick { &FEW_TRIPS[..1] } else { &FEW_TRIPS };
    let many: &[u32] = if quick { &[1, 64] } else { &[1, 64, 1_000] };
    let connects = if quick { FEW_CONNECTS } else { CONNECTS };
    let mut tables = vec![
        plan.table(
            "throughput: messages one way, none awaited",
            sizes,
            &[1],
            |bytes, connections| Shape {
                test: Test::Stream,
                bytes,
                connections,
                span_ns: span(60, 300),
                most: if quick { TOTAL_BYTES / 8 } else { TOTAL_BYTES },
            },
        ),
        plan.table("request and answer of one size, awake", trips, &[1], |bytes, connections| {
            Shape { test: Test::Trip, bytes, connections, span_ns: span(30, 150), most: u64::MAX }
        }),
        plan.table(
            "request and answer, the server asleep, one a millisecond",
            asleep,
            &[1],
            |bytes, connections| Shape {
                test: Test::Asleep,
                bytes,
                connections,
                span_ns: span(60, 300),
                most: u64::MAX,
            },
        ),
        plan.table(
            "request and answer on each of several connections in turn, the server in epoll",
            &[48],
            many,
            |bytes, connections| Shape {
                test: Test::Epoll,
                bytes,
                connections,
                span_ns: span(30, 150),
                most: u64::MAX,
            },
        ),
        plan.table(
            "connect: the call, and to the first answer",
            &[1],
            &[1],
            |bytes, connections| Shape {
                test: Test::Connect,
                bytes,
                connections,
                span_ns: span(200, 1_000),
                most: connects,
            },
        ),
    ];
    tables.retain(|table| !table.sizes.is_empty());
    tables
}

struct Plan<'a> {
    args: &'a BenchArgs,
    placement: Placement,
}

impl Plan<'_> {
    fn table(
        &self,
        title: &str,
        sizes: &[usize],
        connections: &[u32],
        shape: impl Fn(usize, u32) -> Shape,
    ) -> Table {
        let placement = self.placement;
        let cells = |bytes: usize, connections: u32| -> Vec<Cell> {
            let shape = shape(bytes, connections);
            let fits = |way: &Way| {
                let names = ["sock", shape.test.name(), way.name(), placement.name()];
                way.takes_part(shape.test, bytes) && self.args.lets(&names)
            };
            // A copy within a process is of no two CPUs.
            let place = |way| if way == Way::Memcpy { Placement::Any } else { placement };
            ALL.into_iter()
                .filter(fits)
                .map(|way| Cell { way, shape, placement: place(way) })
                .collect()
        };
        let all =
            sizes.iter().flat_map(|&bytes| connections.iter().map(move |&number| (bytes, number)));
        Table {
            title: format!("{title}; {placement}"),
            sizes: all
                .map(|(bytes, number)| cells(bytes, number))
                .filter(|cells| !cells.is_empty())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: Cpus = Cpus { first: 0, second: Some(1), allowed: 2 };

    #[test]
    fn every_size_of_the_paper_has_its_rivals_and_its_floor() {
        let tables = tables(&BenchArgs::default(), &CPUS);
        assert_eq!(tables.len(), 5);
        let stream = &tables[0];
        let sizes: Vec<usize> = stream.sizes.iter().map(|cells| cells[0].shape.bytes).collect();
        assert_eq!((sizes.first(), sizes.last()), (Some(&1), Some(&(512 << 10))));
        for cells in &stream.sizes {
            for name in ["com-socket", "unix-stream", "tcp", "pipe", "memcpy"] {
                assert!(cells.iter().any(|cell| cell.way.name() == name), "{name}");
            }
        }
        let ipc: Vec<usize> = tables[1]
            .sizes
            .iter()
            .flatten()
            .filter(|cell| cell.way == Way::Ipc2)
            .map(|cell| cell.shape.bytes)
            .collect();
        assert_eq!(ipc, [1, 48]);
    }

    #[test]
    fn only_narrows_down() {
        let only = |words: &[&str]| {
            let only = words.iter().map(|&word| word.into()).collect();
            tables(&BenchArgs { only, ..BenchArgs::default() }, &CPUS)
        };
        assert_eq!(only(&["sock-connect", "tcp"]).len(), 1);
        assert!(only(&["carrier-pigeon"]).is_empty());
    }
}
