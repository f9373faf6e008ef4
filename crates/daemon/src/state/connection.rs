//! One control connection of a member.

use super::end_marks::EndMark;
use super::frame_queue::{Admission, FrameQueue, QueuedFrame};
use super::member_fd::MemberFd;
use crate::quota::{Accounts, Charge, Resource};
use crate::tables::{Credentials, MemberId, TicketId};
use m3ipc_link::ControlPageView;
use m3ipc_sys::Errno;
use m3ipc_wire::{DaemonEvent, FromDaemon, VmParams};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// The pages of an endpoint, which the daemon made.
#[derive(Debug)]
pub(crate) struct EndpointPages {
    pub(crate) control_page: Arc<ControlPageView>,
    pub(crate) status_page: Rc<MemberFd>,
    pub(crate) ready_bitmap: Rc<MemberFd>,
    /// Whether the endpoint is older than these pages: a claim, or a return after a takeover.
    pub(crate) is_return: bool,
    /// Whether the owner has mapped the pages, and no other process can write the status page.
    pub(crate) sealed: bool,
    /// Tickets to complete at the seal.
    pub(crate) tickets: Vec<TicketId>,
    /// The descriptor of the control page, until it has its end mark.
    pub(crate) unmarked: Option<Rc<MemberFd>>,
    /// Tells the owner of the end of this daemon.
    pub(crate) end_mark: Option<EndMark>,
    pub(crate) _charges: Vec<Charge>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Rc<OwnedFd>,
    pub(crate) cred: Credentials,
    /// Start time of the process. With the process id it identifies the process.
    pub(crate) started: u64,
    /// The last scheduling round that served this connection.
    pub(crate) served_in: u64,
    /// Whether both sides have agreed on a version.
    pub(crate) greeted: bool,
    /// The endpoint of this connection.
    pub(crate) id: Option<MemberId>,
    /// The endpoint that this connection had last, and that has ended.
    pub(crate) former: Option<MemberId>,
    pub(crate) pages: Option<EndpointPages>,
    /// The request that the daemon answers later.
    pub(crate) deferred: Option<Deferred>,
    /// The bounce buffer for the answer of a deferred [`Deferred::CopyGate`].
    pub(crate) bounce_buffer: Option<Rc<MemberFd>>,
    /// The parameters of a deferred [`Deferred::VmOpen`].
    pub(crate) vm_to_open: Option<VmParams>,
    /// Open tickets of this connection.
    pub(crate) tickets: Vec<TicketId>,
    queue: FrameQueue,
    /// Whether frames wait in the queue. The daemon then serves none of the member's requests.
    pub(crate) is_full: bool,
    /// Descriptors in the socket that the member may not have read yet.
    on_their_way: Vec<Charge>,
    /// Whether a timer will flush the queue.
    pub(crate) has_flush_timer: bool,
    /// Flushes in a row that found no room for descriptors.
    pub(crate) stalls: u32,
    /// A cycle of waits that the member asked about: its hash, and how many members of it slept.
    pub(crate) checked_cycle: Option<(u64, usize)>,
    _charges: Vec<Charge>,
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
    /// This VM ends, and the caller can have its name.
    VmOpen(i32),
    /// This endpoint leaves.
    Unbind(MemberId),
    /// The node ends.
    NodeEnd,
    /// The wakeup of an endpoint of another node, with its number.
    Wakeup(u64),
    /// This endpoint moves to another node, or does not.
    Move(MemberId),
}

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The frame is in the socket.
    Sent,
    /// The frame waits until the socket has room.
    Queued,
    /// The frame waits behind others.
    Behind,
    /// The socket has room, but the user's quota or the system has none for the frame's
    /// descriptors. The frame waits until processes receive theirs.
    DescriptorsExhausted,
    /// The connection does not work any more.
    Broken,
}

impl Connection {
    pub(crate) fn new(
        socket: Rc<OwnedFd>,
        cred: Credentials,
        started: u64,
        charges: Vec<Charge>,
    ) -> Self {
        Self {
            socket,
            cred,
            started,
            served_in: 0,
            greeted: false,
            id: None,
            former: None,
            pages: None,
            deferred: None,
            bounce_buffer: None,
            vm_to_open: None,
            tickets: Vec::new(),
            queue: FrameQueue::default(),
            is_full: false,
            on_their_way: Vec::new(),
            has_flush_timer: false,
            stalls: 0,
            checked_cycle: None,
            _charges: charges,
        }
    }

    /// Sends an answer, or an event of the member's own request, or queues it.
    pub(crate) fn send(
        &mut self,
        accounts: &mut Accounts,
        frame: &FromDaemon,
        fds: Vec<Rc<MemberFd>>,
    ) -> SendOutcome {
        self.send_frame(accounts, QueuedFrame::own(frame, fds))
    }

    /// Sends an event that another member may have caused. `None`: a queued frame covers it, and
    /// the member was woken for that one.
    pub(crate) fn send_event(
        &mut self,
        accounts: &mut Accounts,
        event: DaemonEvent,
        fds: Vec<Rc<MemberFd>>,
    ) -> Option<SendOutcome> {
        match self.queue.admit(event, fds) {
            Admission::Frame(frame) => Some(self.send_frame(accounts, frame)),
            Admission::Covered => None,
        }
    }

    fn send_frame(&mut self, accounts: &mut Accounts, frame: QueuedFrame) -> SendOutcome {
        let mut outcome = SendOutcome::Queued;
        if self.queue.is_empty() {
            outcome = self.try_send(accounts, &frame);
            if outcome == SendOutcome::Sent {
                self.queue.note_sent(&frame);
            }
            if matches!(outcome, SendOutcome::Sent | SendOutcome::Broken) {
                return outcome;
            }
        }
        if !self.queue.push(frame) {
            return SendOutcome::Broken;
        }
        // Behind another frame, the present wait goes on.
        let outcome = if self.is_full { SendOutcome::Behind } else { outcome };
        self.is_full = true;
        outcome
    }

    /// Notes that the member knows of the link with a peer without an event of this connection.
    pub(crate) fn know_peer(&mut self, peer: i32) {
        self.queue.know_peer(peer);
    }

    /// Sends queued frames while the socket has room.
    pub(crate) fn flush(&mut self, accounts: &mut Accounts) -> SendOutcome {
        while let Some(next) = self.queue.pop_front() {
            let outcome = self.try_send(accounts, &next.1);
            if outcome != SendOutcome::Sent {
                self.queue.put_back(next);
                self.stalls += u32::from(outcome == SendOutcome::DescriptorsExhausted);
                return outcome;
            }
            self.queue.note_sent(&next.1);
            self.stalls = 0;
        }
        self.is_full = false;
        SendOutcome::Sent
    }

    /// Forgets the descriptors on their way, if the member has read all of its frames.
    pub(crate) fn count_read_descriptors(&mut self) {
        if !self.on_their_way.is_empty() && m3ipc_sys::unread_bytes(&self.socket) == Ok(0) {
            self.on_their_way.clear();
        }
    }

    fn try_send(&mut self, accounts: &mut Accounts, queued: &QueuedFrame) -> SendOutcome {
        let fds: Vec<_> = queued.fds.iter().map(|fd| fd.as_fd()).collect();
        let mut charges = Vec::new();
        if !fds.is_empty() {
            self.count_read_descriptors();
            match accounts.charge(self.cred.uid, &[(Resource::OnTheirWay, fds.len() as u64)]) {
                Ok(charged) => charges = charged,
                Err(_exceeded) => return SendOutcome::DescriptorsExhausted,
            }
        }
        match m3ipc_sys::send_packet(&self.socket, &queued.frame, &fds, false) {
            Ok(()) => {
                self.on_their_way.append(&mut charges);
                SendOutcome::Sent
            }
            Err(Errno::AGAIN) => SendOutcome::Queued,
            Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                SendOutcome::DescriptorsExhausted
            }
            Err(_) => SendOutcome::Broken,
        }
    }

    /// Wakes the member: its connection has an event to read, or will have one.
    pub(crate) fn announce_event(&self) {
        if let Some(pages) = &self.pages {
            pages.control_page.set_behind(!self.queue.is_empty());
            pages.control_page.announce_event();
        }
    }

    /// Tells the member that it gets no further events on this connection.
    pub(crate) fn note_end(&self) {
        if let Some(pages) = &self.pages {
            pages.control_page.set_behind(true);
        }
    }

    /// Whether the owner has mapped its pages, so that peers may use them.
    pub(crate) fn is_attached(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.sealed)
    }
}
