//! kill -9: who is told, how soon, what is left.

use maud::html;

use super::Chapter;
use crate::book::bars::bars;
use crate::book::{format, rows};
use crate::mechanism::Family;
use crate::plan::HEAVY_DEATH;
use crate::record::{Count, Results};
use crate::rounds::{LEFT, UNTOLD};

/// Deaths and remains.
pub fn chapter(results: &Results) -> Option<Chapter> {
    let all = rows::of_test(results, "death");
    let ours = rows::ours(all.clone())?;
    let heavy: Vec<_> = rows::of_test(results, HEAVY_DEATH).collect();
    let kernel = rows::fastest(all.clone(), Family::Kernel);
    let counts = |test| -> Vec<&Count> {
        results.counts.iter().filter(|count| count.test == test).collect()
    };
    let (untold, left) = (counts(UNTOLD), counts(LEFT));
    let title = html! {
        "A killed server is an error at its client " (rows::time(ours)) " later"
        @if let Some(kernel) = kernel { ", " (rows::versus(ours, kernel)) ", the soonest of the kernel" }
        @if !untold.is_empty() { "; " (untold.len()) " mechanisms do not tell at all" }
    };
    let body = html! {
        p {
            "The server takes a request and kills itself with SIGKILL while the client waits for the answer; from the moment of the kill to the client\u{2019}s error. "
            "99th percentile of m3ipc: " (rows::shown(ours, "p99_ns", &format::time(ours.record.p99_ns as f64))) "."
        }
        (bars("kill -9 of the server to its client\u{2019}s error", all.collect(), false))
        @if !heavy.is_empty() {
            p {
                "The same with a server that has 256 MB of its own. The kernel gives a dead process\u{2019}s memory back before it closes its "
                "descriptors; m3ipc is told before either."
            }
            (bars("kill -9 of a server with 256 MB to its client\u{2019}s error", heavy, false))
        }
        @if !untold.is_empty() {
            p { "Not told at all, as long as was waited: "
                @for (number, count) in untold.iter().enumerate() {
                    @if number > 0 { ", " } (count.mechanism) " (" (format!("{:.0} {}", count.value, count.unit)) ")"
                } "." }
        }
        @if let Some(restart) = rows::ours(rows::of_test(results, "restart")) {
            h3 { "Started anew, the first answer is there after " (rows::time(restart)) }
            p { "Both sides are started again as processes of their own, find each other, and one call is made: from before the first is started to its answer. \
                Most of it is the start of two programs, which is the same for all." }
            (bars("Both sides started anew, to the client\u{2019}s first answer", rows::of_test(results, "restart").collect(), false))
        }
        @if !left.is_empty() {
            h3 { "What is left behind with a name, once the server was killed and its client has ended (or, not being told, was killed)" }
            div.scroll { table {
                thead { tr { th { "mechanism" } th { "left" } th { "what" } } }
                tbody { @for count in &left {
                    tr { td { (count.mechanism) } td.n { (format!("{:.0}", count.value)) } td { (count.what) } }
                } }
            } }
        }
    };
    Some(Chapter { id: "death", name: "Death", title, body })
}
