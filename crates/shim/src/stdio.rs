//! The C library's buffered files over sockets: it reads, writes and closes past the hooks.

use crate::connection::socket::Socket;
use crate::pin::PinReason;
use crate::process::descriptors::{self, Entry};
use crate::process::{library_files, policy};
use crate::sockets;
use std::os::fd::RawFd;

/// Before the C library moves bytes of a descriptor by itself.
pub fn pin(fd: RawFd) {
    sockets::pin_found(fd, PinReason::Stdio);
}

/// Before `fdopen`; whether the file must lie over our own calls, because bytes lie in the ring.
#[must_use]
pub fn needs_own_calls(fd: RawFd) -> bool {
    let loses_bytes = |socket: Socket| !socket.pin(PinReason::Stdio);
    sockets::find(fd).is_some_and(loses_bytes)
}

/// Whether the standard input is a socket of ours whose ring holds bytes: its `FILE` must lie over
/// our own calls.
#[must_use]
pub fn input_needs_own_calls() -> bool {
    sockets::known(0).is_some_and(|socket| socket.has_bytes())
}

/// After the C library opened a file over a descriptor: `fclose` closes it past the hooks, and the
/// number may stand for anything then.
///
/// `mode` is that of fopen(3).
pub fn opened(fd: RawFd, mode: &[u8]) {
    library_files::note(fd, mode);
    if policy::is_on() && descriptors::get(fd) == Entry::Unknown {
        // A socket without a peer yet: also its other numbers stay in the kernel.
        let _ = sockets::pin(fd, PinReason::Stdio);
    }
    if !matches!(descriptors::get(fd), Entry::Unknown | Entry::Plain | Entry::File) {
        descriptors::set_kept(fd, Entry::Pinned);
    }
}
