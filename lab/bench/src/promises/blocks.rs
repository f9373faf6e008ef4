//! The promises about blocks of data: P8 to P11.
//!
//! A copy is compared at every size that was measured, and the worst of them is the figure.

use super::{Bound, Promise, Unit};
use crate::copy::copy_ns;
use crate::job::Placement;
use crate::raw::mapping::PAGE_BYTES;
use crate::record::{Results, Row};

/// What vcopy may cost beyond its share of the bare system call, in nanoseconds.
const SLACK_NS: f64 = 300.0;
/// Size of the block of P9.
const AREA_COPY_BYTES: usize = 4096;
/// From this size on vcopy is faster than what copies twice.
const FASTER_BYTES: usize = 512;

/// The rows.
pub const PROMISES: [Promise; 7] = [
    Promise {
        id: "P8",
        what: "vcopy less 0.3 us / process_vm_writev, worst size",
        bound: Bound::AtMost(1.1),
        stretch: None,
        unit: Unit::Times,
        figure: to_bare,
    },
    Promise {
        id: "P8",
        what: "pipe, Unix stream / vcopy, awaited, 512 B on, worst",
        bound: Bound::AtLeast(1.0),
        stretch: None,
        unit: Unit::Times,
        figure: to_carried,
    },
    Promise {
        id: "P9",
        what: "rate of vcopy between areas, 4 KB, / memcpy",
        bound: Bound::AtLeast(0.9),
        stretch: Some(0.97),
        unit: Unit::Times,
        figure: between_areas,
    },
    Promise {
        id: "P10",
        what: "hand-over there and back, slowest / fastest size",
        bound: Bound::AtMost(1.1),
        stretch: None,
        unit: Unit::Times,
        figure: flatness,
    },
    Promise {
        id: "P10",
        what: "hand-over one way / IPC2 round trip, worst size",
        bound: Bound::Stated,
        stretch: None,
        unit: Unit::Times,
        figure: hand_over_to_trip,
    },
    Promise {
        id: "P11",
        what: "attach per 4 KB / file pages, to read and write",
        bound: Bound::AtMost(0.47),
        stretch: Some(0.1),
        unit: Unit::Times,
        figure: |results| attach(results, "file-write"),
    },
    Promise {
        id: "P11",
        what: "attach per 4 KB / file pages, to read only",
        bound: Bound::Stated,
        stretch: None,
        unit: Unit::Times,
        figure: |results| attach(results, "file-populate"),
    },
];

/// vcopy without its slack against the bare system call.
fn to_bare(results: &Results) -> Option<f64> {
    of_sizes(results, 0, "process-vm", |ours, bare| (ours - SLACK_NS) / bare).max_by(f64::total_cmp)
}

/// What the kernel carries, the faster of two, against vcopy.
fn to_carried(results: &Results) -> Option<f64> {
    let against = |name| of_sizes(results, FASTER_BYTES, name, |ours, carried| carried / ours);
    against("pipe").chain(against("unix-stream")).min_by(f64::total_cmp)
}

/// The rate of vcopy between areas against that of memcpy.
fn between_areas(results: &Results) -> Option<f64> {
    let of = |name| {
        let is = |row: &&Row| row.record.test == "copy1" && row.record.mechanism == name;
        results.rows.iter().filter(is).find(|row| row.record.bytes == AREA_COPY_BYTES).map(copy_ns)
    };
    Some(of("memcpy")? / of("vcopy-areas")?)
}

/// The rows of a test of memory by one mechanism.
fn memory<'a>(results: &'a Results, test: &'a str, name: &'a str) -> impl Iterator<Item = &'a Row> {
    results.rows.iter().filter(move |row| row.record.test == test && row.record.mechanism == name)
}

/// Hand-over of the slowest size against that of the fastest, where there are several.
fn flatness(results: &Results) -> Option<f64> {
    let times = || memory(results, "handover", "block").map(Row::trip_ns);
    if times().count() < 2 {
        return None;
    }
    Some(times().max_by(f64::total_cmp)? / times().min_by(f64::total_cmp)?)
}

/// One of the two hand-overs of a trip against a round trip that carries nothing, measured beside it.
fn hand_over_to_trip(results: &Results) -> Option<f64> {
    let one = |block: &Row| {
        let beside = |row: &&Row| row.record.bytes == block.record.bytes;
        let trip = memory(results, "handover", "sendrec").find(beside)?;
        Some(block.trip_ns() / 2.0 / trip.trip_ns())
    };
    memory(results, "handover", "block").filter_map(one).max_by(f64::total_cmp)
}

/// What each 4 KB adds to an attach, as AnT's paper measures it, against the same of a file.
fn attach(results: &Results, file: &str) -> Option<f64> {
    Some(per_page(results, "area")? / per_page(results, file)?)
}

/// What each page of 4 KB adds between the least and the greatest size that were measured, in nanoseconds.
fn per_page(results: &Results, name: &str) -> Option<f64> {
    let rows = || memory(results, "attach", name);
    let least = rows().min_by_key(|row| row.record.bytes)?;
    let most = rows().max_by_key(|row| row.record.bytes)?;
    let pages = (most.record.bytes - least.record.bytes) / PAGE_BYTES;
    (pages > 0).then(|| (most.trip_ns() - least.trip_ns()) / pages as f64)
}

/// What a comparison gives at each size that both were measured with.
fn of_sizes<'a>(
    results: &'a Results,
    least: usize,
    other: &'a str,
    compare: impl Fn(f64, f64) -> f64 + 'a,
) -> impl Iterator<Item = f64> + 'a {
    let rows = move |name: &'a str| {
        results.rows.iter().filter(move |row| {
            let record = &row.record;
            let here = [Placement::TwoCpus, Placement::Any].contains(&record.placement);
            record.test == "copy1" && record.mechanism == name && here && record.bytes >= least
        })
    };
    rows("vcopy").filter_map(move |ours| {
        let same = |row: &&Row| row.record.bytes == ours.record.bytes;
        let other = rows(other).find(same)?;
        Some(compare(copy_ns(ours), copy_ns(other)))
    })
}

#[cfg(test)]
mod tests;
