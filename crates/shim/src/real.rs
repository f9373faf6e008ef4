//! The real calls, from whatever stands in front of the C library's.
//!
//! In a process that has loaded `libm3sock.so` the C library's `read`, `send`, `poll`, ... are ours, also for
//! code of this crate: whoever calls them from here comes back to the hooks. So the engine makes system calls
//! (these, or those of rustix, which are the same), and never the C library's functions of the same names.
//!
//! # Safety
//! A system call does what its number and its arguments say; each caller answers for them.
#![allow(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "a system call's words are those of the machine"
)]

use core::ffi::{c_int, c_long};

/// A system call; `-errno` where it fails. `errno` itself is left alone, and no cancellation point is passed.
///
/// # Safety
/// The arguments must be what the call of this number demands.
///
/// # Source
/// syscall(2)
#[cfg(target_arch = "x86_64")]
#[must_use]
pub unsafe fn call(number: c_long, words: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the registers are as the kernel's convention has them; rcx and r11 are what it spoils. The caller answers for the rest.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") isize::try_from(number).unwrap_or(-1) => result,
            in("rdi") words[0],
            in("rsi") words[1],
            in("rdx") words[2],
            in("r10") words[3],
            in("r8") words[4],
            in("r9") words[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// A system call; `-errno` where it fails. `errno` itself is left alone, and no cancellation point is passed.
///
/// # Safety
/// The arguments must be what the call of this number demands.
///
/// # Source
/// syscall(2)
#[cfg(target_arch = "aarch64")]
#[must_use]
pub unsafe fn call(number: c_long, words: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the registers are as the kernel's convention has them. The caller answers for the rest.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") words[0] => result,
            in("x1") words[1],
            in("x2") words[2],
            in("x3") words[3],
            in("x4") words[4],
            in("x5") words[5],
            options(nostack),
        );
    }
    result
}

/// The C library's own calls that may sleep, and in which a thread may be cancelled.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// recvmsg(2)
    pub recvmsg: unsafe extern "C-unwind" fn(c_int, *mut libc::msghdr, c_int) -> isize,
    /// sendmsg(2)
    pub sendmsg: unsafe extern "C-unwind" fn(c_int, *const libc::msghdr, c_int) -> isize,
}

static WAITING: std::sync::OnceLock<Waiting> = std::sync::OnceLock::new();

/// Says what to sleep in; by the constructor, once. Without it bare system calls are made.
pub fn wait_with(waiting: Waiting) {
    let _ = WAITING.set(waiting);
}

/// What to sleep in.
pub(crate) fn waiting() -> Option<&'static Waiting> {
    WAITING.get()
}

/// What a function of the C library gave; its `errno` where it failed.
pub(crate) fn told(result: isize) -> Result<usize, i32> {
    // SAFETY: always valid for the calling thread.
    usize::try_from(result).map_err(|_negative| unsafe { *libc::__errno_location() })
}
