//! The state of copies between an endpoint and one peer.

use m3ipc_link::{BounceBuffer, CopyCommand, ServedBounceBuffer};
use m3ipc_shm::RegionCopier;
use m3ipc_sys::MemoryRange;

/// A copy without progress for this long has failed, in nanoseconds.
pub(super) const STALL_NS: u64 = 1_000_000_000;

/// A value in the memory of a party by which its process is recognised. A process number alone may
/// be reused.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) address: u64,
    pub(super) value: [u64; 2],
}

/// The copies of an endpoint with one peer, as a party and as a requester.
#[derive(Debug, Default)]
pub(super) struct PeerCopies {
    /// Whether the peer may copy with this endpoint.
    has_gate: bool,
    /// Its copies with this endpoint as the party, through a bounce buffer.
    party: Option<Box<PartyState>>,
    /// This endpoint's copies with it as the party.
    requester: Box<RequesterState>,
}

impl PeerCopies {
    /// Whether the peer may copy with this endpoint.
    pub(super) fn has_gate(&self) -> bool {
        self.has_gate
    }

    /// Opens the gate for the peer. A bounce buffer replaces an earlier one.
    pub(super) fn open_gate(&mut self, bounce_buffer: Option<ServedBounceBuffer>) {
        self.has_gate = true;
        if let Some(bounce_buffer) = bounce_buffer {
            self.party = Some(Box::new(PartyState::new(bounce_buffer)));
        }
    }

    /// Closes the gate for the peer, and forgets its bounce buffer.
    pub(super) fn revoke_gate(&mut self) {
        (self.has_gate, self.party) = (false, None);
    }

    /// Whether the peer has a bounce buffer, through which this endpoint copies for it.
    pub(super) fn is_served(&self) -> bool {
        self.party.is_some()
    }

    /// The state of the copies that this endpoint makes for the peer.
    pub(super) fn party(&self) -> Option<&PartyState> {
        self.party.as_deref()
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn party_mut(&mut self) -> Option<&mut PartyState> {
        self.party.as_deref_mut()
    }

    /// The state of this endpoint's copies with the peer.
    #[inline]
    pub(super) fn requester(&self) -> &RequesterState {
        &self.requester
    }

    /// The state of this endpoint's copies with the peer, to be changed.
    #[inline]
    pub(super) fn requester_mut(&mut self) -> &mut RequesterState {
        &mut self.requester
    }
}

/// The requester's state of copies with one party.
#[derive(Debug, Default)]
pub(super) struct RequesterState {
    /// Whether the kernel lets this process copy the party's memory; `None` before the first copy.
    pub(super) direct: Option<bool>,
    /// Whether the kernel refused a copy after it had allowed one.
    pub(super) refused: bool,
    /// The probe of the party.
    pub(super) probe: Probe,
    /// The time of the last successful probe.
    pub(super) known_ticks: u64,
    /// Ranges of the party's memory whose pages are surely served without another process.
    pub(super) ranges: Vec<MemoryRange>,
    pub(super) bounce_buffer: Option<BounceBuffer>,
    /// Memory of an area that both endpoints have.
    pub(super) common: Option<CommonRange>,
}

impl RequesterState {
    /// Whether all of this memory lies in served ranges.
    #[inline]
    pub(super) fn covers(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let mut from = address;
        // The ranges are in order, and adjacent ranges count as one.
        let at = self.ranges.partition_point(|range| range.end <= from);
        for range in &self.ranges[at..] {
            if range.start > from {
                return false;
            }
            from = range.end;
            if from >= end {
                return true;
            }
        }
        false
    }
}

/// The party's state of copies through one bounce buffer.
#[derive(Debug)]
pub(super) struct PartyState {
    pub(super) bounce_buffer: ServedBounceBuffer,
    pub(super) active: Option<Active>,
}

/// An accepted command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) command: CopyCommand,
    /// The start in the memory of this process.
    pub(super) base: u64,
    /// Chunks copied.
    pub(super) count: u32,
    /// The time of the last chunk, or of the command.
    pub(super) since_ns: u64,
}

impl PartyState {
    pub(super) fn new(bounce_buffer: ServedBounceBuffer) -> Self {
        Self { bounce_buffer, active: None }
    }
}

/// A range of an area that contains an address of a party, which is a member of the area.
#[derive(Debug)]
pub(super) struct CommonRange {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The count of area changes at the time of the look-up.
    pub(super) changes: u32,
    pub(super) base: u64,
    /// The copier of the region.
    pub(super) copier: RegionCopier,
}

impl CommonRange {
    #[inline]
    pub(super) fn covers(&self, address: u64, bytes: u64, changes: u32) -> bool {
        self.changes == changes
            && address >= self.start
            && address.checked_add(bytes).is_some_and(|end| end <= self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_cover_a_copy() {
        let range = |start, end| MemoryRange { start, end, never_blocks: true };
        let requester_state = RequesterState {
            ranges: vec![range(10, 20), range(20, 30), range(40, 50)],
            ..RequesterState::default()
        };
        for (address, bytes, covered) in [
            (10, 10, true),
            (10, 20, true),
            (12, 1, true),
            (25, 6, false),
            (9, 2, false),
            (30, 1, false),
            (40, 10, true),
        ] {
            assert_eq!(requester_state.covers(address, bytes), covered, "{address} {bytes}");
        }
        assert!(!requester_state.covers(u64::MAX, 2));
    }
}
