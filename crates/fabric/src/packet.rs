//! Packets between two proxies, and their codec.
//!
//! A packet is a postcard record, and for some frames a body of raw bytes behind it. The size of
//! the packet bounds each length. A decoder accepts no other bytes and allocates no more than the
//! packet has. The first fields of [`Packet::Hello`] are the same in every version.
//!
//! ```text
//! | packet kind | session numbers, lane, sequence, acknowledgements | frame | body ... |
//! ```

use m3ipc_abi::{NAME_MAX_BYTES, PAYLOAD_BYTES};
use serde::{Deserialize, Serialize};

use crate::ids::{CallId, Incarnation, NodeId, VmId};
use crate::outcome::{AnswerKind, Content, Failure};
use crate::owners::SlotRange;
use crate::settings::{LONG_MAX_BYTES, Limits, PIECE_MAX_BYTES};

/// The oldest and the newest version of the protocol that this crate speaks.
pub const VERSIONS: (u16, u16) = (5, 5);
/// The longest payload of a message that crosses nodes, in bytes. One above [`LONG_MAX_BYTES`]
/// travels in pieces.
pub const PIECED_MAX_BYTES: usize = 256 << 20;
/// The longest body of a message, in bytes.
pub const MESSAGE_BODY_MAX_BYTES: usize = PAYLOAD_BYTES + LONG_MAX_BYTES;
/// The longest packet, in bytes. A transport frame of more bytes ends the connection.
pub const PACKET_MAX_BYTES: usize = PIECE_MAX_BYTES + 1024;
/// The most claims of a greeting.
pub const CLAIMS_MAX: usize = 1024;
/// The longest name of a cluster, in bytes.
pub const CLUSTER_MAX_BYTES: usize = 63;

const MAGIC: u32 = u32::from_le_bytes(*b"m3n1");

/// A lane: packets of one lane stay in order, and neither lane waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Lane {
    /// Messages and control.
    Message = 0,
    /// Pieces of long payloads.
    Bulk = 1,
}

impl Lane {
    /// Both lanes.
    pub const ALL: [Self; 2] = [Self::Message, Self::Bulk];
}

/// The session as its two nodes number it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPair {
    /// The number of the receiver of the packet.
    pub to: u64,
    /// The number of its sender.
    pub from: u64,
}

/// The next sequence number that a node expects, per lane.
pub type Expected = [u64; 2];

/// What two proxies exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packet {
    /// The greeting of a connection.
    Hello(Hello),
    /// The sender refuses the connection.
    Refused(RefusalCode),
    /// One frame, in order.
    Data {
        /// The session.
        session: SessionPair,
        /// The lane.
        lane: Lane,
        /// The number of the frame in its lane.
        sequence: u64,
        /// What the sender expects next.
        expected: Expected,
        /// The frame.
        frame: Frame,
    },
    /// A heartbeat, also an acknowledgement.
    Beat {
        /// The session.
        session: SessionPair,
        /// What the sender expects next.
        expected: Expected,
        /// The lanes of which the sender missed packets.
        missing: [bool; 2],
    },
}

/// The greeting: who speaks, and which session it continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// A constant.
    pub magic: u32,
    /// The oldest and newest version of the sender.
    pub versions: (u16, u16),
    /// The name of the cluster.
    pub cluster: String,
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The incarnation of the sender.
    pub incarnation: Incarnation,
    /// The session number of the sender.
    pub session: u64,
    /// Incarnation and session number of the receiver, if the session has begun.
    pub partner: Option<(Incarnation, u64)>,
    /// What the sender expects next.
    pub expected: Expected,
    /// Calls that the sender admits: in all, per VM.
    pub admits: (u32, u32),
    /// The slots of the sender.
    pub claims: Vec<(VmId, SlotRange)>,
}

impl Hello {
    pub(crate) const MAGIC: u32 = MAGIC;

    pub(crate) fn admits(limits: &Limits) -> (u32, u32) {
        (limits.calls, limits.calls_of_vm)
    }
}

/// Why a node refuses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalCode {
    /// No common version.
    Version,
    /// Another cluster, or another node than the registry and the certificate name.
    Identity,
    /// The incarnation is older than the known one.
    Stale,
    /// Another incarnation of the node lives.
    SecondIncarnation,
    /// The claimed slots are not those of the registry.
    Claims,
    /// The peer broke the rules of the protocol.
    Broke,
}

/// The kind of a call between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CallKind {
    /// A message; ends when the receiver has taken it.
    Send,
    /// A request; ends with its answer.
    Request,
    /// Ends the receive(ANY) of the receiver.
    Wakeup,
    /// Pulses; ends when the receiver's node has queued them all.
    Pulses,
}

impl CallKind {
    /// Whether it is a message: it takes the slot of its pair, and comes after earlier ones.
    #[must_use]
    pub fn is_message(self) -> bool {
        matches!(self, Self::Send | Self::Request)
    }
}

/// What a frame says of its message; the payload is the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageHead {
    /// The type of the message.
    pub m_type: i32,
    /// Whether its long payload is the content of a block.
    pub is_block: bool,
}

/// The end of a call, from the node of the receiver. Each call gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallEnd {
    /// The receiver has taken the message.
    Taken,
    /// The answer is the body.
    Answered(AnswerKind, MessageHead),
    /// The call is done, with 0 or a code of the contract.
    Done(i32),
    /// The receiver never gets the message.
    NotDelivered(Failure),
    /// The receiver has taken the request and does not answer.
    Delivered(Failure),
    /// The answer is the body and as many bytes in pieces.
    AnsweredLong(AnswerKind, MessageHead, u32),
}

/// A stream of pieces that belongs to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StreamKind {
    /// The payload of the call, from the node that numbered the call.
    Call,
    /// The payload of the answer, to the node that numbered the call.
    Answer,
}

/// What a copy does, as its requester asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyOrder {
    /// Whether it writes the memory of the party; else it reads.
    pub is_write: bool,
    /// The grant, or the leases, in which the place lies; 0 for an address. The library of the
    /// party checks it.
    pub space: u64,
    /// The place: an address or an offset.
    pub place: u64,
    /// Its length.
    pub bytes: u64,
}

/// What a session carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    /// A call; its body is the message.
    Call {
        /// Its number.
        call: CallId,
        /// The VM.
        vm: VmId,
        /// The caller.
        from: i32,
        /// The receiver.
        to: i32,
        /// Its kind.
        kind: CallKind,
        /// The message, without its payload.
        head: MessageHead,
        /// Bytes of its payload that follow in pieces; 0: the body is the whole message.
        pieced: u32,
    },
    /// The caller gives its call up. The end of the call is the answer.
    Cancel {
        /// The call.
        call: CallId,
    },
    /// The receiver has taken a request.
    Took {
        /// The call.
        call: CallId,
    },
    /// The end of a call; the body is the answer, if there is one.
    End {
        /// The call.
        call: CallId,
        /// Its end.
        end: CallEnd,
    },
    /// A notification.
    Notify {
        /// The VM.
        vm: VmId,
        /// The source.
        from: i32,
        /// The receiver.
        to: i32,
        /// Its argument.
        argument: u64,
    },
    /// The sender wants to learn the death of an endpoint.
    Watch {
        /// The VM.
        vm: VmId,
        /// The endpoint.
        endpoint: i32,
    },
    /// An endpoint of the sender died, or never lived.
    Died {
        /// The VM.
        vm: VmId,
        /// The endpoint.
        endpoint: i32,
    },
    /// An endpoint of the sender was bound.
    Bound {
        /// The VM.
        vm: VmId,
        /// The endpoint.
        endpoint: i32,
        /// How often the slot has moved away from the sender in its life.
        moves: u32,
        /// The last move from the other node that may have the slot, which the sender has heard of:
        /// the incarnation of that node, and its number.
        after: Option<(Incarnation, u32)>,
    },
    /// The sender has room for the pieces of a stream.
    Fetch {
        /// The call.
        call: CallId,
        /// Its stream.
        stream: StreamKind,
    },
    /// A copy with the memory of an endpoint of the receiver.
    Copy {
        /// Its number.
        call: CallId,
        /// The VM.
        vm: VmId,
        /// The requester.
        from: i32,
        /// The party.
        to: i32,
        /// What to copy.
        order: CopyOrder,
    },
    /// A piece of a copy; the bytes are the body.
    CopyPiece {
        /// The copy.
        call: CallId,
        /// Whether the receiver of the frame has numbered it.
        of_receiver: bool,
    },
    /// So many bytes of a copy may have been sent.
    CopyMore {
        /// The copy.
        call: CallId,
        /// Whether the receiver of the frame has numbered it.
        of_receiver: bool,
        /// The bytes since the begin of the copy.
        admitted: u64,
    },
    /// The end of a copy, from the node of the party.
    CopyEnd {
        /// The copy.
        call: CallId,
        /// 0 or a code of the contract.
        code: i32,
        /// Bytes that were surely copied.
        bytes: u64,
    },
    /// The requester waits no longer.
    CopyAbort {
        /// The copy.
        call: CallId,
    },
    /// An endpoint of the sender has attached a name, which is the body.
    Named {
        /// The VM.
        vm: VmId,
        /// The endpoint.
        endpoint: i32,
    },
    /// A piece of a stream; the bytes are the body.
    Piece {
        /// The call.
        call: CallId,
        /// Its stream.
        stream: StreamKind,
    },
    /// An endpoint of the sender has moved: the other node that may have its slot gets the place.
    Moved {
        /// The VM.
        vm: VmId,
        /// The endpoint.
        endpoint: i32,
        /// How often the slot has moved away from the sender in its life.
        moves: u32,
    },
}

impl Frame {
    /// The lengths that its body may have.
    fn body_lengths(&self) -> std::ops::RangeInclusive<usize> {
        match self {
            Self::Call { pieced: 0, .. } | Self::End { end: CallEnd::Answered(..), .. } => {
                PAYLOAD_BYTES..=MESSAGE_BODY_MAX_BYTES
            }
            Self::Call { .. } | Self::End { end: CallEnd::AnsweredLong(..), .. } => {
                PAYLOAD_BYTES..=PAYLOAD_BYTES
            }
            Self::Named { .. } => 1..=NAME_MAX_BYTES,
            Self::Piece { .. } | Self::CopyPiece { .. } => 1..=PIECE_MAX_BYTES,
            _ => 0..=0,
        }
    }

    /// The lane that carries it.
    pub(crate) const fn lane(&self) -> Lane {
        match self {
            Self::Piece { .. } | Self::CopyPiece { .. } => Lane::Bulk,
            _ => Lane::Message,
        }
    }
}

/// Bytes that are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packet of {bytes} bytes is malformed; use proxies of one version")]
pub struct MalformedPacket {
    /// Length of the bytes.
    pub bytes: usize,
}

/// The bytes of a packet.
///
/// # Panics
/// Never: all packets are plain records of numbers, strings and lists.
#[must_use]
pub fn encode(packet: &Packet, body: &[u8]) -> Vec<u8> {
    let head = Vec::with_capacity(64 + body.len());
    let mut bytes = postcard::to_extend(packet, head).expect("plain records always have bytes");
    bytes.extend_from_slice(body);
    bytes
}

/// The packet in these bytes, and its body.
///
/// # Errors
/// [`MalformedPacket`] if the bytes are no packet, too many, or have a body of a wrong length.
pub fn decode(bytes: &[u8]) -> Result<(Packet, &[u8]), MalformedPacket> {
    let malformed = MalformedPacket { bytes: bytes.len() };
    if bytes.len() > PACKET_MAX_BYTES {
        return Err(malformed);
    }
    let (packet, body) = postcard::take_from_bytes::<Packet>(bytes).map_err(|_| malformed)?;
    let fits = match &packet {
        Packet::Data { frame, lane, .. } => {
            frame.body_lengths().contains(&body.len()) && frame.lane() == *lane
        }
        Packet::Hello(hello) => {
            body.is_empty()
                && hello.magic == MAGIC
                && hello.cluster.len() <= CLUSTER_MAX_BYTES
                && hello.claims.len() <= CLAIMS_MAX
        }
        Packet::Refused(_) | Packet::Beat { .. } => body.is_empty(),
    };
    if fits { Ok((packet, body)) } else { Err(malformed) }
}

/// The body of a message.
pub(crate) fn body_of(content: &Content) -> Vec<u8> {
    [&content.payload[..], &content.long].concat()
}

/// The head of a message.
pub(crate) const fn head_of(content: &Content) -> MessageHead {
    MessageHead { m_type: content.m_type, is_block: content.is_block }
}

/// The message with this head and body. The codec has checked the length.
pub(crate) fn content_of(head: MessageHead, body: &[u8]) -> Option<Content> {
    let (payload, long) = body.split_first_chunk::<PAYLOAD_BYTES>()?;
    let MessageHead { m_type, is_block } = head;
    Some(Content { m_type, payload: *payload, long: long.to_vec(), is_block })
}
