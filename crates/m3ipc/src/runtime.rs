//! The runtime directory of a node: where it lies, and whose daemon may serve it.
//!
//! A process trusts its node daemon with its memory and with the identities of its peers. Any user
//! can make a directory under /tmp, and `su` or `sudo -E` leave `XDG_RUNTIME_DIR` behind. So each
//! client checks the directory and the daemon before it sends a word:
//!
//! | object | accepted |
//! |---|---|
//! | each directory on the way | of root or of the caller; sticky where others can write it |
//! | the runtime directory | of root or of the caller, no link, writable by its owner alone |
//! | [`SYSTEM_DIRECTORY`] | also of another user, where root alone can change the way to it |
//! | the daemon (`SO_PEERCRED`) | of root or of the caller; there, also of the directory's owner |
//!
//! The caller is its user only if it has no more rights than that user: its real, effective and
//! saved user and group numbers agree, it runs no set-user-ID or set-group-ID program and holds no
//! capabilities. Any other program trusts root and the system's node alone, and starts no daemon.
//!
//! Root alone can make [`SYSTEM_DIRECTORY`] or give it away. Its owner is therefore the user that
//! root configured for the system's daemon.

mod trust;

pub use crate::background::{BackgroundError, IN_BACKGROUND, SERVES, serve_in_background};
pub use crate::spawn::check_program;
pub use crate::system_log::{SYSTEM_DIRECTORY, SYSTEM_LOGS, log_of_system};
pub use trust::{ConnectError, DirectoryError, check, connect, connect_stream, make};

pub(crate) use trust::connect_within;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The runtime directory of this process: the first of
///
/// 1. `M3_RUNTIME_DIR`,
/// 2. [`SYSTEM_DIRECTORY`] if a daemon runs there,
/// 3. `$XDG_RUNTIME_DIR/m3`,
/// 4. `/tmp/m3-UID`.
///
/// A program with more rights than its caller (set-user-ID, file capabilities) ignores both
/// variables.
///
/// ```
/// println!("{}", m3ipc::runtime::directory().display());
/// ```
#[must_use]
pub fn directory() -> PathBuf {
    if let Some(named) = m3ipc_sys::variable("M3_RUNTIME_DIR") {
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
    match m3ipc_sys::variable("XDG_RUNTIME_DIR") {
        Some(base) => PathBuf::from(base).join("m3"),
        None => PathBuf::from(format!("/tmp/m3-{}", m3ipc_sys::user_id())),
    }
}

/// Why the daemon of a connection does not answer in time, and the next step: its pid, and whether
/// it is stopped.
///
/// ```
/// # let node = m3ipc::test::node();
/// let socket = m3ipc::runtime::connect(node.directory())?;
/// println!("{}", m3ipc::runtime::why_silent(node.directory(), socket));
/// # Ok::<(), m3ipc::runtime::ConnectError>(())
/// ```
#[must_use]
pub fn why_silent(directory: &Path, connection: impl AsFd) -> String {
    crate::daemon::silence(directory, connection)
}

/// The socket of the daemon in a runtime directory. Connect to it with [`connect`], which checks
/// the daemon.
///
/// ```
/// let socket = m3ipc::runtime::socket("/run/m3".as_ref());
/// assert!(socket.starts_with("/run/m3"));
/// ```
#[must_use]
pub fn socket(directory: &Path) -> PathBuf {
    directory.join(m3ipc_wire::SOCKET_NAME)
}
