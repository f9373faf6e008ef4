//! A party's connection to the node daemon: requests and their answers, one at a time.
//!
//! A daemon that was killed is followed by another: the next request starts it, joins the domain again
//! and tells it of the ports. Connections need none of that.

use crate::error::SockError;
use m3ipc_sys::{Errno, ParentOnlyFd};
use m3ipc_wire::{FromDaemon, REPLY_MAX_BYTES, Reply, Request, SockReply, SockRequest, VERSION};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// An answer, with the descriptors that came with it.
pub(crate) type Answer = (Reply, Vec<OwnedFd>);

/// How long a daemon may take, in nanoseconds: it may be stopped.
const LIMIT_NS: u64 = 10_000_000_000;

/// One connection.
#[derive(Debug)]
pub(crate) struct Control {
    /// Forgotten before the socket is closed and its number given to another.
    _not_for_children: ParentOnlyFd,
    socket: OwnedFd,
    buffer: Box<[u8]>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The daemon has gone.
    Gone,
    /// It says no.
    Refused(SockError),
}

impl From<Failed> for SockError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Gone => {
                Self::new(Errno::NETDOWN, "the node daemon has gone; start one with `m3 up`")
            }
            Failed::Refused(error) => error,
        }
    }
}

impl Control {
    /// Connects to the daemon of this directory; one that was killed gets a successor.
    pub(crate) fn connect(directory: &Path) -> Result<Self, SockError> {
        // This starts a daemon where none answers, and waits for it.
        let path = m3ipc::runtime::socket(directory);
        if path.exists() {
            let started = m3ipc::Node::attach_at(directory);
            drop(started.map_err(|error| SockError::new(Errno::NETDOWN, error.to_string()))?);
        }
        let socket = m3ipc_sys::connect(&path).map_err(|errno| {
            let why = format!(
                "no node daemon answers at {}: {errno}; start one with `m3 up`",
                path.display()
            );
            SockError::new(Errno::NETDOWN, why)
        })?;
        let mut control = Self {
            _not_for_children: ParentOnlyFd::new(&socket),
            socket,
            buffer: vec![0; REPLY_MAX_BYTES].into_boxed_slice(),
        };
        match control.ask(&Request::Hello { version: VERSION }) {
            Ok((Reply::Welcome { .. }, _)) => Ok(control),
            Ok(_) => Err(unexpected()),
            Err(failed) => Err(failed.into()),
        }
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Answer, Failed> {
        self.tell(request)?;
        let deadline_ns = m3ipc_sys::monotonic_ns().saturating_add(LIMIT_NS);
        let packet = loop {
            match m3ipc_sys::receive_packet(&self.socket, &mut self.buffer, false, true) {
                Ok(packet) => break packet,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_closed) => return Err(Failed::Gone),
            }
            let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
            // A signal is for the call that comes after.
            if m3ipc_sys::wait_readable(&[self.socket.as_fd()], left_ns) == Ok(false) {
                let why = "the node daemon does not answer; it may be stopped, see its log";
                return Err(Failed::Refused(SockError::new(Errno::TIMEDOUT, why)));
            }
        };
        if packet.bytes == 0 {
            return Err(Failed::Gone);
        }
        let frame = m3ipc_wire::decode::<FromDaemon>(&self.buffer[..packet.bytes]);
        if packet.truncated {
            let why =
                "this process has no descriptor left for what the daemon gives; raise `ulimit -n`";
            return Err(Failed::Refused(SockError::new(Errno::MFILE, why)));
        }
        match frame {
            Ok(FromDaemon::Reply(Reply::Sock(SockReply::Failed { errno, why }))) => {
                Err(Failed::Refused(SockError::new(Errno::from_raw_os_error(errno), why)))
            }
            Ok(FromDaemon::Reply(Reply::Refused(refusal))) => {
                Err(Failed::Refused(SockError::new(errno_of(refusal.code), refusal.why)))
            }
            Ok(FromDaemon::Reply(reply)) => Ok((reply, packet.fds)),
            _ => Err(Failed::Refused(unexpected())),
        }
    }

    /// Tells something that has no answer.
    pub(crate) fn tell(&self, request: &Request) -> Result<(), Failed> {
        loop {
            match m3ipc_sys::send_packet(&self.socket, &m3ipc_wire::encode(request), &[], true) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(_closed) => return Err(Failed::Gone),
            }
        }
    }
}

/// The number of errno(3) for a code of the contract.
fn errno_of(code: i32) -> Errno {
    match m3ipc::Code::from_number(code) {
        Some(m3ipc::Code::NoMem) => Errno::NOMEM,
        Some(m3ipc::Code::Privileges) => Errno::ACCESS,
        Some(m3ipc::Code::RscBusy) => Errno::ISCONN,
        _ => Errno::NETDOWN,
    }
}

pub(crate) fn unexpected() -> SockError {
    SockError::new(Errno::PROTO, "the node daemon gave an unexpected answer; end it with `m3 down`")
}

/// Where a party belongs: what a successor of the daemon is told.
#[derive(Clone, Debug)]
pub(crate) struct Belonging {
    pub(crate) directory: PathBuf,
    pub(crate) vm: i32,
}

impl Belonging {
    /// Joins a domain over a new connection.
    pub(crate) fn join(&self, domain: Option<u32>) -> Result<(Control, Joined), SockError> {
        let mut control = Control::connect(&self.directory)?;
        let join = Request::Sock(SockRequest::Join { vm: self.vm, domain });
        match control.ask(&join)? {
            (Reply::Sock(SockReply::Joined { domain, network, bits }), _) => {
                Ok((control, Joined { domain, network, bits }))
            }
            _ => Err(unexpected()),
        }
    }
}

/// What a party is told when it joins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    pub(crate) domain: u32,
    pub(crate) network: u32,
    pub(crate) bits: u8,
}
