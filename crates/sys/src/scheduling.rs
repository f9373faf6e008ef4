//! The scheduling policy of a thread, and its level under SCHED_FIFO.
//!
//! # Safety
//! The scheduler's calls get a local structure of the type that they read or fill.
#![allow(unsafe_code)]

use crate::errno::last_error;
use rustix::io::Errno;

/// The highest level of SCHED_FIFO on Linux.
const LEVEL_MAX: i32 = 99;

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    policy: i32,
    level: i32,
}

impl Scheduling {
    /// SCHED_FIFO at this level, 1 to 99.
    #[must_use]
    pub fn fifo(level: u8) -> Self {
        Self { policy: libc::SCHED_FIFO, level: i32::from(level).clamp(1, LEVEL_MAX) }
    }

    /// The scheduling of a thread; 0 is the calling one.
    ///
    /// # Errors
    /// `SRCH` without such a thread.
    ///
    /// # Source
    /// sched_getscheduler(2), sched_getparam(2)
    pub fn of_thread(tid: i32) -> Result<Self, Errno> {
        // SAFETY: the call takes a number.
        let policy = unsafe { libc::sched_getscheduler(tid) };
        if policy < 0 {
            return Err(last_error());
        }
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: a live local of the type that the call fills.
        let got = unsafe { libc::sched_getparam(tid, &raw mut parameters) };
        let level = parameters.sched_priority;
        if got == 0 { Ok(Self { policy, level }) } else { Err(last_error()) }
    }

    /// Schedules a thread so; 0 is the calling one.
    ///
    /// # Errors
    /// `PERM` if neither a privilege nor the limit RLIMIT_RTPRIO allows it; `SRCH`; `INVAL` for a
    /// policy that has further parameters.
    ///
    /// # Source
    /// sched_setscheduler(2)
    pub fn apply_to(self, tid: i32) -> Result<(), Errno> {
        let parameters = libc::sched_param { sched_priority: self.level };
        // SAFETY: a live local of the type that the call reads.
        let set = unsafe { libc::sched_setscheduler(tid, self.policy, &raw const parameters) };
        if set == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// The level of a real-time policy; 0 for every other policy.
    #[must_use]
    pub fn level(self) -> u8 {
        u8::try_from(self.level.clamp(0, LEVEL_MAX)).unwrap_or(0)
    }
}

/// Whether a living process has this thread. The answer may be out of date at once.
#[must_use]
pub fn has_thread(pid: i32, tid: u32) -> bool {
    pid > 0 && std::fs::exists(format!("/proc/{pid}/task/{tid}")).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduling_of_a_thread_comes_back() {
        let own = Scheduling::of_thread(0).unwrap();
        own.apply_to(0).unwrap();
        match Scheduling::fifo(3).apply_to(0) {
            Ok(()) => {
                assert_eq!(Scheduling::of_thread(0), Ok(Scheduling::fifo(3)));
                assert_eq!(Scheduling::fifo(3).level(), 3);
                own.apply_to(0).unwrap();
                assert_eq!(Scheduling::of_thread(0), Ok(own));
            }
            Err(errno) => assert_eq!(errno, Errno::PERM),
        }
    }

    #[test]
    fn a_thread_belongs_to_its_process() {
        let (pid, tid) = (crate::process_id(), crate::thread_id().cast_unsigned());
        assert!(has_thread(pid, tid) && !has_thread(pid, 1 << 30) && !has_thread(-1, tid));
    }
}
