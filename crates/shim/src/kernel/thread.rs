//! The word by which a thread is known without any thread-local variable.
//!
//! # Safety
//! Each thread of a C library has storage of its own, to which a register points.
#![allow(unsafe_code)]

use super::memory::is_readable;
use core::ffi::c_void;

/// The word of the calling thread: the first word of its storage, which holds the address of the
/// storage in each thread of the C library.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn storage_word() -> usize {
    let word;
    // SAFETY: code of the C library reads the storage of its thread, too.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) word, options(nostack, readonly));
    }
    word
}

/// The word of the calling thread: the address of its storage.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn storage_word() -> usize {
    let word;
    // SAFETY: the register can be read at any time.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) word, options(nostack, nomem));
    }
    word
}

/// The word of a thread that begins with this storage; `None` where there is none.
///
/// # Safety
/// The memory stays mapped for this call.
#[must_use]
pub unsafe fn storage_word_of(storage: *const c_void) -> Option<usize> {
    if !is_readable(storage.cast::<usize>(), 1) {
        return None;
    }
    if cfg!(target_arch = "aarch64") {
        return Some(storage.addr());
    }
    // SAFETY: readable, and any bits are valid.
    Some(unsafe { storage.cast::<usize>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_word_of_its_own() {
        let own = storage_word();
        assert_eq!(storage_word(), own);
        let other = std::thread::spawn(storage_word).join().unwrap();
        assert!(own != 0 && other != 0 && other != own);
        let storage = core::ptr::with_exposed_provenance(own);
        // SAFETY: the storage of this thread.
        assert_eq!(unsafe { storage_word_of(storage) }, Some(own));
        // SAFETY: no memory at all.
        assert_eq!(unsafe { storage_word_of(core::ptr::null()) }, None);
    }
}
