//! The latest blocks of trips, with stamps and without in turn: what is compared is of the same moments.
//!
//! Stamps are kept of the latest trips alone (a ring forgets its oldest). On a machine that is quicker in one tenth of a second than in the next
//! the times of all others would be of another machine, so they are forgotten alike.

use crate::clock::Clock;
use crate::job::Report;

/// Trips of a block.
pub const BLOCK: usize = 16;
/// Blocks that are kept: half of them have stamps.
const BLOCKS: usize = 512;
/// Trips with stamps among them; no stamps of earlier ones count.
pub const STAMPED: usize = BLOCKS / 2 * BLOCK;

/// Whether this trip is one of a block with stamps.
#[must_use]
pub const fn is_stamped(trip: u64) -> bool {
    (trip / BLOCK as u64) % 2 == 1
}

/// The latest blocks.
#[derive(Debug)]
pub struct Window {
    blocks: Vec<(bool, [u64; BLOCK])>,
    next: usize,
}

impl Window {
    /// None yet; room for all.
    #[must_use]
    pub fn new() -> Self {
        Self { blocks: Vec::with_capacity(BLOCKS), next: 0 }
    }

    /// Keeps the ticks of a block, in place of the oldest.
    pub fn keep(&mut self, stamped: bool, ticks: [u64; BLOCK]) {
        if self.blocks.len() < BLOCKS {
            self.blocks.push((stamped, ticks));
        } else {
            self.blocks[self.next] = (stamped, ticks);
        }
        self.next = (self.next + 1) % BLOCKS;
    }

    /// The times of all, less what a look at the clock costs. The first trip of a block is not like the others.
    pub fn report(&self, clock: Clock, report: &mut Report) {
        let cost_ns = clock.cost_ns();
        for (stamped, ticks) in &self.blocks {
            let to = if *stamped { &mut report.stamped } else { &mut report.samples };
            ticks
                .iter()
                .skip(1)
                .for_each(|&ticks| to.record(clock.ns(ticks).saturating_sub(cost_ns)));
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
            let stamped = is_stamped(block * BLOCK as u64);
            window.keep(stamped, [block; BLOCK]);
        }
        assert_eq!(window.blocks.len(), BLOCKS);
        assert!(window.blocks.iter().all(|(_, ticks)| ticks[0] >= 2 * BLOCKS as u64));
        let stamped = window.blocks.iter().filter(|(stamped, _)| *stamped).count();
        assert_eq!(stamped * BLOCK, STAMPED);
    }
}
