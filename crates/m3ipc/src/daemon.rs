//! The process and the program of the daemon, for error texts.

use m3ipc_sys::Errno;
use std::os::fd::AsFd;
use std::path::Path;

/// Fewer open files than this starve a daemon: it needs some for itself and one for each member.
const FEW_FILES: u64 = 64;

/// Describes the daemon of this directory, for instance `pid 7, /usr/bin/m3d`.
pub(crate) fn describe(directory: &Path, socket: impl AsFd) -> String {
    process_of(directory, Some(socket)).map_or("its pid is not known here".to_owned(), description)
}

/// Whether the daemon of this directory is stopped, as far as this process can see.
pub(crate) fn is_stopped(directory: &Path, socket: Option<impl AsFd>) -> bool {
    process_of(directory, socket).is_some_and(|pid| m3ipc_sys::is_stopped(pid) == Ok(true))
}

fn process_of(directory: &Path, socket: Option<impl AsFd>) -> Option<i32> {
    // systemd may have made the socket, so the lock file comes first: it names the daemon itself.
    // Only some users may read it.
    let locked = std::fs::read_to_string(directory.join("lock")).ok();
    let locked = locked.and_then(|pid| pid.trim().parse::<i32>().ok());
    let peer = || m3ipc_sys::peer_identity(socket.ok_or(Errno::NOTCONN)?);
    locked.or_else(|| peer().ok().map(|identity| identity.pid))
}

fn description(pid: i32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    match words.split(|byte| *byte == 0).next() {
        Some(program) if !program.is_empty() => {
            format!("pid {pid}, {}", String::from_utf8_lossy(program))
        }
        _ => format!("pid {pid}"),
    }
}

/// Why a daemon does not answer in time, and the next step.
pub(crate) fn silence(directory: &Path, socket: impl AsFd) -> String {
    let Some(pid) = process_of(directory, Some(socket)) else {
        return format!(
            "the node daemon of {} does not answer in time, and its pid is not known here; ask \
             its user to continue it, or to see its log",
            directory.display()
        );
    };
    let daemon = format!("the node daemon ({}) does not answer in time", description(pid));
    if m3ipc_sys::is_stopped(pid) == Ok(true) {
        return format!("{daemon}: it is stopped; continue it with `kill -CONT {pid}`");
    }
    match open_files(pid) {
        Some(limit) if limit < FEW_FILES => format!(
            "{daemon}: its limit of open files is {limit}; end it with `kill {pid}`, and start it \
             again with a limit of at least {FEW_FILES} (`ulimit -n`)"
        ),
        _ => format!(
            "{daemon}, and it is not stopped; try again with a longer time limit, see the file \
             m3d.log in {}, or replace the daemon with `kill -9 {pid}`: its members go on",
            directory.display()
        ),
    }
}

/// The limit of open files of a process, if it has one and /proc shows it.
///
/// # Source
/// proc_pid_limits(5)
fn open_files(pid: i32) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}
