//! Figure 2 of M3-IPC: blocks of data from one process into another.

use maud::html;

use crate::html::bars::bars;
use crate::html::plot::Plot;
use crate::html::section::Section;
use crate::html::{format, rows};
use crate::results::{Results, Row};
use crate::schema::{Family, Placement};

const TESTS: [(&str, &str); 5] = [
    ("copy1", "COPY1: from the requester into another process, awaited, aligned"),
    ("copy2", "COPY2: from one process into another, requested by a third, aligned"),
    ("stream", "Streams: block after block, none awaited"),
    ("copy1-misaligned", "COPY1, both ends misaligned"),
    ("copy2-misaligned", "COPY2, both ends misaligned"),
];
/// Size of the title, in bytes.
const TITLE_BYTES: usize = 4_096;

/// COPY1, COPY2 and streams.
pub fn section(results: &Results) -> Option<Section> {
    let drawn = |test| -> Vec<&Row> {
        let first = results.of_test(test).next().map(|row| row.record.placement);
        let placements = [first, Some(Placement::Any)];
        let rows = results.of_test(test);
        rows.filter(|row| placements.contains(&Some(row.record.placement))).collect()
    };
    TESTS.iter().flat_map(|(test, _)| drawn(test)).next()?;
    let sized = || results.of_test("copy1").filter(|row| row.record.bytes == TITLE_BYTES);
    let vcopy = rows::fastest(sized().filter(|row| row.record.mechanism == "vcopy"), Family::Ours);
    let title = match (vcopy, rows::fastest(sized(), Family::Kernel)) {
        (Some(ours), Some(kernel)) => html! {
            "A 4 KB block is in the other process after " (rows::time(ours)) ", "
            (rows::versus(ours, kernel)) ", the fastest of the kernel"
        },
        _ => html! { "Copies of blocks" },
    };
    let body = html! {
        p {
            "From the request of a copy to the knowledge that the destination has the bytes. A "
            "mechanism without that knowledge gets one small message as an answer. The floors are "
            "memcpy within one process, and process-vm, the bare system call. The destination "
            "checks the last block as a whole."
        }
        @for (test, what) in TESTS {
            @let here = drawn(test);
            @if rows::distinct(here.iter().map(|row| row.record.bytes)).len() == 1 {
                @let size = format::bytes(rows::bytes(here[0]));
                (bars(&format!("{what}, {size}"), here, false))
            } @else { (Plot {
                title: what,
                across: ("size of the block", format::bytes),
                up: ("bytes per second", format::gb_per_s, format::gb_tick),
                is_log: true,
                lines: rows::curves(here.into_iter(), rows::bytes, rows::bytes_per_ns, "gb"),
            }.figure()) }
        }
    };
    Some(Section { id: "blocks", name: "Blocks", title, body })
}
