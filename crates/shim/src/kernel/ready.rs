//! Readiness: poll, select and epoll without waiting.
//!
//! # Safety
//! The kernel reads and writes live locals and slices, whose lengths it gets with them.
#![allow(unsafe_code)]

use super::call::{Errno, call, descriptor, register};
use super::file::close;
use super::signal::MASK_BYTES;
use crate::event_list::EventList;
use libc::{epoll_event, fd_set, pollfd, timespec};
use std::os::fd::RawFd;

const NO_TIME: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// Events of one descriptor now.
#[must_use]
pub fn poll_now(fd: RawFd, events: i16) -> i16 {
    let mut one = [pollfd { fd, events, revents: 0 }];
    let _ = poll_all_now(&mut one);
    one[0].revents
}

/// Events of one descriptor, after a wait of so many nanoseconds (below a second) at most.
#[must_use]
pub fn poll_for(fd: RawFd, events: i16, limit_ns: u32) -> i16 {
    let mut one = [pollfd { fd, events, revents: 0 }];
    let mut time = timespec { tv_sec: 0, tv_nsec: limit_ns.into() };
    let (at, time) = (one.as_mut_ptr() as usize, (&raw mut time) as usize);
    // SAFETY: the kernel reads and writes the one entry; the time is live; no mask.
    let _ = unsafe { call(libc::SYS_ppoll, [at, 1, time, 0, MASK_BYTES, 0]) };
    one[0].revents
}

/// Events of several descriptors now; the number of descriptors with events.
///
/// # Errors
/// Of ppoll(2).
pub fn poll_all_now(fds: &mut [pollfd]) -> Result<usize, Errno> {
    let mut time = NO_TIME;
    let (at, time) = (fds.as_mut_ptr() as usize, (&raw mut time) as usize);
    // SAFETY: the kernel reads and writes the entries of the slice; the time is live; no mask.
    unsafe { call(libc::SYS_ppoll, [at, fds.len(), time, 0, MASK_BYTES, 0]) }
}

/// Asks select now, and changes the sets only where a descriptor is ready; the number of bits.
///
/// # Errors
/// Of pselect(2).
pub fn select_now(count: i32, sets: &mut [Option<fd_set>; 3]) -> Result<usize, Errno> {
    let mut copies = *sets;
    let at = copies
        .each_mut()
        .map(|set| set.as_mut().map_or(0, |set| core::ptr::from_mut(set) as usize));
    let mut time = NO_TIME;
    let words = [register(count), at[0], at[1], at[2], (&raw mut time) as usize, 0];
    // SAFETY: each set and the time are live; the caller bounds `count` by FD_SETSIZE.
    let ready = unsafe { call(libc::SYS_pselect6, words)? };
    if ready > 0 {
        *sets = copies;
    }
    Ok(ready)
}

/// Whether a set of select holds a descriptor.
#[must_use]
pub fn contains(set: &fd_set, fd: RawFd) -> bool {
    // SAFETY: the set is live, and the number is below its bits.
    is_in_bounds(fd) && unsafe { libc::FD_ISSET(fd, set) }
}

/// Adds a descriptor to a set of select.
pub fn insert(set: &mut fd_set, fd: RawFd) {
    if is_in_bounds(fd) {
        // SAFETY: the set is live, and the number is below its bits.
        unsafe { libc::FD_SET(fd, set) };
    }
}

/// A set of select without descriptors.
#[must_use]
pub fn empty_set() -> fd_set {
    // SAFETY: plain integers, for which zeros are valid.
    unsafe { core::mem::zeroed() }
}

fn is_in_bounds(fd: RawFd) -> bool {
    usize::try_from(fd).is_ok_and(|fd| fd < libc::FD_SETSIZE)
}

/// Appends the events that an epoll set has now; their number.
///
/// # Errors
/// Of epoll_pwait(2).
pub fn epoll_now(set: RawFd, list: &mut EventList<'_>) -> Result<usize, Errno> {
    let ask = |at: *mut epoll_event, room: usize| {
        let words = [register(set), at as usize, room, 0, 0, MASK_BYTES];
        // SAFETY: `append` gives room for so many events; a time of 0, and no mask.
        unsafe { call(libc::SYS_epoll_pwait, words) }
    };
    // SAFETY: epoll_pwait(2) returns the number of events that it wrote.
    unsafe { list.append(ask) }
}

/// Adds, changes or removes a descriptor of an epoll set.
///
/// # Errors
/// Of epoll_ctl(2).
pub fn epoll_control(
    set: RawFd,
    operation: i32,
    fd: RawFd,
    mut event: epoll_event,
) -> Result<(), Errno> {
    let at = (&raw mut event) as usize;
    // SAFETY: the event is live.
    unsafe {
        call(libc::SYS_epoll_ctl, [register(set), register(operation), register(fd), at, 0, 0])
            .map(drop)
    }
}

/// An eventfd that is readable at once, above the standard streams: a program may have closed one.
///
/// # Errors
/// Of eventfd(2) and fcntl(2).
pub fn readable_eventfd() -> Result<RawFd, Errno> {
    let flags = register(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
    // SAFETY: no pointers.
    let made = unsafe { call(libc::SYS_eventfd2, [1, flags, 0, 0, 0, 0]) }.and_then(descriptor)?;
    above_standard(made)
}

/// The same descriptor, above the standard streams. The calls go past the C library, whose
/// functions are hooks here.
fn above_standard(fd: RawFd) -> Result<RawFd, Errno> {
    if fd > libc::STDERR_FILENO {
        return Ok(fd);
    }
    let first = register(libc::STDERR_FILENO + 1);
    let words = [register(fd), register(libc::F_DUPFD_CLOEXEC), first, 0, 0, 0];
    // SAFETY: no pointers.
    let moved = unsafe { call(libc::SYS_fcntl, words) }.and_then(descriptor);
    close(fd);
    moved
}

/// Adds a readable eventfd to an epoll set, with these data; the eventfd.
///
/// # Errors
/// Of epoll_ctl(2).
pub fn add_eventfd(set: RawFd, eventfd: RawFd, data: u64) -> Result<(), Errno> {
    let event = epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: data };
    epoll_control(set, libc::EPOLL_CTL_ADD, eventfd, event)
}

/// Closes an eventfd, which takes it out of its epoll set. A child by fork may have a copy, which
/// keeps it there: it is not readable any more.
pub fn end_eventfd(eventfd: RawFd) {
    let mut count = 0_u64;
    let words = [register(eventfd), (&raw mut count) as usize, size_of::<u64>(), 0, 0, 0];
    // SAFETY: the kernel writes the live local, of the size that it gets.
    let _ = unsafe { call(libc::SYS_read, words) };
    close(eventfd);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::MaybeUninit;

    #[test]
    fn an_ended_eventfd_with_a_copy_is_not_reported() {
        // SAFETY: no pointers.
        let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        let eventfd = readable_eventfd().unwrap();
        add_eventfd(set, eventfd, 7).unwrap();
        // A child by fork has such a copy.
        // SAFETY: no pointers.
        let copy = unsafe { libc::dup(eventfd) };
        let mut array = [const { MaybeUninit::uninit() }; 2];
        let mut list = EventList::new(&mut array);
        assert_eq!(epoll_now(set, &mut list), Ok(1));
        end_eventfd(eventfd);
        assert_eq!(epoll_now(set, &mut list), Ok(0), "the copy keeps it in the set");
        [copy, set].into_iter().for_each(close);
    }

    #[test]
    fn an_eventfd_lies_above_the_standard_streams() {
        // SAFETY: no pointers. The standard input of a test has no use.
        let before = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3) };
        close(0);
        let eventfd = readable_eventfd().unwrap();
        assert!(eventfd > libc::STDERR_FILENO, "{eventfd}");
        // SAFETY: no pointers.
        let is_free = unsafe { libc::fcntl(0, libc::F_GETFD) } < 0;
        // SAFETY: no pointers.
        unsafe { libc::dup2(before, 0) };
        assert!(is_free, "the number stays free");
        [before, eventfd].into_iter().for_each(close);
    }
}
