//! What goes into the machine and comes out of it.

use bytes::Bytes;
use m3ipc_abi::{Address, Slot};

use super::open_copies::CopyId;
use crate::ids::{CallId, ConnectionId, DeliveryId, EndpointId, Incarnation, NodeId, VmId};
use crate::outcome::{Content, Failure, Outcome};
use crate::packet::{CallKind, CopyOrder, RefusalCode};

/// A call of a local endpoint to a remote one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The caller.
    pub from: EndpointId,
    /// The receiver, in the same VM.
    pub to: Address,
    /// The kind of the call.
    pub kind: CallKind,
    /// The user of the caller, whose share the call counts against.
    pub user: Option<u32>,
    /// The message.
    pub content: Content,
    /// The end of the time limit; `None` waits for ever.
    pub limit_ns: Option<u64>,
}

/// Why the machine does not accept a call. The message is surely not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallRefusal {
    /// Too much waits for the peer. [`Action::Room`] follows; until then the message stays where
    /// it is, and its sender can withdraw it there.
    #[error("too many calls wait for node {}; try again after Action::Room", .0.0)]
    Full(NodeId),
    /// The user has its share of the calls with the node; as for [`CallRefusal::Full`].
    #[error("the user has its share of calls with node {}; try again after Action::Room", .0.0)]
    Share(NodeId),
    /// There is no session with the node.
    #[error("node {} cannot be reached; see `m3 node ls`", .0.0)]
    LinkDown(NodeId),
    /// No node owns the slot, or the caller does not live.
    #[error("no node has this endpoint")]
    NoEndpoint,
    /// The endpoint is one of this node.
    #[error("the endpoint is on this node; call it without the proxy")]
    Local,
    /// The long payload is longer than [`crate::PIECED_MAX_BYTES`].
    #[error("the payload has {0} bytes; send it in parts")]
    TooLong(usize),
}

/// Why an endpoint does not move. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoveRefusal {
    /// The registry names no other node for the slot.
    #[error("the registry names no backup for the slot; name one, and start all proxies anew")]
    NoBackup,
    /// No connection stands to the other node.
    #[error("node {} cannot be reached; see `m3 node ls`", .0.0)]
    LinkDown(NodeId),
    /// The endpoint does not live here.
    #[error("no endpoint of this node has this address")]
    NoEndpoint,
}

/// The requester no longer awaits an answer, or has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the requester no longer awaits an answer")]
pub struct NotAwaited;

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A call has ended. Each accepted call of a living endpoint gets exactly one.
    Ended {
        /// The call.
        call: CallId,
        /// Its end.
        outcome: Outcome,
    },
    /// The receiver has taken a request. The requester's slot counts as taken.
    RequestTaken {
        /// The request.
        call: CallId,
    },
    /// Offer a message to a local endpoint. Report its end by [`crate::Machine::taken`],
    /// [`crate::Machine::refused`] or [`crate::Machine::done`].
    Deliver {
        /// The number by which to report.
        delivery: DeliveryId,
        /// The remote sender.
        from: EndpointId,
        /// The receiver.
        to: Address,
        /// The kind of the call.
        kind: CallKind,
        /// The message.
        content: Content,
    },
    /// Take a message back. Report [`crate::Machine::withdrawn`], or
    /// [`crate::Machine::taken`] if the receiver was faster.
    Withdraw {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// The requester no longer awaits the answer.
    Abandon {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// Notify a local endpoint.
    Notify {
        /// The source.
        from: EndpointId,
        /// The receiver.
        to: Address,
        /// Its argument.
        argument: u64,
    },
    /// A remote endpoint was bound.
    Bound {
        /// The endpoint.
        endpoint: EndpointId,
    },
    /// A remote endpoint has a name.
    Named {
        /// The endpoint.
        endpoint: EndpointId,
        /// The name.
        name: String,
    },
    /// A remote endpoint has died.
    Died {
        /// The endpoint.
        endpoint: EndpointId,
    },
    /// A remote endpoint moves to another node: nobody takes calls for it until an endpoint is
    /// bound in its slot.
    Moved {
        /// The endpoint.
        endpoint: EndpointId,
    },
    /// A session with a node began.
    NodeUp {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// The session with a node ended. All endpoints of the node count as dead for those that talk
    /// to them. Calls under way have ended before.
    NodeLost {
        /// The node.
        node: NodeId,
        /// Why.
        cause: Failure,
    },
    /// A slot is at another node than before: at that of its backup, or at its home again. A local
    /// endpoint there has been replaced, and must end.
    Placed {
        /// The VM.
        vm: VmId,
        /// The slot.
        slot: Slot,
        /// The node that has it now.
        node: NodeId,
    },
    /// The home of a slot has ended, or its endpoint has moved, and this node has its backup: a
    /// local endpoint may take the place, with the address of the former one.
    PlaceFree {
        /// The VM.
        vm: VmId,
        /// The slot.
        slot: Slot,
    },
    /// No local endpoint has the place, and none may take it any more: the home of the slot is
    /// back, or the time to claim the place of a moved endpoint is over. Report
    /// by [`crate::Machine::gave_back`], unless one has taken it just now.
    GiveBack {
        /// The VM.
        vm: VmId,
        /// The slot.
        slot: Slot,
    },
    /// Calls of a VM to the node are accepted again.
    Room {
        /// The node.
        node: NodeId,
        /// The VM.
        vm: VmId,
    },
    /// Close a connection. The machine knows it no longer.
    Close {
        /// The node.
        node: NodeId,
        /// The connection.
        connection: ConnectionId,
    },
    /// A remote endpoint copies with the memory of a local one. Report its end by
    /// [`crate::Machine::copy_done`].
    CopyBegin {
        /// The copy.
        copy: CopyId,
        /// The remote requester.
        requester: EndpointId,
        /// The local party.
        party: Address,
        /// What to copy.
        order: CopyOrder,
    },
    /// Bytes of a copy have come. Report by [`crate::Machine::copy_taken`] when they are taken.
    CopyBytes {
        /// The copy.
        copy: CopyId,
        /// The bytes.
        bytes: Bytes,
    },
    /// More bytes of a copy may be given: see [`crate::Machine::copy_room`].
    CopyRoom {
        /// The copy.
        copy: CopyId,
    },
    /// A copy of a local requester has ended.
    CopyEnded {
        /// The copy.
        copy: CopyId,
        /// 0 or a code of the contract.
        code: i32,
        /// Bytes that were surely copied.
        bytes: u64,
    },
    /// A copy of a remote requester is over: nobody waits for it.
    CopyAbandon {
        /// The copy.
        copy: CopyId,
    },
    /// A connection was refused: for the log, and for `m3 doctor`.
    Refused {
        /// The node.
        node: NodeId,
        /// Whether the peer refused this side.
        by_peer: bool,
        /// The incarnation of the peer, as far as known.
        incarnation: Incarnation,
        /// Why.
        why: RefusalCode,
    },
}
