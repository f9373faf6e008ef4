//! reply and relay: answers, which never wait.

use super::blocks::is_large;
use super::peers::UNASKED;
use super::send::Outgoing;
use super::wait::Want;
use super::{At, Endpoint, Trap};
use crate::error::{Fail, ReplyError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, MESSAGE_BYTES, Message, PAYLOAD_BYTES};
use m3ipc_link::{AnswerOutcome, Counter, MessageKind, WaitCall as Verb};

impl Endpoint {
    /// Answers one who waits for exactly this endpoint. Never waits itself.
    ///
    /// # Errors
    /// [`ReplyError::NotWaiting`] where it does not (any more), and the others.
    pub fn reply(&mut self, to: Address, message: &Message) -> Result<(), ReplyError> {
        self.reply_long(to, message, &[])
    }

    /// The same with a long payload; beyond 1,792 bytes it travels as a block.
    ///
    /// # Errors
    /// [`ReplyError::TooLong`], and the others.
    pub fn reply_long(
        &mut self,
        to: Address,
        message: &Message,
        long: &[u8],
    ) -> Result<(), ReplyError> {
        let replied =
            Outgoing::new(message, long).and_then(|outgoing| self.reply_outgoing(to, outgoing));
        replied.map_err(|fail| ReplyError::of(fail, to))
    }

    pub(super) fn reply_outgoing(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
    ) -> Result<(), Fail> {
        self.enter(Trap::Reply)?;
        self.reply_message(to, outgoing)
    }

    fn reply_message(&mut self, to: Address, outgoing: Outgoing<'_>) -> Result<(), Fail> {
        let index = self.contact_client(to)?;
        self.peers.get(index).check(Code::DstDied)?;
        self.peers.get(index).allow(MessageKind::Reply)?;
        m3ipc_sys::pause_point("server.before_answer");
        if is_large(outgoing.long.len()) {
            let wrapped = self.wrap(index, outgoing.long)?;
            let name = wrapped.bytes;
            let answered = self.answer_over(index, outgoing.carrying(&name));
            self.unwrap_if_failed(Some(wrapped), &answered);
            return answered;
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

    /// Hands the request of `client` to another, who then answers the client
    /// itself. The client's library sends on what the client said, in its name.
    ///
    /// # Errors
    /// [`ReplyError::NotWaiting`] where the client does not wait for an answer
    /// from here, and those of the new server's address.
    pub fn relay(&mut self, client: Address, to: Address) -> Result<(), ReplyError> {
        self.relay_request(client, to, &[]).map_err(|fail| ReplyError::of(fail, to))
    }

    /// The same, with this message in place of the client's. The long payload stays the client's.
    ///
    /// # Errors
    /// As [`relay`](Self::relay).
    pub fn relay_message(
        &mut self,
        client: Address,
        to: Address,
        message: &Message,
    ) -> Result<(), ReplyError> {
        let mut said = [0; MESSAGE_BYTES];
        said[4..8].copy_from_slice(&message.m_type.to_ne_bytes());
        said[8..].copy_from_slice(&message.payload);
        self.relay_request(client, to, &said).map_err(|fail| ReplyError::of(fail, to))
    }

    fn relay_request(&mut self, client: Address, to: Address, said: &[u8]) -> Result<(), Fail> {
        self.enter(Trap::Relay)?;
        let index = self.contact_client(client)?;
        self.peers.get(index).check(Code::DstDied)?;
        match self.contact(to, Timeout::Now.deadline()) {
            Ok(index) => self.peers.get(index).check(Code::DstDied)?,
            // It has not come to this daemon yet: for that the client waits, not this one.
            Err(fail) if fail.code == Code::Again => {}
            Err(fail) => return Err(fail),
        }
        if client == to {
            return Err(Code::Endpoint.into());
        }
        // Found once more: the other's contact may have let go of a client that died meanwhile.
        let index = self.contact_client(client)?;
        self.peers.get(index).check(Code::DstDied)?;
        self.peers.get(index).allow(MessageKind::Relay)?;
        let mut payload = [0; PAYLOAD_BYTES];
        payload[..4].copy_from_slice(&to.0.to_ne_bytes());
        let outgoing = Outgoing { m_type: 0, payload: &payload, long: said, block: None };
        match self.answer(index, MessageKind::Relay, outgoing)? {
            AnswerOutcome::Posted => Ok(()),
            AnswerOutcome::NotAwaited => Err(Code::ProcSts.into()),
        }
    }

    /// The link with one who waits for an answer: it has made that link itself.
    fn contact_client(&mut self, client: Address) -> Result<u32, Fail> {
        self.contact(client, Timeout::Now.deadline()).map_err(|fail| match fail.code {
            Code::Again => Code::ProcSts.into(),
            _ => fail,
        })
    }

    /// Answers the request taken from this peer, if it still waits.
    #[inline]
    pub(super) fn answer(
        &mut self,
        index: u32,
        kind: MessageKind,
        outgoing: Outgoing<'_>,
    ) -> Result<AnswerOutcome, Fail> {
        let Outgoing { m_type, payload, .. } = outgoing;
        let link = &mut self.peers.get_mut(index).link;
        if !link.owes_answer() {
            return Ok(AnswerOutcome::NotAwaited);
        }
        if let Some(tracing) = &mut self.tracing {
            tracing.ready(link.owed());
        }
        let answer = link
            .answer(kind, m_type, payload, outgoing.cargo())
            .map_err(|broken| self.poison(index, broken))?;
        if answer == AnswerOutcome::Posted {
            self.stamp(At::Published);
            m3ipc_sys::pause_point("server.answered");
            self.alert(index, false);
            m3ipc_sys::pause_point("server.woken");
            self.trace_gave(index, m_type, outgoing.long.len());
            self.desk.count(Counter::Sent);
        }
        Ok(answer)
    }

    /// Answers one who receives from exactly here: it takes that at once, or it does not wait.
    fn reply_unasked(&mut self, index: u32, outgoing: Outgoing<'_>) -> Result<(), Fail> {
        let grace = self.grace_of_answer(index);
        let peer = self.peers.get_mut(index);
        if !peer.link.is_free().unwrap_or(false) {
            return Err(Code::ProcSts.into());
        }
        let address = peer.address();
        self.stamp(At::Ready);
        let Outgoing { m_type, payload, .. } = outgoing;
        let link = &mut self.peers.get_mut(index).link;
        let posted = link.post(MessageKind::Reply, UNASKED, m_type, payload, outgoing.cargo());
        self.stamp(At::Published);
        self.alert(index, false);
        self.trace_gave(index, m_type, outgoing.long.len());
        let want = Want {
            verb: Verb::None,
            peer: address,
            index: Some(index),
            posted: None,
            own_cell: true,
        };
        let waited = self.wait(want, grace, |endpoint| {
            let taken = endpoint.peers.get(index).link.is_taken(posted);
            Ok(taken.map_err(|broken| endpoint.poison(index, broken))?.then_some(()))
        });
        if waited.as_ref().is_err_and(|fail| fail.code == Code::Unknown) {
            return Err(Code::ProcSts.into());
        }
        if waited.is_err()
            && self
                .peers
                .get(index)
                .link
                .withdraw(posted)
                .map_err(|broken| self.poison(index, broken))?
        {
            return Err(Code::ProcSts.into());
        }
        self.desk.count(Counter::Sent);
        Ok(())
    }
}
