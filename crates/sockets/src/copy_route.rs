//! How bytes reach a block: through the caches of this CPU, or past them.
//!
//! A block is written again and again, and the receiver has its lines in a cache. A copy through
//! the caches takes each line from there, and the receiver then takes it from this CPU. Between two
//! CPUs without a common cache that takes about 30 ns a line, and the lines wait for each other. A
//! copy past the caches leaves the lines in memory, from which both sides stream.
//!
//! | message | route |
//! |---|---|
//! | from [`LONG_BYTES`] on | past the caches, unless the receiver is on the same CPU |
//! | from [`TIMED_BYTES`] on | past the caches while the receiver is far, else through them |
//! | shorter | through the caches |
//!
//! Whether the receiver is far, the copies through the caches tell: each takes a time until its
//! lines belong to this CPU and are published. While it is far, one copy of [`PAST_IN_TURN`] goes
//! through the caches and tells whether it still is. The host of a virtual machine moves CPUs.

/// From this length on a message goes past the caches: a near receiver takes it as soon, too.
const LONG_BYTES: usize = 8192;
/// From this length on a piece is timed, and goes past the caches to a far receiver.
const TIMED_BYTES: usize = 1024;
/// A copy and its publication take this time in ticks, and more for each line, where the receiver
/// is far. Near ones take less than half, far ones twice as much.
const FAR_TICKS: u64 = 400;
const FAR_TICKS_PER_LINE: u64 = 32;
const LINE_BYTES: u64 = 64;
/// Slow copies less fast ones, at most, and the number from which the receiver is far.
const SLOW_MAX: u8 = 7;
const SLOW_FAR: u8 = 4;
/// Copies in turn past the caches, before one goes through them and is timed.
const PAST_IN_TURN: u8 = 32;

/// The route of one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Through the caches.
    Through,
    /// Through the caches; [`CopyRoute::learn`] wants the time.
    Timed,
    /// Past the caches.
    Past,
}

/// What the sender of a direction knows about the way to its receiver.
#[derive(Debug, Default)]
pub(crate) struct CopyRoute {
    slow: u8,
    past: u8,
}

impl CopyRoute {
    /// The route of a piece of a message. `shares_cpu` tells whether the receiver was last seen on
    /// the CPU of the sender.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        message_bytes: usize,
        piece_bytes: usize,
        shares_cpu: impl FnOnce() -> bool,
    ) -> Route {
        if piece_bytes < TIMED_BYTES {
            return Route::Through;
        }
        if message_bytes >= LONG_BYTES {
            return if shares_cpu() { Route::Through } else { Route::Past };
        }
        if self.slow >= SLOW_FAR && self.past < PAST_IN_TURN {
            self.past += 1;
            return Route::Past;
        }
        self.past = 0;
        Route::Timed
    }

    /// A timed piece took this time, its publication included.
    #[inline]
    pub(crate) fn learn(&mut self, piece_bytes: usize, ticks: u64) {
        let lines = piece_bytes as u64 / LINE_BYTES;
        let is_slow = ticks > FAR_TICKS + FAR_TICKS_PER_LINE * lines;
        self.slow = if is_slow { SLOW_MAX.min(self.slow + 1) } else { self.slow.saturating_sub(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn long_messages_pass_the_caches_and_short_ones_do_not() {
        let mut route = CopyRoute::default();
        let mut choose = |message, piece, shared| route.choose(message, piece, || shared);
        assert_eq!(choose(LONG_BYTES, LONG_BYTES, false), Route::Past);
        assert_eq!(choose(LONG_BYTES, LONG_BYTES, true), Route::Through, "one CPU, one cache");
        assert_eq!(choose(LONG_BYTES, 100, false), Route::Through, "a rest of a block");
        assert_eq!(choose(TIMED_BYTES - 1, TIMED_BYTES - 1, false), Route::Through);
        assert_eq!(choose(PAGE, PAGE, false), Route::Timed);
    }

    #[test]
    fn slow_copies_lead_past_the_caches_until_quick_ones_lead_back() {
        let mut route = CopyRoute::default();
        let choose = |route: &mut CopyRoute| route.choose(PAGE, PAGE, || false);
        // A page fault now and then is no far receiver.
        for ticks in [50_000, 700, 700, 50_000, 700] {
            assert_eq!(choose(&mut route), Route::Timed);
            route.learn(PAGE, ticks);
        }
        let mut timed_of_99 = |ticks| {
            let mut timed = 0;
            for _ in 0..99 {
                if choose(&mut route) == Route::Timed {
                    timed += 1;
                    route.learn(PAGE, ticks);
                }
            }
            timed
        };
        assert!(timed_of_99(5_600) < 9, "the receiver is far");
        let _ = timed_of_99(800) + timed_of_99(800);
        assert_eq!(timed_of_99(800), 99, "the receiver is near again");
    }
}
