//! The files behind the numbers of sockets and pollers, without a lock.
//!
//! The tables of numbers belong to the process that made them. This one goes on in a child by fork:
//! there it tells the numbers of the parent's sockets, as long as the same file is behind them.
//!
//! # Safety
//! A pointer in `FILES` is null, or comes from `Box::into_raw` and is never freed.
#![allow(unsafe_code)]

use super::kernel;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const PART: usize = 512;
/// For the numbers below 2^20, the limit of Linux unless root raises it.
const PARTS: usize = 2048;
/// Bit of each noted file, which is then never 0.
const IS_NOTED: u64 = 1 << 63;

type Part = [AtomicU64; PART];

/// The noted files, in parts that are made at their first use.
static FILES: [AtomicPtr<Part>; PARTS] = [const { AtomicPtr::new(null_mut()) }; PARTS];

/// The entry of a number, if its part was made.
fn entry(fd: c_int) -> Option<&'static AtomicU64> {
    let number = usize::try_from(fd).ok()?;
    // SAFETY: null or never freed; see the head of this file.
    let part = unsafe { FILES.get(number / PART)?.load(Ordering::Acquire).as_ref() }?;
    part.get(number % PART)
}

/// Makes the part of a number.
fn make_part(fd: c_int) {
    let Some(part) = usize::try_from(fd).ok().and_then(|number| FILES.get(number / PART)) else {
        return;
    };
    let made = Box::into_raw(Box::new([const { AtomicU64::new(0) }; PART]));
    if part.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: made above, and no other thread has seen it.
        drop(unsafe { Box::from_raw(made) });
    }
}

/// The file behind a number now; 0 for none.
fn file(fd: c_int) -> u64 {
    kernel::identity(fd).map_or(0, |(device, inode)| (inode ^ device.rotate_left(40)) | IS_NOTED)
}

/// Notes the file behind the number of a socket or poller.
pub(super) fn note(fd: c_int) {
    if entry(fd).is_none() {
        make_part(fd);
    }
    if let Some(entry) = entry(fd) {
        entry.store(file(fd), Ordering::Relaxed);
    }
}

/// Forgets a number that is to be closed.
pub(super) fn forget(fd: c_int) {
    if let Some(entry) = entry(fd) {
        entry.store(0, Ordering::Relaxed);
    }
}

/// Whether another file lies behind the number than the noted one.
pub(super) fn has_changed(fd: c_int) -> bool {
    let noted = entry(fd).map_or(0, |entry| entry.load(Ordering::Relaxed));
    noted != 0 && noted != file(fd)
}

/// Whether the noted file lies behind the number. The number is in no table of this process: so it
/// is a socket or poller of its parent.
pub(super) fn is_of_parent(fd: c_int) -> bool {
    let noted = entry(fd).map_or(0, |entry| entry.load(Ordering::Relaxed));
    noted != 0 && noted == file(fd)
}
