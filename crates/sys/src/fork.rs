//! Detection of a fork, by a page that the kernel clears in the child.
//!
//! # Safety
//! The page is private to the process and stays mapped for its whole life. All access goes through
//! an atomic.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::os::fd::AsRawFd;
use std::sync::{Once, OnceLock};

const PAGE_BYTES: usize = 4096;

/// The page of the process. The kernel clears it in a forked child.
static PAGE: OnceLock<Page> = OnceLock::new();
/// The number of processes that made guards, along the chain of forks to this process.
static GENERATIONS: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
struct Page(*mut AtomicU32);

// SAFETY: all access to the page is atomic.
unsafe impl Send for Page {}
// SAFETY: as for `Send`.
unsafe impl Sync for Page {}

impl Page {
    fn word(&self) -> &AtomicU32 {
        // SAFETY: `ForkGuard::map` mapped the page, it is aligned, and it is never unmapped.
        unsafe { &*self.0 }
    }

    /// The generation of this process. A child by fork reads zero and takes the next number.
    fn generation(&self) -> u32 {
        match self.word().load(Ordering::Relaxed) {
            0 => {
                let next = GENERATIONS.fetch_add(1, Ordering::Relaxed) + 1;
                let set =
                    self.word().compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
                set.map_or_else(|other| other, |_zero| next)
            }
            generation => generation,
        }
    }
}

/// Tells whether the present process made it, or a forked child of that process runs.
#[derive(Debug)]
pub struct ForkGuard {
    word: &'static AtomicU32,
    generation: u32,
}

impl ForkGuard {
    /// A guard for the calling process.
    ///
    /// # Errors
    /// Those of mmap(2) and madvise(2) (`MADV_WIPEONFORK`, Linux 4.14).
    pub fn new() -> Result<Self, Errno> {
        let page = match PAGE.get() {
            Some(page) => page,
            None => {
                let page = Self::map()?;
                PAGE.get_or_init(|| page)
            }
        };
        Ok(Self { word: page.word(), generation: page.generation() })
    }

    fn map() -> Result<Page, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let page = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        // SAFETY: the range is exactly the new page.
        unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork)? };
        Ok(Page(page.cast()))
    }

    /// Whether this process made the guard. Costs one load.
    #[must_use]
    #[inline]
    pub fn is_original(&self) -> bool {
        self.word.load(Ordering::Relaxed) == self.generation
    }
}

/// The fork generation: a number that differs between a process and its children by fork.
///
/// 0 before the first [`ForkGuard`], and where the kernel lacks `MADV_WIPEONFORK`. Makes no system
/// call, so signal handlers may ask.
#[must_use]
#[inline]
pub fn fork_generation() -> u32 {
    PAGE.get().map_or(0, Page::generation)
}

/// Highest number of descriptors that forked children close.
const PARENT_ONLY_MAX: usize = 256;
static PARENT_ONLY: [AtomicI32; PARENT_ONLY_MAX] =
    [const { AtomicI32::new(NO_FD) }; PARENT_ONLY_MAX];
const NO_FD: i32 = -1;
static REGISTER: Once = Once::new();

/// A descriptor that forked children close at once. So its other end sees the end of this process,
/// or its exec of another program.
#[derive(Debug)]
pub struct ParentOnlyFd {
    index: Option<usize>,
}

impl ParentOnlyFd {
    /// Registers a descriptor. Children keep the descriptors beyond 256 registered ones.
    pub fn new(fd: &impl AsRawFd) -> Self {
        REGISTER.call_once(|| {
            // SAFETY: the handler is a static function, and makes system calls only. Without it,
            // children keep their descriptors.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) };
        });
        let fd = fd.as_raw_fd();
        let free = |entry: &AtomicI32| {
            entry.compare_exchange(NO_FD, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        Self { index: PARENT_ONLY.iter().position(free) }
    }
}

impl Drop for ParentOnlyFd {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            PARENT_ONLY[index].store(NO_FD, Ordering::Relaxed);
        }
    }
}

/// Runs in the child before fork returns: system calls only, no locks. The numbers stay valid and
/// lead to /dev/null, because their owners will close them.
extern "C" fn close_in_child() {
    // SAFETY: the path is a constant C string; the code checks the result.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for entry in &PARENT_ONLY {
        let fd = entry.load(Ordering::Relaxed);
        if fd != NO_FD && null >= 0 {
            // SAFETY: `fd` is a descriptor of this process, `null` another one; both stay open.
            unsafe { libc::dup3(null, fd, libc::O_CLOEXEC) };
        }
    }
    if null >= 0 {
        // SAFETY: this function opened the descriptor and alone knows it.
        unsafe { libc::close(null) };
    }
}
