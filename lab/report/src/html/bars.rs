//! Times side by side: one dot per row on a logarithmic scale, with its spread.
//!
//! ```text
//! m3ipc  adaptive   --o---------|            326 ns    dot: median; bar: rounds; tick: p99
//! pipe   block                    :   -o--|  13.2 us   dashed line: the fastest floor
//! ```
//! HTML and not a picture: the text stays text at every width.

use maud::{Markup, html};

use super::{format, rows};
use crate::results::Row;
use crate::schema::Family;

/// A logarithmic scale.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// A scale that holds all positive values.
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let low = positive.clone().min_by(f64::total_cmp).unwrap_or(1.0);
        let high = positive.max_by(f64::total_cmp).unwrap_or(10.0);
        Self { low: low / 1.25, high: (high * 1.25).max(low * 4.0) }
    }

    /// The position of a value in percent.
    fn percent(&self, value: f64) -> f64 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        hundredth(share * 100.0)
    }

    /// Powers of ten, with steps between them on a short scale.
    fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = match (self.high / self.low).log10() {
            decades if decades < 1.0 => &[1.0, 2.0, 3.0, 5.0],
            decades if decades < 2.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        (-1..12)
            .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
            .filter(|value| (self.low..=self.high).contains(value))
            .collect()
    }
}

fn hundredth(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The rows of one figure, the fastest first; `with_rate` adds the trips per second.
pub fn bars(title: &str, mut rows: Vec<&Row>, with_rate: bool) -> Markup {
    if rows.is_empty() {
        return html! {};
    }
    rows.sort_by(|a, b| a.ns().total_cmp(&b.ns()));
    let ends = rows.iter().flat_map(|row| {
        let spread = row.spread_ns;
        [row.ns(), row.record.p99_ns as f64, spread.0 as f64, spread.1 as f64]
    });
    let scale = Scale::of(ends);
    let floor = rows::fastest(rows.iter().copied(), Family::Floor);
    let ticks = scale.ticks();
    let many = if ticks.len() > 3 { " many" } else { "" };
    html! {
        figure.bars {
            figcaption { (title) }
            @for row in &rows { (line(row, &scale, &ticks, floor, with_rate)) }
            div class={ "bar axis" (many) } aria-hidden="true" {
                span.l {} span.track {
                    @for tick in &ticks {
                        span.tick style={ "left:" (scale.percent(*tick)) "%" } {
                            (format::time_tick(*tick))
                        }
                    }
                } span.v {}
            }
        }
    }
}

fn line(row: &Row, scale: &Scale, ticks: &[f64], floor: Option<&Row>, with_rate: bool) -> Markup {
    let record = &row.record;
    let dot = scale.percent(row.ns());
    let tail = hundredth((scale.percent(record.p99_ns as f64) - dot).max(0.0));
    // Below a microsecond the dot is of blocks, and the rounds are of single trips.
    let spread = [row.spread_ns.0, row.spread_ns.1].map(|ns| scale.percent(ns as f64));
    let (from, to) = (spread[0].min(dot), spread[1].max(dot));
    let time = |ns: u64| format::time(ns as f64);
    let tip = format!(
        "{} ({}): median {}, rounds {} to {}, p99 {}, p99.9 {}, longest {}, CPU {} a trip, \
         {} rounds",
        record.mechanism,
        record.wait,
        format::time(row.ns()),
        time(row.spread_ns.0),
        time(row.spread_ns.1),
        time(record.p99_ns),
        time(record.p999_ns),
        time(record.max_ns),
        format::time(record.cpu_ns_per_op),
        record.rounds
    );
    let width = hundredth((to - from).max(0.0));
    html! {
        div class={ "bar " (rows::class(row)) } tabindex="0" data-tip=(tip) {
            span.l { (record.mechanism) " " small { (record.wait) } }
            span.track {
                @for tick in ticks { i.g style={ "left:" (scale.percent(*tick)) "%" } {} }
                @if let Some(floor) = floor {
                    i.fl style={ "left:" (scale.percent(floor.ns())) "%" } {}
                }
                i.thin style={ "left:" (dot) "%;width:" (tail) "%" } {}
                i.thick style={ "left:" (from) "%;width:" (width) "%" } {}
                i.dot style={ "left:" (dot) "%" } {}
            }
            span.v { (rows::time(row)) @if with_rate { small { (rows::rate(row)) } } }
        }
    }
}

/// The meaning of the marks, above the first figure.
pub fn legend(has_libraries: bool) -> Markup {
    html! {
        p.legend {
            span.ours { "\u{25cf} m3ipc" } " "
            span.floor { "\u{25cf} floor: the least that this work can cost here" } " "
            span.k0 { "\u{25cf} mechanisms of the kernel" } " "
            @if has_libraries { span.p0 { "\u{25cf} other libraries" } }
            br;
            "Dot: median of rounds. Thick: least to greatest round. Thin: to the 99th percentile. "
            "Dashed line: the fastest floor. All scales are logarithmic."
        }
    }
}
