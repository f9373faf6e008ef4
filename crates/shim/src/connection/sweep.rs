//! Removal of what ended connections and dead processes left in the directory.
//!
//! A pair is removed when the kernel knows neither of its ends any more. The kernel never gives a
//! cookie twice, so a name that was removed never comes back. The makers of pairs sweep, a few
//! entries each, and remember in memory of their own how far they came.

use super::address::SocketAddress;
use super::mark::{self, MARK_BYTES};
use super::sock_diag::Diag;
use crate::kernel::file::{self, File};
use crate::kernel::process;
use crate::memory::layout::{PAIR_BYTES, pair};
use crate::memory::user_directory::{Name, UserDirectory};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Pairs that a process makes between two sweeps.
const PAIRS_PER_SWEEP: u32 = 8;
/// Entries of one sweep: more than the names of those pairs.
const ENTRIES: usize = 24;
/// Entries of the first sweep of a process.
const FIRST_ENTRIES: usize = 96;
/// Bytes of the kernel's answer: some 25 entries.
const LIST_BYTES: usize = 1024;
/// Bytes of a pair's file that say whose it is and whether an end was closed.
const HEAD_BYTES: usize = 176;
const _: () = assert!(HEAD_BYTES == pair::JOINED[1] + 8);

/// Pairs that this process made.
static MADE: AtomicU32 = AtomicU32::new(0);
/// The position of the sweep in the directory.
static POSITION: AtomicU64 = AtomicU64::new(0);

/// Sweeps some entries, before some of the pairs that a process makes.
pub fn now_and_then(directory: &UserDirectory) {
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    if made.is_multiple_of(PAIRS_PER_SWEEP) {
        sweep(directory, if made == 0 { FIRST_ENTRIES } else { ENTRIES });
    }
}

/// Sweeps some entries, where there is no room for a pair.
pub fn sweep_some(directory: &UserDirectory) {
    sweep(directory, ENTRIES);
}

fn sweep(directory: &UserDirectory, mut left: usize) {
    let Ok(list) = File::open_list(directory.path()) else { return };
    let position = i64::try_from(POSITION.load(Ordering::Relaxed)).unwrap_or(0);
    if position > 0 && file::seek(list.fd(), position, libc::SEEK_SET).is_err() {
        POSITION.store(0, Ordering::Relaxed);
    }
    let mut bytes = [0_u8; LIST_BYTES];
    while left > 0 {
        let got = file::read_entries(list.fd(), &mut bytes).unwrap_or(0);
        let mut rest = bytes.get(..got).unwrap_or(&[]);
        if rest.is_empty() {
            POSITION.store(0, Ordering::Relaxed);
            return;
        }
        while left > 0
            && let Some((entry, after)) = Entry::first(rest)
        {
            if let Some(name) = Name::parse(entry.name) {
                remove_dead(directory, name);
            }
            POSITION.store(entry.next, Ordering::Relaxed);
            rest = after;
            left -= 1;
        }
    }
}

/// An entry of a directory.
struct Entry<'a> {
    name: &'a [u8],
    /// The position of the next entry.
    next: u64,
}

impl<'a> Entry<'a> {
    /// The first entry of the kernel's list, and the rest of the list.
    ///
    /// # Source
    /// getdents64(2): inode, position, length, type, name with its end
    fn first(list: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let next = u64::from_ne_bytes(*list.get(8..)?.first_chunk()?);
        let length = usize::from(u16::from_ne_bytes(*list.get(16..)?.first_chunk()?));
        let name = list.get(19..length)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or(name);
        Some((Self { name, next }, list.get(length..)?))
    }
}

/// Entries of the sweep before a program starts.
const START_ENTRIES: usize = 4096;

/// Removes what ended programs left in the directory of this user.
pub fn at_start() {
    if let Some(directory) = UserDirectory::present() {
        sweep(directory, START_ENTRIES);
    }
}

/// Removes a file that nothing uses any more.
pub fn remove_dead(directory: &UserDirectory, name: Name) {
    let exists = |pid: u32| i32::try_from(pid).is_ok_and(process::exists);
    match name {
        Name::Pollers(pid) | Name::Unfinished(pid, _) => {
            if !exists(pid) {
                directory.remove(name);
            }
        }
        Name::Pair(_) => {
            let Ok(file) = directory.open(name, PAIR_BYTES, false) else {
                return remove_dead_mark(directory, name);
            };
            let mut head = [0_u8; HEAD_BYTES];
            if file::read_at(file.fd(), &mut head, 0) != Ok(HEAD_BYTES) {
                return;
            }
            let words = PairHead(head);
            if words.may_be_dead() && words.is_dead() {
                remove_pair(directory, name, &file, &words);
            }
        }
    }
}

/// Removes both names of a pair.
fn remove_pair(directory: &UserDirectory, name: Name, file: &File, words: &PairHead) {
    directory.remove(name);
    // An end may have written anything into its file: another name counts only where it leads to
    // this very file.
    let inode = |file: &File| file::stat(file.fd()).map(|stat| stat.st_ino);
    for other in pair::COOKIES.map(|cookie| Name::Pair(words.at(cookie))) {
        if other != name
            && let Ok(second) = directory.open(other, PAIR_BYTES, false)
            && inode(&second) == inode(file)
        {
            directory.remove(other);
        }
    }
}

/// Removes a pair whose other end is gone, for a process that exits with this end.
pub(super) fn remove_of_peer(directory: &UserDirectory, name: Name, peer: usize) {
    let Ok(file) = directory.open(name, PAIR_BYTES, false) else { return };
    let mut head = [0_u8; HEAD_BYTES];
    if file::read_at(file.fd(), &mut head, 0) != Ok(HEAD_BYTES) {
        return;
    }
    let words = PairHead(head);
    if let Ok(diag) = Diag::open()
        && words.is_end_gone(&diag, peer)
    {
        remove_pair(directory, name, &file, &words);
    }
}

/// Removes a mark whose socket the kernel does not know any more.
fn remove_dead_mark(directory: &UserDirectory, name: Name) {
    if let Ok(file) = directory.open(name, MARK_BYTES, false)
        && let Some((cookie, address)) = mark::read(&file)
        && name == Name::Pair(cookie)
        && let Ok(diag) = Diag::open()
        && is_gone(&diag, cookie, &address)
    {
        directory.remove(name);
    }
}

/// Whether no process has the socket of this cookie.
fn is_gone(diag: &Diag, cookie: u64, address: &SocketAddress) -> bool {
    match diag.ask(address) {
        // The kernel keeps a TCP socket without a process for a minute or longer.
        Ok(info) => info.cookie != cookie || !info.is_held,
        Err(errno) => errno == libc::ENOENT,
    }
}

/// The first words of a pair's file, as one moment showed them.
struct PairHead([u8; HEAD_BYTES]);

impl PairHead {
    fn at(&self, offset: usize) -> u64 {
        let bytes = self.0.get(offset..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |chunk| u64::from_ne_bytes(*chunk))
    }

    /// Whether a process closed an end, or died, or no process ever used an end. The kernel
    /// searches all Unix sockets for the one of an end, so nobody asks it for pairs in use.
    fn may_be_dead(&self) -> bool {
        let users = [0, 1].map(|end| {
            let receiver = self.at(pair::PROCESSES[end]);
            if receiver == 0 { self.at(pair::JOINED[end]) } else { receiver }
        });
        let is_gone = |pid: u64| !i32::try_from(pid).is_ok_and(process::exists);
        users == [0, 0]
            || users.into_iter().any(|pid| pid != 0 && is_gone(pid))
            || pair::CLOSED.into_iter().any(|closed| self.at(closed) != 0)
    }

    /// Whether the kernel knows neither end.
    fn is_dead(&self) -> bool {
        let Ok(diag) = Diag::open() else { return false };
        [0, 1].into_iter().all(|end| self.is_end_gone(&diag, end))
    }

    /// Whether the kernel does not know one end.
    fn is_end_gone(&self, diag: &Diag, end: usize) -> bool {
        let address = core::array::from_fn(|at| self.at(pair::ADDRESSES[end & 1] + 8 * at));
        is_gone(diag, self.at(pair::COOKIES[end & 1]), &SocketAddress::decode(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_in_use_are_not_looked_up() {
        let own = u64::from(std::process::id());
        let head = |words: &[(usize, u64)]| {
            let mut head = [0; HEAD_BYTES];
            for (at, word) in words {
                head[*at..at + 8].copy_from_slice(&word.to_ne_bytes());
            }
            PairHead(head).may_be_dead()
        };
        let nobody = u64::from(u32::MAX >> 1);
        let ([joined, _], [receives, _]) = (pair::JOINED, pair::PROCESSES);
        assert!(!head(&[(joined, own)]), "the other end has not found it yet");
        assert!(!head(&[(receives, own), (joined, nobody)]), "a child received it");
        assert!(head(&[]), "its maker died");
        assert!(head(&[(joined, own), (pair::JOINED[1], nobody)]), "one end died");
        assert!(head(&[(joined, own), (pair::CLOSED[1], 1)]), "one end was closed");
    }

    #[test]
    fn a_list_of_entries_is_parsed() {
        let mut list = Vec::new();
        for (name, next) in [(&b"p17"[..], 4_u64), (b"0123456789abcdef", 9)] {
            let length = (20 + name.len()).next_multiple_of(8);
            let mut entry = vec![0_u8; length];
            entry[8..16].copy_from_slice(&next.to_ne_bytes());
            entry[16..18].copy_from_slice(&u16::try_from(length).unwrap().to_ne_bytes());
            entry[19..19 + name.len()].copy_from_slice(name);
            list.extend(entry);
        }
        let (first, rest) = Entry::first(&list).unwrap();
        assert_eq!((Name::parse(first.name), first.next), (Some(Name::Pollers(17)), 4));
        let (second, rest) = Entry::first(rest).unwrap();
        assert_eq!(Name::parse(second.name), Some(Name::Pair(0x0123_4567_89ab_cdef)));
        assert!(Entry::first(rest).is_none() && second.next == 9);
        assert!(Entry::first(&list[..20]).is_none(), "a cut entry");
    }
}
