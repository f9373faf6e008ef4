//! Costs of a round trip beside its time: CPU, context switches, instructions, memory.

use maud::html;

use crate::html::section::Section;
use crate::html::{format, rows};
use crate::names::COUNTED;
use crate::results::{Results, Row};
use crate::schema::{Count, Placement, Wait};

const TESTS: [(&str, Placement); 3] = [
    ("ipc2", Placement::TwoCpus),
    ("ipc2", Placement::SameCpu),
    ("ipc2-paced", Placement::TwoCpus),
];

/// CPU time and switches by mechanism, and counted figures.
pub fn section(results: &Results) -> Option<Section> {
    let of = |(test, placement)| rows::at(results, test, placement);
    let mut known: Vec<&Row> = TESTS.into_iter().flat_map(of).collect();
    known.sort_by(|a, b| a.record.cpu_ns_per_op.total_cmp(&b.record.cpu_ns_per_op));
    let name = |row: &Row| (row.record.mechanism.clone(), row.record.wait);
    let mut names: Vec<(String, Wait)> = vec![];
    for row in &known {
        if !names.contains(&name(row)) {
            names.push(name(row));
        }
    }
    let ours = TESTS[..2].iter().find_map(|&test| rows::ours(of(test)))?;
    let title = html! {
        "A call costs " (rows::cpu(ours)) " of CPU time on both sides together"
        @if let Some(number) = results.count("instructions", "per trip") {
            " and " (format!("{number:.0}")) " instructions"
        }
    };
    let cells = |line: &(String, Wait), test| {
        html! {
            @match of(test).find(|row| name(row) == *line) {
                Some(row) => { td.n { (rows::cpu(row)) } td.n { (rows::switches(row)) } },
                None => { td.n { "\u{2013}" } td.n { "\u{2013}" } },
            }
        }
    };
    let is_counted = |it: &&Count| COUNTED.contains(&it.test.as_str());
    let counted: Vec<&Count> = results.counts.iter().filter(is_counted).collect();
    let class = |line: &(String, Wait)| {
        known.iter().find(|row| row.record.mechanism == line.0).map(|row| rows::class(row))
    };
    let body = html! {
        p {
            "CPU time and voluntary context switches of both sides for one round trip, system time "
            "included. A spinning side saves time and pays with CPU."
        }
        div.scroll { table.sortable {
            thead {
                tr {
                    th rowspan="2" { "mechanism" } th rowspan="2" { "wait" }
                    @for head in ["two CPUs, awake", "one CPU", "server asleep"] {
                        th colspan="2" { (head) }
                    }
                }
                tr { @for _ in TESTS { th { "CPU" } th { "switches" } } }
            }
            tbody { @for line in &names {
                tr class=[class(line)] {
                    td { (line.0) } td { (line.1) }
                    @for test in TESTS { (cells(line, test)) }
                }
            } }
        } }
        @if !counted.is_empty() {
            h3 { "Counted, m3ipc" }
            div.scroll { table {
                thead { tr { th { "what" } th { "figure" } } }
                tbody { @for count in counted {
                    tr { td { (count.test) ", " (count.what) } td.n { (amount(count)) } }
                } }
            } }
        }
    };
    Some(Section { id: "costs", name: "Costs", title, body })
}

fn amount(count: &Count) -> String {
    match count.unit.as_str() {
        "bytes" => format::bytes(count.value),
        unit => format!("{:.0} {unit}", count.value),
    }
}
