//! The phases of the M3K and Fiasco study: where each nanosecond of a round trip goes, by mechanism and placement.

use maud::{Markup, html};

use super::Chapter;
use crate::book::format;
use crate::job::{Placement, Wait};
use crate::phases::record::PhaseRecord;
use crate::record::Results;

/// The study's phases, with what happens in them and the class of their colour.
const PHASES: [(&str, &str, &str); 6] = [
    ("T1", "prepare", "k0"),
    ("T2", "deliver", "k1"),
    ("T3", "find the message", "k2"),
    ("T4", "handle it", "k3"),
    ("T5", "both switches", "ours"),
    ("server", "the server\u{2019}s own work", "floor"),
];

/// The study's tables and Figures 3 to 6.
pub fn chapter(results: &Results) -> Option<Chapter> {
    let plain = || results.phases.iter().filter(|record| record.experiment.is_none());
    let ours = plain().find(|record| record.mechanism == "m3ipc")?;
    let share = |record: &PhaseRecord| record.phase_ns("T5") / record.sum().max(1.0) * 100.0;
    let asleep = plain().find(|record| record.mechanism == "m3ipc" && record.wait == Wait::Block);
    let title = html! {
        "The switches are " (format!("{:.0}", share(ours))) "\u{a0}% of a call of m3ipc between two CPUs"
        @if let Some(asleep) = asleep { ", and " (format!("{:.0}", share(asleep))) "\u{a0}% when its sides sleep" }
    };
    let groups = [
        (Placement::TwoCpus, false, "two CPUs, awake"),
        (Placement::SameCpu, false, "one CPU"),
        (Placement::TwoCpus, true, "two CPUs, asleep"),
    ];
    let body = html! {
        p {
            "Each call is cut by stamps of the CPU\u{2019}s counter; what the stamps cost is measured and taken off: in place, as the difference between trips with them and trips \
            without that took turns (beside it what as many cost in a loop alone). \
            A mechanism of the kernel can be cut only where user space sees it: what it does inside lies in T5. \
            The M3K and Fiasco study measured T1 to T5 as 817, 300, 967, 1593 and 982 ns of 4,659 ns on a Pentium MMX of 233 MHz."
        }
        p.legend { @for (name, what, class) in PHASES { span class=(class) { "\u{25a0} " (name) " " (what) } " " } }
        @for (placement, sleeps, what) in groups {
            (stack(what, &plain().filter(|r| r.placement == placement && sleeps == (r.wait == Wait::Block && placement == Placement::TwoCpus)).collect::<Vec<_>>()))
        }
        (experiments(results))
    };
    Some(Chapter { id: "phases", name: "Phases", title, body })
}

impl PhaseRecord {
    fn sum(&self) -> f64 {
        PHASES.iter().map(|(phase, _, _)| self.phase_ns(phase)).sum()
    }
}

/// Bars of phases on one linear scale, each with its table.
fn stack(what: &str, records: &[&PhaseRecord]) -> Markup {
    let most = records.iter().map(|record| record.sum()).fold(1.0, f64::max);
    html! {
        @if !records.is_empty() {
            figure.bars {
                figcaption { "Phases of a round trip, " (what) }
                @for record in records {
                    @let parts: Vec<String> = PHASES.iter().map(|(phase, _, _)| format!("{phase} {}", format::time(record.phase_ns(phase)))).collect();
                    div.bar tabindex="0" data-tip={ (record.mechanism) ", " (record.message) ", " (record.bytes) " bytes, " (record.wait) ": " (parts.join(", ")) } {
                        span.l { (record.mechanism) " " small { (record.message) } }
                        span.track.stack { @for (phase, _, class) in PHASES {
                            i class=(class) style={ "width:" (format!("{:.2}", record.phase_ns(phase) / most * 100.0)) "%" } {}
                        } }
                        span.v { (format::time(record.sum())) }
                    }
                }
            }
            div.scroll { table {
                thead { tr { th { "mechanism" } th { "message" } th { "bytes" } th { "wait" }
                    @for (phase, _, _) in PHASES { th { (phase) } } th { "sum" } th { "without stamps" } th { "stamps, in place" } th { "alone" } } }
                tbody { @for record in records {
                    tr class=(if record.mechanism == "m3ipc" { "ours" } else { "" }) {
                        td { (record.mechanism) } td { (record.message) } td.n { (record.bytes) } td { (record.wait) }
                        @for (phase, _, _) in PHASES { td.n { (if record.has(phase) { format::time(record.phase_ns(phase)) } else { "\u{2013}".into() }) } }
                        td.n { (format::time(record.sum())) }
                        td.n { (format::time(record.total_ns)) }
                        td.n { (format::time(record.cost_ns)) (if record.holds { "" } else { " *" }) }
                        td.n { (format::time(record.alone_ns)) }
                    }
                } }
            } }
            @if records.iter().any(|record| !record.holds) {
                p.small { "* The sum of the phases is more than 5\u{a0}% away from the whole trip without stamps and their stated cost: "
                    @for (number, record) in records.iter().filter(|record| !record.holds).enumerate() {
                        @if number > 0 { "; " } (record.mechanism) " " (record.message) " by " (format!("{:+.1}", record.off * 100.0)) "\u{a0}% (" (record.why()) ")"
                    } "." }
            }
        }
    }
}

/// The software choices that were tried against each other.
fn experiments(results: &Results) -> Markup {
    let tried: Vec<&PhaseRecord> =
        results.phases.iter().filter(|record| record.experiment.is_some()).collect();
    html! {
        @if !tried.is_empty() {
            h3 { "Which software choices pay" }
            div.scroll { table {
                thead { tr { th { "experiment" } th { "variant" } th { "placement" } th { "whole trip" } th { "T4" } th { "T5" } } }
                tbody { @for record in &tried {
                    tr {
                        td { (record.experiment.as_deref().unwrap_or_default()) } td { (record.variant.as_deref().unwrap_or_default()) }
                        td { (record.placement) } td.n { (format::time(record.total_ns)) }
                        td.n { (format::time(record.phase_ns("T4"))) } td.n { (format::time(record.phase_ns("T5"))) }
                    }
                } }
            } }
        }
    }
}
