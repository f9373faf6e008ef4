//! The promises about blocks of data: P8 to P11.
//!
//! A copy is compared at every size that was measured, and the worst of them is the figure.

use super::{Bound, Promise, Unit};
use crate::copy::copy_ns;
use crate::job::Placement;
use crate::record::{Results, Row};

/// What vcopy may cost beyond its share of the bare system call, in nanoseconds.
const SLACK_NS: f64 = 300.0;
/// From this size on vcopy is faster than what copies twice.
const FASTER_BYTES: usize = 512;

/// The rows.
pub const PROMISES: [Promise; 2] = [
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
