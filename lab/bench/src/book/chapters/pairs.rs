//! Many at once: pairs that talk beside each other, and many clients of one server.

use maud::html;

use super::Chapter;
use crate::book::plot::{Line, Plot};
use crate::book::{format, rows};
use crate::mechanism::Family;
use crate::record::{Results, Row};

/// IPC2 of many pairs.
pub fn pairs(results: &Results) -> Option<Chapter> {
    let all = || rows::of_test(results, "pairs").filter(|row| row.family != Family::Peer);
    let numbers = rows::distinct(all(), |row| usize::try_from(row.record.pairs).unwrap_or(0));
    let with =
        |number: usize| all().filter(move |row| usize::try_from(row.record.pairs) == Ok(number));
    let best = |number: usize, family: Family| {
        with(number)
            .filter(|row| row.family == family)
            .max_by(|a, b| a.record.per_s.total_cmp(&b.record.per_s))
    };
    let (&first, &last) = (numbers.first()?, numbers.last()?);
    let ours = best(first, Family::Ours)?;
    let rate = |row: &Row| rows::shown(row, "per_s", &format::rate(row.record.per_s));
    let against = |number| -> Option<maud::Markup> {
        let (ours, kernel) = (best(number, Family::Ours)?, best(number, Family::Kernel)?);
        let ratio = ours.record.per_s / kernel.record.per_s;
        let shown = html! {
            span.f data-f={ (rows::key(ours)) " per_s/ " (rows::key(kernel)) } { (format::ratio(ratio)) }
        };
        Some(html! {
            (rate(ours)) " with " (number) (if number == 1 { " pair" } else { " pairs" }) ", "
            @if ratio >= 1.0 { (shown) " times " (kernel.record.mechanism) }
            @else { b.lost { "only " (shown) " times " (kernel.record.mechanism) } }
        })
    };
    let title = html! {
        @match against(first) { Some(found) => (found), None => { (rate(ours)) " round trips" } }
        @if last > first { @if let Some(found) = against(last) { "; " (found) } }
    };
    let body = html! {
        p {
            "Each pair is two processes of its own, wherever the kernel puts them; round trips of all pairs together. While every process has a CPU \
            nobody sleeps; beyond that every trip is two context switches, whatever the mechanism."
        }
        (Plot {
            title: "IPC2 round trips per second of all pairs together, any CPU, default way of waiting named",
            across: ("pairs", |value| format!("{value}")),
            up: ("round trips/s", format::rate, format::number_tick),
            is_log: true,
            lines: lines(all(), |row| f64::from(row.record.pairs), |row| row.record.per_s, "per_s"),
        }.figure())
    };
    Some(Chapter { id: "pairs", name: "Many pairs", title, body })
}

/// One active client among many.
pub fn clients(results: &Results) -> Option<Chapter> {
    let all = || rows::of_test(results, "clients");
    let numbers = rows::distinct(all(), |row| usize::try_from(row.record.pairs).unwrap_or(0));
    let with =
        |number: usize| all().filter(move |row| usize::try_from(row.record.pairs) == Ok(number));
    let (alone, most) = (rows::ours(with(*numbers.first()?))?, rows::ours(with(*numbers.last()?))?);
    let title = html! {
        "Among " (most.record.pairs) " clients of one server a call takes " (rows::times(most, alone)) " times what it takes with "
        (alone.record.pairs)
    };
    let body = html! {
        p { "One client talks, the others are bound, have a link with the server, and keep still." }
        (Plot {
            title: "IPC2 of one client among many, placement and way of waiting as named",
            across: ("bound clients", |value| format!("{value}")),
            up: ("round trip", format::time, format::time_tick),
            is_log: true,
            lines: lines(all(), |row| f64::from(row.record.pairs), rows::ns, "ns"),
        }.figure())
    };
    Some(Chapter { id: "clients", name: "Many clients", title, body })
}

/// A line for each mechanism and way of waiting.
pub fn lines<'a>(
    all: impl Iterator<Item = &'a Row>,
    across: impl Fn(&Row) -> f64,
    up: impl Fn(&Row) -> f64,
    field: &str,
) -> Vec<Line> {
    let mut lines: Vec<Line> = vec![];
    let all: Vec<&Row> = all.collect();
    for row in &all {
        let it = &row.record;
        let is_one_of_several = all.iter().any(|other| {
            other.record.mechanism == it.mechanism
                && (other.record.wait, other.record.placement) != (it.wait, it.placement)
        });
        let name = if is_one_of_several {
            format!("{} {}", it.mechanism, it.wait)
        } else {
            it.mechanism.clone()
        };
        let point = (across(row), up(row), format!("{}#{field}", rows::key(row)));
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => {
                // Several lines of one colour are told apart by their dashes.
                let alike =
                    lines.iter().filter(|line| line.class.starts_with(&rows::class(row))).count();
                let dash = if row.family == Family::Ours {
                    format!(" d{}", alike % 4)
                } else {
                    String::new()
                };
                lines.push(Line {
                    name,
                    class: format!("{}{dash}", rows::class(row)),
                    points: vec![point],
                });
            }
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines
}
