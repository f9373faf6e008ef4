//! Pollers as epoll(7) has them: a descriptor number stands for a poller.

use super::posix::{PosixResult, fault};
use super::table::{self, SocketState};
use super::{kernel, numbers};
use crate::memory::{ReadPtr, WritePtr};
use core::ffi::c_int;
use core::time::Duration;
use libc::epoll_event;
use m3ipc_sockets::{Errno, Interest, Mode, PollEvent, Poller, Stream};
use m3ipc_sys::PerProcess;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

static POLLERS: PerProcess<RwLock<BTreeMap<c_int, Arc<CPoller>>>> = PerProcess::new();

/// The bits of `events` that a poller knows.
const KNOWN: c_int = libc::EPOLLIN
    | libc::EPOLLOUT
    | libc::EPOLLERR
    | libc::EPOLLHUP
    | libc::EPOLLRDHUP
    | libc::EPOLLET;

/// A poller, and the events that had no room in the array of its last wait.
#[derive(Debug)]
struct CPoller {
    poller: Poller,
    waiting: Mutex<Vec<PollEvent>>,
    /// The token of each number that is awaited.
    tokens: Mutex<BTreeMap<c_int, u64>>,
}

impl CPoller {
    /// The events that had no room.
    fn take_waiting(&self) -> Vec<PollEvent> {
        std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps events for the next wait, except those of numbers that were removed meanwhile.
    fn give_back(&self, mut events: Vec<PollEvent>) {
        if events.is_empty() {
            return;
        }
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let awaited: BTreeSet<u64> = tokens.values().copied().collect();
        events.retain(|event| awaited.contains(&event.token));
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).append(&mut events);
    }

    /// Notes what a number is awaited with now. Events with its former token are no news any more.
    fn note(&self, fd: c_int, token: Option<u64>) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let former = match token {
            Some(token) => tokens.insert(fd, token),
            None => tokens.remove(&fd),
        };
        if let Some(former) = former {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.retain(|event| event.token != former);
        }
    }
}

/// Makes a poller. Returns its number.
pub(crate) fn create(flags: c_int) -> PosixResult {
    if flags & !libc::EPOLL_CLOEXEC != 0 {
        return Err(Errno::INVAL);
    }
    let poller = Poller::new()?;
    let fd = poller.as_raw_fd();
    if flags == 0 {
        kernel::descriptor_flags(fd, libc::F_SETFD, 0)?;
    }
    let poller = Arc::new(CPoller { poller, waiting: Mutex::default(), tokens: Mutex::default() });
    numbers::note(fd);
    let old = POLLERS.get().write().unwrap_or_else(PoisonError::into_inner).insert(fd, poller);
    // The program closed the old number by close(2), and the kernel gave it out again. The old
    // poller must not close it.
    std::mem::forget(old);
    Ok(fd)
}

fn find(fd: c_int) -> PosixResult<Arc<CPoller>> {
    let all = POLLERS.get().read().unwrap_or_else(PoisonError::into_inner);
    let missing = || if numbers::is_of_parent(fd) { Errno::NOTCONN } else { Errno::BADF };
    all.get(&fd).map(Arc::clone).ok_or_else(missing)
}

/// Closes a poller; `false` where the number is none. No poller reports the number any more.
///
/// The program may have closed the number by close(2), and the kernel may have given it out again.
/// Then it stays open.
pub(crate) fn close(fd: c_int) -> bool {
    let all: Vec<Arc<CPoller>> = {
        let all = POLLERS.get().read().unwrap_or_else(PoisonError::into_inner);
        all.values().map(Arc::clone).collect()
    };
    all.iter().for_each(|poller| poller.note(fd, None));
    let removed = POLLERS.get().write().unwrap_or_else(PoisonError::into_inner).remove(&fd);
    match removed {
        Some(closed) if closed.poller.has_its_descriptor() => {
            numbers::forget(fd);
            true
        }
        // The drop of the poller would close the number.
        other => {
            std::mem::forget(other);
            false
        }
    }
}

/// The stream of a number; `None` for other descriptors.
fn stream(fd: c_int) -> PosixResult<Option<Arc<Stream>>> {
    match table::find(fd) {
        Ok(entry) => match &*entry.state() {
            SocketState::Connected(stream, _) => Ok(Some(Arc::clone(stream))),
            SocketState::New | SocketState::Bound(_) | SocketState::Connecting(_) => {
                Err(Errno::NOTCONN)
            }
            SocketState::Listening(_) | SocketState::Datagrams(_) => Ok(None),
        },
        Err(Errno::NOTSOCK) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// What a wait is for.
#[derive(Clone, Copy)]
struct Wanted {
    token: u64,
    interest: Interest,
    mode: Mode,
}

fn wanted(event: ReadPtr<epoll_event>) -> PosixResult<Wanted> {
    let event = event.read().map_err(fault)?;
    let bits = event.events.cast_signed();
    if bits & !KNOWN != 0 {
        return Err(Errno::INVAL);
    }
    let interest = match (bits & libc::EPOLLIN != 0, bits & libc::EPOLLOUT != 0) {
        (true, true) => Interest::ReadOrWrite,
        (true, false) => Interest::Read,
        (false, true) => Interest::Write,
        (false, false) => Interest::End,
    };
    let mode = if bits & libc::EPOLLET != 0 { Mode::Edge } else { Mode::Level };
    Ok(Wanted { token: event.u64, interest, mode })
}

/// Adds, changes or removes a socket or another descriptor.
pub(crate) fn control(
    poller: c_int,
    command: c_int,
    fd: c_int,
    event: ReadPtr<epoll_event>,
) -> PosixResult {
    let of = find(poller)?;
    if let Some(stream) = stream(fd)? {
        let set_nonblocking = || table::find(fd)?.set_nonblocking(true);
        match command {
            libc::EPOLL_CTL_DEL => {
                of.poller.remove(&stream)?;
                of.note(fd, None);
            }
            libc::EPOLL_CTL_ADD => {
                let it = wanted(event)?;
                set_nonblocking()?;
                of.poller.add(&stream, it.token, it.interest, it.mode)?;
                of.note(fd, Some(it.token));
            }
            libc::EPOLL_CTL_MOD => {
                let it = wanted(event)?;
                of.poller.modify(&stream, it.token, it.interest, it.mode)?;
                of.note(fd, Some(it.token));
            }
            _ => return Err(Errno::INVAL),
        }
        return Ok(0);
    }
    let token = kernel::with_descriptor(fd, |fd: BorrowedFd<'_>| match command {
        libc::EPOLL_CTL_DEL => of.poller.remove_descriptor(fd).map(|()| None),
        libc::EPOLL_CTL_ADD => {
            let it = wanted(event)?;
            of.poller.add_descriptor(fd, it.token, it.interest, it.mode).map(|()| Some(it.token))
        }
        libc::EPOLL_CTL_MOD => {
            let it = wanted(event)?;
            of.poller.modify_descriptor(fd, it.token, it.interest, it.mode).map(|()| Some(it.token))
        }
        _ => Err(Errno::INVAL),
    })?;
    of.note(fd, token);
    Ok(0)
}

/// Waits for events. Returns their number.
pub(crate) fn wait(
    poller: c_int,
    events: WritePtr<epoll_event>,
    most: c_int,
    timeout_ms: c_int,
) -> PosixResult {
    let of = find(poller)?;
    let most = usize::try_from(most).ok().filter(|most| *most > 0).ok_or(Errno::INVAL)?;
    events.check().map_err(fault)?;
    let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // No lock is held meanwhile: another thread may close a number or remove it.
    let mut found = of.take_waiting();
    if found.is_empty() {
        of.poller.wait(&mut found, limit)?;
    }
    let count = found.len().min(most);
    let rest = found.split_off(count);
    of.give_back(rest);
    for (at, event) in found.iter().enumerate() {
        let bits = [
            (event.readable, libc::EPOLLIN),
            (event.writable, libc::EPOLLOUT),
            (event.hung_up, libc::EPOLLHUP),
        ];
        let bits = bits.iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | bit);
        let event = epoll_event { events: bits.cast_unsigned(), u64: event.token };
        events.write_at(at, event).map_err(fault)?;
    }
    Ok(c_int::try_from(count).unwrap_or(c_int::MAX))
}

/// Prepares a wait for the number by other means: 1 where it may be awaited now.
pub(crate) fn prepare(poller: c_int) -> PosixResult {
    let of = find(poller)?;
    let has_some = !of.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
    Ok(c_int::from(!has_some && of.poller.prepare_sleep()?))
}

/// Ends the present or the next wait.
pub(crate) fn notify(poller: c_int) -> PosixResult {
    find(poller)?.poller.notify().map(|()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sock::kernel;

    #[test]
    fn a_close_leaves_the_next_descriptor_of_the_number_open() {
        let fd = create(libc::EPOLL_CLOEXEC).expect("a poller");
        let file = std::fs::File::open("/dev/null").expect("the device");
        // close(2) of the poller's number, which the next open file gets.
        kernel::replace(fd, file.as_raw_fd(), libc::O_CLOEXEC).expect("own number");
        assert!(!close(fd));
        assert!(kernel::descriptor_flags(fd, libc::F_GETFD, 0).is_ok(), "the file is closed");
        assert_eq!(table::close(fd), Err(Errno::NOTSOCK));
        let again = create(libc::EPOLL_CLOEXEC).expect("a poller");
        assert!(close(again));
        assert_eq!(table::close(again), Err(Errno::BADF));
    }
}
