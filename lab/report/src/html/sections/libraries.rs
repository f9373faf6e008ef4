//! m3ipc beside other libraries, like with like.

use maud::{Markup, html};

use crate::html::rows;
use crate::html::section::Section;
use crate::libraries::{self, Figure, Line, Rank};
use crate::names::LEFT;
use crate::results::{Results, Row};

/// One row per piece of work, with the rank of m3ipc.
pub fn section(results: &Results) -> Option<Section> {
    let lines = libraries::lines(results);
    if lines.is_empty() {
        return None;
    }
    let is_behind = |line: &Line<'_>| matches!(line.rank(), Rank::Behind(..));
    let behind = lines.iter().filter(|line| is_behind(line)).count();
    let title = html! {
        "Beside other libraries m3ipc is first in " (lines.len() - behind) " of " (lines.len())
        " rows"
        @if behind > 0 { b.lost { "; not in " (behind) } }
    };
    let left = |name: &str| {
        let left = results.left_behind(name);
        left.map_or_else(|| "\u{2013}".to_owned(), |value| format!("{value:.0}"))
    };
    let body = html! {
        p {
            "The same 48 bytes each way between two processes, written, read and checked; the same "
            "placement; equal wait modes. The threads of a library run on the CPU of its process. "
            "\u{201c}Any CPU\u{201d} pins no process. Versions: "
            @for (number, (name, version)) in results.libraries.iter().enumerate() {
                @if number > 0 { ", " } (name) " " (version)
            }
            ". \u{2013}: the library lacks this wait mode, or was not measured."
        }
        div.scroll { table.beside {
            thead { tr {
                th { "work" } th { "m3ipc" }
                @for (name, _) in &results.libraries { th { (name) } }
                th { "first" }
            } }
            tbody {
                @for line in &lines {
                    tr class=[is_behind(line).then_some("lost")] {
                        td { (line.what) }
                        td.n { (figure(line.figure, line.ours)) }
                        @for it in &line.theirs { td.n { @match it.row {
                            Some(row) => (figure(line.figure, row)),
                            None => (it.instead.replace('-', "\u{2013}")),
                        } } }
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
    Some(Section { id: "libraries", name: "Libraries", title, body })
}

fn figure(figure: Figure, row: &Row) -> Markup {
    match figure {
        Figure::Time => rows::time(row),
        Figure::Cpu => rows::cpu(row),
        Figure::Switches => rows::switches(row),
    }
}

fn first(line: &Line<'_>) -> Markup {
    // Other figures than times show their ratio in the row.
    let row = |name: &str| {
        let entry = line.theirs.iter().find(|it| it.name == name)?;
        entry.row.filter(|_| line.figure == Figure::Time)
    };
    match line.rank() {
        Rank::Alone => html! { "m3ipc" },
        Rank::First(name, _) => html! {
            "m3ipc; next " (name)
            @if let Some(row) = row(name) {
                " with " (rows::times(row, line.ours)) " times its time"
            }
        },
        Rank::Behind(name, _) => html! {
            (name) "; m3ipc is not"
            @if let Some(row) = row(name) {
                ", with " (rows::times(line.ours, row)) " times its time"
            }
        },
    }
}
