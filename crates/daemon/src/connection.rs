//! One member's control connection, as the daemon holds it.

use m3ipc_link::ControlPageView;
use m3ipc_model::tables::{Credentials, MemberId};
use m3ipc_sys::Errno;
use m3ipc_wire::{DaemonEvent, FromDaemon};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// Frames that may wait for a member that does not read; beyond that it is hopeless.
const WAITING_FRAMES_MAX: usize = 65_536;

/// The memory of an endpoint that the daemon made.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) desk: Arc<ControlPageView>,
    pub(crate) status: Rc<OwnedFd>,
    pub(crate) hints: Rc<OwnedFd>,
    /// The endpoint was there before them: its owner takes it up, or takes it up again.
    pub(crate) is_return: bool,
    /// The owner has mapped them, and nobody else can write the status page any more.
    pub(crate) sealed: bool,
    /// Waiters to tell of the bind once it is sealed.
    pub(crate) told: Vec<u64>,
}

/// A frame on its way, with its descriptors.
#[derive(Debug)]
struct Outgoing {
    /// The peer whose link it brings.
    contact: Option<i32>,
    frame: Vec<u8>,
    fds: Vec<Rc<OwnedFd>>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) cred: Credentials,
    /// When the process started: with its number, its identity.
    pub(crate) started: u64,
    /// The turn of the loop in which it was last served.
    pub(crate) served_in: u64,
    /// The version has been agreed upon.
    pub(crate) greeted: bool,
    /// The endpoint that this connection is for.
    pub(crate) place: Option<MemberId>,
    pub(crate) pages: Option<Pages>,
    pub(crate) has_bell: bool,
    /// A request waits for its answer (a contact with one who is not there yet, an end, an unbind).
    pub(crate) waits_for: Option<Deferred>,
    /// The window that goes with the answer to it.
    pub(crate) window: Option<Rc<OwnedFd>>,
    /// Tickets this connection has open.
    pub(crate) tickets: Vec<u64>,
    waiting: VecDeque<Outgoing>,
    /// It does not read: nothing more is served until it does.
    pub(crate) is_full: bool,
}

/// A request that is answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferred {
    /// For this endpoint to come (back).
    Contact(MemberId),
    /// For this peer to lie still for copies.
    Berth(MemberId),
    /// For this VM to end.
    VmEnd(i32),
    /// For this endpoint to leave.
    Unbind(MemberId),
    /// For the node to end.
    NodeEnd,
}

/// Whether a connection still works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The frame is on its way.
    Gone,
    /// It waits for room.
    Waits,
    /// It waits until others have taken their descriptors: room there is.
    Crowded,
    /// The connection is of no use any more.
    Broken,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, cred: Credentials, started: u64) -> Self {
        Self {
            socket,
            cred,
            started,
            served_in: 0,
            greeted: false,
            place: None,
            pages: None,
            has_bell: false,
            waits_for: None,
            window: None,
            tickets: Vec::new(),
            waiting: VecDeque::new(),
            is_full: false,
        }
    }

    /// Sends a frame, or keeps it until there is room: frames never overtake.
    pub(crate) fn send(&mut self, frame: &FromDaemon, fds: Vec<Rc<OwnedFd>>) -> Sent {
        let contact = match frame {
            FromDaemon::Event(DaemonEvent::Contact(info)) => Some(info.address),
            FromDaemon::Event(DaemonEvent::Died(address)) if self.takes_back(*address) => {
                return Sent::Waits;
            }
            _ => None,
        };
        let outgoing = Outgoing { contact, frame: m3ipc_wire::encode(frame), fds };
        let mut ended = Sent::Waits;
        if self.waiting.is_empty() {
            match try_send(&self.socket, &outgoing) {
                Ok(()) => return Sent::Gone,
                Err(errno) => match reason(errno) {
                    Sent::Broken => return Sent::Broken,
                    other => ended = other,
                },
            }
        }
        if self.waiting.len() >= WAITING_FRAMES_MAX {
            return Sent::Broken;
        }
        self.waiting.push_back(outgoing);
        self.is_full = ended == Sent::Waits;
        ended
    }

    /// Whether a link still waits here whose peer has died: neither is worth telling. So
    /// nobody can fill another's queue by coming and going.
    fn takes_back(&mut self, peer: i32) -> bool {
        let at = self.waiting.iter().rposition(|outgoing| outgoing.contact == Some(peer));
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) -> Sent {
        while let Some(next) = self.waiting.front() {
            match try_send(&self.socket, next) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(errno) => {
                    let ended = reason(errno);
                    self.is_full = ended == Sent::Waits;
                    return ended;
                }
            }
        }
        self.is_full = false;
        Sent::Gone
    }

    /// Wakes the member: there is something to read.
    pub(crate) fn announce(&self) {
        if let Some(pages) = &self.pages {
            pages.desk.announce_event();
        }
    }
}

fn reason(errno: Errno) -> Sent {
    match errno {
        Errno::AGAIN => Sent::Waits,
        Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM => Sent::Crowded,
        _ => Sent::Broken,
    }
}

fn try_send(socket: &OwnedFd, outgoing: &Outgoing) -> Result<(), Errno> {
    let fds: Vec<_> = outgoing.fds.iter().map(|fd| fd.as_fd()).collect();
    m3ipc_sys::send_packet(socket, &outgoing.frame, &fds, false)
}
