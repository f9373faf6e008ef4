//! poll and select.
//!
//! # Safety
//! The list of poll becomes a slice for the time of the call. The sets of select are copied,
//! because a program may pass one set twice. Masks and timeouts go on to the C library unchanged.
#![allow(unsafe_code)]

use super::errno;
use super::many::nanoseconds;
use super::stream::check_room;
use crate::next;
use core::ffi::{c_int, c_long};
use libc::{fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use m3ipc_shim::monotonic_ns;
use m3ipc_shim::readiness::{
    RealWait, SelectSets, Waited, poll as poll_sockets, select as select_sockets,
};

/// The list of a poll; `None` where the kernel must refuse it, or there is no descriptor.
///
/// # Safety
/// `fds` is null or points to `count` entries, which poll(2) may write for `'a`.
unsafe fn list<'a>(fds: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
    let is_slice = !fds.is_null() && count <= isize::MAX.unsigned_abs() / size_of::<pollfd>();
    // SAFETY: the caller promises `count` entries.
    is_slice.then(|| unsafe { core::slice::from_raw_parts_mut(fds, count) })
}

fn address<T>(value: Option<&T>) -> *const T {
    value.map_or(core::ptr::null(), core::ptr::from_ref)
}

fn finish(waited: Waited) -> c_int {
    match waited {
        Waited::Ready(count) => errno::count(count),
        Waited::Failed(code) => errno::fail(code),
        Waited::Real(result) => result,
    }
}

fn length(fds: &[pollfd]) -> nfds_t {
    nfds_t::try_from(fds.len()).unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the program keeps the contract of poll(2).
    let Some(list) = (unsafe { list(fds, count) }) else {
        // SAFETY: as above.
        return unsafe { next::poll(fds, count, timeout) };
    };
    let time = timespec {
        tv_sec: i64::from(timeout / 1000),
        tv_nsec: c_long::from(timeout % 1000) * 1_000_000,
    };
    finish(poll_sockets(list, timeout != 0, |fds, wait| match wait {
        // SAFETY: the entries are those of the program.
        RealWait::AsGiven => unsafe { next::poll(fds.as_mut_ptr(), length(fds), timeout) },
        RealWait::AfterSpin(mask) => {
            let time = if timeout < 0 { core::ptr::null() } else { &raw const time };
            // SAFETY: as above; time and mask are live.
            unsafe { next::ppoll(fds.as_mut_ptr(), length(fds), time, address(mask)) }
        }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the same function.
    unsafe { poll(fds, count, timeout) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program keeps the contract of ppoll(2).
    let Some(list) = (unsafe { list(fds, count) }) else {
        // SAFETY: as above.
        return unsafe { next::ppoll(fds, count, timeout, mask) };
    };
    // SAFETY: null, or valid by the contract of ppoll(2).
    let may_sleep = unsafe { timeout.as_ref() }.is_none_or(|time| nanoseconds(time) != Some(0));
    finish(poll_sockets(list, may_sleep, |fds, wait| {
        let mask = match wait {
            RealWait::AfterSpin(before) if mask.is_null() => address(before),
            _ => mask,
        };
        // SAFETY: the entries are those of the program; the mask is the program's, or live.
        unsafe { next::ppoll(fds.as_mut_ptr(), length(fds), timeout, mask) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    room: usize,
) -> c_int {
    check_room(usize::try_from(count).unwrap_or(usize::MAX), room / size_of::<pollfd>());
    // SAFETY: the same function, with `count` checked.
    unsafe { poll(fds, count, timeout) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: usize,
) -> c_int {
    check_room(usize::try_from(count).unwrap_or(usize::MAX), room / size_of::<pollfd>());
    // SAFETY: the same function, with `count` checked.
    unsafe { ppoll(fds, count, timeout, mask) }
}

/// Copies of the sets of a select; `None` where no descriptor is to be read, or the kernel must
/// refuse the number.
///
/// # Safety
/// Each set is null or valid.
unsafe fn copies(count: c_int, sets: [*mut fd_set; 3]) -> Option<SelectSets> {
    let is_read = !sets[0].is_null()
        && usize::try_from(count).is_ok_and(|count| (1..=libc::FD_SETSIZE).contains(&count));
    // SAFETY: the caller promises the sets.
    is_read.then(|| SelectSets { count, sets: sets.map(|set| unsafe { set.as_ref() }.copied()) })
}

/// Writes copies back.
///
/// # Safety
/// Each set is null or valid.
unsafe fn write_back(copies: &SelectSets, sets: [*mut fd_set; 3]) {
    for (copy, set) in copies.sets.iter().zip(sets) {
        if let Some(copy) = copy {
            // SAFETY: a copy exists only for a set that is not null.
            unsafe { set.write(*copy) };
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let sets = [read, write, except];
    // SAFETY: the program keeps the contract of select(2).
    let Some(mut copies) = (unsafe { copies(count, sets) }) else {
        // SAFETY: as above.
        return unsafe { next::select(count, read, write, except, timeout) };
    };
    // SAFETY: null, or valid by the contract of select(2).
    let given = unsafe { timeout.as_ref() }
        .map(|time| timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec.wrapping_mul(1000) });
    let limit_ns = given.as_ref().map(nanoseconds);
    // Other times are the kernel's to refuse, or to normalise.
    let may_sleep = !matches!(limit_ns, Some(None | Some(0)));
    let start_ns = monotonic_ns();
    let mut is_real = false;
    let waited = select_sockets(&mut copies, may_sleep, |wait| match wait {
        RealWait::AsGiven => {
            is_real = true;
            // SAFETY: the arguments are the program's.
            unsafe { next::select(count, read, write, except, timeout) }
        }
        RealWait::AfterSpin(mask) => {
            let time = address(given.as_ref());
            // SAFETY: the sets are the program's; time and mask are live.
            unsafe { next::pselect(count, read, write, except, time, address(mask)) }
        }
    });
    if let Waited::Ready(_) = waited {
        // SAFETY: the sets are the program's.
        unsafe { write_back(&copies, sets) };
    }
    if let (Some(Some(limit_ns)), false) = (limit_ns, is_real) {
        // Linux reports the time that is left.
        let took_ns = monotonic_ns().saturating_sub(start_ns);
        let is_over = waited == Waited::Real(0);
        let left_ns = if is_over { 0 } else { limit_ns.saturating_sub(took_ns) };
        let part = |ns: u64| c_long::try_from(ns).unwrap_or(c_long::MAX);
        // SAFETY: a limit exists only for a timeout that is not null.
        unsafe {
            (*timeout).tv_sec = part(left_ns / 1_000_000_000);
            (*timeout).tv_usec = part(left_ns % 1_000_000_000 / 1000);
        }
    }
    finish(waited)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the same function.
    unsafe { select(count, read, write, except, timeout) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = [read, write, except];
    let real = |mask| {
        // SAFETY: the program keeps the contract of pselect(2); the mask is valid.
        unsafe { next::pselect(count, read, write, except, timeout, mask) }
    };
    // SAFETY: the program keeps the contract of pselect(2).
    let Some(mut copies) = (unsafe { copies(count, sets) }) else { return real(mask) };
    // SAFETY: null, or valid by the contract of pselect(2).
    let may_sleep = unsafe { timeout.as_ref() }.is_none_or(|time| nanoseconds(time) != Some(0));
    let waited = select_sockets(&mut copies, may_sleep, |wait| match wait {
        RealWait::AfterSpin(before) if mask.is_null() => real(address(before)),
        _ => real(mask),
    });
    if let Waited::Ready(_) = waited {
        // SAFETY: the sets are the program's.
        unsafe { write_back(&copies, sets) };
    }
    finish(waited)
}
