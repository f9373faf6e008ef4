//! Which daemon answers here: its process and program, for those who must be told.

use std::os::fd::AsFd;
use std::path::Path;

/// The daemon of this directory, as far as one may know: `pid 7, /usr/bin/m3d`.
pub(crate) fn describe(directory: &Path, socket: impl AsFd) -> String {
    // Who made the socket may be systemd; the lock names the daemon itself, to those who may read it.
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
