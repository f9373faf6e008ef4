//! The page as a whole.

use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chapters::{self, Chapter};
use crate::output::Output;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// The page of a run whose JSON lies at `json` (as seen from the page).
#[must_use]
pub fn page(output: &Output, json: &Path) -> String {
    let results = output.results();
    let chapters = chapters::all(output, &results);
    let command =
        output.run.as_ref().map_or("m3 bench all --json FILE", |run| run.command.as_str());
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "m3ipc: the bench book" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.over { "m3ipc \u{b7} the bench book" }
                    h1 { (chapters::headline(&results)) }
                    p { "Every figure is between two processes, never two threads; what is compared took turns in this one run; every payload was written, read and checked." }
                    p.again { "Again: " code { (command) } " \u{b7} every time of every round: " a href=(json.display()) { (json.display()) } }
                }
                (chapters::warnings(output))
                (chapters::card(output))
                nav { @for chapter in &chapters { a href={ "#" (chapter.id) } { (chapter.name) } } }
                main { @for chapter in &chapters { (section(chapter)) } }
                footer { p { "Made by " code { "m3 bench report" } " from the JSON alone; " code { "m3 bench report --from FILE" } " makes it again." } }
                div id="tip" role="status" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

fn section(chapter: &Chapter) -> Markup {
    html! {
        section id=(chapter.id) {
            p.over { (chapter.name) }
            h2 { (chapter.title) }
            (chapter.body)
        }
    }
}
