//! The latest blocks of trips, with and without stamps in turn.
//!
//! A ring keeps the stamps of the latest trips only. The speed of a machine changes within tenths
//! of a second, so the times of earlier trips are dropped, too.

use crate::clock::{Clock, monotonic_ns};
use crate::error::Error;
use crate::job::Report;
use crate::run::Run;

/// Trips of a block.
const BLOCK: usize = 16;
/// Kept blocks; half of them have stamps.
const BLOCKS: usize = 512;
/// Kept trips with stamps.
pub const STAMPED: usize = BLOCKS / 2 * BLOCK;
/// Trips before the window.
const WARM_TRIPS: u64 = 8;

/// Whether this trip belongs to a block with stamps.
pub const fn is_stamped(trip: u64) -> bool {
    (trip / BLOCK as u64) % 2 == 1
}

/// One trip of a client.
pub struct Trip {
    /// Its number.
    pub number: u64,
    /// Whether it has stamps.
    pub stamped: bool,
    /// Whether its stamps count: the first trip of a block differs from the others.
    pub counts: bool,
}

/// Makes trips until the window is over; `trip` returns the ticks of each.
pub fn drive(
    run: &Run,
    start_ns: u64,
    mut trip: impl FnMut(Trip) -> Result<u64, Error>,
) -> Result<Report, Error> {
    let mut window = Window::new();
    let (mut trips, mut until_ns) = (0_u64, None);
    loop {
        let stamped = is_stamped(trips);
        let mut ticks = [0; BLOCK];
        for (at, ticks) in ticks.iter_mut().enumerate() {
            let counts = until_ns.is_some() && stamped && at > 0;
            *ticks = trip(Trip { number: trips, stamped, counts })?;
            trips += 1;
        }
        let now_ns = monotonic_ns();
        match until_ns {
            None if now_ns >= start_ns && trips >= WARM_TRIPS => {
                until_ns = Some(now_ns + run.load().span_ns);
            }
            None => {}
            Some(until_ns) => {
                window.keep(stamped, ticks);
                if now_ns >= until_ns && window.has_both() {
                    let mut report = Report { trips, ..Report::default() };
                    window.report(run.job().clock, &mut report);
                    return Ok(report);
                }
            }
        }
    }
}

/// The latest blocks.
struct Window {
    blocks: Vec<(bool, [u64; BLOCK])>,
    next: usize,
}

impl Window {
    fn new() -> Self {
        Self { blocks: Vec::with_capacity(BLOCKS), next: 0 }
    }

    /// Whether there are trips with stamps and without: blocks take turns.
    fn has_both(&self) -> bool {
        self.blocks.len() > 1
    }

    /// Keeps a block in place of the oldest.
    fn keep(&mut self, stamped: bool, ticks: [u64; BLOCK]) {
        if self.blocks.len() < BLOCKS {
            self.blocks.push((stamped, ticks));
        } else {
            self.blocks[self.next] = (stamped, ticks);
        }
        self.next = (self.next + 1) % BLOCKS;
    }

    /// All times, less the cost of a clock read.
    fn report(&self, clock: Clock, report: &mut Report) {
        let cost_ns = clock.cost_ns();
        for (stamped, ticks) in &self.blocks {
            let to = if *stamped { &mut report.stamped } else { &mut report.samples };
            let times = ticks.iter().skip(1).map(|&ticks| clock.ns(ticks).saturating_sub(cost_ns));
            times.for_each(|ns| to.record(ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_blocks_are_kept_and_half_of_the_trips_have_stamps() {
        let mut window = Window::new();
        for block in 0..3 * BLOCKS as u64 {
            window.keep(is_stamped(block * BLOCK as u64), [block; BLOCK]);
        }
        assert_eq!(window.blocks.len(), BLOCKS);
        assert!(window.blocks.iter().all(|(_, ticks)| ticks[0] >= 2 * BLOCKS as u64));
        let stamped = window.blocks.iter().filter(|(stamped, _)| *stamped).count();
        assert_eq!(stamped * BLOCK, STAMPED);
    }
}
