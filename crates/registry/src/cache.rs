//! The last registry that was read, in a file, for a start without the directory.

use crate::backend::BackendError;
use crate::file;
use m3ipc_fabric::Registry;
use std::fs;
use std::path::{Path, PathBuf};

/// A file that one process writes.
#[derive(Debug)]
pub struct Cache {
    path: PathBuf,
}

impl Cache {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The registry of the last successful read.
    pub fn read(&self) -> Result<Registry, BackendError> {
        file::read(&self.path)
    }

    /// Keeps a registry: either the old text or the new one is in the file, never a part.
    pub fn write(&self, text: &str) -> Result<(), BackendError> {
        let fresh = self.path.with_extension("new");
        let write = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &self.path));
        write.map_err(|cause| BackendError::File { path: self.path.clone(), cause })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
