//! Ranges of this process's memory, as source or target of a copy.
//!
//! A range may come from a caller's slice, or be an address that another party vouched for. The
//! kernel copies the second kind, so an unmapped address is an error and no fault.
//!
//! # Safety
//! A range is only a pointer and a length. Code that follows the pointer checks `is_sure` first.
#![allow(unsafe_code)]

use core::marker::PhantomData;

/// Bytes of this process that a copy reads.
///
/// ```
/// use m3ipc_sys::{CopySource, CopyTarget};
///
/// let mut buffer = [0; 100];
/// assert_eq!(CopySource::from(&b"text"[..]).bytes(), 4);
/// assert_eq!(CopyTarget::from(&mut buffer[..]).bytes(), 100);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CopySource<'a> {
    start: *const u8,
    bytes: usize,
    sure: bool,
    of: PhantomData<&'a [u8]>,
}

/// Bytes of this process that a copy writes. The example is at [`CopySource`].
#[derive(Debug)]
pub struct CopyTarget<'a> {
    start: *mut u8,
    bytes: usize,
    sure: bool,
    of: PhantomData<&'a mut [u8]>,
}

impl<'a> From<&'a [u8]> for CopySource<'a> {
    fn from(slice: &'a [u8]) -> Self {
        Self { start: slice.as_ptr(), bytes: slice.len(), sure: true, of: PhantomData }
    }
}

impl<'a> From<&'a mut [u8]> for CopyTarget<'a> {
    fn from(slice: &'a mut [u8]) -> Self {
        Self { start: slice.as_mut_ptr(), bytes: slice.len(), sure: true, of: PhantomData }
    }
}

impl CopySource<'_> {
    /// The bytes at an address.
    ///
    /// # Safety
    /// The process may read the bytes during the copy, and no reference of the process writes them
    /// meanwhile. An unmapped address is allowed.
    #[must_use]
    pub unsafe fn from_raw(start: *const u8, bytes: usize) -> Self {
        Self { start, bytes, sure: false, of: PhantomData }
    }

    /// The length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first byte. Follow the pointer only if [`is_sure`](Self::is_sure).
    #[must_use]
    pub fn start(&self) -> *const u8 {
        self.start
    }

    /// Whether all bytes are certainly mapped for reading.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.sure
    }

    /// The same range, marked as certainly mapped.
    ///
    /// # Safety
    /// All bytes stay mapped for reading during the copy.
    #[must_use]
    pub unsafe fn assured(self) -> Self {
        Self { sure: true, ..self }
    }

    /// The address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    /// The part from `offset` on, of at most `bytes` bytes.
    #[must_use]
    pub fn part(&self, offset: usize, bytes: usize) -> Self {
        let offset = offset.min(self.bytes);
        Self {
            start: self.start.wrapping_add(offset),
            bytes: bytes.min(self.bytes - offset),
            sure: self.sure,
            of: PhantomData,
        }
    }

    pub(crate) fn local(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.cast_mut().cast(), iov_len: self.bytes }
    }
}

impl CopyTarget<'_> {
    /// The bytes at an address.
    ///
    /// # Safety
    /// The process may write the bytes during the copy, and no other reference of the process
    /// covers them meanwhile. An unmapped address is allowed.
    #[must_use]
    pub unsafe fn from_raw(start: *mut u8, bytes: usize) -> Self {
        Self { start, bytes, sure: false, of: PhantomData }
    }

    /// The length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first byte. Follow the pointer only if [`is_sure`](Self::is_sure).
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Whether all bytes are certainly mapped for writing.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.sure
    }

    /// The same range, marked as certainly mapped.
    ///
    /// # Safety
    /// All bytes stay mapped for writing during the copy.
    #[must_use]
    pub unsafe fn assured(self) -> Self {
        Self { sure: true, ..self }
    }

    /// The address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    /// The part from `offset` on, of at most `bytes` bytes.
    #[must_use]
    pub fn part(&mut self, offset: usize, bytes: usize) -> CopyTarget<'_> {
        let offset = offset.min(self.bytes);
        CopyTarget {
            start: self.start.wrapping_add(offset),
            bytes: bytes.min(self.bytes - offset),
            sure: self.sure,
            of: PhantomData,
        }
    }

    pub(crate) fn local(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.cast(), iov_len: self.bytes }
    }
}

/// Bytes of this process at an address that another process named and that this process allowed: by
/// a lease, by a grant, or in a VM with open copies. A copy of unmapped bytes is an error.
#[must_use]
pub fn lent_source<'a>(address: u64, bytes: usize) -> CopySource<'a> {
    let start = usize::try_from(address).unwrap_or(0);
    CopySource {
        start: core::ptr::with_exposed_provenance(start),
        bytes,
        sure: false,
        of: PhantomData,
    }
}

/// Bytes of this process for writing, at an address as in [`lent_source`].
#[must_use]
pub fn lent_target<'a>(address: u64, bytes: usize) -> CopyTarget<'a> {
    let start = usize::try_from(address).unwrap_or(0);
    CopyTarget {
        start: core::ptr::with_exposed_provenance_mut(start),
        bytes,
        sure: false,
        of: PhantomData,
    }
}
