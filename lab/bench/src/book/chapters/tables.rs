//! The promises, every figure in one table, and what was left out.

use maud::html;

use super::Chapter;
use crate::book::{format, rows};
use crate::output::Output;
use crate::promises::{self, Bound, Verdict, amount};
use crate::record::Results;

/// What is promised and whether it holds.
pub fn promises(results: &Results) -> Option<Chapter> {
    let judged: Vec<_> =
        promises::all().into_iter().map(|promise| (promise, promise.judge(results))).collect();
    let number = |verdict: &[Verdict]| {
        judged.iter().filter(|(_, (_, found))| verdict.contains(found)).count()
    };
    let (holds, short) =
        (number(&[Verdict::Holds, Verdict::Stretch]), number(&[Verdict::FallsShort]));
    if holds + short == 0 {
        return None;
    }
    let title = html! {
        (holds) " of " (holds + short) " promises that were measured hold"
        @if short > 0 { b.lost { "; " (short) " fall short" } }
    };
    let body = html! {
        p { "Ratios of medians, both sides measured in turn in this run. A run on a machine that does something else, and a quick one, judge no promise for good." }
        div.scroll { table {
            thead { tr { th { "" } th { "promise" } th { "figure" } th { "bound" } th { "stretch" } th { "" } } }
            tbody { @for (promise, (figure, verdict)) in &judged {
                @let show = |value: f64| amount(value, promise.unit).replace("us", "\u{b5}s");
                tr class=[(*verdict == Verdict::FallsShort).then_some("lost")] {
                    td { (promise.id) } td { (promise.what) }
                    td.n { (figure.map_or_else(|| "\u{2013}".into(), show)) }
                    td.n { (match promise.bound {
                        Bound::AtMost(limit) => format!("\u{2264} {}", show(limit)),
                        Bound::AtLeast(limit) => format!("\u{2265} {}", show(limit)),
                        Bound::Stated => "\u{2013}".into(),
                    }) }
                    td.n { (promise.stretch.map_or_else(|| "\u{2013}".into(), show)) }
                    td { (verdict.name()) }
                }
            } }
        } }
    };
    Some(Chapter { id: "promises", name: "Promises", title, body })
}

/// Every row.
pub fn figures(results: &Results) -> Option<Chapter> {
    if results.rows.is_empty() {
        return None;
    }
    let title = html! { "All " (results.rows.len()) " figures" };
    let body = html! {
        p { "Choose by words (\u{201c}ipc2 pipe same\u{201d}); a click on a heading sorts. Times are of one round trip, or one copy; \
            the maximum is of all rounds, everything else a median over rounds." }
        input type="search" id="choose" placeholder="test, mechanism, placement, wait\u{2026}" aria-label="choose rows";
        div.scroll.tall { table.sortable id="all" {
            thead { tr {
                @for head in ["test", "mechanism", "placement", "wait", "bytes", "n", "time", "rounds", "p99", "p99.9", "longest", "per s", "CPU", "switches"] { th { (head) } }
            } }
            tbody { @for row in &results.rows {
                @let it = &row.record;
                tr class=(rows::class(row)) {
                    td { (it.test) } td { (it.mechanism) } td { (it.placement) } td { (it.wait) }
                    td.n data-v=(it.bytes) { (format::bytes(it.bytes as f64)) } td.n data-v=(it.pairs) { (it.pairs) }
                    td.n data-v=(rows::ns(row)) { (rows::time(row)) }
                    td.n data-v=(row.spread_ns.0) { (format::time(row.spread_ns.0 as f64)) "\u{2013}" (format::time(row.spread_ns.1 as f64)) }
                    @for (field, ns) in [("p99_ns", it.p99_ns), ("p999_ns", it.p999_ns), ("max_ns", it.max_ns)] {
                        td.n data-v=(ns) { (rows::shown(row, field, &format::time(ns as f64))) }
                    }
                    td.n data-v=(it.per_s) { @if it.per_s > 0.0 { (rows::shown(row, "per_s", &format::rate(it.per_s))) } @else { "\u{2013}" } }
                    td.n data-v=(it.cpu_ns_per_op) { (rows::shown(row, "cpu_ns_per_op", &format::time(it.cpu_ns_per_op))) }
                    td.n data-v=(row.switches_per_op) { (rows::shown(row, "switches", &format!("{:.2}", row.switches_per_op))) }
                }
            } }
        } }
    };
    Some(Chapter { id: "figures", name: "All figures", title, body })
}

/// What was skipped and what failed.
pub fn left_out(output: &Output) -> Option<Chapter> {
    let (skipped, failed) = (&output.skipped, &output.failed);
    if skipped.is_empty() && failed.is_empty() {
        return None;
    }
    let title = html! { (skipped.len()) " measurements were left out, " (failed.len()) " failed" };
    let body = html! {
        ul {
            @for text in failed { li.lost { "failed: " (text) } }
            @for text in skipped { li { "skipped: " (text) } }
        }
    };
    Some(Chapter { id: "left-out", name: "Left out", title, body })
}
