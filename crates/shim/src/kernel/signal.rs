//! Signals: which have handlers, and holding them back.
//!
//! # Safety
//! The kernel reads and writes live locals of the sizes that it expects.
#![allow(unsafe_code)]

use super::call::{call, register};

/// Bytes of the kernel's signal set.
pub(super) const MASK_BYTES: usize = 8;
/// Words of the kernel's `sigaction`: the handler first, then flags, a return address and a mask.
const ACTION_WORDS: usize = 8;

/// The handler of a signal (`SIG_DFL`, `SIG_IGN` or an address); `None` for a bad number.
#[must_use]
pub fn handler(number: i32) -> Option<usize> {
    let mut action = [0_usize; ACTION_WORDS];
    let words = [register(number), 0, action.as_mut_ptr() as usize, MASK_BYTES, 0, 0];
    // SAFETY: the kernel writes its `sigaction`, which fits into the array.
    unsafe { call(libc::SYS_rt_sigaction, words) }.ok()?;
    Some(action[0])
}

/// Blocks the signals of this bit set for the calling thread; the mask before.
#[must_use]
pub fn block(signals: u64) -> libc::sigset_t {
    // SAFETY: plain integers, for which zeros are valid.
    let mut before: libc::sigset_t = unsafe { core::mem::zeroed() };
    let (set, old) = ((&raw const signals) as usize, (&raw mut before) as usize);
    let words = [register(libc::SIG_BLOCK), set, old, MASK_BYTES, 0, 0];
    // SAFETY: both sets are live; the C library's set is longer than the kernel's.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, words) };
    before
}

/// Sets the signal mask of the calling thread.
pub fn set_mask(mask: &libc::sigset_t) {
    let at = core::ptr::from_ref(mask) as usize;
    let words = [register(libc::SIG_SETMASK), at, 0, MASK_BYTES, 0, 0];
    // SAFETY: the set is live, and the C library's set is longer than the kernel's.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, words) };
}

/// Whether the calling thread runs on the stack that it set for its signal handlers.
#[must_use]
pub fn on_own_stack() -> bool {
    // SAFETY: plain integers and a pointer, for which zeros are valid.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    let words = [0, (&raw mut stack) as usize, 0, 0, 0, 0];
    // SAFETY: the structure is live; a null pointer changes nothing.
    let asked = unsafe { call(libc::SYS_sigaltstack, words) };
    asked.is_err() || stack.ss_flags & libc::SS_ONSTACK != 0
}
