//! The descriptor table: one word for each descriptor, in memory that a fork copies and no lock
//! guards.
//!
//! ```text
//!   63        60                                   0
//!   | kind     | number of a state or a set         |
//! ```
//!
//! | kind | meaning |
//! |---|---|
//! | Unknown | not seen yet: the first use asks the kernel (`sockets`) |
//! | Plain | no stream socket: all calls go to the kernel |
//! | Pinned | a socket that stays in the kernel |
//! | Closing | another thread is closing the descriptor |
//! | New | a stream socket whose first data call decides |
//! | Socket | a socket that has, or may get, a pair |
//! | EpollSet | an epoll set of this process |
//! | File | a file that was opened by its name: as Plain; where regular, its writes wake nobody |
//!
//! The kernel assigns the numbers. A descriptor that is closed and made anew by bare system calls
//! keeps its old word. Each function of the C library that makes descriptors therefore writes their
//! words. The child of a vfork writes no word, nor does a thread with descriptors of its own.

use super::{apart, vfork};
use crate::connection::socket::Socket;
use crate::connection::socket_state::SocketId;
use crate::kernel::memory::{FD_LIMIT, FdTable};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::RawFd;

/// Descriptors below this are examined before a program without this library starts, also where
/// nothing is known of them.
pub const EXAMINED_MAX: RawFd = 1024;

static WORDS: FdTable<AtomicU64> = FdTable::new();
/// One more than the highest descriptor with a word other than Unknown.
static TOP: AtomicUsize = AtomicUsize::new(0);

/// Whether any descriptor ever stood for a socket or an epoll set of ours.
static ANY_OURS: AtomicBool = AtomicBool::new(false);

/// The entry of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Not seen yet.
    Unknown,
    /// No stream socket.
    Plain,
    /// A socket that stays in the kernel.
    Pinned,
    /// Another thread is closing it.
    Closing,
    /// A stream socket before its first data call.
    New {
        /// Whether an epoll set has it edge-triggered.
        edges: bool,
    },
    /// A socket with a state.
    Socket(SocketId),
    /// An epoll set, by its number.
    EpollSet(usize),
    /// A file that was opened by its name.
    File,
}

const KIND_SHIFT: u32 = 60;
const BODY_MASK: u64 = (1 << KIND_SHIFT) - 1;
/// The word of [`Entry::Unknown`]; new memory holds zeros.
const UNKNOWN: u64 = 0;

impl Entry {
    fn word(self) -> u64 {
        let (kind, body) = match self {
            Self::Unknown => return UNKNOWN,
            Self::Plain => (1, 0),
            Self::Pinned => (2, 0),
            Self::Closing => (3, 0),
            Self::New { edges } => (4, u64::from(edges)),
            Self::Socket(id) => (5, id.number()),
            Self::EpollSet(number) => (6, number as u64),
            Self::File => (7, 0),
        };
        kind << KIND_SHIFT | body
    }

    fn of(word: u64) -> Self {
        let body = word & BODY_MASK;
        match word >> KIND_SHIFT {
            0 => Self::Unknown,
            2 => Self::Pinned,
            3 => Self::Closing,
            4 => Self::New { edges: body != 0 },
            5 => SocketId::from_number(body).map_or(Self::Plain, Self::Socket),
            6 => usize::try_from(body).map_or(Self::Plain, Self::EpollSet),
            7 => Self::File,
            _ => Self::Plain,
        }
    }
}

/// Maps the table. Without it every descriptor is Plain, and the library does nothing.
pub fn prepare() {
    WORDS.map();
}

/// The word of a descriptor that this process may write.
fn writable(fd: RawFd) -> Option<&'static AtomicU64> {
    WORDS.get(fd).filter(|_word| !vfork::in_child() && !apart::is_apart())
}

/// The entry of a descriptor.
#[inline]
#[must_use]
pub fn get(fd: RawFd) -> Entry {
    if apart::is_apart() {
        return Entry::Plain;
    }
    WORDS.get(fd).map_or(Entry::Plain, |word| Entry::of(word.load(Ordering::Acquire)))
}

/// The socket of a descriptor, where the table has one.
#[inline]
#[must_use]
pub fn socket(fd: RawFd) -> Option<Socket> {
    if let Entry::Socket(id) = get(fd) { Some(Socket::new(fd, id)) } else { None }
}

/// Changes an entry, unless another thread was faster.
pub fn learn(fd: RawFd, from: Entry, to: Entry) -> bool {
    let Some(word) = writable(fd) else { return false };
    note_written(fd, to);
    word.compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Sets an entry; the entry before, where it changed.
pub fn replace(fd: RawFd, entry: Entry) -> Option<Entry> {
    let word = writable(fd)?;
    let new = entry.word();
    // A program opens, uses and closes most files without any question to the table.
    if word.load(Ordering::Relaxed) == new {
        return None;
    }
    note_written(fd, entry);
    Some(Entry::of(word.swap(new, Ordering::AcqRel)))
}

/// Sets an entry for an open descriptor whose state stays in use.
pub fn set_kept(fd: RawFd, entry: Entry) {
    if let Some(word) = writable(fd) {
        note_written(fd, entry);
        word.store(entry.word(), Ordering::Release);
    }
}

/// Marks a descriptor as closing; the entry before, `None` for an unknown one.
pub fn begin_close(fd: RawFd) -> Option<Entry> {
    let word = writable(fd)?;
    if word.load(Ordering::Relaxed) == UNKNOWN {
        return None;
    }
    Some(Entry::of(word.swap(Entry::Closing.word(), Ordering::AcqRel)))
}

/// Ends a close. Another thread may have got the number meanwhile, and written its entry.
pub fn end_close(fd: RawFd) {
    if let Some(word) = WORDS.get(fd) {
        let closing = Entry::Closing.word();
        let _ = word.compare_exchange(closing, UNKNOWN, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Notes an entry before it is written.
fn note_written(fd: RawFd, entry: Entry) {
    let top = usize::try_from(fd).map_or(0, |fd| fd + 1);
    if TOP.load(Ordering::Relaxed) < top {
        TOP.fetch_max(top, Ordering::Relaxed);
    }
    let is_ours = matches!(entry, Entry::New { .. } | Entry::Socket(_) | Entry::EpollSet(_));
    if is_ours && !ANY_OURS.load(Ordering::Relaxed) {
        // Release: pairs with `any_ours`.
        ANY_OURS.store(true, Ordering::Release);
    }
}

/// Whether any descriptor stands, or ever stood, for a socket or an epoll set of ours, or for a
/// stream that may become one.
#[inline]
#[must_use]
pub fn any_ours() -> bool {
    ANY_OURS.load(Ordering::Acquire)
}

/// One more than the highest known descriptor.
#[must_use]
pub fn top() -> RawFd {
    RawFd::try_from(TOP.load(Ordering::Relaxed).min(FD_LIMIT)).unwrap_or(RawFd::MAX)
}

/// All sockets of the table.
pub fn sockets() -> impl Iterator<Item = Socket> {
    (0..top()).filter_map(socket)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_word() {
        let id = SocketId::from_number(9).unwrap();
        let entries = [
            Entry::Unknown,
            Entry::Plain,
            Entry::Pinned,
            Entry::Closing,
            Entry::New { edges: false },
            Entry::New { edges: true },
            Entry::Socket(id),
            Entry::EpollSet(77),
            Entry::File,
        ];
        for entry in entries {
            assert_eq!(Entry::of(entry.word()), entry);
        }
        assert_eq!(Entry::of(u64::MAX), Entry::Plain);
        assert_eq!(Entry::of(5 << KIND_SHIFT | BODY_MASK), Entry::Plain, "no such state");
    }

    #[test]
    fn a_descriptor_is_learnt_closed_and_reused() {
        prepare();
        let fd = 900_001;
        assert_eq!(get(fd), Entry::Unknown);
        assert!(learn(fd, Entry::Unknown, Entry::New { edges: false }) && top() > fd);
        assert!(!learn(fd, Entry::Unknown, Entry::Plain), "another thread was faster");
        assert_eq!(begin_close(fd), Some(Entry::New { edges: false }));
        assert_eq!(replace(fd, Entry::Plain), Some(Entry::Closing), "the number is in use again");
        end_close(fd);
        assert_eq!(get(fd), Entry::Plain);
        assert_eq!(replace(fd, Entry::Plain), None);
        vfork::tests::as_child(|| {
            assert!(replace(fd, Entry::Pinned).is_none() && begin_close(fd).is_none());
        });
        assert_eq!((get(-1), begin_close(900_002)), (Entry::Plain, None));
    }
}
