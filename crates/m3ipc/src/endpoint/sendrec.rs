//! sendrec: a request and its answer, in one wait and one time limit.

use super::blocks::is_large;
use super::send::Outgoing;
use super::wait::Want;
use super::{At, Endpoint, Trap};
use crate::error::{Fail, SendRecError};
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{Address, Code, MESSAGE_BYTES, Message};
use m3ipc_link::{
    AnswerOutcome, Arrival, Counter, MessageKind, SlotState, TakenMessage, WaitCall as Verb,
};

/// How a request to one server ended.
#[derive(Debug)]
pub(super) enum End {
    /// With an answer.
    Answered(Message, usize),
    /// It was relayed: ask this one instead, and say this where it is given.
    Relayed(Address, Option<Message>),
}

impl Endpoint {
    /// Sends a request and waits for its answer, which may be any message of the peer.
    ///
    /// # Errors
    /// [`SendRecError`]; it tells whether the request was taken.
    pub fn sendrec(&mut self, to: Address, message: &Message) -> Result<Message, SendRecError> {
        self.sendrec_timeout(to, message, Timeout::Never)
    }

    /// The same, no longer than that for the whole.
    ///
    /// # Errors
    /// [`SendRecError::TimedOut`], and the others.
    pub fn sendrec_timeout(
        &mut self,
        to: Address,
        message: &Message,
        limit: impl Into<Timeout>,
    ) -> Result<Message, SendRecError> {
        self.sendrec_long(to, message, &[], &mut [], limit.into()).map(|(answer, _)| answer)
    }

    /// The same with long payloads both ways; the answer's goes to the front of
    /// `room` as far as it fits, and its full length is told.
    ///
    /// # Errors
    /// [`SendRecError::TooLong`], and the others.
    pub fn sendrec_long(
        &mut self,
        to: Address,
        message: &Message,
        long: &[u8],
        room: &mut [u8],
        limit: Timeout,
    ) -> Result<(Message, usize), SendRecError> {
        let answered = Outgoing::new(message, long)
            .and_then(|outgoing| self.call(to, outgoing, room, limit.deadline()));
        answered.map_err(|fail| SendRecError::of(fail, to))
    }

    pub(super) fn call(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
        room: &mut [u8],
        deadline: Deadline,
    ) -> Result<(Message, usize), Fail> {
        self.enter(Trap::SendRec)?;
        let at_entry = |fail: Fail| match fail.code {
            Code::DstDied => Code::DeadSrcDst.into(),
            _ => fail,
        };
        let index = self.contact(to, deadline).map_err(at_entry)?;
        self.peers.get(index).check(Code::DeadSrcDst)?;
        // From here on the answerer may copy, as soon as it has the request.
        self.park();
        let answered = self.call_until_answered(index, outgoing, room, deadline);
        self.unpark();
        self.trace_done();
        answered
    }

    fn call_until_answered(
        &mut self,
        mut index: u32,
        outgoing: Outgoing<'_>,
        room: &mut [u8],
        deadline: Deadline,
    ) -> Result<(Message, usize), Fail> {
        let mut to = self.peers.get(index).address();
        let mut said = None;
        let mut relayed = false;
        loop {
            self.copies.lent_to(index);
            let outgoing = said.as_ref().map_or(outgoing, |message| outgoing.saying(message));
            let outgoing = if relayed { outgoing.without_block() } else { outgoing };
            match self.call_with(index, outgoing, room, deadline) {
                // The peer never got that link, and there is another now.
                Err(fail) if fail.code == Code::Unknown => {
                    index = self.contact(to, deadline)?;
                    self.peers.get(index).check(Code::DstDied)?;
                }
                Err(fail) => return Err(fail),
                Ok(End::Answered(message, long_bytes)) => return Ok((message, long_bytes)),
                // The request goes on in the name of who made it.
                Ok(End::Relayed(next, other)) => {
                    to = next;
                    index = self.contact(next, deadline)?;
                    self.peers.get(index).check(Code::DstDied)?;
                    said = other.or(said);
                    // It stays with who was given it.
                    relayed = true;
                }
            }
        }
    }

    /// A long payload that no link holds goes as a block.
    #[inline]
    fn call_with(
        &mut self,
        index: u32,
        outgoing: Outgoing<'_>,
        room: &mut [u8],
        deadline: Deadline,
    ) -> Result<End, Fail> {
        if !is_large(outgoing.long.len()) {
            return self.call_one(index, outgoing, room, deadline);
        }
        let wrapped = self.wrap(index, outgoing.long)?;
        let name = wrapped.bytes;
        let answered = self.call_one(index, outgoing.carrying(&name), room, deadline);
        self.unwrap_if_failed(Some(wrapped), &answered);
        answered
    }

    fn call_one(
        &mut self,
        index: u32,
        outgoing: Outgoing<'_>,
        room: &mut [u8],
        deadline: Deadline,
    ) -> Result<End, Fail> {
        self.peers.get(index).allow(MessageKind::Request)?;
        if self.answer(index, MessageKind::Reply, outgoing)? == AnswerOutcome::Posted {
            return match self.wait_message_of(index, room, deadline) {
                // The request was taken; the time that there was not is over.
                Err(fail) if fail.code == Code::Again => Err(Code::TimedOut.into()),
                other => other,
            };
        }
        let graced = self.grace(index, deadline);
        let posted = self.post(index, MessageKind::Request, outgoing, deadline)?;
        self.desk.count(Counter::Sent);
        if deadline.no_wait {
            // It takes the request now or never; the answer has no time to come.
            let taken = self.wait_taken(index, posted, deadline, graced, Verb::SendRec);
            let fail = taken.err().unwrap_or_else(|| Code::TimedOut.into());
            if fail.code == Code::Unknown {
                return Err(fail);
            }
            return self.settle_request(index, posted, room, fail);
        }
        let peer = self.peers.get(index).address();
        let want = Want {
            verb: Verb::SendRec,
            peer,
            index: Some(index),
            posted: Some(posted),
            own_cell: false,
        };
        let waited = self.wait(want, deadline, |endpoint| {
            if let Some(end) = endpoint.take_answer(index, posted, room)? {
                return Ok(Some(end));
            }
            endpoint.hear()?;
            let peer = endpoint.peers.get(index);
            peer.check(Code::DstDied)?;
            endpoint.check_crossing(index, posted, deadline)?;
            Ok(None)
        });
        match waited {
            Ok(end) => Ok(end),
            Err(fail) if matches!(fail.code, Code::PeerBroke | Code::Unknown) => Err(fail),
            Err(fail) => self.settle_request(index, posted, room, fail),
        }
    }

    /// Takes the answer to a request, if it is there.
    #[inline]
    pub(super) fn take_answer(
        &mut self,
        index: u32,
        posted: SlotState,
        room: &mut [u8],
    ) -> Result<Option<End>, Fail> {
        let link = &self.peers.get(index).link;
        match link.peek_answer(posted).map_err(|broken| self.poison(index, broken))? {
            Some(arrival) if arrival.state.kind == MessageKind::Relay => {
                self.take_relay(index, arrival)
            }
            Some(arrival) => {
                m3ipc_sys::pause_point("client.answer_seen");
                // An answer has no place in an order.
                let incoming = match arrival.state.kind {
                    MessageKind::Reply => self.take_untimed(index, arrival, room)?,
                    _ => self.take(index, arrival, room)?,
                };
                Ok(incoming.map(|incoming| self.answered(index, &incoming)))
            }
            None => Ok(None),
        }
    }

    /// Takes the word that another is to answer, and what is to be said to it.
    #[cold]
    fn take_relay(&mut self, index: u32, arrival: Arrival) -> Result<Option<End>, Fail> {
        let mut said = [0; MESSAGE_BYTES];
        let Some(incoming) = self.take(index, arrival, &mut said)? else { return Ok(None) };
        let [a, b, c, d, ..] = incoming.payload;
        let next = Address(i32::from_ne_bytes([a, b, c, d]));
        let [_, _, _, _, e, f, g, h, payload @ ..] = said;
        let message = Message { payload, ..Message::new(i32::from_ne_bytes([e, f, g, h])) };
        Ok(Some(End::Relayed(next, (incoming.long_bytes == MESSAGE_BYTES).then_some(message))))
    }

    /// Copies and takes a message, and remembers when; `None` where its sender withdrew it.
    pub(super) fn take(
        &mut self,
        index: u32,
        arrival: Arrival,
        room: &mut [u8],
    ) -> Result<Option<TakenMessage>, Fail> {
        let taken = self.take_untimed(index, arrival, room)?;
        if taken.is_some() {
            self.taken_ticks = m3ipc_sys::ticks();
            self.peers.get_mut(index).floor = self.taken_ticks;
        }
        Ok(taken)
    }

    /// The same, and the time is not looked at.
    #[inline]
    pub(super) fn take_untimed(
        &mut self,
        index: u32,
        arrival: Arrival,
        room: &mut [u8],
    ) -> Result<Option<TakenMessage>, Fail> {
        if self.peers.get(index).link.has_incoming_block() {
            return self.take_with_block(index, arrival, room);
        }
        self.take_now(index, arrival, room)
    }

    /// The same; what a block is beside has been looked at.
    #[inline]
    pub(super) fn take_now(
        &mut self,
        index: u32,
        arrival: Arrival,
        room: &mut [u8],
    ) -> Result<Option<TakenMessage>, Fail> {
        self.stamp(At::Found);
        let peer = self.peers.get_mut(index);
        match peer.link.take(arrival, room) {
            Ok(None) => Ok(None),
            Ok(Some(incoming)) => {
                self.latest = Some(peer.identity);
                self.trace_taken(index, arrival, incoming.m_type, incoming.long_bytes);
                match incoming.kind {
                    // Its sender may sleep until now.
                    MessageKind::Send => self.alert(index, false),
                    // So may one who answered and has more to say: it waits for the cell.
                    MessageKind::Reply | MessageKind::Relay => self.alert_who_waits_here(index),
                    MessageKind::Request => {}
                }
                self.desk.count(Counter::Received);
                if self.areas.came.is_some() {
                    self.areas.came = None;
                }
                Ok(Some(incoming))
            }
            Err(broken) => Err(self.poison(index, broken)),
        }
    }

    /// Ends a request that will not be waited for any longer: it goes back, or
    /// its answer is given up, or the answer came after all.
    fn settle_request(
        &mut self,
        index: u32,
        posted: SlotState,
        room: &mut [u8],
        fail: Fail,
    ) -> Result<End, Fail> {
        let link = &self.peers.get(index).link;
        if link.withdraw(posted).map_err(|broken| self.poison(index, broken))? {
            return Err(fail);
        }
        self.peers.get(index).link.abandon(posted);
        if let Some(end) = self.take_answer(index, posted, room)? {
            return Ok(end);
        }
        match fail.code {
            Code::DstDied => Err(Code::SrcDied.into()),
            // A taken request that closes a circle is none: it waits to receive.
            _ => Err(fail),
        }
    }

    #[inline]
    fn answered(&self, index: u32, incoming: &TakenMessage) -> End {
        let source = self.peers.get(index).address();
        let message = Message { source, m_type: incoming.m_type, payload: incoming.payload };
        End::Answered(message, incoming.long_bytes)
    }

    /// The request was an answer itself: what comes back is a message of the peer.
    fn wait_message_of(
        &mut self,
        index: u32,
        room: &mut [u8],
        deadline: Deadline,
    ) -> Result<End, Fail> {
        let peer = self.peers.get(index).address();
        let want =
            Want { verb: Verb::Receive, peer, index: Some(index), posted: None, own_cell: false };
        let incoming = self.wait(want, deadline, |endpoint| {
            if let Some(arrival) = endpoint.peers.get_mut(index).look()
                && let Some(incoming) = endpoint.take(index, arrival, room)?
            {
                return Ok(Some(incoming));
            }
            endpoint.hear()?;
            endpoint.peers.get(index).check(Code::SrcDied)?;
            Ok(None)
        })?;
        Ok(self.answered(index, &incoming))
    }
}
