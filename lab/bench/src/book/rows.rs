//! Finding rows, and writing their figures so that a test can find them again.

use maud::{Markup, html};

use super::format;
use crate::copy::copy_ns;
use crate::job::{Placement, Wait};
use crate::mechanism::Family;
use crate::record::{Results, Row};

/// What ours is taken for where a user's default is meant, in this order.
const DEFAULT: [Wait; 4] = [Wait::Adaptive, Wait::Block, Wait::Spin, Wait::Yield];

/// The time of a row that is shown and compared, in nanoseconds.
#[must_use]
pub fn ns(row: &Row) -> f64 {
    copy_ns(row)
}

/// The rows of a test, in the order of their measurement.
pub fn of_test<'a>(results: &'a Results, test: &'a str) -> impl Iterator<Item = &'a Row> + Clone {
    results.rows.iter().filter(move |row| row.record.test == test)
}

/// The rows of a test at this placement.
pub fn at<'a>(
    results: &'a Results,
    test: &'a str,
    placement: Placement,
) -> impl Iterator<Item = &'a Row> + Clone {
    of_test(results, test).filter(move |row| row.record.placement == placement)
}

/// Ours among these rows, in the way of waiting that is its default.
pub fn ours<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Option<&'a Row> {
    let of = |wait| rows.clone().find(|row| row.family == Family::Ours && row.record.wait == wait);
    DEFAULT.into_iter().find_map(of)
}

/// The fastest of a family.
pub fn fastest<'a>(rows: impl Iterator<Item = &'a Row>, family: Family) -> Option<&'a Row> {
    rows.filter(|row| row.family == family).min_by(|a, b| ns(a).total_cmp(&ns(b)))
}

/// Sizes, or numbers of pairs, in order.
pub fn distinct<'a>(rows: impl Iterator<Item = &'a Row>, of: impl Fn(&Row) -> usize) -> Vec<usize> {
    let mut found: Vec<usize> = rows.map(of).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// By what a row is known.
#[must_use]
pub fn key(row: &Row) -> String {
    let it = &row.record;
    format!("{}/{}/{}/{}/{}/{}", it.test, it.mechanism, it.placement, it.wait, it.bytes, it.pairs)
}

/// A figure of a row as text that says where it comes from.
#[must_use]
pub fn shown(row: &Row, field: &str, text: &str) -> Markup {
    html! { span.f data-f={ (key(row)) "#" (field) } { (text) } }
}

/// The time of a row.
#[must_use]
pub fn time(row: &Row) -> Markup {
    shown(row, "ns", &format::time(ns(row)))
}

/// How one row's time stands to another's, in words: "3.2 times as fast as pipe".
#[must_use]
pub fn versus(ours: &Row, other: &Row) -> Markup {
    let ratio = ns(other) / ns(ours);
    let name = &other.record.mechanism;
    html! {
        @if ratio >= 1.02 {
            (times(other, ours)) " times as fast as " (name)
        } @else if ratio > 0.98 {
            "as fast as " (name) " (" (times(ours, other)) ")"
        } @else {
            b.lost { "slower than " (name) ": " (times(ours, other)) " times its time" }
        }
    }
}

/// How many times the time of `of` is that of `to`.
#[must_use]
pub fn times(of: &Row, to: &Row) -> Markup {
    html! { span.f data-f={ (key(of)) " / " (key(to)) } { (format::ratio(ns(of) / ns(to))) } }
}

/// The class that gives a series its colour: ours, floors, and each of the others its own.
#[must_use]
pub fn class(row: &Row) -> String {
    const KERNEL: [&str; 8] =
        ["pipe", "fifo", "unix-stream", "unix-seqpacket", "tcp", "posix-mq", "sysv-mq", "eventfd"];
    let name = row.record.mechanism.as_str();
    match row.family {
        Family::Ours => "ours".into(),
        Family::Floor => "floor".into(),
        Family::Peer => {
            format!(
                "p{}",
                name.bytes().fold(0_u32, |sum, byte| (sum * 31 + u32::from(byte)) % 997) % 5
            )
        }
        Family::Kernel => {
            let number = KERNEL.iter().position(|known| *known == name);
            let other =
                || name.bytes().fold(0_usize, |sum, byte| (sum * 31 + usize::from(byte)) % 997) % 8;
            format!("k{}", number.unwrap_or_else(other))
        }
    }
}
