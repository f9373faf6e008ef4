//! The result of a check.

use serde::Serialize;

/// The state of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingState {
    /// It works.
    Ok,
    /// It does not work, and a fallback replaces it.
    Off,
    /// Information only.
    Note,
    /// It does not work, and m3ipc needs it.
    Missing,
}

/// The result of one check. The names of the fields are the keys of the JSON output.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The requirement.
    pub name: &'static str,
    /// Its state.
    pub state: FindingState,
    /// The observation.
    pub is: String,
    /// The fallback, or the next step.
    pub instead: Option<String>,
}

/// Findings under a title.
pub type Group = (&'static str, Vec<Finding>);

impl Finding {
    pub fn ok(name: &'static str, is: impl Into<String>) -> Self {
        Self { name, state: FindingState::Ok, is: is.into(), instead: None }
    }

    pub fn note(name: &'static str, is: impl Into<String>) -> Self {
        Self { name, state: FindingState::Note, is: is.into(), instead: None }
    }

    pub fn off(name: &'static str, is: impl Into<String>, fallback: impl Into<String>) -> Self {
        Self { name, state: FindingState::Off, is: is.into(), instead: Some(fallback.into()) }
    }

    pub fn missing(name: &'static str, is: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, state: FindingState::Missing, is: is.into(), instead: Some(advice.into()) }
    }

    /// The same finding about what m3ipc can do without.
    pub fn not_needed(mut self) -> Self {
        if self.state == FindingState::Missing {
            self.state = FindingState::Note;
        }
        self
    }

    /// The same finding with a next step.
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.instead = Some(advice.into());
        self
    }
}

/// A small file of /proc or /sys, trimmed.
pub fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
