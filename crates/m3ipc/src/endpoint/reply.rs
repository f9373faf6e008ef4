//! reply and relay: answers, which never wait.

use super::Endpoint;
use super::call_stop::CallStop;
use super::daemon_limit::DaemonLimit;
use super::delivered::Delivered;
use super::fast_payload::{InLink, Nothing};
use super::outgoing::Outgoing;
use super::peer::UNASKED;
use super::request_end::{payload_of_relay, words_of_relay};
use super::stamps::Moment;
use super::wait::WaitTarget;
use crate::error::{Fail, ReplyError};
use crate::observe;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, Message, Verb};
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{AnswerOutcome, Counter, MessageKind, WaitCall};

impl Endpoint {
    /// Answers an endpoint that waits for exactly this endpoint. Never waits.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.sendrec(to, &m3ipc::Message::new(7)));
    /// use m3ipc::{Message, Source};
    ///
    /// let request = server.receive(Source::Any)?;
    /// server.reply(request.source, &Message::new(0).with_bytes(b"done"))?;
    /// # assert_eq!(&thread.join().unwrap()?.payload[..4], b"done");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReplyError`]. A client that does not wait any more is none: see [`Delivered`].
    #[inline]
    pub fn reply(&mut self, to: Address, message: &Message) -> Result<Delivered, ReplyError> {
        let span = observe::call("reply", self.membership.vm(), self.membership.address(), to);
        let replied = if self.reply_fast(to, message, Nothing) {
            Ok(Delivered::Yes)
        } else {
            self.reply_short(to, message)
        };
        span.end(&replied);
        replied
    }

    #[cold]
    pub(super) fn reply_short(
        &mut self,
        to: Address,
        message: &Message,
    ) -> Result<Delivered, ReplyError> {
        let replied = self.reply_outgoing(to, Outgoing::short(message));
        self.end_reply(replied, to)
    }

    /// Answers with a payload beside the message; see [`send_long`](Self::send_long).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.sendrec_bytes(to, 7, &[], None));
    /// use m3ipc::{Message, Source};
    ///
    /// let request = server.receive(Source::Any)?;
    /// let answer = Message::new(0).with_bytes(b"40 bytes inside");
    /// server.reply_long(request.source, &answer, b"and more beside the message")?;
    /// # assert_eq!(thread.join().unwrap()?.1, b"and more beside the message");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReplyError::TooLong`], and others.
    pub fn reply_long(
        &mut self,
        to: Address,
        message: &Message,
        long: &[u8],
    ) -> Result<Delivered, ReplyError> {
        let Some(outgoing) = Outgoing::new(message, long) else {
            return Err(ReplyError::too_long(long.len()));
        };
        let span = observe::call("reply", self.membership.vm(), self.membership.address(), to);
        let beside = InLink::new(long);
        let replied = if beside.is_some_and(|beside| self.reply_fast(to, message, beside)) {
            Ok(Delivered::Yes)
        } else {
            let replied = self.reply_outgoing(to, outgoing);
            self.end_reply(replied, to)
        };
        span.end(&replied);
        replied
    }

    pub(super) fn reply_outgoing(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
    ) -> Result<(), Fail> {
        self.reply_within(to, outgoing, DaemonLimit::of_answer())
    }

    /// Answers, and gives the daemon so much time.
    pub(super) fn reply_within(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
        limit: DaemonLimit,
    ) -> Result<(), Fail> {
        self.enter(Verb::Reply)?;
        self.payloads.begin(limit);
        self.reply_message(to, outgoing)
    }

    fn reply_message(&mut self, to: Address, outgoing: Outgoing<'_>) -> Result<(), Fail> {
        let index = self.contact_client(to)?;
        self.peers.get(index).admit_party(MessageKind::Reply, Code::DstDied)?;
        m3ipc_sys::pause_point("server.before_answer");
        if outgoing.is_large() {
            let answered = self.send_in_block(index, outgoing, |endpoint, outgoing| {
                Ok(endpoint.answer_over(index, outgoing)?)
            });
            return Ok(answered?);
        }
        self.answer_over(index, outgoing)
    }

    #[inline]
    fn answer_over(&mut self, index: u32, outgoing: Outgoing<'_>) -> Result<(), Fail> {
        match self.answer(index, MessageKind::Reply, outgoing)? {
            AnswerOutcome::Posted => Ok(()),
            AnswerOutcome::NotAwaited => self.reply_unasked(index, outgoing),
        }
    }

    /// Hands the request of `client` to another server, which then answers the client itself. The
    /// client's library sends the request on in the client's name.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let mut worker = node.vm().bind_additional(Some(3))?;
    /// # let next = worker.address();
    /// # let thread = std::thread::spawn(move || client.sendrec(to, &m3ipc::Message::new(7)));
    /// use m3ipc::{Message, Source};
    ///
    /// let request = server.receive(Source::Any)?;
    /// server.relay(request.source, next)?;
    /// // The other server sees the client, and answers the client:
    /// let request = worker.receive(Source::Any)?;
    /// worker.reply(request.source, &Message::new(8))?;
    /// # assert_eq!(thread.join().unwrap()?.m_type, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReplyError::NotWaiting`] if the client does not wait for an answer from here, and those of
    /// the address of the other server.
    pub fn relay(&mut self, client: Address, to: Address) -> Result<(), ReplyError> {
        self.relay_request(client, to, &[]).map_err(|fail| ReplyError::of(fail, to))
    }

    /// Hands the request of `client` to another server with this message in place of the client's.
    /// The payload stays the client's.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let mut worker = node.vm().bind_additional(Some(3))?;
    /// # let next = worker.address();
    /// # let thread = std::thread::spawn(move || client.sendrec(to, &m3ipc::Message::new(7)));
    /// use m3ipc::{Message, Source};
    ///
    /// let request = server.receive(Source::Any)?;
    /// server.relay_message(request.source, next, &Message::new(70))?;
    /// let request = worker.receive(Source::Any)?;
    /// assert_eq!(request.m_type, 70);
    /// # worker.reply(request.source, &Message::new(8))?;
    /// # assert_eq!(thread.join().unwrap()?.m_type, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`relay`](Self::relay).
    pub fn relay_message(
        &mut self,
        client: Address,
        to: Address,
        message: &Message,
    ) -> Result<(), ReplyError> {
        let said = words_of_relay(message);
        self.relay_request(client, to, &said).map_err(|fail| ReplyError::of(fail, to))
    }

    fn relay_request(&mut self, client: Address, to: Address, said: &[u8]) -> Result<(), Fail> {
        self.enter(Verb::Relay)?;
        let index = self.contact_client(client)?;
        self.peers.get(index).check_party(Code::DstDied)?;
        match self.contact(to, Timeout::NoWait.deadline()) {
            Ok(index) => self.peers.get(index).check(Code::DstDied)?,
            // The other server has not returned to this daemon yet: the client waits for it, not
            // this endpoint.
            Err(fail) if fail.code == Code::Again => {}
            Err(fail) => return Err(fail),
        }
        if client == to {
            return Err(Code::Endpoint.into());
        }
        // Search again: the second contact may have dropped a client that died meanwhile.
        let index = self.contact_client(client)?;
        self.peers.get(index).admit_party(MessageKind::Relay, Code::DstDied)?;
        let payload = payload_of_relay(to);
        let message = Message { payload, ..Message::new(0) };
        let outgoing = Outgoing { long: said, ..Outgoing::short(&message) };
        match self.answer(index, MessageKind::Relay, outgoing)? {
            AnswerOutcome::Posted => Ok(()),
            AnswerOutcome::NotAwaited => Err(Code::ProcSts.into()),
        }
    }

    /// The link with a waiting client, which has made that link itself.
    fn contact_client(&mut self, client: Address) -> Result<u32, Fail> {
        self.contact(client, Timeout::NoWait.deadline()).map_err(|fail| match fail.code {
            Code::Again => Code::ProcSts.into(),
            // One that moves awaits no answer any more.
            Code::Migrate => Code::DstDied.into(),
            _ => fail,
        })
    }

    /// Answers the request that was taken from this peer, if the peer still waits.
    #[inline]
    pub(super) fn answer(
        &mut self,
        index: u32,
        kind: MessageKind,
        outgoing: Outgoing<'_>,
    ) -> Result<AnswerOutcome, Fail> {
        let owed = match self.peers.get(index) {
            client if client.link().owes_answer() => client.link().owed(),
            _ => return Ok(AnswerOutcome::NotAwaited),
        };
        self.trace.ready(owed);
        if self.payloads.has_open_answers() {
            self.settle_answers();
        }
        let Outgoing { m_type, payload, .. } = outgoing;
        let mut client = self.conversation(index);
        let answer = client.try_publish(|client| {
            let long = outgoing.payload_view();
            let answer = client.on_link(|link| link.answer(kind, m_type, payload, long))?;
            if answer != AnswerOutcome::Posted {
                return Ok::<_, Fail>((answer, EndsWait::None));
            }
            client.trace().stamp(Moment::Published);
            m3ipc_sys::pause_point("server.answered");
            Ok((answer, EndsWait::OnThisLink))
        })?;
        if answer == AnswerOutcome::Posted {
            m3ipc_sys::pause_point("server.woken");
            client.trace_gave(outgoing);
            self.note_answer(index, outgoing);
            self.ring_again();
            self.session.page().count(Counter::Sent);
            if self.priorities.inherits() {
                self.inherit();
            }
        }
        Ok(answer)
    }

    /// Answers a peer that receives from exactly this endpoint. It takes the answer at once, or it
    /// does not wait.
    fn reply_unasked(&mut self, index: u32, outgoing: Outgoing<'_>) -> Result<(), Fail> {
        if self.payloads.has_open_answers() {
            self.settle_answers();
        }
        let grace = self.grace_of_answer(self.peers.get(index));
        let mut client = self.conversation(index);
        if !client.on_link(|link| link.is_free())? {
            return Err(Code::ProcSts.into());
        }
        let address = client.peer().address();
        client.trace().stamp(Moment::Ready);
        let kind = (MessageKind::Reply, UNASKED);
        let posted = client.post(kind, outgoing, EndsWait::OnThisLink, || {});
        client.trace_gave(outgoing);
        let target = WaitTarget {
            verb: WaitCall::None,
            peer: address,
            index: Some(index),
            posted: None,
            own_cell: true,
        };
        let waited = self.wait(target, grace, |endpoint| {
            endpoint.check_refusal(index, posted)?;
            let taken = endpoint.conversation(index).on_link(|link| link.is_taken(posted))?;
            Ok(taken.then_some(()))
        });
        if let Err(CallStop::Failed(fail)) = &waited
            && matches!(fail.code, Code::NoPayload | Code::PeerBroke)
        {
            return Err(fail.clone());
        }
        if matches!(waited, Err(CallStop::Replaced)) {
            return Err(Code::ProcSts.into());
        }
        if waited.is_err() && self.take_message_back(index, posted)? {
            return Err(Code::ProcSts.into());
        }
        self.session.page().count(Counter::Sent);
        Ok(())
    }
}
