//! kill -9 of the server: the time to the client's error, and named objects left behind.

use maud::html;

use crate::html::bars::bars;
use crate::html::section::Section;
use crate::html::{format, rows};
use crate::names::{HEAVY_DEATH, LEFT, UNTOLD};
use crate::results::{Results, Row};
use crate::schema::{Count, Family};

/// Deaths, restarts and named objects.
pub fn section(results: &Results) -> Option<Section> {
    let all = results.of_test("death");
    let ours = rows::ours(all.clone())?;
    let kernel = rows::fastest(all.clone(), Family::Kernel);
    let counts = |test| -> Vec<&Count> {
        results.counts.iter().filter(|count| count.test == test).collect()
    };
    let heavy: Vec<&Row> = results.of_test(HEAVY_DEATH).collect();
    let restart: Vec<&Row> = results.of_test("restart").collect();
    let (untold, left) = (counts(UNTOLD), counts(LEFT));
    let title = html! {
        "A killed server is an error at its client " (rows::time(ours)) " later"
        @if let Some(kernel) = kernel {
            ", " (rows::versus(ours, kernel)) ", the soonest of the kernel"
        }
        @if !untold.is_empty() { "; " (untold.len()) " mechanisms report nothing" }
    };
    let body = html! {
        p {
            "The server takes a request and kills itself with SIGKILL while the client waits for "
            "the answer: from the kill to the client\u{2019}s error. 99th percentile of m3ipc: "
            (rows::shown(ours, "p99_ns", &format::time(ours.record.p99_ns as f64))) "."
        }
        (bars("kill -9 of the server to its client\u{2019}s error", all.collect(), false))
        @if !heavy.is_empty() {
            p {
                "The same for a server with 256 MB of its own. The kernel frees the memory of a "
                "dead process before it closes the descriptors. m3ipc reports the death before "
                "either."
            }
            (bars("kill -9 of a server with 256 MB to its client\u{2019}s error", heavy, false))
        }
        @if !untold.is_empty() {
            p { "No error within the limit: "
                @for (number, count) in untold.iter().enumerate() {
                    @if number > 0 { ", " }
                    (count.mechanism) " (" (format!("{:.0} {}", count.value, count.unit)) ")"
                } "." }
        }
        @if let Some(first) = rows::ours(restart.iter().copied()) {
            h3 { "After a restart, the first answer comes in " (rows::time(first)) }
            p {
                "Both sides start again as new processes, find each other, and make one call: from "
                "before the first start to the answer. Most of it is the start of two programs, "
                "the same for all mechanisms."
            }
            (bars("Both sides restarted, to the client\u{2019}s first answer", restart, false))
        }
        @if !left.is_empty() {
            h3 { "Named objects left behind after a kill of the server and the end of its client" }
            div.scroll { table {
                thead { tr { th { "mechanism" } th { "left" } th { "what" } } }
                tbody { @for count in &left {
                    tr {
                        td { (count.mechanism) } td.n { (format!("{:.0}", count.value)) }
                        td { (count.what) }
                    }
                } }
            } }
        }
    };
    Some(Section { id: "death", name: "Death", title, body })
}
