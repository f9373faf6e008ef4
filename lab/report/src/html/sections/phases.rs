//! The phases of the M3K and Fiasco study, by mechanism and placement.

use maud::{Markup, html};

use crate::html::format::time;
use crate::html::section::Section;
use crate::phases::{PHASES, PhaseRecord};
use crate::results::Results;
use crate::schema::{Placement, Wait};

/// Colours of the phases.
const CLASSES: [&str; 6] = ["k0", "k1", "k2", "k3", "ours", "floor"];
const GROUPS: [(Placement, bool, &str); 3] = [
    (Placement::TwoCpus, false, "two CPUs, awake"),
    (Placement::SameCpu, false, "one CPU"),
    (Placement::TwoCpus, true, "two CPUs, asleep"),
];

/// The study's tables and Figures 3 to 6.
pub fn section(results: &Results) -> Option<Section> {
    let plain = || results.phases.iter().filter(|record| record.experiment.is_none());
    let ours = || plain().filter(|record| record.mechanism == "m3ipc");
    let share = |it: &PhaseRecord| {
        format!("{:.0}\u{a0}%", it.phase_ns("T5") / it.all_ns().max(1.0) * 100.0)
    };
    let asleep = ours().find(|record| record.wait == Wait::Block);
    let title = html! {
        "The switches are " (share(ours().next()?)) " of a call of m3ipc between two CPUs"
        @if let Some(asleep) = asleep { ", and " (share(asleep)) " with sleeping sides" }
    };
    let group = |placement, sleeps| -> Vec<&PhaseRecord> {
        let is_asleep =
            |it: &PhaseRecord| it.wait == Wait::Block && it.placement == Placement::TwoCpus;
        plain().filter(|it| it.placement == placement && is_asleep(it) == sleeps).collect()
    };
    let body = html! {
        p {
            "Stamps of the CPU\u{2019}s counter cut each call. Their cost is measured in place and "
            "subtracted: trips with stamps less trips without stamps that took turns with them. "
            "The cost of as many stamps in a loop stands beside it. A mechanism of the kernel is "
            "cut where user space sees it; the rest lies in T5. The M3K and Fiasco study measured "
            "T1 to T5 as 817, 300, 967, 1593 and 982 ns of 4,659 ns on a Pentium MMX of 233 MHz."
        }
        p.legend { @for ((name, what), class) in PHASES.iter().zip(CLASSES) {
            span class=(class) { "\u{25a0} " (name) " " (what) } " "
        } }
        @for (placement, sleeps, what) in GROUPS { (stack(what, &group(placement, sleeps))) }
        (experiments(results))
    };
    Some(Section { id: "phases", name: "Phases", title, body })
}

/// Stacked bars on one linear scale, and their table.
fn stack(what: &str, records: &[&PhaseRecord]) -> Markup {
    if records.is_empty() {
        return html! {};
    }
    let most = records.iter().map(|record| record.all_ns()).fold(1.0, f64::max);
    html! {
        figure.bars {
            figcaption { "Phases of a round trip, " (what) }
            @for record in records { (bar(record, most)) }
        }
        (table(records))
        @if records.iter().any(|record| !record.holds) {
            p.small {
                "* The sum of the phases is more than 5\u{a0}% away from the trip without stamps "
                "plus their cost: "
                @for (number, it) in records.iter().filter(|it| !it.holds).enumerate() {
                    @if number > 0 { "; " }
                    (it.mechanism) " " (it.message) " by " (format!("{:+.1}", it.off * 100.0))
                    "\u{a0}% (" (it.why()) ")"
                } "."
            }
        }
    }
}

fn bar(record: &PhaseRecord, most: f64) -> Markup {
    let part = |(phase, _): &(&str, &str)| format!("{phase} {}", time(record.phase_ns(phase)));
    let parts: Vec<String> = PHASES.iter().map(part).collect();
    let PhaseRecord { mechanism, message, bytes, wait, .. } = record;
    let tip = format!("{mechanism}, {message}, {bytes} bytes, {wait}: {}", parts.join(", "));
    let width = |phase| format!("{:.2}", record.phase_ns(phase) / most * 100.0);
    html! {
        div.bar tabindex="0" data-tip=(tip) {
            span.l { (mechanism) " " small { (message) } }
            span.track.stack { @for ((phase, _), class) in PHASES.iter().zip(CLASSES) {
                i class=(class) style={ "width:" (width(phase)) "%" } {}
            } }
            span.v { (time(record.all_ns())) }
        }
    }
}

fn table(records: &[&PhaseRecord]) -> Markup {
    let phase = |record: &PhaseRecord, phase: &str| {
        if record.has(phase) { time(record.phase_ns(phase)) } else { "\u{2013}".into() }
    };
    html! {
        div.scroll { table {
            thead { tr {
                @for head in ["mechanism", "message", "bytes", "wait"] { th { (head) } }
                @for (phase, _) in PHASES { th { (phase) } }
                @for head in ["sum", "without stamps", "stamps, in place", "alone"] {
                    th { (head) }
                }
            } }
            tbody { @for it in records {
                tr class=(if it.mechanism == "m3ipc" { "ours" } else { "" }) {
                    td { (it.mechanism) } td { (it.message) } td.n { (it.bytes) } td { (it.wait) }
                    @for (name, _) in PHASES { td.n { (phase(it, name)) } }
                    td.n { (time(it.all_ns())) }
                    td.n { (time(it.total_ns)) }
                    td.n { (time(it.cost_ns)) (if it.holds { "" } else { " *" }) }
                    td.n { (time(it.alone_ns)) }
                }
            } }
        } }
    }
}

/// Software choices measured against each other.
fn experiments(results: &Results) -> Markup {
    let tried: Vec<&PhaseRecord> =
        results.phases.iter().filter(|record| record.experiment.is_some()).collect();
    if tried.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Which software choices pay" }
        div.scroll { table {
            thead { tr {
                @for head in ["experiment", "variant", "placement", "whole trip", "T4", "T5"] {
                    th { (head) }
                }
            } }
            tbody { @for it in &tried {
                tr {
                    td { (it.experiment.as_deref().unwrap_or_default()) }
                    td { (it.variant.as_deref().unwrap_or_default()) }
                    td { (it.placement) } td.n { (time(it.total_ns)) }
                    td.n { (time(it.phase_ns("T4"))) } td.n { (time(it.phase_ns("T5"))) }
                }
            } }
        } }
    }
}
