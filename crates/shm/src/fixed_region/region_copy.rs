//! Passages: bytes that a process copies into, out of or across the ground of an area by itself.
//!
//! Only what nobody in this process uses is copied so: as long as a passage lasts no tract is given
//! out, so each is short. Whoever finds a range in use copies by the kernel, or not at all.
//!
//! # Safety
//! A range lies inside the mapping, is not forbidden, and overlaps no tract of this process that
//! writes, nor any where it is written; so no reference of this process sees it change. Other
//! processes may write there meanwhile, as everywhere in an area.

use super::{FixedRegion, Ranges};
use core::ptr::NonNull;
use m3ipc_sys::{CopySource, CopyTarget};
use std::sync::PoisonError;

impl FixedRegion {
    /// Copies bytes to an offset of the ground; `false`, with nothing copied, where this process may not
    /// write all of that, or uses some of it, or where the bytes are not surely there.
    #[must_use]
    pub fn copy_in(&self, offset: u64, from: &CopySource<'_>) -> bool {
        let ranges = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(to) = self.clear(&ranges, offset, from.bytes(), true) else { return false };
        if !from.is_sure() {
            return false;
        }
        // SAFETY: `from` is readable, as `is_sure` says, and `to` is writable and in nobody's use, as above.
        unsafe { to.as_ptr().copy_from(from.start(), from.bytes()) };
        true
    }

    /// Copies bytes from an offset of the ground; `false` as [`copy_in`](Self::copy_in).
    #[must_use]
    pub fn copy_out(&self, offset: u64, into: &CopyTarget<'_>) -> bool {
        let ranges = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(from) = self.clear(&ranges, offset, into.bytes(), false) else { return false };
        if !into.is_sure() {
            return false;
        }
        // SAFETY: `into` is writable, as `is_sure` says, and `from` is readable and nobody writes it here.
        unsafe { from.as_ptr().copy_to(into.start(), into.bytes()) };
        true
    }

    /// Copies within the ground, or to that of another area; `false` as [`copy_in`](Self::copy_in).
    #[must_use]
    pub fn copy_across(&self, offset: u64, to: &FixedRegion, to_offset: u64, bytes: usize) -> bool {
        let lock = |ground: &FixedRegion| std::ptr::from_ref(ground).addr();
        // Two locks are taken in the order of their addresses, so that nobody waits in a circle.
        let (first, second) = if lock(self) <= lock(to) { (self, to) } else { (to, self) };
        let ranges = first.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let others = (lock(first) != lock(second))
            .then(|| second.taken.lock().unwrap_or_else(PoisonError::into_inner));
        let of = |ground: &FixedRegion| match &others {
            Some(others) if lock(ground) == lock(second) => others,
            _ => &ranges,
        };
        let source = self.clear(of(self), offset, bytes, false);
        let (Some(from), Some(into)) = (source, to.clear(of(to), to_offset, bytes, true)) else {
            return false;
        };
        // SAFETY: readable and writable, and in nobody's use here, as above; they may overlap.
        unsafe { into.as_ptr().copy_from(from.as_ptr(), bytes) };
        true
    }

    /// Bytes of this process that somebody vouched for, which are surely there where they lie in this ground.
    #[must_use]
    pub fn assure_source<'a>(&self, bytes: &CopySource<'a>) -> Option<CopySource<'a>> {
        self.is_open(bytes.address(), bytes.bytes(), false)?;
        // SAFETY: mapped for reading, as `is_open` says; the ground is kept as long as its area is attached,
        // and whoever vouched for the bytes forbids none of them meanwhile.
        Some(unsafe { bytes.part(0, usize::MAX).assured() })
    }

    /// The same of room to be written.
    #[must_use]
    pub fn assure_target<'a>(&self, room: &'a mut CopyTarget<'_>) -> Option<CopyTarget<'a>> {
        self.is_open(room.address(), room.bytes(), true)?;
        // SAFETY: mapped for writing, and the rest as above.
        Some(unsafe { room.part(0, usize::MAX).assured() })
    }

    fn is_open(&self, address: u64, bytes: usize, write: bool) -> Option<()> {
        let offset = address.checked_sub(self.mapping.start().addr().get() as u64)?;
        let ranges = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        self.usable(&ranges, offset, bytes, write).map(drop)
    }

    /// Where a range is that this process may access and does not use.
    fn clear(
        &self,
        ranges: &Ranges,
        offset: u64,
        bytes: usize,
        write: bool,
    ) -> Option<NonNull<u8>> {
        let (at, end) = self.usable(ranges, offset, bytes, write)?;
        // Tracts do not overlap unless they are the same: the last that begins before the end comes first.
        let mut over =
            ranges.taken.range(..end).rev().take_while(|(start, taken)| *start + taken.bytes > at);
        let in_use = over.any(|(_, taken)| write || taken.readers == 0);
        // SAFETY: inside the mapping.
        (!in_use).then(|| unsafe { self.mapping.start().add(at) })
    }

    /// Beginning and end of a range that lies inside and is not forbidden.
    fn usable(
        &self,
        ranges: &Ranges,
        offset: u64,
        bytes: usize,
        write: bool,
    ) -> Option<(usize, usize)> {
        let at = usize::try_from(offset).ok()?;
        let end = at.checked_add(bytes).filter(|end| *end <= self.mapping.bytes())?;
        let over = ranges
            .forbidden
            .range(..end)
            .next_back()
            .is_some_and(|(start, bytes)| start + bytes > at);
        (!over && (!write || self.is_writable())).then_some((at, end))
    }
}

#[cfg(test)]
mod tests {
    use crate::FixedRegion;
    use m3ipc_sys::{CopySource, CopyTarget};
    use std::sync::Arc;

    const BYTES: usize = 1 << 20;

    fn ground(address: u64, writable: bool) -> Arc<FixedRegion> {
        let memory = m3ipc_sys::create_sparse("m3-test", BYTES as u64, false).unwrap();
        FixedRegion::map_at(memory, address, BYTES, writable).unwrap()
    }

    #[test]
    fn what_nobody_uses_is_copied() {
        let (one, two) = (ground(0x6100_0000_0000, true), ground(0x6100_1000_0000, true));
        let sent: Vec<u8> = (0..=255).collect();
        assert!(one.copy_in(100, &CopySource::from(&sent[..])));
        assert!(one.copy_across(100, &one, 200, 256), "they overlap");
        assert!(one.copy_across(200, &two, 5, 256) && two.copy_across(5, &one, 4096, 256));
        let mut got = [0; 256];
        assert!(one.copy_out(4096, &CopyTarget::from(&mut got[..])));
        assert_eq!(got[..], sent);
    }

    #[test]
    fn what_is_in_use_or_outside_is_left_alone() {
        let ground = ground(0x6100_2000_0000, true);
        let (mut got, end) = ([7; 64], BYTES as u64);
        let writes = ground.lease(4096, 4096, true).unwrap();
        let reads = ground.lease(16384, 4096, false).unwrap();
        for offset in [4096 - 63, 4096, 8191, 16384 - 63, 20479, end - 63, end, u64::MAX - 5] {
            assert!(!ground.copy_in(offset, &CopySource::from(&got[..])), "{offset}");
            assert!(!ground.copy_across(0, &ground, offset, 64), "{offset}");
        }
        for offset in [4096 - 63, 4096, 8191, end - 63, end, u64::MAX - 5] {
            assert!(!ground.copy_out(offset, &CopyTarget::from(&mut got[..])), "{offset}");
            assert!(!ground.copy_across(offset, &ground, 0, 64), "{offset}");
        }
        assert!(ground.copy_out(16384, &CopyTarget::from(&mut got[..])), "it is only read");
        assert!(
            ground.copy_in(4096 - 64, &CopySource::from(&got[..]))
                && ground.copy_in(8192, &CopySource::from(&got[..]))
        );
        drop((writes, reads));
        ground.lease(4096, 4096, true).unwrap().protect().map_err(|(_, errno)| errno).unwrap();
        assert!(!ground.copy_out(8191, &CopyTarget::from(&mut got[..])), "it is forbidden");
        assert!(ground.copy_out(8192, &CopyTarget::from(&mut got[..])));
    }

    #[test]
    fn what_is_only_read_is_not_written_and_what_is_not_sure_is_not_followed() {
        let ground = ground(0x6100_3000_0000, false);
        let mut got = [7; 64];
        assert!(
            !ground.copy_in(0, &CopySource::from(&got[..]))
                && !ground.copy_across(0, &ground, 64, 64)
        );
        assert!(ground.copy_out(0, &CopyTarget::from(&mut got[..])));
        assert!(!ground.copy_out(0, &m3ipc_sys::lent_target(8, 64)));
        let inside = m3ipc_sys::lent_source(0x6100_3000_0000 + 100, 64);
        assert!(ground.assure_source(&inside).is_some_and(|bytes| bytes.is_sure()));
        assert!(ground.assure_source(&m3ipc_sys::lent_source(0x6100_3000_0000 - 1, 64)).is_none());
        assert!(
            ground
                .assure_source(&m3ipc_sys::lent_source(0x6100_3000_0000 + BYTES as u64 - 63, 64))
                .is_none()
        );
        assert!(ground.assure_target(&mut m3ipc_sys::lent_target(0x6100_3000_0000, 64)).is_none());
    }
}
