//! Epoll sets that were there before this program, or came in a message: what they watch, the kernel tells in `/proc`.
//!
//! Bytes that came to an event loop before an exec may have no token; who waits in the set that it inherited is to be told of
//! them all the same. From then on its sockets have tokens: others may have the set, too.

use super::set::Set;
use crate::table::{self, Entry};
use libc::{c_int, epoll_event};

/// What `/proc/self/fd/N` says of a set.
const KIND: &[u8] = b"anon_inode:[eventpoll]";
/// Bytes that are read at once; no line is longer.
const PIECE: usize = 4096;

/// A path below `/proc/self`, with its end.
struct Path {
    bytes: [u8; 40],
}

impl Path {
    fn new(folder: &str, fd: c_int) -> Self {
        let mut path = Self { bytes: [0; 40] };
        let mut number = [0_u8; 10];
        let mut left = fd.unsigned_abs();
        let mut digits = 0;
        while left > 0 || digits == 0 {
            number[digits] = b'0' + (left % 10) as u8;
            left /= 10;
            digits += 1;
        }
        let name = folder.bytes().chain(number[..digits].iter().rev().copied());
        path.bytes.iter_mut().take(39).zip(name).for_each(|(to, from)| *to = from);
        path
    }

    fn at(&self) -> usize {
        self.bytes.as_ptr() as usize
    }
}

/// Takes up a set that nothing is known of; `None` where it is none.
pub(super) fn adopt(fd: c_int) -> Option<&'static Set> {
    let mut kind = [0_u8; 32];
    let link = Path::new("/proc/self/fd/", fd);
    let words = [libc::AT_FDCWD as usize, link.at(), kind.as_mut_ptr() as usize, kind.len(), 0, 0];
    let length = unsafe { crate::raw(libc::SYS_readlinkat, words) }.ok()?;
    if kind.get(..length) != Some(KIND) {
        return None;
    }
    let entry = super::open();
    if !table::learn(fd, Entry::Unknown, entry) {
        // Another thread was quicker.
        if let Entry::Set(index) = entry {
            super::close(index);
        }
        return super::of(fd);
    }
    let set = super::of(fd)?;
    set.spoil();
    read(fd, |line| {
        watched(line)
            .into_iter()
            .for_each(|(target, event)| super::inherited(set, fd, target, event))
    });
    Some(set)
}

/// Each line of what the kernel says of a set.
fn read(fd: c_int, mut each: impl FnMut(&str)) {
    let path = Path::new("/proc/self/fdinfo/", fd);
    let open =
        [libc::AT_FDCWD as usize, path.at(), (libc::O_RDONLY | libc::O_CLOEXEC) as usize, 0, 0, 0];
    let Ok(file) = (unsafe { crate::raw(libc::SYS_openat, open) }) else { return };
    let mut piece = [0_u8; PIECE];
    let mut kept = 0;
    loop {
        let at = piece[kept..].as_mut_ptr() as usize;
        let got =
            unsafe { crate::raw(libc::SYS_read, [file, at, PIECE - kept, 0, 0, 0]) }.unwrap_or(0);
        let filled = kept + got;
        let whole =
            piece[..filled].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if got == 0 || whole == 0 {
            break;
        }
        core::str::from_utf8(&piece[..whole]).unwrap_or("").lines().for_each(&mut each);
        piece.copy_within(whole..filled, 0);
        kept = filled - whole;
    }
    let _ = unsafe { crate::raw(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
}

/// `tfd: 5 events: 19 data: 5 pos:0 ino:6c7b sdev:8`, where that is the socket that this process has under the number.
fn watched(line: &str) -> Option<(c_int, epoll_event)> {
    let mut words = line.split_ascii_whitespace();
    let mut after = |name: &str| {
        let word = words.next()?;
        match word.strip_prefix(name)? {
            "" => words.next(),
            value => Some(value),
        }
    };
    let target: c_int = after("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(after("events:")?, 16).ok()?;
    let data = u64::from_str_radix(after("data:")?, 16).ok()?;
    after("pos:")?;
    let inode = u64::from_str_radix(after("ino:")?, 16).ok()?;
    // A set that came in a message has the numbers of whoever sent it.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let words = [target as usize, &raw mut stat as usize, 0, 0, 0, 0];
    unsafe { crate::raw(libc::SYS_fstat, words) }.ok()?;
    (stat.st_ino == inode).then_some((target, epoll_event { events, u64: data }))
}
