//! poll and select.
//!
//! # Safety
//! The list of poll becomes a slice for the time of the call. Of the sets of select, the words that
//! belong to the call are copied: a program may pass one set twice. Both are read only where the
//! library is on and the memory is readable. Masks and timeouts go on to the C library unchanged. A
//! timeout is read only where the call may concern a socket.
#![allow(unsafe_code)]

use super::errno;
use super::many::nanoseconds;
use super::stream::check_room;
use crate::next;
use core::ffi::{c_int, c_long, c_ulong};
use libc::{fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use m3ipc_shim::kernel::memory::is_readable;
use m3ipc_shim::kernel::ready::empty_set;
use m3ipc_shim::monotonic_ns;
use m3ipc_shim::process::{limits, policy, vfork};
use m3ipc_shim::readiness::{
    RealWait, SelectSets, Waited, poll as poll_sockets, select as select_sockets, time_left_ns,
};

/// Whether this library may know more than the kernel.
fn is_on() -> bool {
    (policy::is_on() || limits::has_left()) && !vfork::in_child()
}

/// The list of a poll; `None` where the kernel must answer alone: the library is off, the kernel
/// will refuse the list, or there is no descriptor.
///
/// # Safety
/// `fds` is null or points to `count` entries, which poll(2) may write for `'a`.
pub(super) unsafe fn list<'a>(fds: *mut pollfd, count: nfds_t) -> Option<&'a mut [pollfd]> {
    let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
    let is_slice = is_on() && is_readable(fds, count);
    // SAFETY: the caller promises `count` entries; readable memory is no larger than a slice.
    is_slice.then(|| unsafe { core::slice::from_raw_parts_mut(fds, count) })
}

/// The time limit of a wait.
pub(super) enum TimeLimit {
    /// The wait may sleep.
    Sleeps,
    /// The limit is 0.
    None,
    /// The kernel must refuse the call, whatever is ready.
    Refused,
}

/// The time limit and the mask of a wait.
///
/// # Safety
/// Each is null, or points to a time or a mask, as ppoll(2) and pselect(2) demand.
pub(super) unsafe fn limit_of(timeout: *const timespec, mask: *const sigset_t) -> TimeLimit {
    if !is_mask(mask) {
        return TimeLimit::Refused;
    }
    if timeout.is_null() {
        return TimeLimit::Sleeps;
    }
    if !is_readable(timeout, 1) {
        return TimeLimit::Refused;
    }
    // SAFETY: readable, and the caller promises the rest.
    match nanoseconds(unsafe { &*timeout }) {
        None => TimeLimit::Refused,
        Some(0) => TimeLimit::None,
        Some(_) => TimeLimit::Sleeps,
    }
}

/// Whether the kernel takes this mask of a wait.
pub(super) fn is_mask(mask: *const sigset_t) -> bool {
    // The kernel reads a word alone, of the C library's longer set.
    mask.is_null() || is_readable(mask.cast::<u64>(), 1)
}

pub(super) fn address<T>(value: Option<&T>) -> *const T {
    value.map_or(core::ptr::null(), core::ptr::from_ref)
}

pub(super) fn finish(waited: Waited) -> c_int {
    match waited {
        Waited::Ready(count) => errno::count(count),
        Waited::Failed(code) => errno::fail(code),
        Waited::Real(result) => result,
    }
}

/// A wait without time.
pub(super) static NO_TIME: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// A mask of all signals.
// SAFETY: a set of signals is an array of words, of which every bit pattern is valid.
static ALL_SIGNALS: sigset_t =
    unsafe { core::mem::transmute([u64::MAX; size_of::<sigset_t>() / size_of::<u64>()]) };

/// The mask of a wait without time: where the program gave one, no signal comes in through it.
pub(super) fn mask_now(given: *const sigset_t) -> *const sigset_t {
    if given.is_null() { given } else { &raw const ALL_SIGNALS }
}

/// The addresses of the sets; null for those that the program did not give.
pub(super) fn set_addresses(sets: &mut SelectSets) -> [*mut fd_set; 3] {
    sets.sets.each_mut().map(|set| set.as_mut().map_or(core::ptr::null_mut(), core::ptr::from_mut))
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
        // SAFETY: as above.
        RealWait::Now => unsafe { next::poll(fds.as_mut_ptr(), length(fds), 0) },
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
    let may_sleep = match unsafe { limit_of(timeout, mask) } {
        // SAFETY: as above.
        TimeLimit::Refused => return unsafe { next::ppoll(fds, count, timeout, mask) },
        limit => matches!(limit, TimeLimit::Sleeps),
    };
    finish(poll_sockets(list, may_sleep, |fds, wait| {
        let (timeout, mask) = match wait {
            RealWait::AfterSpin(before) if mask.is_null() => (timeout, address(before)),
            RealWait::Now => (&raw const NO_TIME, mask_now(mask)),
            _ => (timeout, mask),
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

/// Words of each set that belong to a select of so many descriptors, as in the kernel; `None` where
/// the call has no descriptor, or has more than an `fd_set`.
fn words(count: c_int) -> Option<usize> {
    let count = usize::try_from(count).ok()?;
    (1..=libc::FD_SETSIZE).contains(&count).then(|| count.div_ceil(c_ulong::BITS as usize))
}

/// A copy of the words of a set that belong to the call; `None` where the set is not readable.
///
/// # Safety
/// `set` points to `words` words, which select(2) may read.
unsafe fn copied(set: *const fd_set, words: usize) -> Option<fd_set> {
    let mut copy = empty_set();
    let (from, to) = (set.cast::<u8>(), (&raw mut copy).cast::<u8>());
    let bytes = words * size_of::<c_ulong>();
    if !is_readable(from, bytes) {
        return None;
    }
    // SAFETY: the caller promises the words, of which an `fd_set` has at least as many.
    unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) };
    Some(copy)
}

/// Copies of the sets of a select; `None` where the kernel must answer alone: the library is off,
/// the kernel will refuse the call, or no descriptor to be read may be a socket of ours.
///
/// # Safety
/// Each set is null or valid for the words that select(2) reads.
pub(super) unsafe fn copies(count: c_int, sets: [*mut fd_set; 3]) -> Option<SelectSets> {
    let words = words(count).filter(|_words| is_on())?;
    // SAFETY: the caller promises the sets.
    let copy = |set: *mut fd_set| unsafe { copied(set, words) };
    let mut copies = SelectSets { count, sets: [Some(copy(sets[0])?), None, None] };
    if !copies.concern_sockets() {
        return None;
    }
    for (to, from) in copies.sets.iter_mut().zip(sets).skip(1) {
        if !from.is_null() {
            *to = Some(copy(from)?);
        }
    }
    Some(copies)
}

/// Writes the words that belong to the call back.
///
/// # Safety
/// Each set is null or valid for the words that select(2) writes.
pub(super) unsafe fn write_back(copies: &SelectSets, sets: [*mut fd_set; 3]) {
    let bytes = words(copies.count).unwrap_or(0) * size_of::<c_ulong>();
    for (copy, set) in copies.sets.iter().zip(sets) {
        if let Some(copy) = copy {
            let from = core::ptr::from_ref(copy).cast::<u8>();
            // SAFETY: a copy exists only for a set that is not null. A program may pass one set
            // twice; the copies lie elsewhere.
            unsafe { core::ptr::copy_nonoverlapping(from, set.cast::<u8>(), bytes) };
        }
    }
}

/// The time of a select with its microseconds below a second, as the kernel takes it, and its
/// length in nanoseconds; `None` where the kernel must refuse it.
fn time_of(time: &timeval) -> Option<(timespec, u64)> {
    let seconds = time.tv_sec.checked_add(time.tv_usec / 1_000_000).unwrap_or(i64::MAX);
    let is_positive = time.tv_sec >= 0 && time.tv_usec >= 0;
    let time = timespec { tv_sec: seconds, tv_nsec: time.tv_usec % 1_000_000 * 1000 };
    nanoseconds(&time).filter(|_ns| is_positive).map(|ns| (time, ns))
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
    let as_given = || {
        // SAFETY: as above.
        unsafe { next::select(count, read, write, except, timeout) }
    };
    if !timeout.is_null() && !is_readable(timeout, 1) {
        return as_given();
    }
    // SAFETY: null, or readable and valid by the contract of select(2).
    let (given, limit_ns) = match unsafe { timeout.as_ref() }.map(time_of) {
        None => (None, None),
        Some(Some((time, ns))) => (Some(time), Some(ns)),
        Some(None) => return as_given(),
    };
    let may_sleep = limit_ns != Some(0);
    let start_ns = monotonic_ns();
    let mut is_real = false;
    let waited = select_sockets(&mut copies, may_sleep, |copies, wait| match wait {
        RealWait::AsGiven => {
            is_real = true;
            as_given()
        }
        RealWait::AfterSpin(mask) => {
            let time = address(given.as_ref());
            // SAFETY: the sets are the program's; time and mask are live.
            unsafe { next::pselect(count, read, write, except, time, address(mask)) }
        }
        RealWait::Now => {
            let [read, write, except] = set_addresses(copies);
            let mut no_time = timeval { tv_sec: 0, tv_usec: 0 };
            // SAFETY: the sets are live copies, and the time is live.
            unsafe { next::select(count, read, write, except, &raw mut no_time) }
        }
    });
    if let Waited::Ready(_) = waited {
        // SAFETY: the sets are the program's.
        unsafe { write_back(&copies, sets) };
    }
    // Linux reports the time that is left.
    let took_ns = monotonic_ns().saturating_sub(start_ns);
    let left = |limit_ns| time_left_ns(limit_ns, took_ns, waited == Waited::Real(0));
    if let (Some(left_ns), false) = (limit_ns.and_then(left), is_real) {
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
    let may_sleep = match unsafe { limit_of(timeout, mask) } {
        TimeLimit::Refused => return real(mask),
        limit => matches!(limit, TimeLimit::Sleeps),
    };
    let waited = select_sockets(&mut copies, may_sleep, |copies, wait| match wait {
        RealWait::AfterSpin(before) if mask.is_null() => real(address(before)),
        RealWait::Now => {
            let [read, write, except] = set_addresses(copies);
            let mask = mask_now(mask);
            // SAFETY: the sets are live copies; time and mask are live.
            unsafe { next::pselect(count, read, write, except, &raw const NO_TIME, mask) }
        }
        _ => real(mask),
    });
    if let Waited::Ready(_) = waited {
        // SAFETY: the sets are the program's.
        unsafe { write_back(&copies, sets) };
    }
    finish(waited)
}
