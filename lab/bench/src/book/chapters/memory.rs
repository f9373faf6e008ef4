//! Memory that is shared: `AnT`'s Figure 2, hand-over, and how free memory falls to pieces.

use maud::{Markup, html};

use super::Chapter;
use super::pairs::lines;
use crate::area::FRAGMENTATION;
use crate::book::plot::{Line, Plot};
use crate::book::{format, rows};
use crate::record::{Results, Row};

const PAGE_BYTES: f64 = 4_096.0;

/// What each page adds between the least and the greatest size, in nanoseconds, with the two rows.
fn per_page<'a>(of: impl Iterator<Item = &'a Row> + Clone) -> Option<(f64, &'a Row, &'a Row)> {
    let least = of.clone().min_by_key(|row| row.record.bytes)?;
    let most = of.max_by_key(|row| row.record.bytes)?;
    let pages = (most.record.bytes - least.record.bytes) as f64 / PAGE_BYTES;
    (pages > 0.0).then(|| ((rows::ns(most) - rows::ns(least)) / pages, least, most))
}

fn slope((ns, least, most): (f64, &Row, &Row)) -> Markup {
    html! { span.f data-f={ (rows::key(least)) " per-page " (rows::key(most)) } { (format::time(ns)) } }
}

/// Attach against size.
pub fn attach(results: &Results) -> Option<Chapter> {
    let all = || rows::of_test(results, "attach");
    let named = |name: &str| {
        let name = name.to_owned();
        all().filter(move |row| row.record.mechanism == name)
    };
    let area = per_page(named("area").collect::<Vec<_>>().into_iter())?;
    let mut names: Vec<&str> = all().map(|row| row.record.mechanism.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let file = names
        .iter()
        .filter(|name| name.starts_with("file"))
        .filter_map(|name| per_page(named(name).collect::<Vec<_>>().into_iter()))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let title = html! {
        "Each 4 KB of an area costs " (slope(area)) " to attach"
        @if let Some(file) = file { "; of a file that is mapped, " (slope(file)) " (" (file.1.record.mechanism) ")" }
    };
    let body = html! {
        p {
            "Memory of others comes into a process with all its pages: AnT\u{2019}s Figure 2. Its paper measured 0.058 \u{b5}s for each 4 KB of an area (ICA) \
            and 0.124 \u{b5}s for ordinary pages, on a Pentium 4 of 2.4 GHz; the slope between the least and the greatest size is the same figure here."
        }
        (Plot {
            title: "Attach against size, all pages present afterwards",
            across: ("size", format::bytes),
            up: ("time", format::time, format::time_tick),
            is_log: true,
            lines: lines(all(), |row| row.record.bytes as f64, rows::ns, "ns"),
        }.figure())
        div.scroll { table {
            thead { tr { th { "memory" } th { "for each 4 KB" } } }
            tbody { @for name in &names {
                @if let Some(found) = per_page(named(name).collect::<Vec<_>>().into_iter()) {
                    tr class=(rows::class(found.1)) { td { (name) } td.n { (slope(found)) } }
                }
            } }
        } }
    };
    Some(Chapter { id: "attach", name: "Attach", title, body })
}

/// Hand-over against size.
pub fn handover(results: &Results) -> Option<Chapter> {
    let all = || rows::of_test(results, "handover");
    let block = || all().filter(|row| row.record.mechanism == "block");
    let least = block().min_by_key(|row| row.record.bytes)?;
    let most = block().max_by_key(|row| row.record.bytes)?;
    let title = html! {
        "Handing over " (format::bytes(most.record.bytes as f64)) " takes " (rows::times(most, least)) " times what "
        (format::bytes(least.record.bytes as f64)) " takes: " (rows::time(most)) " there and back"
    };
    let body = html! {
        p { "A block goes to another process and comes back, which is two hand-overs; the round trip that carries nothing is drawn beside it." }
        (Plot {
            title: "Hand-over there and back against size, two CPUs",
            across: ("size of the block", format::bytes),
            up: ("time", format::time, format::time_tick),
            is_log: true,
            lines: lines(all(), |row| row.record.bytes as f64, rows::ns, "ns"),
        }.figure())
        @let pool: Vec<&Row> = rows::of_test(results, "pool").collect();
        @if !pool.is_empty() {
            (Plot {
                title: "One block given back and another one taken, among a thousand that stay",
                across: ("greatest size", format::bytes),
                up: ("time", format::time, format::time_tick),
                is_log: true,
                lines: lines(pool.into_iter(), |row| row.record.bytes as f64, rows::ns, "ns"),
            }.figure())
        }
    };
    Some(Chapter { id: "handover", name: "Hand-over", title, body })
}

/// The largest free run of all that is free.
pub fn pieces(results: &Results) -> Option<Chapter> {
    let counts = || results.counts.iter().filter(|count| count.test == FRAGMENTATION);
    let mut names: Vec<&str> = counts().map(|count| count.mechanism.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let value = |name: &str, what: &str| {
        counts()
            .find(|count| count.mechanism == name && count.what == what)
            .map(|count| count.value)
    };
    let line = |name: &&str| {
        let mut points: Vec<(f64, f64, String)> = counts()
            .filter(|count| count.mechanism == *name)
            .filter_map(|count| {
                let at = count.what.strip_prefix("free after ")?;
                let largest = value(name, &format!("largest run after {at}"))?;
                let share = largest / count.value.max(1.0) * 100.0;
                Some((at.parse().ok()?, share, format!("count {name} {at}")))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let dash = if name.ends_with("64M") { "d1" } else { "d0" };
        let class = format!("{} {dash}", if name.starts_with("two-kinds") { "ours" } else { "k1" });
        Line { name: (*name).into(), class, points }
    };
    let (with, without) = (
        names.iter().find(|n| n.starts_with("two-kinds"))?,
        names.iter().find(|n| n.starts_with("one-kind"))?,
    );
    let last = |name: &&str| line(name).points.last().map(|point| point.1);
    let title = html! {
        "With two kinds of blocks the largest free run is " (percent(last(with)?)) " of all that is free, without " (percent(last(without)?))
    };
    let refused = |name: &str| value(name, "refused").unwrap_or(0.0);
    let body = html! {
        p {
            "AnT\u{2019}s flag: short-lived blocks from the front, long-lived ones from the back. Random lifetimes, the same for both; blocks that found no room: "
            @for (number, name) in names.iter().enumerate() { @if number > 0 { ", " } (name) " " (format!("{:.0}", refused(name))) }
            "."
        }
        (Plot {
            title: "Largest free run as a share of all free memory",
            across: ("operations", format::number_tick),
            up: ("share", percent, percent),
            is_log: false,
            lines: names.iter().map(line).collect(),
        }.figure())
    };
    Some(Chapter { id: "pieces", name: "Fragmentation", title, body })
}

fn percent(value: f64) -> String {
    format!("{value:.0}\u{a0}%")
}
