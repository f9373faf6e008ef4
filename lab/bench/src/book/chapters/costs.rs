//! What a round trip costs beside its time: CPU, context switches, instructions, memory.

use maud::html;

use super::Chapter;
use crate::book::{format, rows};
use crate::job::Placement;
use crate::record::{Results, Row};

/// CPU time and switches by mechanism, and what was counted.
pub fn chapter(results: &Results) -> Option<Chapter> {
    let tests = [
        ("ipc2", Placement::TwoCpus),
        ("ipc2", Placement::SameCpu),
        ("ipc2-paced", Placement::TwoCpus),
    ];
    let of = |(test, placement)| -> Vec<&Row> { rows::at(results, test, placement).collect() };
    let mut known: Vec<&Row> = tests.into_iter().flat_map(of).collect();
    known.sort_by(|a, b| a.record.cpu_ns_per_op.total_cmp(&b.record.cpu_ns_per_op));
    let mut lines: Vec<(&str, crate::job::Wait)> = vec![];
    for row in &known {
        let line = (row.record.mechanism.as_str(), row.record.wait);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let ours = rows::ours(rows::at(results, "ipc2", Placement::TwoCpus))
        .or_else(|| rows::ours(rows::at(results, "ipc2", Placement::SameCpu)))?;
    let instructions = results.count("instructions", "per trip");
    let title = html! {
        "A call costs " (rows::shown(ours, "cpu_ns_per_op", &format::time(ours.record.cpu_ns_per_op))) " of CPU time on both sides together"
        @if let Some(number) = instructions { " and " (format!("{number:.0}")) " instructions" }
    };
    let cell = |line: (&str, crate::job::Wait), at: (&'static str, Placement)| {
        let row =
            of(at).into_iter().find(|row| (row.record.mechanism.as_str(), row.record.wait) == line);
        html! {
            @if let Some(row) = row {
                td.n { (rows::shown(row, "cpu_ns_per_op", &format::time(row.record.cpu_ns_per_op))) }
                td.n { (rows::shown(row, "switches", &format!("{:.2}", row.switches_per_op))) }
            } @else { td.n { "\u{2013}" } td.n { "\u{2013}" } }
        }
    };
    let counted: Vec<_> = results
        .counts
        .iter()
        .filter(|count| ["instructions", "memory"].contains(&count.test.as_str()))
        .collect();
    let body = html! {
        p { "CPU time and voluntary context switches of both sides for one round trip, system time included. Who spins pays with CPU for what it saves in time." }
        div.scroll { table.sortable {
            thead {
                tr { th rowspan="2" { "mechanism" } th rowspan="2" { "wait" } th colspan="2" { "two CPUs, awake" } th colspan="2" { "one CPU" } th colspan="2" { "server asleep" } }
                tr { @for _ in tests { th { "CPU" } th { "switches" } } }
            }
            tbody { @for line in lines {
                tr class=[known.iter().find(|row| row.record.mechanism == line.0).map(|row| rows::class(row))] {
                    td { (line.0) } td { (line.1) }
                    @for at in tests { (cell(line, at)) }
                }
            } }
        } }
        @if !counted.is_empty() {
            h3 { "Counted, m3ipc" }
            div.scroll { table {
                thead { tr { th { "what" } th { "figure" } } }
                tbody { @for count in counted {
                    tr { td { (count.test) ", " (count.what) } td.n { (amount(count.value, &count.unit)) } }
                } }
            } }
        }
    };
    Some(Chapter { id: "costs", name: "Costs", title, body })
}

fn amount(value: f64, unit: &str) -> String {
    if unit == "bytes" { format::bytes(value) } else { format!("{value:.0} {unit}") }
}
