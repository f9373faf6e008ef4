//! A static registry.

use crate::backend::{Backend, BackendError};
use m3ipc_fabric::Registry;
use std::path::{Path, PathBuf};

/// A TOML file, the same on all nodes.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
}

impl File {
    /// The file at this path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }
}

/// Reads the registry in a file.
pub fn read(path: &Path) -> Result<Registry, BackendError> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| BackendError::File { path: path.into(), cause })?;
    let parsed = Registry::parse(&text);
    parsed.map_err(|cause| BackendError::Content { what: path.display().to_string(), cause })
}

impl Backend for File {
    fn read(&mut self) -> Result<Registry, BackendError> {
        read(&self.path)
    }
}
