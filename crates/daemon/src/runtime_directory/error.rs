//! Why a directory cannot serve.

use m3ipc::runtime::DirectoryError;
use std::path::{Path, PathBuf};

/// Why the daemon cannot use the runtime directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeDirectoryError {
    #[error(transparent)]
    Directory(DirectoryError),
    #[error(
        "{path} belongs to user {uid}, and a daemon of user {own} serves no directory of another \
         user; {next}",
        own = m3ipc_sys::user_id()
    )]
    OtherUser { path: PathBuf, uid: u32, next: &'static str },
    #[error("another daemon ({whose}) serves {path}; use it, or end it with `m3 down`")]
    Busy { path: PathBuf, whose: String },
    #[error("cannot {action} {path}: {cause}; check the space and the permissions there")]
    System { action: &'static str, path: PathBuf, cause: std::io::Error },
    #[error(
        "{path} holds {names}, which no daemon of m3 made, and the end of a node clears its \
         directory; give an empty directory (--runtime-dir, M3_RUNTIME_DIR), or move them"
    )]
    Foreign { path: PathBuf, names: String },
}

impl From<DirectoryError> for RuntimeDirectoryError {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::NotOurs { path, uid, .. } if uid != m3ipc_sys::user_id() => {
                let next = match m3ipc::runtime::connect(&path) {
                    Ok(_served) => {
                        "use the node that serves it, or name another one (--runtime-dir)"
                    }
                    Err(_) => "name another directory (--runtime-dir, M3_RUNTIME_DIR)",
                };
                Self::OtherUser { path, uid, next }
            }
            other => Self::Directory(other),
        }
    }
}

pub(super) fn failed(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> RuntimeDirectoryError {
    let path = path.to_owned();
    move |cause| RuntimeDirectoryError::System { action, path, cause }
}
