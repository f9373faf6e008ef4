//! Waits for descriptors: epoll for many, poll for a few.

use crate::descriptors::above_standard;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// A ready descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token of [`Poll::add`].
    pub token: u64,
    /// There are bytes to read, or the other side has gone.
    pub readable: bool,
    /// The socket accepts bytes.
    pub writable: bool,
    /// The other side has gone.
    pub gone: bool,
}

/// What a wait for a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// It has bytes to read.
    Read,
    /// It accepts bytes.
    Write,
    /// It has bytes to read, or accepts bytes.
    ReadOrWrite,
    /// The other side has gone.
    End,
}

/// When a ready descriptor is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By each wait while it is ready.
    #[default]
    Level,
    /// Once for each arrival.
    Edge,
}

fn flags_of(interest: Interest, mode: Mode) -> epoll::EventFlags {
    let mut flags = match interest {
        Interest::Read => epoll::EventFlags::IN,
        Interest::Write => epoll::EventFlags::OUT,
        Interest::ReadOrWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        Interest::End => epoll::EventFlags::empty(),
    };
    flags.set(epoll::EventFlags::ET, mode == Mode::Edge);
    flags
}

/// A set of descriptors to wait for. The set itself is a pollable descriptor.
#[derive(Debug)]
pub struct Poll {
    fd: OwnedFd,
}

impl Poll {
    /// An empty set.
    ///
    /// # Errors
    /// `MFILE`, `NFILE`, `NOMEM`.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self { fd: above_standard(epoll::create(epoll::CreateFlags::CLOEXEC)?)? })
    }

    /// Adds a descriptor under a token.
    ///
    /// # Errors
    /// `EXIST`, `NOMEM`, `NOSPC`, `PERM`.
    pub fn add(&self, fd: impl AsFd, token: u64) -> Result<(), Errno> {
        epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
    }

    /// Adds a descriptor, and says what a wait for it is for.
    ///
    /// # Errors
    /// Those of [`add`](Self::add).
    pub fn add_for(
        &self,
        fd: impl AsFd,
        token: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<(), Errno> {
        epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), flags_of(interest, mode))
    }

    /// Changes what a wait for this descriptor is for. The end of the other side always counts.
    ///
    /// # Errors
    /// `NOENT` if it was not added.
    pub fn set_interest(&self, fd: impl AsFd, token: u64, interest: Interest) -> Result<(), Errno> {
        self.set_interest_and_mode(fd, token, interest, Mode::Level)
    }

    /// Changes what a wait for this descriptor is for, and when it is reported.
    ///
    /// # Errors
    /// `NOENT` if it was not added.
    pub fn set_interest_and_mode(
        &self,
        fd: impl AsFd,
        token: u64,
        interest: Interest,
        mode: Mode,
    ) -> Result<(), Errno> {
        epoll::modify(&self.fd, fd, epoll::EventData::new_u64(token), flags_of(interest, mode))
    }

    /// Removes a descriptor from the set.
    ///
    /// # Errors
    /// `NOENT` if it was not added.
    pub fn remove(&self, fd: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.fd, fd)
    }

    /// Waits until a descriptor is ready or the limit has passed. `None` waits without limit.
    ///
    /// # Errors
    /// `INTR`.
    pub fn wait(&self, ready: &mut Vec<Ready>, limit_ns: Option<u64>) -> Result<(), Errno> {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 256];
        let limit = limit_ns.map(timespec);
        let count = epoll::wait(&self.fd, &mut events[..], limit.as_ref())?;
        ready.clear();
        ready.extend(events[..count].iter().map(|event| {
            let flags = event.flags;
            Ready {
                token: event.data.u64(),
                readable: flags.intersects(
                    epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
                ),
                writable: flags.intersects(epoll::EventFlags::OUT),
                gone: flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR),
            }
        }));
        Ok(())
    }
}

impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn timespec(limit_ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(limit_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (limit_ns % 1_000_000_000).cast_signed(),
    }
}

/// Waits until a socket accepts bytes, or its peer has gone. `Ok(false)` if the limit passed first.
///
/// # Errors
/// `INTR` after a signal.
pub fn wait_writable(fd: BorrowedFd<'_>, limit_ns: u64) -> Result<bool, Errno> {
    Ok(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], Some(&timespec(limit_ns)))? > 0)
}

/// Waits until one of a few descriptors is readable, or its peer has gone. `Ok(false)` if the limit
/// passed first.
///
/// # Errors
/// `INTR` after a signal.
pub fn wait_readable(fds: &[BorrowedFd<'_>], limit_ns: u64) -> Result<bool, Errno> {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    Ok(poll(&mut polled, Some(&timespec(limit_ns)))? > 0)
}
