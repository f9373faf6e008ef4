//! The timers of an endpoint, by the monotonic clock.
//!
//! A timer that ran out has one pulse to deliver. Until the delivery, further ends of a periodic
//! timer count: none is lost, and none takes room.

use super::received::Pulse;
use super::waiting_arrivals::Ticket;

/// The limit of timers of one endpoint.
pub(super) const TIMERS_MAX: usize = 64;

/// The timers of an endpoint.
#[derive(Debug, Default)]
pub(super) struct TimerList {
    timers: Vec<Timer>,
    last_id: u32,
    /// How many timers have a pulse to deliver.
    due: usize,
}

#[derive(Debug)]
struct Timer {
    id: u32,
    pulse: Pulse,
    /// The next end; `u64::MAX` after the end of a timer without a period.
    ends_ns: u64,
    /// 0 without a period.
    period_ns: u64,
    /// The ends that have not been delivered.
    ends: u32,
    /// The first of them.
    since_ns: u64,
    ticket: Ticket,
}

impl TimerList {
    /// Adds a timer, and returns its number. `None` at the limit.
    pub(super) fn add(&mut self, pulse: Pulse, ends_ns: u64, period_ns: u64) -> Option<u32> {
        if self.timers.len() >= TIMERS_MAX {
            return None;
        }
        let id = self.next_id();
        self.timers.push(Timer { id, pulse, ends_ns, period_ns, ends: 0, since_ns: 0, ticket: 0 });
        Some(id)
    }

    /// The next number: above 0, in the range of an int of C, and not in use.
    fn next_id(&mut self) -> u32 {
        loop {
            self.last_id = self.last_id % i32::MAX.unsigned_abs() + 1;
            if self.timers.iter().all(|timer| timer.id != self.last_id) {
                return self.last_id;
            }
        }
    }

    /// Removes a timer, with the pulse that it has to deliver. `false` if there is no such timer.
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let Some(at) = self.timers.iter().position(|timer| timer.id == id) else { return false };
        self.due -= usize::from(self.timers.remove(at).ends != 0);
        true
    }

    /// Whether there is any timer.
    #[inline]
    pub(super) fn is_armed(&self) -> bool {
        !self.timers.is_empty()
    }

    /// Whether a timer has a pulse to deliver, by the last [`run`](Self::run).
    #[inline]
    pub(super) fn has_due(&self) -> bool {
        self.due != 0
    }

    /// The next end of a timer; `u64::MAX` without one.
    pub(super) fn next_end_ns(&self) -> u64 {
        self.timers.iter().map(|timer| timer.ends_ns).min().unwrap_or(u64::MAX)
    }

    /// Whether the timer of this ticket has a pulse to deliver.
    pub(super) fn has_ticket(&self, ticket: Ticket) -> bool {
        self.timers.iter().any(|timer| timer.ends != 0 && timer.ticket == ticket)
    }

    /// Counts the ends up to now. A timer that has a pulse to deliver from now on gets a ticket.
    pub(super) fn run(&mut self, now_ns: u64, mut ticket: impl FnMut() -> Ticket) {
        for timer in self.timers.iter_mut().filter(|timer| timer.ends_ns <= now_ns) {
            if timer.ends == 0 {
                (timer.since_ns, timer.ticket) = (timer.ends_ns, ticket());
                self.due += 1;
            }
            let ends = match timer.period_ns {
                0 => 1,
                period_ns => ((now_ns - timer.ends_ns) / period_ns).saturating_add(1),
            };
            timer.ends = timer.ends.saturating_add(u32::try_from(ends).unwrap_or(u32::MAX));
            timer.ends_ns = match timer.period_ns {
                0 => u64::MAX,
                period_ns => timer.ends_ns.saturating_add(ends.saturating_mul(period_ns)),
            };
        }
    }

    /// Takes the pulse of the timer that ran out first, with the number of its ends.
    pub(super) fn take(&mut self) -> Option<(Pulse, u32)> {
        let due = self.timers.iter_mut().enumerate().filter(|(_, timer)| timer.ends != 0);
        let (at, timer) = due.min_by_key(|(_, timer)| timer.since_ns)?;
        let taken = (timer.pulse, std::mem::take(&mut timer.ends));
        self.due -= 1;
        if timer.period_ns == 0 {
            self.timers.remove(at);
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(code: u8) -> Pulse {
        Pulse { code, value: 0 }
    }

    #[test]
    fn timers_deliver_in_the_order_of_their_ends() {
        let mut timers = TimerList::default();
        timers.add(pulse(1), 30, 0);
        timers.add(pulse(2), 10, 0);
        assert_eq!((timers.next_end_ns(), timers.is_armed(), timers.has_due()), (10, true, false));
        timers.run(40, || 1);
        assert!(timers.has_due());
        assert_eq!(timers.take(), Some((pulse(2), 1)));
        assert_eq!(timers.take(), Some((pulse(1), 1)));
        assert_eq!((timers.take(), timers.is_armed(), timers.has_due()), (None, false, false));
    }

    #[test]
    fn a_periodic_timer_counts_the_ends_that_nobody_took() {
        let mut timers = TimerList::default();
        let id = timers.add(pulse(3), 10, 5).unwrap();
        timers.run(9, || 1);
        assert_eq!(timers.take(), None);
        timers.run(10, || 1);
        timers.run(27, || 1);
        assert_eq!(timers.take(), Some((pulse(3), 4)), "at 10, 15, 20 and 25");
        assert_eq!(timers.next_end_ns(), 30);
        timers.run(30, || 1);
        assert!(timers.remove(id) && !timers.remove(id));
        assert_eq!(
            (timers.take(), timers.has_due(), timers.next_end_ns()),
            (None, false, u64::MAX)
        );
    }

    #[test]
    fn no_time_and_no_number_of_timers_is_too_large() {
        let mut timers = TimerList::default();
        timers.add(pulse(4), 0, 1);
        timers.run(u64::MAX, || 1);
        assert_eq!(timers.take(), Some((pulse(4), u32::MAX)));
        while timers.add(pulse(5), u64::MAX, 0).is_some() {}
        assert_eq!(timers.timers.len(), TIMERS_MAX);
    }
}
