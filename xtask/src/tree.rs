//! The files of the tree that people write: no build output, nothing generated, nothing hidden.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A file of the tree with its text.
#[derive(Debug)]
pub struct Source {
    /// Its path from the root, with `/` between the parts.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Whether the file's name ends in one of `endings` (given without the dot).
    pub fn ends_in(&self, endings: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
    }
}

/// Reads all files below `root` whose names end in one of `endings`, in the order of their paths.
///
/// # Errors
/// Where a folder or a file cannot be read.
pub fn sources(root: &Path, endings: &[&str]) -> Result<Vec<Source>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|e| Error::read(&folder, e))? {
            let entry = entry.map_err(|e| Error::read(&folder, e))?;
            let file_type = entry.file_type().map_err(|e| Error::read(&entry.path(), e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if file_type.is_dir() && !is_skipped(&name) {
                folders.push(entry.path());
            } else if file_type.is_file()
                && name.rsplit_once('.').is_some_and(|(_, end)| endings.contains(&end))
            {
                found.push(read(root, entry.path())?);
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Hidden folders (but those that the forge and CI read), build output and generated files.
fn is_skipped(folder: &str) -> bool {
    (folder.starts_with('.') && ![".ci", ".github"].contains(&folder))
        || folder.starts_with("target")
        || ["generated", "__pycache__", "node_modules"].contains(&folder)
}

fn read(root: &Path, path: PathBuf) -> Result<Source, Error> {
    let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
    let short = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
    Ok(Source { path: short, text: String::from_utf8_lossy(&bytes).into_owned() })
}

/// The text of a file.
///
/// # Errors
/// Where it cannot be read.
pub fn text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|e| Error::read(path, e))
}
