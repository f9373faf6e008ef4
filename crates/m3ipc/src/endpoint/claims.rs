//! The claims of pending requests on their peers.
//!
//! A link holds one message of this endpoint, and a request stays in it until its answer has come.
//! So a pending request claims its peer: until it ends, no other message goes to that peer.
//!
//! | state | moved by | to |
//! |---|---|---|
//! | unposted | the endpoint, once link and slot are ready | posted |
//! | posted | the endpoint: the peer died, or its link was replaced | settling |
//! | settling | the endpoint, after its last look for the answer | settled, unposted |
//! | posted | the endpoint: an answer was taken, or the request was given up | ended |
//! | all but ended | the drop of the request, on any thread | dropped |
//!
//! A drop cancels a posted request at once, in the link. The endpoint does the rest in its next
//! call: it takes an answer that came too late, and frees a large payload.

use super::payload_state::LargePayload;
use super::request_end::RequestEnd;
use super::withdrawal::Withdrawal;
use crate::control::OpenRequest;
use crate::error::Fail;
use crate::octets::Octets;
use m3ipc_abi::{Address, Code};
use m3ipc_link::{Cancelled, RequestCanceller, SlotState};
use m3ipc_sys::ForkGuard;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A request in the slot of a link.
#[derive(Debug)]
pub(super) struct PostedRequest {
    pub(super) index: u32,
    pub(super) posted: SlotState,
    pub(super) canceller: RequestCanceller,
    /// The payload, if it lies in a block.
    pub(super) large: Option<LargePayload>,
    /// Whether the take ends it, and no answer.
    pub(super) is_send: bool,
}

/// The state of a claim. The head of this file has the table of its changes.
#[derive(Debug)]
pub(super) enum ClaimState {
    Unposted,
    Posted(PostedRequest),
    Settling,
    /// The end at the death of the peer, with the payload of the answer.
    Settled(Result<RequestEnd, Fail>, Octets),
    Ended,
    /// The request that was posted, and whether it was withdrawn.
    Dropped(Option<(PostedRequest, bool)>),
}

/// A claim: what a pending request and its endpoint share.
#[derive(Debug)]
pub(super) struct Claim {
    guard: ForkGuard,
    /// Set at a drop, for the endpoint to see.
    any_dropped: Arc<AtomicBool>,
    state: Mutex<ClaimState>,
}

impl Claim {
    pub(super) fn state(&self) -> MutexGuard<'_, ClaimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The link and the message of a posted request.
    pub(super) fn posted(&self) -> Option<(u32, SlotState)> {
        match &*self.state() {
            ClaimState::Posted(request) => Some((request.index, request.posted)),
            _ => None,
        }
    }

    /// Moves the claim to this state, and returns the former one.
    pub(super) fn set(&self, state: ClaimState) -> ClaimState {
        std::mem::replace(&mut *self.state(), state)
    }

    /// Takes a posted request out of the claim, to settle it.
    pub(super) fn begin_settling(&self) -> Option<PostedRequest> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, ClaimState::Settling) {
            ClaimState::Posted(request) => Some(request),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Ends the settling, unless the request was dropped meanwhile.
    pub(super) fn settle(&self, settled: ClaimState) {
        let mut state = self.state();
        if matches!(*state, ClaimState::Settling) {
            *state = settled;
        }
    }

    /// Ends the request of an endpoint that is bound no longer.
    pub(super) fn end_unbound(&self) -> Withdrawal {
        if !self.guard.is_original() {
            return Withdrawal::Unknown;
        }
        match self.set(ClaimState::Ended) {
            ClaimState::Posted(request) => match request.canceller.cancel() {
                Ok(Cancelled::Withdrawn) => Withdrawal::Withdrawn,
                Ok(Cancelled::Taken | Cancelled::Unanswered) => Withdrawal::Taken,
                Ok(Cancelled::Unknown) | Err(_) => Withdrawal::Unknown,
            },
            ClaimState::Unposted => Withdrawal::Withdrawn,
            ClaimState::Settled(Ok(_), _) => Withdrawal::Taken,
            // Only a request that was never taken fails with these codes.
            ClaimState::Settled(Err(fail), _)
                if matches!(fail.code, Code::DstDied | Code::Migrate) =>
            {
                Withdrawal::Withdrawn
            }
            ClaimState::Settled(Err(_), _)
            | ClaimState::Settling
            | ClaimState::Ended
            | ClaimState::Dropped(_) => Withdrawal::Unknown,
        }
    }

    /// The drop of the pending request.
    pub(super) fn drop_request(&self) {
        // A child by fork has no mapping of the link, and the request belongs to its parent.
        if !self.guard.is_original() {
            return;
        }
        let mut state = self.state();
        let request = match std::mem::replace(&mut *state, ClaimState::Ended) {
            ClaimState::Ended | ClaimState::Dropped(_) => return,
            ClaimState::Unposted | ClaimState::Settling | ClaimState::Settled(..) => None,
            ClaimState::Posted(request) => {
                // On a broken link nothing is left to end.
                let is_withdrawn = request.canceller.cancel() == Ok(Cancelled::Withdrawn);
                Some((request, is_withdrawn))
            }
        };
        *state = ClaimState::Dropped(request);
        self.any_dropped.store(true, Ordering::Release);
    }
}

/// A claim in the list of its endpoint.
#[derive(Debug)]
struct Entry {
    claim: Arc<Claim>,
    /// The news of the doorbell that the last poll of the request saw.
    seen: u64,
}

/// The claims of an endpoint, and its open contacts.
#[derive(Debug, Default)]
pub(super) struct Claims {
    by_address: BTreeMap<i32, Entry>,
    any_dropped: Arc<AtomicBool>,
    /// First contacts that no call waits for.
    contacts: BTreeMap<i32, OpenRequest>,
}

impl Claims {
    /// Claims a peer for a new request.
    pub(super) fn claim(&mut self, peer: Address) -> Result<Arc<Claim>, Fail> {
        if self.by_address.contains_key(&peer.0) {
            return Err(Code::Busy.into());
        }
        let claim = Arc::new(Claim {
            guard: ForkGuard::new()?,
            any_dropped: Arc::clone(&self.any_dropped),
            state: Mutex::new(ClaimState::Unposted),
        });
        self.by_address.insert(peer.0, Entry { claim: Arc::clone(&claim), seen: 0 });
        Ok(claim)
    }

    /// Keeps a first contact that no call waits for.
    pub(super) fn keep_contact(&mut self, peer: Address, open: OpenRequest) {
        self.contacts.insert(peer.0, open);
    }

    /// The open first contact with this peer.
    pub(super) fn take_contact(&mut self, peer: Address) -> Option<OpenRequest> {
        self.contacts.remove(&peer.0)
    }

    /// The claim on this peer.
    pub(super) fn of(&self, peer: Address) -> Option<Arc<Claim>> {
        self.by_address.get(&peer.0).map(|entry| Arc::clone(&entry.claim))
    }

    /// Ends the claim on this peer.
    pub(super) fn release(&mut self, peer: Address) {
        self.by_address.remove(&peer.0);
    }

    /// Whether any request is pending.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        !self.by_address.is_empty()
    }

    /// Notes that the request to `peer` has seen these news. `false` if it had seen them before.
    pub(super) fn note_look(&mut self, peer: Address, news: u64) -> bool {
        let entry = self.by_address.get_mut(&peer.0);
        entry.is_some_and(|entry| std::mem::replace(&mut entry.seen, news) != news)
    }

    /// The number of pending requests.
    pub(super) fn count(&self) -> usize {
        self.by_address.len()
    }

    /// Whether a pending request is not posted.
    pub(super) fn any_unposted(&self) -> bool {
        let is_unposted = |entry: &Entry| matches!(*entry.claim.state(), ClaimState::Unposted);
        self.by_address.values().any(is_unposted)
    }

    /// Whether a pending request has not seen these news.
    pub(super) fn any_behind(&self, news: u64) -> bool {
        self.by_address.values().any(|entry| entry.seen < news)
    }

    /// Whether a pending request was dropped since the last look.
    #[inline]
    pub(super) fn has_dropped(&self) -> bool {
        !self.by_address.is_empty() && self.any_dropped.load(Ordering::Acquire)
    }

    /// The peers of dropped requests, with what the requests left.
    pub(super) fn take_dropped(&mut self) -> Vec<(Address, Option<(PostedRequest, bool)>)> {
        self.any_dropped.store(false, Ordering::Release);
        let mut dropped = Vec::new();
        self.by_address.retain(|address, entry| match &mut *entry.claim.state() {
            ClaimState::Dropped(request) => {
                dropped.push((Address(*address), request.take()));
                false
            }
            _ => true,
        });
        dropped
    }
}
