//! Sockets: the figure and the table of the com-socket paper, and the cost of a request.

use maud::{Markup, html};

use crate::html::bars::bars;
use crate::html::plot::Plot;
use crate::html::section::Section;
use crate::html::{format, rows};
use crate::names::SOCK_FIRST;
use crate::results::{Results, Row};
use crate::schema::Family;

const STREAM: &str = "sock-stream";
const CONNECT: &str = "sock-connect";
/// The tests of requests, with the state of the server.
const TRIPS: [(&str, &str); 3] =
    [("sock-trip", "awake"), ("sock-asleep", "server asleep"), ("sock-epoll", "server in epoll")];
/// Size of the message of the title, in bytes.
const TITLE_BYTES: usize = 4_096;

/// Com-sockets beside the sockets of the kernel.
pub fn section(results: &Results) -> Option<Section> {
    let tests = [STREAM, CONNECT, SOCK_FIRST].into_iter().chain(TRIPS.map(|(test, _)| test));
    tests.flat_map(|test| results.of_test(test)).next()?;
    let stream: Vec<&Row> = results.of_test(STREAM).collect();
    let rates = rows::curves(stream.iter().copied(), rows::bytes, rows::bytes_per_ns, "gb");
    let times = rows::curves(results.of_test("sock-trip"), rows::bytes, Row::ns, "ns");
    let body = html! {
        p {
            "Byte streams between two processes on two CPUs. The bytes of a com-socket pass "
            "through blocks of shared memory. A wakeup is a system call, and only a sleeping "
            "receiver gets one. Buffers are page-aligned. Under libm3sock, unmodified calls use "
            "the sockets of the kernel; without that library its rows are missing."
        }
        (Plot {
            title: "Throughput: messages one way, none awaited; floor: memcpy within one process",
            across: ("size of the message", format::bytes),
            up: ("bytes per second", format::gb_per_s, format::gb_tick),
            is_log: true,
            lines: rates,
        }.figure())
        @if !stream.is_empty() { (costs(&stream)) }
        (Plot {
            title: "Request and answer of one size, awake; beside them IPC2 with 48 bytes",
            across: ("size of the request", format::bytes),
            up: ("there and back", format::time, format::time_tick),
            is_log: true,
            lines: times,
        }.figure())
        (answers(results))
        (bars("Connect: the time of the call", results.of_test(CONNECT).collect(), false))
        (bars("Connect to the first answer", results.of_test(SOCK_FIRST).collect(), false))
    };
    Some(Section { id: "sockets", name: "Sockets", title: title(results), body })
}

fn title(results: &Results) -> Markup {
    let beside = |test, bytes: usize| {
        let sized = || results.of_test(test).filter(move |row| row.record.bytes == bytes);
        let com = sized().find(|row| row.record.mechanism == "com-socket")?;
        Some((com, rows::fastest(sized(), Family::Kernel)?))
    };
    html! {
        @match beside(STREAM, TITLE_BYTES) {
            Some((ours, kernel)) => {
                "4 KB messages flow through a com-socket at " (rows::gb(ours)) ", "
                (rows::versus(ours, kernel))
            },
            None => { "Com-sockets beside the sockets of the kernel" },
        }
        @if let Some((ours, kernel)) = beside(CONNECT, 1) {
            "; a connect takes " (rows::time(ours)) ", " (rows::versus(ours, kernel))
        }
    }
}

/// CPU time and wakeups of streams.
fn costs(stream: &[&Row]) -> Markup {
    let heads = [
        "message",
        "socket",
        "rate",
        "messages/s",
        "CPU, both sides, per byte",
        "bells per message",
    ];
    let per_byte = |row: &Row| {
        let text = format!("{:.4}\u{a0}ns", row.record.cpu_ns_per_op / rows::bytes(row));
        rows::shown(row, "cpu_per_byte", &text)
    };
    html! {
        div.scroll { table {
            thead { tr { @for head in heads { th { (head) } } } }
            tbody { @for row in stream {
                tr class=(rows::class(row)) {
                    td.n { (format::bytes(rows::bytes(row))) } td { (row.record.mechanism) }
                    td.n { (rows::gb(row)) } td.n { (rows::rate(row)) }
                    td.n { (per_byte(row)) } td.n { (rows::bells(row)) }
                }
            } }
        } }
    }
}

/// Medians and tails of requests and answers.
fn answers(results: &Results) -> Markup {
    let all: Vec<(&str, &Row)> = TRIPS
        .iter()
        .flat_map(|(test, state)| results.of_test(test).map(|row| (*state, row)))
        .collect();
    if all.is_empty() {
        return html! {};
    }
    let heads = [
        "server",
        "socket",
        "wait",
        "bytes",
        "connections",
        "time",
        "p99",
        "CPU, both sides",
        "bells",
    ];
    html! {
        div.scroll { table {
            thead { tr { @for head in heads { th { (head) } } } }
            tbody { @for (state, row) in all {
                @let it = &row.record;
                tr class=(rows::class(row)) {
                    td { (state) } td { (it.mechanism) } td { (it.wait) }
                    td.n { (format::bytes(rows::bytes(row))) } td.n { (it.pairs) }
                    td.n { (rows::time(row)) }
                    td.n { (rows::shown(row, "p99_ns", &format::time(it.p99_ns as f64))) }
                    td.n { (rows::cpu(row)) } td.n { (rows::bells(row)) }
                }
            } }
        } }
    }
}
