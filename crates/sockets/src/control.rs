//! The control connection of a domain member: one request and its answer at a time.
//!
//! A killed daemon gets a successor. The next request starts it, joins the domain again and names
//! the member's ports. Open connections need none of that.

use crate::error::SockError;
use core::fmt;
use m3ipc_sys::{Errno, ParentOnlyFd};
use m3ipc_wire::{
    FromDaemon, REPLY_MAX_BYTES, Reply, Request, SockConnection, SockReply, SockRequest, VERSION,
};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// An answer, with the descriptors that came with it.
pub(crate) type Answer = (Reply, Vec<OwnedFd>);

/// The time limit of an answer, in nanoseconds. The daemon may be stopped.
const LIMIT_NS: u64 = 5_000_000_000;

/// A connection to the node daemon.
pub(crate) struct Control {
    /// Declared before `socket`: it must forget the number before the socket closes.
    _closed_in_children: ParentOnlyFd,
    socket: OwnedFd,
    directory: PathBuf,
    buffer: Box<[u8]>,
    /// Requests that were given up. Their answers come before that of the next request.
    given_up: VecDeque<Request>,
}

/// Without the buffer, which is the longest part of a domain as text.
impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("socket", &self.socket)
            .field("directory", &self.directory)
            .field("given_up", &self.given_up.len())
            .finish_non_exhaustive()
    }
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The daemon is gone.
    DaemonGone,
    /// The daemon did not answer in time.
    TimedOut(SockError),
    /// The daemon refused the request.
    Refused(SockError),
}

impl From<RequestError> for SockError {
    fn from(failed: RequestError) -> Self {
        match failed {
            RequestError::DaemonGone => {
                Self::new(Errno::NETDOWN, "the node daemon has gone; start one with `m3 up`")
            }
            RequestError::TimedOut(error) | RequestError::Refused(error) => error,
        }
    }
}

impl Control {
    /// Connects to the daemon of this directory. A killed daemon gets a successor first.
    pub(crate) fn connect(directory: &Path) -> Result<Self, SockError> {
        // `attach_at` starts a daemon where none answers, and waits until it does.
        if m3ipc::runtime::socket(directory).exists() {
            let started = m3ipc::Node::attach_at(directory);
            drop(
                started
                    .map_err(|error| SockError::new(errno_of(error.code()), error.to_string()))?,
            );
        }
        let socket = m3ipc::runtime::connect(directory)
            .map_err(|error| SockError::new(errno_of(error.code()), error.to_string()))?;
        let mut control = Self {
            _closed_in_children: ParentOnlyFd::new(&socket),
            socket,
            directory: directory.to_owned(),
            buffer: vec![0; REPLY_MAX_BYTES].into_boxed_slice(),
            given_up: VecDeque::new(),
        };
        match control.ask(&Request::Hello { version: VERSION }) {
            Ok((Reply::Welcome { .. }, _)) => Ok(control),
            Ok(_) => Err(unexpected_answer()),
            Err(failed) => Err(failed.into()),
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Answer, RequestError> {
        self.ask_within(request, LIMIT_NS)
    }

    fn ask_within(&mut self, request: &Request, limit_ns: u64) -> Result<Answer, RequestError> {
        self.send(request)?;
        let deadline_ns = m3ipc_sys::monotonic_ns().saturating_add(limit_ns);
        loop {
            let answer = match self.receive(request, deadline_ns) {
                Err(RequestError::TimedOut(error)) => {
                    self.given_up.push_back(request.clone());
                    return Err(RequestError::TimedOut(error));
                }
                other => other,
            };
            if matches!(answer, Err(RequestError::DaemonGone)) {
                return answer;
            }
            // The daemon answers in the order of the requests.
            match self.given_up.pop_front() {
                None => return answer,
                Some(former) => answer.iter().for_each(|(reply, _)| self.undo(&former, reply)),
            }
        }
    }

    /// The next answer of the daemon, to `request` or to the first one that was given up.
    fn receive(&mut self, request: &Request, deadline_ns: u64) -> Result<Answer, RequestError> {
        let packet = loop {
            match m3ipc_sys::receive_packet(&self.socket, &mut self.buffer, false, true) {
                Ok(packet) => break packet,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_closed) => return Err(RequestError::DaemonGone),
            }
            let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
            // A signal must not end this wait: it belongs to the program's next blocking call.
            if m3ipc_sys::wait_readable(&[self.socket.as_fd()], left_ns) == Ok(false) {
                return Err(self.silence());
            }
        };
        if packet.bytes == 0 {
            return Err(RequestError::DaemonGone);
        }
        let frame = m3ipc_wire::decode::<FromDaemon>(&self.buffer[..packet.bytes]);
        if packet.truncated {
            if let Ok(FromDaemon::Reply(reply)) = &frame {
                self.undo(self.given_up.front().unwrap_or(request), reply);
            }
            let why =
                "this process has no descriptor left for what the daemon gives; raise `ulimit -n`";
            return Err(RequestError::Refused(SockError::new(Errno::MFILE, why)));
        }
        match frame {
            Ok(FromDaemon::Reply(Reply::Sock(SockReply::Failed { errno, why }))) => {
                Err(RequestError::Refused(SockError::new(Errno::from_raw_os_error(errno), why)))
            }
            Ok(FromDaemon::Reply(Reply::Refused(refusal))) => {
                let code = m3ipc::Code::from_number(refusal.code);
                let errno = code.map_or(Errno::NETDOWN, errno_of);
                Err(RequestError::Refused(SockError::new(errno, refusal.why)))
            }
            Ok(FromDaemon::Reply(reply)) => Ok((reply, packet.fds)),
            _ => Err(RequestError::Refused(unexpected_answer())),
        }
    }

    /// Gives back what the daemon gave, where the caller does not get it.
    fn undo(&self, request: &Request, reply: &Reply) {
        let (Request::Sock(request), Reply::Sock(reply)) = (request, reply) else { return };
        match (request, reply) {
            (SockRequest::Bind { kind, .. }, SockReply::Port(port)) => {
                let (kind, port) = (*kind, *port);
                let _ = self.send(&Request::Sock(SockRequest::Release { kind, port }));
            }
            (SockRequest::Connect { .. }, SockReply::Connected(connection, prepared)) => {
                for &SockConnection { pair, side, slot, .. } in prepared.iter().chain([connection])
                {
                    let _ = self.send(&Request::Sock(SockRequest::Closed { pair, side, slot }));
                }
            }
            _ => {}
        }
    }

    /// Sends a request that has no answer.
    pub(crate) fn send(&self, request: &Request) -> Result<(), RequestError> {
        loop {
            match m3ipc_sys::send_packet(&self.socket, &m3ipc_wire::encode(request), &[], true) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                // The socket has a limit for sending.
                Err(Errno::AGAIN) => return Err(self.silence()),
                Err(_closed) => return Err(RequestError::DaemonGone),
            }
        }
    }

    /// The daemon does not answer in time.
    fn silence(&self) -> RequestError {
        let why = m3ipc::runtime::why_silent(&self.directory, &self.socket);
        RequestError::TimedOut(SockError::new(Errno::TIMEDOUT, why))
    }
}

/// The number of errno(3) for a code of the contract.
fn errno_of(code: m3ipc::Code) -> Errno {
    match code {
        m3ipc::Code::NoMem => Errno::NOMEM,
        m3ipc::Code::TimedOut => Errno::TIMEDOUT,
        m3ipc::Code::Privileges => Errno::ACCESS,
        m3ipc::Code::RscBusy => Errno::ISCONN,
        m3ipc::Code::BadDir | m3ipc::Code::BadOwner => Errno::PERM,
        _ => Errno::NETDOWN,
    }
}

pub(crate) fn unexpected_answer() -> SockError {
    SockError::new(Errno::PROTO, "the node daemon gave an unexpected answer; end it with `m3 down`")
}

/// The VM and the runtime directory of a member, as a successor of the daemon needs them.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) directory: PathBuf,
    pub(crate) vm: i32,
}

impl Membership {
    /// Joins a domain over a new connection.
    pub(crate) fn join(&self, domain: Option<u32>) -> Result<(Control, JoinedDomain), SockError> {
        let mut control = Control::connect(&self.directory)?;
        let join = Request::Sock(SockRequest::Join { vm: self.vm, domain });
        match control.ask(&join)? {
            (Reply::Sock(SockReply::Joined { domain, network, bits }), _) => {
                Ok((control, JoinedDomain { domain, network, bits }))
            }
            _ => Err(unexpected_answer()),
        }
    }
}

/// The answer to a join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinedDomain {
    pub(crate) domain: u32,
    pub(crate) network: u32,
    pub(crate) bits: u8,
}

#[cfg(test)]
mod tests;
