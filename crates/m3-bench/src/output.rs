//! The JSON of a run.
//!
//! `machine` and `results` always; `counts`, `skipped` and `failed` where there are any.

use std::path::Path;

use serde::Serialize;

use crate::error::Error;
use crate::machine::Machine;
use crate::record::{Count, Record, Results};

/// One run as JSON shows it.
#[derive(Serialize)]
pub struct Output<'a> {
    machine: &'a Machine,
    results: Vec<&'a Record>,
    #[serde(skip_serializing_if = "<[Count]>::is_empty")]
    counts: &'a [Count],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    skipped: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    failed: &'a [String],
}

impl<'a> Output<'a> {
    /// A run on this machine with these results.
    #[must_use]
    pub fn new(machine: &'a Machine, results: &'a Results) -> Self {
        Self {
            machine,
            results: results.rows.iter().map(|row| &row.record).collect(),
            counts: &results.counts,
            skipped: &results.skipped,
            failed: &results.failed,
        }
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let mut text = serde_json::to_string_pretty(self).map_err(Error::json("the results"))?;
        text.push('\n');
        std::fs::write(path, text).map_err(Error::os("write the JSON file; does its directory exist?"))
    }
}
