//! epoll(7) by the calls of the C library, so that a preload library sees them.
//!
//! # Safety
//! The kernel writes at most as many events as the buffer holds. No other call passes a buffer.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::error::Error;

/// Events taken at once.
const EVENTS: u16 = 256;

/// A set of descriptors.
pub struct Epoll(OwnedFd);

impl Epoll {
    /// An empty set.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call takes no address.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(Error::os("epoll_create1")(std::io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds a descriptor that is waited for until it is readable.
    pub fn add(&self, fd: impl AsFd, number: u64) -> Result<(), Error> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: number };
        self.control(libc::EPOLL_CTL_ADD, &fd, &mut event)
    }

    /// Removes a descriptor.
    pub fn remove(&self, fd: impl AsFd) -> Result<(), Error> {
        self.control(libc::EPOLL_CTL_DEL, &fd, &mut libc::epoll_event { events: 0, u64: 0 })
    }

    fn control(
        &self,
        what: i32,
        fd: &impl AsFd,
        event: &mut libc::epoll_event,
    ) -> Result<(), Error> {
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: `event` lives for the call, which only reads it.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, event) } {
            0 => Ok(()),
            _ => Err(Error::os("epoll_ctl")(std::io::Error::last_os_error())),
        }
    }

    /// Waits for a ready descriptor; returns the numbers of all ready descriptors.
    pub fn wait(&self) -> Result<Vec<u64>, Error> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS as usize];
        loop {
            // SAFETY: the buffer holds as many events as the call requests.
            let count = unsafe {
                libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), i32::from(EVENTS), -1)
            };
            match usize::try_from(count) {
                Ok(count) => return Ok(events[..count].iter().map(|event| event.u64).collect()),
                Err(_) => {
                    let error = std::io::Error::last_os_error();
                    if error.kind() != std::io::ErrorKind::Interrupted {
                        return Err(Error::os("epoll_wait")(error));
                    }
                }
            }
        }
    }
}
