//! The runtime directory of a node.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The runtime directory of the node of the system.
pub const SYSTEM_DIRECTORY: &str = "/run/m3";

/// Why a runtime directory cannot be used.
///
/// ```
/// use m3ipc::runtime::{DirectoryError, make};
///
/// match make("/nonexistent/node".as_ref(), 0o700) {
///     Err(DirectoryError::Unusable { path, .. }) => println!("no directory {}", path.display()),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The directory cannot be made or read.
    #[error(
        "the runtime directory {path} cannot be used: {cause}; name another one in M3_RUNTIME_DIR"
    )]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// Another user owns the directory or may write in it.
    #[error(
        "other users own or may write the runtime directory {path} (owner {uid}, mode {mode:o}); \
         remove it or name another one in M3_RUNTIME_DIR"
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// The user id of its owner.
        uid: u32,
        /// Its permission bits.
        mode: u32,
    },
}

/// The runtime directory of this process: the first of
///
/// 1. `M3_RUNTIME_DIR`,
/// 2. [`SYSTEM_DIRECTORY`] if a daemon runs there,
/// 3. `$XDG_RUNTIME_DIR/m3`,
/// 4. `/tmp/m3-UID`.
///
/// ```
/// println!("{}", m3ipc::runtime::directory().display());
/// ```
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

/// The runtime directory of this user's own node.
///
/// ```
/// use m3ipc::runtime;
///
/// let socket = runtime::socket(&runtime::user_directory());
/// assert!(socket.starts_with(runtime::user_directory()));
/// ```
#[must_use]
pub fn user_directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|named| !named.is_empty()) {
        Some(base) => PathBuf::from(base).join("m3"),
        None => PathBuf::from(format!("/tmp/m3-{}", m3ipc_sys::user_id())),
    }
}

/// The socket of the daemon in a runtime directory.
///
/// ```
/// let socket = m3ipc::runtime::socket("/run/m3".as_ref());
/// assert!(socket.starts_with("/run/m3"));
/// ```
#[must_use]
pub fn socket(directory: &Path) -> PathBuf {
    directory.join(m3ipc_wire::SOCKET_NAME)
}

/// Makes a runtime directory, or checks an existing one: this user must own it, and no other user
/// may write in it. Returns whether the directory is new.
///
/// ```
/// let directory = std::env::temp_dir().join(format!("m3-doc-{}", std::process::id()));
/// assert!(m3ipc::runtime::make(&directory, 0o700)?);
/// assert!(!m3ipc::runtime::make(&directory, 0o700)?);
/// # std::fs::remove_dir(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    // Do not follow a symbolic link: in /tmp every user could have made one.
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
