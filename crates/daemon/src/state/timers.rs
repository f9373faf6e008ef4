//! Timers: what the daemon has to do at a later time.

use crate::tables::MemberId;
use crate::token::Token;
use std::collections::BTreeMap;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Close this connection if it has not sent its greeting.
    Greeting(Token),
    /// Close this connection if its member has not mapped the pages of this endpoint.
    Mapping(Token, MemberId),
    /// Look whether the owners of new endpoints have mapped their pages.
    Look,
    /// Kill the remaining members of this ending VM.
    VmGrace(i32),
    /// Unbind this endpoint if it is still in this life.
    UnbindGrace(MemberId, u64),
    /// Leave if the node is still unused.
    Idle,
    /// Look whether the socket is still in its place.
    Place,
    /// Send the queued frames of this connection again.
    Flush(Token),
    /// Go on with the scans for free extents.
    Reclaim,
    /// Accept connections again, after the system had no descriptor for one.
    Accept,
    /// Watch this process, after the system had no descriptor for that.
    WatchProcess(i32),
    /// Watch this thread of a process, after the system had no descriptor for that.
    WatchThread(i32, i32),
    /// Begin the journal again, after a record did not fit into the runtime directory.
    Journal,
}

/// All timers, by time. Times are nanoseconds of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_time: BTreeMap<(u64, u64), Timer>,
    /// Keeps timers of one time apart.
    serial: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, at_ns: u64, timer: Timer) {
        self.serial += 1;
        self.by_time.insert((at_ns, self.serial), timer);
    }

    pub(crate) fn cancel(&mut self, timer: Timer) {
        self.by_time.retain(|_, set| *set != timer);
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.by_time.values().any(|set| *set == timer)
    }

    /// The time of the next timer.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.by_time.keys().next().map(|(at_ns, _)| *at_ns)
    }

    /// Removes and returns a timer whose time has come.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Timer> {
        let first = self.by_time.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_due_in_order_of_time_and_can_be_cancelled() {
        let mut timers = Timers::default();
        timers.set(20, Timer::Idle);
        timers.set(10, Timer::Accept);
        timers.set(10, Timer::Journal);
        timers.cancel(Timer::Accept);
        assert_eq!((timers.next_ns(), timers.is_set(Timer::Accept)), (Some(10), false));
        assert_eq!(timers.take_due(9), None);
        assert_eq!(timers.take_due(10), Some(Timer::Journal));
        assert_eq!(timers.take_due(10), None);
        assert_eq!(timers.take_due(30), Some(Timer::Idle));
    }
}
