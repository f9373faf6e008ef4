//! The parts of one sleep: a wait that must look at something sleeps for a part of its time.
//!
//! | reason | length of a part |
//! |---|---|
//! | a mark without an answer, for example of a sender that is stopped while it publishes | 1 ms, then twice as long each time, [`LOOK_NS`] at most |
//! | a look for lost marks | [`LOOK_NS`], then [`PART_NS`] until all slots were looked at once |
//! | a look for idle rings | a second, three times |
//! | none | the rest of the program's time |

use super::lost::{FEW, LOOK_NS, Look, PART_NS};
use super::set::Set;
use crate::connection::socket_state::any_joined;
use crate::connection::{idle_rings, ring_extent};
use crate::process::limits;
use m3ipc_sys::monotonic_ns;

/// The first part of a sleep with a mark that has no answer.
const PENDING_NS: u64 = 1_000_000;
/// Looks of one sleep for rings that become idle: each takes a second.
const RING_LOOKS: u32 = 3;

/// The time that a real wait may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// The program's own timeout.
    AsGiven,
    /// So many milliseconds; -1 is no limit.
    Milliseconds(i32),
    /// No time, and no signal that the program's mask would let in.
    Now,
}

impl Sleep {
    pub(super) fn of_ns(ns: u64) -> Self {
        Self::Milliseconds(i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX))
    }
}

/// The parts of one sleep.
#[derive(Debug)]
pub(super) struct SleepParts {
    /// The start of the first part, where there is a limit other than 0.
    start_ns: u64,
    limit_ns: Option<u64>,
    /// Whether each part begins with a look for lost marks: the set has few slots.
    looks_first: bool,
    /// Parts of a look for lost marks that are to be made.
    lost: u32,
    rings: u32,
    pending_ns: u64,
    is_first: bool,
}

/// The time of the next real wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) sleep: Sleep,
    /// Whether the sleep goes on after this part.
    pub(super) is_cut: bool,
}

impl SleepParts {
    /// The parts of a sleep that begins now.
    pub(super) fn new(set: &Set, limit_ns: Option<u64>) -> Self {
        // Without rings there is nothing to look at: the sleep is the program's own call.
        let has_rings = any_joined() && set.top() > 0;
        let looks_first = has_rings && set.top() <= FEW;
        let is_polled = has_rings && !looks_first && set.poller().is_some();
        Self {
            start_ns: 0,
            limit_ns,
            looks_first,
            lost: if is_polled { set.look_parts() } else { 0 },
            rings: RING_LOOKS,
            pending_ns: PENDING_NS,
            is_first: true,
        }
    }

    /// Before a part, while senders see a sleeper: whether the wait may sleep for long.
    pub(super) fn look_before(&self, set: &Set) -> Look {
        if self.looks_first { set.look_for_lost() } else { Look::Complete }
    }

    /// After a part without events.
    pub(super) fn look_after(&mut self, set: &Set) {
        idle_rings::look_now_and_then(monotonic_ns());
        if self.looks_first || self.lost == 0 {
            return;
        }
        self.lost -= 1;
        if set.look_for_lost() == Look::Unsettled {
            self.lost = set.look_parts();
        }
    }

    /// The next part. `is_pending` says that a mark has no answer yet.
    pub(super) fn next(&mut self, set: &Set, is_pending: bool) -> Part {
        // The first part begins with the sleep. A part follows it also where it is not cut: an
        // event of the set's own eventfd is none of the program's.
        let left_ns = if self.is_first { self.limit_ns } else { self.left_ns() };
        let part_ns =
            self.part_ns(set, is_pending).filter(|at_ns| left_ns.is_none_or(|left| *at_ns < left));
        let rest = if self.is_first {
            Sleep::AsGiven
        } else {
            left_ns.map_or(Sleep::Milliseconds(-1), Sleep::of_ns)
        };
        if self.is_first && self.limit_ns.is_some_and(|limit_ns| limit_ns > 0) {
            self.start_ns = monotonic_ns();
        }
        self.is_first = false;
        Part { sleep: part_ns.map_or(rest, Sleep::of_ns), is_cut: part_ns.is_some() }
    }

    fn part_ns(&mut self, set: &Set, is_pending: bool) -> Option<u64> {
        if limits::are_on() {
            return None;
        }
        if is_pending {
            let part_ns = self.pending_ns;
            self.pending_ns = (part_ns * 2).min(LOOK_NS);
            return Some(part_ns);
        }
        if self.lost > 0 {
            // A look begins after the longer time; so does one after a look without a result.
            return Some(if self.lost == set.look_parts() { LOOK_NS } else { PART_NS });
        }
        if self.rings > 0 && ring_extent::any_large() {
            // All parts of one look count once.
            self.rings -= u32::from(!idle_rings::is_looking());
            return Some(idle_rings::gap_ns());
        }
        None
    }

    /// A sleep for the rest of the program's time limit, without parts.
    pub(super) fn rest(&self) -> Sleep {
        // A clock of 0 is that of a sleep which has not begun, or has no limit.
        match self.left_ns() {
            Some(left_ns) if self.start_ns != 0 => Sleep::of_ns(left_ns),
            _ => Sleep::AsGiven,
        }
    }

    /// The rest of the program's time limit.
    fn left_ns(&self) -> Option<u64> {
        let limit_ns = self.limit_ns?;
        Some(limit_ns.saturating_sub(monotonic_ns().saturating_sub(self.start_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_part_has_the_rest_of_the_limit() {
        let set = Set::new();
        let mut parts = SleepParts::new(&set, Some(2_000_000_000));
        let first = parts.next(&set, false);
        assert_eq!(first, Part { sleep: Sleep::AsGiven, is_cut: false });
        let Sleep::Milliseconds(left) = parts.next(&set, false).sleep else {
            panic!("not the rest")
        };
        assert!((1000..=2000).contains(&left), "{left} ms are left of 2000");
    }

    #[test]
    fn a_limit_of_0_stays() {
        let set = Set::new();
        let mut parts = SleepParts::new(&set, Some(0));
        assert_eq!(parts.next(&set, false).sleep, Sleep::AsGiven);
        assert_eq!(parts.next(&set, false).sleep, Sleep::Milliseconds(0));
    }
}
