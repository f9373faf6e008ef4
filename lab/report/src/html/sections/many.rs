//! Many pairs at once, and many clients of one server.

use maud::{Markup, html};

use crate::html::plot::Plot;
use crate::html::section::Section;
use crate::html::{format, rows};
use crate::results::{Results, Row};
use crate::schema::Family;

/// IPC2 of many pairs.
pub fn pairs(results: &Results) -> Option<Section> {
    let all = || results.of_test("pairs").filter(|row| row.family != Family::Peer);
    let numbers = rows::distinct(all().map(|row| row.record.pairs));
    let best = |number: u32, family: Family| {
        all()
            .filter(|row| row.record.pairs == number && row.family == family)
            .max_by(|a, b| a.record.per_s.total_cmp(&b.record.per_s))
    };
    let (&first, &last) = (numbers.first()?, numbers.last()?);
    let alone = best(first, Family::Ours)?;
    let against =
        |number| Some(finding(best(number, Family::Ours)?, best(number, Family::Kernel)?));
    let title = html! {
        @match against(first) {
            Some(found) => (found),
            None => { (rows::rate(alone)) " round trips" },
        }
        @if last > first { @if let Some(found) = against(last) { "; " (found) } }
    };
    let body = html! {
        p {
            "Each pair is two processes that the kernel places; round trips of all pairs together. "
            "While every process has a CPU, nobody sleeps. Beyond that every trip is two context "
            "switches, with any mechanism."
        }
        (Plot {
            title: "IPC2 round trips per second of all pairs together, any CPU",
            across: ("pairs", |value| format!("{value}")),
            up: ("round trips/s", format::rate, format::number_tick),
            is_log: true,
            lines: rows::curves(all(), rows::pairs, |row| row.record.per_s, "per_s"),
        }.figure())
    };
    Some(Section { id: "pairs", name: "Many pairs", title, body })
}

fn finding(ours: &Row, kernel: &Row) -> Markup {
    let ratio = ours.record.per_s / kernel.record.per_s;
    let origin = format!("{} per_s/ {}", rows::key(ours), rows::key(kernel));
    let shown = html! { span.f data-f=(origin) { (format::ratio(ratio)) } };
    let number = ours.record.pairs;
    let name = &kernel.record.mechanism;
    html! {
        (rows::rate(ours)) " with " (number) (if number == 1 { " pair" } else { " pairs" }) ", "
        @if ratio >= 1.0 { (shown) " times " (name) }
        @else { b.lost { "only " (shown) " times " (name) } }
    }
}

/// One active client among many.
pub fn clients(results: &Results) -> Option<Section> {
    let all = || results.of_test("clients");
    let numbers = rows::distinct(all().map(|row| row.record.pairs));
    let with = |number: u32| rows::ours(all().filter(move |row| row.record.pairs == number));
    let (alone, most) = (with(*numbers.first()?)?, with(*numbers.last()?)?);
    let title = html! {
        "Among " (most.record.pairs) " clients of one server a call takes "
        (rows::times(most, alone)) " times its time with " (alone.record.pairs)
    };
    let body = html! {
        p { "One client calls. The others are bound, have a link with the server, and stay idle." }
        (Plot {
            title: "IPC2 of one client among many",
            across: ("bound clients", |value| format!("{value}")),
            up: ("round trip", format::time, format::time_tick),
            is_log: true,
            lines: rows::curves(all(), rows::pairs, Row::ns, "ns"),
        }.figure())
    };
    Some(Section { id: "clients", name: "Many clients", title, body })
}
