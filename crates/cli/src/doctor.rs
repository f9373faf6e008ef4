//! What this machine gives: looked at by trying, wherever trying is possible.

mod areas;
mod copies;
mod kernel;
mod limits;
mod node;
mod seals;
mod walls;

use serde::Serialize;
use std::path::Path;

/// How it stands with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is there.
    Ok,
    /// It is not there, and something else serves.
    Off,
    /// Worth knowing.
    Note,
    /// It is not there, and nothing else serves.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What.
    pub name: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub is: String,
    /// What serves instead, or what to do.
    pub instead: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, is: impl Into<String>) -> Self {
        Self { name, state: State::Ok, is: is.into(), instead: None }
    }

    fn note(name: &'static str, is: impl Into<String>) -> Self {
        Self { name, state: State::Note, is: is.into(), instead: None }
    }

    fn off(name: &'static str, is: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { name, state: State::Off, is: is.into(), instead: Some(instead.into()) }
    }

    fn missing(name: &'static str, is: impl Into<String>, next: impl Into<String>) -> Self {
        Self { name, state: State::Missing, is: is.into(), instead: Some(next.into()) }
    }
}

/// Findings under a title.
pub type Group = (&'static str, Vec<Finding>);

/// Looks at everything.
pub fn examine(directory: &Path) -> Vec<Group> {
    vec![
        ("kernel", kernel::examine()),
        ("self-test of the seals", seals::examine()),
        ("limits", limits::examine()),
        ("walls between processes", walls::examine()),
        ("copies", copies::examine()),
        ("areas", areas::examine()),
        ("node", node::examine(directory)),
    ]
}

/// A small file of /proc or /sys, trimmed.
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
