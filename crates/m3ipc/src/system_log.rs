//! The places of the node of the system: its runtime directory and its logs.

use std::path::{Path, PathBuf};

/// The runtime directory of the node of the system.
pub const SYSTEM_DIRECTORY: &str = "/run/m3";

/// The directory of the logs of the system's node.
pub const SYSTEM_LOGS: &str = "/var/log/m3";

/// The path of a log of a system's node, whose runtime directory this is, in [`SYSTEM_LOGS`], which
/// is made if it is absent. A node outside of [`SYSTEM_DIRECTORY`] has its path in the name.
///
/// ```
/// use m3ipc::runtime::{SYSTEM_DIRECTORY, log_of_system};
///
/// if let Ok(log) = log_of_system(SYSTEM_DIRECTORY.as_ref(), "m3d.log") {
///     assert_eq!(log.to_str(), Some("/var/log/m3/m3d.log"));
/// }
/// ```
///
/// # Errors
/// This user may not make the directory, or it belongs to another one, or others may write there.
pub fn log_of_system(directory: &Path, name: &str) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let logs = Path::new(SYSTEM_LOGS);
    let why = |cause: &dyn std::fmt::Display| {
        std::io::Error::other(format!("{SYSTEM_LOGS} cannot be used: {cause}"))
    };
    match std::fs::DirBuilder::new().mode(0o750).create(logs) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => return Err(why(&cause)),
        _ => {}
    }
    let found = std::fs::symlink_metadata(logs).map_err(|cause| why(&cause))?;
    if !found.is_dir() || found.uid() != m3ipc_sys::user_id() || found.mode() & 0o022 != 0 {
        return Err(why(&"it is no directory that this user alone may write"));
    }
    Ok(path_of_system_log(directory, name))
}

/// The path that [`log_of_system`] gives.
pub(crate) fn path_of_system_log(directory: &Path, name: &str) -> PathBuf {
    let logs = Path::new(SYSTEM_LOGS);
    if directory == Path::new(SYSTEM_DIRECTORY) {
        return logs.join(name);
    }
    let node = directory.to_string_lossy().replace('/', "-");
    logs.join(format!("{}-{name}", node.trim_matches('-')))
}
