//! Memory under miri, which has neither memfds nor shared mappings of them.
//!
//! A memory is a heap allocation that is never freed. Its descriptor is one end of a pipe; a table
//! maps the number of the descriptor to the allocation. A duplicate of the descriptor is unknown.
//! Seals do not exist: the size counts as sealed, and other seals fail.
//!
//! # Safety
//! An allocation is never freed, so its pointer stays valid.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::alloc::{Layout, alloc_zeroed};
use std::sync::{Mutex, PoisonError};

/// One memory: its descriptor, first byte and length.
struct Memory(i32, NonNull<u8>, usize);

// SAFETY: the allocation is never freed, and the value only carries its pointer.
unsafe impl Send for Memory {}

/// All memories. The latest memory of a descriptor counts.
static MEMORIES: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

const PAGE_BYTES: usize = 4096;

/// Creates memory of `bytes` bytes.
pub(crate) fn create(bytes: u64) -> Result<OwnedFd, Errno> {
    let bytes = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
    let layout = Layout::from_size_align(bytes, PAGE_BYTES).map_err(|_| Errno::INVAL)?;
    if bytes == 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: the layout has a size above zero.
    let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
    let (reader, _writer) = std::io::pipe().map_err(|_| Errno::MFILE)?;
    let fd = OwnedFd::from(reader);
    let mut all = MEMORIES.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(Memory(fd.as_raw_fd(), start, bytes));
    Ok(fd)
}

/// The first byte and the length of a memory.
pub(crate) fn find(memory: impl AsFd) -> Result<(NonNull<u8>, usize), Errno> {
    let all = MEMORIES.lock().unwrap_or_else(PoisonError::into_inner);
    let fd = memory.as_fd().as_raw_fd();
    let found = all.iter().rev().find(|known| known.0 == fd).ok_or(Errno::INVAL)?;
    Ok((found.1, found.2))
}
