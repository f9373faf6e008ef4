//! A request in pieces, for event loops: begin, look, give up.

use super::send::Outgoing;
use super::sendrec::End;
use super::{At, Endpoint, Trap};
use crate::error::{Fail, SendRecError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, Message};
use m3ipc_link::{MessageKind, SlotState};

/// A request that was posted and whose answer is to come. Not to be dropped
/// silently: [`Endpoint::abandon`] takes it back.
#[derive(Debug)]
#[must_use = "finish it with poll_request or abandon"]
pub struct PendingRequest {
    to: Address,
    index: u32,
    posted: SlotState,
    message: Message,
}

impl Endpoint {
    /// Posts a request without waiting for anything.
    ///
    /// # Errors
    /// [`SendRecError`].
    pub fn begin_request(
        &mut self,
        to: Address,
        message: &Message,
    ) -> Result<PendingRequest, SendRecError> {
        self.begin(to, message).map_err(|fail| SendRecError::of(fail, to))
    }

    fn begin(&mut self, to: Address, message: &Message) -> Result<PendingRequest, Fail> {
        self.enter(Trap::SendRec)?;
        let index =
            self.contact(to, Timeout::Never.deadline()).map_err(|fail| match fail.code {
                Code::DstDied => Code::DeadSrcDst.into(),
                _ => fail,
            })?;
        self.peers.get(index).check(Code::DeadSrcDst)?;
        self.peers.get(index).allow(MessageKind::Request)?;
        let outgoing = Outgoing::new(message, &[])?;
        let posted = self.post(index, MessageKind::Request, outgoing, Timeout::Never.deadline())?;
        Ok(PendingRequest { to, index, posted, message: *message })
    }

    /// The answer, if it has come. Where it has not and the endpoint's
    /// [descriptor](Endpoint::fd) is in use, that becomes readable when there is more to see.
    ///
    /// # Errors
    /// [`SendRecError`]; the request is over then.
    pub fn poll_request(
        &mut self,
        pending: &mut PendingRequest,
    ) -> Result<Option<Message>, SendRecError> {
        let to = pending.to;
        let polled = self.poll_answer(pending);
        let polled = match polled {
            // Armed before the last look: whatever comes after it rings.
            Ok(None) if self.arm(pending.to) => self.look_for_answer(pending),
            other => other,
        };
        self.trace_done();
        polled.map_err(|fail| SendRecError::of(fail, to))
    }

    fn poll_answer(&mut self, pending: &mut PendingRequest) -> Result<Option<Message>, Fail> {
        self.stand()?;
        self.disarm();
        self.stamp(At::Looked);
        self.look_for_answer(pending)
    }

    fn look_for_answer(&mut self, pending: &mut PendingRequest) -> Result<Option<Message>, Fail> {
        // Another call may have let go of a server that died, and its index may be another's.
        if !self.is_peer_of(pending) {
            return Err(Code::SrcDied.into());
        }
        match self.take_answer(pending.index, pending.posted, &mut [])? {
            Some(End::Answered(message, _)) => return Ok(Some(message)),
            Some(End::Relayed(next, said)) => {
                *pending = self.begin(next, &said.unwrap_or(pending.message))?;
                return Ok(None);
            }
            None => {}
        }
        self.hear()?;
        if let Err(fail) = self.peers.get(pending.index).check(Code::DstDied) {
            let withdrawn = self.peers.get(pending.index).link.withdraw(pending.posted);
            let withdrawn = withdrawn.map_err(|broken| self.poison(pending.index, broken))?;
            return Err(if withdrawn { fail } else { Code::SrcDied.into() });
        }
        Ok(None)
    }

    fn is_peer_of(&self, pending: &PendingRequest) -> bool {
        self.peers.find_index(pending.index).is_some_and(|peer| peer.address() == pending.to)
    }

    /// Gives a request up: withdrawn, or its answer not awaited any more.
    /// `Some` where the answer had come already.
    pub fn abandon(&mut self, pending: &PendingRequest) -> Option<Message> {
        if !self.is_peer_of(pending) {
            return None;
        }
        let link = &self.peers.find_index(pending.index)?.link;
        if link.withdraw(pending.posted) != Ok(false) {
            return None;
        }
        link.abandon(pending.posted);
        match self.take_answer(pending.index, pending.posted, &mut []).ok()?? {
            End::Answered(message, _) => Some(message),
            End::Relayed(..) => None,
        }
    }
}
