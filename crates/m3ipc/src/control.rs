//! The control connection: requests to the node daemon, and its events.

mod connect;
mod decision;
mod fail;
mod frame;
mod later;
mod limit;
mod on_signal;
mod open_requests;
mod silence;
mod while_running;

pub(crate) use connect::IfAbsent;
pub(crate) use decision::Decided;
pub(crate) use fail::unexpected;
pub(crate) use limit::{ANSWER_NS, NO_WAIT_NS, RequestLimit};
pub(crate) use open_requests::{OpenRequest, RequestState};

use crate::daemon;
use crate::error::Fail;
use connect::connect_or_start;
use fail::{daemon_gone, no_descriptors};
use frame::next_frame;
use m3ipc_abi::{Code, Extent};
use m3ipc_link::LinkSide;
use m3ipc_sys::{Errno, Packet, ParentOnlyFd};
use m3ipc_wire::{
    AreaEvent, AreaInfo, AreaReply, AreaRequest, DaemonEvent, FromDaemon, PeerInfo, Reply, Request,
    VERSION,
};
use on_signal::go_on;
pub(crate) use on_signal::{OnSignal, stop};
use open_requests::OpenRequests;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time after which a caller that awaits the end of others checks that the daemon runs, and the
/// time that the daemon has for that check.
const CHECK_NS: u64 = ANSWER_NS / 2;

/// Attempts to read the last frames of a closed connection.
const CLOSED_TRIES: u32 = 3;

/// Attempts, and the pause between two of them, while a daemon leaves.
const LEAVING_TRIES: u32 = 50;
const LEAVING_PAUSE: Duration = Duration::from_millis(2);

/// An event with its descriptors. For a contact also the caller's side of the link: zero if the
/// caller asked for the link.
pub(crate) type EventFrame = (DaemonEvent, Vec<OwnedFd>, LinkSide);

/// One connection to the daemon.
#[derive(Debug)]
pub(crate) struct Control {
    /// Drops before the socket, so that the list of parent-only descriptors never names a reused
    /// number.
    _not_for_children: ParentOnlyFd,
    socket: OwnedFd,
    directory: PathBuf,
    limit: RequestLimit,
    events: VecDeque<EventFrame>,
    /// Counts the events and the late replies that were read, and the events that were taken.
    activity: u64,
    /// Whether a look has found the connection closed.
    closed: bool,
    /// Requests that no call waits for. Their replies arrive before the reply to the next request.
    open: OpenRequests,
    /// Requests that give back what came after its request was given up.
    returns: Vec<Request>,
    /// Areas of late replies: this process may still map them.
    late_areas: Vec<LateArea>,
    /// The bounce buffer of a gate whose request was not polled since.
    gate_memory: Option<OwnedFd>,
}

/// The memory of an area that came after its request was given up.
#[derive(Debug)]
pub(crate) struct LateArea {
    pub(crate) info: AreaInfo,
    pub(crate) index: u16,
    pub(crate) fds: Vec<OwnedFd>,
    /// The events of the area since then.
    pub(crate) events: Vec<(AreaEvent, Vec<OwnedFd>)>,
}

impl Control {
    /// Connects to the daemon of this directory.
    pub(crate) fn connect(directory: &Path, if_absent: IfAbsent) -> Result<Self, Fail> {
        Self::connect_within(directory, if_absent, RequestLimit::ANSWER)
    }

    /// Connects within a limit, which also bounds the later requests of the connection.
    pub(crate) fn connect_within(
        directory: &Path,
        if_absent: IfAbsent,
        limit: RequestLimit,
    ) -> Result<Self, Fail> {
        Self::connect_saying(directory, if_absent, limit, None)
    }

    /// Connects and sends a request together with the greeting.
    pub(crate) fn connect_asking(
        directory: &Path,
        if_absent: IfAbsent,
        limit: RequestLimit,
        request: &Request,
    ) -> Result<(Self, Reply, Vec<OwnedFd>), Fail> {
        let mut control = Self::connect_saying(directory, if_absent, limit, Some(request))?;
        let (reply, fds) = control.answer(limit.end_ns())?;
        Ok((control, reply, fds))
    }

    fn connect_saying(
        directory: &Path,
        if_absent: IfAbsent,
        limit: RequestLimit,
        more: Option<&Request>,
    ) -> Result<Self, Fail> {
        let mut daemon = String::new();
        for _ in 0..LEAVING_TRIES {
            match Self::greet(directory, if_absent, limit, more) {
                Err(fail) if fail.code == Code::NotConn => {
                    daemon = fail.why();
                    std::thread::sleep(LEAVING_PAUSE);
                }
                other => return other,
            }
        }
        let why = format!(
            "the node daemon ({daemon}) closes every connection: it is leaving, or of a version \
             that this program (version {VERSION}) cannot talk to; try again, or see its log"
        );
        Err(Fail::new(Code::DrvsInit, why))
    }

    /// Sends the greeting. A daemon that is leaving accepts connections without serving them; it
    /// has read no request behind an unanswered greeting.
    fn greet(
        directory: &Path,
        if_absent: IfAbsent,
        limit: RequestLimit,
        more: Option<&Request>,
    ) -> Result<Self, Fail> {
        let socket = connect_or_start(directory, if_absent, limit)?;
        let mut control = Self {
            _not_for_children: ParentOnlyFd::new(&socket),
            socket,
            directory: directory.to_owned(),
            limit,
            events: VecDeque::new(),
            activity: 0,
            closed: false,
            open: OpenRequests::default(),
            returns: Vec::new(),
            late_areas: Vec::new(),
            gate_memory: None,
        };
        let daemon = |control: &Self| daemon::describe(directory, &control.socket);
        match control.hello(more) {
            Ok(Reply::Welcome { .. }) => Ok(control),
            Ok(_) => Err(unexpected()),
            Err(fail) if fail.code == Code::NotConn => {
                // Another version may close at a greeting with a request behind it.
                match more.map(|_| Self::greet(directory, if_absent, limit, None)) {
                    Some(Err(why)) if why.code == Code::Version => Err(why),
                    _ => Err(Fail::new(Code::NotConn, daemon(&control))),
                }
            }
            Err(fail) if fail.code == Code::Version => {
                let why = format!(
                    "the node daemon ({}) does not match this program, which speaks version \
                     {VERSION}: {}; end it by its own `m3 down` or by its pid, or name the right \
                     one with M3_DAEMON",
                    daemon(&control),
                    fail.why(),
                );
                Err(Fail::new(Code::Version, why))
            }
            Err(fail) => Err(fail),
        }
    }

    fn hello(&mut self, more: Option<&Request>) -> Result<Reply, Fail> {
        // A daemon that closes the connection may have sent its reason before. The kernel reports
        // the close once, then gives the frames from before it.
        let mut packet = m3ipc_wire::encode(&Request::Hello { version: VERSION });
        if let Some(request) = more {
            packet.extend(m3ipc_wire::encode(request));
        }
        let sent = self.send_packet_until(&packet, self.limit.end_ns());
        let mut closed = u32::from(sent.is_err());
        let deadline_ns = self.limit.end_ns();
        loop {
            // A signal belongs to the call that follows, so the clock alone ends this wait.
            match self.answer(deadline_ns) {
                Err(fail) if fail.code == Code::NotConn && closed < CLOSED_TRIES => closed += 1,
                other => return other.map(|(reply, _)| reply),
            }
        }
    }

    /// The runtime directory of the daemon.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Bounds all later requests.
    pub(crate) fn set_limit(&mut self, limit: RequestLimit) {
        self.limit = limit;
    }

    /// The bound of all requests.
    pub(crate) fn limit(&self) -> RequestLimit {
        self.limit
    }

    /// Sends a request and waits for the reply, within the limit of the connection.
    pub(crate) fn request(&mut self, request: &Request) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        self.give_back();
        self.send(request)?;
        self.answer(self.limit.end_ns())
    }

    /// Sends a request and waits for the reply until the deadline or a signal that ends the wait. A
    /// later reply counts as given up.
    pub(crate) fn request_until(
        &mut self,
        request: &Request,
        deadline_ns: u64,
        on_signal: OnSignal<'_>,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        self.give_back();
        self.send_until(request, deadline_ns)?;
        m3ipc_sys::pause_point("client.contact_requested");
        self.answer_until(deadline_ns, on_signal)
    }

    /// Sends a request and waits for the reply until the deadline. Signals do not end the wait.
    pub(crate) fn request_through(
        &mut self,
        request: &Request,
        deadline_ns: u64,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        self.request_until(request, deadline_ns, &mut go_on)
    }

    fn answer_until(
        &mut self,
        deadline_ns: u64,
        on_signal: OnSignal<'_>,
    ) -> Result<(Reply, Vec<OwnedFd>), Fail> {
        match self.read_answer_until(deadline_ns, on_signal)? {
            Some(answer) => answered(answer),
            None => {
                self.open.give_up();
                Err(Code::TimedOut.into())
            }
        }
    }

    /// Reads an answer; `None` if none has come until the deadline. A signal gives the request up.
    fn read_answer_until(
        &mut self,
        deadline_ns: u64,
        on_signal: OnSignal<'_>,
    ) -> Result<Option<(Reply, Vec<OwnedFd>)>, Fail> {
        loop {
            if let Some(answer) = self.read_answer()? {
                return Ok(Some(answer));
            }
            let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
            match m3ipc_sys::wait_readable(&[self.socket.as_fd()], left_ns) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(_signal) if on_signal() => {
                    self.open.give_up();
                    return Err(Code::Intr.into());
                }
                Err(_signal) => {}
            }
        }
    }

    /// Gives an open request up.
    pub(crate) fn forget(&mut self, request: &OpenRequest) {
        let unwanted = self.open.forget(request);
        if let Some(Reply::CopyGate { .. }) = unwanted {
            self.gate_memory = None;
        }
        self.note_unwanted(unwanted);
        self.give_back();
    }

    /// Notes what a reply brought that nobody takes: the ticket of a wait.
    fn note_unwanted(&mut self, unwanted: Option<Reply>) {
        if let Some(Reply::Wait(ticket)) = unwanted {
            self.returns.push(Request::Forget(ticket));
        }
    }

    /// Gives back what nobody wants. Never while a call awaits a reply: replies come in the order
    /// of the requests.
    fn give_back(&mut self) {
        for request in std::mem::take(&mut self.returns) {
            self.request_later(&request);
        }
    }

    /// Notes that a request for an extent of this area failed. If it was given up, its extent goes
    /// back when it comes.
    pub(crate) fn note_failed_extent(&mut self, area: u32) {
        self.open.note_extent(area);
    }

    /// Sends a request whose reply nobody awaits.
    pub(crate) fn request_later(&mut self, request: &Request) {
        // A daemon that is gone knows of no request, and its successor learns the state anew.
        if self.send_until(request, 0).is_ok() {
            self.open.give_up();
        }
    }

    /// Sends a frame that has no reply.
    pub(crate) fn send(&self, request: &Request) -> Result<(), Fail> {
        self.send_until(request, self.limit.end_ns())
    }

    /// Sends a frame. A stopped daemon may leave no room for it.
    fn send_until(&self, request: &Request, deadline_ns: u64) -> Result<(), Fail> {
        self.send_packet_until(&m3ipc_wire::encode(request), deadline_ns)
    }

    fn send_packet_until(&self, packet: &[u8], deadline_ns: u64) -> Result<(), Fail> {
        loop {
            match m3ipc_sys::send_packet(&self.socket, packet, &[], false) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
                    // A signal belongs to the call that follows.
                    if m3ipc_sys::wait_writable(self.socket.as_fd(), left_ns) == Ok(false) {
                        return Err(self.silence());
                    }
                }
                Err(_) => return Err(daemon_gone()),
            }
        }
    }

    /// Reads one frame, if there is one. Returns a reply; queues an event.
    fn read(&mut self) -> Result<Option<(Reply, Vec<OwnedFd>)>, Fail> {
        let frame = next_frame(&self.socket)?;
        frame.map_or(Ok(None), |(frame, packet)| self.take_frame(&frame, packet))
    }

    /// Reads one frame for the request that was sent last. While there is no memory for a frame,
    /// the reply is still to come: the request counts as given up.
    fn read_answer(&mut self) -> Result<Option<(Reply, Vec<OwnedFd>)>, Fail> {
        let frame = next_frame(&self.socket).inspect_err(|fail| {
            if fail.code == Code::NoMem {
                self.open.give_up();
            }
        })?;
        frame.map_or(Ok(None), |(frame, packet)| self.take_frame(&frame, packet))
    }

    /// Returns a reply; queues an event.
    fn take_frame(
        &mut self,
        frame: &[u8],
        packet: Packet,
    ) -> Result<Option<(Reply, Vec<OwnedFd>)>, Fail> {
        let frame = m3ipc_wire::decode(frame);
        // An event without its descriptors is still worth its content; its user asks for them
        // again.
        if packet.truncated && self.open.is_empty() && matches!(frame, Ok(FromDaemon::Reply(_))) {
            return Err(no_descriptors());
        }
        match frame {
            Ok(FromDaemon::Event(event)) => {
                self.activity += 1;
                self.events.push_back((event, packet.fds, LinkSide::One));
                Ok(None)
            }
            Ok(FromDaemon::Reply(reply)) if !self.open.is_empty() => {
                self.take_late(reply, packet.fds);
                Ok(None)
            }
            Ok(FromDaemon::Reply(reply)) => Ok(Some((reply, packet.fds))),
            Err(malformed) => Err(Fail::new(Code::Version, malformed.to_string())),
        }
    }

    /// Takes the reply to the oldest open request.
    fn take_late(&mut self, reply: Reply, fds: Vec<OwnedFd>) {
        self.activity += 1;
        match reply {
            // A late contact is a link all the same.
            Reply::Contact(peer) => {
                self.open.end_oldest(Ok(Reply::Done));
                self.events.push_back((DaemonEvent::Contact(peer), fds, LinkSide::Zero));
            }
            Reply::Area(AreaReply::Joined { info, index }) => {
                self.open.end_oldest(Ok(Reply::Done));
                self.late_areas.push(LateArea { info, index, fds, events: Vec::new() });
            }
            // The caller never learned of it, and nobody else allocates there.
            Reply::Area(AreaReply::Extent(Extent { offset, .. })) => {
                let area = self.open.end_oldest_extent();
                let release = |area| Request::Area(AreaRequest::Release { area, offset });
                self.returns.extend(area.map(release));
            }
            reply @ Reply::CopyGate { .. } => {
                let unwanted = self.open.end_oldest(Ok(reply));
                self.gate_memory = fds.into_iter().next().filter(|_| unwanted.is_none());
            }
            reply => {
                let ended = answered((reply, fds)).map(|(reply, _)| reply);
                let unwanted = self.open.end_oldest(ended);
                self.note_unwanted(unwanted);
            }
        }
    }

    /// Whether a gate may be requested now. A request would end an earlier one that waits, and
    /// there is room for one bounce buffer.
    pub(crate) fn may_begin_gate(&self) -> bool {
        !self.open.any_wanted() && self.gate_memory.is_none()
    }

    /// The bounce buffer of the gate for which a request was polled.
    pub(crate) fn take_gate_memory(&mut self) -> Option<OwnedFd> {
        self.gate_memory.take()
    }

    /// The next event, if there is one. Never waits.
    pub(crate) fn next_event(&mut self) -> Result<Option<EventFrame>, Fail> {
        loop {
            if let Some(event) = self.next_buffered_event() {
                self.activity += 1;
                return Ok(Some(event));
            }
            match self.read_one_event()? {
                true => {}
                false => {
                    self.give_back();
                    return Ok(None);
                }
            }
        }
    }

    /// The queued events about areas, ahead of all others. Never waits.
    pub(crate) fn take_area_events(&mut self) -> Vec<(AreaEvent, Vec<OwnedFd>)> {
        while let Ok(true) = self.read_one_event() {}
        let mut taken = Vec::new();
        for (event, fds, side) in std::mem::take(&mut self.events) {
            match event {
                DaemonEvent::Area(event) => taken.push((event, fds)),
                other => self.events.push_back((other, fds, side)),
            }
        }
        taken
    }

    /// The memory of an area that the daemon gave after its request was given up.
    pub(crate) fn take_late_area(&mut self) -> Option<LateArea> {
        while let Ok(true) = self.read_one_event() {}
        self.late_areas.pop()
    }

    /// Keeps an event of an area that is not attached, if this process may still map the area.
    pub(crate) fn keep_for_late_area(&mut self, id: u32, event: AreaEvent, fds: Vec<OwnedFd>) {
        if let Some(late) = self.late_areas.iter_mut().find(|late| late.info.area == id) {
            late.events.push((event, fds));
        }
    }

    /// The next event that was read before. An endpoint has no event most of the time, so an empty
    /// queue keeps no memory.
    pub(crate) fn next_buffered_event(&mut self) -> Option<EventFrame> {
        let event = self.events.pop_front();
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
        event
    }

    /// Whether events were read that nobody has taken.
    #[inline]
    pub(crate) fn has_queued_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// A number that changes whenever an event or a late reply is read, or an event is taken.
    pub(crate) fn activity(&self) -> u64 {
        self.activity
    }

    /// Queues a reply as the latest event.
    pub(crate) fn requeue(&mut self, event: EventFrame) {
        self.events.push_back(event);
    }

    /// Queues an event again, as the next one.
    pub(crate) fn put_back(&mut self, event: EventFrame) {
        self.activity += 1;
        self.events.push_front(event);
    }

    /// Takes over the unread events of the connection to the former daemon. They come first.
    pub(crate) fn inherit(&mut self, former: &mut Self) {
        self.activity += former.activity + 1;
        former.events.append(&mut self.events);
        std::mem::swap(&mut self.events, &mut former.events);
    }

    /// Peers whose links are queued as events.
    pub(crate) fn unread_contacts(&self) -> impl Iterator<Item = &PeerInfo> + '_ {
        self.events.iter().filter_map(|(event, ..)| match event {
            DaemonEvent::Contact(peer) => Some(peer),
            _ => None,
        })
    }

    fn read_one_event(&mut self) -> Result<bool, Fail> {
        // Compare both, not their sum: a late contact leaves one and joins the other.
        let before = (self.events.len(), self.open.count());
        let answer = self.read()?;
        // A reply that no request waits for is a mistake of the daemon; drop it.
        Ok(answer.is_some() || (self.events.len(), self.open.count()) != before)
    }

    /// Whether the daemon has closed its end of the socket.
    pub(crate) fn is_closed(&mut self) -> bool {
        // Read the frames from before the close first.
        while let Ok(true) = m3ipc_sys::wait_readable(&[self.socket.as_fd()], 0) {
            if let Err(fail) = self.read() {
                self.closed = fail.code == Code::NotConn;
                return self.closed;
            }
        }
        false
    }

    /// Whether a look has found the connection closed. It stays readable then.
    pub(crate) fn is_known_closed(&self) -> bool {
        self.closed
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn answered((reply, fds): (Reply, Vec<OwnedFd>)) -> Result<(Reply, Vec<OwnedFd>), Fail> {
    match reply {
        Reply::Refused(refusal) => {
            let code = Code::from_number(refusal.code).unwrap_or(Code::BadRequest);
            Err(Fail::new(code, refusal.why))
        }
        other => Ok((other, fds)),
    }
}

#[cfg(test)]
mod tests;
