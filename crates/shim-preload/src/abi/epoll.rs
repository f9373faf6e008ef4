//! epoll.
//!
//! # Safety
//! The array of events is the program's. It becomes a slice of uninitialised events for the time of
//! the call. Masks and timeouts go on to the C library unchanged.
#![allow(unsafe_code)]

use super::errno;
use super::many::nanoseconds;
use super::ready::{is_mask, mask_now};
use crate::next;
use core::ffi::{c_int, c_long};
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
    // As in the kernel (`EP_MAX_EVENTS`).
    let most = c_int::MAX.unsigned_abs() as usize / size_of::<epoll_event>();
    let count = usize::try_from(count).ok().filter(|count| (1..=most).contains(count))?;
    // Of the rest the program may have less than it says: only events that came are written.
    is_readable(events, 1).then(|| {
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
    /// The limit in nanoseconds; an error where the kernel must refuse its time.
    ///
    /// # Safety
    /// A time is null or points to a time, as epoll_pwait2(2) demands.
    unsafe fn ns(self) -> Result<Option<u64>, Refused> {
        match self {
            Self::Milliseconds(ms) => Ok(u64::try_from(ms).ok().map(|ms| ms * 1_000_000)),
            Self::Time(time) if time.is_null() => Ok(None),
            Self::Time(time) if !is_readable(time, 1) => Err(Refused),
            // SAFETY: readable, and the caller promises a time.
            Self::Time(time) => nanoseconds(unsafe { &*time }).map(Some).ok_or(Refused),
        }
    }
}

/// A time that the kernel must refuse.
struct Refused;

/// Waits on a set of ours. `real` is the program's own call into this room, with this time and the
/// mask to sleep with.
///
/// # Safety
/// The arguments are valid as for epoll_pwait(2).
unsafe fn wait(
    set_fd: c_int,
    events: *mut epoll_event,
    count: c_int,
    limit: Limit,
    mask: *const sigset_t,
    real: impl Fn(*mut epoll_event, c_int, Sleep, *const sigset_t) -> c_int,
) -> c_int {
    let as_given = || real(events, count, Sleep::AsGiven, mask);
    let Some(set) = set_of_wait(set_fd) else { return as_given() };
    if !is_mask(mask) {
        return as_given();
    }
    // SAFETY: the caller promises the limit.
    let Ok(limit_ns) = (unsafe { limit.ns() }) else { return as_given() };
    // SAFETY: the caller promises the events.
    let Some(list) = (unsafe { list(events, count) }) else { return as_given() };
    let waited = EpollWait::new(set, set_fd, list, limit_ns).wait(|list, sleep, before| {
        let before = before.map_or(core::ptr::null(), core::ptr::from_ref);
        let mask = match sleep {
            Sleep::Now => mask_now(mask),
            _ if mask.is_null() => before,
            _ => mask,
        };
        let mut result = -1;
        let wait = |at: *mut epoll_event, room: usize| {
            result = real(at, errno::count(room), sleep, mask);
            usize::try_from(result)
        };
        // SAFETY: epoll_pwait(2) returns the number of events that it wrote.
        let _ = unsafe { list.append(wait) };
        result
    });
    match waited {
        Waited::Ready(count) => errno::count(count),
        Waited::Failed(code) => errno::fail(code),
        Waited::Real(result) => result,
    }
}

/// The milliseconds of a wait, where the program gave `timeout`.
fn milliseconds(sleep: Sleep, timeout: c_int) -> c_int {
    match sleep {
        Sleep::AsGiven => timeout,
        Sleep::Milliseconds(ms) => ms,
        Sleep::Now => 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    let real = |at, room, sleep, mask: *const sigset_t| {
        let ms = milliseconds(sleep, timeout);
        if mask.is_null() {
            // SAFETY: the program keeps the contract of epoll_wait(2), or `wait` gives the room.
            unsafe { next::epoll_wait(set, at, room, ms) }
        } else {
            // SAFETY: as above; the mask is live.
            unsafe { next::epoll_pwait(set, at, room, ms, mask) }
        }
    };
    // SAFETY: as above.
    unsafe { wait(set, events, count, Limit::Milliseconds(timeout), core::ptr::null(), real) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let real = |at, room, sleep, mask| {
        // SAFETY: the program keeps the contract of epoll_pwait(2), or `wait` gives the room.
        unsafe { next::epoll_pwait(set, at, room, milliseconds(sleep, timeout), mask) }
    };
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
    let real = |at, room, sleep, mask| {
        let ms = milliseconds(sleep, -1);
        let (seconds, rest) = (i64::from(ms / 1000), c_long::from(ms % 1000));
        let part = timespec { tv_sec: seconds, tv_nsec: rest * 1_000_000 };
        let timeout = match sleep {
            Sleep::AsGiven => timeout,
            _ if ms < 0 => core::ptr::null(),
            _ => &raw const part,
        };
        // SAFETY: the program keeps the contract of epoll_pwait2(2), or `wait` gives the room; a
        // part of the time is live.
        unsafe { next::epoll_pwait2(set, at, room, timeout, mask) }
    };
    // SAFETY: as above.
    unsafe { wait(set, events, count, Limit::Time(timeout), mask, real) }
}
