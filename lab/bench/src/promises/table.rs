//! The promises for a person.

use super::{Bound, Unit, Verdict, all};
use crate::record::Results;
use crate::report::{Table, time};

/// The table of all promises, and how many fall short.
#[must_use]
pub fn print(results: &Results) -> (String, usize) {
    let mut table = Table::new(&["", "promise", "figure", "bound", "stretch", ""]);
    let (mut short, mut unmeasured) = (0, 0);
    let promises = all();
    for promise in &promises {
        let (figure, verdict) = promise.judge(results);
        let show = |value: f64| amount(value, promise.unit);
        let (sign, limit) = match promise.bound {
            Bound::AtMost(limit) => ("<=", Some(limit)),
            Bound::AtLeast(limit) => (">=", Some(limit)),
            Bound::Stated => ("", None),
        };
        short += usize::from(verdict == Verdict::FallsShort);
        unmeasured += usize::from(verdict == Verdict::NotMeasured);
        table.row(vec![
            promise.id.into(),
            promise.what.into(),
            figure.map_or_else(|| "-".into(), show),
            limit.map_or_else(|| "-".into(), |limit| format!("{sign} {}", show(limit))),
            promise.stretch.map_or_else(|| "-".into(), show),
            verdict.name().into(),
        ]);
    }
    let text = format!(
        "\npromises\n{}{} of {} measured, {short} fall short\n",
        table.text(),
        promises.len() - unmeasured,
        promises.len()
    );
    (text, short)
}

/// A figure with its unit.
#[must_use]
pub fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Times if value >= 1_000.0 => format!("{value:.0}"),
        Unit::Times => format!("{value:.2} x"),
        Unit::Ns => time(value),
        Unit::Bytes => format!("{value:.0} B"),
        Unit::Instructions => format!("{value:.0}"),
        Unit::Ppm => format!("{value:.0} ppm"),
    }
}
