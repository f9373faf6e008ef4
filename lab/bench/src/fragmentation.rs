//! Fragmentation: blocks of random sizes with random lifetimes, and the free memory between them.
//!
//! ```text
//! two of a hundred blocks live long (200,000 blocks more), the others shortly (1,000); sizes
//! from 64 bytes to 64 KB, each power of two as likely; half of the room is allocated, or 3/4
//! ```
//! Every pool gets the same random requests, so two pools differ by their decisions only. The
//! study reads no clock and gives the same figures on every machine.

use std::collections::BTreeMap;

use fastrand::Rng;
use m3ipc_area::{Allocator, BlockLifetime, UNIT_BYTES};
use m3ipc_report::names::FRAGMENTATION;
use m3ipc_report::schema::Count;
use m3ipc_report::stats::whole;
use m3ipc_report::text::{Table, rate, size};

use crate::random;

/// A pool of memory.
trait Pool {
    /// Allocates a multiple of 64 bytes for a long or a short life; returns the offset.
    fn take(&mut self, bytes: u64, is_long: bool) -> Option<u64>;

    /// Frees an allocation.
    fn give(&mut self, offset: u64, bytes: u64);

    /// Free bytes.
    fn free_bytes(&self) -> u64;

    /// The longest free run in bytes.
    fn largest_free(&self) -> u64;
}

/// The requests to a pool.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Allocations and frees together.
    pub operations: u64,
    /// Samples of the pool, evenly spread.
    pub samples: u64,
    /// Long-lived blocks of a hundred.
    pub long_of_100: u64,
    /// Mean lifetimes in later allocations, of short-lived and of long-lived blocks.
    pub lifetimes: (u64, u64),
    /// The largest block in bytes.
    pub most_bytes: usize,
}

/// The requests of the study.
pub const LIFE: Life = Life {
    operations: 10_000_000,
    samples: 100,
    long_of_100: 2,
    lifetimes: (1_000, 200_000),
    most_bytes: 64 << 10,
};
/// Bytes of the pools: with the study, half of the first is free, and a quarter of the second.
const ROOMS: [u64; 2] = [96 << 20, 64 << 20];
/// Names of the two pools: with long-lived blocks apart, and without.
const POOLS: [&str; 2] = ["two-kinds", "one-kind"];
/// Lines of the drawing, and characters of its longest bar.
const LINES: usize = 10;
const BAR: f64 = 30.0;
const SEED: u64 = 1;

/// One sample of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    operation: u64,
    free_bytes: u64,
    largest_bytes: u64,
}

impl Sample {
    /// The longest free run as a share of the free memory; 1 without free memory.
    fn share(&self) -> f64 {
        if self.free_bytes == 0 { 1.0 } else { self.largest_bytes as f64 / self.free_bytes as f64 }
    }
}

/// The course of a pool.
#[derive(Clone, Debug, Default)]
struct Course {
    samples: Vec<Sample>,
    /// Blocks without room.
    refused: u64,
    /// Those of them that would fit into the free memory as one run.
    for_pieces: u64,
}

fn live(pool: &mut dyn Pool, life: &Life, seed: u64) -> Course {
    let (mut rng, mut course) = (Rng::with_seed(seed), Course::default());
    // Blocks by the end of their lives; the second number keeps equal ends apart.
    let mut ends: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    let every = (life.operations / life.samples.max(1)).max(1);
    let mut taken = 0;
    for operation in 1..=life.operations {
        let over = ends.first_entry().filter(|entry| entry.key().0 <= taken);
        if let Some((offset, bytes)) = over.map(|entry| entry.remove()) {
            pool.give(offset, bytes);
        } else {
            taken += 1;
            let is_long = rng.u64(..100) < life.long_of_100;
            let bytes = (random::size(&mut rng, life.most_bytes) as u64).next_multiple_of(64);
            let mean = if is_long { life.lifetimes.1 } else { life.lifetimes.0 };
            let end = taken + random::lifetime(&mut rng, mean);
            match pool.take(bytes, is_long) {
                Some(offset) => _ = ends.insert((end, taken), (offset, bytes)),
                None => {
                    course.refused += 1;
                    course.for_pieces += u64::from(pool.free_bytes() >= bytes);
                }
            }
        }
        if operation % every == 0 {
            let (free_bytes, largest_bytes) = (pool.free_bytes(), pool.largest_free());
            course.samples.push(Sample { operation, free_bytes, largest_bytes });
        }
    }
    course
}

/// Runs the study in the allocator of areas; returns its drawings and adds its counts.
pub fn study(life: &Life, counts: &mut Vec<Count>) -> String {
    ROOMS.iter().map(|&room| study_room(room, life, counts)).collect()
}

fn study_room(room: u64, life: &Life, counts: &mut Vec<Count>) -> String {
    let name = size(usize::try_from(room).unwrap_or(0));
    let courses = [true, false].map(|separates| {
        let mut tables = Allocator::default();
        tables.add(0, room);
        live(&mut Tables { tables, separates }, life, SEED)
    });
    for (pool, course) in POOLS.iter().zip(&courses) {
        let mut count = |what: String, value: u64, unit: &str| {
            counts.push(Count {
                test: FRAGMENTATION.into(),
                mechanism: format!("{pool} in {name}"),
                what,
                value: value as f64,
                unit: unit.into(),
            });
        };
        for Sample { operation, free_bytes, largest_bytes } in &course.samples {
            count(format!("free after {operation}"), *free_bytes, "bytes");
            count(format!("largest run after {operation}"), *largest_bytes, "bytes");
        }
        count("refused".into(), course.refused, "blocks");
        count("refused for pieces".into(), course.for_pieces, "blocks");
    }
    draw(life, &name, &courses)
}

fn draw(life: &Life, room: &str, [with, without]: &[Course; 2]) -> String {
    let mut table = Table::new(&["operations", "free", POOLS[0], "", POOLS[1], ""]);
    let every = with.samples.len().div_ceil(LINES).max(1);
    let bar = |share: f64| "#".repeat(usize::try_from(whole(share * BAR)).unwrap_or(0));
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let samples = with.samples.iter().zip(&without.samples);
    for (with, without) in samples.skip(every - 1).step_by(every) {
        table.row(vec![
            rate(with.operation as f64),
            size(usize::try_from(with.free_bytes >> 10 << 10).unwrap_or(0)),
            percent(with.share()),
            format!("{:<30}", bar(with.share())),
            percent(without.share()),
            bar(without.share()),
        ]);
    }
    let operations = rate(life.operations as f64);
    format!(
        "\nfragmentation: the largest free run as a share of the free memory, {operations} \
         operations in {room} with random lifetimes\n{}\
         blocks without room: {} with two kinds of blocks, {} with one\n",
        table.text(),
        with.refused,
        without.refused,
    )
}

/// The allocator of areas, with long-lived blocks apart or not.
struct Tables {
    tables: Allocator,
    separates: bool,
}

impl Pool for Tables {
    fn take(&mut self, bytes: u64, is_long: bool) -> Option<u64> {
        let is_long = self.separates && is_long;
        let lifetime = if is_long { BlockLifetime::Long } else { BlockLifetime::Short };
        self.tables.take(bytes, UNIT_BYTES, lifetime)
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

#[cfg(test)]
mod tests;
