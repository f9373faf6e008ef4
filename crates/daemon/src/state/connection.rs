//! One control connection of a member, and the frames that wait in its queue.

use crate::tables::{Credentials, MemberId};
use m3ipc_link::ControlPageView;
use m3ipc_sys::Errno;
use m3ipc_wire::{DaemonEvent, FromDaemon};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// Frames that may wait for a member that does not read. A longer queue breaks the connection.
const QUEUE_MAX: usize = 65_536;

/// The pages of an endpoint, which the daemon made.
#[derive(Debug)]
pub(crate) struct EndpointPages {
    pub(crate) control_page: Arc<ControlPageView>,
    pub(crate) status_page: Rc<OwnedFd>,
    pub(crate) ready_bitmap: Rc<OwnedFd>,
    /// Whether the endpoint is older than these pages: a claim, or a return after a takeover.
    pub(crate) is_return: bool,
    /// Whether the owner has mapped the pages, and no other process can write the status page.
    pub(crate) sealed: bool,
    /// Tickets to complete at the seal.
    pub(crate) tickets: Vec<u64>,
}

/// A frame in the queue, with its descriptors.
#[derive(Debug)]
struct QueuedFrame {
    /// The peer of the link that the frame announces.
    contact: Option<i32>,
    frame: Vec<u8>,
    fds: Vec<Rc<OwnedFd>>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) cred: Credentials,
    /// Start time of the process. With the process id it identifies the process.
    pub(crate) started: u64,
    /// The last scheduling round that served this connection.
    pub(crate) served_in: u64,
    /// Whether both sides have agreed on a version.
    pub(crate) greeted: bool,
    /// The endpoint of this connection.
    pub(crate) id: Option<MemberId>,
    pub(crate) pages: Option<EndpointPages>,
    /// The request that the daemon answers later.
    pub(crate) deferred: Option<Deferred>,
    /// The bounce buffer for the answer of a deferred [`Deferred::CopyGate`].
    pub(crate) bounce_buffer: Option<Rc<OwnedFd>>,
    /// Open tickets of this connection.
    pub(crate) tickets: Vec<u64>,
    queue: VecDeque<QueuedFrame>,
    /// Whether the member does not read. The daemon then serves none of its requests.
    pub(crate) is_full: bool,
}

/// The event that a deferred answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferred {
    /// This endpoint attaches to the daemon.
    Contact(MemberId),
    /// This peer opens its copy gate.
    CopyGate(MemberId),
    /// This VM ends.
    VmEnd(i32),
    /// This endpoint leaves.
    Unbind(MemberId),
    /// The node ends.
    NodeEnd,
}

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The frame is in the socket.
    Sent,
    /// The frame waits until the socket has room.
    Queued,
    /// The socket has room, but the system has no room for the frame's descriptors. The frame
    /// waits until other processes receive theirs.
    DescriptorsExhausted,
    /// The connection does not work any more.
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
            id: None,
            pages: None,
            deferred: None,
            bounce_buffer: None,
            tickets: Vec::new(),
            queue: VecDeque::new(),
            is_full: false,
        }
    }

    /// Sends a frame, or queues it. Frames keep their order.
    pub(crate) fn send(&mut self, frame: &FromDaemon, fds: Vec<Rc<OwnedFd>>) -> SendOutcome {
        let contact = match frame {
            FromDaemon::Event(DaemonEvent::Contact(info)) => Some(info.address),
            FromDaemon::Event(DaemonEvent::Died(peer)) if self.drop_queued_contact(*peer) => {
                return SendOutcome::Queued;
            }
            _ => None,
        };
        let queued = QueuedFrame { contact, frame: m3ipc_wire::encode(frame), fds };
        let mut outcome = SendOutcome::Queued;
        if self.queue.is_empty() {
            outcome = try_send(&self.socket, &queued);
            if matches!(outcome, SendOutcome::Sent | SendOutcome::Broken) {
                return outcome;
            }
        }
        if self.queue.len() >= QUEUE_MAX {
            return SendOutcome::Broken;
        }
        self.queue.push_back(queued);
        self.is_full = outcome == SendOutcome::Queued;
        outcome
    }

    /// Removes the queued contact of a peer that has died; `false` if the queue has none. The
    /// member then needs neither event, so no peer can fill its queue by repeated binds.
    fn drop_queued_contact(&mut self, peer: i32) -> bool {
        let at = self.queue.iter().rposition(|queued| queued.contact == Some(peer));
        at.and_then(|at| self.queue.remove(at)).is_some()
    }

    /// Sends queued frames while the socket has room.
    pub(crate) fn flush(&mut self) -> SendOutcome {
        while let Some(next) = self.queue.front() {
            let outcome = try_send(&self.socket, next);
            if outcome != SendOutcome::Sent {
                self.is_full = outcome == SendOutcome::Queued;
                return outcome;
            }
            self.queue.pop_front();
        }
        self.is_full = false;
        SendOutcome::Sent
    }

    /// Wakes the member: its connection has an event to read.
    pub(crate) fn announce_event(&self) {
        if let Some(pages) = &self.pages {
            pages.control_page.announce_event();
        }
    }

    /// Whether the owner has mapped its pages, so that peers may use them.
    pub(crate) fn is_attached(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.sealed)
    }
}

fn try_send(socket: &OwnedFd, queued: &QueuedFrame) -> SendOutcome {
    let fds: Vec<_> = queued.fds.iter().map(|fd| fd.as_fd()).collect();
    match m3ipc_sys::send_packet(socket, &queued.frame, &fds, false) {
        Ok(()) => SendOutcome::Sent,
        Err(Errno::AGAIN) => SendOutcome::Queued,
        Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => SendOutcome::DescriptorsExhausted,
        Err(_) => SendOutcome::Broken,
    }
}
