//! Detection of a fork, by a page that the kernel clears in the child, and what a fork leaves.
//!
//! # Process-wide locks
//!
//! A child by fork has one thread. A lock that another thread of the parent held at the fork stays
//! held in the child for ever. So no lock is a plain static. Each lies in a
//! [`PerProcess`](crate::PerProcess), and the child makes its own:
//!
//! | lock | guards |
//! |---|---|
//! | sys `liveness_lock::ORPHANED` | liveness locks that other threads dropped |
//! | sys `pause::WANTED` | the pause point of a test |
//! | sys `report::LOST` | the count of lost lines, also while one is written |
//! | shm `fixed_region::REGIONS` | the areas that this process has mapped |
//! | m3ipc `leaving::LEAVING` | dropped endpoints that a daemon may not have unbound |
//! | capi `info::TEXTS` | the texts of codes |
//! | capi `sock::domain::DOMAIN` | the domain of this process, also during a request to the daemon |
//! | capi `sock::table::TABLE` | com-sockets by number |
//! | capi `sock::event_loop::POLLERS` | pollers by number |
//! | capi `sock::block::UNSENT` | blocks that streams gave back |
//! | python `anchor::FIRSTS` | the process endpoint, also during a request to the daemon |
//!
//! `cargo xtask check locks` finds every other static lock, and knows why these four stay:
//!
//! | lock | why no child inherits it held |
//! |---|---|
//! | python `error::MAKE`, `message::FUNCTION` | their writer has the interpreter lock, as `os.fork` |
//! | m3ipc `spawn::TEST_DAEMON` | only the start of a test writes it, and readers never wait |
//! | sys `miri_memory::MEMORIES` | it exists under miri alone, where nothing forks |
//!
//! All other statics are atomics: one exchange publishes what they point to.
//!
//! # Locks in objects
//!
//! An object belongs to the process that made it. Each of its calls asks a [`ForkGuard`] before it
//! takes a lock, and fails in a child; each drop does so too, and then leaves the lock alone:
//! streams, listeners, datagram sockets, pollers and domains (`NOTCONN`), areas and blocks
//! (`Unbound`), endpoints and pending requests (`Unbound`), the objects of Python (`Forked`). Calls
//! and asynchronous sockets belong to a tokio runtime, which no fork survives.
//!
//! # Safety
//! The page is private to the process and stays mapped for its whole life. All access goes through
//! an atomic.
#![allow(unsafe_code)]

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use rustix::io::Errno;
#[cfg(not(miri))]
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::os::fd::AsRawFd;

#[cfg(not(miri))]
const PAGE_BYTES: usize = 4096;

/// The page of the process. The kernel clears it in a forked child.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// The number of processes that made guards, along the chain of forks to this process.
static GENERATIONS: AtomicU32 = AtomicU32::new(0);

/// The word of the page, if there is one.
#[inline]
fn word() -> Option<&'static AtomicU32> {
    // SAFETY: null, or the aligned start of a page that is never unmapped.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

/// The generation of this process. A child by fork reads zero and takes the next number.
fn generation(word: &AtomicU32) -> u32 {
    match word.load(Ordering::Relaxed) {
        0 => {
            let next = GENERATIONS.fetch_add(1, Ordering::Relaxed) + 1;
            let set = word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
            set.map_or_else(|other| other, |_zero| next)
        }
        generation => generation,
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
        let word = match word() {
            Some(word) => word,
            None => Self::map()?,
        };
        Ok(Self { word, generation: generation(word) })
    }

    /// Under miri, where nothing forks: a word without a page.
    #[cfg(miri)]
    fn map() -> Result<&'static AtomicU32, Errno> {
        static WORD: AtomicU32 = AtomicU32::new(0);
        PAGE.store((&raw const WORD).cast_mut(), Ordering::Release);
        Ok(&WORD)
    }

    #[cfg(not(miri))]
    fn map() -> Result<&'static AtomicU32, Errno> {
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
        let cleared = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) };
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let is_published = cleared.is_ok()
            && PAGE.compare_exchange(null_mut(), page.cast(), order.0, order.1).is_ok();
        if !is_published {
            // SAFETY: the page is ours, and no other thread has its address.
            let _ = unsafe { munmap(page, PAGE_BYTES) };
        }
        cleared?;
        // This page, or that of another thread.
        word().ok_or(Errno::NOMEM)
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
    word().map_or(0, generation)
}

/// Highest number of descriptors that forked children close.
const PARENT_ONLY_MAX: usize = 256;
static PARENT_ONLY: [AtomicI32; PARENT_ONLY_MAX] =
    [const { AtomicI32::new(NO_FD) }; PARENT_ONLY_MAX];
const NO_FD: i32 = -1;
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// A descriptor that forked children close at once. So its other end sees the end of this process,
/// or its exec of another program.
#[derive(Debug)]
pub struct ParentOnlyFd {
    entry: Option<&'static AtomicI32>,
    fd: i32,
}

impl ParentOnlyFd {
    /// Registers a descriptor. Children keep the descriptors beyond 256 registered ones.
    pub fn new(fd: &impl AsRawFd) -> Self {
        if !IS_REGISTERED.load(Ordering::Acquire) {
            // Threads that come here together register it twice, and its second run does nothing.
            // SAFETY: the handler is a static function, and makes system calls only. Without it,
            // children keep their descriptors.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) };
            IS_REGISTERED.store(true, Ordering::Release);
        }
        let fd = fd.as_raw_fd();
        let free = |entry: &AtomicI32| {
            entry.compare_exchange(NO_FD, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        Self { entry: PARENT_ONLY.iter().find(|entry| free(entry)), fd }
    }
}

impl Drop for ParentOnlyFd {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            // In a child the entry may be that of another descriptor by now.
            let _ = entry.compare_exchange(self.fd, NO_FD, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Runs in the child before fork returns: system calls only, no locks. The numbers stay valid and
/// lead to /dev/null, because their owners will close them.
extern "C" fn close_in_child() {
    // SAFETY: the path is a constant C string; the code checks the result.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for entry in &PARENT_ONLY {
        // The number may stand for another file when this child forks.
        let fd = entry.swap(NO_FD, Ordering::Relaxed);
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
