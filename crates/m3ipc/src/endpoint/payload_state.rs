//! The state of large payloads of an endpoint, for [`super::payload`].

use super::daemon_limit::DaemonLimit;
use super::receive_limit::ReceiveLimit;
use crate::area::AreaState;
use crate::error::Fail;
use m3ipc_abi::Address;
use m3ipc_area::BlockName;
use m3ipc_link::{SlotRefusal, SlotState};
use std::sync::Arc;

/// A large payload in transit, as the block that carries it.
#[derive(Debug)]
pub(super) struct LargePayload {
    pub(super) area: Arc<AreaState>,
    pub(super) name: BlockName,
}

/// The payload of a posted answer, until the client has taken or refused the answer.
#[derive(Debug)]
pub(super) struct OpenAnswer {
    pub(super) to: Address,
    pub(super) index: u32,
    pub(super) posted: SlotState,
    pub(super) large: LargePayload,
}

/// The state of large payloads of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Payloads {
    receive_limit: ReceiveLimit,
    /// The limit of the present call, for requests to the daemon.
    limit: DaemonLimit,
    /// Why the payload of the polled message was not accepted, where that ends the receive.
    failure: Option<Fail>,
    /// How the peer refused the last message of this endpoint.
    refusal: Option<SlotRefusal>,
    /// The payload of the message that is being sent.
    in_transit: Option<LargePayload>,
    open_answers: Vec<OpenAnswer>,
    /// Whether the peer took the message that the present call posted last.
    was_taken: bool,
}

impl Payloads {
    /// The longest payload that the endpoint takes.
    pub(super) fn receive_limit(&self) -> ReceiveLimit {
        self.receive_limit
    }

    /// Changes the longest payload that the endpoint takes.
    pub(super) fn set_receive_limit(&mut self, limit: ReceiveLimit) {
        self.receive_limit = limit;
    }

    /// Begins a call with this limit.
    #[inline]
    pub(super) fn begin(&mut self, limit: DaemonLimit) {
        self.limit = limit;
        if self.failure.is_some() {
            self.failure = None;
        }
    }

    /// The limit of the present call, for all its requests to the daemon together.
    pub(super) fn limit(&mut self) -> DaemonLimit {
        self.limit = self.limit.begun();
        self.limit
    }

    /// Notes why the payload of the polled message was not accepted: that ends the receive.
    pub(super) fn note_failure(&mut self, fail: Fail) {
        self.failure = Some(fail);
    }

    /// Notes how the peer refused the last message of this endpoint.
    pub(super) fn note_refusal(&mut self, refusal: SlotRefusal) {
        self.refusal = Some(refusal);
    }

    /// How the peer refused the last message of this endpoint.
    pub(super) fn take_refusal(&mut self) -> Option<SlotRefusal> {
        self.refusal.take()
    }

    /// Whether the message that is being sent has a payload in a block.
    pub(super) fn is_in_transit(&self) -> bool {
        self.in_transit.is_some()
    }

    /// Notes the payload of the message that is sent next.
    pub(super) fn begin_transit(&mut self, large: LargePayload) {
        self.in_transit = Some(large);
    }

    /// The payload of the message that was posted.
    pub(super) fn take_in_transit(&mut self) -> Option<LargePayload> {
        self.in_transit.take()
    }

    /// Why no message was received, if a payload is the reason.
    #[inline]
    pub(super) fn take_failure(&mut self) -> Option<Fail> {
        self.failure.take()
    }

    #[inline]
    pub(super) fn has_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether a large payload is in transit, or a call left something of one.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.failure.is_some() || self.in_transit.is_some() || self.has_open_answers()
    }

    /// Whether the peer took the message that the present call posted last.
    pub(super) fn was_taken(&self) -> bool {
        self.was_taken
    }

    /// Notes whether the peer took the message that the present call posted last.
    pub(super) fn set_taken(&mut self, was_taken: bool) {
        self.was_taken = was_taken;
    }

    /// Keeps the payload of an answer until its client has taken or refused it.
    pub(super) fn keep_answer(&mut self, answer: OpenAnswer) {
        self.open_answers.push(answer);
    }

    /// The answer in this place.
    pub(super) fn answer(&self, at: usize) -> Option<&OpenAnswer> {
        self.open_answers.get(at)
    }

    /// Removes the answer in this place. The last one moves to the place.
    pub(super) fn remove_answer(&mut self, at: usize) -> OpenAnswer {
        self.open_answers.swap_remove(at)
    }

    /// Whether the endpoint has answers that may be refused.
    #[inline]
    pub(super) fn has_open_answers(&self) -> bool {
        !self.open_answers.is_empty()
    }
}
