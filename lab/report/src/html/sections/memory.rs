//! Shared memory: `AnT`'s Figure 2, hand-over, and fragmentation.

use maud::{Markup, html};

use crate::PAGE_BYTES;
use crate::html::plot::{Curve, Plot};
use crate::html::section::Section;
use crate::html::{format, rows};
use crate::names::FRAGMENTATION;
use crate::results::{Results, Row};

/// The time per page between the least and the greatest size of a mechanism, with both rows.
type Slope<'a> = (f64, &'a Row, &'a Row);

fn slope<'a>(results: &'a Results, name: &str) -> Option<Slope<'a>> {
    let rows = || results.of_test("attach").filter(|row| row.record.mechanism == name);
    let least = rows().min_by_key(|row| row.record.bytes)?;
    let most = rows().max_by_key(|row| row.record.bytes)?;
    let pages = (most.record.bytes - least.record.bytes) as f64 / PAGE_BYTES as f64;
    (pages > 0.0).then(|| ((most.ns() - least.ns()) / pages, least, most))
}

fn shown((ns, least, most): Slope<'_>) -> Markup {
    let origin = format!("{} per-page {}", rows::key(least), rows::key(most));
    html! { span.f data-f=(origin) { (format::time(ns)) } }
}

/// A plot of times against sizes.
fn against_size<'a>(title: &str, rows: impl Iterator<Item = &'a Row>) -> Markup {
    let lines = rows::curves(rows, rows::bytes, Row::ns, "ns");
    let across = ("size", format::bytes as fn(f64) -> String);
    let up = ("time", format::time as fn(f64) -> String, format::time_tick as fn(f64) -> String);
    Plot { title, across, up, is_log: true, lines }.figure()
}

/// Attach against size.
pub fn attach(results: &Results) -> Option<Section> {
    let area = slope(results, "area")?;
    let all = || results.of_test("attach");
    let names = rows::distinct(all().map(|row| row.record.mechanism.as_str()));
    let files = names.iter().filter(|name| name.starts_with("file"));
    let file = files.filter_map(|name| slope(results, name)).min_by(|a, b| a.0.total_cmp(&b.0));
    let title = html! {
        "Each 4 KB of an area costs " (shown(area)) " to attach"
        @if let Some(file) = file {
            "; of a mapped file, " (shown(file)) " (" (file.1.record.mechanism) ")"
        }
    };
    let body = html! {
        p {
            "Memory of another process comes into this process with all its pages: AnT\u{2019}s "
            "Figure 2. Its paper measured 0.058 \u{b5}s for each 4 KB of an area (ICA) and 0.124 "
            "\u{b5}s for ordinary pages, on a Pentium 4 of 2.4 GHz. The slope between the least "
            "and the greatest size is the same figure here."
        }
        (against_size("Attach against size, all pages present afterwards", all()))
        div.scroll { table {
            thead { tr { th { "memory" } th { "for each 4 KB" } } }
            tbody { @for name in &names {
                @if let Some(found) = slope(results, name) {
                    tr class=(rows::class(found.1)) { td { (name) } td.n { (shown(found)) } }
                }
            } }
        } }
    };
    Some(Section { id: "attach", name: "Attach", title, body })
}

/// Hand-over against size.
pub fn handover(results: &Results) -> Option<Section> {
    let all = || results.of_test("handover");
    let block = || all().filter(|row| row.record.mechanism == "block");
    let least = block().min_by_key(|row| row.record.bytes)?;
    let most = block().max_by_key(|row| row.record.bytes)?;
    let title = html! {
        "The hand-over of " (format::bytes(rows::bytes(most))) " takes " (rows::times(most, least))
        " times that of " (format::bytes(rows::bytes(least))) ": " (rows::time(most))
        " there and back"
    };
    let pool: Vec<&Row> = results.of_test("pool").collect();
    let body = html! {
        p {
            "A block goes to another process and comes back, which is two hand-overs. The empty "
            "round trip is drawn beside it."
        }
        (against_size("Hand-over there and back against size, two CPUs", all()))
        @if !pool.is_empty() {
            (against_size("One of a thousand blocks freed, another allocated", pool.into_iter()))
        }
    };
    Some(Section { id: "handover", name: "Hand-over", title, body })
}

/// The largest free run as a share of the free memory.
pub fn fragmentation(results: &Results) -> Option<Section> {
    let counts = || results.counts.iter().filter(|count| count.test == FRAGMENTATION);
    let names = rows::distinct(counts().map(|count| count.mechanism.as_str()));
    let value = |name: &str, what: &str| {
        let is = |count: &&crate::schema::Count| count.mechanism == name && count.what == what;
        counts().find(is).map(|count| count.value)
    };
    let curve = |name: &&str| {
        let point = |count: &crate::schema::Count| {
            let at = count.what.strip_prefix("free after ")?;
            let largest = value(name, &format!("largest run after {at}"))?;
            let share = largest / count.value.max(1.0) * 100.0;
            Some((at.parse().ok()?, share, format!("count {name} {at}")))
        };
        let of_name = counts().filter(|count| count.mechanism == *name);
        let mut points: Vec<(f64, f64, String)> = of_name.filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let dash = if name.ends_with("64M") { "d1" } else { "d0" };
        let colour = if name.starts_with("two-kinds") { "ours" } else { "k1" };
        Curve { name: (*name).into(), class: format!("{colour} {dash}"), points }
    };
    let last = |prefix: &str| {
        let name = names.iter().find(|name| name.starts_with(prefix))?;
        curve(name).points.last().map(|point| percent(point.1))
    };
    let title = html! {
        "With two kinds of blocks the largest free run is " (last("two-kinds")?)
        " of the free memory, without " (last("one-kind")?)
    };
    let refused = |name: &str| value(name, "refused").unwrap_or(0.0);
    let body = html! {
        p {
            "AnT\u{2019}s flag: short-lived blocks from the front, long-lived blocks from the "
            "back. Random lifetimes, the same for both; blocks that found no room: "
            @for (number, name) in names.iter().enumerate() {
                @if number > 0 { ", " } (name) " " (format!("{:.0}", refused(name)))
            }
            "."
        }
        (Plot {
            title: "Largest free run as a share of all free memory",
            across: ("operations", format::number_tick),
            up: ("share", percent, percent),
            is_log: false,
            lines: names.iter().map(curve).collect(),
        }.figure())
    };
    Some(Section { id: "pieces", name: "Fragmentation", title, body })
}

fn percent(value: f64) -> String {
    format!("{value:.0}\u{a0}%")
}
