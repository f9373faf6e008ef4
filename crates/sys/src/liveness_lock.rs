//! Pulses: a word that the kernel marks as soon as the thread which holds it begins to end.
//!
//! A robust mutex in shared memory, locked and never unlocked. The kernel walks the robust mutexes
//! of an ending thread before it gives the memory of the process back, so the mark comes after the
//! same time whatever the process has; descriptors close, and descriptors of the process become
//! readable, only after that (80 us for each MB on the project's machine).
//!
//! # Safety
//! The mutex lies in a mapping that the pulse owns. The C library links it into a list of the
//! thread that locked it, so the mapping must stay until that thread has unlocked it or has ended:
//! a pulse that is dropped elsewhere is kept until then. In a child by fork there is neither the
//! mapping nor the list.
#![allow(unsafe_code)]

use crate::{ForkGuard, Mapping};
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::sync::{Mutex, TryLockError};

/// Room that a pulse takes in its page, in bytes.
pub const LIVENESS_LOCK_BYTES: usize = 64;
/// In the word: the thread that held it has ended.
pub const LIVENESS_OWNER_DIED: u32 = 0x4000_0000;
/// In the word: the kernel shall wake who sleeps on it.
pub const LIVENESS_WAITERS: u32 = 0x8000_0000;
/// In the word: which thread holds it; 0 where none does.
pub const LIVENESS_OWNER_MASK: u32 = 0x3fff_ffff;

const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= LIVENESS_LOCK_BYTES);

/// How often a thread looks whether the list below is free.
const LEAVE_TRIES: u32 = 10_000;
/// Pulses dropped by others than their holders.
static LEFT: Mutex<Vec<Held>> = Mutex::new(Vec::new());

/// A pulse of the thread that took it.
#[derive(Debug)]
pub struct LivenessLock(Option<Held>);

#[derive(Debug)]
struct Held {
    page: Mapping,
    offset: usize,
    thread: i32,
    guard: ForkGuard,
}

impl LivenessLock {
    /// Takes the pulse at `offset` of a page for the calling thread. The bytes there are zero, and nobody's else.
    ///
    /// # Errors
    /// Of [`Mapping::new`]; `INVAL` where the room does not lie inside, aligned; `BUSY` where it is taken;
    /// `NOSYS` where the C library has no robust mutexes.
    ///
    /// # Source
    /// get_robust_list(2), pthread_mutexattr_setrobust(3)
    pub fn take(page: impl AsFd, page_bytes: usize, offset: usize) -> Result<Self, Errno> {
        let inside = offset.checked_add(LIVENESS_LOCK_BYTES).is_some_and(|end| end <= page_bytes);
        if !inside || !offset.is_multiple_of(LIVENESS_LOCK_BYTES) {
            return Err(Errno::INVAL);
        }
        release_left();
        let page = Mapping::new(page, page_bytes, true)?;
        let held = Held { page, offset, thread: crate::thread_id(), guard: ForkGuard::new()? };
        lock_robust(held.mutex())?;
        Ok(Self(Some(held)))
    }
}

impl Drop for LivenessLock {
    fn drop(&mut self) {
        let Some(held) = self.0.take() else { return };
        if let Some(kept) = held.release() {
            leave(kept);
        }
        release_left();
    }
}

impl Held {
    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.page.start().as_ptr().wrapping_add(self.offset).cast()
    }

    fn has_stopped(&self) -> bool {
        // SAFETY: inside the mapping and aligned; the kernel changes it as an atomic does.
        let word = unsafe { AtomicU32::from_ptr(self.mutex().cast()) };
        word.load(Ordering::Acquire) & LIVENESS_OWNER_DIED != 0
    }

    /// Lets go of it, or gives it back where only its holder may do that.
    fn release(self) -> Option<Self> {
        if !self.guard.is_original() {
            // The parent's. Here lies nothing, or something else by now.
            core::mem::forget(self.page);
            return None;
        }
        if self.thread == crate::thread_id() {
            // SAFETY: locked by this very thread, in its list, in a mapping that still is.
            unsafe { libc::pthread_mutex_unlock(self.mutex()) };
            return None;
        }
        // An ended thread has no list any more.
        (!self.has_stopped()).then_some(self)
    }
}

/// Leaves a pulse to its holder. Where the list stays in use (a thread of the parent had it when this child was forked)
/// the page stays mapped as long as the process: its holder's list leads through it.
fn leave(held: Held) {
    for _ in 0..LEAVE_TRIES {
        match LEFT.try_lock() {
            Ok(mut left) => return left.push(held),
            Err(TryLockError::Poisoned(left)) => return left.into_inner().push(held),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    core::mem::forget(held);
}

/// Lets go of what others have left for this thread, and of what ended threads have left.
fn release_left() {
    // Whoever finds the list in use (also by the parent of this child) leaves it for the next.
    if let Ok(mut left) = LEFT.try_lock() {
        let all = std::mem::take(&mut *left);
        left.extend(all.into_iter().filter_map(Held::release));
    }
}

fn lock_robust(mutex: *mut libc::pthread_mutex_t) -> Result<(), Errno> {
    let check = |code: i32| if code == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(code)) };
    let mut kind = core::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    // SAFETY: attributes of our own, made before they are used; the mutex lies in our mapping, and is nobody's else.
    unsafe {
        check(libc::pthread_mutexattr_init(kind.as_mut_ptr()))?;
        check(libc::pthread_mutexattr_setpshared(kind.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED))?;
        check(libc::pthread_mutexattr_setrobust(kind.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST))?;
        check(libc::pthread_mutex_init(mutex, kind.as_ptr()))?;
        libc::pthread_mutexattr_destroy(kind.as_mut_ptr());
        check(libc::pthread_mutex_trylock(mutex))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(page: &Mapping) -> &AtomicU32 {
        // SAFETY: the first word of a mapping.
        unsafe { AtomicU32::from_ptr(page.start().as_ptr().cast()) }
    }

    #[test]
    fn a_pulse_names_its_thread_until_it_is_dropped() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        let page = Mapping::new(&memory, 4096, true).unwrap();
        let pulse = LivenessLock::take(&memory, 4096, 0).unwrap();
        assert_eq!(word(&page).load(Ordering::Acquire), crate::thread_id().cast_unsigned());
        drop(pulse);
        assert_eq!(word(&page).load(Ordering::Acquire), 0);
    }

    #[test]
    fn the_end_of_its_thread_stops_it() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        let page = Mapping::new(&memory, 4096, true).unwrap();
        let taken = std::thread::spawn({
            let memory = memory.try_clone().unwrap();
            move || LivenessLock::take(&memory, 4096, 0).unwrap()
        });
        let pulse = taken.join().unwrap();
        // The join may come before the kernel's last steps.
        for _ in 0..10_000 {
            if word(&page).load(Ordering::Acquire) == LIVENESS_OWNER_DIED {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(word(&page).load(Ordering::Acquire), LIVENESS_OWNER_DIED);
        drop(pulse);
    }

    #[test]
    fn dropped_by_another_it_is_its_holders_to_let_go() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        let page = Mapping::new(&memory, 4096, true).unwrap();
        let pulse = LivenessLock::take(&memory, 4096, 0).unwrap();
        std::thread::spawn(move || drop(pulse)).join().unwrap();
        assert_eq!(word(&page).load(Ordering::Acquire), crate::thread_id().cast_unsigned());
        let other = crate::create_memory("m3-test", 4096).unwrap();
        for _ in 0..10_000 {
            // Another test may look at what was left just now.
            drop(LivenessLock::take(&other, 4096, 64).unwrap());
            if word(&page).load(Ordering::Acquire) == 0 {
                return;
            }
        }
        panic!("its holder never let go of it");
    }

    #[test]
    fn room_outside_of_the_page_is_refused() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        for offset in [4095, 4096, usize::MAX, 8] {
            assert_eq!(LivenessLock::take(&memory, 4096, offset).unwrap_err(), Errno::INVAL);
        }
    }

    #[test]
    fn a_page_that_is_not_empty_is_refused_or_taken_anew() {
        let memory = crate::create_memory("m3-test", 4096).unwrap();
        let page = Mapping::new(&memory, 4096, true).unwrap();
        word(&page).store(77, Ordering::Release);
        // Begun anew: what lay there was nobody's lock.
        assert!(LivenessLock::take(&memory, 4096, 0).is_ok());
    }
}
