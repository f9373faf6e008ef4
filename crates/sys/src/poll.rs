//! Waiting for descriptors: epoll for many, poll for a few.

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// What it was added with.
    pub token: u64,
    /// There is something to read, or the other side has gone.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// A set of descriptors to wait for. Itself a descriptor that polls.
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
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds a descriptor under a token.
    ///
    /// # Errors
    /// `EXIST`, `NOMEM`, `NOSPC`, `PERM`.
    pub fn add(&self, fd: impl AsFd, token: u64) -> Result<(), Errno> {
        epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
    }

    /// Asks to be told when a descriptor has room to write, and until then of nothing but its
    /// end; or of what there is to read again.
    ///
    /// # Errors
    /// `NOENT` where it was not added.
    pub fn want_room(&self, fd: impl AsFd, token: u64, want: bool) -> Result<(), Errno> {
        let flags = if want { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        epoll::modify(&self.fd, fd, epoll::EventData::new_u64(token), flags)
    }

    /// Takes a descriptor out of the set.
    ///
    /// # Errors
    /// `NOENT` where it was not added.
    pub fn remove(&self, fd: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.fd, fd)
    }

    /// Waits until something is ready or the limit has passed; `None` waits for ever.
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

/// Waits until one of a few descriptors is readable (or its peer has gone);
/// `Ok(false)` where the limit passed first.
///
/// # Errors
/// `INTR` where a signal was handled.
pub fn wait_readable(fds: &[BorrowedFd<'_>], limit_ns: u64) -> Result<bool, Errno> {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    Ok(poll(&mut polled, Some(&timespec(limit_ns)))? > 0)
}
