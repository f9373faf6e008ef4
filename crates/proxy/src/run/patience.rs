//! Whether the loop polls for a while before it sleeps.
//!
//! A CPU that sleeps takes longer to wake than a whole trip over a fast network takes. So the loop
//! polls, and gives the CPU to others between two looks, as long as the next event mostly comes
//! within [`LONGEST`]. Of events that come one by one with long pauses, none makes it poll.

use std::time::Duration;

/// The longest time of polling.
pub const LONGEST: Duration = Duration::from_micros(200);
/// So many looks belong to a polling in any case. What they cost, and not the time that others have
/// the CPU between two of them, is measured against the cost of a sleep. On a CPU of its own they
/// take less than [`LONGEST`].
pub const LOOKS: u32 = 64;
/// The end of a polling whose looks take long: a peer that clears the marks of others delays their
/// messages until then.
const LONG: Duration = Duration::from_millis(5);
/// A wait below [`LONGEST`] adds one, up to the most; a longer one takes the penalty away.
const MOST: u32 = 16;
const PENALTY: u32 = 6;
/// From this score on the loop polls.
const POLLS: u32 = 4;

/// The lengths of the latest waits as a score.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience(u32);

impl Patience {
    /// Whether polling pays.
    pub fn polls(self) -> bool {
        self.0 >= POLLS
    }

    /// A wait took so long.
    pub fn waited(&mut self, time: Duration) {
        self.0 = match time < LONGEST {
            true => MOST.min(self.0 + 1),
            false => self.0.saturating_sub(PENALTY),
        };
    }
}

/// Whether a polling in vain is over, after so many looks in so much time.
pub fn is_over(looks: u32, elapsed: Duration) -> bool {
    elapsed >= LONGEST && looks >= LOOKS || elapsed >= LONG
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(waits_us: impl IntoIterator<Item = u64>) -> Patience {
        let mut patience = Patience::default();
        waits_us.into_iter().for_each(|us| patience.waited(Duration::from_micros(us)));
        patience
    }

    #[test]
    fn a_stream_of_events_is_polled_for_and_ends_with_a_few_vain_polls() {
        assert!(!after([]).polls());
        let busy = after([50; 100]);
        assert!(busy.polls());
        let mut waits = 0;
        let mut patience = busy;
        while patience.polls() {
            patience.waited(Duration::from_secs(1));
            waits += 1;
        }
        assert_eq!(waits, 3);
    }

    #[test]
    fn a_polling_lasts_some_looks_on_a_cpu_that_others_want_and_has_an_end() {
        let over_after = |look: Duration| (1..).find(|looks| is_over(*looks, look * *looks));
        assert_eq!(over_after(Duration::from_micros(2)), Some(100), "200 us of a CPU of its own");
        assert_eq!(over_after(Duration::from_micros(20)), Some(LOOKS));
        assert_eq!(over_after(Duration::from_millis(1)), Some(5));
        assert_eq!(over_after(Duration::from_millis(9)), Some(1));
    }

    #[test]
    fn single_calls_with_pauses_never_make_it_poll() {
        // A call gives two short waits on its way, and the next call comes later.
        let waits = [30, 60, 1_000].into_iter().cycle().take(3_000);
        let mut patience = Patience::default();
        for us in waits {
            patience.waited(Duration::from_micros(us));
            assert!(!patience.polls());
        }
    }
}
