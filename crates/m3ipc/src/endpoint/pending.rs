//! A request in parts, for event loops: begin, poll, give up.
//!
//! A pending request claims its peer: see [`super::claims`].

use super::Endpoint;
use super::buffer::Buffer;
use super::claims::{Claim, ClaimState, PostedRequest};
use super::daemon_limit::{DaemonLimit, NO_WAIT_NS};
use super::outgoing::{Beside, Outgoing};
use super::payload::REFUSALS_MAX;
use super::request_end::{RequestEnd, payload_of_relay, words_of_relay};
use super::stamps::Moment;
use crate::error::{Fail, SendRecError};
use crate::octets::Octets;
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{Address, Code, Message, Verb};
use m3ipc_link::ends::Delivery;
use m3ipc_link::{Cancelled, MessageKind, SlotRefusal};
use std::sync::Arc;

/// A request whose answer is still to come.
///
/// Finish it with [`Endpoint::poll_request`]. A drop gives it up: it is withdrawn, or its answer is
/// not awaited. A drop does not wait: a request that is on its way to another node may still be
/// taken there. It claims its peer: until it ends, any other message of the same endpoint to that
/// peer fails with `RequestPending`. The example is at [`Endpoint::begin_request`].
#[derive(Debug)]
#[must_use = "a drop gives the request up; finish it with poll_request"]
pub struct PendingRequest {
    pub(super) to: Address,
    /// A request, or a message whose take ends it.
    kind: MessageKind,
    message: Message,
    beside: Beside,
    answer: Octets,
    /// Whether the answer came with a block, whose content is in `answer`.
    pub(super) is_by_block: bool,
    refusals: u32,
    /// The code of a peer that is dead before the request is posted.
    dead: Code,
    /// Whether its end is a relay that its stand-in does not follow.
    pub(super) is_relayed: bool,
    pub(super) claim: Arc<Claim>,
}

impl PendingRequest {
    /// Frees the bytes of a request that was taken.
    pub(crate) fn forget_bytes(&mut self) {
        self.beside = Beside::none();
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.claim.drop_request();
    }
}

impl Endpoint {
    /// Begins a request without waiting for the receiver or the answer.
    ///
    /// The request is posted here or in a later [`poll_request`](Self::poll_request): as soon as
    /// the link is made and the peer has taken the last answer of this endpoint. A first contact
    /// gives a running daemon 0.1 s, and so does each step of a payload above
    /// [`LONG_MAX_BYTES`](crate::LONG_MAX_BYTES).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve(server, |request| request);
    /// use m3ipc::{Message, SendRecError};
    ///
    /// let mut pending = client.begin_request(to, &Message::new(7))?;
    /// // One request at a time to each peer:
    /// let second = client.begin_request(to, &Message::new(8));
    /// assert!(matches!(second, Err(SendRecError::RequestPending(_))));
    /// let answer = loop {
    ///     if let Some(answer) = client.poll_request(&mut pending)? {
    ///         break answer;
    ///     }
    /// };
    /// assert_eq!(answer.m_type, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendRecError::RequestPending`] if a request to this peer is pending, and others.
    pub fn begin_request(
        &mut self,
        to: Address,
        message: &Message,
    ) -> Result<PendingRequest, SendRecError> {
        self.begin(MessageKind::Request, to, *message, Vec::new().into(), NO_WAIT_NS)
            .map_err(|fail| SendRecError::of(fail, to))
    }

    /// Begins a request with a payload; see [`begin_request`](Self::begin_request).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve_bytes(server, |bytes| bytes.to_vec());
    /// let mut pending = client.begin_request_bytes(to, 7, b"echo".to_vec())?;
    /// let (_answer, bytes) = loop {
    ///     if let Some(answer) = client.poll_request_bytes(&mut pending)? {
    ///         break answer;
    ///     }
    /// };
    /// assert_eq!(bytes, b"echo");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendRecError::TooLong`], [`SendRecError::RequestPending`], and others.
    pub fn begin_request_bytes(
        &mut self,
        to: Address,
        m_type: i32,
        bytes: Vec<u8>,
    ) -> Result<PendingRequest, SendRecError> {
        self.begin_bytes(to, Message::new(m_type), bytes, NO_WAIT_NS)
    }

    /// Begins a request with a message and bytes. The example is at
    /// [`begin_request_bytes`](Self::begin_request_bytes).
    ///
    /// # Errors
    /// As [`begin_request_bytes`](Self::begin_request_bytes).
    pub fn begin_request_long_bytes(
        &mut self,
        to: Address,
        message: &Message,
        bytes: Vec<u8>,
    ) -> Result<PendingRequest, SendRecError> {
        self.begin_bytes(to, *message, bytes, NO_WAIT_NS)
    }

    /// Begins a request. A first contact gives a running daemon `give_ns`.
    pub(crate) fn begin_bytes(
        &mut self,
        to: Address,
        message: Message,
        bytes: Vec<u8>,
        give_ns: u64,
    ) -> Result<PendingRequest, SendRecError> {
        if bytes.len() > m3ipc_abi::LARGE_MAX_BYTES {
            return Err(SendRecError::too_long(bytes.len()));
        }
        self.begin(MessageKind::Request, to, message, bytes.into(), give_ns)
            .map_err(|fail| SendRecError::of(fail, to))
    }

    pub(super) fn begin(
        &mut self,
        kind: MessageKind,
        to: Address,
        message: Message,
        beside: Beside,
        give_ns: u64,
    ) -> Result<PendingRequest, Fail> {
        let is_send = kind == MessageKind::Send;
        self.enter(if is_send { Verb::Send } else { Verb::Sendrec })?;
        self.payloads.begin(DaemonLimit::of(Timeout::NoWait.deadline()));
        let claim = self.claims.claim(to)?;
        let dead = if is_send { Code::DstDied } else { Code::DeadSrcDst };
        let mut pending = PendingRequest {
            to,
            kind,
            message,
            beside,
            answer: Octets::default(),
            is_by_block: false,
            refusals: 0,
            dead,
            is_relayed: false,
            claim,
        };
        if let Err(fail) = self.advance_request(&mut pending, give_ns) {
            self.end_claim(pending.to, &pending.claim);
            return Err(fail);
        }
        Ok(pending)
    }

    /// Posts a request that is not posted, if link and slot are ready.
    fn advance_request(&mut self, pending: &mut PendingRequest, give_ns: u64) -> Result<(), Fail> {
        if !matches!(*pending.claim.state(), ClaimState::Unposted) {
            return Ok(());
        }
        let dead = pending.dead;
        let index = self.contact_soon(pending.to, give_ns).map_err(|fail| match fail.code {
            Code::DstDied => dead.into(),
            _ => fail,
        })?;
        let Some(index) = index else { return Ok(()) };
        let mut server = self.conversation(index);
        server.peer().admit(pending.kind, dead)?;
        // The slot may hold an answer of this endpoint. The take of it rings: see
        // `Endpoint::arm`.
        if !server.on_link(|link| link.is_free())? {
            return Ok(());
        }
        match self.post_pending(index, pending) {
            // The daemon has given no memory for the payload yet. Its reply rings.
            Err(fail) if fail.code == Code::Again => Ok(()),
            other => other,
        }
    }

    fn post_pending(&mut self, index: u32, pending: &mut PendingRequest) -> Result<(), Fail> {
        let outgoing = Outgoing::with(&pending.message, &pending.beside);
        let outgoing = outgoing.ok_or(Fail::from(Code::MsgSize))?;
        let kind = pending.kind;
        let is_send = kind == MessageKind::Send;
        // Both sides may send to each other in parts: each one receives as well, so neither waits
        // for the other.
        let deadline = if is_send { Timeout::NoWait.deadline() } else { Deadline::NEVER };
        let (posted, large) = if outgoing.is_large() {
            self.send_in_block(index, outgoing, |endpoint, outgoing| {
                let posted = endpoint.post(index, kind, outgoing, deadline)?;
                Ok((posted, endpoint.payloads.take_in_transit()))
            })?
        } else {
            (self.post(index, kind, outgoing, deadline)?, None)
        };
        let peer = self.peers.get_mut(index);
        peer.admission_mut().set_pending(Some(posted));
        let canceller = peer.link().canceller(posted);
        let request = PostedRequest { index, posted, canceller, large, is_send };
        pending.claim.set(ClaimState::Posted(request));
        // From here on a dead server may have taken the request.
        pending.dead = Code::DstDied;
        Ok(())
    }

    /// The answer, if it has come. Otherwise the endpoint's [descriptor](Endpoint::fd), if it is in
    /// use, becomes readable when there is more to see. The example is at
    /// [`begin_request`](Self::begin_request).
    ///
    /// # Errors
    /// [`SendRecError`]; the request is over. [`SendRecError::BufferTooSmall`] if the answer has a
    /// payload, which [`poll_request_bytes`](Self::poll_request_bytes) takes.
    pub fn poll_request(
        &mut self,
        pending: &mut PendingRequest,
    ) -> Result<Option<Message>, SendRecError> {
        match self.poll_request_bytes(pending)? {
            Some((answer, bytes)) if !bytes.is_empty() => {
                Err(self.cut_answer(answer, bytes.len(), 0))
            }
            Some((answer, _)) => Ok(Some(answer)),
            None => Ok(None),
        }
    }

    /// The answer with its whole payload, if it has come; see [`poll_request`](Self::poll_request).
    /// The example is at [`begin_request_bytes`](Self::begin_request_bytes).
    ///
    /// # Errors
    /// [`SendRecError`]; the request is over.
    pub fn poll_request_bytes(
        &mut self,
        pending: &mut PendingRequest,
    ) -> Result<Option<(Message, Vec<u8>)>, SendRecError> {
        let to = pending.to;
        self.poll_pending(pending).map_err(|fail| SendRecError::of(fail, to))
    }

    /// The end of a pending message, if it has come.
    pub(super) fn poll_pending(
        &mut self,
        pending: &mut PendingRequest,
    ) -> Result<Option<(Message, Vec<u8>)>, Fail> {
        let begun = self.begin_request_look();
        let mut polled =
            begun.and_then(|()| self.poll_settled(|endpoint| endpoint.poll_for_answer(pending)));
        // Arm before the last poll: whatever comes after it rings. A relayed request may have to
        // be posted anew, which may await a take.
        while matches!(polled, Ok(None)) && self.arm_anew() {
            polled = self.poll_settled(|endpoint| endpoint.poll_for_answer(pending));
        }
        self.trace.done();
        if matches!(polled, Ok(None)) {
            self.leave_request(pending.to);
        } else {
            self.end_claim(pending.to, &pending.claim);
            self.leave_ended_request();
        }
        polled
    }

    fn begin_request_look(&mut self) -> Result<(), Fail> {
        self.membership.check_bound()?;
        // A payload that the daemon does not give at once is left for a later poll.
        self.payloads.begin(DaemonLimit::of(Timeout::NoWait.deadline()));
        if self.claims.has_dropped() {
            self.clear_dropped_requests();
        }
        self.begin_request_poll();
        self.fast.count_look();
        self.check_daemon_at_times();
        self.trace.stamp(Moment::Looked);
        Ok(())
    }

    fn poll_for_answer(
        &mut self,
        pending: &mut PendingRequest,
    ) -> Result<Option<(Message, Vec<u8>)>, Fail> {
        self.advance_request(pending, 0)?;
        if let Some((index, posted)) = pending.claim.posted() {
            let polled = if pending.kind == MessageKind::Send {
                let taken = self.conversation(index).on_link(|link| link.is_taken(posted))?;
                Ok(taken.then_some(RequestEnd::TAKEN))
            } else {
                self.take_answer(index, posted, &mut Buffer::of(&mut pending.answer))
            };
            match polled {
                Ok(Some(end)) => return self.end_of(pending, end),
                Ok(None) => {}
                Err(fail) if fail.code == Code::Again => return Ok(None),
                Err(fail) => return Err(fail),
            }
            if self.payloads.has_open_answers() {
                self.settle_answers();
            }
            self.check_proxy(index, posted)?;
            if let Some(refusal) = self.peers.get(index).link().refusal(posted) {
                return self.repeat_refused(pending, refusal).map(|()| None);
            }
        }
        self.receive_events()?;
        // An event may have settled the request.
        let mut state = pending.claim.state();
        match std::mem::replace(&mut *state, ClaimState::Ended) {
            ClaimState::Settled(end, bytes) => {
                drop(state);
                pending.answer = bytes;
                self.end_of(pending, end?)
            }
            ClaimState::Ended | ClaimState::Dropped(_) => {
                let why = "this request has ended; begin another one";
                Err(Fail::new(Code::BadRequest, why))
            }
            open => {
                let index = if let ClaimState::Posted(it) = &open { Some(it.index) } else { None };
                *state = open;
                drop(state);
                index.map_or(Ok(()), |index| self.peers.get(index).check(Code::Unknown))?;
                Ok(None)
            }
        }
    }

    /// The answer, or the request to the next server of a relay.
    fn end_of(
        &mut self,
        pending: &mut PendingRequest,
        end: RequestEnd,
    ) -> Result<Option<(Message, Vec<u8>)>, Fail> {
        // The server has taken the request and its payload.
        self.end_posted(&pending.claim);
        let is_by_block = matches!(end, RequestEnd::ByBlock(..));
        let (next, replacement) = match end {
            RequestEnd::Answered(message, bytes) | RequestEnd::ByBlock(message, bytes) => {
                pending.is_by_block = is_by_block;
                let mut answer = std::mem::take(&mut *pending.answer);
                answer.truncate(bytes);
                return Ok(Some((message, answer)));
            }
            RequestEnd::Relayed(next, replacement) if self.is_one_stand_in() => {
                pending.is_relayed = true;
                let message = Message { payload: payload_of_relay(next), ..Message::new(0) };
                let words = replacement.map(|other| words_of_relay(&other).to_vec());
                return Ok(Some((message, words.unwrap_or_default())));
            }
            RequestEnd::Relayed(next, replacement) => (next, replacement),
        };
        self.end_claim(pending.to, &pending.claim);
        pending.claim = self.claims.claim(next).map_err(|_busy| {
            let why = format!(
                "the request was relayed to endpoint {next}, to which another request of this \
                 endpoint is pending; repeat it after that"
            );
            Fail::new(Code::Busy, why)
        })?;
        pending.to = next;
        pending.message = replacement.unwrap_or(pending.message);
        pending.refusals = 0;
        self.advance_request(pending, 0).map(|()| None)
    }

    /// Posts a refused request again, with its payload in a new area.
    #[cold]
    fn repeat_refused(
        &mut self,
        pending: &mut PendingRequest,
        refusal: SlotRefusal,
    ) -> Result<(), Fail> {
        let ClaimState::Posted(request) = pending.claim.set(ClaimState::Unposted) else {
            return Ok(());
        };
        self.peers.get_mut(request.index).admission_mut().set_pending(None);
        let Some(large) = request.large else {
            return Err(self.conversation(request.index).poison(m3ipc_link::RuleBroken));
        };
        self.withdraw_payload(pending.to, large);
        pending.refusals += 1;
        if refusal == SlotRefusal::Final || pending.refusals > REFUSALS_MAX {
            return Err(match refusal {
                SlotRefusal::Final => self.refusal_by(pending.to, pending.beside.len()),
                SlotRefusal::Retry => super::payload::refused(pending.to),
            });
        }
        self.advance_request(pending, 0)
    }

    /// Gives a request up, as its drop does: withdraws it, or ends the wait for its answer. `Some`
    /// if the answer had come already; a payload of the answer is lost.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// let pending = client.begin_request(to, &m3ipc::Message::new(7))?;
    /// assert_eq!(client.abandon(&pending), None, "no answer had come");
    /// assert!(server.try_receive(m3ipc::Source::Any).is_err(), "the request was withdrawn");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abandon(&mut self, pending: &PendingRequest) -> Option<Message> {
        self.abandon_into(pending, &mut Buffer::none()).0.map(|(answer, _)| answer)
    }

    /// Gives a request up as [`abandon`](Self::abandon) does, and returns an answer that had come
    /// with its whole payload.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// let pending = client.begin_request(to, &m3ipc::Message::new(7))?;
    /// let request = server.receive(m3ipc::Source::Any)?;
    /// server.reply_bytes(request.source, 8, b"late")?;
    /// let (answer, bytes) = client.abandon_bytes(&pending).expect("it had come");
    /// assert_eq!((answer.m_type, &bytes[..]), (8, &b"late"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abandon_bytes(&mut self, pending: &PendingRequest) -> Option<(Message, Vec<u8>)> {
        self.abandon_told(pending).0
    }

    /// The same. Also returns whether the server had taken the request.
    #[doc(hidden)]
    pub fn abandon_told(&mut self, pending: &PendingRequest) -> (Option<(Message, Vec<u8>)>, bool) {
        let mut bytes = Vec::new();
        let (answer, is_taken) = self.abandon_into(pending, &mut Buffer::of(&mut bytes));
        let answer = answer.map(|(answer, length)| {
            bytes.truncate(length);
            (answer, bytes)
        });
        (answer, is_taken)
    }

    fn abandon_into(
        &mut self,
        pending: &PendingRequest,
        buffer: &mut Buffer<'_>,
    ) -> (Option<(Message, usize)>, bool) {
        if self.membership.check_bound().is_err() {
            return (None, false);
        }
        self.disarm();
        // The limit of an earlier call may have passed.
        self.payloads.begin(DaemonLimit::of(Timeout::NoWait.deadline()));
        let ended = match pending.claim.set(ClaimState::Ended) {
            ClaimState::Posted(request) => {
                let is_withdrawn = request.canceller.cancel() == Ok(Cancelled::Withdrawn);
                let answer = self.clear_request(pending.to, request, is_withdrawn, buffer);
                (answer, !is_withdrawn)
            }
            ClaimState::Settled(Ok(RequestEnd::Answered(message, length)), bytes) => {
                if let Buffer::UpTo(into, _) = buffer {
                    **into = bytes.0;
                }
                (Some((message, length)), true)
            }
            ClaimState::Settled(Err(fail), _) => (None, fail.delivery() == Delivery::Taken),
            _ => (None, false),
        };
        self.end_claim(pending.to, &pending.claim);
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    #[test]
    fn a_large_answer_that_had_come_is_not_lost_to_the_limit_of_an_earlier_call() {
        let node = crate::test::node();
        let (mut server, mut client) = node.pair();
        let pending = client.begin_request(server.address(), &Message::new(7)).unwrap();
        let request = server.receive(Source::Any).unwrap();
        let early = client.receive_timeout(Source::Any, Timeout::from_ms(1));
        assert_eq!(early.unwrap_err().code(), m3ipc_abi::Code::TimedOut);
        server.reply_bytes(request.source, 8, &[9; 100_000]).unwrap();
        let (answer, bytes) = client.abandon_bytes(&pending).expect("it had come");
        assert_eq!((answer.m_type, bytes), (8, vec![9; 100_000]));
    }
}
