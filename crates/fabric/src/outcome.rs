//! How a call ends: exactly one [`Outcome`], which is true.
//!
//! | outcome | the receiver has the message | code |
//! |---|---|---|
//! | [`Outcome::Taken`], [`Outcome::Answered`], [`Outcome::Done`] | yes | 0, or that of the call |
//! | [`Outcome::NotDelivered`] | no, and it never gets the message | [`Failure::code_before`] |
//! | [`Outcome::Delivered`] | yes; no answer comes | [`Failure::code_after`] |
//! | [`Outcome::Unknown`] | perhaps; at most once | -501 |

use m3ipc_abi::{Code, PAYLOAD_BYTES};
use serde::{Deserialize, Serialize};

/// The content of a message.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// Its type.
    pub m_type: i32,
    /// Its short payload.
    pub payload: [u8; PAYLOAD_BYTES],
    /// Its long payload, of at most [`crate::PIECED_MAX_BYTES`].
    pub long: Vec<u8>,
    /// Whether the long payload is the content of a block: the receiver gets a block with it.
    pub is_block: bool,
}

impl Content {
    /// A message with an empty payload.
    #[must_use]
    pub const fn new(m_type: i32) -> Self {
        let long = Vec::new();
        Self { m_type, payload: [0; PAYLOAD_BYTES], long, is_block: false }
    }

    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        (PAYLOAD_BYTES + self.long.len()) as u64
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content(type {}, {} + {} bytes)", self.m_type, PAYLOAD_BYTES, self.long.len())
    }
}

/// How a server answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerKind {
    /// A reply.
    Reply,
    /// The requester must ask the endpoint that the payload names.
    Relay,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has taken the message.
    Taken,
    /// The receiver has taken the request and answered it.
    Answered(AnswerKind, Content),
    /// The other node has done what the call asked for; 0, or a code of the contract.
    Done(i32),
    /// The receiver never gets the message.
    NotDelivered(Failure),
    /// The receiver has taken the request; no answer comes.
    Delivered(Failure),
    /// The receiver may have taken the message, or may still take it, at most once.
    Unknown(Failure),
}

impl Outcome {
    /// The result of the call in C.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::Taken | Self::Answered(..) => 0,
            Self::Done(code) => *code,
            Self::NotDelivered(failure) => failure.code_before().number(),
            Self::Delivered(failure) => failure.code_after().number(),
            Self::Unknown(_) => Code::Unknown.number(),
        }
    }
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Failure {
    /// The partner died, or another process unbound it.
    Died,
    /// No endpoint has this address; its slot has another generation, or none.
    NoEndpoint,
    /// The partner is not in the state that the call needs.
    State,
    /// Privileges.
    Denied,
    /// The time limit is over, or a signal ended the call.
    Withdrawn,
    /// The session with the other node ended.
    LinkDown,
    /// The other node has started anew.
    Rebooted,
    /// The other node has no room.
    Overload,
    /// The other node broke the rules.
    Broke,
    /// Both endpoints send to each other.
    Locked,
    /// The payload is longer than its receiver takes, or than nodes carry.
    TooLong,
    /// The endpoint moves to another node, or has moved there.
    Moved,
}

impl Failure {
    /// The code of a call that surely had no effect.
    #[must_use]
    pub const fn code_before(self) -> Code {
        match self {
            Self::Died | Self::Rebooted => Code::DstDied,
            Self::NoEndpoint => Code::Endpoint,
            Self::State => Code::ProcSts,
            Self::Denied => Code::CallDenied,
            Self::Withdrawn => Code::TimedOut,
            Self::LinkDown => Code::NotConn,
            Self::Overload => Code::Again,
            Self::Broke => Code::PeerBroke,
            Self::Locked => Code::Locked,
            Self::TooLong => Code::MsgSize,
            Self::Moved => Code::Migrate,
        }
    }

    /// The code of a request that was taken and gets no answer.
    #[must_use]
    pub const fn code_after(self) -> Code {
        match self {
            Self::Withdrawn => Code::TimedOut,
            Self::LinkDown | Self::TooLong => Code::AnswerLost,
            Self::Broke => Code::PeerBroke,
            _ => Code::SrcDied,
        }
    }
}
