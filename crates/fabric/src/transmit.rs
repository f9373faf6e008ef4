//! Packets on their way to a connection.

use bytes::Bytes;

use crate::ids::ConnectionId;
use crate::packet::{Packet, encode};

/// A packet for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The connection.
    pub connection: ConnectionId,
    /// Its first bytes.
    pub head: Vec<u8>,
    /// The bytes after them: those of a piece, of which there is no copy.
    pub body: Bytes,
}

/// The shortest body that is no part of the head, in bytes: a shorter one costs less as a copy.
const BODY_BYTES: usize = 4096;

impl Transmit {
    pub(crate) fn new(connection: ConnectionId, packet: &Packet, body: &Bytes) -> Self {
        let (copied, body) = match body.len() < BODY_BYTES {
            true => (&body[..], Bytes::new()),
            false => (&[][..], body.clone()),
        };
        Self { connection, head: encode(packet, copied), body }
    }

    /// The length of the packet in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// The packet in one piece, for [`crate::Machine::received`].
    #[must_use]
    pub fn into_packet(mut self) -> Bytes {
        self.head.extend_from_slice(&self.body);
        self.head.into()
    }
}
