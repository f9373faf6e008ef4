//! The page: its figures are those of the JSON, and it fits its window.

mod browser;
mod figures;
mod sample;

use std::path::Path;

use serde_json::{Value, json};

/// The page of this JSON.
fn page_of(json: &Value) -> String {
    let run = serde_json::from_value(json.clone()).expect("the sample is a run");
    m3ipc_report::page(&run, Path::new("bench.json"))
}

/// The part of a page between two texts.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let (_, after) = page.split_once(from).expect("the section is there");
    after.split_once(to).expect("it ends").0
}

#[test]
fn every_figure_of_the_page_follows_from_the_json() {
    let json = sample::run();
    let page = page_of(&json);
    let checked = figures::check(&page, &json);
    assert!(checked > 500, "only {checked} figures were found");
    assert!(page.contains("id=\"sockets\"") && page.contains("#bells\""), "sockets are there");
}

#[test]
fn the_page_needs_no_other_file_and_has_its_sections() {
    let page = page_of(&sample::run());
    for far in ["src=\"", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(far), "the page loads something: {far}");
    }
    for section in [
        "messages",
        "asleep",
        "pairs",
        "clients",
        "blocks",
        "attach",
        "handover",
        "death",
        "libraries",
        "costs",
    ] {
        assert!(page.contains(&format!("<section id=\"{section}\">")), "no section {section}");
    }
    let quoted = ["1,460,000", "16.7 GB/s", "0.058", "0.124", "21, 71, 210"];
    for figure in quoted.into_iter().chain(["817, 300, 967, 1593, 982"]) {
        assert!(page.contains(figure), "the paper's {figure} is missing");
    }
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn the_page_names_a_faster_mechanism_of_the_kernel() {
    let mut json = sample::run();
    for row in json["samples"].as_array_mut().expect("samples are a list") {
        if row["test"] == "ipc2" && row["mechanism"] == "pipe" {
            for round in row["rounds"].as_array_mut().expect("rounds are a list") {
                round["samples"] = json!([[50, 1000]]);
                round["block_ns"] = 50.0.into();
            }
        }
    }
    let page = page_of(&json);
    let title = between(&page, "<section id=\"messages\">", "</h2>");
    assert!(title.contains("slower than pipe"), "{title}");
}

#[test]
fn the_page_names_a_faster_library() {
    let page = page_of(&sample::run());
    let section = between(&page, "<section id=\"libraries\">", "</section>");
    for words in ["is first in", "; not in 1", "iceoryx2; m3ipc is not", "zeromq 4.3.4"] {
        assert!(section.contains(words), "{words}: {section}");
    }
}
