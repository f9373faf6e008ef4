//! The process and the program of the daemon, for error texts.

use std::os::fd::AsFd;
use std::path::Path;

/// Describes the daemon of this directory, for instance `pid 7, /usr/bin/m3d`.
pub(crate) fn describe(directory: &Path, socket: impl AsFd) -> String {
    // systemd may have made the socket, so the lock file comes first: it names the daemon itself.
    // Only some users may read it.
    let locked = std::fs::read_to_string(directory.join("lock")).ok();
    let locked = locked.and_then(|pid| pid.trim().parse::<i32>().ok());
    let pid = locked.or_else(|| m3ipc_sys::peer_identity(socket).ok().map(|identity| identity.pid));
    let Some(pid) = pid else { return "its pid is not known here".to_owned() };
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    match words.split(|byte| *byte == 0).next() {
        Some(program) if !program.is_empty() => {
            format!("pid {pid}, {}", String::from_utf8_lossy(program))
        }
        _ => format!("pid {pid}"),
    }
}
