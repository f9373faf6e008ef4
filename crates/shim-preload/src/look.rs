//! The first use of a descriptor that nothing is known of, and what a pin means here.

use crate::policy;
use crate::table::{self, Entry};
use libc::{c_int, socklen_t};
use m3ipc_shim::count;
use m3ipc_shim::engine::{self, Birth, Pin, Talk};

/// The talk of a descriptor, where it has one or may have one.
#[inline]
pub fn talk(fd: c_int) -> Option<&'static Talk> {
    match table::get(fd) {
        Entry::Talk(talk) => Some(talk),
        Entry::Unknown | Entry::Born { .. } => first(fd),
        _ => None,
    }
}

/// Only where it is known to have one: for calls that do not move bytes.
pub fn known(fd: c_int) -> Option<&'static Talk> {
    if let Entry::Talk(talk) = table::get(fd) { Some(talk) } else { None }
}

/// An integer option of a socket.
pub fn option(fd: c_int, level: c_int, name: c_int) -> Result<c_int, c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    let words = [
        fd as usize,
        level as usize,
        name as usize,
        &raw mut value as usize,
        &raw mut length as usize,
        0,
    ];
    unsafe { crate::raw(libc::SYS_getsockopt, words) }.map(|_zero| value)
}

/// `AF_INET`, `AF_INET6`, `AF_UNIX`, ...
pub fn domain(fd: c_int) -> c_int {
    option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN).unwrap_or(libc::AF_UNSPEC)
}

/// Options that a program may have set before we saw the socket, and the value that each must have.
const PLAIN_OPTIONS: &[(c_int, c_int, c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, 1),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, 0),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY, 0),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP, 0),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0),
];

#[cold]
fn first(fd: c_int) -> Option<&'static Talk> {
    let entry = table::get(fd);
    let is_new = matches!(entry, Entry::Born { .. });
    let (how, edges) = match entry {
        Entry::Born { how, edges } => (how, edges),
        // Who registered it where with which events is not known: each publish is to be an edge.
        _ => (Birth::Found, true),
    };
    let kind = option(fd, libc::SOL_SOCKET, libc::SO_TYPE);
    let domain = domain(fd);
    let of_ours = matches!(domain, libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX);
    if kind == Err(libc::EBADF) {
        return None;
    }
    if !policy::on()
        || kind != Ok(libc::SOCK_STREAM)
        || !of_ours
        || option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Ok(1)
    {
        table::learn(fd, entry, Entry::Plain);
        return None;
    }
    let mut far = Name::new();
    if !far.of(libc::SYS_getpeername, fd) {
        // Not connected, or not yet.
        return None;
    }
    let mut near = Name::new();
    near.of(libc::SYS_getsockname, fd);
    if !policy::allows(&near, &far) {
        return pinned_before(fd, entry, Pin::Policy);
    }
    let odd = PLAIN_OPTIONS
        .iter()
        .any(|&(level, name, plain)| option(fd, level, name).is_ok_and(|value| value != plain));
    let has = |name: c_int, least: c_int| {
        option(fd, libc::SOL_SOCKET, name).is_ok_and(|value| value >= least)
    };
    let odd_unix = domain == libc::AF_UNIX
        && (has(libc::SO_PASSCRED, 1) || has(libc::SO_PASSSEC, 1) || has(libc::SO_PEEK_OFF, 0));
    if odd || odd_unix {
        return pinned_before(fd, entry, Pin::Option);
    }
    let Some(talk) = engine::candidate(fd, how) else {
        table::learn(fd, entry, Entry::Plain);
        return None;
    };
    crate::start::join_counters();
    if edges {
        talk.edge_triggered(true);
    }
    if table::learn(fd, entry, Entry::Talk(talk)) {
        crate::watch::found(fd, talk, is_new);
        return Some(talk);
    }
    // Another thread was quicker, or this is the child of a vfork: the engine gives one socket one talk.
    Some(talk)
}

fn pinned_before(fd: c_int, entry: Entry, reason: Pin) -> Option<&'static Talk> {
    if table::learn(fd, entry, Entry::Pinned) {
        count::pinned(reason);
    }
    None
}

/// Stays in, or returns to, the kernel; `false` where bytes of the ring could not be brought back. Then `drop` says
/// that the connection is to end rather than that somebody reads what was never meant for them.
pub fn pin(fd: c_int, reason: Pin, drop: bool) -> bool {
    match table::get(fd) {
        Entry::Talk(talk) => {
            let clean = talk.pin(fd, reason);
            if !clean && drop {
                let words = [fd as usize, libc::SHUT_RDWR as usize, 0, 0, 0, 0];
                let _ = unsafe { crate::raw(libc::SYS_shutdown, words) };
            }
            clean
        }
        entry @ (Entry::Unknown | Entry::Born { .. })
            if option(fd, libc::SOL_SOCKET, libc::SO_TYPE)
                .is_ok_and(|kind| kind == libc::SOCK_STREAM) =>
        {
            pinned_before(fd, entry, reason);
            true
        }
        _ => true,
    }
}

/// The name of one end of a socket.
pub struct Name {
    /// Valid in its first `length` bytes.
    pub bytes: [u8; size_of::<libc::sockaddr_storage>()],
    pub length: socklen_t,
}

impl Name {
    pub const fn new() -> Self {
        Self { bytes: [0; size_of::<libc::sockaddr_storage>()], length: 0 }
    }

    /// Asks the kernel with this call; abstract names begin with `@`, as tools write them.
    pub fn of(&mut self, call: libc::c_long, fd: c_int) -> bool {
        let found = self.of_raw(call, fd);
        if found && self.family() == libc::AF_UNIX && self.length > 2 && self.bytes[2] == 0 {
            self.bytes[2] = b'@';
        }
        found
    }

    /// Asks the kernel with this call.
    pub fn of_raw(&mut self, call: libc::c_long, fd: c_int) -> bool {
        self.length = self.bytes.len() as socklen_t;
        let words =
            [fd as usize, self.bytes.as_mut_ptr() as usize, &raw mut self.length as usize, 0, 0, 0];
        let found = unsafe { crate::raw(call, words) }.is_ok();
        if !found {
            self.length = 0;
        }
        found
    }

    /// Its family.
    pub fn family(&self) -> c_int {
        c_int::from(u16::from_ne_bytes([self.bytes[0], self.bytes[1]]))
    }

    /// Its port, where it has one.
    pub fn port(&self) -> Option<u16> {
        matches!(self.family(), libc::AF_INET | libc::AF_INET6)
            .then(|| u16::from_be_bytes([self.bytes[2], self.bytes[3]]))
    }

    /// Its path, where it has one (abstract ones begin with `@`, as tools write them).
    pub fn path(&self) -> Option<&[u8]> {
        if self.family() != libc::AF_UNIX || self.length <= 2 {
            return None;
        }
        let path = &self.bytes[2..(self.length as usize).min(self.bytes.len())];
        Some(path.split(|byte| *byte == 0).next().unwrap_or(path)).filter(|path| !path.is_empty())
    }
}
