//! The table of sockets: a descriptor number stands for a socket entry.
//!
//! The number belongs to a descriptor of this process, so a program can poll it at any time. A new
//! socket is a Unix socket without a connection. When the socket is bound, listening or connected,
//! dup3(2) puts the descriptor of the com-socket onto the same number. An epoll set follows the
//! old descriptor, so a program adds the number to a set only after that.

use super::posix::{PosixResult, errno_of};
use super::{domain, kernel, numbers};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use m3ipc_sockets::{ArrivedBlock, DatagramSocket, Domain, Errno, Listener, SockKind, Stream};
use m3ipc_sys::PerProcess;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The sockets by their numbers.
type Sockets = BTreeMap<c_int, Arc<SocketEntry>>;

static TABLE: PerProcess<RwLock<Sockets>> = PerProcess::new();

/// The state of a socket.
#[derive(Debug)]
pub(crate) enum SocketState {
    New,
    /// The port.
    Bound(u16),
    /// A call connects, without the lock of the state. The port to which the socket was bound
    /// before, else 0; the call owns it.
    Connecting(u16),
    Listening(Arc<Listener>),
    /// The stream, and the port to which the socket was bound before, else 0.
    Connected(Arc<Stream>, u16),
    Datagrams(Arc<DatagramSocket>),
}

/// An option that a program set.
#[derive(Debug)]
struct StoredOption {
    level: c_int,
    name: c_int,
    value: Vec<u8>,
}

/// A socket.
#[derive(Debug)]
pub(crate) struct SocketEntry {
    kind: SockKind,
    state: Mutex<SocketState>,
    nonblocking: AtomicBool,
    /// The options of the socket, for the descriptor that it gets later.
    options: Mutex<Vec<StoredOption>>,
    /// The descriptor of the number. `None` where the stream or the datagram socket owns it: a
    /// child by fork then closes its only descriptor of the socket with the number.
    descriptor: Mutex<Option<OwnedFd>>,
    /// Blocks that came while the endpoint was in a call of another thread.
    arrived: Mutex<VecDeque<ArrivedBlock>>,
}

/// Makes a socket. Returns its number.
pub(crate) fn open(family: c_int, kind: c_int, protocol: c_int) -> PosixResult {
    if family != libc::AF_INET {
        return Err(Errno::AFNOSUPPORT);
    }
    let (nonblocking, cloexec) = (kind & libc::SOCK_NONBLOCK != 0, kind & libc::SOCK_CLOEXEC);
    let kernel_kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let (kind, own_protocol) = match kernel_kind {
        libc::SOCK_STREAM => (SockKind::Stream, libc::IPPROTO_TCP),
        libc::SOCK_DGRAM => (SockKind::Datagram, libc::IPPROTO_UDP),
        _ => return Err(Errno::INVAL),
    };
    if protocol != 0 && protocol != own_protocol {
        return Err(Errno::PROTONOSUPPORT);
    }
    domain::get_or_join()?;
    let descriptor = kernel::socket(kernel_kind, cloexec)?;
    let fd = descriptor.as_raw_fd();
    insert(fd, SocketEntry::new(kind, SocketState::New, nonblocking, Some(descriptor)));
    Ok(fd)
}

/// Enters an accepted stream, under the number of its own descriptor.
pub(crate) fn accepted(stream: Stream, nonblocking: bool, cloexec: bool) -> PosixResult {
    stream.set_nonblocking(nonblocking).map_err(|error| errno_of(&error))?;
    let fd = stream.as_raw_fd();
    let flags = if cloexec { libc::FD_CLOEXEC } else { 0 };
    kernel::descriptor_flags(fd, libc::F_SETFD, flags)?;
    let state = SocketState::Connected(Arc::new(stream), 0);
    insert(fd, SocketEntry::new(SockKind::Stream, state, nonblocking, None));
    Ok(fd)
}

fn insert(fd: c_int, entry: SocketEntry) {
    numbers::note(fd);
    let old =
        TABLE.get().write().unwrap_or_else(PoisonError::into_inner).insert(fd, Arc::new(entry));
    // The program closed the old number by close(2), and the kernel gave it out again.
    old.into_iter().for_each(give_up);
}

/// Gives up an entry whose number the program closed by close(2). The number may stand for another
/// descriptor now, and stays open.
fn give_up(entry: Arc<SocketEntry>) {
    // Another thread is in a call.
    let Ok(entry) = Arc::try_unwrap(entry).map_err(std::mem::forget) else { return };
    std::mem::forget(entry.take_descriptor());
    let mut state = entry.state();
    let is_kept = match &mut *state {
        SocketState::Connected(stream, _) => Arc::get_mut(stream)
            .zip(kernel::socket(libc::SOCK_STREAM, libc::SOCK_CLOEXEC).ok())
            .map(|(stream, stand_in)| std::mem::forget(stream.replace_descriptor(stand_in)))
            .is_none(),
        SocketState::Datagrams(socket) => Arc::get_mut(socket)
            .zip(kernel::socket(libc::SOCK_DGRAM, libc::SOCK_CLOEXEC).ok())
            .map(|(socket, stand_in)| std::mem::forget(socket.replace_descriptor(stand_in)))
            .is_none(),
        _ => false,
    };
    drop(state);
    if is_kept {
        // The drop would close the number.
        std::mem::forget(entry);
    }
}

/// The entry of a number.
///
/// # Errors
/// ENOTCONN for a socket or poller of the parent process, ENOTSOCK for another open descriptor,
/// EBADF for a closed one.
pub(crate) fn find(fd: c_int) -> PosixResult<Arc<SocketEntry>> {
    let table = TABLE.get().read().unwrap_or_else(PoisonError::into_inner);
    table.get(&fd).map(Arc::clone).ok_or_else(|| no_socket(fd))
}

/// The error of a number that is no socket of the table.
fn no_socket(fd: c_int) -> Errno {
    if numbers::is_of_parent(fd) {
        return Errno::NOTCONN;
    }
    let is_open = kernel::descriptor_flags(fd, libc::F_GETFD, 0).is_ok();
    if is_open { Errno::NOTSOCK } else { Errno::BADF }
}

/// Whether the number still stands for this entry: the program has closed neither.
pub(crate) fn is_current(fd: c_int, entry: &Arc<SocketEntry>) -> bool {
    let table = TABLE.get().read().unwrap_or_else(PoisonError::into_inner);
    table.get(&fd).is_some_and(|current| Arc::ptr_eq(current, entry))
}

/// Closes a socket. Calls inside it end. A child by fork closes its descriptor of a socket of its
/// parent.
///
/// # Errors
/// As [`find`], also where the program closed the number by close(2) before. A descriptor that has
/// the number now stays open.
pub(crate) fn close(fd: c_int) -> PosixResult {
    match find(fd) {
        Err(Errno::NOTCONN) => {
            numbers::forget(fd);
            return kernel::close(fd);
        }
        other => other?,
    };
    let is_there = !numbers::has_changed(fd);
    numbers::forget(fd);
    let removed = TABLE.get().write().unwrap_or_else(PoisonError::into_inner).remove(&fd);
    let entry = removed.ok_or(Errno::BADF)?;
    let state = entry.state();
    if let SocketState::Bound(port) | SocketState::Connected(_, port @ 1..) = *state {
        domain::get_or_join()?.release(port);
    }
    drop(state);
    if is_there {
        return Ok(0);
    }
    give_up(entry);
    Err(no_socket(fd))
}

impl SocketEntry {
    fn new(
        kind: SockKind,
        state: SocketState,
        nonblocking: bool,
        descriptor: Option<OwnedFd>,
    ) -> Self {
        Self {
            kind,
            state: Mutex::new(state),
            nonblocking: AtomicBool::new(nonblocking),
            options: Mutex::default(),
            descriptor: Mutex::new(descriptor),
            arrived: Mutex::default(),
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.kind == SockKind::Stream
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SocketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> PosixResult<()> {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        let set = match &*self.state() {
            SocketState::Connected(stream, _) => stream.set_nonblocking(nonblocking),
            SocketState::Datagrams(socket) => socket.set_nonblocking(nonblocking),
            _ => Ok(()),
        };
        set.map_err(|error| errno_of(&error))
    }

    /// Takes the descriptor of the number, for the object that owns it from now on.
    pub(crate) fn take_descriptor(&self) -> Option<OwnedFd> {
        self.descriptor.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Blocks that wait for an endpoint.
    pub(crate) fn arrived(&self) -> MutexGuard<'_, VecDeque<ArrivedBlock>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self) -> MutexGuard<'_, Vec<StoredOption>> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stored value of an option.
    pub(crate) fn option(&self, level: c_int, name: c_int) -> Option<Vec<u8>> {
        let options = self.options();
        let stored = options.iter().find(|stored| (stored.level, stored.name) == (level, name));
        stored.map(|stored| stored.value.clone())
    }

    /// Stores the value of an option.
    pub(crate) fn store_option(&self, level: c_int, name: c_int, value: Vec<u8>) {
        let mut options = self.options();
        options.retain(|stored| (stored.level, stored.name) != (level, name));
        options.push(StoredOption { level, name, value });
    }

    /// The limit of an accept in nanoseconds: `SO_RCVTIMEO`.
    pub(crate) fn receive_limit_ns(&self) -> u64 {
        let halves = self.option(libc::SOL_SOCKET, libc::SO_RCVTIMEO).and_then(|value| {
            let (seconds, micros) = value.split_at_checked(8)?;
            let seconds = u64::from_ne_bytes(seconds.try_into().ok()?);
            Some((seconds, u64::from_ne_bytes(micros.try_into().ok()?)))
        });
        match halves {
            None | Some((0, 0)) => u64::MAX,
            Some((seconds, micros)) => {
                seconds.saturating_mul(1_000_000_000).saturating_add(micros.saturating_mul(1000))
            }
        }
    }

    /// Puts the descriptor of a com-socket onto the number of this socket, with its options.
    pub(crate) fn attach_descriptor(&self, fd: c_int, socket: &impl AsFd) -> PosixResult<()> {
        let new = socket.as_fd().as_raw_fd();
        // A number that the program closed by close(2) counts as close-on-exec.
        let cloexec = match kernel::descriptor_flags(fd, libc::F_GETFD, 0) {
            Ok(flags) if flags & libc::FD_CLOEXEC == 0 => 0,
            _ => libc::O_CLOEXEC,
        };
        for stored in self.options().iter() {
            // A listener refuses options of a socket, and needs none of them.
            let _refused = kernel::set_option(new, stored.level, stored.name, &stored.value);
        }
        kernel::replace(fd, new, cloexec)?;
        numbers::note(fd);
        Ok(())
    }

    /// The state of this socket as a datagram socket at a port.
    pub(crate) fn bind_datagrams(
        &self,
        fd: c_int,
        domain: &Domain,
        port: u16,
    ) -> PosixResult<SocketState> {
        let mut socket = domain.datagrams(port)?;
        self.attach_descriptor(fd, &socket)?;
        drop(self.take_descriptor().map(|number| socket.replace_descriptor(number)));
        socket.set_nonblocking(self.is_nonblocking()).map_err(|error| errno_of(&error))?;
        let broadcast = self.option(libc::SOL_SOCKET, libc::SO_BROADCAST);
        socket.set_broadcast(broadcast.is_some_and(|value| value.iter().any(|byte| *byte != 0)));
        Ok(SocketState::Datagrams(Arc::new(socket)))
    }

    /// The datagram socket. A new one gets a port now.
    pub(crate) fn datagrams(
        &self,
        fd: c_int,
        state: &mut SocketState,
    ) -> PosixResult<Arc<DatagramSocket>> {
        if matches!(state, SocketState::New) {
            *state = self.bind_datagrams(fd, &domain::get_or_join()?, 0)?;
        }
        match state {
            SocketState::Datagrams(socket) => Ok(Arc::clone(socket)),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// The stream of a connected socket.
    pub(crate) fn stream(&self) -> Option<Arc<Stream>> {
        match &*self.state() {
            SocketState::Connected(stream, _) => Some(Arc::clone(stream)),
            _ => None,
        }
    }

    pub(crate) fn own_address(&self) -> PosixResult<SocketAddrV4> {
        Ok(match &*self.state() {
            SocketState::New | SocketState::Connecting(0) => {
                SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)
            }
            SocketState::Bound(port) | SocketState::Connecting(port) => {
                SocketAddrV4::new(domain::get_or_join()?.address(), *port)
            }
            SocketState::Listening(listener) => listener.local_addr(),
            SocketState::Connected(stream, _) => stream.local_addr(),
            SocketState::Datagrams(socket) => socket.local_addr(),
        })
    }

    pub(crate) fn peer_address(&self) -> Option<SocketAddrV4> {
        match &*self.state() {
            SocketState::Connected(stream, _) => Some(stream.peer_addr()),
            SocketState::Datagrams(socket) => socket.peer_addr(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_leaves_the_next_descriptor_of_the_number_open() {
        for is_accepted in [false, true] {
            let descriptor =
                kernel::socket(libc::SOCK_STREAM, libc::SOCK_CLOEXEC).expect("a socket");
            let fd = descriptor.as_raw_fd();
            let descriptor = if is_accepted {
                std::mem::forget(descriptor);
                None
            } else {
                Some(descriptor)
            };
            insert(fd, SocketEntry::new(SockKind::Stream, SocketState::New, false, descriptor));
            let file = std::fs::File::open("/dev/null").expect("the device");
            // close(2) of the number, which the next open file gets.
            kernel::replace(fd, file.as_raw_fd(), libc::O_CLOEXEC).expect("own number");
            assert_eq!(close(fd), Err(Errno::NOTSOCK));
            assert!(kernel::descriptor_flags(fd, libc::F_GETFD, 0).is_ok(), "the file is closed");
            assert_eq!(close(fd), Err(Errno::NOTSOCK));
        }
    }
}
