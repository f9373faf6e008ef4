//! Choice of rows, and their figures as text that names its origin.

use maud::{Markup, html};

use super::format;
use super::plot::Curve;
use crate::results::{Results, Row};
use crate::schema::{Family, Placement, Wait};

/// Wait modes of m3ipc as a user gets them, in order of preference.
const DEFAULT: [Wait; 4] = [Wait::Adaptive, Wait::Block, Wait::Spin, Wait::Yield];
/// Mechanisms with a colour of their own.
const KERNEL: [&str; 8] =
    ["pipe", "fifo", "unix-stream", "unix-seqpacket", "tcp", "posix-mq", "sysv-mq", "eventfd"];

/// The rows of a test at this placement.
pub fn at<'a>(
    results: &'a Results,
    test: &'a str,
    placement: Placement,
) -> impl Iterator<Item = &'a Row> + Clone {
    results.of_test(test).filter(move |row| row.record.placement == placement)
}

/// The row of m3ipc in its default wait mode.
pub fn ours<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Option<&'a Row> {
    let of = |wait| rows.clone().find(|row| row.family == Family::Ours && row.record.wait == wait);
    DEFAULT.into_iter().find_map(of)
}

/// The fastest row of a family.
pub fn fastest<'a>(rows: impl Iterator<Item = &'a Row>, family: Family) -> Option<&'a Row> {
    rows.filter(|row| row.family == family).min_by(|a, b| a.ns().total_cmp(&b.ns()))
}

/// Distinct values in order.
pub fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found: Vec<T> = values.collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The key of a row.
pub fn key(row: &Row) -> String {
    let it = &row.record;
    format!("{}/{}/{}/{}/{}/{}", it.test, it.mechanism, it.placement, it.wait, it.bytes, it.pairs)
}

/// A figure of a row as text that names its origin.
pub fn shown(row: &Row, field: &str, text: &str) -> Markup {
    html! { span.f data-f={ (key(row)) "#" (field) } { (text) } }
}

/// The time of a row.
pub fn time(row: &Row) -> Markup {
    shown(row, "ns", &format::time(row.ns()))
}

/// The rate of a row per second.
pub fn rate(row: &Row) -> Markup {
    shown(row, "per_s", &format::rate(row.record.per_s))
}

/// The bytes per second of a row.
pub fn gb(row: &Row) -> Markup {
    shown(row, "gb", &format::gb_per_s(row.record.bytes as f64 / row.ns()))
}

/// The CPU time per trip of a row.
pub fn cpu(row: &Row) -> Markup {
    shown(row, "cpu_ns_per_op", &format::time(row.record.cpu_ns_per_op))
}

/// The context switches per trip of a row.
pub fn switches(row: &Row) -> Markup {
    shown(row, "switches", &format!("{:.2}", row.switches_per_op))
}

/// The wakeups per message of a row.
pub fn bells(row: &Row) -> Markup {
    let Some(bells) = row.bells_per_op else { return html! { "\u{2013}" } };
    shown(row, "bells", &format!("{bells:.4}"))
}

/// One time beside another, in words: "3.2 times as fast as pipe".
pub fn versus(ours: &Row, other: &Row) -> Markup {
    let ratio = other.ns() / ours.ns();
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

/// The ratio of two times.
pub fn times(of: &Row, to: &Row) -> Markup {
    html! { span.f data-f={ (key(of)) " / " (key(to)) } { (format::ratio(of.ns() / to.ns())) } }
}

/// The class that gives a series its colour.
pub fn class(row: &Row) -> String {
    let name = row.record.mechanism.as_str();
    let hash = || name.bytes().fold(0_usize, |sum, byte| (sum * 31 + usize::from(byte)) % 997);
    match row.family {
        Family::Ours => "ours".into(),
        Family::Floor => "floor".into(),
        Family::Peer => format!("p{}", hash() % 5),
        Family::Kernel => {
            let number = KERNEL.iter().position(|known| *known == name);
            format!("k{}", number.unwrap_or_else(|| hash() % 8))
        }
    }
}

/// The size of a row, as an abscissa.
pub fn bytes(row: &Row) -> f64 {
    row.record.bytes as f64
}

/// The number of pairs or clients of a row, as an abscissa.
pub fn pairs(row: &Row) -> f64 {
    f64::from(row.record.pairs)
}

/// Bytes per nanosecond of a row.
pub fn bytes_per_ns(row: &Row) -> f64 {
    bytes(row) / row.ns()
}

/// One curve per mechanism and wait mode; `field` names the figure.
pub fn curves<'a>(
    rows: impl Iterator<Item = &'a Row>,
    across: fn(&Row) -> f64,
    up: fn(&Row) -> f64,
    field: &str,
) -> Vec<Curve> {
    let mut curves: Vec<Curve> = vec![];
    let rows: Vec<&Row> = rows.collect();
    for row in &rows {
        let it = &row.record;
        let has_variants = rows.iter().any(|other| {
            other.record.mechanism == it.mechanism
                && (other.record.wait, other.record.placement) != (it.wait, it.placement)
        });
        let wait = if has_variants { format!(" {}", it.wait) } else { String::new() };
        let name = it.mechanism.clone() + &wait;
        let point = (across(row), up(row), format!("{}#{field}", key(row)));
        if let Some(curve) = curves.iter_mut().find(|curve| curve.name == name) {
            curve.points.push(point);
            continue;
        }
        // Curves of one colour differ by their dashes.
        let alike = curves.iter().filter(|curve| curve.class.starts_with(&class(row))).count();
        let dash = format!(" d{}", alike % 4);
        let class = class(row) + if row.family == Family::Ours { &dash } else { "" };
        curves.push(Curve { name, class, points: vec![point] });
    }
    curves.iter_mut().for_each(|curve| curve.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    curves
}
