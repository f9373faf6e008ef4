//! epoll.
//!
//! # Safety
//! The array of events is the program's. It becomes a slice of uninitialised events for the time of
//! the call. Masks and timeouts go on to the C library unchanged.
#![allow(unsafe_code)]

use super::errno;
use super::many::nanoseconds;
use crate::next;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use libc::{epoll_event, sigset_t, timespec};
use m3ipc_shim::epoll::control::controlled;
use m3ipc_shim::epoll::wait::{EpollWait, Sleep, Waited, set_of_wait};
use m3ipc_shim::event_list::EventList;
use m3ipc_shim::kernel::memory::is_readable;
use m3ipc_shim::lifecycle;
use m3ipc_shim::process::{limits, policy, vfork};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: epoll_create(2) takes an integer.
    let fd = unsafe { next::epoll_create(size) };
    lifecycle::opened_epoll(fd);
    fd
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: epoll_create1(2) takes an integer.
    let fd = unsafe { next::epoll_create1(flags) };
    lifecycle::opened_epoll(fd);
    fd
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the program keeps the contract of epoll_ctl(2).
    let result = unsafe { next::epoll_ctl(set, operation, fd, event) };
    if result != 0 || !(policy::is_on() || limits::has_left()) || vfork::in_child() {
        return result;
    }
    if operation == libc::EPOLL_CTL_DEL {
        controlled(set, operation, fd, None);
    } else if !event.is_null() {
        // SAFETY: not null, and valid by the contract of epoll_ctl(2).
        controlled(set, operation, fd, Some(unsafe { event.read_unaligned() }));
    }
    result
}

/// The list over the program's array; `None` where the kernel must refuse the arguments.
///
/// # Safety
/// `events` is null or points to `count` events, which epoll_wait(2) may write for `'a`.
unsafe fn list<'a>(events: *mut epoll_event, count: c_int) -> Option<EventList<'a>> {
    let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
    // Of the rest the program may have less than it says: only events that came are written.
    let is_slice =
        is_readable(events, 1) && count <= isize::MAX.unsigned_abs() / size_of::<epoll_event>();
    is_slice.then(|| {
        let events = events.cast::<MaybeUninit<epoll_event>>();
        // SAFETY: the caller promises `count` events, which need not be initialised.
        EventList::new(unsafe { core::slice::from_raw_parts_mut(events, count) })
    })
}

/// The timeout of a wait, as the program gave it.
enum Limit {
    /// A negative number is no limit.
    Milliseconds(c_int),
    /// Null is no limit.
    Time(*const timespec),
}

impl Limit {
    /// The limit in nanoseconds; an error where its time is not readable.
    ///
    /// # Safety
    /// A time is null or points to a time, as epoll_pwait2(2) demands.
    unsafe fn ns(self) -> Result<Option<u64>, Unreadable> {
        match self {
            Self::Milliseconds(ms) => Ok(u64::try_from(ms).ok().map(|ms| ms * 1_000_000)),
            Self::Time(time) if time.is_null() => Ok(None),
            Self::Time(time) if !is_readable(time, 1) => Err(Unreadable),
            // SAFETY: readable, and the caller promises a time.
            Self::Time(time) => Ok(Some(nanoseconds(unsafe { &*time }).unwrap_or(u64::MAX))),
        }
    }
}

/// An address that the kernel must refuse.
struct Unreadable;

/// Waits on a set of ours. `real` is the program's own wait, with its events and the mask to sleep
/// with.
///
/// # Safety
/// The arguments are valid as for epoll_pwait(2).
unsafe fn wait(
    set_fd: c_int,
    events: *mut epoll_event,
    count: c_int,
    limit: Limit,
    mask: *const sigset_t,
    real: impl Fn(*mut epoll_event, *const sigset_t) -> c_int,
) -> c_int {
    let Some(set) = set_of_wait(set_fd) else { return real(events, mask) };
    // SAFETY: the caller promises the limit.
    let Ok(limit_ns) = (unsafe { limit.ns() }) else { return real(events, mask) };
    // SAFETY: the caller promises the events.
    let Some(list) = (unsafe { list(events, count) }) else { return real(events, mask) };
    let waited = EpollWait::new(set, set_fd, list, limit_ns).wait(|list, sleep, before| {
        let before = before.map_or(core::ptr::null(), core::ptr::from_ref);
        let mask = if mask.is_null() { before } else { mask };
        let mut result = -1;
        let wait = |at: *mut epoll_event, room: usize| {
            result = match sleep {
                Sleep::AsGiven => real(at, mask),
                // SAFETY: `append` gives room for so many events; the mask is valid.
                Sleep::Milliseconds(ms) => unsafe {
                    next::epoll_pwait(set_fd, at, errno::count(room), ms, mask)
                },
            };
            usize::try_from(result)
        };
        // SAFETY: epoll_pwait(2) returns the number of events that it wrote. The list is empty, so
        // the program's own wait has as much room as the program gave.
        let _ = unsafe { list.append(wait) };
        result
    });
    match waited {
        Waited::Ready(count) => errno::count(count),
        Waited::Failed(code) => errno::fail(code),
        Waited::Real(result) => result,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: the same contract, without a mask.
    unsafe { epoll_pwait(set, events, count, timeout, core::ptr::null()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program keeps the contract of epoll_pwait(2).
    let real = |events, mask| unsafe { next::epoll_pwait(set, events, count, timeout, mask) };
    // SAFETY: as above.
    unsafe { wait(set, events, count, Limit::Milliseconds(timeout), mask, real) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program keeps the contract of epoll_pwait2(2).
    let real = |events, mask| unsafe { next::epoll_pwait2(set, events, count, timeout, mask) };
    // SAFETY: as above.
    unsafe { wait(set, events, count, Limit::Time(timeout), mask, real) }
}
