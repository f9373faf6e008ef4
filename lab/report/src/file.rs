//! Reading and writing the JSON of a run.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::schema::Run;

/// An error of a report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{path}: {source}; check the path and its permissions")]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A file is no run of this benchmark.
    #[error("{path} is no run of m3 bench: {source}; m3 bench ipc --json FILE writes one")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The place of the error.
        source: serde_json::Error,
    },
    /// The results cannot be written as JSON.
    #[error("the results cannot be written as JSON: {0}; report this as a defect")]
    Json(#[from] serde_json::Error),
    /// Two runs have no row in common.
    #[error(
        "the two runs have no row in common; run the same tests in both with this version \
         (with samples), and check --only. --all judges more than m3ipc"
    )]
    NothingInCommon,
}

impl Run {
    /// Reads a run from a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = |source| Error::File { path: path.into(), source };
        let text = std::fs::read(path).map_err(file)?;
        serde_json::from_slice(&text).map_err(|source| Error::Foreign { path: path.into(), source })
    }

    /// Writes a run to a file, one line per result. The file is replaced as a whole.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        replace(path, text(&serde_json::to_value(self)?)?.as_bytes())
    }
}

/// JSON with one line per entry of each top-level list.
fn text(value: &Value) -> Result<String, Error> {
    let mut parts = vec![];
    for (name, value) in value.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Array(entries) if entries.is_empty() => continue,
            Value::Array(entries) => {
                let lines: Vec<String> =
                    entries.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
                format!("[\n{}\n]", lines.join(",\n"))
            }
            other => serde_json::to_string_pretty(other)?,
        };
        parts.push(format!("{}: {shown}", Value::from(name.as_str())));
    }
    Ok(format!("{{\n{}\n}}\n", parts.join(",\n")))
}

/// Writes a new file beside `path` and renames it, so that a reader never sees half of it.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let put = || {
        std::fs::File::create(&new)?.write_all(bytes)?;
        std::fs::rename(&new, path)
    };
    put().map_err(|source| Error::File { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_one_line_per_entry() {
        let value = serde_json::json!(
            {"machine": {"cpu": "x"}, "results": [{"a": 1}, {"a": 2}], "failed": []}
        );
        let text = text(&value).expect("serialises");
        assert!(text.contains("[\n{\"a\":1},\n{\"a\":2}\n]") && !text.contains("failed"), "{text}");
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }
}
