//! One system call, past the C library.
//!
//! # Safety
//! A system call does what its number and its arguments say. Each caller answers for both.
#![allow(unsafe_code)]

use core::ffi::c_long;

/// A Linux error number.
pub type Errno = i32;

/// Makes a system call. The call leaves `errno` alone and is no cancellation point.
///
/// # Errors
/// The error number of the call.
///
/// # Safety
/// The arguments must be valid for the call of this number. A pointer must be good for the call,
/// or the call must answer `EFAULT`.
///
/// # Source
/// syscall(2)
#[inline]
pub unsafe fn call(number: c_long, words: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the caller answers for the arguments.
    let result = unsafe { system_call(number, words) };
    // The kernel returns errors as small negative numbers.
    if (-4095..0).contains(&result) {
        Err(i32::try_from(-result).unwrap_or(libc::EIO))
    } else {
        Ok(result.cast_unsigned())
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn system_call(number: c_long, words: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the registers follow the kernel's calling convention, which spoils rcx and r11.
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

#[cfg(target_arch = "aarch64")]
unsafe fn system_call(number: c_long, words: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the registers follow the kernel's calling convention.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") words[0].cast_signed() => result,
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

/// A number as a register holds it.
#[inline]
pub(super) fn register(number: i32) -> usize {
    (number as isize).cast_unsigned()
}

/// A descriptor that a system call returned.
pub(super) fn descriptor(result: usize) -> Result<i32, Errno> {
    i32::try_from(result).map_err(|_| libc::EMFILE)
}
