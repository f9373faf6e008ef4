//! Where the node of this user lives: its runtime directory.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The runtime directory of the system-wide node.
pub const SYSTEM_DIRECTORY: &str = "/run/m3";

/// Why there is no runtime directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be made or looked at.
    #[error(
        "the runtime directory {path} cannot be used: {cause}; name another one with M3_RUNTIME_DIR"
    )]
    Unusable {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It belongs to somebody else or others may write in it.
    #[error(
        "the runtime directory {path} is not this user's alone (owner {uid}, mode {mode:o}); remove it or name another one with M3_RUNTIME_DIR"
    )]
    NotOurs {
        /// Which.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its mode.
        mode: u32,
    },
}

/// The directory of the node that this process belongs to: `M3_RUNTIME_DIR`;
/// else the system's, where a daemon runs there; else `$XDG_RUNTIME_DIR/m3`;
/// else `/tmp/m3-UID`.
#[must_use]
pub fn directory() -> PathBuf {
    if let Some(named) = std::env::var_os("M3_RUNTIME_DIR").filter(|named| !named.is_empty()) {
        return PathBuf::from(named);
    }
    let system = PathBuf::from(SYSTEM_DIRECTORY);
    if system.join(m3ipc_wire::SOCKET_NAME).exists() {
        return system;
    }
    user_directory()
}

/// The directory of this user's own node.
#[must_use]
pub fn user_directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|named| !named.is_empty()) {
        Some(base) => PathBuf::from(base).join("m3"),
        None => PathBuf::from(format!("/tmp/m3-{}", m3ipc_sys::user_id())),
    }
}

/// The daemon's socket in a runtime directory.
#[must_use]
pub fn socket(directory: &Path) -> PathBuf {
    directory.join(m3ipc_wire::SOCKET_NAME)
}

/// Makes a runtime directory of one's own, or checks that it is: nobody else
/// may own it, and nobody else may write in it. `true` where it was made.
///
/// # Errors
/// [`DirectoryError`].
pub fn make(path: &Path, mode: u32) -> Result<bool, DirectoryError> {
    let unusable = |cause| DirectoryError::Unusable { path: path.to_owned(), cause };
    let made = match std::fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => true,
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(cause) => return Err(unusable(cause)),
    };
    // Not through a link: in /tmp anybody could have put one there.
    let found = std::fs::symlink_metadata(path).map_err(unusable)?;
    if !found.is_dir() || found.uid() != m3ipc_sys::user_id() || found.mode() & 0o022 != 0 {
        return Err(DirectoryError::NotOurs {
            path: path.to_owned(),
            uid: found.uid(),
            mode: found.mode() & 0o7777,
        });
    }
    Ok(made)
}
