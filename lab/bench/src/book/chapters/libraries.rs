//! m3ipc beside libraries of others, like with like.

use maud::{Markup, html};

use super::Chapter;
use crate::beside::{self, Figure, Line, Standing};
use crate::book::{format, rows};
use crate::record::{Results, Row};
use crate::rounds::LEFT;

/// One row for each piece of work, and who is first in it.
pub fn chapter(results: &Results) -> Option<Chapter> {
    let lines = beside::lines(results);
    if lines.is_empty() {
        return None;
    }
    let behind =
        lines.iter().filter(|line| matches!(line.standing(), Standing::Behind(..))).count();
    let title = html! {
        "Beside libraries of others m3ipc is first in " (lines.len() - behind) " of " (lines.len()) " rows"
        @if behind > 0 { b.lost { "; not in " (behind) } }
    };
    let left = |name: &str| {
        let count =
            results.counts.iter().find(|count| count.test == LEFT && count.mechanism == name);
        count.map_or_else(|| "\u{2013}".to_owned(), |count| format!("{:.0}", count.value))
    };
    let body = html! {
        p {
            "The same 48 bytes each way in two processes, written, read and checked; the same placement; like ways of waiting side by side. "
            "A library\u{2019}s own threads run where its process is pinned; \u{201c}any CPU\u{201d} pins nobody. Versions: "
            @for (number, (name, version)) in results.libraries.iter().enumerate() {
                @if number > 0 { ", " } (name) " " (version)
            }
            ". \u{2013}: the library has no such way of waiting, or it was not measured."
        }
        div.scroll { table.beside {
            thead { tr {
                th { "work" } th { "m3ipc" }
                @for (name, _) in &results.libraries { th { (name) } }
                th { "first" }
            } }
            tbody {
                @for line in &lines {
                    tr class=[matches!(line.standing(), Standing::Behind(..)).then_some("lost")] {
                        td { (line.what) }
                        td.n { (figure(line.figure, line.ours)) }
                        @for (_, row, said) in &line.theirs {
                            td.n { @match row { Some(row) => (figure(line.figure, row)), None => (said.replace('-', "\u{2013}")) } }
                        }
                        td { (first(line)) }
                    }
                }
                @if results.counts.iter().any(|count| count.test == LEFT) {
                    tr {
                        td { "names left behind by a kill -9" } td.n { (left("m3ipc")) }
                        @for (name, _) in &results.libraries { td.n { (left(name)) } }
                        td {}
                    }
                }
            }
        } }
    };
    Some(Chapter { id: "libraries", name: "Libraries", title, body })
}

fn figure(figure: Figure, row: &Row) -> Markup {
    match figure {
        Figure::Time => rows::time(row),
        Figure::Cpu => rows::shown(row, "cpu_ns_per_op", &format::time(row.record.cpu_ns_per_op)),
        Figure::Switches => rows::shown(row, "switches", &format!("{:.2}", row.switches_per_op)),
    }
}

fn first(line: &Line<'_>) -> Markup {
    let other = |name: &str| {
        line.theirs.iter().find(|(known, ..)| *known == name).and_then(|(_, row, _)| *row)
    };
    // Of other figures than times the ratio can be seen in the row.
    let row = |name| other(name).filter(|_| line.figure == Figure::Time);
    match line.standing() {
        Standing::Alone => html! { "m3ipc" },
        Standing::First(name, _) => html! {
            "m3ipc; next " (name) @if let Some(row) = row(name) { " with " (rows::times(row, line.ours)) " times its time" }
        },
        Standing::Behind(name, _) => html! {
            (name) "; m3ipc is not" @if let Some(row) = row(name) { ", with " (rows::times(line.ours, row)) " times its time" }
        },
    }
}
