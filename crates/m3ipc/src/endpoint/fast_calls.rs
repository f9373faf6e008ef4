//! Which calls of an endpoint may take the fast path.
//!
//! A peer can keep an endpoint on the slow path as long as it lives: it asks once to copy with the
//! endpoint, or leaves a large answer untaken. That costs time and harms nothing else.

use super::hot_set::NO_LINK;

/// Calls between two checks of the daemon, for endpoints that never sleep.
const CALLS_PER_CHECK: u32 = 4096;
/// The calls that a look in vain counts for: one that looks in a loop may pause in between.
const CALLS_PER_LOOK: u32 = 64;
/// Waits between two looks for the CPUs of both sides.
const WAITS_PER_CPU: u32 = 15;

/// The calls of an endpoint, and how many of them may take the fast path.
///
/// Each part of the endpoint that the fast path leaves out is looked at once. Then the fast path is
/// open until something may have changed one of them: a call of the slow path, or an event.
#[derive(Debug)]
pub(super) struct FastCalls {
    /// Calls until the next check of the daemon, without those of `open`.
    until_check: u32,
    /// Calls that may take the fast path; 0 while it is closed.
    open: u32,
    /// Whether every call takes the slow path.
    is_off: bool,
    /// Whether no arrival is queued, since the path was closed last.
    is_queue_empty: bool,
    /// The link whose peer was looked at last, and whether it was on the CPU of this endpoint.
    cpu_link: u32,
    shares_cpu: bool,
    /// Waits before the next look. Then there is no such link.
    cpu_waits: u32,
}

impl FastCalls {
    pub(super) fn new(is_off: bool) -> Self {
        Self {
            until_check: CALLS_PER_CHECK,
            open: 0,
            is_off,
            is_queue_empty: false,
            cpu_link: NO_LINK,
            shares_cpu: false,
            cpu_waits: 0,
        }
    }

    /// Closes the fast path until the parts have been looked at again.
    #[inline]
    pub(super) fn close(&mut self) {
        self.until_check += std::mem::take(&mut self.open);
        self.is_queue_empty = false;
    }

    /// Counts a call of the slow path, which closes the fast path. `true` if the daemon must be
    /// checked.
    #[inline]
    pub(super) fn count_slow(&mut self) -> bool {
        self.close();
        let left = self.until_check.saturating_sub(1);
        self.until_check = if left == 0 { CALLS_PER_CHECK } else { left };
        left == 0
    }

    /// Counts a look that found nothing and does not wait: the daemon is checked sooner.
    #[inline]
    pub(super) fn count_look(&mut self) {
        self.until_check = self.until_check.saturating_sub(CALLS_PER_LOOK - 1).max(1);
    }

    /// Counts a call of the fast path. `false` if the fast path is closed.
    #[inline]
    pub(super) fn count(&mut self) -> bool {
        match self.open.checked_sub(1) {
            Some(left) => self.open = left,
            None => return false,
        }
        true
    }

    /// Opens the fast path up to the next check of the daemon.
    pub(super) fn open(&mut self) {
        if !self.is_off {
            self.open += self.until_check.saturating_sub(1);
            self.until_check -= self.open;
        }
    }

    /// Whether surely no arrival is queued. Only calls of the slow path and events queue arrivals.
    #[inline]
    pub(super) fn is_queue_empty(&self) -> bool {
        self.is_queue_empty
    }

    /// Notes that no arrival is queued, while the fast path is open.
    pub(super) fn note_empty_queue(&mut self) {
        self.is_queue_empty = true;
    }

    /// Counts a wait. Whether the peer of this link was last seen on the CPU of this endpoint;
    /// `None` if a look is due.
    #[inline(always)]
    pub(super) fn shares_cpu_with(&mut self, index: u32) -> Option<bool> {
        if self.cpu_link != index {
            return None;
        }
        self.cpu_waits -= 1;
        if self.cpu_waits == 0 {
            self.cpu_link = NO_LINK;
        }
        Some(self.shares_cpu)
    }

    /// Notes whether the peer of this link is on the CPU of this endpoint.
    #[inline]
    pub(super) fn note_cpu(&mut self, index: u32, shares_cpu: bool) {
        (self.cpu_link, self.shares_cpu, self.cpu_waits) = (index, shares_cpu, WAITS_PER_CPU);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_is_checked_after_as_many_calls_of_both_paths() {
        let mut calls = FastCalls::new(false);
        for _round in 0..3 {
            let mut made = 0;
            loop {
                if !calls.count() {
                    calls.open();
                    if !calls.count() && calls.count_slow() {
                        break;
                    }
                }
                made += 1;
                if made % 100 == 0 {
                    calls.close();
                }
            }
            assert_eq!(made, CALLS_PER_CHECK - 1);
        }
    }

    #[test]
    fn looks_in_vain_check_the_daemon_sooner() {
        let mut calls = FastCalls::new(false);
        for _round in 0..3 {
            let mut looks = 1;
            while !calls.count_slow() {
                calls.count_look();
                looks += 1;
            }
            assert!(looks <= CALLS_PER_CHECK / CALLS_PER_LOOK + 1, "{looks}");
        }
    }

    #[test]
    fn a_closed_path_stays_closed() {
        let mut calls = FastCalls::new(false);
        calls.open();
        assert!(calls.count());
        calls.close();
        assert!(!calls.count());
        let mut off = FastCalls::new(true);
        off.open();
        assert!(!off.count());
    }
}
