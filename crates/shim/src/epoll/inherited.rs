//! Epoll sets that were open before this program, or came in a message. The kernel lists what they
//! watch in `/proc`.
//!
//! Bytes that arrived at an event loop before an exec may have no wakeup byte. A wait in the
//! inherited set must report them all the same. Its sockets need wakeup bytes from then on, since
//! other processes may have the set.
//!
//! # Source
//! proc_pid_fdinfo(5)

use super::set::Set;
use super::sets;
use crate::kernel::apart;
use crate::kernel::file::{self, File};
use crate::process::descriptors::{self, Entry};
use crate::process::notes::{self, NEEDS_WAKEUPS, WAS_ARMED};
use crate::sockets;
use core::ffi::CStr;
use libc::epoll_event;
use std::io::Write;
use std::os::fd::RawFd;

/// The target of `/proc/self/fd/N` for an epoll set.
const LINK: &[u8] = b"anon_inode:[eventpoll]";
/// Bytes of one read; no line is longer.
const PIECE_BYTES: usize = 4096;

/// A path below `/proc/self`, with its end.
struct ProcPath([u8; 40]);

impl ProcPath {
    fn new(directory: &str, fd: RawFd) -> Self {
        let mut path = [0; 40];
        let mut rest = &mut path[..39];
        let _ = write!(rest, "/proc/self/{directory}/{}", fd.unsigned_abs());
        Self(path)
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

/// Adopts a set of which nothing is known; `None` where the descriptor is no set.
pub(super) fn adopt(fd: RawFd) -> Option<&'static Set> {
    let mut link = [0_u8; 32];
    let length = file::read_link(ProcPath::new("fd", fd).as_c_str(), &mut link).ok()?;
    if link.get(..length) != Some(LINK) {
        return None;
    }
    let entry = sets::open();
    if !descriptors::learn(fd, Entry::Unknown, entry) {
        // Another thread was faster.
        if let Entry::EpollSet(number) = entry {
            sets::remove_descriptor(number);
        }
        return sets::of(fd).map(|(_number, set)| set);
    }
    let (number, set) = sets::of(fd)?;
    set.disable();
    each_line(fd, |line| {
        if let Some((target, event, inode)) = parse(line)
            // A set of a message lists the numbers of the sender.
            && file::stat(target).is_ok_and(|stat| stat.st_ino == inode)
        {
            add(number, set, fd, target, event);
        }
    });
    Some(set)
}

/// Adds a socket that the set has watched before.
fn add(number: usize, set: &Set, set_fd: RawFd, fd: RawFd, event: epoll_event) {
    let Some(socket) = sockets::find(fd) else { return };
    notes::add(fd, NEEDS_WAKEUPS | WAS_ARMED);
    if let Some(slot) = sets::add_slot(number, set, fd) {
        set.change(slot, event);
        socket.join_known();
        set.note_arrival(set_fd, slot, socket);
    }
}

/// Calls `each` with every line of the kernel's description of a set.
fn each_line(fd: RawFd, mut each: impl FnMut(&str)) {
    let path = ProcPath::new("fdinfo", fd);
    let mut piece = [0_u8; PIECE_BYTES];
    let (mut kept, mut offset) = (0, 0);
    loop {
        let room = &mut piece[kept..];
        let read =
            || File::open(path.as_c_str()).and_then(|file| file::read_at(file.fd(), room, offset));
        let got = apart::run(read).map_or(0, |read| read.unwrap_or(0));
        offset += got;
        let filled = kept + got;
        let last = piece[..filled].iter().rposition(|byte| *byte == b'\n');
        let whole = last.map_or(0, |end| end + 1);
        if got == 0 || whole == 0 {
            return;
        }
        core::str::from_utf8(&piece[..whole]).unwrap_or("").lines().for_each(&mut each);
        piece.copy_within(whole..filled, 0);
        kept = filled - whole;
    }
}

/// Descriptor, event and inode of `tfd: 5 events: 19 data: 5 pos:0 ino:6c7b sdev:8`.
fn parse(line: &str) -> Option<(RawFd, epoll_event, u64)> {
    let mut words = line.split_ascii_whitespace();
    let mut after = |name: &str| {
        let word = words.next()?;
        match word.strip_prefix(name)? {
            "" => words.next(),
            value => Some(value),
        }
    };
    let fd = after("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(after("events:")?, 16).ok()?;
    let data = u64::from_str_radix(after("data:")?, 16).ok()?;
    after("pos:")?;
    let inode = u64::from_str_radix(after("ino:")?, 16).ok()?;
    Some((fd, epoll_event { events, u64: data }, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_fdinfo_is_parsed() {
        let line = "tfd:       15 events:       19 data:                f  pos:0 ino:6c7b sdev:8";
        let (fd, event, inode) = parse(line).unwrap();
        let (events, data) = (event.events, event.u64);
        assert_eq!((fd, events, data, inode), (15, 0x19, 15, 0x6c7b));
        assert!(parse("pos:\t0").is_none() && parse("tfd: x events: 1").is_none());
    }

    #[test]
    fn a_path_names_its_descriptor() {
        assert_eq!(ProcPath::new("fd", 0).as_c_str(), c"/proc/self/fd/0");
        let path = ProcPath::new("fdinfo", i32::MAX);
        assert_eq!(path.as_c_str(), c"/proc/self/fdinfo/2147483647");
    }
}
