//! The ends of messages: of calls that stop, and of pending requests that are given up, dropped, or
//! settled while their link goes. [`m3ipc_link::ends`] has the table.

use super::Endpoint;
use super::buffer::Buffer;
use super::claims::{Claim, ClaimState, PostedRequest};
use super::payload::treatment;
use super::request_end::RequestEnd;
use crate::error::Fail;
use crate::octets::Octets;
use m3ipc_abi::{Address, Code, Message};
use m3ipc_link::ends::{Awaited, Cause, End, Fate, end as end_of};
use m3ipc_link::{Cancelled, RuleBroken, SlotState};
use std::sync::Arc;

impl Endpoint {
    /// The failure of a call to this peer, whose message had this fate when the call stopped.
    pub(super) fn failure(&self, index: u32, fate: Fate, stopped: Fail) -> Fail {
        let is_lost = || self.peers.get(index).admission().is_lost();
        let cause = match stopped.code {
            Code::DstDied => Cause::Died,
            Code::Migrate => Cause::Moved,
            Code::NotConn if is_lost() => Cause::Lost,
            code => Cause::Call(code),
        };
        failure_of(fate, cause, stopped)
    }

    /// Ends the claim of a request that is over. Cancels what is still posted.
    pub(super) fn end_claim(&mut self, to: Address, claim: &Arc<Claim>) {
        // After the end of this endpoint the claim stays, for `Claim::end_unbound`.
        if self.membership.check_bound().is_ok()
            && let ClaimState::Posted(request) = claim.set(ClaimState::Ended)
        {
            let is_withdrawn = request.canceller.cancel() == Ok(Cancelled::Withdrawn);
            self.clear_request(to, request, is_withdrawn, &mut Buffer::none());
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
    /// Also returns the length of the answer's payload.
    pub(super) fn clear_request(
        &mut self,
        to: Address,
        request: PostedRequest,
        is_withdrawn: bool,
        buffer: &mut Buffer<'_>,
    ) -> Option<(Message, usize)> {
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
        match self.take_answer(index, posted, buffer) {
            Ok(Some(
                RequestEnd::Answered(message, bytes) | RequestEnd::ByBlock(message, bytes),
            )) => Some((message, bytes)),
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
                self.clear_request(to, request, is_withdrawn, &mut Buffer::none());
            } else if let Some(open) = self.claims.take_contact(to) {
                self.session.control_mut().forget(&open);
            }
        }
    }

    /// Settles the pending request on a link that goes. Looks for the answer a last time: the peer
    /// may have posted it just before its death.
    #[cold]
    pub(super) fn settle_request(&mut self, index: u32, cause: Cause) {
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
        if !request.is_send && end == Ok(None) && was_taken {
            end = self.take_last_answer(index, request.posted, &mut bytes);
        }
        self.peers.get_mut(index).admission_mut().set_pending(None);
        if cancelled == Ok(Cancelled::Withdrawn)
            && let Some(large) = request.large
        {
            self.free_payload(large);
        }
        let awaited = if request.is_send { Awaited::Take } else { Awaited::Answer };
        let failed = match (end, cancelled) {
            (Ok(Some(end)), _) => {
                return claim.settle(ClaimState::Settled(Ok(end), Octets(bytes)));
            }
            (Err(fail), _) => self.failure(index, Fate::Taken, fail),
            (Ok(None), Err(broken)) => broken.into(),
            (Ok(None), Ok(cancelled)) => {
                let fate = Fate::from(cancelled);
                let goes_again = (fate, cause) == (Fate::NotTaken, Cause::Replaced);
                let by_proxy = by_proxy.filter(|_| !goes_again);
                match end_of(awaited, fate, by_proxy.map_or(cause, Cause::ByProxy)) {
                    End::Taken => {
                        let taken = Ok(RequestEnd::TAKEN);
                        return claim.settle(ClaimState::Settled(taken, Octets(bytes)));
                    }
                    End::Again => return claim.settle(ClaimState::Unposted),
                    End::Failed(code, delivery) => Fail::from(code).ended(code, delivery),
                }
            }
        };
        claim.settle(ClaimState::Settled(Err(failed), Octets(bytes)));
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
            Ok(Cancelled::Withdrawn) => {
                link.ended_by_proxy(posted).ok().flatten().map(|(_fate, code)| code)
            }
            Ok(Cancelled::Taken | Cancelled::Unknown) | Err(_) => None,
        }
    }

    fn take_last_answer(
        &mut self,
        index: u32,
        posted: SlotState,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<RequestEnd>, Fail> {
        match self.take_answer(index, posted, &mut Buffer::of(bytes)) {
            // The answer could not be accepted in time, and there is no later time.
            Err(fail) if treatment(&fail).is_none() => Ok(None),
            other => other,
        }
    }
}

/// The failure of a request that a call has stopped to wait for, or that a proxy has ended.
pub(super) fn failure_of(fate: Fate, cause: Cause, stopped: Fail) -> Fail {
    match end_of(Awaited::Answer, fate, cause) {
        End::Failed(code, delivery) => stopped.ended(code, delivery),
        // Those of sends and of replaced links.
        End::Taken | End::Again => stopped,
    }
}
