//! ppoll and pselect6 by their numbers. The kernel's calls write the time that is left, where the C
//! library's functions of these names do not.
//!
//! # Safety
//! As in [`super::ready`]. The kernel gets the program's own words, with another mask at most.
#![allow(unsafe_code)]

use super::errno;
use super::ready::{
    NO_TIME, TimeLimit, address, copies, finish, limit_of, list, mask_now, set_addresses,
    write_back,
};
use core::ffi::{c_int, c_long};
use libc::{fd_set, nfds_t, sigset_t};
use m3ipc_shim::kernel;
use m3ipc_shim::kernel::memory::is_readable;
use m3ipc_shim::readiness::{RealWait, Waited, poll as poll_sockets, select as select_sockets};

/// Bytes of the kernel's signal set.
pub(super) const MASK_BYTES: usize = 8;

fn at<T>(word: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(word)
}

/// Makes the program's own call.
///
/// # Safety
/// The words are those of the call.
unsafe fn real(number: c_long, words: [usize; 6]) -> c_int {
    // SAFETY: the caller promises the words.
    match unsafe { kernel::call(number, words) } {
        Ok(result) => errno::count(result),
        Err(code) => errno::fail(code),
    }
}

/// A call of ppoll.
///
/// # Safety
/// The words are those of the call.
pub unsafe fn ppoll(words: [usize; 6]) -> c_int {
    let [fds, count, timeout, mask, mask_bytes, _] = words;
    // SAFETY: the program keeps the contract of ppoll(2).
    let Some(list) = (unsafe { list(at(fds), count as nfds_t) }) else {
        // SAFETY: as above.
        return unsafe { real(libc::SYS_ppoll, words) };
    };
    // SAFETY: as above.
    let limit = unsafe { limit_of(at(timeout), at(mask)) };
    if matches!(limit, TimeLimit::Refused) || mask != 0 && mask_bytes != MASK_BYTES {
        // SAFETY: as above.
        return unsafe { real(libc::SYS_ppoll, words) };
    }
    let may_sleep = matches!(limit, TimeLimit::Sleeps);
    finish(poll_sockets(list, may_sleep, |_list, wait| {
        // The kernel's call writes the time that is left.
        let mut no_time = NO_TIME;
        let mut words = words;
        if let RealWait::Now = wait {
            words[2] = (&raw mut no_time).expose_provenance();
            words[3] = mask_now(at(mask)).expose_provenance();
        }
        if let RealWait::AfterSpin(Some(before)) = wait
            && mask == 0
        {
            (words[3], words[4]) =
                (address::<sigset_t>(Some(before)).expose_provenance(), MASK_BYTES);
        }
        // SAFETY: as above; the mask is the program's, or live.
        unsafe { real(libc::SYS_ppoll, words) }
    }))
}

/// A call of pselect6, whose last word points to the mask and its size.
///
/// # Safety
/// The words are those of the call.
pub unsafe fn pselect6(words: [usize; 6]) -> c_int {
    let [count, read, write, except, timeout, mask] = words;
    let sets = [read, write, except].map(at::<fd_set>);
    let count = c_int::try_from(count & 0xffff_ffff).unwrap_or(c_int::MAX);
    let sized = at::<[usize; 2]>(mask);
    let is_refused = mask != 0 && !is_readable(sized.cast_const(), 1);
    // SAFETY: the program keeps the contract of pselect6(2).
    let copies = if is_refused { None } else { unsafe { copies(count, sets) } };
    let Some(mut copies) = copies else {
        // SAFETY: as above.
        return unsafe { real(libc::SYS_pselect6, words) };
    };
    // SAFETY: null, or readable.
    let given = unsafe { sized.as_ref() }.copied().unwrap_or([0; 2]);
    // SAFETY: the program keeps the contract of pselect6(2).
    let limit = unsafe { limit_of(at(timeout), at(given[0])) };
    if matches!(limit, TimeLimit::Refused) || given[0] != 0 && given[1] != MASK_BYTES {
        // SAFETY: as above.
        return unsafe { real(libc::SYS_pselect6, words) };
    }
    let may_sleep = matches!(limit, TimeLimit::Sleeps);
    let waited = select_sockets(&mut copies, may_sleep, |copies, wait| {
        let (mut own, mut words, mut no_time) = (given, words, NO_TIME);
        if let RealWait::Now = wait {
            let sets = set_addresses(copies).map(|set| set.expose_provenance());
            words[1..4].copy_from_slice(&sets);
            words[4] = (&raw mut no_time).expose_provenance();
            own[0] = mask_now(at(given[0])).expose_provenance();
        }
        if let RealWait::AfterSpin(Some(before)) = wait
            && given[0] == 0
        {
            own = [address::<sigset_t>(Some(before)).expose_provenance(), MASK_BYTES];
        }
        if mask != 0 || own[0] != 0 {
            words[5] = (&raw const own).expose_provenance();
        }
        // SAFETY: as above; the mask is the program's, or live, as is its record.
        unsafe { real(libc::SYS_pselect6, words) }
    });
    if let Waited::Ready(_) = waited {
        // SAFETY: the sets are the program's.
        unsafe { write_back(&copies, sets) };
    }
    finish(waited)
}
