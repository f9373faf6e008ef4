//! The session with one peer: greeting, resumption, heartbeat, silence, the two lanes.
//!
//! A session has a number on each side. Both numbers are burnt when either side declares the
//! session dead, and no packet of a burnt session is accepted.
//!
//! | state | a connection breaks | a greeting of the same session | grace or silence over |
//! |---|---|---|---|
//! | Down | stays | Up (new session) | |
//! | Up | Suspended | Up (resumed) | Down; the number is burnt |
//! | Suspended | stays | Up (resumed) | Down; the number is burnt |
//!
//! A peer whose proxy has surely ended is Down without the rest of the grace.
//!
//! A greeting of a later session or incarnation ends the known session first.

use bytes::Bytes;

use crate::faults::{Fault, Planted};
use crate::ids::{ConnectionId, Incarnation, NodeId, VmId};
use crate::lane::{Arrival, LaneLimits, LaneState, Outgoing};
use crate::outcome::Failure;
use crate::owners::{Admission, SlotRange};
use crate::packet::{
    CLAIMS_MAX, Expected, Frame, Hello, Lane, MESSAGE_BODY_MAX_BYTES, Packet, RefusalCode,
    SessionPair, VERSIONS,
};
use crate::settings::Settings;
use crate::transmit::Transmit;

/// The window of each lane: messages, bulk.
const LANES: [LaneLimits; 2] = [
    LaneLimits { frames: 1024, bytes: 2 * 1024 * 1024 },
    // Small: a message waits behind these bytes.
    LaneLimits { frames: 64, bytes: 512 * 1024 },
];

/// Frames that may wait behind a full window, beside those that announce the endpoints of this node
/// at the begin of a session. Calls and their ends have limits of their own; this is room for the
/// binds and the deaths of many endpoints.
const QUEUED_FRAMES_MAX: usize = 65_536;

/// Sessions that may begin on one connection. Two nodes that find each other need two; each one
/// costs the announcement of all endpoints.
const SESSIONS_OF_CONNECTION: u8 = 8;

impl Settings {
    /// The most bytes that the machine keeps for one peer: what its limits add up to. The frames
    /// that announce the endpoints of this node come on top.
    #[must_use]
    pub const fn memory_max_bytes(&self) -> u64 {
        let limits = &self.limits;
        let lanes = 2 * (LANES[0].bytes + LANES[1].bytes) as u64 + 96 * QUEUED_FRAMES_MAX as u64;
        let body = MESSAGE_BODY_MAX_BYTES as u64;
        let calls = 2 * limits.calls as u64 + limits.waiting as u64;
        let pieced = 3 * (limits.pieced_bytes + crate::PIECED_MAX_BYTES as u64);
        let pieced = pieced + limits.answers_max_bytes();
        lanes + pieced + calls * (body + 512) + limits.notifications as u64 * 128
    }
}

/// What both sides of each session of a node have in common.
#[derive(Clone, Debug)]
pub struct Identity {
    pub cluster: String,
    pub node: NodeId,
    pub incarnation: Incarnation,
    pub claims: Vec<(VmId, SlotRange)>,
    pub settings: Settings,
    pub planted: Planted,
}

/// What a session tells the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A new session began; the peer admits so much.
    Begun { admits: (u32, u32) },
    /// The session ended.
    Ended(Failure),
    /// The driver is to close a connection.
    Close(ConnectionId),
    /// A connection was refused, by this side or by the peer.
    Refused { by_peer: bool, incarnation: Incarnation, why: RefusalCode },
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    id: ConnectionId,
    /// When the next greeting is due, while the peer has not answered.
    hello_ns: Option<u64>,
    refusal: Option<RefusalCode>,
    /// Sessions that began on it.
    begun: u8,
    /// Whether a greeting has left on it.
    has_greeted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down,
    Up,
    Suspended { since_ns: u64 },
}

/// The session with one peer.
#[derive(Debug)]
pub struct Session {
    peer: NodeId,
    number: u64,
    partner: Option<(Incarnation, u64)>,
    newest: Incarnation,
    state: State,
    connection: Option<Connection>,
    /// A later connection, which has not greeted yet.
    candidate: Option<Connection>,
    lanes: [LaneState; 2],
    /// Frames that announce what lived here when the session began.
    announced: usize,
    heard_ns: u64,
    beat_ns: u64,
    ack_ns: Option<u64>,
    events: Vec<SessionEvent>,
}

fn lanes(planted: Planted) -> [LaneState; 2] {
    LANES.map(|limits| LaneState::new(limits, planted))
}

impl Session {
    pub fn new(peer: NodeId, planted: Planted) -> Self {
        Self {
            peer,
            number: 1,
            partner: None,
            newest: Incarnation(0),
            state: State::Down,
            connection: None,
            candidate: None,
            lanes: lanes(planted),
            announced: 0,
            heard_ns: 0,
            beat_ns: 0,
            ack_ns: None,
            events: Vec::new(),
        }
    }

    pub fn take_events(&mut self) -> Vec<SessionEvent> {
        std::mem::take(&mut self.events)
    }

    /// Whether the session lives: it has begun and has not ended.
    pub fn lives(&self) -> bool {
        self.state != State::Down
    }

    /// Whether there is neither a session nor a connection that may begin one.
    pub fn is_gone(&self) -> bool {
        self.state == State::Down && self.connection.is_none() && self.candidate.is_none()
    }

    /// When the peer was heard last.
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// The incarnation of the peer, while the session lives.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.partner.map(|(incarnation, _)| incarnation)
    }

    pub fn lane(&mut self, lane: Lane) -> &mut LaneState {
        &mut self.lanes[lane as usize]
    }

    pub fn bytes(&self) -> u64 {
        self.lanes.iter().map(LaneState::bytes).sum()
    }

    /// Whether neither lane keeps a frame.
    pub fn is_settled(&self) -> bool {
        self.lanes.iter().all(LaneState::is_empty)
    }

    /// Queues a frame. A peer that acknowledges so little that the queue overflows is lost.
    pub fn push(&mut self, frame: Frame, body: impl Into<Bytes>, own: &Identity) {
        if !self.lives() {
            return;
        }
        let most = QUEUED_FRAMES_MAX + self.announced;
        let lane = self.lane(frame.lane());
        lane.push(Outgoing { frame, body: body.into() });
        if lane.queued() > most {
            self.end(Failure::LinkDown, own);
            self.drop_connection();
        }
    }

    /// So many frames announce what lives here, now that the session has begun.
    pub fn announce(&mut self, frames: usize) {
        self.announced = frames;
    }

    /// Ends of calls that the peer has not acknowledged.
    pub fn ends(&self) -> usize {
        self.lanes.iter().map(LaneState::ends).sum()
    }

    /// Whether the session can transmit now.
    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }

    pub fn connected(&mut self, now_ns: u64, id: ConnectionId) {
        let connection =
            Connection { id, hello_ns: Some(now_ns), refusal: None, begun: 0, has_greeted: false };
        if self.connection.is_none() {
            self.connection = Some(connection);
        } else if let Some(earlier) = self.candidate.replace(connection) {
            self.events.push(SessionEvent::Close(earlier.id));
        }
    }

    pub fn disconnected(&mut self, now_ns: u64, id: ConnectionId) {
        if self.candidate.is_some_and(|it| it.id == id) {
            self.candidate = None;
        }
        if self.connection.is_some_and(|it| it.id == id) {
            self.connection = self.candidate.take();
            if self.state == State::Up {
                self.state = State::Suspended { since_ns: now_ns };
            }
        }
    }

    /// The peer's proxy has ended: no later connection can resume the session.
    pub fn gone(&mut self, own: &Identity) {
        let has_none = self.connection.is_none() && self.candidate.is_none();
        if has_none && matches!(self.state, State::Suspended { .. }) {
            self.end(Failure::LinkDown, own);
        }
    }

    /// This proxy did not run for some time: the peer is not to blame for its silence.
    pub fn forgive(&mut self, gap_ns: u64) {
        self.heard_ns = self.heard_ns.saturating_add(gap_ns);
        if let State::Suspended { since_ns } = &mut self.state {
            *since_ns = since_ns.saturating_add(gap_ns);
        }
    }

    /// When [`Session::tick`] has something to do.
    pub fn deadline_ns(&self, own: &Identity) -> Option<u64> {
        let settings = &own.settings;
        let end = match self.state {
            _ if own.planted.has(Fault::SilenceIgnored) => None,
            State::Down => None,
            State::Up => Some(self.heard_ns.saturating_add(settings.silence_ns)),
            State::Suspended { since_ns } => Some(self.grace_end_ns(since_ns, settings)),
        };
        let repeats = self.lanes.iter().filter_map(|lane| lane.repeat_at_ns(settings.resend_ns));
        let up = (self.state == State::Up).then_some(()).map(|()| {
            repeats.chain(self.ack_ns).chain([self.beat_ns]).min().unwrap_or(self.beat_ns)
        });
        let hellos = [self.connection, self.candidate].into_iter().flatten();
        hellos.filter_map(|it| it.hello_ns).chain(end).chain(up).min()
    }

    /// The end of the grace. A connection that ended for silence has used most of it.
    fn grace_end_ns(&self, since_ns: u64, settings: &Settings) -> u64 {
        let of_silence = self.heard_ns.saturating_add(settings.silence_ns);
        since_ns.saturating_add(settings.grace_ns).min(of_silence)
    }

    /// Ends what has waited too long, and repeats what may be lost.
    pub fn tick(&mut self, now_ns: u64, own: &Identity) {
        let settings = &own.settings;
        let over = match self.state {
            State::Down => false,
            State::Up => now_ns >= self.heard_ns.saturating_add(settings.silence_ns),
            State::Suspended { since_ns } => now_ns >= self.grace_end_ns(since_ns, settings),
        };
        if over && !own.planted.has(Fault::SilenceIgnored) {
            self.end(Failure::LinkDown, own);
            self.drop_connection();
        }
        for lane in &mut self.lanes {
            if lane.repeat_at_ns(settings.resend_ns).is_some_and(|at| now_ns >= at) {
                lane.repeat(now_ns);
            }
        }
    }

    /// Ends the session: its number is burnt.
    fn end(&mut self, why: Failure, own: &Identity) {
        if self.state == State::Down && self.partner.is_none() {
            return;
        }
        self.state = State::Down;
        self.partner = None;
        if !own.planted.has(Fault::NumberKept) {
            self.number += 1;
        }
        self.lanes = lanes(own.planted);
        self.ack_ns = None;
        self.events.push(SessionEvent::Ended(why));
    }

    fn drop_connection(&mut self) {
        if let Some(connection) = std::mem::replace(&mut self.connection, self.candidate.take()) {
            self.events.push(SessionEvent::Close(connection.id));
        }
    }

    /// The peer broke the rules: session and connection end.
    pub fn broke(&mut self, own: &Identity) {
        self.end(Failure::Broke, own);
        self.drop_connection();
    }

    fn refuse(&mut self, id: ConnectionId, incarnation: Incarnation, why: RefusalCode) {
        self.events.push(SessionEvent::Refused { by_peer: false, incarnation, why });
        for connection in [&mut self.connection, &mut self.candidate].into_iter().flatten() {
            if connection.id == id {
                connection.refusal = Some(why);
            }
        }
    }

    /// The peer refused a connection.
    pub fn refused(&mut self, now_ns: u64, id: ConnectionId, why: RefusalCode) {
        let incarnation = self.newest;
        self.events.push(SessionEvent::Refused { by_peer: true, incarnation, why });
        self.events.push(SessionEvent::Close(id));
        self.disconnected(now_ns, id);
    }

    /// A greeting on a connection. `claims_fit`: the registry gives the peer the slots it claims.
    pub fn hello(
        &mut self,
        now_ns: u64,
        id: ConnectionId,
        hello: &Hello,
        claims_fit: bool,
        own: &Identity,
    ) {
        let both = [self.connection, self.candidate].into_iter().flatten();
        let Some(connection) = both.into_iter().find(|it| it.id == id) else { return };
        let incarnation = hello.incarnation;
        if hello.versions.0 > VERSIONS.1 || hello.versions.1 < VERSIONS.0 {
            return self.refuse(id, incarnation, RefusalCode::Version);
        }
        if (hello.from, hello.to, &hello.cluster) != (self.peer, own.node, &own.cluster) {
            return self.refuse(id, incarnation, RefusalCode::Identity);
        }
        if !claims_fit {
            return self.refuse(id, incarnation, RefusalCode::Claims);
        }
        let is_mine = hello.partner == Some((own.incarnation, self.number));
        let other = (hello.incarnation, hello.session);
        if connection.begun >= SESSIONS_OF_CONNECTION && self.partner != Some(other) {
            return self.refuse(id, incarnation, RefusalCode::Broke);
        }
        match self.partner {
            Some(known) if known == other && (is_mine || hello.partner.is_none()) => {
                // Each side may use the other one's candidate: two connections came in another
                // order, and their first greetings are lost. The lower side greets once more.
                let may_cross =
                    own.node < self.peer && self.candidate.is_some_and(|it| it.id != id);
                self.bind(now_ns, id, hello, false, own);
                if may_cross {
                    self.greet(now_ns, id);
                }
                return;
            }
            Some(known) => {
                let on_other = self.connection.is_some_and(|it| it.id != id);
                let lives = self.state == State::Up
                    && on_other
                    && now_ns < self.heard_ns.saturating_add(own.settings.suspect_ns);
                let planted = own.planted.has(Fault::IncarnationIgnored);
                let same = planted || known.0 == incarnation;
                let known_incarnation = if same { incarnation } else { known.0 };
                match Admission::of(known_incarnation, lives, incarnation) {
                    Admission::Same if hello.session < known.1 => return,
                    Admission::Same if planted && hello.session == known.1 => {
                        return self.bind(now_ns, id, hello, false, own);
                    }
                    Admission::Same => self.end(Failure::LinkDown, own),
                    Admission::Successor => self.end(Failure::Rebooted, own),
                    Admission::Stale => return self.refuse(id, incarnation, RefusalCode::Stale),
                    Admission::Second => {
                        return self.refuse(id, incarnation, RefusalCode::SecondIncarnation);
                    }
                }
            }
            None if incarnation < self.newest => {
                return self.refuse(id, incarnation, RefusalCode::Stale);
            }
            None => {}
        }
        let is_mine = hello.partner == Some((own.incarnation, self.number));
        if is_mine || hello.partner.is_none() {
            self.bind(now_ns, id, hello, true, own);
        } else {
            // The peer continues a session that is burnt here: it has to learn the new number.
            self.greet(now_ns, id);
        }
    }

    /// Sends a greeting on a connection.
    fn greet(&mut self, now_ns: u64, id: ConnectionId) {
        for connection in [&mut self.connection, &mut self.candidate].into_iter().flatten() {
            if connection.id == id {
                connection.hello_ns = Some(now_ns);
            }
        }
    }

    /// Begins or resumes the session on a connection.
    fn bind(&mut self, now_ns: u64, id: ConnectionId, hello: &Hello, new: bool, own: &Identity) {
        if self.candidate.is_some_and(|it| it.id == id)
            && let Some(earlier) = std::mem::replace(&mut self.connection, self.candidate.take())
        {
            self.events.push(SessionEvent::Close(earlier.id));
        }
        self.partner = Some((hello.incarnation, hello.session));
        self.newest = self.newest.max(hello.incarnation);
        self.state = State::Up;
        self.heard_ns = now_ns;
        self.beat_ns = now_ns;
        let mut known = true;
        for (lane, expected) in self.lanes.iter_mut().zip(hello.expected) {
            known &= lane.resume(now_ns, expected);
        }
        if let Some(connection) = &mut self.connection {
            // The peer has begun the session if it names this side's number.
            let is_mine = hello.partner == Some((own.incarnation, self.number));
            // It resumes the session only with a greeting of this side on this connection.
            let is_done = is_mine && connection.has_greeted;
            connection.hello_ns = (!is_done).then_some(now_ns);
        }
        if let Some(connection) = &mut self.connection {
            connection.begun = connection.begun.saturating_add(u8::from(new));
        }
        if new {
            self.events.push(SessionEvent::Begun { admits: hello.admits });
        }
        if !known {
            self.broke(own);
        }
    }

    /// Whether a packet belongs to the session. Notes that the peer lives, and what it has got.
    /// `None`: the peer broke the rules.
    pub fn accept(
        &mut self,
        now_ns: u64,
        id: ConnectionId,
        pair: SessionPair,
        expected: Expected,
        own: &Identity,
    ) -> Option<bool> {
        let is_current = self.state == State::Up
            && self.connection.is_some_and(|it| it.id == id)
            && pair.to == self.number
            && self.partner.is_some_and(|(_, number)| number == pair.from);
        if !is_current {
            return Some(false);
        }
        self.heard_ns = now_ns;
        if let Some(connection) = &mut self.connection {
            connection.hello_ns = None;
        }
        for (lane, expected) in self.lanes.iter_mut().zip(expected) {
            if !lane.acknowledge(now_ns, expected) {
                self.broke(own);
                return None;
            }
        }
        Some(true)
    }

    /// A numbered frame of the session. Whether it is the next one.
    pub fn arrive(
        &mut self,
        now_ns: u64,
        lane: Lane,
        sequence: u64,
        bytes: usize,
        own: &Identity,
    ) -> bool {
        let lane = self.lane(lane);
        let arrival = lane.arrive(sequence, bytes);
        let soon = match arrival {
            Arrival::Next => lane.wants_acknowledgement(),
            Arrival::Again => true,
            Arrival::Gap => lane.is_missing(),
        };
        let wait_ns = if soon { 0 } else { own.settings.ack_delay_ns };
        let due_ns = now_ns.saturating_add(wait_ns);
        self.ack_ns = Some(self.ack_ns.map_or(due_ns, |at| at.min(due_ns)));
        arrival == Arrival::Next
    }

    /// The peer misses frames of these lanes.
    pub fn repeat(&mut self, now_ns: u64, missing: [bool; 2]) {
        for (lane, missing) in self.lanes.iter_mut().zip(missing) {
            if missing {
                lane.repeat(now_ns);
            }
        }
    }

    /// The next packet of a lane for a connection.
    pub fn transmit(&mut self, now_ns: u64, lane: Lane, own: &Identity) -> Option<Transmit> {
        if lane == Lane::Message
            && let Some(packet) = self.transmit_greeting(now_ns, own)
        {
            return Some(packet);
        }
        let id = self.connection?.id;
        let session = SessionPair { to: self.partner?.1, from: self.number };
        if self.state != State::Up {
            return None;
        }
        let expected = self.expected();
        if let Some((sequence, outgoing)) = self.lanes[lane as usize].transmit(now_ns) {
            let frame = outgoing.frame.clone();
            let packet = Packet::Data { session, lane, sequence, expected, frame };
            let transmit = Transmit::new(id, &packet, &outgoing.body);
            self.beat_ns = now_ns.saturating_add(own.settings.beat_ns);
            // A frame acknowledges; only a heartbeat asks for missing frames.
            if !self.lanes.iter().any(LaneState::is_missing) {
                self.lanes.iter_mut().for_each(|lane| _ = lane.acknowledged());
                self.ack_ns = None;
            }
            return Some(transmit);
        }
        let is_due = now_ns >= self.beat_ns || self.ack_ns.is_some_and(|at| now_ns >= at);
        if lane != Lane::Message || !is_due {
            return None;
        }
        let missing = [self.lanes[0].acknowledged(), self.lanes[1].acknowledged()];
        self.ack_ns = None;
        self.beat_ns = now_ns.saturating_add(own.settings.beat_ns);
        Some(Transmit::new(id, &Packet::Beat { session, expected, missing }, &Bytes::new()))
    }

    fn expected(&self) -> Expected {
        [self.lanes[0].expected(), self.lanes[1].expected()]
    }

    fn transmit_greeting(&mut self, now_ns: u64, own: &Identity) -> Option<Transmit> {
        let expected = self.expected();
        let (session, partner) = (self.number, self.partner);
        let both = [self.connection, self.candidate];
        let refused = both.into_iter().flatten().find_map(|it| Some((it.id, it.refusal?)));
        if let Some((id, why)) = refused {
            self.events.push(SessionEvent::Close(id));
            self.disconnected(now_ns, id);
            return Some(Transmit::new(id, &Packet::Refused(why), &Bytes::new()));
        }
        let connections = [&mut self.connection, &mut self.candidate];
        for connection in connections.into_iter().flatten() {
            let id = connection.id;
            if connection.hello_ns.is_some_and(|at| now_ns >= at) {
                // Repeated until a packet of the session shows that the peer has it.
                connection.hello_ns = Some(now_ns.saturating_add(own.settings.resend_ns));
                connection.has_greeted = true;
                let hello = Hello {
                    magic: Hello::MAGIC,
                    versions: VERSIONS,
                    cluster: own.cluster.clone(),
                    from: own.node,
                    to: self.peer,
                    incarnation: own.incarnation,
                    session,
                    partner,
                    expected,
                    admits: Hello::admits(&own.settings.limits),
                    claims: own.claims.iter().take(CLAIMS_MAX).copied().collect(),
                };
                return Some(Transmit::new(id, &Packet::Hello(hello), &Bytes::new()));
            }
        }
        None
    }
}
