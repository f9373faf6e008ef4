//! The places of the next pulses of a link.

use crate::layout::PULSES_MAX;

/// The places at which a side sends and takes its next pulse. They fit beside another byte of a
/// link, whose size stays that of a link without pulses.
#[derive(Debug, Default)]
pub(crate) struct PulsePlaces {
    pub(crate) send: u8,
    pub(crate) take: u8,
    /// The number of pulses that this side has copied and not removed.
    pub(crate) copied: u8,
}

/// The number of places.
const PLACES: u8 = 16;
const _: () = assert!(PLACES as usize == PULSES_MAX);

/// The place after this one.
pub(crate) fn after(place: u8) -> u8 {
    after_some(place, 1)
}

/// The place so many places after this one.
pub(crate) fn after_some(place: u8, places: u8) -> u8 {
    (place + places) % PLACES
}
