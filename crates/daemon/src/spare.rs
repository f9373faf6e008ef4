//! The spare descriptor: what a daemon needs to say that it has no more.
//!
//! A newcomer's connection stands in the kernel's queue also where there is no
//! descriptor to take it with. Nobody is left to wait there: the spare one is
//! given up for a moment, the newcomer taken, told and closed.

use m3ipc_abi::Code;
use m3ipc_sys::{Errno, Poll};
use m3ipc_wire::{FromDaemon, Refusal, Reply};
use std::os::fd::{AsFd, OwnedFd};

/// A descriptor that is kept for refusals.
#[derive(Debug)]
pub(crate) struct Spare(Option<Poll>);

impl Spare {
    /// One, if it can be had.
    pub(crate) fn new() -> Self {
        Self(Poll::new().ok())
    }

    /// Takes one newcomer and tells it that there is no room; `false` where that is impossible.
    pub(crate) fn refuse_newcomer(&mut self, listener: &OwnedFd) -> bool {
        if self.0.take().is_none() {
            *self = Self::new();
            return false;
        }
        let accepted = m3ipc_sys::accept(listener);
        let taken = accepted.is_ok_and(|socket| {
            refuse(&socket, Errno::MFILE);
            true
        });
        *self = Self::new();
        taken
    }
}

/// Tells a newcomer that the daemon has nothing left for it.
pub(crate) fn refuse(socket: impl AsFd, errno: Errno) {
    tracing::warn!(%errno, "a newcomer is refused");
    let why = format!(
        "the node daemon has no room for another connection: {errno}; try again when others have gone, or \
         raise its limit of open files (ulimit -n, LimitNOFILE of its unit)"
    );
    let refusal = Refusal { code: Code::NoMem.number(), why };
    let frame = m3ipc_wire::encode(&FromDaemon::Reply(Reply::Refused(refusal)));
    let _ = m3ipc_sys::send_packet(socket, &frame, &[], false);
}
