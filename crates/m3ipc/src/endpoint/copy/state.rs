//! What an endpoint remembers of copies: as a party, and as a requester.

use super::grants::Entry;
use super::lend::Lent;
use super::shared::Common;
use m3ipc_link::BounceBuffer;
use m3ipc_sys::{MemoryRange, OwnCopy};

/// What an endpoint remembers of copies, whoever the peers.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct Copies {
    /// Links over which a peer may copy with this endpoint while it waits.
    pub(super) berths: Vec<u32>,
    /// Those with a window.
    pub(super) served: Vec<u32>,
    /// It is in a call in which it may be copied with.
    pub(super) may_be_copied: bool,
    /// It lies still now.
    pub(super) parked: bool,
    /// The link whose command is being served.
    pub(super) active: Option<u32>,
    /// What requesters look for to know this process by.
    pub(super) probe: Option<Box<[u64; 2]>>,
    /// Leases and grants are needed also within one user.
    pub(super) granted_only: bool,
    /// Bytes that the last copy of this endpoint has copied.
    pub(super) copied: u64,
    /// Bytes that were copied before, by copies and as large payloads.
    earlier: u64,
    pub(super) lent: Lent,
    pub(super) grants: Vec<Entry>,
    pub(super) own: OwnCopy,
    /// What goes between two other processes goes through here.
    pub(super) bounce: Option<Box<[u8]>>,
}

impl Copies {
    pub(in crate::endpoint) fn new(granted_only: bool) -> Self {
        Self { granted_only, ..Self::default() }
    }

    /// A copy begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.earlier += self.copied;
        self.copied = 0;
    }

    /// A payload was copied into a block, or out of one.
    pub(in crate::endpoint) fn payload_copied(&mut self, bytes: usize) {
        self.earlier += bytes as u64;
    }

    /// Bytes of all copies up to now.
    pub(super) fn total(&self) -> u64 {
        self.earlier + self.copied
    }

    /// What is lent in the present call is lent to the peer of this link from now on.
    #[inline]
    pub(in crate::endpoint) fn lent_to(&mut self, index: u32) {
        self.lent.pass_to(index);
    }
}

/// What a process is known by: its number is another's, once it has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) address: u64,
    pub(super) value: [u64; 2],
}

/// What a requester remembers of one peer.
#[derive(Debug, Default)]
pub(in crate::endpoint) struct Copying {
    /// Whether the kernel lets this process copy the peer's memory; unknown before the first copy.
    pub(super) direct: Option<bool>,
    /// The kernel allowed it first and refused it later.
    pub(super) refused: bool,
    /// What the peer's process is known by.
    pub(super) probe: Probe,
    /// When it was last known by it.
    pub(super) known_ticks: u64,
    /// Ranges of the peer's memory whose pages answer by themselves.
    pub(super) ranges: Vec<MemoryRange>,
    pub(super) window: Option<BounceBuffer>,
    /// Memory of an area that both have.
    pub(super) common: Option<Common>,
}

impl Copying {
    /// Whether all of this lies in ranges that answer.
    #[inline]
    pub(super) fn vouches(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let mut from = address;
        // Ranges are in order; neighbours that both answer are one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_vouch_for_what_they_cover() {
        let range = |start, end| MemoryRange { start, end, never_blocks: true };
        let copying = Copying {
            ranges: vec![range(10, 20), range(20, 30), range(40, 50)],
            ..Copying::default()
        };
        for (address, bytes, vouched) in [
            (10, 10, true),
            (10, 20, true),
            (12, 1, true),
            (25, 6, false),
            (9, 2, false),
            (30, 1, false),
            (40, 10, true),
        ] {
            assert_eq!(copying.vouches(address, bytes), vouched, "{address} {bytes}");
        }
        assert!(!copying.vouches(u64::MAX, 2));
    }
}
