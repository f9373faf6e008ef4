//! Sight: what the shared memory says of each connection, for who only looks (`m3 sock stat`).
//!
//! The file is read, never mapped: who may write it may also truncate it. Each word is read once and is nothing but a claim:
//! what cannot be is shown as unknown. Words of one connection are not read at one moment, so sums may be a little apart.

use super::Pin;
use super::arena::Arena;
use super::diag::{self, Address};
use super::pairs::LIVE;
use super::words::{PAIRS, RING_MAX, STATES, TOTAL, VERSION, pair, way};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Words of a pair's page that are read.
const WORDS: usize = 1536 / 8;

/// Where an end is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Of TCP: its own address.
    Tcp(SocketAddr),
    /// Of a Unix socket: its inode.
    Unix(u32),
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The kernel's number of the socket.
    pub cookie: u64,
    /// Where it is found; none where that is nonsense.
    pub place: Option<Place>,
    /// The process that receives there; none where nobody does yet, or that is nonsense.
    pub pid: Option<u32>,
    /// Whether a process with the library knows of the connection.
    pub is_joined: bool,
    /// The kernel's state of the socket (tcp(7), as in `/proc/net/tcp`): 1 is established. None where the kernel has no such socket.
    pub state: Option<u8>,
}

/// Which way the bytes of one direction go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Through the kernel; nothing went through the ring yet.
    Before,
    /// Through the ring.
    Ring,
    /// Through the kernel, until its receiver has caught up, or tries again.
    Kernel,
    /// Through the kernel for good. None: the reason is not known.
    Pinned(Option<Pin>),
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Which way its bytes go now.
    pub course: Course,
    /// Bytes that the ring takes; none before it is used.
    pub ring_size_bytes: Option<u32>,
    /// Bytes that went through the ring.
    pub ring_bytes: u64,
    /// Bytes that went through the kernel since the ring was first used.
    pub kernel_bytes: u64,
    /// Bytes that lie in the ring; none where that is nonsense.
    pub waiting_bytes: Option<u64>,
    /// Tokens that were sent.
    pub tokens: u64,
    /// Tokens that were not needed.
    pub spared: u64,
    /// Times that the ring was full.
    pub overflows: u64,
}

/// A connection of which both ends, or one, are programs under `m3 sock run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Whose memory it lies in.
    pub user: u32,
    /// Both ends.
    pub ends: [End; 2],
    /// What the first end sends, and what the second one sends.
    pub ways: [Way; 2],
}

impl Connection {
    /// Whether the kernel still has a socket of it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.ends.iter().any(|end| end.state.is_some())
    }
}

/// The connections of one user, of programs with this runtime directory (`M3_RUNTIME_DIR`; none: `/dev/shm`).
///
/// Those that are over stay until another one needs their memory.
///
/// # Errors
/// What the system says of the file; `NotFound` where nobody made it yet. `InvalidData` where it is not one of this
/// library's, or anybody else could write it.
pub fn connections(home: Option<&Path>, user: u32) -> io::Result<Vec<Connection>> {
    let file = open(&path(home, user)?, user)?;
    let mut states = vec![0; 8 * PAIRS];
    file.read_exact_at(&mut states, STATES as u64)?;
    let is_live = |bytes: &[u8]| word_at(bytes, 0) & LIVE != 0;
    let live = states.chunks_exact(8).enumerate().filter(|(_, bytes)| is_live(bytes));
    live.map(|(number, state)| read(&file, number, state, user))
        .filter_map(Result::transpose)
        .collect()
}

/// The users of whom there is such a file, at most so many.
#[must_use]
pub fn users(home: Option<&Path>, most: usize) -> Vec<u32> {
    let (folder, prefix) = folder(home);
    let Ok(space) = space() else { return Vec::new() };
    let names = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.strip_prefix(&prefix)?.strip_suffix(&format!("-{space}"))?.parse().ok()
    });
    let mut users: Vec<u32> = names.take(most).collect();
    users.sort_unstable();
    users
}

/// Locks, and processes, are named by numbers of one namespace.
fn space() -> io::Result<u64> {
    Ok(std::fs::metadata("/proc/self/ns/pid")?.ino())
}

/// Where files lie, and how their names begin.
fn folder(home: Option<&Path>) -> (&Path, String) {
    let (folder, word) = home.map_or((Path::new("/dev/shm"), "m3sock"), |home| (home, "sock"));
    (folder, format!("{word}-{VERSION}-"))
}

fn path(home: Option<&Path>, user: u32) -> io::Result<PathBuf> {
    let (folder, prefix) = folder(home);
    Ok(folder.join(format!("{prefix}{user}-{}", space()?)))
}

fn open(path: &Path, user: u32) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    let fits = meta.is_file()
        && meta.uid() == user
        && meta.mode() & 0o077 == 0
        && meta.len() == TOTAL as u64;
    if fits { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// One pair; none where it was given to another connection meanwhile.
fn read(file: &File, number: usize, state: &[u8], user: u32) -> io::Result<Option<Connection>> {
    let mut page = [0; 8 * WORDS];
    file.read_exact_at(&mut page, Arena::pair_offset(number) as u64)?;
    let mut now = [0; 8];
    file.read_exact_at(&mut now, (STATES + 8 * number) as u64)?;
    if now != state {
        return Ok(None);
    }
    let ends = [0, 1].map(|side| end(&page, side));
    let ways = [0, 1].map(|side| direction(&page, side));
    Ok(Some(Connection { user, ends, ways }))
}

fn word_at(bytes: &[u8], offset: usize) -> u64 {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u64::from_ne_bytes(*chunk))
}

fn end(page: &[u8], side: usize) -> End {
    let cookie = word_at(page, pair::COOKIES[side]);
    let address =
        Address::decode(core::array::from_fn(|at| word_at(page, pair::ADDRESSES[side] + 8 * at)));
    let found = diag::look_up(&address).ok().filter(|found| found.cookie == cookie);
    let pid = u32::try_from(word_at(page, pair::PROCESSES[side])).ok();
    End {
        cookie,
        place: place(&address),
        pid: pid.filter(|pid| *pid != 0 && i32::try_from(*pid).is_ok()),
        is_joined: word_at(page, pair::JOINED[side]) != 0,
        state: found.map(|found| found.state),
    }
}

fn place(address: &Address) -> Option<Place> {
    let [own, _other] = address.hosts;
    let port = u16::from_be(address.ports[0]);
    let host: IpAddr = match i32::from(address.family) {
        libc::AF_UNIX => return Some(Place::Unix(address.inode)),
        libc::AF_INET => Ipv4Addr::new(own[0], own[1], own[2], own[3]).into(),
        libc::AF_INET6 => Ipv6Addr::from(own).into(),
        _ => return None,
    };
    Some(Place::Tcp(SocketAddr::new(host, port)))
}

fn direction(page: &[u8], side: usize) -> Way {
    let word = |offset: usize| word_at(page, pair::WAYS[side] + offset);
    let size = u32::try_from(word(way::RING_BYTES)).ok();
    let size = size.filter(|size| *size != 0 && *size as usize <= RING_MAX);
    let waiting = word(way::TAIL).wrapping_sub(word(way::HEAD));
    let course = if word(way::PINNED) != 0 {
        Course::Pinned(Pin::numbered(word(way::REASON)))
    } else if word(way::ATTACHED) > 1 {
        // Its receiver went away; the reason stands where that one sends.
        Course::Pinned(Pin::numbered(word_at(page, pair::WAYS[1 - side] + way::REASON)))
    } else if size.is_none() {
        Course::Before
    } else if word(way::TURN) & 1 == 1 {
        Course::Ring
    } else {
        Course::Kernel
    };
    Way {
        course,
        ring_size_bytes: size,
        ring_bytes: word(way::TAIL),
        kernel_bytes: word(way::KERNEL),
        waiting_bytes: (waiting <= u64::from(size.unwrap_or(0))).then_some(waiting),
        tokens: word(way::TOKENS),
        spared: word(way::SPARED),
        overflows: word(way::OVERFLOWS),
    }
}

impl Pin {
    /// All of them, with their names as people and scripts read them.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::Policy, "policy"),
        (Self::Option, "option"),
        (Self::Flag, "flag"),
        (Self::Ancillary, "ancillary"),
        (Self::Stdio, "stdio"),
        (Self::Passed, "passed"),
        (Self::Exec, "exec"),
        (Self::Splice, "splice"),
        (Self::Asynchronous, "asynchronous"),
        (Self::Refused, "refused"),
        (Self::Room, "room"),
        (Self::Ended, "ended"),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(pin, _)| *pin == self).map_or("unknown", |(_, name)| name)
    }

    fn numbered(number: u64) -> Option<Self> {
        Self::ALL.iter().map(|(pin, _)| *pin).find(|pin| *pin as u64 == number)
    }
}

#[cfg(test)]
mod tests;
