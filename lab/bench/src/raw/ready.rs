//! epoll(7) by the C library's calls: those a library in front of it sees.
//!
//! # Safety
//! The kernel writes as many events as there is room for, and nothing else is passed by address.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::error::Error;

/// Events taken at once.
const EVENTS: u16 = 256;

/// A set of descriptors.
pub struct Ready(OwnedFd);

impl Ready {
    /// An empty one.
    ///
    /// # Errors
    /// What epoll_create1(2) says.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: a call without addresses.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(Error::os("epoll_create1")(std::io::Error::last_os_error()));
        }
        // SAFETY: new, and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Waits for something to read there, from now on.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub fn add(&self, fd: impl AsFd, number: u64) -> Result<(), Error> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: number };
        self.control(libc::EPOLL_CTL_ADD, &fd, &mut event)
    }

    /// Waits there no more.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
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

    /// The numbers of those that are ready; waits for one.
    ///
    /// # Errors
    /// What epoll_wait(2) says.
    pub fn wait(&self) -> Result<Vec<u64>, Error> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS as usize];
        loop {
            // SAFETY: there is room for as many events as are asked for.
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
