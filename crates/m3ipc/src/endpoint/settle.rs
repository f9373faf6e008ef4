//! The end of pending requests: given up, dropped, or settled while their link goes.

use super::Endpoint;
use super::buffer::Buffer;
use super::claims::{Claim, ClaimState, PostedRequest};
use super::payload::treatment;
use super::request_end::RequestEnd;
use crate::error::Fail;
use crate::octets::Octets;
use m3ipc_abi::{Address, Code, Message};
use m3ipc_link::{Cancelled, RuleBroken, SlotState};
use std::sync::Arc;

/// Why the link of a pending request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkLoss {
    /// The server died.
    Died,
    /// The node of the server cannot be reached any more.
    Lost,
    /// The server moves to another node.
    Moved,
    /// Another link replaced it, and the server may never have got it.
    Replaced,
}

impl Endpoint {
    /// Ends the claim of a request that is over. Cancels what is still posted.
    pub(super) fn end_claim(&mut self, to: Address, claim: &Arc<Claim>) {
        // After the end of this endpoint the claim stays, for `Claim::end_unbound`.
        if self.membership.check_bound().is_ok()
            && let ClaimState::Posted(request) = claim.set(ClaimState::Ended)
        {
            let is_withdrawn = request.canceller.cancel() == Ok(Cancelled::Withdrawn);
            self.clear_request(to, request, is_withdrawn);
        }
        // The claim may belong to another request by now.
        if self.claims.of(to).is_some_and(|found| Arc::ptr_eq(&found, claim)) {
            self.claims.release(to);
        }
    }

    /// Ends a posted request whose answer was taken.
    pub(super) fn end_posted(&mut self, claim: &Claim) {
        if let ClaimState::Posted(request) = claim.set(ClaimState::Ended) {
            self.peers.get_mut(request.index).admission_mut().set_pending(None);
        }
    }

    /// Takes the late answer of a cancelled request out of the link, or frees what was withdrawn.
    pub(super) fn clear_request(
        &mut self,
        to: Address,
        request: PostedRequest,
        is_withdrawn: bool,
    ) -> Option<Message> {
        let PostedRequest { index, posted, large, is_send, .. } = request;
        let found = self.peers.find_index(index);
        let is_there = found
            .is_some_and(|peer| peer.address() == to && peer.admission().pending() == Some(posted));
        if is_there {
            self.peers.get_mut(index).admission_mut().set_pending(None);
        }
        if is_withdrawn {
            if let Some(large) = large {
                self.free_payload(large);
            }
            return None;
        }
        if !is_there || is_send {
            return None;
        }
        match self.take_answer(index, posted, &mut Buffer::none()) {
            Ok(Some(RequestEnd::Answered(message, _) | RequestEnd::ByBlock(message, _))) => {
                Some(message)
            }
            Ok(_) => None,
            Err(_) => {
                self.refuse_answer(index, posted);
                None
            }
        }
    }

    /// Ends the claims of dropped requests.
    #[cold]
    pub(super) fn clear_dropped_requests(&mut self) {
        for (to, request) in self.claims.take_dropped() {
            if let Some((request, is_withdrawn)) = request {
                self.clear_request(to, request, is_withdrawn);
            } else if let Some(open) = self.claims.take_contact(to) {
                self.session.control_mut().forget(&open);
            }
        }
    }

    /// Settles the pending request on a link that goes. Looks for the answer a last time: the peer
    /// may have posted it just before its death.
    #[cold]
    pub(super) fn settle_request(&mut self, index: u32, loss: LinkLoss) {
        let to = self.peers.get(index).address();
        let Some(claim) =
            self.claims.of(to).filter(|_| self.peers.get(index).admission().pending().is_some())
        else {
            return;
        };
        let Some(request) = claim.begin_settling() else { return };
        // Behind the event of this death lie events that the event word has told already: the areas
        // that the server has left. The daemon may have freed the answer's memory after them.
        self.session.expect_events();
        let mut bytes = Vec::new();
        let mut end = Ok(None);
        if !request.is_send {
            end = self.take_last_answer(index, request.posted, &mut bytes);
        }
        let cancelled = request.canceller.cancel();
        let was_taken = matches!(cancelled, Ok(Cancelled::Taken | Cancelled::Unanswered));
        let by_proxy = self.code_of_proxy(index, request.posted, cancelled);
        if request.is_send {
            end = Ok(was_taken.then_some(RequestEnd::TAKEN));
        } else if end == Ok(None) && was_taken {
            end = self.take_last_answer(index, request.posted, &mut bytes);
        }
        self.peers.get_mut(index).admission_mut().set_pending(None);
        if cancelled == Ok(Cancelled::Withdrawn)
            && let Some(large) = request.large
        {
            self.free_payload(large);
        }
        let fail = match (end, cancelled, loss) {
            (Ok(Some(end)), ..) => {
                return claim.settle(ClaimState::Settled(Ok(end), Octets(bytes)));
            }
            (Ok(None), Ok(Cancelled::Withdrawn), LinkLoss::Replaced) => {
                return claim.settle(ClaimState::Unposted);
            }
            (Err(fail), ..) => fail,
            (Ok(None), Err(broken), _) => broken.into(),
            (Ok(None), ..) if by_proxy.is_some() => by_proxy.unwrap_or(Code::Unknown).into(),
            (Ok(None), Ok(Cancelled::Unknown), _) => Code::Unknown.into(),
            (Ok(None), Ok(Cancelled::Withdrawn), LinkLoss::Lost) => Code::NotConn.into(),
            (Ok(None), Ok(Cancelled::Taken | Cancelled::Unanswered), LinkLoss::Lost) => {
                Code::AnswerLost.into()
            }
            (Ok(None), Ok(Cancelled::Withdrawn), LinkLoss::Died) => Code::DstDied.into(),
            (Ok(None), Ok(Cancelled::Withdrawn), LinkLoss::Moved) => Code::Migrate.into(),
            (
                Ok(None),
                Ok(Cancelled::Taken | Cancelled::Unanswered),
                LinkLoss::Died | LinkLoss::Moved,
            ) => Code::SrcDied.into(),
            (Ok(None), Ok(Cancelled::Taken | Cancelled::Unanswered), LinkLoss::Replaced) => {
                Code::Unknown.into()
            }
        };
        claim.settle(ClaimState::Settled(Err(fail), Octets(bytes)));
    }

    /// The code with which a proxy ended a message, after its cancellation.
    fn code_of_proxy(
        &self,
        index: u32,
        posted: SlotState,
        cancelled: Result<Cancelled, RuleBroken>,
    ) -> Option<Code> {
        let link = self.peers.get(index).link();
        match cancelled {
            Ok(Cancelled::Unanswered) => link.proxy_code().ok(),
            Ok(Cancelled::Withdrawn) => link.ended_by_proxy(posted).ok().flatten(),
            Ok(Cancelled::Taken | Cancelled::Unknown) | Err(_) => None,
        }
    }

    fn take_last_answer(
        &mut self,
        index: u32,
        posted: SlotState,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<RequestEnd>, Fail> {
        match self.take_answer(index, posted, &mut Buffer::Vec(bytes)) {
            // The answer could not be accepted in time, and there is no later time.
            Err(fail) if treatment(&fail).is_none() => Ok(None),
            other => other,
        }
    }
}
