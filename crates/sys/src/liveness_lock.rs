//! Liveness locks: a word that the kernel marks as soon as its owner thread begins to end.
//!
//! A liveness lock is a robust mutex in shared memory. Its thread locks it and keeps it locked. The
//! kernel marks the robust mutexes of an ending thread before it frees the memory of the process.
//! So the mark takes the same time for every process. The kernel closes descriptors, and makes the
//! pidfd readable, only after that (80 us for each MB on the project's machine).
//!
//! # Safety
//! The mutex lies in a mapping that the liveness lock keeps. The C library links it into a list of
//! the thread that locked it. The mapping must stay until that thread has unlocked the mutex or has
//! ended. A lock that another thread drops is therefore kept until then. A forked child has neither
//! the mapping nor the list.
#![allow(unsafe_code)]

use crate::{ForkGuard, Mapping, PerProcess};
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::sync::{Arc, Mutex, PoisonError};

/// Size of a liveness lock in its page, in bytes.
pub const LIVENESS_LOCK_BYTES: usize = 64;
/// Bit of the word: the owner thread has ended.
pub const LIVENESS_OWNER_DIED: u32 = 0x4000_0000;
/// Bit of the word: the kernel wakes a sleeper of the word.
pub const LIVENESS_WAITERS: u32 = 0x8000_0000;
/// Bits of the word: the owner thread; 0 for none.
pub const LIVENESS_OWNER_MASK: u32 = 0x3fff_ffff;

const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= LIVENESS_LOCK_BYTES);

/// Liveness locks that another thread than their owner dropped.
static ORPHANED: PerProcess<Mutex<Vec<Locked>>> = PerProcess::new();

/// A liveness lock of the thread that took it.
#[derive(Debug)]
pub struct LivenessLock(Option<Locked>);

#[derive(Debug)]
struct Locked {
    page: Arc<Mapping>,
    offset: usize,
    thread: i32,
    guard: ForkGuard,
}

impl LivenessLock {
    /// Locks the liveness lock at `offset` of a page for this thread. No other process uses its
    /// bytes.
    ///
    /// # Errors
    /// Those of [`Mapping::new`] and of [`take_in`](Self::take_in).
    pub fn take(page: impl AsFd, page_bytes: usize, offset: usize) -> Result<Self, Errno> {
        Self::take_in(Arc::new(Mapping::new(page, page_bytes, true)?), offset)
    }

    /// The same in a page that this process has mapped already. The mapping stays as long as the
    /// lock.
    ///
    /// # Errors
    /// `INVAL` if the lock does not lie inside, aligned, or if the mapping is not writable; `BUSY`
    /// if its word names an owner that has not ended; `NOSYS` if the C library has no robust
    /// mutexes.
    ///
    /// # Source
    /// get_robust_list(2), pthread_mutexattr_setrobust(3)
    pub fn take_in(page: Arc<Mapping>, offset: usize) -> Result<Self, Errno> {
        let end = offset.checked_add(LIVENESS_LOCK_BYTES);
        let inside = end.is_some_and(|end| end <= page.bytes()) && page.is_writable();
        if !inside || !offset.is_multiple_of(LIVENESS_LOCK_BYTES) {
            return Err(Errno::INVAL);
        }
        release_orphaned();
        let locked = Locked { page, offset, thread: crate::thread_id(), guard: ForkGuard::new()? };
        // A mutex that is in the list of a thread must not be made anew: threads take turns here.
        let _turn = ORPHANED.get().lock().unwrap_or_else(PoisonError::into_inner);
        if locked.word() & LIVENESS_OWNER_MASK != 0 {
            return Err(Errno::BUSY);
        }
        lock_robust(locked.mutex())?;
        Ok(Self(Some(locked)))
    }
}

impl Drop for LivenessLock {
    fn drop(&mut self) {
        let Some(locked) = self.0.take() else { return };
        if let Some(kept) = locked.unlock() {
            keep_orphaned(kept);
        }
        release_orphaned();
    }
}

impl Locked {
    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.page.start().as_ptr().wrapping_add(self.offset).cast()
    }

    fn word(&self) -> u32 {
        // SAFETY: `take_in` checked that the word lies inside the mapping, aligned. The kernel
        // changes it atomically.
        let word = unsafe { AtomicU32::from_ptr(self.mutex().cast()) };
        word.load(Ordering::Acquire)
    }

    fn owner_died(&self) -> bool {
        self.word() & LIVENESS_OWNER_DIED != 0
    }

    /// Unlocks it, or returns it if only its owner thread may unlock it.
    fn unlock(self) -> Option<Self> {
        if !self.guard.is_original() {
            return None; // the lock is the parent's
        }
        if self.thread == crate::thread_id() {
            // SAFETY: this thread locked the mutex, and `self` keeps it mapped.
            unsafe { libc::pthread_mutex_unlock(self.mutex()) };
            return None;
        }
        // An ended thread has no list any more, so the mapping may go.
        (!self.owner_died()).then_some(self)
    }
}

/// Keeps a liveness lock for its owner thread, whose list leads through its page.
fn keep_orphaned(locked: Locked) {
    ORPHANED.get().lock().unwrap_or_else(PoisonError::into_inner).push(locked);
}

/// Lets go of what others have left for this thread, and of what ended threads have left.
fn release_orphaned() {
    // If another thread has the list, a later call frees the locks.
    if let Ok(mut list) = ORPHANED.get().try_lock() {
        let all = std::mem::take(&mut *list);
        list.extend(all.into_iter().filter_map(Locked::unlock));
    }
}

fn lock_robust(mutex: *mut libc::pthread_mutex_t) -> Result<(), Errno> {
    let check = |code: i32| if code == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(code)) };
    let mut attributes = core::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    // SAFETY: `attributes` is a local that `init` fills before its use. The mutex lies in a mapping
    // of the caller, and no other code uses its bytes.
    unsafe {
        check(libc::pthread_mutexattr_init(attributes.as_mut_ptr()))?;
        check(libc::pthread_mutexattr_setpshared(
            attributes.as_mut_ptr(),
            libc::PTHREAD_PROCESS_SHARED,
        ))?;
        check(libc::pthread_mutexattr_setrobust(
            attributes.as_mut_ptr(),
            libc::PTHREAD_MUTEX_ROBUST,
        ))?;
        check(libc::pthread_mutex_init(mutex, attributes.as_ptr()))?;
        libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
        check(libc::pthread_mutex_trylock(mutex))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(page: &Mapping) -> &AtomicU32 {
        // SAFETY: the first word of a mapping is aligned.
        unsafe { AtomicU32::from_ptr(page.start().as_ptr().cast()) }
    }

    #[test]
    fn a_liveness_lock_names_its_thread_until_drop() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        let page = Mapping::new(&memory, 4096, true).unwrap();
        let lock = LivenessLock::take(&memory, 4096, 0).unwrap();
        assert_eq!(word(&page).load(Ordering::Acquire), crate::thread_id().cast_unsigned());
        drop(lock);
        assert_eq!(word(&page).load(Ordering::Acquire), 0);
    }

    #[test]
    fn the_end_of_its_thread_marks_it() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        let page = Mapping::new(&memory, 4096, true).unwrap();
        let taken = std::thread::spawn({
            let memory = memory.try_clone().unwrap();
            move || LivenessLock::take(&memory, 4096, 0).unwrap()
        });
        let lock = taken.join().unwrap();
        // The join may return before the kernel's last steps.
        for _ in 0..10_000 {
            if word(&page).load(Ordering::Acquire) == LIVENESS_OWNER_DIED {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(word(&page).load(Ordering::Acquire), LIVENESS_OWNER_DIED);
        drop(lock);
    }

    #[test]
    fn a_lock_that_another_thread_drops_is_unlocked_by_its_owner() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        let page = Mapping::new(&memory, 4096, true).unwrap();
        let lock = LivenessLock::take(&memory, 4096, 0).unwrap();
        std::thread::spawn(move || drop(lock)).join().unwrap();
        assert_eq!(word(&page).load(Ordering::Acquire), crate::thread_id().cast_unsigned());
        let other = crate::create_memory("m3-test", 4096).unwrap();
        for _ in 0..10_000 {
            // Another test may have the list locked at this moment.
            drop(LivenessLock::take(&other, 4096, 64).unwrap());
            if word(&page).load(Ordering::Acquire) == 0 {
                return;
            }
        }
        panic!("the owner never unlocked it");
    }

    #[test]
    fn a_lock_outside_of_the_page_is_refused() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        for offset in [4095, 4096, usize::MAX, 8] {
            assert_eq!(LivenessLock::take(&memory, 4096, offset).unwrap_err(), Errno::INVAL);
        }
    }

    #[test]
    fn a_lock_that_is_held_is_not_taken_again() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        let held = LivenessLock::take(&memory, 4096, 0).unwrap();
        let again = || LivenessLock::take(&memory, 4096, 0).map(drop);
        assert_eq!(again(), Err(Errno::BUSY));
        std::thread::scope(|scope| {
            assert_eq!(scope.spawn(again).join().unwrap(), Err(Errno::BUSY));
        });
        drop(held);
        assert_eq!(again(), Ok(()));
    }

    #[test]
    fn a_lock_whose_owner_has_ended_is_taken_anew() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        let page = Mapping::new(&memory, 4096, true).unwrap();
        word(&page).store(LIVENESS_OWNER_DIED, Ordering::Release);
        assert!(LivenessLock::take(&memory, 4096, 0).is_ok());
    }
}
