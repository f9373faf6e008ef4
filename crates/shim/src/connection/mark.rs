//! Marks: sockets that must never get a pair, whichever process uses them.
//!
//! Several processes may have one socket: by fork, by exec, in messages. One of them may move its
//! bytes unseen (stdio, a program without this library). Where the socket has a pair, a word of the
//! pair tells the others. Before there is a pair, a mark does: a small file under the name that the
//! pair would have. The file system lets one of both take the name, so there is no moment between.

use super::address::SocketAddress;
use crate::kernel::file::{self, File};
use crate::kernel::{Errno, process};
use crate::memory::user_directory::{Name, UserDirectory};
use core::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a mark: the cookie and the address of its socket.
pub const MARK_BYTES: usize = 56;

/// The number of the next unfinished mark of this process; pairs count from 0.
static NEXT: AtomicU32 = AtomicU32::new(1 << 31);

/// Marks the socket with this cookie; whether it has a mark now.
pub fn make(directory: &UserDirectory, cookie: u64, address: &SocketAddress) -> bool {
    if cookie == 0 || is_marked(directory, cookie) {
        return cookie != 0;
    }
    let own = Name::Unfinished(process::id().unsigned_abs(), NEXT.fetch_add(1, Ordering::Relaxed));
    let made = write(directory, own, cookie, address).and_then(|()| {
        let path = |name| directory.file(name).ok_or(libc::ENAMETOOLONG);
        let (from, to) = (path(own)?, path(Name::Pair(cookie))?);
        file::rename_to_new(from.as_c_str(), to.as_c_str())
    });
    if made.is_err() {
        directory.remove(own);
    }
    made.is_ok() || is_marked(directory, cookie)
}

fn write(
    directory: &UserDirectory,
    name: Name,
    cookie: u64,
    address: &SocketAddress,
) -> Result<(), Errno> {
    let file = directory.create(name, MARK_BYTES)?;
    let mut bytes = [0_u8; MARK_BYTES];
    let words = core::iter::once(cookie).chain(address.encode());
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    match file::write_at(file.fd(), &bytes, 0)? {
        MARK_BYTES => Ok(()),
        _ => Err(libc::ENOSPC),
    }
}

/// Whether the socket with this cookie has a mark.
pub fn is_marked(directory: &UserDirectory, cookie: u64) -> bool {
    directory.open(Name::Pair(cookie), MARK_BYTES, false).is_ok()
}

/// The socket of a mark: its cookie and its address.
pub fn read(file: &File) -> Option<(u64, SocketAddress)> {
    let mut bytes = [0_u8; MARK_BYTES];
    if file::read_at(file.fd(), &mut bytes, 0) != Ok(MARK_BYTES) {
        return None;
    }
    let word = |at: usize| {
        let word = bytes.get(8 * at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from_ne_bytes(*word))
    };
    let address = core::array::from_fn(|at| word(at + 1));
    Some((word(0), SocketAddress::decode(address)))
}
