//! The promises, all figures in one table, and the measurements that were left out.

use maud::html;

use crate::html::section::Section;
use crate::html::{format, rows};
use crate::notes;
use crate::promises::{self, Bound, Verdict};
use crate::results::Results;
use crate::schema::Run;

/// The promises and their verdicts.
pub fn promises(results: &Results) -> Option<Section> {
    let judged: Vec<_> =
        promises::all().into_iter().map(|promise| (promise, promise.judge(results))).collect();
    let number = |wanted: &[Verdict]| {
        judged.iter().filter(|(_, judged)| wanted.contains(&judged.verdict)).count()
    };
    let holds = number(&[Verdict::Holds, Verdict::Stretch]);
    let short = number(&[Verdict::FallsShort]);
    if holds + short == 0 {
        return None;
    }
    let title = html! {
        (holds) " of " (holds + short) " measured promises hold"
        @if short > 0 { b.lost { "; " (short) " fall short" } }
    };
    let dash = || "\u{2013}".to_owned();
    let body = html! {
        p {
            "Ratios of medians; both sides took turns in this run. A quick run, and a run on a "
            "busy machine, settle no promise."
        }
        div.scroll { table {
            thead { tr {
                @for head in ["", "promise", "figure", "bound", "stretch", ""] { th { (head) } }
            } }
            tbody { @for (promise, judged) in &judged {
                @let show = |value: f64| promise.unit.show(value).replace("us", "\u{b5}s");
                tr class=[(judged.verdict == Verdict::FallsShort).then_some("lost")] {
                    td { (promise.id) } td { (promise.what) }
                    td.n { (judged.figure.map_or_else(dash, show)) }
                    td.n { (match promise.bound {
                        Bound::AtMost(limit) => format!("\u{2264} {}", show(limit)),
                        Bound::AtLeast(limit) => format!("\u{2265} {}", show(limit)),
                        Bound::Stated => dash(),
                    }) }
                    td.n { (promise.stretch.map_or_else(dash, show)) }
                    td { (judged.text()) }
                }
            } }
        } }
    };
    Some(Section { id: "promises", name: "Promises", title, body })
}

const HEADS: [&str; 14] = [
    "test",
    "mechanism",
    "placement",
    "wait",
    "bytes",
    "n",
    "time",
    "rounds",
    "p99",
    "p99.9",
    "longest",
    "per s",
    "CPU",
    "switches",
];

/// Every row.
pub fn figures(results: &Results) -> Option<Section> {
    if results.rows.is_empty() {
        return None;
    }
    let title = html! { "All " (results.rows.len()) " figures" };
    let time = |ns: u64| format::time(ns as f64);
    let body = html! {
        p {
            "Filter by words (\u{201c}ipc2 pipe same\u{201d}); a click on a heading sorts. Times "
            "are of one round trip, or one copy. The maximum is of all rounds; every other figure "
            "is a median over rounds."
        }
        input type="search" id="choose" placeholder="test, mechanism, placement, wait\u{2026}"
            aria-label="choose rows";
        div.scroll.tall { table.sortable id="all" {
            thead { tr { @for head in HEADS { th { (head) } } } }
            tbody { @for row in &results.rows {
                @let it = &row.record;
                tr class=(rows::class(row)) {
                    td { (it.test) } td { (it.mechanism) } td { (it.placement) } td { (it.wait) }
                    td.n data-v=(it.bytes) { (format::bytes(rows::bytes(row))) }
                    td.n data-v=(it.pairs) { (it.pairs) }
                    td.n data-v=(row.ns()) { (rows::time(row)) }
                    td.n data-v=(row.spread_ns.0) {
                        (time(row.spread_ns.0)) "\u{2013}" (time(row.spread_ns.1))
                    }
                    @for (field, ns) in
                        [("p99_ns", it.p99_ns), ("p999_ns", it.p999_ns), ("max_ns", it.max_ns)]
                    {
                        td.n data-v=(ns) { (rows::shown(row, field, &time(ns))) }
                    }
                    td.n data-v=(it.per_s) {
                        @if it.per_s > 0.0 { (rows::rate(row)) } @else { "\u{2013}" }
                    }
                    td.n data-v=(it.cpu_ns_per_op) { (rows::cpu(row)) }
                    td.n data-v=(row.switches_per_op) { (rows::switches(row)) }
                }
            } }
        } }
    };
    Some(Section { id: "figures", name: "All figures", title, body })
}

/// Skipped and failed measurements.
pub fn left_out(run: &Run) -> Option<Section> {
    let (skipped, failed) = (&run.skipped, &run.failed);
    if skipped.is_empty() && failed.is_empty() {
        return None;
    }
    let title = html! { (skipped.len()) " measurements were left out, " (failed.len()) " failed" };
    let body = html! {
        ul {
            @for text in failed { li.lost { "failed: " (text) } }
            @for text in skipped { li { (notes::NOT_MEASURED) ": " (text) } }
        }
    };
    Some(Section { id: "left-out", name: "Left out", title, body })
}
