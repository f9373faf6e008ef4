//! A static value that each process has for itself.
//!
//! # Safety
//! The pointer is null or comes from `Box::into_raw`. What it points to is never freed: references
//! to the value live as long as the process, and a child by fork may hold copies of them.
#![allow(unsafe_code)]

use crate::ForkGuard;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A value of each process, made at its first use there.
///
/// A child by fork finds none and makes its own. So a lock in the value is free in the child, and
/// no half of a change is there, whatever the threads of the parent did at the fork. The parent's
/// value stays in the memory of the child, out of reach, and is never dropped.
///
/// Every process-wide lock of the project lies in one: see the list in the module `fork`.
#[derive(Debug)]
pub struct PerProcess<T: 'static>(AtomicPtr<Owned<T>>);

#[derive(Debug)]
struct Owned<T> {
    /// The process that made the value; its number where the kernel gives no page for a guard.
    maker: Result<ForkGuard, u32>,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// No value yet.
    #[must_use]
    #[allow(clippy::new_without_default)] // for statics alone
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The value of this process.
    pub fn get(&self) -> &'static T
    where
        T: Default,
    {
        self.get_or_make(T::default)
    }

    /// The value of this process, which the first call makes. Threads that call at the same time
    /// may all make one; all get the same one.
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &'static T {
        let seen = self.0.load(Ordering::Acquire);
        if let Some(value) = Self::own(seen) {
            return value;
        }
        let maker = ForkGuard::new().map_err(|_errno| std::process::id());
        let made = Box::into_raw(Box::new(Owned { maker, value: make() }));
        match self.0.compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just made, and never freed from now on.
            Ok(_) => unsafe { &(*made).value },
            Err(other) => {
                // SAFETY: made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: another thread of this process has published it: never null, never freed.
                unsafe { &(*other).value }
            }
        }
    }

    /// The value behind the pointer, if this process made it.
    fn own(owned: *mut Owned<T>) -> Option<&'static T> {
        // SAFETY: null, or never freed; see the head of this file.
        let owned = unsafe { owned.as_ref() }?;
        let is_own = match &owned.maker {
            Ok(guard) => guard.is_original(),
            Err(maker) => *maker == std::process::id(),
        };
        is_own.then_some(&owned.value)
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_child_by_fork_has_a_value_of_its_own() {
        static LIST: PerProcess<Mutex<Vec<u32>>> = PerProcess::new();
        LIST.get().lock().unwrap().push(1);
        assert_eq!(*LIST.get().lock().unwrap(), [1]);
        // A thread holds the lock for ever, as one that the fork interrupts.
        let (held, is_held) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _guard = LIST.get().lock().unwrap();
            held.send(()).unwrap();
            std::thread::park();
        });
        is_held.recv().unwrap();
        // SAFETY: the child allocates, which the C library allows after a fork, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_fresh = LIST.get().try_lock().is_ok_and(|list| list.is_empty());
            // SAFETY: ends the child without its destructors.
            unsafe { libc::_exit(i32::from(!is_fresh)) };
        }
        let mut status = 0;
        // SAFETY: the kernel writes the status into a local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn all_threads_get_the_same_value() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new();
        let all: Vec<_> = (0..8).map(|_| std::thread::spawn(|| VALUE.get())).collect();
        let all: Vec<_> = all.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(all.iter().all(|value| core::ptr::eq(*value, all[0])));
    }
}
