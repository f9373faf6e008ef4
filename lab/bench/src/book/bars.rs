//! Times side by side: a dot for each row on a common logarithmic scale, with its spread.
//!
//! ```text
//! m3ipc  adaptive   --o---------|            326 ns    dot: median; bar: least to greatest round; tick: p99
//! pipe   block                    :   -o--|  13.2 us   dashed line: the fastest floor
//! ```
//! Drawn as HTML, not as a picture: text stays text at every width.

use maud::{Markup, html};

use super::{format, rows};
use crate::mechanism::Family;
use crate::record::Row;

/// A scale of powers of ten.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// That holds all of these.
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let low = positive.clone().min_by(f64::total_cmp).unwrap_or(1.0);
        let high = positive.max_by(f64::total_cmp).unwrap_or(10.0);
        Self { low: low / 1.25, high: (high * 1.25).max(low * 4.0) }
    }

    /// Where a value lies, in percent.
    fn percent(&self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        (share * 10_000.0).round() / 100.0
    }

    /// Values worth a line: powers of ten, with steps between where there are few.
    fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = match (self.high / self.low).log10() {
            decades if decades < 1.0 => &[1.0, 2.0, 3.0, 5.0],
            decades if decades < 2.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let decades = (0..13).map(|power| 10_f64.powi(power - 1));
        decades
            .flat_map(|decade| steps.iter().map(move |step| step * decade))
            .filter(|value| (self.low..=self.high).contains(value))
            .collect()
    }
}

/// The rows of one figure, the fastest first; `count` names what `per_s` counts, where that means something.
#[must_use]
pub fn bars(title: &str, mut rows: Vec<&Row>, with_rate: bool) -> Markup {
    if rows.is_empty() {
        return html! {};
    }
    rows.sort_by(|a, b| rows::ns(a).total_cmp(&rows::ns(b)));
    let p99 = |row: &Row| row.record.p99_ns as f64;
    let ends = rows
        .iter()
        .flat_map(|row| [rows::ns(row), p99(row), row.spread_ns.0 as f64, row.spread_ns.1 as f64]);
    let scale = Scale::of(ends);
    let floor = rows::fastest(rows.iter().copied(), Family::Floor);
    let ticks = scale.ticks();
    html! {
        figure.bars {
            figcaption { (title) }
            @for row in &rows {
                (line(row, &scale, &ticks, floor, with_rate))
            }
            div class={ "bar axis" (if ticks.len() > 3 { " many" } else { "" }) } aria-hidden="true" {
                span.l {} span.track {
                    @for tick in &ticks { span.tick style={ "left:" (scale.percent(*tick)) "%" } { (format::time_tick(*tick)) } }
                } span.v {}
            }
        }
    }
}

fn line(row: &Row, scale: &Scale, ticks: &[f64], floor: Option<&Row>, with_rate: bool) -> Markup {
    let record = &row.record;
    let dot = scale.percent(rows::ns(row));
    let p99 = scale.percent(record.p99_ns as f64);
    // Below a microsecond the dot is of blocks and the rounds are of single trips, which carry the clock's steps.
    let rounds = [row.spread_ns.0, row.spread_ns.1].map(|ns| scale.percent(ns as f64));
    let (from, to) = (rounds[0].min(dot), rounds[1].max(dot));
    let tip = format!(
        "{} ({}): median {}, rounds {} to {}, p99 {}, p99.9 {}, longest {}, CPU {} a trip, {} rounds",
        record.mechanism,
        record.wait,
        format::time(rows::ns(row)),
        format::time(row.spread_ns.0 as f64),
        format::time(row.spread_ns.1 as f64),
        format::time(record.p99_ns as f64),
        format::time(record.p999_ns as f64),
        format::time(record.max_ns as f64),
        format::time(record.cpu_ns_per_op),
        record.rounds
    );
    html! {
        div class={ "bar " (rows::class(row)) } tabindex="0" data-tip=(tip) {
            span.l { (record.mechanism) " " small { (record.wait) } }
            span.track {
                @for tick in ticks { i.g style={ "left:" (scale.percent(*tick)) "%" } {} }
                @if let Some(floor) = floor { i.fl style={ "left:" (scale.percent(rows::ns(floor))) "%" } {} }
                i.thin style={ "left:" (dot) "%;width:" (((p99 - dot).max(0.0) * 100.0).round() / 100.0) "%" } {}
                i.thick style={ "left:" (from) "%;width:" (((to - from).max(0.0) * 100.0).round() / 100.0) "%" } {}
                i.dot style={ "left:" (dot) "%" } {}
            }
            span.v {
                (rows::time(row))
                @if with_rate { small { (rows::shown(row, "per_s", &format::rate(record.per_s))) } }
            }
        }
    }
}

/// What the marks mean; once above the first figure.
#[must_use]
pub fn legend(has_libraries: bool) -> Markup {
    html! {
        p.legend {
            span.ours { "\u{25cf} m3ipc" } " " span.floor { "\u{25cf} floor: the least that this work can cost here" }
            " " span.k0 { "\u{25cf} the kernel\u{2019}s mechanisms" } " " @if has_libraries { span.p0 { "\u{25cf} libraries of others" } } br; "Dot: median of rounds. Thick: least to greatest round. \
            Thin: to the 99th percentile. Dashed line: the fastest floor. All scales are logarithmic."
        }
    }
}
