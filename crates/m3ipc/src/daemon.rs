//! The process and the program of the daemon, for error texts.

use crate::system_log;
use m3ipc_sys::Errno;
use std::os::fd::AsFd;
use std::path::Path;

/// Fewer open files than this starve a daemon: it needs some for itself and one for each member.
const FEW_FILES: u64 = 64;

/// The log of a daemon in the background.
const LOG: &str = "m3d.log";

/// Describes the daemon of this directory, for instance `pid 7, /usr/bin/m3d`.
pub(crate) fn describe(directory: &Path, socket: impl AsFd) -> String {
    process_of(directory, Some(socket)).map_or("its pid is not known here".to_owned(), description)
}

/// Whether the daemon of this directory is stopped, as far as this process can see.
pub(crate) fn is_stopped(directory: &Path, socket: Option<impl AsFd>) -> bool {
    process_of(directory, socket).is_some_and(|pid| m3ipc_sys::is_stopped(pid) == Ok(true))
}

fn process_of(directory: &Path, socket: Option<impl AsFd>) -> Option<i32> {
    // Only some users may read the file. Its number is one of the daemon's PID namespace, so the
    // socket comes first, unless process 1 (systemd) made it, or this process (a test).
    let locked = std::fs::read_to_string(directory.join("lock")).ok();
    let locked = locked.and_then(|pid| pid.trim().parse::<i32>().ok());
    match socket.map_or(Err(Errno::NOTCONN), m3ipc_sys::peer_identity) {
        Ok(peer) if peer.pid != 1 && peer.pid.cast_unsigned() != std::process::id() => {
            Some(peer.pid)
        }
        Ok(peer) => locked.or(Some(peer.pid)),
        // No number here names the daemon.
        Err(Errno::SRCH) => None,
        Err(_) => locked,
    }
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
            "{daemon}, and it is not stopped; try again with a longer time limit, see {}, or \
             replace the daemon with `kill -9 {pid}`: its members go on",
            log_of(directory)
        ),
    }
}

/// Where the lines of a daemon are. One in the background has a file, which this process may not be
/// allowed to see.
fn log_of(directory: &Path) -> String {
    let files = [directory.join(LOG), system_log::path_of_system_log(directory, LOG)];
    let found = files.into_iter().find(|log| log.try_exists().unwrap_or(true));
    found.map_or_else(
        || "its standard error (`journalctl -u m3d` for a unit)".to_owned(),
        |log| format!("its log {}", log.display()),
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_named_where_it_is() {
        let folder = format!("m3-log-of-{}", std::process::id());
        let directory = std::env::temp_dir().join(folder);
        std::fs::create_dir(&directory).unwrap();
        assert!(log_of(&directory).starts_with("its standard error"), "in the foreground");
        let log = directory.join(LOG);
        std::fs::write(&log, "").unwrap();
        assert_eq!(log_of(&directory), format!("its log {}", log.display()));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
