//! The extent map of an area: the extents and their allocator members, from daemon events.

use crate::claim::Span;
use crate::words::UNIT_BYTES;
use m3ipc_abi::Extent;
use std::collections::BTreeMap;

/// All extents of an area.
#[derive(Clone, Debug, Default)]
pub struct ExtentMap {
    by_offset: BTreeMap<u64, Extent>,
    by_number: BTreeMap<u32, Extent>,
}

impl ExtentMap {
    /// Adds an extent. It replaces an extent with the same first byte.
    pub fn add(&mut self, extent: Extent) {
        if let Some(old) = self.by_offset.insert(extent.offset, extent) {
            self.by_number.remove(&old.first_number);
        }
        self.by_number.insert(extent.first_number, extent);
    }

    /// Removes the extent that begins at `offset`.
    pub fn remove(&mut self, offset: u64) {
        if let Some(old) = self.by_offset.remove(&offset) {
            self.by_number.remove(&old.first_number);
        }
    }

    /// The allocator member of the block of this number.
    #[must_use]
    pub fn allocator_of(&self, number: u32) -> Option<u16> {
        let (_, extent) = self.by_number.range(..=number).next_back()?;
        (number - extent.first_number < extent.numbers).then_some(extent.allocator)
    }

    /// Whether a span lies entirely in extents of this allocator member.
    #[must_use]
    pub fn contains(&self, allocator: u16, span: Span) -> bool {
        let offset = u64::from(span.offset) * UNIT_BYTES;
        let bytes = u64::from(span.units) * UNIT_BYTES;
        let Some((first, _)) = self.by_offset.range(..=offset).next_back() else { return false };
        // Follow adjacent extents of the same allocator member.
        let mut end = *first;
        for (_, extent) in self.by_offset.range(first..) {
            if extent.offset != end || extent.allocator != allocator || end >= offset + bytes {
                break;
            }
            end += extent.bytes;
        }
        bytes > 0 && end >= offset + bytes
    }

    /// Begin and end of the adjacent extents of any members around this offset.
    #[must_use]
    pub fn span(&self, offset: u64) -> Option<(u64, u64)> {
        let (_, at) = self.by_offset.range(..=offset).next_back()?;
        let (mut start, mut end) = (at.offset, at.offset + at.bytes);
        if offset >= end {
            return None;
        }
        for extent in self.by_offset.range(..start).rev().map(|(_, extent)| extent) {
            if extent.offset + extent.bytes != start {
                break;
            }
            start = extent.offset;
        }
        for extent in self.by_offset.range(end..).map(|(_, extent)| extent) {
            if extent.offset != end {
                break;
            }
            end += extent.bytes;
        }
        Some((start, end))
    }

    /// All extents, by offset.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.by_offset.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_numbers_are_found_and_bounded() {
        let mut map = ExtentMap::default();
        let extent = Extent {
            allocator: 3,
            offset: 4096,
            bytes: 4096,
            first_number: 64,
            numbers: 64,
            generation: 0,
        };
        map.add(extent);
        assert_eq!(
            (map.allocator_of(63), map.allocator_of(64), map.allocator_of(127)),
            (None, Some(3), Some(3))
        );
        assert_eq!(map.allocator_of(128), None);
        assert!(map.contains(3, Span { offset: 64, units: 64 }));
        assert!(!map.contains(3, Span { offset: 64, units: 65 }));
        assert!(!map.contains(3, Span { offset: 63, units: 1 }));
        assert!(!map.contains(2, Span { offset: 64, units: 1 }));
        assert!(!map.contains(3, Span { offset: u32::MAX, units: u32::MAX }));
        assert!(!map.contains(3, Span { offset: 64, units: 0 }));
        map.add(Extent { offset: 8192, first_number: 128, ..extent });
        assert!(map.contains(3, Span { offset: 64, units: 128 }));
        assert!(!map.contains(3, Span { offset: 64, units: 129 }));
        map.add(Extent { offset: 12288, first_number: 192, allocator: 4, ..extent });
        assert!(!map.contains(3, Span { offset: 64, units: 129 }));
        assert!(map.contains(4, Span { offset: 192, units: 64 }));
        map.add(Extent { offset: 20480, first_number: 256, allocator: 4, ..extent });
        for (offset, span) in [
            (4095, None),
            (4096, Some((4096, 16384))),
            (16383, Some((4096, 16384))),
            (16384, None),
            (20480, Some((20480, 24576))),
            (u64::MAX, None),
        ] {
            assert_eq!(map.span(offset), span, "{offset}");
        }
        map.remove(4096);
        assert_eq!(map.allocator_of(64), None);
    }
}
