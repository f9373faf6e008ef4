//! The log: lines on standard error.

use m3ipc_sys::{LineLimits, LineVerdict};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Writes a line to standard error. The supervisor neither waits nor ends where nobody reads it.
pub(crate) fn say(line: &str) {
    m3ipc_sys::report!("m3-supervise: {line}");
}

/// The same for a line that a client causes at will: a user causes a few lines.
pub(crate) fn say_for(uid: u32, line: &str) {
    static LIMITS: LazyLock<Mutex<LineLimits<u32>>> = LazyLock::new(Mutex::default);
    let verdict = {
        let mut limits = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
        limits.verdict(uid, m3ipc_sys::monotonic_ns())
    };
    match verdict {
        LineVerdict::Write => say(line),
        LineVerdict::Last => say(&format!("user {uid} causes too many lines; some are left out")),
        LineVerdict::LeaveOut => {}
    }
}
