//! What the numbers of sockets stand for.
//!
//! A number is that of a descriptor that this process holds: at first of a socket of the kernel's that is nothing yet, then, by
//! dup3(2) onto the same number, of what it has become. So it can be polled at any time; whoever
//! waits for it by epoll adds it once it is connected, bound or listening.
//!
//! # Safety
//! System calls with numbers of our own descriptors.
#![allow(unsafe_code)]

use super::answer::{Answer, last};
use crate::current;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use libc::socklen_t;
use m3ipc_sockets::{Datagrams, Domain, Errno, Listener, SockKind, Stream};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Names the VM of a process that is bound in none.
const VM_VARIABLE: &str = "M3_VM";
/// Names, or numbers, the domain that the first socket joins.
const DOMAIN_VARIABLE: &str = "M3_DOMAIN";
/// The VM of its own that `m3_domain` is told by -1.
const ANY: c_int = -1;

static TABLE: RwLock<BTreeMap<c_int, Arc<Entry>>> = RwLock::new(BTreeMap::new());
/// The domain of this process, and which process that was.
static DOMAIN: Mutex<Option<(u32, Domain)>> = Mutex::new(None);

/// What a socket is by now.
#[derive(Debug)]
pub(super) enum State {
    Fresh,
    Bound(u16),
    Listening(Arc<Listener>),
    /// Connected; from this port where it was bound before, else 0.
    Connected(Arc<Stream>, u16),
    Datagrams(Arc<Datagrams>),
}

/// A socket.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) kind: SockKind,
    state: Mutex<State>,
    nonblocking: AtomicBool,
    /// Options that were set: level, name, value. What the socket becomes gets them too.
    pub(super) options: Mutex<Vec<(c_int, c_int, Vec<u8>)>>,
    /// The descriptor behind the number; none of an accepted connection, which is its own.
    number: Option<OwnedFd>,
}

/// Joins a domain.
pub(super) fn join(vm: c_int, domain: c_int) -> Answer {
    let wanted = match domain {
        ANY => None,
        domain => Some(u32::try_from(domain).map_err(|_negative| Errno::INVAL)?),
    };
    join_as(|directory| Ok(Domain::enter(directory, vm, wanted)?))
}

/// Joins a domain by its name.
pub(super) fn join_named(vm: c_int, name: &str) -> Answer {
    join_as(|directory| Ok(Domain::join_named(directory, &find_vm(directory, vm)?, name)?))
}

/// The address of a domain by its name.
pub(super) fn address_named(vm: c_int, name: &str) -> Answer<Ipv4Addr> {
    let vm = find_vm(&m3ipc::runtime::directory(), vm)?;
    let number = vm.domain(name).ok_or(Errno::ADDRNOTAVAIL)?;
    Ok(domain()?.address_of(number))
}

/// A VM by its id, or for -1 the one of this process.
fn find_vm(directory: &Path, vm: c_int) -> Answer<m3ipc::Vm> {
    let id = if vm == ANY { own_vm(directory)? } else { vm };
    let mut node = m3ipc::Node::find(directory).map_err(|_absent| Errno::NETDOWN)?;
    node.vm(id).map_err(|_unknown| Errno::NETDOWN)
}

fn join_as(join: impl FnOnce(&Path) -> Answer<Domain>) -> Answer {
    let mut place = DOMAIN.lock().unwrap_or_else(PoisonError::into_inner);
    if place.as_ref().is_some_and(|(pid, _)| *pid == std::process::id()) {
        return Err(Errno::ISCONN);
    }
    let joined = join(&m3ipc::runtime::directory())?;
    let number = joined.number();
    set(&mut place, joined);
    c_int::try_from(number).map_err(|_| Errno::RANGE)
}

/// What a parent by fork had is not dropped: its connection to the daemon is not ours.
fn set(place: &mut Option<(u32, Domain)>, domain: Domain) {
    std::mem::forget(place.replace((std::process::id(), domain)));
}

/// The domain of this process; joined now, where it is in none.
pub(super) fn domain() -> Answer<Domain> {
    let mut place = DOMAIN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, domain)) = place.as_ref().filter(|(pid, _)| *pid == std::process::id()) {
        return Ok(domain.clone());
    }
    let directory = m3ipc::runtime::directory();
    let vm = own_vm(&directory)?;
    let joined = match std::env::var(DOMAIN_VARIABLE) {
        Err(_unset) => Domain::enter(&directory, vm, None)?,
        Ok(wanted) => match wanted.parse() {
            Ok(number) => Domain::enter(&directory, vm, Some(number))?,
            Err(_name) => Domain::join_named(&directory, &find_vm(&directory, vm)?, &wanted)?,
        },
    };
    set(&mut place, joined.clone());
    Ok(joined)
}

/// The VM that this process is bound in, else the one that it is told of.
fn own_vm(directory: &Path) -> Answer<i32> {
    if let Some((vm, _)) = current::place() {
        return Ok(vm);
    }
    let name = std::env::var(VM_VARIABLE).map_err(|_unset| Errno::NETDOWN)?;
    let mut node = m3ipc::Node::find(directory).map_err(|_absent| Errno::NETDOWN)?;
    let by_name = node.vm_named(&name).map(|vm| vm.id());
    by_name.or_else(|unknown| name.parse().map_err(|_| unknown)).map_err(|_| Errno::NETDOWN)
}

/// A new socket.
pub(super) fn open(domain: c_int, kind: c_int, protocol: c_int) -> Answer {
    if domain != libc::AF_INET {
        return Err(Errno::AFNOSUPPORT);
    }
    let (nonblocking, cloexec) = (kind & libc::SOCK_NONBLOCK != 0, kind & libc::SOCK_CLOEXEC);
    let (sort, its) = match kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) {
        libc::SOCK_STREAM => (SockKind::Stream, libc::IPPROTO_TCP),
        libc::SOCK_DGRAM => (SockKind::Datagram, libc::IPPROTO_UDP),
        _ => return Err(Errno::INVAL),
    };
    if protocol != 0 && protocol != its {
        return Err(Errno::PROTONOSUPPORT);
    }
    self::domain()?;
    let of_kernel = if sort == SockKind::Stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
    // SAFETY: three integers; the result is a new descriptor or an error.
    let fd = unsafe { libc::socket(libc::AF_UNIX, of_kernel | cloexec, 0) };
    if fd < 0 {
        return Err(last());
    }
    // SAFETY: just made for us.
    let number = unsafe { OwnedFd::from_raw_fd(fd) };
    put(fd, Entry::new(sort, State::Fresh, nonblocking, Some(number)));
    Ok(fd)
}

fn put(fd: c_int, entry: Entry) {
    let old = TABLE.write().unwrap_or_else(PoisonError::into_inner).insert(fd, Arc::new(entry));
    if let Some(mut old) = old {
        // The number was closed past us and given out again: the old descriptor is not ours to close any more.
        if let Some(old) = Arc::get_mut(&mut old) {
            std::mem::forget(old.number.take());
        }
    }
}

/// A connection that was taken, under the number of its own descriptor.
pub(super) fn accepted(stream: Stream, flags: c_int) -> Answer {
    let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    stream.set_nonblocking(nonblocking).map_err(|cause| super::answer::errno_of(&cause))?;
    let fd = stream.as_raw_fd();
    // SAFETY: our own descriptor and two integers.
    unsafe {
        libc::fcntl(
            fd,
            libc::F_SETFD,
            if flags & libc::SOCK_CLOEXEC != 0 { libc::FD_CLOEXEC } else { 0 },
        )
    };
    put(fd, Entry::new(SockKind::Stream, State::Connected(Arc::new(stream), 0), nonblocking, None));
    Ok(fd)
}

/// What a number stands for.
pub(super) fn find(fd: c_int) -> Answer<Arc<Entry>> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = table.get(&fd) {
        return Ok(Arc::clone(entry));
    }
    drop(table);
    // SAFETY: an integer and a command without an argument.
    let open = unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    Err(if open { Errno::NOTSOCK } else { Errno::BADF })
}

/// Ends a socket; calls that are in it end with it.
pub(super) fn close(fd: c_int) -> Answer {
    find(fd)?;
    let entry =
        TABLE.write().unwrap_or_else(PoisonError::into_inner).remove(&fd).ok_or(Errno::BADF)?;
    if let State::Bound(port) | State::Connected(_, port @ 1..) = *entry.state() {
        domain()?.release(port);
    }
    Ok(0)
}

impl Entry {
    fn new(kind: SockKind, state: State, nonblocking: bool, number: Option<OwnedFd>) -> Self {
        let state = Mutex::new(state);
        Self {
            kind,
            state,
            nonblocking: AtomicBool::new(nonblocking),
            options: Mutex::default(),
            number,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) -> Answer<()> {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        let set = match &*self.state() {
            State::Connected(stream, _) => stream.set_nonblocking(nonblocking),
            State::Datagrams(socket) => socket.set_nonblocking(nonblocking),
            _ => Ok(()),
        };
        set.map_err(|cause| super::answer::errno_of(&cause))
    }

    /// How long accepting may wait, in nanoseconds: `SO_RCVTIMEO`.
    pub(super) fn receive_limit_ns(&self) -> u64 {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        let set = options
            .iter()
            .find(|(level, name, _)| (*level, *name) == (libc::SOL_SOCKET, libc::SO_RCVTIMEO));
        let halves = set.and_then(|(.., value)| {
            let (seconds, micros) = value.split_at_checked(8)?;
            Some((
                u64::from_ne_bytes(seconds.try_into().ok()?),
                u64::from_ne_bytes(micros.try_into().ok()?),
            ))
        });
        match halves {
            None | Some((0, 0)) => u64::MAX,
            Some((seconds, micros)) => {
                seconds.saturating_mul(1_000_000_000).saturating_add(micros.saturating_mul(1000))
            }
        }
    }

    /// From now on the number leads to this, with the options that were set.
    pub(super) fn become_(&self, fd: c_int, what: &impl AsFd) -> Answer<()> {
        let new = what.as_fd().as_raw_fd();
        // SAFETY: our own descriptors.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        let cloexec = if flags & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
        for (level, name, value) in
            self.options.lock().unwrap_or_else(PoisonError::into_inner).iter()
        {
            let length = socklen_t::try_from(value.len()).unwrap_or(0);
            // SAFETY: `value` is live and as long as is said. A listener has no use for most, and says no.
            unsafe { libc::setsockopt(new, *level, *name, value.as_ptr().cast(), length) };
        }
        // SAFETY: `fd` is the number of this socket, which we hold.
        if unsafe { libc::dup3(new, fd, cloexec) } < 0 { Err(last()) } else { Ok(()) }
    }

    /// The datagram socket that this one becomes.
    pub(super) fn datagrams(&self, fd: c_int, domain: &Domain, port: u16) -> Answer<State> {
        let socket = domain.datagrams(port)?;
        self.become_(fd, &socket)?;
        socket
            .set_nonblocking(self.is_nonblocking())
            .map_err(|cause| super::answer::errno_of(&cause))?;
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        let broadcast = options
            .iter()
            .find(|(level, name, _)| (*level, *name) == (libc::SOL_SOCKET, libc::SO_BROADCAST));
        socket.set_broadcast(
            broadcast.is_some_and(|(.., value)| value.iter().any(|byte| *byte != 0)),
        );
        drop(options);
        Ok(State::Datagrams(Arc::new(socket)))
    }

    /// Does this with the datagram socket, which gets a port now where it has none.
    pub(super) fn with_datagrams<T>(
        &self,
        fd: c_int,
        state: &mut State,
        body: impl FnOnce(&Arc<Datagrams>) -> Answer<T>,
    ) -> Answer<T> {
        if matches!(state, State::Fresh) {
            *state = self.datagrams(fd, &domain()?, 0)?;
        }
        match state {
            State::Datagrams(socket) => body(socket),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// The connection, of a stream that has one.
    pub(super) fn stream(&self) -> Option<Arc<Stream>> {
        match &*self.state() {
            State::Connected(stream, _) => Some(Arc::clone(stream)),
            _ => None,
        }
    }

    pub(super) fn own_name(&self) -> Answer<SocketAddrV4> {
        Ok(match &*self.state() {
            State::Fresh => SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0),
            State::Bound(port) => SocketAddrV4::new(domain()?.address(), *port),
            State::Listening(listener) => listener.local_addr(),
            State::Connected(stream, _) => stream.local_addr(),
            State::Datagrams(socket) => socket.local_addr(),
        })
    }

    pub(super) fn peer_name(&self) -> Option<SocketAddrV4> {
        match &*self.state() {
            State::Connected(stream, _) => Some(stream.peer_addr()),
            State::Datagrams(socket) => socket.peer_addr(),
            _ => None,
        }
    }
}
