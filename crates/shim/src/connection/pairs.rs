//! Pairs: the memory of each connection, found by the cookie of either end.
//!
//! The end that uses a connection first asks the kernel for its peer and makes the pair: a file
//! with two names, one for each end. The other end finds the file by its own cookie. So does any
//! process that gets an end later, by exec or in a message; a child by fork has the mapping. The
//! file system is the index. So there is no lock, and a process needs the user's rights at the
//! moment of the open.
//!
//! | step of the maker | after a kill here |
//! |---|---|
//! | create the file under a name of its own, write cookies and addresses | an unfinished file |
//! | rename it to the lesser cookie, where no file has that name yet | the greater end adds its name |
//! | link it to the greater cookie | a pair that the ends use, or that is swept |
//!
//! An end joins a pair only when the file has both names: a later program must find it, too.

use super::address::SocketAddress;
use super::mark;
use super::sock_diag;
use super::sweep;
use crate::kernel::file::{self, File};
use crate::kernel::{Errno, process};
use crate::memory::layout::{PAIR_BYTES, PAIR_HEAD_BYTES, pair};
use crate::memory::user_directory::{Name, UserDirectory};
use crate::memory::window::{PairMemory, Window};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// An end of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairEnd {
    /// The pair.
    pub memory: PairMemory,
    /// 0 for the end with the lesser cookie, else 1.
    pub side: usize,
}

/// Pairs of a user at most, in a directory of tmpfs. Connections beyond stay in the kernel.
pub const PAIRS_MAX: u64 = 32_768;
/// Pairs that a process makes between two counts.
const PAIRS_PER_COUNT: u32 = 32;
/// Pairs that this process began to make, those of its parent before a fork included.
static MADE: AtomicU32 = AtomicU32::new(0);
/// The fork generation of the last count. Each process counts before its first pair.
static COUNTED_IN: AtomicU32 = AtomicU32::new(0);
/// Whether the last count found no room.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// The number of the next unfinished pair of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The end with this cookie, mapped into the window of its socket.
#[must_use]
pub fn find(directory: &UserDirectory, cookie: u64, window: &Window) -> Option<PairEnd> {
    let file = directory.open(Name::Pair(cookie), PAIR_BYTES, true).ok()?;
    map(&file, cookie, window)
}

fn map(file: &File, cookie: u64, window: &Window) -> Option<PairEnd> {
    let memory = window.map_pair(file).ok()?;
    let is_own = |side: &usize| {
        memory.word(pair::COOKIES[*side]).load(Ordering::Relaxed) == cookie && cookie != 0
    };
    let side = [0, 1].into_iter().find(is_own);
    if side.is_none() {
        window.clear();
    }
    Some(PairEnd { memory, side: side? })
}

/// The cause of a failed [`join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPair {
    /// The kernel knows no peer, on this machine or yet.
    NoPeer,
    /// The peer is another user's.
    OtherUser,
    /// No room at present.
    NoRoom,
}

/// Makes the pair of a socket, or finds the pair that the peer is making; the end of the socket.
///
/// # Errors
/// [`NoPair`].
pub fn join(
    directory: &UserDirectory,
    cookie: u64,
    address: &SocketAddress,
    window: &Window,
) -> Result<PairEnd, NoPair> {
    let (peer, there) = sock_diag::peer(address).map_err(|_| NoPair::NoPeer)?;
    if peer.user != process::user() {
        return Err(NoPair::OtherUser);
    }
    if peer.cookie == cookie || peer.cookie == 0 || cookie == 0 {
        return Err(NoPair::NoPeer);
    }
    let ends = if cookie < peer.cookie {
        [(cookie, *address), (peer.cookie, there)]
    } else {
        [(peer.cookie, there), (cookie, *address)]
    };
    let file = claim(directory, &ends).map_err(|_| NoPair::NoRoom)?;
    map(&file, cookie, window).ok_or(NoPair::NoRoom)
}

/// The file of a pair under both of its names: a new one, or that of the peer.
///
/// # Errors
/// Of the steps; `ENOSPC` also where the user has too many pairs.
pub(super) fn claim(
    directory: &UserDirectory,
    ends: &[(u64, SocketAddress); 2],
) -> Result<File, Errno> {
    if is_full(directory) {
        return Err(libc::ENOSPC);
    }
    let head = head(ends);
    let unfinished =
        Name::Unfinished(process::id().unsigned_abs(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = |name| directory.file(name).ok_or(libc::ENAMETOOLONG);
    let (own, lesser, greater) =
        (path(unfinished)?, path(Name::Pair(ends[0].0))?, path(Name::Pair(ends[1].0))?);
    let made = create(directory, unfinished, &head);
    let renamed = made.as_ref().map_or_else(
        |errno| Err(*errno),
        |_file| file::rename_to_new(own.as_c_str(), lesser.as_c_str()),
    );
    let file = match renamed {
        Ok(()) => {
            sweep::now_and_then(directory);
            made?
        }
        Err(errno) => {
            file::remove(own.as_c_str());
            if errno != libc::EEXIST {
                return Err(errno);
            }
            let file = directory.open(Name::Pair(ends[0].0), PAIR_BYTES, true)?;
            let mut found = [0; PAIR_HEAD_BYTES];
            file::read_at(file.fd(), &mut found, 0)?;
            if found[..16] != head[..16] {
                return Err(libc::EPERM);
            }
            file
        }
    };
    match file::link(lesser.as_c_str(), greater.as_c_str()) {
        Ok(()) => Ok(file),
        // A process has marked the greater end: the pair will never have both names.
        Err(libc::EEXIST) if mark::is_marked(directory, ends[1].0) => {
            file::remove(lesser.as_c_str());
            Err(libc::EPERM)
        }
        Err(libc::EEXIST) => Ok(file),
        Err(errno) => Err(errno),
    }
}

/// Whether the user has as many pairs as it may have. Asks the kernel only now and then: a process
/// may make a few more.
fn is_full(directory: &UserDirectory) -> bool {
    let generation = m3ipc_sys::fork_generation();
    // Without the kernel's help the generation stays 0: each pair counts.
    let is_first = COUNTED_IN.swap(generation, Ordering::Relaxed) != generation || generation == 0;
    let is_turn = MADE.fetch_add(1, Ordering::Relaxed).is_multiple_of(PAIRS_PER_COUNT);
    if is_first || is_turn || IS_FULL.load(Ordering::Relaxed) {
        let list = File::open_directory(directory.path());
        let names = list.ok().and_then(|list| file::names_in_memory(list.fd()));
        let is_full = names.is_some_and(|names| names >= 2 * PAIRS_MAX);
        if is_full {
            sweep::sweep_some(directory);
        }
        IS_FULL.store(is_full, Ordering::Relaxed);
    }
    IS_FULL.load(Ordering::Relaxed)
}

fn create(
    directory: &UserDirectory,
    name: Name,
    head: &[u8; PAIR_HEAD_BYTES],
) -> Result<File, Errno> {
    let file = match directory.create(name, PAIR_BYTES) {
        // A program before an exec left it.
        Err(libc::EEXIST) => {
            directory.remove(name);
            directory.create(name, PAIR_BYTES)?
        }
        other => other?,
    };
    // The write takes the page from the system: a later access to it cannot fail.
    match file::write_at(file.fd(), head, 0) {
        Ok(PAIR_HEAD_BYTES) => Ok(file),
        Ok(_) => Err(libc::ENOSPC),
        Err(errno) => Err(errno),
    }
}

/// The words that say whose a pair is.
fn head(ends: &[(u64, SocketAddress); 2]) -> [u8; PAIR_HEAD_BYTES] {
    let mut head = [0; PAIR_HEAD_BYTES];
    let mut set = |at: usize, word: u64| {
        if let Some(room) = head.get_mut(at..at + 8) {
            room.copy_from_slice(&word.to_ne_bytes());
        }
    };
    for (end, (cookie, address)) in ends.iter().enumerate() {
        set(pair::COOKIES[end], *cookie);
        for (at, part) in address.encode().into_iter().enumerate() {
            set(pair::ADDRESSES[end] + 8 * at, part);
        }
    }
    head
}

/// Notes that a process closed its last descriptor of this end.
pub fn note_close(end: PairEnd) {
    end.memory.word(pair::CLOSED[end.side & 1]).store(1, Ordering::Relaxed);
}

/// Whether a process of the other end noted a close.
pub fn peer_noted_close(end: PairEnd) -> bool {
    end.memory.word(pair::CLOSED[1 - (end.side & 1)]).load(Ordering::Relaxed) != 0
}

/// Notes that the current process found the pair, for this end.
pub fn note_joined(end: PairEnd) {
    let own = u64::from(process::id().unsigned_abs());
    end.memory.word(pair::JOINED[end.side & 1]).store(own, Ordering::Release);
}

/// Whether a process of the other end found the pair.
#[must_use]
pub fn peer_joined(end: PairEnd) -> bool {
    is_joined(PairEnd { side: 1 - (end.side & 1), ..end })
}

/// Whether a process of this end found the pair.
#[must_use]
pub fn is_joined(end: PairEnd) -> bool {
    end.memory.word(pair::JOINED[end.side & 1]).load(Ordering::Acquire) != 0
}

/// Notes that the current process receives at this end.
pub fn note_process(end: PairEnd) {
    let own = u64::from(process::id().unsigned_abs());
    end.memory.word(pair::PROCESSES[end.side & 1]).store(own, Ordering::Relaxed);
}

/// Whether another process receives at the other end.
#[must_use]
pub fn peer_is_other_process(end: PairEnd) -> bool {
    let peer = end.memory.word(pair::PROCESSES[1 - (end.side & 1)]).load(Ordering::Relaxed);
    peer != u64::from(process::id().unsigned_abs())
}
