//! The page of a run: one file that needs no network and no script.
//!
//! ```text
//! page     sections/*   one section per question     bars, plot   the two kinds of figures
//!          section      what a section is            rows, format figures as text
//! ```
//! Every figure carries its origin (`data-f`), so that a test computes it again from the JSON.

mod bars;
mod format;
mod plot;
mod rows;
mod section;
mod sections;

use std::path::Path;

use maud::{DOCTYPE, PreEscaped, html};

use crate::schema::Run;

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The page of a run whose JSON lies at `json`, relative to the page.
#[must_use]
pub fn page(run: &Run, json: &Path) -> String {
    let results = run.results();
    let sections = sections::all(run, &results);
    let command = run.run.as_ref().map_or("m3 bench all --json FILE", |run| &run.command);
    let json = json.display();
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "m3ipc: benchmark report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.over { "m3ipc \u{b7} benchmark report" }
                    h1 { (sections::headline(&results)) }
                    p {
                        "Every figure is between two processes, never two threads. Mechanisms that "
                        "compare took turns in this run. Both sides write, read and check every "
                        "payload."
                    }
                    p.again {
                        "Repeat: " code { (command) } " \u{b7} every time of every round: "
                        a href=(json) { (json) }
                    }
                }
                (sections::warnings(run))
                (sections::card(run))
                nav { @for it in &sections { a href={ "#" (it.id) } { (it.name) } } }
                main { @for it in &sections { (it.markup()) } }
                footer { p {
                    "Made by " code { "m3 bench report" } " from the JSON alone; "
                    code { "m3 bench report --from FILE" } " makes it again."
                } }
                div id="tip" role="status" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}
