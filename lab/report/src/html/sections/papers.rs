//! Figures of the source papers beside the same work on this machine.

use maud::{Markup, html};

use crate::html::rows;
use crate::html::section::Section;
use crate::results::Results;
use crate::schema::{Family, Placement};

/// Paper, work, figure, machine, and the figure of this run.
type Quote =
    (&'static str, &'static str, &'static str, &'static str, fn(&Results) -> Option<Markup>);

const QUOTES: [Quote; 9] = [
    (
        "M3-IPC",
        "IPC2, many pairs, both cores",
        "1,460,000 messages/s",
        "Core 2 E7400 2.8 GHz, Linux 2.6.32",
        |results| {
            let ours = results.of_test("pairs").filter(|row| row.family == Family::Ours);
            let best = ours.max_by(|a, b| a.record.per_s.total_cmp(&b.record.per_s))?;
            let pairs = best.record.pairs;
            Some(html! { (rows::rate(best)) " round trips, two messages each (" (pairs) " pairs)" })
        },
    ),
    ("M3-IPC", "memcpy of 4 KB blocks (bw_mem)", "16.7 GB/s", "Core 2 E7400 2.8 GHz", |results| {
        let is =
            |it: &&crate::results::Row| it.record.mechanism == "memcpy" && it.record.bytes == 4_096;
        results.of_test("copy1").find(is).map(rows::gb)
    }),
    ("AnT", "attach of an area, for each 4 KB", "0.058 \u{b5}s", "Pentium 4 2.4 GHz", attach),
    (
        "AnT",
        "attach of ordinary pages, for each 4 KB",
        "0.124 \u{b5}s",
        "Pentium 4 2.4 GHz",
        attach,
    ),
    ("com-socket", "connect of a com-socket", "50 \u{b5}s", "Dell T605, 2 Opterons", |results| {
        connect(results, "com-socket")
    }),
    (
        "com-socket",
        "connect of a Unix socket, of TCP over loopback, of Xen\u{2019}s",
        "21, 71, 210 \u{b5}s",
        "Dell T605; Xen as quoted there",
        |results| {
            let (unix, tcp) = (connect(results, "unix-stream")?, connect(results, "tcp")?);
            Some(html! { (unix) ", " (tcp) })
        },
    ),
    (
        "M3K and Fiasco",
        "a short IPC of Fiasco, whole",
        "4,659 ns",
        "Pentium MMX 233 MHz",
        |results| {
            let ours = rows::ours(rows::at(results, "ipc2", Placement::TwoCpus))?;
            Some(html! { (rows::time(ours)) " there and back, two CPUs" })
        },
    ),
    (
        "M3K and Fiasco",
        "its phases T1 prepare, T2 deliver, T3 find, T4 handle, T5 switch twice",
        "817, 300, 967, 1593, 982 ns",
        "Pentium MMX 233 MHz",
        |_| None,
    ),
    (
        "M3K and Fiasco",
        "the same whole on slower machines",
        "11,490 and 13,480 ns",
        "Pentium 120 and 100 MHz",
        |_| None,
    ),
];

fn attach(_: &Results) -> Option<Markup> {
    Some(html! { a href="#attach" { "section Attach" } })
}

fn connect(results: &Results, mechanism: &str) -> Option<Markup> {
    let mut rows = results.of_test("sock-connect");
    rows.find(|row| row.record.mechanism == mechanism).map(rows::time)
}

/// The figures of the papers' text.
pub fn section(results: &Results) -> Option<Section> {
    if results.rows.is_empty() {
        return None;
    }
    let body = html! {
        p {
            "Context, not competition: other machines, other decades, kernels of their own. The "
            "figures are those of the papers\u{2019} texts."
        }
        div.scroll { table {
            thead { tr {
                @for head in ["paper", "what", "there", "machine", "here"] { th { (head) } }
            } }
            tbody { @for (paper, what, figure, machine, here) in &QUOTES {
                tr {
                    td { (paper) } td { (what) } td.n { (figure) } td { (machine) }
                    td { @match here(results) { Some(here) => (here), None => "\u{2013}" } }
                }
            } }
        } }
        p.small {
            "F. Pessolani and others, M3-IPC (Minix-like IPC in the Linux kernel), WICC 2013; "
            "M. Umemoto and others, high speed inter-process communication for AnT; the com-socket "
            "study (sockets over shared memory on x86 multikernels); J.-Y. Ah, Y.-W. Ko, H. Yoo, "
            "IPC performance of M3K and Fiasco."
        }
    };
    let title = html! { "Figures of the source papers" };
    Some(Section { id: "papers", name: "The papers", title, body })
}
