//! System calls that only an attacker makes.
//!
//! # Safety
//! Every pointer given to the kernel is to a live local or to a mapping made
//! here. The kernel checks the addresses of other processes.
#![allow(unsafe_code)]

use core::sync::atomic::AtomicU32;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect, munmap};
use rustix::thread::futex;
use std::os::fd::{AsFd, AsRawFd};

/// Moves the sleepers of one word to another; their number.
pub fn requeue(from: &AtomicU32, to: &AtomicU32) -> usize {
    let value = from.load(core::sync::atomic::Ordering::SeqCst);
    futex::cmp_requeue(from, futex::Flags::empty(), 0, 1000, to, value).unwrap_or(0)
}

/// Copies from the memory of another process.
#[must_use]
pub fn peek(pid: i32, address: usize, bytes: usize) -> Option<Vec<u8>> {
    let mut found = vec![0_u8; bytes];
    let here = libc::iovec { iov_base: found.as_mut_ptr().cast(), iov_len: bytes };
    let there = libc::iovec { iov_base: address as *mut _, iov_len: bytes };
    // SAFETY: `here` describes a live buffer; only the kernel reads `there`, if it may.
    let copied = unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
    (usize::try_from(copied) == Ok(bytes)).then_some(found)
}

/// Writes into the memory of another process; `false` if the kernel forbids it.
///
/// # Safety
/// Not for the memory of this process, unless only system calls access it.
#[must_use]
pub unsafe fn poke(pid: i32, address: usize, bytes: &[u8]) -> bool {
    let here = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
    // SAFETY: `here` is only read; `there` is the caller's obligation.
    let copied =
        unsafe { libc::process_vm_writev(pid, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(copied) == Ok(bytes.len())
}

/// Writes into the memory of another process; `false` if the kernel forbids it.
#[must_use]
pub fn poke_other(pid: i32, address: usize, bytes: &[u8]) -> bool {
    assert_ne!(pid, m3ipc_sys::process_id(), "only into others");
    // SAFETY: not this process.
    unsafe { poke(pid, address, bytes) }
}

/// Attaches as a tracer, and detaches at once; whether it could.
#[must_use]
pub fn trace(pid: i32) -> bool {
    // SAFETY: SEIZE and DETACH take no pointers of ours.
    unsafe {
        let null = core::ptr::null_mut::<libc::c_void>();
        let attached = libc::ptrace(libc::PTRACE_SEIZE, pid, null, null) == 0;
        if attached {
            libc::ptrace(libc::PTRACE_INTERRUPT, pid, null, null);
            let mut status = 0;
            libc::waitpid(pid, &raw mut status, libc::__WALL);
            libc::ptrace(libc::PTRACE_DETACH, pid, null, null);
        }
        attached
    }
}

/// Tries to write to a page through a new mapping of its descriptor: mmap for
/// writing, or for reading and then mprotect. `true` if a byte could be changed.
#[must_use]
pub fn map_and_write(page: impl AsFd, via_mprotect: bool) -> bool {
    const BYTES: usize = 4096;
    let wanted = ProtFlags::READ | ProtFlags::WRITE;
    let first = if via_mprotect { ProtFlags::READ } else { wanted };
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let Ok(start) =
        (unsafe { mmap(core::ptr::null_mut(), BYTES, first, MapFlags::SHARED, page, 0) })
    else {
        return false;
    };
    // SAFETY: the range is the new mapping.
    let writable = !via_mprotect
        || unsafe { mprotect(start, BYTES, MprotectFlags::READ | MprotectFlags::WRITE) }.is_ok();
    if writable {
        // SAFETY: inside the mapping, which the kernel says is writable; atomic, since others look.
        unsafe { &*start.cast::<AtomicU32>() }.fetch_xor(0, core::sync::atomic::Ordering::SeqCst);
    }
    // SAFETY: our own mapping, unmapped once.
    let _ = unsafe { munmap(start, BYTES) };
    writable
}

/// Tries to change a page that is mapped for reading only, without its descriptor:
/// through the process's own memory file, through process_vm_writev, by punching a hole.
#[must_use]
pub fn write_behind(page: impl AsFd, how: &str) -> bool {
    const BYTES: usize = 4096;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let mapped =
        unsafe { mmap(core::ptr::null_mut(), BYTES, ProtFlags::READ, MapFlags::SHARED, &page, 0) };
    let Ok(start) = mapped else { return false };
    let address = start.addr();
    let bytes = [0xee_u8; 8];
    let written = match how {
        "/proc/self/mem" => {
            use std::os::unix::fs::FileExt;
            let file = std::fs::OpenOptions::new().write(true).open("/proc/self/mem");
            file.is_ok_and(|file| file.write_at(&bytes, address as u64).is_ok())
        }
        // SAFETY: the mapping is ours, and nobody holds a reference into it.
        "process_vm_writev" => unsafe { poke(m3ipc_sys::process_id(), address, &bytes) },
        // SAFETY: the range is our mapping; what it loses, nobody here looks at.
        _ => unsafe { madvise(start, BYTES, Advice::LinuxRemove) }.is_ok(),
    };
    // SAFETY: our own mapping, unmapped once.
    let _ = unsafe { munmap(start, BYTES) };
    written
}

/// Adds a seal by number.
#[must_use]
pub fn add_seal(page: impl AsFd, seal: i32) -> bool {
    // SAFETY: integers only.
    unsafe { libc::fcntl(page.as_fd().as_raw_fd(), libc::F_ADD_SEALS, seal) == 0 }
}
