//! The file of services: its form, its defaults and its errors.
//!
//! Each error names the file, the line and the next step. A file with an error changes nothing.

mod check;
mod form;

use crate::policy::Policy;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// When a service counts as ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyBy {
    /// An endpoint of its process has the name of the service.
    #[default]
    Name,
    /// Its process has an endpoint in the VM.
    Bind,
    /// Its process has started.
    Start,
}

/// What a service gets when a service that it needs was restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenNeedsRestart {
    /// A notification from the supervisor.
    #[default]
    Inform,
    /// A restart.
    Restart,
    /// Nothing.
    Ignore,
}

/// What starts as the process of a service. A change needs a new process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The working directory.
    pub directory: PathBuf,
    /// Variables beside those of the supervisor.
    pub environment: BTreeMap<String, String>,
    /// The slot in which the process is bound before it starts.
    pub slot: Option<i32>,
    /// The name that it binds.
    pub name: String,
    /// When it is ready.
    pub ready: ReadyBy,
}

/// A service as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its process.
    pub program: Program,
    /// Its restarts and limits.
    pub policy: Policy,
    /// The services that must be ready before it starts, and that stop after it.
    pub needs: Vec<String>,
    /// What it gets when one of them was restarted.
    pub when_needs_restart: WhenNeedsRestart,
}

/// The content of a file of services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The VM of all services.
    pub vm: String,
    /// The permission bits of the VM, if the supervisor creates it.
    pub mode: u16,
    /// Whether the VM and all its members end with the supervisor.
    pub vm_ends_with_supervisor: bool,
    /// The slot of the supervisor.
    pub slot: i32,
    /// The name of the supervisor's endpoint.
    pub name: String,
    /// The services by their names.
    pub services: BTreeMap<String, Spec>,
}

/// Why a file of services cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read {}: {why}; check the path, or write the file: man 5 services.toml",
        path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// A line is wrong.
    #[error("{}:{line}: {what}; {next}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to do.
        next: String,
    },
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |why: std::io::Error| ConfigError::Unreadable {
            path: path.into(),
            why: why.to_string(),
        };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let absolute = std::path::absolute(path).map_err(unreadable)?;
        Self::parse(&text, &absolute).map_err(|wrong| wrong.located(path, &text))
    }

    /// Checks the text of a file that lies at `path`.
    fn parse(text: &str, path: &Path) -> Result<Self, Wrong> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let form: form::File = toml::from_str(text).map_err(|error| Wrong {
            at: error.span().map_or(0, |span| span.start),
            what: error.message().trim_end().replace('\n', ", "),
            next: "services.toml(5) lists the keys and their values".to_owned(),
        })?;
        let config = form.into_config(folder)?;
        Ok(config)
    }
}

/// An error at a byte of the text.
#[derive(Debug)]
struct Wrong {
    at: usize,
    what: String,
    next: String,
}

impl Wrong {
    fn new(at: usize, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { at, what: what.into(), next: next.into() }
    }

    fn located(self, path: &Path, text: &str) -> ConfigError {
        let before = text.as_bytes().get(..self.at).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        ConfigError::Wrong { path: path.into(), line, what: self.what, next: self.next }
    }
}

#[cfg(test)]
mod tests;
