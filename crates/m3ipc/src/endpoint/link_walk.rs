//! The polls of links without a mark, in parts.
//!
//! The ready bitmap leads an endpoint to its messages, and a hostile peer may clear the bits of
//! others. So an endpoint also polls all its links, some at a time: the cost of a call does not
//! grow with the number of links. A message that only such a poll finds makes the endpoint careful:
//! for some seconds it sleeps so that no peer can take a wake-up away.

/// An endpoint polls each link once in so many ticks, at most 100 ms (a tick is a nanosecond or
/// less). A hostile peer that clears a bit delays its victim by at most that time.
const TICKS_PER_WALK: u64 = 100_000_000;
/// With many links the time grows, so that the polls take about one hundredth of it.
const TICKS_PER_LINK: u64 = 20_000;
/// Links of one part.
const PART_LINKS: usize = 32;
/// Links of a part that comes late: at most these, or this share of all.
const LATE_PART_LINKS: usize = 1_024;
const LATE_SHARE: usize = 8;
/// With more links than this, a sleep does not poll all of them before.
const POLL_ALL_LINKS_MAX: usize = 128;
/// The interval of polls of all links then.
pub(super) const FULL_POLL_NS: u64 = 50_000_000;
/// A message of this age should have had its mark.
const UNMARKED_TICKS: u64 = 3_000_000;
/// The time of care after such a message.
const CARE_NS: u64 = 10_000_000_000;

/// The progress of an endpoint's polls of all its links.
#[derive(Debug, Default)]
pub(super) struct LinkWalk {
    /// The index of the link that is polled next.
    next_index: usize,
    /// The time of the next part.
    next_ticks: u64,
    /// The time of the last poll of all links at once; 0 if such a poll is due.
    full_poll_ns: u64,
    /// The end of the time of care.
    careful_until_ns: u64,
}

impl LinkWalk {
    /// The number of links to poll now.
    #[inline]
    pub(super) fn due(&mut self, now_ticks: u64, links: usize) -> usize {
        if now_ticks < self.next_ticks || links == 0 {
            return 0;
        }
        let ticks_per_link = (TICKS_PER_WALK / links as u64).max(TICKS_PER_LINK);
        let part = PART_LINKS.min(links);
        let late = (now_ticks - self.next_ticks) / ticks_per_link;
        self.next_ticks = now_ticks.saturating_add(ticks_per_link * part as u64);
        let most = (links / LATE_SHARE).max(LATE_PART_LINKS).min(links);
        part.saturating_add(usize::try_from(late).unwrap_or(most)).min(most)
    }

    /// The index of the next link, of so many.
    pub(super) fn step(&mut self, links: usize) -> usize {
        let index = if self.next_index < links { self.next_index } else { 0 };
        self.next_index = index + 1;
        index
    }

    /// Whether all links must be polled before a sleep.
    pub(super) fn is_full_poll_due(&self, now_ns: u64, links: usize) -> bool {
        links <= POLL_ALL_LINKS_MAX || now_ns.saturating_sub(self.full_poll_ns) >= FULL_POLL_NS
    }

    /// Notes a poll of all links.
    pub(super) fn note_full_poll(&mut self, now_ns: u64) {
        self.full_poll_ns = now_ns;
    }

    /// Makes the next sleep poll all links.
    pub(super) fn poll_fully_soon(&mut self) {
        self.full_poll_ns = 0;
    }

    /// Whether a message of this time, which a poll without a mark has found, should have had a
    /// mark.
    pub(super) fn lacked_mark(now_ticks: u64, stamp: u64) -> bool {
        now_ticks.saturating_sub(stamp) > UNMARKED_TICKS
    }

    /// Notes that a mark or a wake-up was lost.
    pub(super) fn take_care(&mut self, now_ns: u64) {
        self.careful_until_ns = now_ns.saturating_add(CARE_NS);
    }

    /// Whether the endpoint relies on no mark and no shared wake word.
    pub(super) fn is_careful(&self, now_ns: u64) -> bool {
        now_ns < self.careful_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_has_its_turn_and_no_part_is_long() {
        for links in [1, 3, 32, 33, 1_000, 10_000] {
            let mut walk = LinkWalk::default();
            let (mut now, mut polled) = (1_000_000_000_000, vec![0_u32; links]);
            walk.due(now, links);
            let end = now + 3 * TICKS_PER_WALK.max(TICKS_PER_LINK * links as u64);
            while now < end {
                let due = walk.due(now, links);
                assert!(due <= PART_LINKS + 1, "{due} of {links}");
                (0..due).for_each(|_| polled[walk.step(links)] += 1);
                now += TICKS_PER_LINK;
            }
            assert!(polled.iter().all(|polls| (2..=4).contains(polls)), "{links}: {polled:?}");
        }
    }

    #[test]
    fn a_late_part_is_bounded() {
        let mut walk = LinkWalk::default();
        assert_eq!(walk.due(u64::MAX / 2, 10_000), 10_000 / LATE_SHARE);
        assert_eq!(LinkWalk::default().due(u64::MAX / 2, 2_000), LATE_PART_LINKS);
        assert_eq!(LinkWalk::default().due(u64::MAX / 2, 0), 0);
    }

    #[test]
    fn links_may_become_fewer() {
        let mut walk = LinkWalk::default();
        let found: Vec<usize> = [3, 3, 3, 2, 2].map(|links| walk.step(links)).into();
        assert_eq!(found, [0, 1, 2, 0, 1]);
    }
}
