//! A request in parts, for event loops: begin, poll, give up.

use super::Endpoint;
use super::buffer::Buffer;
use super::daemon_limit::DaemonLimit;
use super::outgoing::Outgoing;
use super::payload::REFUSALS_MAX;
use super::payload_state::LargePayload;
use super::sendrec::RequestEnd;
use super::stamps::Moment;
use crate::error::{Fail, SendRecError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, Message, Verb};
use m3ipc_link::{Cancelled, MessageKind, SlotRefusal, SlotState};

/// A posted request whose answer is still to come.
///
/// Finish it with [`Endpoint::poll_request`] or give it up with [`Endpoint::abandon`]. A mere drop
/// leaves the request in the link. The example is at [`Endpoint::begin_request`].
#[derive(Debug)]
#[must_use = "finish it with poll_request or abandon"]
pub struct PendingRequest {
    to: Address,
    index: u32,
    posted: SlotState,
    message: Message,
    bytes: Vec<u8>,
    answer: Vec<u8>,
    /// The payload, if it lies in a block.
    large: Option<LargePayload>,
    refusals: u32,
}

impl Endpoint {
    /// Posts a request without waiting for the receiver or the answer.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve(server, |request| request);
    /// use m3ipc::Message;
    ///
    /// let mut pending = client.begin_request(to, &Message::new(7))?;
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
    /// [`SendRecError`].
    pub fn begin_request(
        &mut self,
        to: Address,
        message: &Message,
    ) -> Result<PendingRequest, SendRecError> {
        self.begin(to, *message, Vec::new()).map_err(|fail| SendRecError::of(fail, to))
    }

    /// Posts a request with a payload; see [`begin_request`](Self::begin_request).
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
    /// [`SendRecError::TooLong`], and others.
    pub fn begin_request_bytes(
        &mut self,
        to: Address,
        m_type: i32,
        bytes: Vec<u8>,
    ) -> Result<PendingRequest, SendRecError> {
        if bytes.len() > m3ipc_abi::LARGE_MAX_BYTES {
            return Err(SendRecError::too_long(bytes.len()));
        }
        self.begin(to, Message::new(m_type), bytes).map_err(|fail| SendRecError::of(fail, to))
    }

    fn begin(
        &mut self,
        to: Address,
        message: Message,
        bytes: Vec<u8>,
    ) -> Result<PendingRequest, Fail> {
        self.enter(Verb::Sendrec)?;
        self.payloads.begin(DaemonLimit::of_answer());
        let deadline = Timeout::Never.deadline();
        let index = self.contact(to, deadline).map_err(|fail| match fail.code {
            Code::DstDied => Code::DeadSrcDst.into(),
            _ => fail,
        })?;
        self.peers.get(index).check(Code::DeadSrcDst)?;
        self.peers.get(index).allow(MessageKind::Request)?;
        let outgoing = Outgoing::new(&message, &bytes).ok_or(Fail::from(Code::MsgSize))?;
        let (posted, large) = if outgoing.is_large() {
            self.send_in_block(index, outgoing, |endpoint, outgoing| {
                let posted = endpoint.post(index, MessageKind::Request, outgoing, deadline)?;
                Ok((posted, endpoint.payloads.take_in_transit()))
            })?
        } else {
            (self.post(index, MessageKind::Request, outgoing, deadline)?, None)
        };
        let answer = Vec::new();
        Ok(PendingRequest { to, index, posted, message, bytes, answer, large, refusals: 0 })
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
                Err(SendRecError::too_small(answer, bytes.len(), 0))
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
        let mut polled = self.poll_after_disarm(pending);
        // Arm before the last poll: whatever comes after it rings. A poll that posts the request
        // anew disarms.
        while matches!(polled, Ok(None)) && !self.armed && self.arm(pending.to) {
            polled = self.poll_for_answer(pending);
        }
        self.trace_done();
        polled.map_err(|fail| SendRecError::of(fail, to))
    }

    fn poll_after_disarm(
        &mut self,
        pending: &mut PendingRequest,
    ) -> Result<Option<(Message, Vec<u8>)>, Fail> {
        self.check_bound()?;
        // The call has no limit of its own, so the daemon has one that starts with each request.
        self.payloads.begin(DaemonLimit::of(Timeout::Never.deadline()));
        self.disarm();
        self.stamp(Moment::Looked);
        self.poll_for_answer(pending)
    }

    fn poll_for_answer(
        &mut self,
        pending: &mut PendingRequest,
    ) -> Result<Option<(Message, Vec<u8>)>, Fail> {
        // Another call may have removed a dead server, and its index may be another peer's.
        if !self.is_peer_of(pending) {
            return Err(Code::SrcDied.into());
        }
        let mut buffer = Buffer::Vec(&mut pending.answer);
        let taken = self.take_answer(pending.index, pending.posted, &mut buffer);
        if taken.is_err() {
            self.end_request(pending);
        }
        match taken? {
            Some(RequestEnd::Answered(message, bytes)) => {
                let mut answer = std::mem::take(&mut pending.answer);
                answer.truncate(bytes);
                return Ok(Some((message, answer)));
            }
            Some(RequestEnd::Relayed(next, replacement)) => {
                let bytes = std::mem::take(&mut pending.bytes);
                *pending = self.begin(next, replacement.unwrap_or(pending.message), bytes)?;
                return Ok(None);
            }
            None => {}
        }
        if self.payloads.has_open_answers() {
            self.settle_answers();
        }
        if let Some(refusal) = self.peers.get(pending.index).link.refusal(pending.posted) {
            return self.repeat_refused(pending, refusal).map(|()| None);
        }
        self.receive_events()?;
        if let Err(fail) = self.peers.get(pending.index).check(Code::DstDied) {
            let withdrawn = self.peers.get(pending.index).link.withdraw(pending.posted);
            let withdrawn = withdrawn.map_err(|broken| self.poison(pending.index, broken))?;
            return Err(if withdrawn { fail } else { Code::SrcDied.into() });
        }
        Ok(None)
    }

    /// Ends a request whose answer could not be accepted. The answer must not stay in the link.
    #[cold]
    fn end_request(&mut self, pending: &PendingRequest) {
        // On a broken link nothing is left to end.
        let _ = self.peers.get(pending.index).link.cancel(pending.posted);
        self.refuse_answer(pending.index, pending.posted);
    }

    /// Posts a refused request again, with its payload in a new area.
    #[cold]
    fn repeat_refused(
        &mut self,
        pending: &mut PendingRequest,
        refusal: SlotRefusal,
    ) -> Result<(), Fail> {
        let Some(large) = pending.large.take() else {
            return Err(self.poison(pending.index, m3ipc_link::RuleBroken));
        };
        self.withdraw_payload(pending.to, &large);
        let refusals = pending.refusals + 1;
        if refusal == SlotRefusal::Final || refusals > REFUSALS_MAX {
            return Err(super::payload::refused(pending.to));
        }
        let bytes = std::mem::take(&mut pending.bytes);
        let again = self.begin(pending.to, pending.message, bytes)?;
        *pending = PendingRequest { refusals, ..again };
        Ok(())
    }

    fn is_peer_of(&self, pending: &PendingRequest) -> bool {
        self.peers.find_index(pending.index).is_some_and(|peer| peer.address() == pending.to)
    }

    /// Gives a request up: withdraws it, or ends the wait for its answer. `Some` if the answer had
    /// come already.
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
        if !self.is_peer_of(pending) {
            return None;
        }
        let link = &self.peers.find_index(pending.index)?.link;
        if link.cancel(pending.posted) != Ok(Cancelled::Taken) {
            if let Some(large) = &pending.large {
                self.free_payload(large);
            }
            return None;
        }
        match self.take_answer(pending.index, pending.posted, &mut Buffer::none()) {
            Ok(Some(RequestEnd::Answered(message, _))) => Some(message),
            Ok(_) => None,
            Err(_) => {
                self.refuse_answer(pending.index, pending.posted);
                None
            }
        }
    }
}
