//! Memory of C: looked at before it is read or written, so that a bad address is a code and no crash.
//!
//! The kernel is asked once for each page and thread, by a copy of one byte
//! within the process; after that a small table remembers the page. A page
//! that is unmapped between two calls is therefore not noticed: what is caught
//! is the pointer that never was one.
//!
//! # Safety
//! Nothing is read or written through a pointer that the kernel could not. No
//! reference to memory of C is made: values are copied, unaligned if need be.
//! That no other thread writes there meanwhile is the caller's duty, as with memcpy(3).
#![allow(unsafe_code)]

use crate::guard::Refused;
use core::cell::Cell;
use core::ffi::{c_char, c_void};
use m3ipc::{Code, Message};

const PAGE_BITS: u32 = 12;
/// Nothing is ever mapped below.
const LOWEST: usize = 4096;
/// Pages remembered for each thread.
const SEEN: usize = 16;
/// The number of a page, and whether it could be written, is one word.
const WRITABLE: usize = 1;

thread_local! {
    static PAGES: [Cell<usize>; SEEN] = const { [const { Cell::new(0) }; SEEN] };
}

/// What may be read from memory of C: plain numbers, of which every pattern is one.
///
/// # Safety
/// Every bit pattern must be a value of the type.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: an address that is not followed here.
unsafe impl Plain for *mut c_void {}

// SAFETY: two numbers and bytes.
unsafe impl Plain for Message {}
// SAFETY: a number.
unsafe impl Plain for i32 {}
// SAFETY: a number.
unsafe impl Plain for usize {}
// SAFETY: a number.
unsafe impl Plain for u64 {}
// SAFETY: a number.
unsafe impl Plain for u32 {}

/// Copies a value in.
#[inline]
pub(crate) fn read<T: Plain>(from: *const T) -> Result<T, Refused> {
    check(from.cast(), size_of::<T>(), false)?;
    // SAFETY: every page of it can be read, and any pattern is a value.
    Ok(unsafe { from.read_unaligned() })
}

/// Copies a value out.
#[inline]
pub(crate) fn write<T: Plain>(to: *mut T, value: T) -> Result<(), Refused> {
    check_write(to)?;
    // SAFETY: every page of it can be written.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Whether a value can be copied out there.
#[inline]
pub(crate) fn check_write<T>(to: *mut T) -> Result<(), Refused> {
    check(to.cast_const().cast(), size_of::<T>(), true)
}

/// Copies bytes in, to the front of `room`.
pub(crate) fn read_bytes(from: *const c_void, room: &mut [u8]) -> Result<(), Refused> {
    if room.is_empty() {
        return Ok(());
    }
    check(from, room.len(), false)?;
    // SAFETY: `from` can be read that far; `room` is ours and does not overlap what C owns.
    unsafe { from.cast::<u8>().copy_to_nonoverlapping(room.as_mut_ptr(), room.len()) };
    Ok(())
}

/// Copies bytes out.
pub(crate) fn write_bytes(to: *mut c_void, bytes: &[u8]) -> Result<(), Refused> {
    check_room(to, bytes.len())?;
    // SAFETY: `to` can be written that far; `bytes` is ours and does not overlap what C owns.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// Whether so many bytes can be copied in from there.
pub(crate) fn check_bytes(from: *const c_void, bytes: usize) -> Result<(), Refused> {
    if bytes == 0 { Ok(()) } else { check(from, bytes, false) }
}

/// Whether so many bytes can be copied out there.
pub(crate) fn check_room(to: *mut c_void, bytes: usize) -> Result<(), Refused> {
    if bytes == 0 { Ok(()) } else { check(to.cast_const(), bytes, true) }
}

/// Copies a text in, without its zero, of at most `most` bytes.
pub(crate) fn read_text(
    from: *const c_char,
    most: usize,
) -> Result<Result<Vec<u8>, TooLong>, Refused> {
    let mut text = Vec::new();
    for at in 0..=most {
        let byte = from.wrapping_add(at);
        check(byte.cast(), 1, false)?;
        // SAFETY: its page can be read.
        match unsafe { byte.cast::<u8>().read() } {
            0 => return Ok(Ok(text)),
            byte => text.push(byte),
        }
    }
    Ok(Err(TooLong))
}

/// A text of C is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Whether memory can be read, or written too.
#[inline]
fn check(from: *const c_void, bytes: usize, write: bool) -> Result<(), Refused> {
    let start = from.addr();
    let Some(last) = start.checked_add(bytes - 1).filter(|_| start >= LOWEST) else {
        return Err(Code::AddrNotAvail.into());
    };
    for page in start >> PAGE_BITS..=last >> PAGE_BITS {
        if !is_seen(page, write) && !look_at(page, start.max(page << PAGE_BITS), write) {
            return Err(Code::AddrNotAvail.into());
        }
    }
    Ok(())
}

#[inline]
fn is_seen(page: usize, write: bool) -> bool {
    let known = PAGES.with(|pages| pages[page % SEEN].get());
    known >> 1 == page && (known & WRITABLE != 0 || !write)
}

/// Asks the kernel for one byte of a page, and remembers the page.
#[cold]
fn look_at(page: usize, address: usize, write: bool) -> bool {
    let mut byte = 0_u8;
    let there: *mut c_void = core::ptr::with_exposed_provenance_mut(address);
    // To see whether it can be written, the byte is copied onto itself.
    let here = if write { there } else { (&raw mut byte).cast() };
    let (local, remote) =
        (libc::iovec { iov_base: here, iov_len: 1 }, libc::iovec { iov_base: there, iov_len: 1 });
    // SAFETY: the kernel checks both addresses; the byte there keeps its value.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    let bad = copied != 1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT);
    // Where the kernel does not let a process copy (seccomp) pointers are believed.
    if !bad {
        PAGES.with(|pages| pages[page % SEEN].set(page << 1 | usize::from(write)));
    }
    !bad
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Refused = Refused(Code::AddrNotAvail);

    #[test]
    fn what_is_no_memory_is_told() {
        for address in [0, 8, 4095, 4096, usize::MAX - 7, usize::MAX / 2] {
            let pointer: *mut usize = core::ptr::with_exposed_provenance_mut(address);
            assert_eq!(read(pointer), Err(BAD), "{address:x}");
            assert_eq!(check_write(pointer), Err(BAD), "{address:x}");
        }
    }

    #[test]
    fn what_may_only_be_read_cannot_be_written() {
        static CONSTANT: usize = 77;
        let pointer = (&raw const CONSTANT).cast_mut();
        assert_eq!(read(pointer), Ok(77));
        assert_eq!(check_write(pointer), Err(BAD));
        let mut variable = 5_usize;
        assert_eq!(write(&raw mut variable, 6), Ok(()));
        assert_eq!(variable, 6);
    }

    #[test]
    fn a_text_ends_at_its_zero_or_is_too_long() {
        assert_eq!(read_text(c"abc".as_ptr(), 3), Ok(Ok(b"abc".to_vec())));
        assert_eq!(read_text(c"abcd".as_ptr(), 3), Ok(Err(TooLong)));
        assert_eq!(read_text(core::ptr::null(), 3), Err(BAD));
    }

    #[test]
    fn memory_is_looked_at_over_all_its_pages() {
        let bytes = vec![7_u8; 3 << PAGE_BITS];
        let mut room = vec![0; bytes.len()];
        assert_eq!(read_bytes(bytes.as_ptr().cast(), &mut room), Ok(()));
        assert_eq!(bytes, room);
        assert_eq!(write_bytes(core::ptr::null_mut(), &[]), Ok(()));
    }
}
