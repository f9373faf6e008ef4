//! What the source papers measured, on their machines, beside the same work on this one.

use maud::{Markup, html};

use super::Chapter;
use crate::book::{format, rows};
use crate::job::Placement;
use crate::mechanism::Family;
use crate::record::{Results, Row};

/// One figure of a paper.
struct Quote {
    paper: &'static str,
    what: &'static str,
    figure: &'static str,
    machine: &'static str,
    here: fn(&Results) -> Option<Markup>,
}

const QUOTES: [Quote; 9] = [
    Quote {
        paper: "M3-IPC",
        what: "IPC2, many pairs, both cores",
        figure: "1,460,000 messages/s",
        machine: "Core 2 E7400 2.8 GHz, Linux 2.6.32",
        here: |results| {
            let most = rows::of_test(results, "pairs").filter(|row| row.family == Family::Ours);
            let best = most.max_by(|a, b| a.record.per_s.total_cmp(&b.record.per_s))?;
            let rate = rows::shown(best, "per_s", &format::rate(best.record.per_s));
            Some(html! { (rate) " round trips, two messages each (" (best.record.pairs) " pairs)" })
        },
    },
    Quote {
        paper: "M3-IPC",
        what: "memcpy of 4 KB blocks (bw_mem)",
        figure: "16.7 GB/s",
        machine: "Core 2 E7400 2.8 GHz",
        here: |results| of_4k(results, "memcpy"),
    },
    Quote {
        paper: "AnT",
        what: "attach of an area, for each 4 KB",
        figure: "0.058 \u{b5}s",
        machine: "Pentium 4 2.4 GHz",
        here: |_| Some(html! { a href="#attach" { "chapter Attach" } }),
    },
    Quote {
        paper: "AnT",
        what: "attach of ordinary pages, for each 4 KB",
        figure: "0.124 \u{b5}s",
        machine: "Pentium 4 2.4 GHz",
        here: |_| Some(html! { a href="#attach" { "chapter Attach" } }),
    },
    Quote {
        paper: "com-socket",
        what: "connect of a com-socket",
        figure: "50 \u{b5}s",
        machine: "Dell T605, 2 Opterons",
        here: |results| connect(results, "com-socket"),
    },
    Quote {
        paper: "com-socket",
        what: "connect of a Unix socket, of TCP over loopback, of Xen\u{2019}s",
        figure: "21, 71, 210 \u{b5}s",
        machine: "Dell T605; Xen as quoted there",
        here: |results| {
            let (unix, tcp) = (connect(results, "unix-stream")?, connect(results, "tcp")?);
            Some(html! { (unix) ", " (tcp) })
        },
    },
    Quote {
        paper: "M3K and Fiasco",
        what: "a short IPC of Fiasco, whole",
        figure: "4,659 ns",
        machine: "Pentium MMX 233 MHz",
        here: |results| {
            let ours = rows::ours(rows::at(results, "ipc2", Placement::TwoCpus))?;
            Some(html! { (rows::time(ours)) " there and back, two CPUs" })
        },
    },
    Quote {
        paper: "M3K and Fiasco",
        what: "its phases T1 prepare, T2 deliver, T3 find, T4 handle, T5 switch twice",
        figure: "817, 300, 967, 1593, 982 ns",
        machine: "Pentium MMX 233 MHz",
        here: |_| None,
    },
    Quote {
        paper: "M3K and Fiasco",
        what: "the same whole on slower machines",
        figure: "11,490 and 13,480 ns",
        machine: "Pentium 120 and 100 MHz",
        here: |_| None,
    },
];

fn connect(results: &Results, mechanism: &str) -> Option<Markup> {
    rows::of_test(results, "sock-connect")
        .find(|row| row.record.mechanism == mechanism)
        .map(rows::time)
}

fn of_4k(results: &Results, mechanism: &str) -> Option<Markup> {
    let row: &Row = rows::of_test(results, "copy1")
        .find(|row| row.record.mechanism == mechanism && row.record.bytes == 4_096)?;
    Some(rows::shown(row, "gb", &format::gb_per_s(row.record.bytes as f64 / rows::ns(row))))
}

/// The figures of the papers' text.
pub fn chapter(results: &Results) -> Option<Chapter> {
    if results.rows.is_empty() {
        return None;
    }
    let body = html! {
        p { "Context, not competitors: other machines, other decades, kernels of their own. Figures as the papers\u{2019} texts give them." }
        div.scroll { table {
            thead { tr { th { "paper" } th { "what" } th { "there" } th { "machine" } th { "here" } } }
            tbody { @for quote in &QUOTES {
                tr { td { (quote.paper) } td { (quote.what) } td.n { (quote.figure) } td { (quote.machine) }
                    td { @match (quote.here)(results) { Some(here) => (here), None => "\u{2013}" } } }
            } }
        } }
        p.small {
            "F. Pessolani and others, M3-IPC (Minix-like IPC in the Linux kernel), WICC 2013; M. Umemoto and others, high speed inter-process communication for AnT; \
            the com-socket study (sockets over shared memory on x86 multikernels); J.-Y. Ah, Y.-W. Ko, H. Yoo, IPC performance of M3K and Fiasco."
        }
    };
    Some(Chapter {
        id: "papers",
        name: "The papers",
        title: html! { "What the source papers measured" },
        body,
    })
}
