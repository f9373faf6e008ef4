//! The looks for idle rings, whose memory goes back to the system.
//!
//! The library has no thread. A process looks in some of its sends and before it sleeps in an event
//! loop. A process that does neither keeps its large rings. One look takes a part of the rings, so
//! that no call waits for all of them; the next look goes on where it stopped.

use super::ring_extent::any_large;
use super::ring_half::Direction;
use super::socket_state::{self, SocketState, half_of};
use crate::process::limits;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use m3ipc_sys::monotonic_ns;

/// The time between two looks for idle rings, each of which may have several parts.
pub const LOOK_NS: u64 = 1_000_000_000;
/// The time between two parts of a look.
const PART_NS: u64 = 10_000_000;
/// Sockets of a part.
const SOCKETS_PER_PART: usize = 1024;
/// Rings of a part that give memory back at most.
const RINGS_PER_PART: usize = 32;
/// Sends between two readings of the clock.
const SENDS_PER_CLOCK: u32 = 256;

/// Sends with large rings.
static SENDS: AtomicU32 = AtomicU32::new(0);
/// The moment of the last part of a look.
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);
/// The socket with which the look goes on; 0 between two looks.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// In each send: looks for idle rings now and then.
#[inline]
pub(super) fn look_in_send() {
    if any_large() && SENDS.fetch_add(1, Ordering::Relaxed).is_multiple_of(SENDS_PER_CLOCK) {
        look_now_and_then(monotonic_ns());
    }
}

/// Whether a look has parts left.
#[must_use]
pub fn is_looking() -> bool {
    NEXT.load(Ordering::Relaxed) > 0
}

/// The time from one look, or part of a look, to the next one.
#[must_use]
pub fn gap_ns() -> u64 {
    if is_looking() { PART_NS } else { LOOK_NS }
}

/// Looks for idle rings, unless a thread did within the last second. Not in a process that has
/// limited its system calls.
#[cold]
pub fn look_now_and_then(now_ns: u64) {
    let last_ns = LOOKED_NS.load(Ordering::Relaxed);
    if any_large()
        && !limits::are_on()
        && now_ns.saturating_sub(last_ns) >= gap_ns()
        && LOOKED_NS.compare_exchange(last_ns, now_ns, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    {
        let from = NEXT.load(Ordering::Relaxed);
        let next = look(socket_state::all().skip(from));
        NEXT.store(next.map_or(0, |sockets| from + sockets), Ordering::Relaxed);
    }
}

/// One part of a look; the number of its sockets, where more are left.
fn look(mut states: impl Iterator<Item = &'static SocketState>) -> Option<usize> {
    let mut rings = 0;
    for socket in 0..SOCKETS_PER_PART {
        if rings == RINGS_PER_PART {
            return Some(socket);
        }
        let state = states.next()?;
        let end = state.joined_end().filter(|_| state.extent.is_large());
        let shrunk = end.is_some_and(|end| state.extent.shrink(&half_of(end, Direction::Send)));
        rings += usize::from(shrunk);
    }
    Some(SOCKETS_PER_PART)
}
