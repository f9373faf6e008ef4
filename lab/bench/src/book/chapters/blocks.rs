//! Figure 2 of M3-IPC: blocks of data from one process into another.

use maud::html;

use super::Chapter;
use super::pairs::lines;
use crate::book::bars::bars;
use crate::book::plot::Plot;
use crate::book::{format, rows};
use crate::mechanism::Family;
use crate::record::{Results, Row};

const TESTS: [(&str, &str); 5] = [
    ("copy1", "COPY1: from the requester\u{2019}s memory into another\u{2019}s, awaited, aligned"),
    ("copy2", "COPY2: from one process into another, asked for by a third, aligned"),
    ("stream", "Streams: block after block, none awaited"),
    ("copy1-misaligned", "COPY1, both ends misaligned"),
    ("copy2-misaligned", "COPY2, both ends misaligned"),
];
/// The size that the title is about.
const TITLE_BYTES: usize = 4_096;

/// COPY1, COPY2 and streams.
pub fn copies(results: &Results) -> Option<Chapter> {
    let drawn = |test| -> Vec<&Row> {
        let all: Vec<&Row> = rows::of_test(results, test).collect();
        let first = all.first().map(|row| row.record.placement);
        let here = |row: &&Row| {
            [first, Some(crate::job::Placement::Any)].contains(&Some(row.record.placement))
        };
        all.into_iter().filter(here).collect()
    };
    TESTS.iter().flat_map(|(test, _)| drawn(test)).next()?;
    let of_size = || rows::of_test(results, "copy1").filter(|row| row.record.bytes == TITLE_BYTES);
    let ours = of_size()
        .filter(|row| row.family == Family::Ours && row.record.mechanism == "vcopy")
        .min_by(|a, b| rows::ns(a).total_cmp(&rows::ns(b)));
    let kernel = rows::fastest(of_size(), Family::Kernel);
    let title = match (ours, kernel) {
        (Some(ours), Some(kernel)) => html! {
            "A 4 KB block is in the other process after " (rows::time(ours)) ", " (rows::versus(ours, kernel)) ", the kernel\u{2019}s fastest way"
        },
        _ => html! { "Copies of blocks" },
    };
    let body = html! {
        p {
            "From the wish to copy to the knowledge that the destination has the bytes; what cannot know that is answered with one small message. \
            memcpy is within one process and process-vm the bare system call: the floors. The whole block is checked at the end."
        }
        @for (test, what) in TESTS {
            @let here = drawn(test);
            @if rows::distinct(here.iter().copied(), |row| row.record.bytes).len() == 1 {
                (bars(&format!("{what}, {}", format::bytes(here[0].record.bytes as f64)), here, false))
            } @else { (Plot {
                title: what,
                across: ("size of the block", format::bytes),
                up: ("bytes per second", format::gb_per_s, format::gb_tick),
                is_log: true,
                lines: lines(here.into_iter(), |row| row.record.bytes as f64, |row| row.record.bytes as f64 / rows::ns(row), "gb"),
            }.figure()) }
        }
    };
    Some(Chapter { id: "blocks", name: "Blocks", title, body })
}
