//! The link protocol between the proxies of two nodes: a state machine without I/O and clock.
//!
//! A proxy has one [`Machine`]. Its driver gives the machine local events, packets and the time,
//! and carries out its actions. The machine guarantees, whatever the network does:
//! - a message is delivered at most once;
//! - messages of one endpoint to another stay in order;
//! - each call ends with exactly one [`Outcome`], and the outcome is true;
//! - a late answer never reaches a later call: calls, sessions and incarnations have numbers;
//! - a session survives a broken connection, without loss and doubling, if the connection returns
//!   within the grace time; afterwards its number is burnt;
//! - memory per peer and per VM is bounded, and full memory is back-pressure on the caller;
//! - a node is believed only about its own slots, as the registry gives them, and about those
//!   whose backup it is, under the rules of `machine/places.rs`.
//!
//! ```text
//!   local side: calls, takes, answers, deaths          actions: deliver, withdraw, ended, ...
//!            │                                                    ▲
//!            ▼                                                    │
//!   machine  ├ outgoing  calls of local endpoints, until their one end
//!            ├ incoming  messages of remote endpoints, until taken, answered or withdrawn
//!            ├ streams   payloads in pieces
//!            └ peer      what waits for one peer, within its limits
//!   session    greeting, resumption, heartbeat, silence
//!   lane       frames in order, each exactly once
//!   packet     codec
//!            │                                                    ▲
//!            ▼                                                    │
//!   Machine::poll_transmit: packets for a connection    Machine::received: bytes of a connection
//! ```
//!
//! The driver pulls packets when a connection can take bytes. So no packet waits in the driver, and
//! the machine knows which messages have never left.
#![forbid(unsafe_code)]

mod faults;
mod ids;
mod lane;
mod machine;
mod outcome;
mod owners;
mod packet;
mod registry;
mod session;
mod settings;
mod transmit;

#[cfg(feature = "planted-faults")]
pub use faults::Fault;
pub use ids::{CallId, ConnectionId, DeliveryId, EndpointId, Incarnation, NodeId, VmId};
pub use machine::{Action, CLAIM_NS, Call, CallRefusal, CopyId, Machine, MoveRefusal, NotAwaited};
pub use outcome::{AnswerKind, Content, Failure, Outcome};
pub use owners::{Admission, Backup, EndSign, Owners, OwnersError, SlotRange};
pub use packet::{
    CallEnd, CallKind, CopyOrder, Expected, Frame, Hello, Lane, MESSAGE_BODY_MAX_BYTES,
    MalformedPacket, MessageHead, PACKET_MAX_BYTES, PIECED_MAX_BYTES, Packet, RefusalCode,
    SessionPair, StreamKind, VERSIONS, decode, encode,
};
pub use registry::{
    BackupError, ClusterParameters, NodeEntry, Registry, RegistryError, VmCopy, VmEntry, VmLife,
    VmParameters,
};
pub use settings::{LONG_MAX_BYTES, Limits, PIECE_MAX_BYTES, Settings};
pub use transmit::Transmit;
