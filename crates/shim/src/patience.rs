//! What this process has learnt of its rings: how long a new connection waits for one.
//!
//! A connection that ends in a rest has paid for its pair, for some messages on changing routes,
//! and for nothing. Where the connections of a process rest one after the other, further ones make
//! more calls before they search for their peer: four times as many after each [`RESTS`] rests in a
//! row, up to [`FACTOR_MAX`]. One connection in [`PROBE`] searches as early as ever. Where a ring
//! pays, all others follow at their next call: the number is asked at each call.
//!
//! A ring pays where a direction has all points for it (see `connection::wakeup_share`). A spin
//! that found what it waited for pays, too: a direction at rest may gain by it.

use core::sync::atomic::{AtomicU32, Ordering};

/// Rests in a row that make the wait four times as long.
const RESTS: u32 = 4;
/// The longest wait, in place of one call.
const FACTOR_MAX: u32 = 1 << (2 * STEPS);
/// Times that the wait becomes longer.
const STEPS: u32 = 5;
/// One connection in so many does not wait for longer.
const PROBE: u32 = 16;
/// Spins that pay, and make up for one rest.
const HITS: u32 = 64;

/// Rests since a ring paid, at most `RESTS * STEPS`.
static FRUITLESS: AtomicU32 = AtomicU32::new(0);
static SPIN_HITS: AtomicU32 = AtomicU32::new(0);
static CONNECTIONS: AtomicU32 = AtomicU32::new(0);

// Two threads may count one event: the numbers need not be exact.

/// A direction begins to rest.
pub fn note_rest() {
    let rests = FRUITLESS.load(Ordering::Relaxed);
    FRUITLESS.store((rests + 1).min(RESTS * STEPS), Ordering::Relaxed);
}

/// A ring pays.
#[inline]
pub fn note_gain() {
    if FRUITLESS.load(Ordering::Relaxed) != 0 {
        FRUITLESS.store(0, Ordering::Relaxed);
    }
}

/// A spin found what it waited for.
pub fn note_spin_hit() {
    let rests = FRUITLESS.load(Ordering::Relaxed);
    if rests == 0 {
        return;
    }
    let hits = SPIN_HITS.load(Ordering::Relaxed).wrapping_add(1);
    SPIN_HITS.store(hits, Ordering::Relaxed);
    if hits.is_multiple_of(HITS) {
        FRUITLESS.store(rests - 1, Ordering::Relaxed);
    }
}

/// Whether a new connection waits no longer than the first ones did.
pub fn is_probe() -> bool {
    let before = CONNECTIONS.load(Ordering::Relaxed);
    CONNECTIONS.store(before.wrapping_add(1), Ordering::Relaxed);
    before.is_multiple_of(PROBE)
}

/// The calls that a connection makes at present in place of one, before it searches.
#[inline]
pub fn factor() -> u32 {
    let steps = FRUITLESS.load(Ordering::Relaxed) / RESTS;
    if steps < STEPS { 1 << (2 * steps) } else { FACTOR_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test: all of them share the numbers of the process.
    #[test]
    fn connections_wait_for_longer_where_rings_do_not_pay() {
        note_gain();
        assert_eq!(factor(), 1);
        let factors: Vec<u32> = (0..30)
            .map(|_rest| {
                note_rest();
                factor()
            })
            .collect();
        assert_eq!((factors[2], factors[3], factors[7], factors[29]), (1, 4, 16, FACTOR_MAX));
        (0..HITS * RESTS).for_each(|_hit| note_spin_hit());
        assert_eq!(factor(), FACTOR_MAX / 4);
        assert_eq!((0..PROBE).filter(|_connection| is_probe()).count(), 1);
        note_gain();
        note_spin_hit();
        assert_eq!(factor(), 1);
    }
}
