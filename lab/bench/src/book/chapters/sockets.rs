//! Sockets: the figure and the table of the com-socket paper, and what a request costs.

use maud::{Markup, html};

use super::Chapter;
use super::pairs::lines;
use crate::book::bars::bars;
use crate::book::plot::Plot;
use crate::book::{format, rows};
use crate::mechanism::Family;
use crate::record::{Results, Row};
use crate::sock::FIRST;

const STREAM: &str = "sock-stream";
/// The tests of requests, and what each is.
const TRIPS: [(&str, &str); 3] =
    [("sock-trip", "awake"), ("sock-asleep", "server asleep"), ("sock-epoll", "server in epoll")];
/// The size of the message that the title is about.
const TITLE_BYTES: usize = 4_096;

/// Com-sockets beside the kernel's.
pub fn chapter(results: &Results) -> Option<Chapter> {
    let of = |test| rows::of_test(results, test);
    let is_there = [STREAM, "sock-connect", FIRST].into_iter().chain(TRIPS.map(|(test, _)| test));
    is_there.clone().flat_map(of).next()?;
    let stream: Vec<&Row> = of(STREAM).collect();
    let trips: Vec<&Row> = of("sock-trip").collect();
    let body = html! {
        p {
            "Connections of bytes between two processes on two CPUs. A com-socket\u{2019}s bytes pass through blocks of shared memory; a bell, which is a call of \
            the system\u{2019}s, is rung only for a receiver that does not look. Buffers begin with a page. Under libm3sock the kernel\u{2019}s own \
            sockets are used by unmodified calls; where that library was not found its rows are not there."
        }
        (Plot {
            title: "Throughput: messages one way, none awaited; memcpy within one process is the floor",
            across: ("size of the message", format::bytes),
            up: ("bytes per second", format::gb_per_s, format::gb_tick),
            is_log: true,
            lines: lines(stream.iter().copied(), |row| row.record.bytes as f64, |row| row.record.bytes as f64 / rows::ns(row), "gb"),
        }.figure())
        @if !stream.is_empty() { (costs(&stream)) }
        (Plot {
            title: "Request and answer of one size, awake; IPC2 with a message of 48 bytes beside it",
            across: ("size of the request", format::bytes),
            up: ("there and back", format::time, format::time_tick),
            is_log: true,
            lines: lines(trips.into_iter(), |row| row.record.bytes as f64, rows::ns, "ns"),
        }.figure())
        (answers(results))
        @for (test, what) in [("sock-connect", "Connect: the time of the call"), (FIRST, "Connect to the first answer")] {
            @let here: Vec<&Row> = of(test).collect();
            @if !here.is_empty() { (bars(what, here, false)) }
        }
    };
    Some(Chapter { id: "sockets", name: "Sockets", title: title(results), body })
}

fn title(results: &Results) -> Markup {
    let com = |row: &&Row| row.record.mechanism == "com-socket";
    let one = |test, bytes: usize, passes: &dyn Fn(&&Row) -> bool| {
        rows::of_test(results, test).find(|row| row.record.bytes == bytes && passes(row))
    };
    let beside = |test, bytes: usize| {
        let kernel = rows::of_test(results, test).filter(|row| row.record.bytes == bytes);
        Some((one(test, bytes, &com)?, rows::fastest(kernel, Family::Kernel)?))
    };
    html! {
        @match beside(STREAM, TITLE_BYTES) {
            Some((ours, kernel)) => { "4 KB messages flow through a com-socket at "
                (rows::shown(ours, "gb", &format::gb_per_s(TITLE_BYTES as f64 / rows::ns(ours)))) ", " (rows::versus(ours, kernel)) },
            None => { "Com-sockets beside the kernel\u{2019}s" },
        }
        @if let Some((ours, kernel)) = beside("sock-connect", 1) {
            "; a connect takes " (rows::time(ours)) ", " (rows::versus(ours, kernel))
        }
    }
}

/// CPU time and bells of what flows.
fn costs(stream: &[&Row]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "message" } th { "socket" } th { "rate" } th { "messages/s" } th { "CPU, both sides, per byte" } th { "bells per message" } } }
            tbody { @for row in stream {
                @let it = &row.record;
                tr class=(rows::class(row)) {
                    td.n { (format::bytes(it.bytes as f64)) } td { (it.mechanism) }
                    td.n { (rows::shown(row, "gb", &format::gb_per_s(it.bytes as f64 / rows::ns(row)))) }
                    td.n { (rows::shown(row, "per_s", &format::rate(it.per_s))) }
                    td.n { (rows::shown(row, "cpu_per_byte", &format!("{:.4}\u{a0}ns", it.cpu_ns_per_op / it.bytes as f64))) }
                    td.n { @match row.bells_per_op { Some(bells) => (rows::shown(row, "bells", &format!("{bells:.4}"))), None => "\u{2013}" } }
                }
            } }
        } }
    }
}

/// Medians and tails of requests and answers.
fn answers(results: &Results) -> Markup {
    let all: Vec<(&str, &Row)> = TRIPS
        .iter()
        .flat_map(|(test, what)| rows::of_test(results, test).map(|row| (*what, row)))
        .collect();
    if all.is_empty() {
        return html! {};
    }
    html! {
        div.scroll { table {
            thead { tr { th { "server" } th { "socket" } th { "wait" } th { "bytes" } th { "connections" } th { "time" } th { "p99" } th { "CPU, both sides" } th { "bells" } } }
            tbody { @for (what, row) in all {
                @let it = &row.record;
                tr class=(rows::class(row)) {
                    td { (what) } td { (it.mechanism) } td { (it.wait) }
                    td.n { (format::bytes(it.bytes as f64)) } td.n { (it.pairs) }
                    td.n { (rows::time(row)) }
                    td.n { (rows::shown(row, "p99_ns", &format::time(it.p99_ns as f64))) }
                    td.n { (rows::shown(row, "cpu_ns_per_op", &format::time(it.cpu_ns_per_op))) }
                    td.n { @match row.bells_per_op { Some(bells) => (rows::shown(row, "bells", &format!("{bells:.4}"))), None => "\u{2013}" } }
                }
            } }
        } }
    }
}
