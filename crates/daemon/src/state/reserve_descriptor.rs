//! The reserve descriptor: it lets a daemon without free descriptors refuse a newcomer.
//!
//! The kernel queues a newcomer's connection even if the daemon has no descriptor to accept it.
//! The daemon then closes the reserve descriptor, accepts the newcomer, refuses it, and takes a new
//! reserve descriptor. No newcomer waits without an answer.

use crate::quota::Exceeded;
use m3ipc_abi::Code;
use m3ipc_sys::{Errno, Poll};
use m3ipc_wire::{FromDaemon, Refusal, Reply};
use std::os::fd::{AsFd, OwnedFd};

/// A descriptor kept for refusals.
#[derive(Debug)]
pub(crate) struct ReserveDescriptor(Option<Poll>);

impl ReserveDescriptor {
    /// No descriptor yet.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Takes a descriptor, if the system has one.
    pub(crate) fn new() -> Self {
        Self(Poll::new().ok())
    }

    /// Accepts and refuses one newcomer; `false` if that is impossible.
    pub(crate) fn refuse_newcomer(&mut self, listener: &OwnedFd) -> bool {
        if self.0.take().is_none() {
            *self = Self::new();
            return false;
        }
        let accepted = m3ipc_sys::accept(listener);
        let refused = accepted.is_ok_and(|socket| {
            refuse(&socket, Errno::MFILE);
            true
        });
        *self = Self::new();
        refused
    }
}

/// Refuses a newcomer whose user the daemon cannot know: its own user namespace does not map that
/// user, so all such users would count as one.
pub(crate) fn refuse_unknown_user(socket: impl AsFd, uid: u32) {
    if crate::log::admits(uid) {
        tracing::warn!(uid, "a user outside the daemon's user namespace is refused");
    }
    let why = "the node daemon runs in a user namespace that does not map this user; run it \
               outside of that namespace, or map the user";
    send(socket, Code::Privileges, why.to_owned());
}

/// Refuses a newcomer outside of the daemon's PID namespace: no number there names its process, so
/// the daemon could not watch it.
pub(crate) fn refuse_outsider(socket: impl AsFd) {
    let uid = m3ipc_sys::peer_user(&socket).unwrap_or(u32::MAX);
    if crate::log::admits(uid) {
        tracing::warn!(uid, "a process outside the daemon's PID namespace is refused");
    }
    let why = "the node daemon runs in a PID namespace without this process; run the daemon \
               outside of that namespace, or this program inside";
    send(socket, Code::Privileges, why.to_owned());
}

/// Refuses a newcomer whose process /proc hides from the daemon, which could not tell that process
/// from a later one of the same number.
pub(crate) fn refuse_hidden(socket: impl AsFd, uid: u32, errno: Errno) {
    if crate::log::admits(uid) {
        tracing::debug!(uid, %errno, "a newcomer is not seen in /proc, and refused");
    }
    let why = format!(
        "the node daemon cannot see this process in /proc ({errno}); mount proc there without \
         hidepid, or with gid= of a group of the daemon's user, or run the daemon as root"
    );
    send(socket, Code::Privileges, why);
}

/// Refuses a newcomer of another user at the node of one user.
pub(crate) fn refuse_other_user(socket: impl AsFd, uid: u32) {
    let own = m3ipc_sys::user_id();
    if crate::log::admits(uid) {
        tracing::warn!(uid, own, "a newcomer of another user is refused");
    }
    let why = format!(
        "this node serves its own user ({own}), not user {uid}; use a node of your own, or start \
         this one for all users with `m3d --system`"
    );
    send(socket, Code::Privileges, why);
}

/// Refuses a newcomer whose user is at a quota.
pub(crate) fn refuse_at_quota(socket: impl AsFd, exceeded: &Exceeded) {
    tracing::debug!(%exceeded, "a newcomer is refused");
    send(socket, Code::NoMem, exceeded.to_string());
}

/// Refuses a newcomer, because the daemon lacks a resource for its connection.
pub(crate) fn refuse(socket: impl AsFd, errno: Errno) {
    // The user of the newcomer may be unknown: all of them count together.
    if crate::log::admits(u32::MAX) {
        tracing::warn!(%errno, "no room for another connection; a newcomer is refused");
    }
    let why = format!(
        "the node daemon has no room for another connection: {errno}; try again when other \
         processes have left, or raise its limit of open files (ulimit -n, LimitNOFILE of its \
         unit)"
    );
    send(socket, Code::NoMem, why);
}

fn send(socket: impl AsFd, code: Code, why: String) {
    let refusal = Refusal { code: code.number(), why };
    let frame = m3ipc_wire::encode(&FromDaemon::Reply(Reply::Refused(refusal)));
    // A newcomer that has left needs no answer.
    let _ = m3ipc_sys::send_packet(socket, &frame, &[], false);
}
