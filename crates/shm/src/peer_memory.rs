//! Slices of memory that other processes can write, for callers that trust them.
//!
//! # Safety
//! Both functions are unsafe: the caller promises what [`LeasedRange`] cannot check.
#![allow(unsafe_code)]

use crate::leased_range::LeasedRange;

/// The memory of a leased range, to be read in place.
#[derive(Clone, Copy, Debug)]
pub struct PeerMemory<'a>(&'a LeasedRange);

/// The memory of a leased range, to be written in place.
#[derive(Debug)]
pub struct PeerMemoryMut<'a>(&'a mut LeasedRange);

impl<'a> PeerMemory<'a> {
    /// The memory of this range.
    #[must_use]
    pub fn new(range: &'a LeasedRange) -> Self {
        Self(range)
    }

    /// The bytes in place.
    ///
    /// # Safety
    /// No other process writes the memory while the slice lives. Only the caller can know it, by
    /// trust in the audience of the area.
    #[must_use]
    pub unsafe fn as_slice_trusting_peers(self) -> &'a [u8] {
        // SAFETY: no other process writes the memory, as the caller promises.
        unsafe { self.0.as_slice_trusting_peers() }
    }
}

impl<'a> PeerMemoryMut<'a> {
    /// The memory of this range.
    #[must_use]
    pub fn new(range: &'a mut LeasedRange) -> Self {
        Self(range)
    }

    /// The bytes in place; `None` if the range is leased for reading.
    ///
    /// # Safety
    /// No other process reads or writes the memory while the slice lives. Only the caller can know
    /// it, by trust in the audience of the area.
    #[must_use]
    pub unsafe fn as_mut_slice_trusting_peers(self) -> Option<&'a mut [u8]> {
        // SAFETY: no other process accesses the memory, as the caller promises.
        unsafe { self.0.as_mut_slice_trusting_peers() }
    }
}
