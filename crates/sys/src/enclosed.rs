//! Code inside a call of C: no thread is cancelled in it, and `errno` keeps its value.
//!
//! # Safety
//! `errno` belongs to the calling thread for as long as the thread lives.
//!
//! # Source
//! pthread_setcancelstate(3); pthreads(7): the close of a descriptor is a cancellation point, and a
//! cancelled thread unwinds its frames, which those of Rust forbid
#![allow(unsafe_code)]

use core::ffi::c_int;

unsafe extern "C" {
    safe fn pthread_setcancelstate(state: c_int, before: &mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const NO_CANCEL: c_int = 1;

/// Runs `body` as no cancellation point, and restores `errno`.
#[inline]
pub fn enclosed<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: __errno_location has no preconditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: `errno` points to the errno of this thread, which no other thread accesses.
    let before = unsafe { errno.read() };
    let result = uncancelled(body);
    // SAFETY: as for the read above.
    unsafe { errno.write(before) };
    result
}

/// Runs `body` as no cancellation point.
#[inline]
pub fn uncancelled<T>(body: impl FnOnce() -> T) -> T {
    let (mut state, mut unused) = (0, 0);
    pthread_setcancelstate(NO_CANCEL, &mut state);
    let result = body();
    pthread_setcancelstate(state, &mut unused);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore)] // Miri has no cancellation
    fn errno_keeps_its_value() {
        // SAFETY: the errno of this thread.
        unsafe { libc::__errno_location().write(libc::EDOM) };
        enclosed(|| {
            // SAFETY: the errno of this thread.
            unsafe { libc::__errno_location().write(libc::EIO) };
        });
        // SAFETY: the errno of this thread.
        assert_eq!(unsafe { libc::__errno_location().read() }, libc::EDOM);
    }
}
