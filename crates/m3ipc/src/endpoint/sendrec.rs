//! sendrec: a request and its answer, in one wait and one time limit.

use super::Endpoint;
use super::buffer::Buffer;
use super::call_stop::CallStop;
use super::daemon_limit::DaemonLimit;
use super::fast::LeftOver;
use super::fast_payload::{InLink, Nothing};
use super::outgoing::Outgoing;
use super::payload::{refused, treatment};
use super::request_end::RequestEnd;
use super::settle::failure_of;
use super::wait::WaitTarget;
use crate::error::{Fail, SendRecError};
use crate::observe;
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{Address, Code, MESSAGE_BYTES, Message, Verb};
use m3ipc_link::ends::{Cause, Fate};
use m3ipc_link::{
    AnswerOutcome, Arrival, Cancelled, Counter, MessageKind, SlotState, TakenMessage, WaitCall,
};

impl Endpoint {
    /// Sends a request and waits for its answer: any message of the peer.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve(server, |request| request);
    /// use m3ipc::Message;
    ///
    /// let answer = client.sendrec(to, &Message::new(7).with_bytes(b"ping"))?;
    /// assert_eq!(&answer.payload[..4], b"ping");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendRecError`]; it tells whether the server took the request.
    #[inline]
    pub fn sendrec(&mut self, to: Address, message: &Message) -> Result<Message, SendRecError> {
        self.sendrec_timeout(to, message, Timeout::Never)
    }

    /// Sends a request and waits for its answer. The time limit is for both together.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{Message, SendRecError};
    ///
    /// // The server does not receive.
    /// let limit = std::time::Duration::from_millis(1);
    /// let answer = client.sendrec_timeout(to, &Message::new(7), limit);
    /// assert!(matches!(answer, Err(SendRecError::TimedOut(_))));
    /// ```
    ///
    /// # Errors
    /// [`SendRecError::TimedOut`], and others.
    #[inline]
    pub fn sendrec_timeout(
        &mut self,
        to: Address,
        message: &Message,
        limit: impl Into<Timeout>,
    ) -> Result<Message, SendRecError> {
        let limit = limit.into();
        let span = observe::call("sendrec", self.membership.vm(), self.membership.address(), to);
        match self.sendrec_once(to, message, limit) {
            Ok(answer) => {
                span.end_well();
                Ok(answer)
            }
            Err(left) => {
                let answered = self.end_short_call(left, to, message, limit);
                span.end(&answered);
                answered
            }
        }
    }

    /// [`sendrec_fast`](Self::sendrec_fast), once in the code of a program.
    #[inline]
    fn sendrec_once(
        &mut self,
        to: Address,
        message: &Message,
        limit: Timeout,
    ) -> Result<Message, LeftOver> {
        self.sendrec_fast(to, (message, Nothing), limit, Nothing, |answer| answer)
    }

    /// The same with payloads.
    #[inline(never)]
    fn request_once(
        &mut self,
        to: Address,
        (message, long): (&Message, &[u8]),
        buffer: &mut Buffer<'_>,
        limit: Timeout,
    ) -> Result<(Message, usize), LeftOver> {
        let beside = InLink::new(long).ok_or(LeftOver::Call)?;
        self.sendrec_fast(to, (message, beside), limit, buffer, |answer| answer)
    }

    #[cold]
    pub(super) fn end_short_call(
        &mut self,
        left: LeftOver,
        to: Address,
        message: &Message,
        limit: Timeout,
    ) -> Result<Message, SendRecError> {
        let mut buffer = Buffer::none();
        match self.end_call(left, to, Outgoing::short(message), &mut buffer, limit)? {
            (answer, 0) => Ok(answer),
            (answer, bytes) => Err(self.cut_answer(answer, bytes, 0)),
        }
    }

    /// Makes the part of a call that the fast path has left over.
    fn end_call(
        &mut self,
        left: LeftOver,
        to: Address,
        outgoing: Outgoing<'_>,
        buffer: &mut Buffer<'_>,
        limit: Timeout,
    ) -> Result<(Message, usize), SendRecError> {
        let deadline = limit.deadline();
        let answered = match left {
            LeftOver::Call => self.call_slow(to, outgoing, buffer, deadline),
            LeftOver::Answer(index, posted) => {
                self.end_fast_call((index, posted), outgoing, buffer, deadline)
            }
            LeftOver::Signal(index, posted) => {
                if self.waiter.interruption().by_signal() {
                    self.waiter.note_signal();
                }
                self.end_fast_call((index, posted), outgoing, buffer, deadline)
            }
        };
        answered.map_err(|fail| SendRecError::of(fail, to))
    }

    /// Waits for the answer to a request that the fast path has posted.
    fn end_fast_call(
        &mut self,
        (index, posted): (u32, SlotState),
        outgoing: Outgoing<'_>,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
    ) -> Result<(Message, usize), Fail> {
        self.fast.close();
        self.payloads.begin(DaemonLimit::of(deadline));
        self.park();
        let answered = self.call_until_answered(index, Some(posted), outgoing, buffer, deadline);
        self.unpark();
        self.waiter.take_short_sleep();
        self.trace.done();
        answered
    }

    /// Sends a request with a payload. The payload of the answer goes to the front of `buffer`.
    ///
    /// Returns the answer and the length of its payload in bytes.
    /// [`sendrec_bytes`](Self::sendrec_bytes) takes payloads of any length.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve_bytes(server, |bytes| bytes.repeat(2));
    /// use m3ipc::{Message, SendRecError};
    ///
    /// let (request, mut buffer) = (Message::new(7), [0; 4]);
    /// let (_answer, bytes) = client.sendrec_long(to, &request, b"ab", &mut buffer, None)?;
    /// assert_eq!((bytes, &buffer), (4, b"abab"));
    /// let cut = client.sendrec_long(to, &request, b"ab", &mut buffer[..3], None);
    /// assert!(matches!(cut, Err(SendRecError::BufferTooSmall { needed_bytes: 4, .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendRecError::BufferTooSmall`] if the payload of the answer is longer than `buffer`: the
    /// answer was taken, and only the front of its payload is here. [`SendRecError::TooLong`], and
    /// others.
    pub fn sendrec_long(
        &mut self,
        to: Address,
        message: &Message,
        long: &[u8],
        buffer: &mut [u8],
        limit: impl Into<Timeout>,
    ) -> Result<(Message, usize), SendRecError> {
        let (answer, bytes) =
            self.request(to, message, long, &mut Buffer::Slice(&mut *buffer), limit.into())?;
        if bytes > buffer.len() {
            return Err(self.cut_answer(answer, bytes, buffer.len()));
        }
        Ok((answer, bytes))
    }

    /// The error of an answer whose payload is longer than the caller's buffer.
    #[cold]
    pub(crate) fn cut_answer(
        &self,
        answer: Message,
        needed_bytes: usize,
        buffer_bytes: usize,
    ) -> SendRecError {
        // Any message of the server ends the call, a request too.
        let server = self.peers.find(answer.source).map(|index| self.peers.get(index));
        let is_request = server.is_some_and(|peer| peer.link().owes_answer());
        SendRecError::too_small(answer, needed_bytes, buffer_bytes, is_request)
    }

    /// Calls as [`sendrec_long`](Self::sendrec_long); a payload that was cut is no error.
    ///
    /// # Errors
    /// [`SendRecError`]; no answer was taken.
    #[doc(hidden)]
    pub fn request(
        &mut self,
        to: Address,
        message: &Message,
        long: &[u8],
        buffer: &mut Buffer<'_>,
        limit: Timeout,
    ) -> Result<(Message, usize), SendRecError> {
        let Some(outgoing) = Outgoing::new(message, long) else {
            return Err(SendRecError::too_long(long.len()));
        };
        let span = observe::call("sendrec", self.membership.vm(), self.membership.address(), to);
        let fast = self.request_once(to, (message, long), buffer, limit);
        let answered = fast.or_else(|left| self.end_call(left, to, outgoing, buffer, limit));
        span.end(&answered);
        answered
    }

    pub(super) fn call_slow(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
    ) -> Result<(Message, usize), Fail> {
        self.enter(Verb::Sendrec)?;
        self.payloads.begin(DaemonLimit::of(deadline));
        let at_entry = |fail: Fail| match fail.code {
            Code::DstDied => Code::DeadSrcDst.into(),
            _ => fail,
        };
        let index = self.contact(to, deadline).map_err(at_entry)?;
        self.peers.get(index).check(Code::DeadSrcDst)?;
        // From here on the server may copy, as soon as it has the request.
        self.park();
        let answered = self.call_until_answered(index, None, outgoing, buffer, deadline);
        self.unpark();
        self.trace.done();
        answered
    }

    /// Repeats the request where that is right, until an answer ends the call. The first request
    /// may have been posted.
    fn call_until_answered(
        &mut self,
        mut index: u32,
        mut posted: Option<SlotState>,
        outgoing: Outgoing<'_>,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
    ) -> Result<(Message, usize), Fail> {
        let mut to = self.peers.get(index).address();
        let mut replacement = None;
        let mut relayed = false;
        loop {
            self.copies.lease_to(index);
            let outgoing =
                replacement.as_ref().map_or(outgoing, |message| outgoing.with_message(message));
            let outgoing = if relayed { outgoing.without_block() } else { outgoing };
            let ended = match posted.take() {
                Some(posted) => self.await_answer(index, posted, buffer, deadline),
                None => self.call_with(index, outgoing, buffer, deadline),
            };
            match ended {
                // The peer never got that link, and there is a new link.
                Err(CallStop::Replaced) if !self.peers.took_on_replaced_link(to) => {
                    index = self.contact(to, deadline)?;
                    self.peers.get(index).check(Code::DstDied)?;
                }
                Err(stop) => return Err(stop.into()),
                Ok(RequestEnd::Answered(message, bytes) | RequestEnd::ByBlock(message, bytes)) => {
                    return Ok((message, bytes));
                }
                // The request goes on in the name of its client.
                Ok(RequestEnd::Relayed(next, other)) => {
                    self.payloads.set_taken(true);
                    to = next;
                    index = self.contact(next, deadline)?;
                    self.peers.get(index).check(Code::DstDied)?;
                    replacement = other.or(replacement);
                    // The block stays with the first server.
                    relayed = true;
                }
            }
        }
    }

    /// Puts a payload that no link holds into a block.
    #[inline]
    fn call_with(
        &mut self,
        index: u32,
        outgoing: Outgoing<'_>,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
    ) -> Result<RequestEnd, CallStop> {
        if !outgoing.is_large() {
            return self.call_one(index, outgoing, buffer, deadline);
        }
        self.send_in_block(index, outgoing, |endpoint, outgoing| {
            endpoint.call_one(index, outgoing, buffer, deadline)
        })
    }

    fn call_one(
        &mut self,
        index: u32,
        outgoing: Outgoing<'_>,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
    ) -> Result<RequestEnd, CallStop> {
        self.peers.get(index).admission().allow(MessageKind::Request)?;
        let grace_deadline = self.grace(index, deadline);
        let owed = self.peers.get(index).link().owed();
        if self.answer(index, MessageKind::Reply, outgoing)? == AnswerOutcome::Posted {
            let posted = self.peers.get(index).link().posted();
            let waited = if deadline.no_wait {
                self.wait_taken(index, posted, deadline, grace_deadline, WaitCall::SendRec)
                    .and(Err(Code::TimedOut.into()))
            } else {
                self.wait_message_of(index, posted, buffer, deadline)
            };
            return match waited {
                Err(CallStop::Failed(fail)) => {
                    Err(self.unanswered(index, (posted, owed), fail)?.into())
                }
                other => other,
            };
        }
        let posted = self.post(index, MessageKind::Request, outgoing, deadline)?;
        self.session.page().count(Counter::Sent);
        if deadline.no_wait {
            // The server takes the request now or never; an answer has no time to come.
            let taken = self.wait_taken(index, posted, deadline, grace_deadline, WaitCall::SendRec);
            let fail = match taken {
                Err(CallStop::Replaced) => return Err(CallStop::Replaced),
                Err(CallStop::Failed(fail)) => fail,
                Ok(()) => Code::TimedOut.into(),
            };
            return Ok(self.finish_request(index, posted, buffer, fail)?);
        }
        self.await_answer(index, posted, buffer, deadline)
    }

    /// Waits for the answer to a posted request.
    fn await_answer(
        &mut self,
        index: u32,
        posted: SlotState,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
    ) -> Result<RequestEnd, CallStop> {
        let peer = self.peers.get(index).address();
        let target = WaitTarget {
            verb: WaitCall::SendRec,
            peer,
            index: Some(index),
            posted: Some(posted),
            own_cell: false,
        };
        if self.waiter.take_signal() {
            return Ok(self.finish_request(index, posted, buffer, Code::Intr.into())?);
        }
        loop {
            let waited = self.wait(target, deadline, |endpoint| {
                if let Some(end) = endpoint.take_answer(index, posted, buffer)? {
                    return Ok(Some(end));
                }
                endpoint.receive_events()?;
                endpoint.peers.get(index).check(Code::DstDied)?;
                endpoint.check_refusal(index, posted)?;
                endpoint.peers.get(index).check_crossing(posted, deadline)?;
                if endpoint.priorities.inherits() {
                    endpoint.inherit_for(index);
                }
                Ok(None)
            });
            match waited {
                Ok(end) => return Ok(end),
                Err(CallStop::Replaced) => return Err(CallStop::Replaced),
                Err(CallStop::Failed(fail)) if fail.code == Code::PeerBroke => {
                    return Err(fail.into());
                }
                // A request that the server took after the verdict closes no circle any more.
                Err(CallStop::Failed(fail)) if fail.code == Code::Locked => {
                    m3ipc_sys::pause_point("client.locked");
                    if self.take_message_back(index, posted)? {
                        return Err(fail.into());
                    }
                }
                Err(CallStop::Failed(fail)) => {
                    return Ok(self.finish_request(index, posted, buffer, fail)?);
                }
            }
        }
    }

    /// Takes the answer to a request, if it is there.
    #[inline]
    pub(super) fn take_answer(
        &mut self,
        index: u32,
        posted: SlotState,
        buffer: &mut Buffer<'_>,
    ) -> Result<Option<RequestEnd>, Fail> {
        match self.conversation(index).on_link(|link| link.peek_answer(posted))? {
            Some(arrival) if arrival.state.kind() == MessageKind::Relay => {
                self.take_relay(index, arrival)
            }
            Some(arrival) => {
                m3ipc_sys::pause_point("client.answer_seen");
                // An answer has no place in the order of messages, so it needs no time.
                let incoming = match arrival.state.kind() {
                    MessageKind::Reply => self.take_untimed(index, arrival, buffer)?,
                    _ => {
                        let incoming = self.take(index, arrival, buffer)?;
                        if incoming.is_some() {
                            self.end_answered_by_message(index, posted)?;
                        }
                        incoming
                    }
                };
                match incoming {
                    Some(it) if it.has_block && self.is_one_stand_in() => {
                        self.copy_block_of_answer(index, &it, buffer).map(Some)
                    }
                    other => Ok(other.map(|incoming| self.answered(index, &incoming))),
                }
            }
            None => Ok(None),
        }
    }

    /// Ends a request that a message of the server answered, which is no reply: the server sees
    /// that nobody awaits another answer. One that it posted since the take is refused.
    #[cold]
    fn end_answered_by_message(&mut self, index: u32, posted: SlotState) -> Result<(), Fail> {
        self.conversation(index).on_link(|link| link.cancel(posted))?;
        self.refuse_answer(index, posted);
        Ok(())
    }

    /// Takes a relay: the address of the next server and its message.
    #[cold]
    fn take_relay(&mut self, index: u32, arrival: Arrival) -> Result<Option<RequestEnd>, Fail> {
        let mut replacement = [0; MESSAGE_BYTES];
        let Some(incoming) = self.take(index, arrival, &mut Buffer::Slice(&mut replacement))?
        else {
            return Ok(None);
        };
        let [a, b, c, d, ..] = incoming.payload;
        let next = Address(i32::from_ne_bytes([a, b, c, d]));
        let [_, _, _, _, e, f, g, h, payload @ ..] = replacement;
        let message = Message { payload, ..Message::new(i32::from_ne_bytes([e, f, g, h])) };
        Ok(Some(RequestEnd::Relayed(
            next,
            (incoming.long_bytes == MESSAGE_BYTES).then_some(message),
        )))
    }

    /// Ends a request that is no longer waited for: it is withdrawn, or its answer is given up, or
    /// the answer came after all.
    fn finish_request(
        &mut self,
        index: u32,
        posted: SlotState,
        buffer: &mut Buffer<'_>,
        fail: Fail,
    ) -> Result<RequestEnd, Fail> {
        if self.take_message_back(index, posted)? {
            return Err(self.failure(index, Fate::NotTaken, fail));
        }
        let by_proxy = self.conversation(index).on_link(|link| match link.cancel(posted)? {
            Cancelled::Unanswered => link.proxy_code().map(Some),
            _ => Ok(None),
        })?;
        self.payloads.set_taken(true);
        match self.take_answer(index, posted, buffer) {
            Ok(Some(end)) => return Ok(end),
            Ok(None) => {}
            Err(late) => {
                self.refuse_answer(index, posted);
                // The answer came too late to be accepted within the call.
                let stopped = if treatment(&late).is_none() { fail } else { late };
                return Err(stopped.after_take());
            }
        }
        Err(match by_proxy {
            // The proxy has said why no answer comes.
            Some(code) => failure_of(Fate::Taken, Cause::ByProxy(code), code.into()),
            None => self.failure(index, Fate::Taken, fail),
        })
    }

    #[inline]
    pub(super) fn answered(&self, index: u32, incoming: &TakenMessage) -> RequestEnd {
        RequestEnd::Answered(self.message_of(index, incoming), incoming.long_bytes)
    }

    #[inline]
    pub(super) fn message_of(&self, index: u32, incoming: &TakenMessage) -> Message {
        let source = self.peers.get(index).address();
        Message { source, m_type: incoming.m_type, payload: incoming.payload }
    }

    /// The failure of a call whose request went as the answer to a request of its server. The
    /// answer is withdrawn, unless the server has taken it.
    #[cold]
    fn unanswered(
        &mut self,
        index: u32,
        (posted, owed): (SlotState, Option<SlotState>),
        fail: Fail,
    ) -> Result<Fail, Fail> {
        let is_refused = self.peers.get(index).link().refusal(posted).is_some();
        if is_refused || fail.code == Code::PeerBroke {
            return Ok(fail);
        }
        if !self.take_message_back(index, posted)? {
            self.payloads.set_taken(true);
            return Ok(self.failure(index, Fate::Taken, fail));
        }
        if let Some(request) = owed {
            self.peers.get_mut(index).link_mut().owe_again(request);
        }
        Ok(self.failure(index, Fate::NotTaken, fail))
    }

    /// Waits for a message or a reply of a peer that took the request as an answer.
    fn wait_message_of(
        &mut self,
        index: u32,
        answer: SlotState,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
    ) -> Result<RequestEnd, CallStop> {
        let peer = self.peers.get(index).address();
        let target = WaitTarget {
            verb: WaitCall::Receive,
            peer,
            index: Some(index),
            posted: None,
            own_cell: false,
        };
        let incoming = self.wait(target, deadline, |endpoint| {
            let peer = endpoint.peers.get_mut(index);
            if let Some(arrival) = peer.poll().or_else(|| peer.poll_unasked_reply())
                && let Some(incoming) = endpoint.take(index, arrival, buffer)?
            {
                return Ok(Some(incoming));
            }
            // The peer got no answer, so it need not send anything.
            if endpoint.peers.get(index).link().refusal(answer).is_some() {
                return Err(refused(endpoint.peers.get(index).address()).into());
            }
            endpoint.receive_events()?;
            endpoint.peers.get(index).check(Code::DstDied)?;
            Ok(None)
        })?;
        Ok(self.answered(index, &incoming))
    }
}
