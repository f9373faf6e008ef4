//! Noticing a fork: a page that reads zero in a child.
//!
//! # Safety
//! The page is the process's own, mapped for its whole life and only
//! touched through an atomic.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::os::fd::AsRawFd;
use std::sync::{Once, OnceLock};

const PAGE_BYTES: usize = 4096;

/// The one page of the process, and of its children by fork, where the kernel wipes it.
static PAGE: OnceLock<Page> = OnceLock::new();
/// Processes that have made guards, counted along the line of forks.
static GENERATIONS: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
struct Page(*mut AtomicU32);

// SAFETY: the page is only touched atomically.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn word(&self) -> &AtomicU32 {
        // SAFETY: mapped, aligned, never unmapped.
        unsafe { &*self.0 }
    }
}

/// Knows whether the process that made it still runs, or a child by fork.
#[derive(Debug)]
pub struct ForkGuard {
    word: &'static AtomicU32,
    generation: u32,
}

impl ForkGuard {
    /// A guard for the calling process.
    ///
    /// # Errors
    /// Of mmap(2) and madvise(2) (`MADV_WIPEONFORK`, Linux 4.14).
    pub fn new() -> Result<Self, Errno> {
        let page = match PAGE.get() {
            Some(page) => page,
            None => {
                let page = Self::map()?;
                PAGE.get_or_init(|| page)
            }
        };
        // In a child the page reads zero until its first guard.
        let next = GENERATIONS.load(Ordering::Relaxed) + 1;
        if page.word().compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            GENERATIONS.store(next, Ordering::Relaxed);
        }
        Ok(Self { word: page.word(), generation: page.word().load(Ordering::Relaxed) })
    }

    fn map() -> Result<Page, Errno> {
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let page = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        // SAFETY: the range is exactly our page.
        unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork)? };
        Ok(Page(page.cast()))
    }

    /// Whether this is still the process that made the guard: one load.
    #[must_use]
    #[inline]
    pub fn is_original(&self) -> bool {
        self.word.load(Ordering::Relaxed) == self.generation
    }
}

/// Descriptors that a child by fork must not keep open: how many are remembered.
const KEPT_MAX: usize = 256;
static KEPT: [AtomicI32; KEPT_MAX] = [const { AtomicI32::new(NO_FD) }; KEPT_MAX];
const NO_FD: i32 = -1;
static REGISTER: Once = Once::new();

/// A descriptor whose copies in children by fork are closed at once, so that
/// its other end sees when this process has gone or executed another program.
#[derive(Debug)]
pub struct ParentOnlyFd {
    place: Option<usize>,
}

impl ParentOnlyFd {
    /// Remembers a descriptor; beyond 256 at a time children keep theirs.
    pub fn new(fd: &impl AsRawFd) -> Self {
        // SAFETY: the handler is a plain function that lives as long as the process.
        REGISTER.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(close_kept)) });
        let fd = fd.as_raw_fd();
        let free = |kept: &AtomicI32| {
            kept.compare_exchange(NO_FD, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        Self { place: KEPT.iter().position(free) }
    }
}

impl Drop for ParentOnlyFd {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            KEPT[place].store(NO_FD, Ordering::Relaxed);
        }
    }
}

/// Runs in the child, before fork returns there: system calls only, no locks.
/// The numbers stay valid (they lead to /dev/null), since their owners will close them.
extern "C" fn close_kept() {
    // SAFETY: a constant path and flags; the result is checked.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for kept in &KEPT {
        let fd = kept.load(Ordering::Relaxed);
        if fd != NO_FD && null >= 0 {
            // SAFETY: fd is a descriptor of ours, null another one; both stay open.
            unsafe { libc::dup3(null, fd, libc::O_CLOEXEC) };
        }
    }
    if null >= 0 {
        // SAFETY: opened above, used by nobody else.
        unsafe { libc::close(null) };
    }
}
