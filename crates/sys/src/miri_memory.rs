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
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Address and length of each memory, by descriptor.
static MEMORIES: Mutex<Option<HashMap<i32, (usize, usize)>>> = Mutex::new(None);

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
    let address = start.as_ptr().expose_provenance();
    all.get_or_insert_default().insert(fd.as_raw_fd(), (address, bytes));
    Ok(fd)
}

/// The first byte and the length of a memory.
pub(crate) fn find(memory: impl AsFd) -> Result<(NonNull<u8>, usize), Errno> {
    let all = MEMORIES.lock().unwrap_or_else(PoisonError::into_inner);
    let fd = memory.as_fd().as_raw_fd();
    let found = all.as_ref().and_then(|all| all.get(&fd).copied()).ok_or(Errno::INVAL)?;
    let start = core::ptr::with_exposed_provenance_mut(found.0);
    Ok((NonNull::new(start).ok_or(Errno::INVAL)?, found.1))
}
