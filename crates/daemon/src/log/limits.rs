//! Bounds of the lines that a user causes at will, so that no user fills the log or keeps the
//! daemon busy with it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The lines that one user may cause at once.
const BURST: u32 = 16;
/// The time after which a user may cause one more line.
const LINE_NS: u64 = 5_000_000_000;
/// The number of users with a count. A flood of more users counts anew.
const USERS_MAX: usize = 4_096;

/// The lines of one user.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    lines: u32,
    at_ns: u64,
    is_told: bool,
}

/// The lines of all users.
#[derive(Debug, Default)]
struct LogLimits(HashMap<u32, Allowance>);

/// Whether a line may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Write,
    /// This is the first line that is left out.
    Last,
    LeaveOut,
}

impl LogLimits {
    fn verdict(&mut self, uid: u32, now_ns: u64) -> Verdict {
        if self.0.len() >= USERS_MAX && !self.0.contains_key(&uid) {
            self.0.clear();
        }
        let full = Allowance { lines: BURST, at_ns: now_ns, is_told: false };
        let user = self.0.entry(uid).or_insert(full);
        let grown = now_ns.saturating_sub(user.at_ns) / LINE_NS;
        if grown > 0 {
            user.lines =
                user.lines.saturating_add(u32::try_from(grown).unwrap_or(BURST)).min(BURST);
            user.at_ns = now_ns;
        }
        if user.lines > 0 {
            user.lines -= 1;
            user.is_told = false;
            return Verdict::Write;
        }
        if std::mem::replace(&mut user.is_told, true) { Verdict::LeaveOut } else { Verdict::Last }
    }
}

/// Whether a line that this user caused may be written. The first line that is left out is
/// announced.
pub(crate) fn admits(uid: u32) -> bool {
    static LIMITS: Mutex<Option<LogLimits>> = Mutex::new(None);
    let mut limits = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = limits.get_or_insert_with(LogLimits::default);
    match limits.verdict(uid, m3ipc_sys::monotonic_ns()) {
        Verdict::Write => true,
        Verdict::Last => {
            tracing::warn!(uid, "a user causes too many lines of the log; some are left out");
            false
        }
        Verdict::LeaveOut => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_causes_a_few_lines_and_one_more_after_a_while() {
        let mut limits = LogLimits::default();
        let written = |limits: &mut LogLimits, uid, now_ns| {
            (0..1_000).filter(|_| limits.verdict(uid, now_ns) == Verdict::Write).count()
        };
        assert_eq!(written(&mut limits, 7, 0), BURST as usize);
        assert_eq!(limits.verdict(7, 0), Verdict::LeaveOut, "announced before");
        assert_eq!(written(&mut limits, 8, 0), BURST as usize, "another user");
        assert_eq!(written(&mut limits, 7, LINE_NS), 1);
        assert_eq!(written(&mut limits, 7, 1_000 * LINE_NS), BURST as usize);
    }
}
