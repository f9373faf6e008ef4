//! The hot set: the few links that sent last. Their endpoint polls them without a mark.

use m3ipc_link::HOT_SET_MAX;

/// No link.
pub(super) const NO_LINK: u32 = u32::MAX;

/// The hot set of an endpoint, and the links that may join it.
#[derive(Debug)]
pub(super) struct HotSet {
    /// Fills from its first entry on.
    links: [u32; HOT_SET_MAX],
    next_place: usize,
    /// The link that joined the hot set last.
    likeliest: u32,
    /// The last links with a delivery that are not in the hot set.
    recent: [u32; HOT_SET_MAX],
    next_recent: usize,
}

impl Default for HotSet {
    fn default() -> Self {
        Self {
            links: [NO_LINK; HOT_SET_MAX],
            next_place: 0,
            likeliest: NO_LINK,
            recent: [NO_LINK; HOT_SET_MAX],
            next_recent: 0,
        }
    }
}

impl HotSet {
    /// The links of the hot set; after them [`NO_LINK`].
    #[inline(always)]
    pub(super) fn entries(&self) -> &[u32; HOT_SET_MAX] {
        &self.links
    }

    /// Whether this link is in the hot set.
    #[inline]
    pub(super) fn has(&self, index: u32) -> bool {
        self.links.contains(&index)
    }

    /// The links of the hot set.
    #[inline]
    pub(super) fn links(&self) -> impl Iterator<Item = u32> + '_ {
        self.links.iter().copied().take_while(|index| *index != NO_LINK)
    }

    /// The link that joined last: the likeliest sender of the next message.
    #[inline]
    pub(super) fn likeliest(&self) -> Option<u32> {
        Some(self.likeliest).filter(|index| *index != NO_LINK)
    }

    /// Records a delivery from this link. A link that delivers twice in a short time joins the hot
    /// set: `Some` with its place and the link that had it before, or [`NO_LINK`].
    #[inline]
    pub(super) fn record(&mut self, index: u32) -> Option<(usize, u32)> {
        if self.links.contains(&index) {
            return None;
        }
        if !self.recent.contains(&index) {
            self.recent[self.next_recent] = index;
            self.next_recent = (self.next_recent + 1) % HOT_SET_MAX;
            return None;
        }
        let place = self.next_place;
        self.next_place = (place + 1) % HOT_SET_MAX;
        self.likeliest = index;
        Some((place, std::mem::replace(&mut self.links[place], index)))
    }
}
