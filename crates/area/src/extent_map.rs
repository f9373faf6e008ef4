//! The plan of an area: which extent is whose, as the node daemon tells it.

use crate::claim::Span;
use crate::words::UNIT_BYTES;
use std::collections::BTreeMap;

/// A piece of an area in which one member allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The member that allocates in it.
    pub home: u16,
    /// Where it begins, in bytes from the area's beginning.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The first of its block numbers.
    pub first_number: u32,
    /// How many block numbers it has.
    pub numbers: u32,
    /// The generation that its numbers begin with.
    pub generation: u32,
}

/// All extents of an area.
#[derive(Clone, Debug, Default)]
pub struct ExtentMap {
    by_offset: BTreeMap<u64, Extent>,
    by_number: BTreeMap<u32, Extent>,
}

impl ExtentMap {
    /// Takes an extent into the plan, in place of what was there.
    pub fn add(&mut self, extent: Extent) {
        if let Some(old) = self.by_offset.insert(extent.offset, extent) {
            self.by_number.remove(&old.first_number);
        }
        self.by_number.insert(extent.first_number, extent);
    }

    /// Takes the extent that begins there out of the plan.
    pub fn remove(&mut self, offset: u64) {
        if let Some(old) = self.by_offset.remove(&offset) {
            self.by_number.remove(&old.first_number);
        }
    }

    /// Whose block has this number.
    #[must_use]
    pub fn allocator_of(&self, number: u32) -> Option<u16> {
        let (_, extent) = self.by_number.range(..=number).next_back()?;
        (number - extent.first_number < extent.numbers).then_some(extent.home)
    }

    /// Whether a place lies whole in extents of this home.
    #[must_use]
    pub fn contains(&self, home: u16, span: Span) -> bool {
        let offset = u64::from(span.offset) * UNIT_BYTES;
        let bytes = u64::from(span.units) * UNIT_BYTES;
        let Some((first, _)) = self.by_offset.range(..=offset).next_back() else { return false };
        // Over neighbouring extents of the same home, as far as they go.
        let mut end = *first;
        for (_, extent) in self.by_offset.range(first..) {
            if extent.offset != end || extent.home != home || end >= offset + bytes {
                break;
            }
            end += extent.bytes;
        }
        bytes > 0 && end >= offset + bytes
    }

    /// Beginning and end of the extents, whosever they are, that lie around this offset without a gap.
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
    fn places_and_numbers_are_looked_up_and_bounded() {
        let mut plan = ExtentMap::default();
        let extent = Extent {
            home: 3,
            offset: 4096,
            bytes: 4096,
            first_number: 64,
            numbers: 64,
            generation: 0,
        };
        plan.add(extent);
        assert_eq!(
            (plan.allocator_of(63), plan.allocator_of(64), plan.allocator_of(127)),
            (None, Some(3), Some(3))
        );
        assert_eq!(plan.allocator_of(128), None);
        assert!(plan.contains(3, Span { offset: 64, units: 64 }));
        assert!(!plan.contains(3, Span { offset: 64, units: 65 }));
        assert!(!plan.contains(3, Span { offset: 63, units: 1 }));
        assert!(!plan.contains(2, Span { offset: 64, units: 1 }));
        assert!(!plan.contains(3, Span { offset: u32::MAX, units: u32::MAX }));
        assert!(!plan.contains(3, Span { offset: 64, units: 0 }));
        plan.add(Extent { offset: 8192, first_number: 128, ..extent });
        assert!(plan.contains(3, Span { offset: 64, units: 128 }));
        assert!(!plan.contains(3, Span { offset: 64, units: 129 }));
        plan.add(Extent { offset: 12288, first_number: 192, home: 4, ..extent });
        assert!(!plan.contains(3, Span { offset: 64, units: 129 }));
        assert!(plan.contains(4, Span { offset: 192, units: 64 }));
        plan.add(Extent { offset: 20480, first_number: 256, home: 4, ..extent });
        for (offset, span) in [
            (4095, None),
            (4096, Some((4096, 16384))),
            (16383, Some((4096, 16384))),
            (16384, None),
            (20480, Some((20480, 24576))),
            (u64::MAX, None),
        ] {
            assert_eq!(plan.span(offset), span, "{offset}");
        }
        plan.remove(4096);
        assert_eq!(plan.allocator_of(64), None);
    }
}
