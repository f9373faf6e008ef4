//! The state of all calls of one endpoint, without any I/O.
//!
//! ```text
//! call ──> waiting ──> in a train ──> taken ──> ended         requests of this endpoint
//!             │            │            │
//!             └────────────┴────────────┴──> ended: cancel, time limit, death
//! frame ──> begun ──> answer queued ──> answer taken          requests of peers
//! ```
//!
//! A request leaves `outgoing` exactly once, and only then its caller hears of its end. All numbers
//! of a peer are checked: an answer to a request that was never made ends that peer's calls.

use crate::config::Config;
use crate::error::{CallError, Fault, Reason};
use crate::frame::{self, AROUND_BYTES, Frame, Kind, Malformed};
use crate::room::Room;
use crate::stream::{FIRST_DOWN, StreamEnd, StreamHalf};
use m3ipc::{Address, Code, LONG_MAX_BYTES, Message, SendError};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

/// Requests that a client may send before the server has said more.
const FIRST_WINDOW: u64 = 64;
/// Frames without an answer that a peer may cause before it takes them, for each request of either
/// side. An honest peer causes fewer: an end, a cancel, and a grant for each
/// [`GRANT_BYTES`](crate::stream::GRANT_BYTES) of its credit.
const FRAMES_PER_REQUEST: usize = 16;

/// The result of a request.
pub(crate) type CallResult = Result<Vec<u8>, CallError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    InTrain,
    Taken,
}

/// The end of the client's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpEnd {
    Open,
    /// It goes with the request, or after the take of its train: never before the request.
    Wanted,
    /// It is in a train behind its request, or in the queue.
    Sent,
}

#[derive(Debug)]
struct Outgoing {
    place: Place,
    deadline_ns: u64,
    body: Vec<u8>,
    end: oneshot::Sender<CallResult>,
    /// Why the caller wants an early end. The driver finds out whether the request was taken.
    stop: Option<Reason>,
    stream: Option<StreamEnd>,
    up_end: UpEnd,
    /// Without a stream: the bytes of the server's stream that it was not yet granted again.
    discarded: u64,
}

#[derive(Debug)]
struct Incoming {
    bytes: usize,
    is_begun: bool,
    abort: Option<AbortHandle>,
    stream: StreamEnd,
}

/// An answer or a control frame, encoded.
#[derive(Debug)]
pub(crate) struct Queued {
    bytes: Vec<u8>,
    is_answer: bool,
    /// What its take gives back to the room.
    cost: usize,
}

/// What a posted train carries, for its end.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    requests: Vec<u64>,
    queued: Vec<Queued>,
}

/// The calls with a process at an address, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// Tells this value from earlier ones at the same address.
    pub(crate) epoch: u64,
    nonce: Option<u64>,
    next: u64,
    /// The least number of the peer's next request.
    next_incoming: u64,
    outgoing: HashMap<u64, Outgoing>,
    waiting: VecDeque<u64>,
    /// Requests in trains or taken.
    in_flight: u64,
    window: u64,
    any_stop: bool,
    queue: VecDeque<Queued>,
    /// Frames of the queue and of the posted train.
    queued: usize,
    /// Bounds the bytes of streams and answers in the queue and in the posted train.
    room: Room,
    incoming: HashMap<u64, Incoming>,
    incoming_bytes: usize,
    /// Answers that the peer has not taken.
    answers: usize,
    is_granted: bool,
    requests_lead: bool,
}

/// A request to begin.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) stream: StreamHalf,
}

/// Whether a frame of this length goes into the train: the link holds both, or it is alone.
fn fits(train: &[u8], bytes: usize) -> bool {
    train.is_empty() || train.len() + bytes <= LONG_MAX_BYTES
}

impl Peer {
    /// A train of the frames that wait, and requests within the window. `None` if nothing is to be
    /// sent now. Streams do not hold up requests: both lead in turn.
    pub(crate) fn pack(&mut self) -> Option<(Vec<u8>, Manifest)> {
        let (mut train, mut manifest) = (Vec::new(), Manifest::default());
        self.requests_lead = !self.requests_lead;
        if self.requests_lead {
            self.pack_requests(&mut train, &mut manifest);
            self.pack_queue(&mut train, &mut manifest);
        } else {
            self.pack_queue(&mut train, &mut manifest);
            self.pack_requests(&mut train, &mut manifest);
        }
        (!train.is_empty()).then_some((train, manifest))
    }

    fn pack_queue(&mut self, train: &mut Vec<u8>, manifest: &mut Manifest) {
        while self.queue.front().is_some_and(|queued| fits(train, queued.bytes.len()))
            && let Some(queued) = self.queue.pop_front()
        {
            train.extend_from_slice(&queued.bytes);
            manifest.queued.push(queued);
        }
    }

    fn pack_requests(&mut self, train: &mut Vec<u8>, manifest: &mut Manifest) {
        while self.in_flight < self.window.max(FIRST_WINDOW)
            && let Some(number) = self.waiting.front().copied()
        {
            let Some(request) = self.outgoing.get_mut(&number) else {
                // It was given up.
                self.waiting.pop_front();
                continue;
            };
            if !fits(train, AROUND_BYTES + request.body.len()) {
                break;
            }
            self.waiting.pop_front();
            let deadline = request.deadline_ns.to_le_bytes();
            frame::push(train, Kind::Request, number, &[&deadline, &request.body]);
            if request.up_end == UpEnd::Wanted {
                request.up_end = UpEnd::Sent;
                frame::push(train, Kind::UpEnd, number, &[]);
            }
            request.place = Place::InTrain;
            self.in_flight += 1;
            manifest.requests.push(number);
        }
    }

    /// The peer took a train.
    pub(crate) fn train_taken(&mut self, manifest: Manifest) {
        for number in manifest.requests {
            if let Some(request) = self.outgoing.get_mut(&number) {
                request.place = Place::Taken;
                request.body = Vec::new();
                if request.up_end == UpEnd::Wanted {
                    request.up_end = UpEnd::Sent;
                    self.queue_control(Kind::UpEnd, number, &[]);
                }
            }
        }
        self.answers -= manifest.queued.iter().filter(|queued| queued.is_answer).count();
        self.queued -= manifest.queued.len();
        self.room.give_back(manifest.queued.iter().map(|queued| queued.cost).sum());
        if std::mem::take(&mut self.any_stop) {
            self.stop_all(Place::Taken);
        }
    }

    /// A train was withdrawn: its frames wait again.
    pub(crate) fn train_withdrawn(&mut self, manifest: Manifest) {
        for number in manifest.requests.into_iter().rev() {
            // A peer may have answered a request that it did not take: that has ended.
            if let Some(request) = self.outgoing.get_mut(&number) {
                self.in_flight -= 1;
                request.place = Place::Waiting;
                if request.stream.is_some() && request.up_end == UpEnd::Sent {
                    request.up_end = UpEnd::Wanted;
                }
                self.waiting.push_front(number);
            }
        }
        manifest.queued.into_iter().rev().for_each(|queued| self.queue.push_front(queued));
        self.any_stop = false;
        self.stop_all(Place::Waiting);
    }

    /// Whether a caller wants to end a request of the posted train.
    pub(crate) fn wants_stop(&self) -> bool {
        self.any_stop
    }

    fn stop_all(&mut self, place: Place) {
        let stopped = self.outgoing.iter().filter(|(_, it)| it.place == place && it.stop.is_some());
        let numbers: Vec<u64> = stopped.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.end_stopped(number));
    }

    fn end_stopped(&mut self, number: u64) {
        let Some(request) = self.outgoing.remove(&number) else { return };
        let reason = request.stop.unwrap_or(Reason::Cancelled);
        let end = match request.place {
            Place::Waiting => CallError::NotTaken(reason),
            _ => {
                self.in_flight -= 1;
                self.queue_control(Kind::Cancel, number, &[]);
                CallError::Taken(reason)
            }
        };
        // A caller that dropped its future hears nothing.
        let _ = request.end.send(Err(end));
    }

    /// Ends all calls with this peer. What it took stays taken.
    pub(crate) fn end(&mut self, reason: &Reason) {
        for (_, request) in self.outgoing.drain() {
            let error = match request.place {
                Place::Taken => CallError::Taken(reason.clone()),
                _ => CallError::NotTaken(reason.clone()),
            };
            let _ = request.end.send(Err(error));
        }
        self.room.close();
        for (_, request) in self.incoming.drain() {
            if let Some(abort) = request.abort {
                abort.abort();
            }
        }
    }

    /// Requests of the peer that still need memory here.
    fn load(&self) -> usize {
        self.incoming.len() + self.answers
    }

    /// Applies a frame of the peer. `begin` are limits of a server that accepts requests.
    pub(crate) fn apply(
        &mut self,
        frame: &Frame<'_>,
        config: &Config,
        begin: Result<(), Refusal>,
    ) -> Result<Option<Begun>, Malformed> {
        if self.is_overfull(config) {
            return Err(Malformed);
        }
        match frame.kind {
            Kind::Request => return self.apply_request(frame, config, begin),
            Kind::Cancel => {
                if let Some(request) = self.incoming.remove(&frame.number) {
                    self.incoming_bytes -= request.bytes;
                    if let Some(abort) = request.abort {
                        abort.abort();
                    }
                }
            }
            Kind::Window => self.window = frame.number,
            Kind::Up | Kind::UpEnd | Kind::CreditDown => {
                if let Some(request) = self.incoming.get_mut(&frame.number) {
                    request.stream.apply(frame)?;
                }
            }
            Kind::Down | Kind::CreditUp => self.apply_stream(frame)?,
            Kind::Answer | Kind::Fault | Kind::Refused => self.apply_end(frame)?,
        }
        Ok(None)
    }

    fn apply_request(
        &mut self,
        frame: &Frame<'_>,
        config: &Config,
        begin: Result<(), Refusal>,
    ) -> Result<Option<Begun>, Malformed> {
        let (deadline, body) = frame.body.split_first_chunk::<8>().ok_or(Malformed)?;
        // A client that answers nothing, or sends twice what it may.
        if self.load() > 2 * config.window + 128 {
            return Err(Malformed);
        }
        // Numbers rise, so a handler never meets another request of its number.
        if frame.number < self.next_incoming {
            return Err(Malformed);
        }
        self.next_incoming = frame.number.checked_add(1).ok_or(Malformed)?;
        if !self.is_granted {
            self.is_granted = true;
            self.queue_control(Kind::Window, config.window as u64, &[]);
        }
        let has_room = self.incoming_bytes.saturating_add(body.len()) <= config.client_bytes
            && body.len() <= config.max_body_bytes;
        let begin = if has_room { begin } else { begin.and(Err(Refusal::Busy)) };
        let copy = begin.and_then(|()| frame::copied(body).ok_or(Refusal::Busy));
        let copy = match copy {
            Ok(copy) => copy,
            Err(refusal) => {
                self.queue_answer(Kind::Refused, frame.number, &[refusal as u8], 0);
                return Ok(None);
            }
        };
        self.incoming_bytes += body.len();
        let (stream, half) = StreamEnd::pair(0, FIRST_DOWN, self.room.clone());
        let incoming = Incoming { bytes: body.len(), is_begun: false, abort: None, stream };
        self.incoming.insert(frame.number, incoming);
        Ok(Some(Begun {
            epoch: self.epoch,
            number: frame.number,
            deadline_ns: u64::from_le_bytes(*deadline),
            body: copy,
            stream: half,
        }))
    }

    fn apply_end(&mut self, frame: &Frame<'_>) -> Result<(), Malformed> {
        if frame.number >= self.next {
            return Err(Malformed);
        }
        let Some(request) = self.outgoing.get(&frame.number) else {
            // A late answer to a request that was given up.
            return Ok(());
        };
        if request.place == Place::Waiting {
            return Err(Malformed);
        }
        let Some(request) = self.outgoing.remove(&frame.number) else { return Ok(()) };
        self.in_flight -= 1;
        let _ = request.end.send(match frame.kind {
            Kind::Answer => frame::copied(frame.body).ok_or_else(|| {
                let why = format!("there is no memory for an answer of {} bytes", frame.body.len());
                CallError::Taken(Reason::Link(SendError::System { code: Code::NoMem, why }))
            }),
            Kind::Fault => {
                Err(CallError::Answered(Fault::new(String::from_utf8_lossy(frame.body))))
            }
            _ => Err(CallError::NotTaken(match frame.body {
                [byte] if *byte == Refusal::ShuttingDown as u8 => Reason::ShuttingDown,
                [byte] if *byte == Refusal::TimedOut as u8 => Reason::TimedOut,
                _ => Reason::Busy,
            })),
        });
        Ok(())
    }

    /// A handler begins. `false` if its request was given up.
    pub(crate) fn begin(&mut self, number: u64) -> bool {
        self.incoming.get_mut(&number).map(|request| request.is_begun = true).is_some()
    }

    /// Notes how to end the handler of a request. `false` if the request has ended.
    pub(crate) fn set_abort(&mut self, number: u64, abort: AbortHandle) -> bool {
        self.incoming.get_mut(&number).map(|request| request.abort = Some(abort)).is_some()
    }

    /// Queues the end of a request, unless it was given up. `true` if it was queued, with the
    /// `cost` that its sender took from the room.
    pub(crate) fn answer(&mut self, number: u64, answer: Answer<'_>, cost: usize) -> bool {
        let Some(request) = self.incoming.remove(&number) else { return false };
        self.incoming_bytes -= request.bytes;
        match answer {
            Answer::Bytes(bytes) => self.queue_answer(Kind::Answer, number, bytes, cost),
            Answer::Fault(text) => self.queue_answer(Kind::Fault, number, text.as_bytes(), cost),
            Answer::Refused(refusal) => {
                self.queue_answer(Kind::Refused, number, &[refusal as u8], cost);
            }
        }
        true
    }

    /// Refuses the requests that have not begun.
    pub(crate) fn refuse_unbegun(&mut self, refusal: Refusal) {
        let unbegun = self.incoming.iter().filter(|(_, it)| !it.is_begun);
        let numbers: Vec<u64> = unbegun.map(|(number, _)| *number).collect();
        for number in numbers {
            if let Some(abort) = self.incoming.get_mut(&number).and_then(|it| it.abort.take()) {
                abort.abort();
            }
            self.answer(number, Answer::Refused(refusal), 0);
        }
    }

    /// Whether the peer has taken all that was queued for it.
    fn has_all(&self) -> bool {
        self.answers == 0 && self.queue.is_empty()
    }

    /// Notes the nonce of a train; `false` if another process sent the trains before.
    pub(crate) fn note_nonce(&mut self, nonce: u64) -> bool {
        *self.nonce.get_or_insert(nonce) == nonce
    }
}

/// Why a server does not begin a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Busy = 1,
    ShuttingDown = 2,
    TimedOut = 3,
}

/// The end of a request of a peer.
pub(crate) enum Answer<'a> {
    Bytes(&'a [u8]),
    Fault(&'a str),
    Refused(Refusal),
}

/// A wait for a name.
pub(crate) type NameAsked = (String, oneshot::Sender<Result<Address, m3ipc::WaitError>>);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) peers: HashMap<i32, Peer>,
    /// The epoch of the newest peer, or the key of the newest plain request.
    epoch: u64,
    /// The first number of requests to new peers. Numbers never restart: a peer may live on after
    /// its calls ended here, and knows the earlier numbers.
    first: u64,
    pub(crate) names: Vec<NameAsked>,
    /// Answers to clients that wait in `Endpoint::call` or `sendrec`.
    pub(crate) plain_answers: Vec<(Message, Result<Vec<u8>, Fault>)>,
    /// The open request of each of these clients, by the client's address. An answer goes to the
    /// request that its client waits for now, so only the newest request may give one.
    plain_open: HashMap<i32, u64>,
    pub(crate) is_stopping: bool,
    /// Whether the handlers of a server that stops had their time.
    pub(crate) is_out_of_time: bool,
    /// Nothing more is sent: the endpoint is gone, or all handles are.
    pub(crate) is_closed: bool,
}

impl State {
    /// The peer at an address, new if it has none.
    pub(crate) fn peer(&mut self, address: i32) -> &mut Peer {
        self.peers.entry(address).or_insert_with(|| {
            self.epoch += 1;
            Peer { epoch: self.epoch, next: self.first, ..Peer::default() }
        })
    }

    /// The peer at an address, unless a later one has its place.
    pub(crate) fn peer_of(&mut self, address: i32, epoch: u64) -> Option<&mut Peer> {
        self.peers.get_mut(&address).filter(|peer| peer.epoch == epoch)
    }

    /// Notes a request of a client that waits in `Endpoint::call`. The client waits for no earlier
    /// request. The result is the key for the answer.
    pub(crate) fn open_plain(&mut self, address: i32) -> u64 {
        self.plain_answers.retain(|(request, _)| request.source.0 != address);
        self.epoch += 1;
        self.plain_open.insert(address, self.epoch);
        self.epoch
    }

    /// Queues the answer to such a request, if its client still waits for it.
    pub(crate) fn answer_plain(
        &mut self,
        key: u64,
        request: Message,
        answer: Result<Vec<u8>, Fault>,
    ) {
        if self.plain_open.get(&request.source.0) == Some(&key) {
            self.plain_open.remove(&request.source.0);
            self.plain_answers.push((request, answer));
        }
    }

    /// Whether messages are received. A server that stops leaves them to their senders as soon as
    /// no handler needs them: what it never took is not taken, and it owes no word about it.
    pub(crate) fn receives(&self) -> bool {
        let is_serving = || {
            let mut peers = self.peers.values();
            !self.plain_open.is_empty() || peers.any(|peer| !peer.incoming.is_empty())
        };
        !self.is_stopping || !self.is_out_of_time && is_serving()
    }

    /// Whether a server that stops may end: nothing comes, and its clients have all answers and
    /// refusals.
    pub(crate) fn may_end(&self) -> bool {
        !self.receives() && self.plain_answers.is_empty() && self.peers.values().all(Peer::has_all)
    }

    /// Ends all calls with the peer at an address, and forgets it.
    pub(crate) fn end_peer(&mut self, address: i32, reason: &Reason) {
        if let Some(mut peer) = self.peers.remove(&address) {
            self.first = self.first.max(peer.next);
            peer.end(reason);
        }
    }
}

/// The counts: the bodies of requests may have megabytes.
impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("peers", &self.peers.len())
            .field("names", &self.names.len())
            .field("plain_answers", &self.plain_answers.len())
            .finish_non_exhaustive()
    }
}

/// What handles, handlers and the driver of an endpoint share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) changed: Notify,
    /// Notified when requests of peers may have ended.
    pub(crate) served: Notify,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. `None` if the endpoint is closed.
    pub(crate) fn add(
        &self,
        to: Address,
        body: Vec<u8>,
        deadline_ns: u64,
        has_stream: bool,
    ) -> Option<(u64, oneshot::Receiver<CallResult>, Option<StreamHalf>)> {
        let (end, ended) = oneshot::channel();
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        let peer = state.peer(to.0);
        let number = peer.next;
        peer.next += 1;
        let pair = has_stream.then(|| StreamEnd::pair(FIRST_DOWN, 0, peer.room.clone()));
        let (stream, half) = pair.unzip();
        let (place, stop, up_end, discarded) = (Place::Waiting, None, UpEnd::Open, 0);
        let request = Outgoing { place, deadline_ns, body, end, stop, stream, up_end, discarded };
        peer.outgoing.insert(number, request);
        peer.waiting.push_back(number);
        drop(state);
        self.changed.notify_one();
        Some((number, ended, half))
    }

    /// Ends a request early: now, or by the driver if its train is under way.
    pub(crate) fn stop(&self, to: Address, number: u64, reason: Reason) {
        let mut state = self.state();
        let Some(peer) = state.peers.get_mut(&to.0) else { return };
        let Some(request) = peer.outgoing.get_mut(&number) else { return };
        request.stop = Some(reason);
        if request.place == Place::InTrain {
            peer.any_stop = true;
        } else {
            peer.end_stopped(number);
        }
        drop(state);
        self.changed.notify_one();
    }
}

mod queue;
#[cfg(test)]
mod tests;
