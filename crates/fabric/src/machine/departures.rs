//! Which announcements of a slot with a backup are older than its last move.
//!
//! Two nodes may have such a slot, and each one speaks to a third node on a way of its own. Those
//! of a move can overtake each other: the claim may come before all that the former node has said.
//! So each node counts how often the slot has moved away from it, and announces its endpoint with
//! that number, and with the last move of the other node that it has heard of. An announcement
//! from before that move counts for nothing, and so do the calls behind it.
//!
//! | at a node | known of | used |
//! |---|---|---|
//! | [`Departures::says`] | itself, and of the other node by its own word | what it announces |
//! | [`Departures::hears`] | either node, by the word of the other one | [`Departures::has_passed`] |
//!
//! The word of a node about the other one counts while its session lives, and for as long as a
//! connection may be silent. So a hostile node has no power over a slot after its end.

use std::collections::BTreeMap;

use m3ipc_abi::Slot;

use crate::ids::{Incarnation, NodeId, VmId};

/// A slot with a backup, and a node that may have it.
type Place = (NodeId, (VmId, Slot));

/// A life of a node, and how often the slot has moved away from it in that life.
pub(super) type Departure = (Incarnation, u32);

/// What is known of moves. It has slots with a backup alone.
#[derive(Debug, Default)]
pub(super) struct Departures {
    said: BTreeMap<Place, Departure>,
    /// With the time at which it counts no longer.
    heard: BTreeMap<Place, (Departure, Option<u64>)>,
}

impl Departures {
    /// A node says this of itself. Whether it is the first move that is known of it.
    pub(super) fn says(&mut self, place: Place, departure: Departure) -> bool {
        let known = self.last(place);
        if departure.1 > 0 && known.is_none_or(|known| known < departure) {
            self.said.insert(place, departure);
        }
        departure.1 > 0 && known.is_none()
    }

    /// The last move from a node, as it has said itself.
    pub(super) fn last(&self, place: Place) -> Option<Departure> {
        // Nothing has moved almost always.
        if self.said.is_empty() { None } else { self.said.get(&place).copied() }
    }

    /// How often the slot has moved away from a node in this life of it.
    pub(super) fn count(&self, place: Place, incarnation: Incarnation) -> u32 {
        self.last(place).filter(|(life, _)| *life == incarnation).map_or(0, |(_, count)| count)
    }

    /// The other node that may have the slot has bound an endpoint there, after this move.
    pub(super) fn hears(&mut self, place: Place, departure: Departure) {
        if self.heard.get(&place).is_none_or(|(known, _)| *known <= departure) {
            self.heard.insert(place, (departure, None));
        }
    }

    /// The session with the node that has said so has ended.
    pub(super) fn speaker_lost(&mut self, place: Place, end_ns: u64) -> bool {
        let heard = self.heard.get_mut(&place).filter(|(_, end)| end.is_none());
        heard.map(|(_, end)| *end = Some(end_ns)).is_some()
    }

    /// Ends what counts no longer.
    pub(super) fn expire(&mut self, place: Place, now_ns: u64) {
        let is_over = |(_, end): &(Departure, Option<u64>)| end.is_some_and(|end| end <= now_ns);
        if self.heard.get(&place).is_some_and(is_over) {
            self.heard.remove(&place);
        }
    }

    /// Whether the slot has moved away from a node since.
    pub(super) fn has_passed(&self, place: Place, departure: Departure, now_ns: u64) -> bool {
        let counts = |end: &Option<u64>| end.is_none_or(|end| end > now_ns);
        !self.heard.is_empty()
            && self.heard.get(&place).is_some_and(|(it, end)| *it > departure && counts(end))
    }
}
