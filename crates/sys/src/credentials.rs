//! The credentials of the peer of a socket, as the kernel vouches for them.
//!
//! # Safety
//! `getsockopt` writes into live locals and gets their exact length.
#![allow(unsafe_code)]

use crate::descriptors::above_standard;
use crate::errno::last_error;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

/// The credentials of a process at the time of its connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Process id, in the PID namespace of the caller.
    pub pid: i32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// `SO_PEERPIDFD`, Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;
/// `SO_PASSRIGHTS`, Linux 6.16.
const SO_PASSRIGHTS: libc::c_int = 83;

/// The credentials of the peer, as the kernel has them: the process number may be 0.
fn credentials(socket: impl AsFd) -> Result<libc::ucred, Errno> {
    let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length: libc::socklen_t = 12;
    // SAFETY: `cred` is live, 12 bytes long, and valid for any bits.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut length,
        )
    };
    if result == 0 && length == 12 { Ok(cred) } else { Err(Errno::INVAL) }
}

/// The credentials of the process that connected this socket.
///
/// # Errors
/// `INVAL` if this is no connected Unix socket; `SRCH` if the process has no number in this PID
/// namespace (the kernel then returns 0).
pub fn peer_identity(socket: impl AsFd) -> Result<PeerCredentials, Errno> {
    let cred = credentials(socket)?;
    if cred.pid <= 0 {
        return Err(Errno::SRCH);
    }
    Ok(PeerCredentials { pid: cred.pid, uid: cred.uid, gid: cred.gid })
}

/// The user whose process listened at, or connected, the other end of this socket. The kernel
/// noted it then, so neither a later change of user nor a reused process number matters.
///
/// # Errors
/// `INVAL` if this is no connected Unix socket.
///
/// # Source
/// unix(7), `SO_PEERCRED`
pub fn peer_user(socket: impl AsFd) -> Result<u32, Errno> {
    let cred = credentials(socket)?;
    // The kernel shows a socket without credentials as user -1.
    if cred.uid == u32::MAX { Err(Errno::INVAL) } else { Ok(cred.uid) }
}

/// The supplementary groups of the process that connected this socket, at most 256.
///
/// # Errors
/// `RANGE` if there are more; `NOPROTOOPT` before Linux 4.13.
pub fn peer_groups(socket: impl AsFd) -> Result<Vec<u32>, Errno> {
    const GROUPS_MAX: usize = 256;
    let mut groups = [0_u32; GROUPS_MAX];
    let mut length: libc::socklen_t = 4 * 256;
    // SAFETY: `groups` is live and `length` bytes long. The kernel writes no more and returns the
    // written length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(last_error());
    }
    Ok(groups[..(length as usize / 4).min(GROUPS_MAX)].to_vec())
}

/// A descriptor of the process that connected this socket. It becomes readable at its death.
///
/// Before Linux 6.5 the descriptor is opened by process id. The id may have a new process by then,
/// so the caller compares the start time afterwards.
///
/// # Errors
/// `SRCH` if the process has been reaped on an old kernel; `MFILE`.
pub fn peer_pidfd(socket: impl AsFd) -> Result<OwnedFd, Errno> {
    let socket = socket.as_fd();
    let mut fd: libc::c_int = -1;
    let mut length: libc::socklen_t = 4;
    // SAFETY: `fd` and `length` are live locals, and `length` is the size of `fd`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut length,
        )
    };
    if result == 0 && fd >= 0 {
        // SAFETY: the kernel has just made this descriptor for the caller, its only owner.
        return above_standard(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    crate::open_process(peer_identity(socket)?.pid)
}

/// Makes the kernel refuse descriptors sent to this socket. `false` on a kernel that cannot.
pub(crate) fn refuse_descriptors(socket: impl AsFd) -> bool {
    let off: libc::c_int = 0;
    // SAFETY: the option value is a live local of the given length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const off).cast(),
            4,
        )
    };
    result == 0
}
