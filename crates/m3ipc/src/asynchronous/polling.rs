//! Polls before a sleep: a task looks for news without the doorbell for as long as that pays.
//!
//! A sleep costs both sides: the peer rings by a system call, and the runtime wakes up. So a task
//! that finds nothing first polls on, and lets other tasks run in between. Before it sleeps, it
//! polls once more with the doorbell armed.
//!
//! | what came | the next polls last |
//! |---|---|
//! | news during the polls | twice as long, 40 us at most |
//! | news soon after the sleep began | 40 us |
//! | news later | half as long, 2 us at least; 40 us after each eighth sleep |

/// The longest and the shortest time of polls, in ticks: about 40 us and 2 us.
const LONGEST_TICKS: u64 = 100_000;
const SHORTEST_TICKS: u64 = 5_000;
/// Polls between two chances for other tasks.
const POLLS_OF_TURN: u32 = 16;
/// Each sleep of this number tries the longest time again.
const SLEEPS_PER_TRIAL: u32 = 8;

/// What a loop does after a round of polls that found nothing; see
/// [`AsyncEndpoint::next_step`](super::AsyncEndpoint::next_step).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Poll again at once.
    Poll,
    /// Let other tasks run (`tokio::task::yield_now`), then poll again.
    Yield,
    /// Await [`AsyncEndpoint::ready`](super::AsyncEndpoint::ready), then poll again.
    Sleep,
}

/// How long polls have paid so far.
#[derive(Debug)]
pub(super) struct Polling {
    time_ticks: u64,
    /// When the first of the present polls found nothing.
    begun_ticks: Option<u64>,
    /// When the present sleep began.
    asleep_ticks: Option<u64>,
    polls: u32,
    sleeps: u32,
    /// The next poll is the last one before a sleep.
    is_last: bool,
}

impl Polling {
    pub(super) fn new() -> Self {
        Self {
            time_ticks: LONGEST_TICKS,
            begun_ticks: None,
            asleep_ticks: None,
            polls: 0,
            sleeps: 0,
            is_last: false,
        }
    }

    /// Whether the next poll leaves the doorbell alone: a further one follows it.
    pub(super) fn is_silent(&self) -> bool {
        !self.is_last
    }

    pub(super) fn note_news(&mut self, now: u64) {
        let begun = self.begun_ticks.take();
        self.time_ticks = match self.asleep_ticks.take() {
            Some(asleep) if now.wrapping_sub(asleep) < LONGEST_TICKS => LONGEST_TICKS,
            Some(_) if self.sleeps.is_multiple_of(SLEEPS_PER_TRIAL) => LONGEST_TICKS,
            Some(_) => (self.time_ticks / 2).max(SHORTEST_TICKS),
            None if begun.is_some() => (self.time_ticks * 2).min(LONGEST_TICKS),
            None => self.time_ticks,
        };
        (self.polls, self.is_last) = (0, false);
    }

    pub(super) fn next_step(&mut self, now: u64) -> NextStep {
        if self.is_last {
            (self.is_last, self.polls) = (false, 0);
            self.asleep_ticks = Some(now);
            // Polls after a wake-up that brings nothing here begin anew.
            self.begun_ticks = None;
            self.sleeps = self.sleeps.wrapping_add(1);
            return NextStep::Sleep;
        }
        let begun = *self.begun_ticks.get_or_insert(now);
        if now.wrapping_sub(begun) >= self.time_ticks {
            self.is_last = true;
            return NextStep::Poll;
        }
        self.polls += 1;
        if self.polls.is_multiple_of(POLLS_OF_TURN) { NextStep::Yield } else { NextStep::Poll }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls until the sleep, a poll each 100 ticks. Returns the time, and how often others ran.
    fn sleep(polling: &mut Polling, now: &mut u64) -> (u64, usize) {
        let (begun, mut turns) = (*now, 0);
        loop {
            *now += 100;
            let was_silent = polling.is_silent();
            match polling.next_step(*now) {
                NextStep::Sleep => {
                    assert!(!was_silent, "the last poll is armed");
                    return (*now - begun, turns);
                }
                NextStep::Yield => turns += 1,
                NextStep::Poll => {}
            }
        }
    }

    #[test]
    fn polls_last_as_long_as_they_pay() {
        let (mut polling, mut now) = (Polling::new(), 1);
        let (first, turns) = sleep(&mut polling, &mut now);
        assert!(first >= LONGEST_TICKS && turns > 50);
        let mut times = vec![];
        for _ in 0..7 {
            now += 10 * LONGEST_TICKS;
            polling.note_news(now);
            times.push(sleep(&mut polling, &mut now).0);
        }
        assert!(times.is_sorted_by(|one, next| one >= next), "{times:?}");
        assert!((SHORTEST_TICKS..2 * SHORTEST_TICKS).contains(&times[6]));
        // The eighth sleep.
        now += 10 * LONGEST_TICKS;
        polling.note_news(now);
        assert!(sleep(&mut polling, &mut now).0 >= LONGEST_TICKS);
    }

    #[test]
    fn news_soon_after_the_sleep_or_during_polls_prolong_them() {
        let (mut polling, mut now) = (Polling::new(), 1);
        for _ in 0..5 {
            sleep(&mut polling, &mut now);
            now += 10 * LONGEST_TICKS;
            polling.note_news(now);
        }
        let short = polling.time_ticks;
        assert!(short < LONGEST_TICKS / 8);
        assert_eq!(polling.next_step(now), NextStep::Poll);
        polling.note_news(now);
        assert_eq!(polling.time_ticks, 2 * short);
        sleep(&mut polling, &mut now);
        polling.note_news(now + 10);
        assert_eq!(polling.time_ticks, LONGEST_TICKS);
    }
}
