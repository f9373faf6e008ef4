//! Bounds of the lines that a user causes at will.

use m3ipc_sys::{LineLimits, LineVerdict};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Whether a line that this user caused may be written. The first line that is left out is
/// announced.
pub(crate) fn admits(uid: u32) -> bool {
    static LIMITS: LazyLock<Mutex<LineLimits<u32>>> = LazyLock::new(Mutex::default);
    let mut limits = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
    match limits.verdict(uid, m3ipc_sys::monotonic_ns()) {
        LineVerdict::Write => true,
        LineVerdict::Last => {
            tracing::warn!(uid, "a user causes too many lines of the log; some are left out");
            false
        }
        LineVerdict::LeaveOut => false,
    }
}
