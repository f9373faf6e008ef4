//! A call of a local endpoint that has not ended.

use std::collections::{BTreeMap, BTreeSet};

use m3ipc_abi::Address;

use super::delivery::Pair;
use crate::ids::{CallId, EndpointId, NodeId};
use crate::outcome::{AnswerKind, Content};
use crate::packet::CallKind;

/// All calls of local endpoints.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub calls: BTreeMap<CallId, OpenCall>,
    pub last: u64,
    /// The pairs of the calls whose answers are under way in pieces.
    pub answering: BTreeSet<Pair>,
    /// Endpoints that have died before the ends of calls to them have come, and the latest call
    /// from before the death was known.
    pub dying: BTreeMap<EndpointId, CallId>,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Sent,
    Took,
    /// The answer is under way in pieces.
    Answering,
}

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub from: EndpointId,
    pub to: Address,
    pub kind: CallKind,
    pub user: Option<u32>,
    pub node: NodeId,
    pub state: State,
    /// The message, until it is sent.
    pub content: Option<Content>,
    pub limit_ns: Option<u64>,
    /// When the patience with a cancellation ends.
    pub cancelled_ns: Option<u64>,
    /// Whether the caller has its outcome, or died.
    pub reported: bool,
    /// The answer whose payload is under way.
    pub answer: Option<(AnswerKind, Content)>,
}

impl OpenCall {
    pub fn bytes(&self) -> u64 {
        self.content.as_ref().map_or(0, Content::bytes) + 256
    }

    /// The call is sent now: its message.
    pub fn sent(&mut self) -> Option<Content> {
        self.state = State::Sent;
        self.content.take()
    }
}
