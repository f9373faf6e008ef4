//! Inspection: each connection as its file describes it, for `m3 sock stat`.
//!
//! A file is read and never mapped: a process that may write the file may also truncate it. Each
//! word is read once and is a claim. An impossible value is shown as unknown. The words of one
//! connection are not read at one moment, so sums may differ a little.

use crate::connection::address::SocketAddress;
use crate::connection::sock_diag;
use crate::memory::layout::{PAIR_BYTES, PAIR_WORDS_BYTES, RING_BYTES_MAX, VERSION, half, pair};
use crate::memory::user_directory::Name;
use crate::memory::user_directory::namespaces;
use crate::pin::PinReason;
use m3ipc_sys::{CheckedPath, PathFault};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Entries of a directory that are read at most.
const ENTRIES_MAX: usize = 65_536;

/// The address of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndAddress {
    /// The own address of a TCP socket.
    Tcp(SocketAddr),
    /// The inode of a Unix socket.
    Unix(u32),
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The cookie of the socket.
    pub cookie: u64,
    /// The address; `None` where the words hold none.
    pub address: Option<EndAddress>,
    /// The process that receives at the end; `None` before the first receive.
    pub pid: Option<u32>,
    /// Whether a process with the library found the pair.
    pub is_joined: bool,
    /// The kernel's state of the socket, by the numbers of tcp(7): 1 is established. `None` where
    /// the kernel has no such socket.
    pub state: Option<u8>,
}

/// The route of the next byte of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Through the kernel; no byte went through the ring yet.
    Before,
    /// Through the ring.
    Ring,
    /// Through the kernel, until the receiver has caught up.
    Kernel,
    /// Through the kernel for good; `None` for an unknown reason.
    Pinned(Option<PinReason>),
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// The route of the next byte.
    pub route: Route,
    /// Bytes of the ring; `None` before its first use.
    pub ring_size_bytes: Option<u32>,
    /// Bytes that went through the ring.
    pub ring_bytes: u64,
    /// Bytes that went through the kernel since the first use of the ring.
    pub kernel_bytes: u64,
    /// Bytes that lie in the ring; `None` for an impossible number.
    pub waiting_bytes: Option<u64>,
    /// Wakeup bytes that were sent.
    pub wakeup_bytes: u64,
    /// Wakeup bytes that were not needed.
    pub wakeup_bytes_spared: u64,
    /// Sends that found the ring full.
    pub overflows: u64,
}

/// A connection with one or two ends in programs under `m3 sock run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The user of both ends.
    pub user: u32,
    /// Both ends.
    pub ends: [End; 2],
    /// The direction that the first end sends on, and the direction of the second.
    pub directions: [Direction; 2],
}

impl Connection {
    /// Whether the kernel still has a socket of the connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.ends.iter().any(|end| end.state.is_some())
    }
}

/// The connections of one user, of programs with this runtime directory (`M3_RUNTIME_DIR`; `None`:
/// `/dev/shm`).
///
/// A connection that is over stays listed until a later connection removes its memory.
///
/// # Errors
/// Of open(2); `NotFound` before the first connection. `InvalidData` where other users could write
/// the directory.
pub fn connections(home: Option<&Path>, user: u32) -> io::Result<Vec<Connection>> {
    let directory = path(checked(home)?.as_deref(), user)?;
    let meta = std::fs::symlink_metadata(&directory)?;
    if !meta.is_dir() || meta.uid() != user || meta.mode() & 0o077 != 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&directory)?.take(ENTRIES_MAX) {
        let name = entry?.file_name();
        if let Some(Name::Pair(cookie)) = Name::parse(name.as_encoded_bytes())
            && let Ok(file) = open(&directory.join(name), user)
            && let Ok(connection) = read(&file, user)
            // The file has a second name, for the other end.
            && connection.ends[0].cookie == cookie
        {
            found.push(connection);
        }
    }
    Ok(found)
}

/// The users with a directory of connections, at most so many.
///
/// # Errors
/// Of the directory; `PermissionDenied` where users other than its owner can change it, or where it
/// belongs to another user and the caller is not root.
pub fn users(home: Option<&Path>, most: usize) -> io::Result<Vec<u32>> {
    let (home, namespace) = (checked(home)?, namespaces().map_err(io::Error::from_raw_os_error)?);
    let (folder, prefix) = folder(home.as_deref());
    let names = std::fs::read_dir(folder)?.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.strip_prefix(&prefix)?.strip_suffix(&format!("-{namespace}"))?.parse().ok()
    });
    let mut users: Vec<u32> = names.take(most).collect();
    users.sort_unstable();
    Ok(users)
}

/// The named directory without links, if no other user can replace what lies in it.
fn checked(home: Option<&Path>) -> io::Result<Option<PathBuf>> {
    let Some(home) = home else { return Ok(None) };
    let place = CheckedPath::open_for_reading(home).map_err(|fault| match fault {
        PathFault::System { errno, .. } => errno.into(),
        _ => io::Error::from(io::ErrorKind::PermissionDenied),
    })?;
    let is_safe = !place.others_may_write() || place.mode() & libc::S_ISVTX != 0;
    if place.is_directory() && place.is_roots_or_own() && is_safe {
        Ok(Some(place.path().to_owned()))
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// The directory of the files, and the first letters of their names.
fn folder(home: Option<&Path>) -> (&Path, String) {
    let (folder, word) = home.map_or((Path::new("/dev/shm"), "m3sock"), |home| (home, "sock"));
    (folder, format!("{word}-{VERSION}-"))
}

fn path(home: Option<&Path>, user: u32) -> io::Result<PathBuf> {
    let (folder, prefix) = folder(home);
    let namespace = namespaces().map_err(io::Error::from_raw_os_error)?;
    Ok(folder.join(format!("{prefix}{user}-{namespace}")))
}

fn open(path: &Path, user: u32) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    let fits = meta.is_file()
        && meta.uid() == user
        && meta.mode() & 0o077 == 0
        && meta.len() == PAIR_BYTES as u64;
    if fits { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Reads one pair.
fn read(file: &File, user: u32) -> io::Result<Connection> {
    let mut page = [0; PAIR_WORDS_BYTES];
    file.read_exact_at(&mut page, 0)?;
    let ends = [0, 1].map(|side| end(&page, side));
    let directions = [0, 1].map(|side| direction(&page, side));
    Ok(Connection { user, ends, directions })
}

fn word_at(bytes: &[u8], offset: usize) -> u64 {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u64::from_ne_bytes(*chunk))
}

fn end(page: &[u8], side: usize) -> End {
    let cookie = word_at(page, pair::COOKIES[side]);
    let address = SocketAddress::decode(core::array::from_fn(|at| {
        word_at(page, pair::ADDRESSES[side] + 8 * at)
    }));
    let info = sock_diag::look_up(&address).ok().filter(|info| info.cookie == cookie);
    let pid = u32::try_from(word_at(page, pair::PROCESSES[side])).ok();
    End {
        cookie,
        address: end_address(&address),
        pid: pid.filter(|pid| *pid != 0 && i32::try_from(*pid).is_ok()),
        is_joined: word_at(page, pair::JOINED[side]) != 0,
        state: info.map(|info| info.state),
    }
}

fn end_address(address: &SocketAddress) -> Option<EndAddress> {
    let [own, _peer] = address.hosts;
    let port = u16::from_be(address.ports[0]);
    let host: IpAddr = match i32::from(address.family) {
        libc::AF_UNIX => return Some(EndAddress::Unix(address.inode)),
        libc::AF_INET => Ipv4Addr::new(own[0], own[1], own[2], own[3]).into(),
        libc::AF_INET6 => Ipv6Addr::from(own).into(),
        _ => return None,
    };
    Some(EndAddress::Tcp(SocketAddr::new(host, port)))
}

fn direction(page: &[u8], side: usize) -> Direction {
    let word = |offset: usize| word_at(page, pair::HALVES[side] + offset);
    let size = u32::try_from(word(half::RING_BYTES)).ok();
    let size = size.filter(|size| *size != 0 && *size as usize <= RING_BYTES_MAX);
    let waiting = word(half::TAIL).wrapping_sub(word(half::HEAD));
    let route = if word(half::PINNED) != 0 {
        Route::Pinned(PinReason::numbered(word(half::REASON)))
    } else if word(half::ATTACHED) > 1 {
        // The receiver left; the reason stands in the half on which it sends.
        Route::Pinned(PinReason::numbered(word_at(page, pair::HALVES[1 - side] + half::REASON)))
    } else if size.is_none() {
        Route::Before
    } else if word(half::SWITCHES) & 1 == 1 {
        Route::Ring
    } else {
        Route::Kernel
    };
    Direction {
        route,
        ring_size_bytes: size,
        ring_bytes: word(half::TAIL),
        kernel_bytes: word(half::KERNEL),
        waiting_bytes: (waiting <= u64::from(size.unwrap_or(0))).then_some(waiting),
        wakeup_bytes: word(half::WAKEUPS),
        wakeup_bytes_spared: word(half::SPARED),
        overflows: word(half::OVERFLOWS),
    }
}

#[cfg(test)]
mod tests;
