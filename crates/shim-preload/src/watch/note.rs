//! What is noted of each descriptor, in one word: its place in a set, and why its sender must go on sending tokens.

use crate::table;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use libc::c_int;

/// What is noted of a descriptor: its set plus one, its place, and these.
pub(super) const SET_MASK: u32 = 0xff;
pub(super) const PLACE_SHIFT: u32 = 8;
pub(super) const PLACE_MASK: u32 = 0xfff;
/// It was looked for once: its ring may hold bytes without a token.
pub(super) const WAS: u32 = 1 << 28;
/// A child of this process has it, too.
pub(super) const SHARED: u32 = 1 << 29;
/// Others may wait for it in another way: never without tokens.
pub(super) const TOKENS: u32 = 1 << 30;

static NOTES: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// Makes room for the notes. Without it nothing is looked for.
pub fn settle() {
    let bytes = table::LIMIT * size_of::<AtomicU32>();
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    let words = [0, bytes, protection as usize, flags as usize, usize::MAX, 0];
    if let Ok(at) = unsafe { crate::raw(libc::SYS_mmap, words) } {
        NOTES.store(at as *mut AtomicU32, Ordering::Release);
    }
}

/// The note of a descriptor.
pub(super) fn note(fd: c_int) -> Option<&'static AtomicU32> {
    let notes = NOTES.load(Ordering::Relaxed);
    let index = usize::try_from(fd).ok()?;
    if notes.is_null() || index >= table::LIMIT {
        return None;
    }
    Some(unsafe { &*notes.add(index) })
}

/// What is noted of it.
pub(super) fn noted(fd: c_int) -> u32 {
    note(fd).map_or(TOKENS, |note| note.load(Ordering::Relaxed))
}

/// Notes one thing more.
pub(super) fn add_note(fd: c_int, flags: u32) {
    if let Some(note) = note(fd) {
        note.fetch_or(flags, Ordering::Relaxed);
    }
}

/// Whether its ring may hold bytes without a token.
pub(super) fn was_looked_for(fd: c_int) -> bool {
    noted(fd) & WAS != 0
}
