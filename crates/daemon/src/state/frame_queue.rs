//! The frames that wait for a member that does not read.
//!
//! Other members cause most events, so none of them may fill this queue. Each event has a key: its
//! kind and its source. A queue holds one event per key: a newer event replaces or joins the queued
//! one, in its place or behind all, and the end of a thing removes its queued begin. The length of
//! the queue is therefore bounded by the links, areas and peers of its member, whose quotas the
//! requesters pay.
//!
//! Answers, and the events of a member's own requests, have no key and keep their place. Later
//! events join no event before them. Their number is bounded, since the daemon serves no requests
//! of a member that does not read.

use super::member_fd::MemberFd;
use m3ipc_wire::{AreaEvent, DaemonEvent, FromDaemon, TraceEvent};
use std::collections::{BTreeMap, HashMap, HashSet};

use std::rc::Rc;

/// Frames without keys that may wait. More of them break the connection.
const OWN_FRAMES_MAX: usize = 65_536;
/// The length of a queue up to which the notifications of sources that ended stay in it.
const LEFT_MAX: usize = 1024;

/// The kind and the source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum EventKey {
    Contact(i32),
    Died(i32),
    CopyGate(i32),
    Notified(i32),
    NotifiedLater(i32),
    Allowed(i32),
    Traps,
    Wakeup,
    Unbound,
    Ended,
    Member(u32, u16),
    Expected(u32, u16),
    Left(u32, u16),
    Extent(u32, u64),
    ExtentGone(u32, u64),
    FindOrphans(u32),
    RoomWanted(u32),
    TraceOn,
    TraceOff,
    Ring(i32),
    RingGone(i32),
}

impl EventKey {
    /// The key of an event; `None` if only the member itself can cause it.
    fn of(event: &DaemonEvent) -> Option<Self> {
        Some(match event {
            // The proxy has to see each bind and each end.
            DaemonEvent::Ready { .. } | DaemonEvent::Nodes(_) => return None,
            DaemonEvent::Contact(info) => Self::Contact(info.address),
            DaemonEvent::Died(peer) | DaemonEvent::Lost(peer) | DaemonEvent::Moved(peer) => {
                Self::Died(*peer)
            }
            DaemonEvent::CopyGate { peer, .. } => Self::CopyGate(*peer),
            DaemonEvent::Notified { source, .. } => Self::Notified(*source),
            DaemonEvent::Allowed { address, .. } => Self::Allowed(*address),
            DaemonEvent::Traps(_) => Self::Traps,
            DaemonEvent::Wakeup => Self::Wakeup,
            DaemonEvent::Unbound => Self::Unbound,
            DaemonEvent::Ended => Self::Ended,
            DaemonEvent::Area(event) => Self::of_area(event),
            DaemonEvent::Trace(TraceEvent::On { .. }) => Self::TraceOn,
            DaemonEvent::Trace(TraceEvent::Off) => Self::TraceOff,
            DaemonEvent::Trace(TraceEvent::Ring { address, .. }) => Self::Ring(*address),
            DaemonEvent::Trace(TraceEvent::Gone { address }) => Self::RingGone(*address),
        })
    }

    fn of_area(event: &AreaEvent) -> Self {
        match *event {
            AreaEvent::Member { area, index, .. } => Self::Member(area, index),
            AreaEvent::Expected { area, index, .. } => Self::Expected(area, index),
            AreaEvent::Left { area, index, .. } => Self::Left(area, index),
            AreaEvent::Extent { area, extent } => Self::Extent(area, extent.offset),
            AreaEvent::ExtentGone { area, offset } => Self::ExtentGone(area, offset),
            AreaEvent::FindOrphans { area } => Self::FindOrphans(area),
            AreaEvent::RoomWanted { area } => Self::RoomWanted(area),
        }
    }

    /// The event whose effect this one undoes, if the member has not seen it yet.
    const fn undoes(self) -> Option<Self> {
        match self {
            Self::ExtentGone(area, offset) => Some(Self::Extent(area, offset)),
            Self::RingGone(address) => Some(Self::Ring(address)),
            _ => None,
        }
    }

    /// Whether an event takes back what another one of the queue says, which may be behind an older
    /// event of this key.
    const fn must_be_last(self) -> bool {
        matches!(self, Self::TraceOff | Self::Allowed(_))
    }
}

/// A frame in the queue, with its descriptors.
#[derive(Debug)]
pub(crate) struct QueuedFrame {
    key: Option<EventKey>,
    /// The bits and the time of a [`DaemonEvent::Notified`].
    notified: (u64, u64),
    pub(crate) frame: Vec<u8>,
    pub(crate) fds: Vec<Rc<MemberFd>>,
}

impl QueuedFrame {
    /// An answer, or an event of the member's own request.
    pub(crate) fn own(frame: &FromDaemon, fds: Vec<Rc<MemberFd>>) -> Self {
        Self { key: None, notified: (0, 0), frame: m3ipc_wire::encode(frame), fds }
    }

    fn event(key: Option<EventKey>, event: DaemonEvent, fds: Vec<Rc<MemberFd>>) -> Self {
        let notified = match event {
            DaemonEvent::Notified { bits, at_ns, .. } => (bits, at_ns),
            _ => (0, 0),
        };
        Self { key, notified, frame: m3ipc_wire::encode(&FromDaemon::Event(event)), fds }
    }
}

/// The result of [`FrameQueue::admit`].
#[derive(Debug)]
pub(crate) enum Admission {
    /// Another frame of the queue covers this event, or undid it.
    Covered,
    /// Send or queue this frame.
    Frame(QueuedFrame),
}

/// The queue of one connection.
#[derive(Debug, Default)]
pub(crate) struct FrameQueue {
    frames: BTreeMap<u64, QueuedFrame>,
    next: u64,
    own: usize,
    /// The queued events behind the last frame without a key.
    by_key: HashMap<EventKey, u64>,
    /// The peers of whose links the member knows.
    known_peers: HashSet<i32>,
}

impl FrameQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Takes the first frame, with its place.
    pub(crate) fn pop_front(&mut self) -> Option<(u64, QueuedFrame)> {
        let (at, frame) = self.frames.pop_first()?;
        match frame.key {
            Some(key) if self.by_key.get(&key) == Some(&at) => drop(self.by_key.remove(&key)),
            Some(_) => {}
            None => self.own -= 1,
        }
        Some((at, frame))
    }

    /// Puts a frame back that could not be sent.
    pub(crate) fn put_back(&mut self, (at, frame): (u64, QueuedFrame)) {
        match frame.key {
            Some(key) if self.own == 0 => drop(self.by_key.entry(key).or_insert(at)),
            Some(_) => {}
            None => self.own += 1,
        }
        self.frames.insert(at, frame);
    }

    /// Notes which links the member learns of by this frame.
    pub(crate) fn note_sent(&mut self, frame: &QueuedFrame) {
        match frame.key {
            Some(EventKey::Contact(peer)) => drop(self.known_peers.insert(peer)),
            Some(EventKey::Died(peer)) => drop(self.known_peers.remove(&peer)),
            _ => {}
        }
    }

    /// Notes that the member knows of the link with a peer without an event of this connection.
    pub(crate) fn know_peer(&mut self, peer: i32) {
        self.known_peers.insert(peer);
    }

    /// Joins an event with those in the queue, or puts it behind them.
    pub(crate) fn admit(&mut self, event: DaemonEvent, fds: Vec<Rc<MemberFd>>) -> Admission {
        let key = EventKey::of(&event);
        let Some(key) = key else { return Admission::Frame(QueuedFrame::event(key, event, fds)) };
        if let EventKey::Died(peer) = key
            && self.drop_events_of(peer)
        {
            return Admission::Covered;
        }
        if key.undoes().is_some_and(|begin| self.remove(begin)) {
            return Admission::Covered;
        }
        if key.must_be_last() {
            self.remove(key);
        }
        let key = self.place_of(key);
        let Some(queued) = self.by_key.get(&key).and_then(|at| self.frames.get_mut(at)) else {
            return Admission::Frame(QueuedFrame::event(Some(key), event, fds));
        };
        match event {
            // The queued event has a bounce buffer, which a newer request without one can use.
            DaemonEvent::CopyGate { bounce_buffer: false, .. } => {}
            DaemonEvent::Notified { source, bits, by, .. } => {
                let (queued_bits, at_ns) = queued.notified;
                let bits = bits | queued_bits;
                let event = DaemonEvent::Notified { source, bits, by, at_ns };
                *queued = QueuedFrame::event(Some(key), event, fds);
            }
            _ => *queued = QueuedFrame::event(Some(key), event, fds),
        }
        Admission::Covered
    }

    /// The key under which an event is queued. The first notification of a source ends the receive
    /// of a member that waits, so later ones join each other and not the first.
    fn place_of(&self, key: EventKey) -> EventKey {
        match key {
            EventKey::Notified(source) if self.by_key.contains_key(&key) => {
                EventKey::NotifiedLater(source)
            }
            _ => key,
        }
    }

    /// Removes the events of a peer that has died. `true` if the member then needs no report of the
    /// death: it never knew of the link.
    fn drop_events_of(&mut self, peer: i32) -> bool {
        for key in [EventKey::CopyGate(peer), EventKey::Allowed(peer)] {
            self.remove(key);
        }
        // The daemon has accepted notifications, which arrive without their source too.
        if self.frames.len() > LEFT_MAX {
            self.remove(EventKey::Notified(peer));
            self.remove(EventKey::NotifiedLater(peer));
        }
        self.remove(EventKey::Contact(peer)) && !self.known_peers.contains(&peer)
    }

    fn remove(&mut self, key: EventKey) -> bool {
        self.by_key.remove(&key).and_then(|at| self.frames.remove(&at)).is_some()
    }

    /// Adds a frame behind all others; `false` if the member's own frames fill the queue.
    pub(crate) fn push(&mut self, frame: QueuedFrame) -> bool {
        if frame.key.is_none() && self.own >= OWN_FRAMES_MAX {
            return false;
        }
        match frame.key {
            Some(key) => drop(self.by_key.insert(key, self.next)),
            None => {
                self.own += 1;
                self.by_key.clear();
            }
        }
        self.frames.insert(self.next, frame);
        self.next += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc_wire::{PeerInfo, Reply};

    fn contact(address: i32) -> DaemonEvent {
        DaemonEvent::Contact(PeerInfo {
            address,
            pid: 1,
            life: 1,
            uid: 1,
            gid: 1,
            index_here: 0,
            index_there: 0,
            may_send: 0,
            may_receive: 0,
        })
    }

    fn add(queue: &mut FrameQueue, event: DaemonEvent) {
        if let Admission::Frame(frame) = queue.admit(event, Vec::new()) {
            assert!(queue.push(frame));
        }
    }

    /// The frames that wait.
    fn frames(queue: &mut FrameQueue) -> Vec<FromDaemon> {
        let all = std::iter::from_fn(|| {
            let (_, queued) = queue.pop_front()?;
            queue.note_sent(&queued);
            Some(m3ipc_wire::decode(&queued.frame).expect("the daemon's own"))
        });
        all.collect()
    }

    #[test]
    fn requests_of_one_peer_take_one_place() {
        let mut queue = FrameQueue::default();
        for _ in 0..1_000 {
            add(&mut queue, DaemonEvent::CopyGate { peer: 7, bounce_buffer: false });
            add(&mut queue, contact(7));
            add(&mut queue, DaemonEvent::Area(AreaEvent::RoomWanted { area: 1 }));
        }
        add(&mut queue, DaemonEvent::CopyGate { peer: 8, bounce_buffer: false });
        assert_eq!(frames(&mut queue).len(), 4);
    }

    #[test]
    fn a_bounce_buffer_is_not_lost_to_a_later_request() {
        let mut queue = FrameQueue::default();
        add(&mut queue, DaemonEvent::CopyGate { peer: 7, bounce_buffer: true });
        add(&mut queue, DaemonEvent::CopyGate { peer: 7, bounce_buffer: false });
        let gate = DaemonEvent::CopyGate { peer: 7, bounce_buffer: true };
        assert_eq!(frames(&mut queue), [FromDaemon::Event(gate)]);
    }

    #[test]
    fn notifications_of_one_source_join_all_but_the_first() {
        let mut queue = FrameQueue::default();
        let event = |bits, at_ns| DaemonEvent::Notified { source: 7, bits, by: None, at_ns };
        for (bits, at_ns) in [(1, 10), (2, 20), (4, 30)] {
            add(&mut queue, event(bits, at_ns));
        }
        let expected = [event(1, 10), event(6, 20)].map(FromDaemon::Event);
        assert_eq!(frames(&mut queue), expected);
    }

    #[test]
    fn notifications_of_the_dead_stay_in_a_bounded_number() {
        let mut queue = FrameQueue::default();
        let sources = 0..3 * i32::try_from(LEFT_MAX).expect("small");
        for source in sources {
            add(&mut queue, DaemonEvent::Notified { source, bits: 1, by: None, at_ns: 1 });
            add(&mut queue, DaemonEvent::Died(source));
        }
        let all = frames(&mut queue);
        let is_note =
            |it: &&FromDaemon| matches!(it, FromDaemon::Event(DaemonEvent::Notified { .. }));
        assert_eq!(all.iter().filter(is_note).count(), LEFT_MAX / 2);
    }

    #[test]
    fn a_death_removes_a_contact_that_the_member_has_not_got() {
        let mut queue = FrameQueue::default();
        add(&mut queue, contact(7));
        add(&mut queue, DaemonEvent::CopyGate { peer: 7, bounce_buffer: false });
        add(&mut queue, DaemonEvent::Died(7));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_death_is_reported_if_only_the_renewed_contact_is_queued() {
        let mut queue = FrameQueue::default();
        add(&mut queue, contact(7));
        assert_eq!(frames(&mut queue).len(), 1);
        add(&mut queue, contact(7));
        add(&mut queue, DaemonEvent::Died(7));
        assert_eq!(frames(&mut queue), [FromDaemon::Event(DaemonEvent::Died(7))]);
    }

    #[test]
    fn a_later_end_of_a_trace_is_behind_its_begin() {
        let mut queue = FrameQueue::default();
        let events = [TraceEvent::Off, TraceEvent::On { sharp: false }, TraceEvent::Off];
        for event in events {
            add(&mut queue, DaemonEvent::Trace(event));
        }
        let expected = events[1..].iter().map(|it| FromDaemon::Event(DaemonEvent::Trace(*it)));
        assert_eq!(frames(&mut queue), expected.collect::<Vec<_>>());
    }

    #[test]
    fn later_privileges_are_behind_a_renewed_contact() {
        let mut queue = FrameQueue::default();
        let allowed = |may_send| DaemonEvent::Allowed { address: 7, may_send, may_receive: 0 };
        for event in [allowed(0), contact(7), allowed(1)] {
            add(&mut queue, event);
        }
        assert_eq!(frames(&mut queue), [contact(7), allowed(1)].map(FromDaemon::Event));
    }

    #[test]
    fn an_answer_keeps_its_place() {
        let mut queue = FrameQueue::default();
        add(&mut queue, DaemonEvent::Unbound);
        assert!(queue.push(QueuedFrame::own(&FromDaemon::Reply(Reply::Done), Vec::new())));
        add(&mut queue, DaemonEvent::Unbound);
        add(&mut queue, DaemonEvent::Unbound);
        let event = || FromDaemon::Event(DaemonEvent::Unbound);
        assert_eq!(frames(&mut queue), [event(), FromDaemon::Reply(Reply::Done), event()]);
    }

    #[test]
    fn an_extent_that_came_and_went_is_no_event() {
        let mut queue = FrameQueue::default();
        let extent = m3ipc_abi::Extent {
            allocator: 1,
            offset: 4096,
            bytes: 4096,
            first_number: 0,
            numbers: 64,
            generation: 1,
        };
        for _ in 0..100 {
            add(&mut queue, DaemonEvent::Area(AreaEvent::ExtentGone { area: 1, offset: 4096 }));
            add(&mut queue, DaemonEvent::Area(AreaEvent::Extent { area: 1, extent }));
        }
        assert_eq!(frames(&mut queue).len(), 2);
    }
}
