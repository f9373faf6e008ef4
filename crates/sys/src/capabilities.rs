//! The capabilities of another process, as rights over this one.
//!
//! A user number says little about rights: root of a container has number 0, and so has a service
//! without capabilities. A capability counts where the kernel would let it count: in the user and
//! PID namespace of this process.
//!
//! The number and the rights of a process change when it executes a program with more rights. Its
//! socket may lie in processes without them, which connected it or got it by fork. So nothing
//! counts that the process gained after its connect.

use crate::process::{read_proc, status_numbers};
use crate::{PeerCredentials, peer_pidfd, wait_readable};
use rustix::fd::AsFd;
use rustix::io::Errno;

/// A capability that m3ipc asks for.
///
/// # Source
/// capabilities(7); the values are those of linux/capability.h
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// `CAP_KILL`: to signal processes of other users.
    Kill = 5,
    /// `CAP_IPC_OWNER`: to pass the modes of objects for communication.
    IpcOwner = 15,
    /// `CAP_SYS_PTRACE`: to look into processes of other users.
    SysPtrace = 19,
    /// No capability of the kernel: the process is in the user and PID namespace of this one.
    SameNamespaces = 63,
}

const SAME_NAMESPACES: u64 = 1 << Capability::SameNamespaces as u8;

/// A set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// None.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(u64::MAX);

    /// Whether the set has this one.
    #[must_use]
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & 1 << capability as u8 != 0
    }
}

/// The capabilities that the process behind a connected socket has over this process now.
///
/// The set is empty for a process in another user or PID namespace than this process, and for a
/// process that may have gained rights since its connect: its effective user has changed, or it is
/// not dumpable (as after the exec of a program with file capabilities).
///
/// # Errors
/// `SRCH` if the process has ended or /proc hides it; `MFILE`, `NOMEM` and the like. Before Linux
/// 6.5 the number names the process, so it must not have ended: see [`peer_pidfd`].
///
/// # Source
/// proc_pid_status(5): Uid, `NSpid`, `CapEff`; user_namespaces(7)
pub fn peer_capabilities(socket: impl AsFd, peer: PeerCredentials) -> Result<Capabilities, Errno> {
    let process = peer_pidfd(socket)?;
    read(process, peer.pid, peer.uid)
}

/// Whether this process may signal processes of other users.
#[must_use]
pub fn may_signal_others() -> bool {
    let own = rustix::thread::capabilities(None);
    own.is_ok_and(|own| own.effective.contains(rustix::thread::CapabilitySet::KILL))
}

/// The same for the process with this number, whose effective user was this one when it became
/// known.
///
/// # Errors
/// As [`peer_capabilities`].
pub fn process_capabilities(number: i32, uid: u32) -> Result<Capabilities, Errno> {
    read(crate::open_process(number)?, number, uid)
}

fn capabilities_of(process: &str, uid: u32) -> Result<Capabilities, Errno> {
    let path = format!("/proc/{process}/status");
    let status = read_proc(&path)?;
    let set = line_of(&status, "CapEff:").and_then(|set| u64::from_str_radix(set, 16).ok());
    let set = Capabilities(set.ok_or(Errno::IO)?);
    let [_real, effective] = status_numbers(&status, "Uid:")?;
    if effective != uid {
        return Ok(Capabilities::NONE);
    }
    let own = read_proc("/proc/self/status")?;
    let depth = |status| line_of(status, "NSpid:").map(|it| it.split_ascii_whitespace().count());
    // After the set: the kernel gives the file to root before a process gets more capabilities.
    let is_same = depth(&status) == depth(&own)
        && rustix::fs::stat(&path)?.st_uid == uid
        && is_in_own_user_namespace(process)?;
    Ok(if is_same { Capabilities(set.0 | SAME_NAMESPACES) } else { Capabilities::NONE })
}

/// The capabilities of a process that lives still afterwards: the number was its own all the time.
fn read(process: impl AsFd, number: i32, uid: u32) -> Result<Capabilities, Errno> {
    let set = capabilities_of(&number.to_string(), uid)?;
    if wait_readable(&[process.as_fd()], 0)? { Err(Errno::SRCH) } else { Ok(set) }
}

fn line_of<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Whether a process is in the user namespace of this one.
///
/// The link that names a namespace needs the right to trace. The map of users serves without it:
/// a process that makes the same map for another namespace has `CAP_SETUID` in this one, and can
/// become any user here.
fn is_in_own_user_namespace(process: &str) -> Result<bool, Errno> {
    let link = |process: &str| rustix::fs::readlink(format!("/proc/{process}/ns/user"), Vec::new());
    match (link(process), link("self")) {
        (Ok(one), Ok(other)) => Ok(one == other),
        _ => {
            let map = |process: &str| read_proc(&format!("/proc/{process}/uid_map"));
            Ok(map(process)? == map("self")?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_capabilities_count_for_the_own_user() {
        let own = rustix::thread::capabilities(None).unwrap();
        let seen = capabilities_of("self", crate::user_id()).unwrap();
        // A test that is not dumpable, or belongs to nobody, would see none.
        assert_eq!(seen, Capabilities(own.effective.bits() | SAME_NAMESPACES));
        assert_eq!(capabilities_of("self", crate::user_id() + 1), Ok(Capabilities::NONE));
        assert_eq!(is_in_own_user_namespace("self"), Ok(true));
    }

    #[test]
    fn sets_have_what_they_have() {
        let kills = Capabilities(1 << 5);
        assert!(kills.has(Capability::Kill) && !kills.has(Capability::IpcOwner));
        assert!(Capabilities::ALL.has(Capability::SysPtrace));
        assert!(!Capabilities::NONE.has(Capability::Kill));
    }

    #[test]
    fn the_peer_of_a_socket_is_asked() {
        let (one, _other) = crate::stream_pair().unwrap();
        let peer = crate::peer_identity(&one).unwrap();
        assert_eq!(peer_capabilities(&one, peer), capabilities_of("self", peer.uid));
    }
}
