//! Reads the file of services. Its errors have the file, the line and the next step.
//!
//! A file with an error changes nothing.

mod check;
mod convert;
mod form;
mod wrong;

use crate::spec::Config;
use form::File;
use std::path::{Path, PathBuf};
use wrong::Wrong;

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

/// Reads and checks a file.
///
/// # Errors
/// [`ConfigError`].
pub fn read(path: &Path) -> Result<Config, ConfigError> {
    let unreadable =
        |why: std::io::Error| ConfigError::Unreadable { path: path.into(), why: why.to_string() };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    parse(&text, &absolute).map_err(|wrong| located(wrong, path, &text))
}

/// Checks the text of a file that lies at `path`.
fn parse(text: &str, path: &Path) -> Result<Config, Wrong> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let form: File = toml::from_str(text).map_err(|error| Wrong {
        at: error.span().map_or(0, |span| span.start),
        what: error.message().trim_end().replace('\n', ", "),
        next: "services.toml(5) lists the keys and their values".to_owned(),
    })?;
    convert::config_of(form, folder)
}

fn located(wrong: Wrong, path: &Path, text: &str) -> ConfigError {
    let before = text.as_bytes().get(..wrong.at).unwrap_or_default();
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    ConfigError::Wrong { path: path.into(), line, what: wrong.what, next: wrong.next }
}

#[cfg(test)]
mod tests;
