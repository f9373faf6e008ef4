//! Names, message types and records that the processes of the demonstration share.
//!
//! The client reads a [`ClientCommand`] per line of standard input and writes a [`ClientReply`] per
//! line of standard output, both as JSON.

use m3ipc::Message;
use serde::{Deserialize, Serialize};

/// The name of the VM.
pub const VM: &str = "demo";
/// The name of the server's endpoint.
pub const SERVER: &str = "server";
/// Bytes of a message in every comparison: the size of a link's slot.
pub const MESSAGE_BYTES: usize = 64;
/// Bytes of the block.
pub const BLOCK_BYTES: usize = 64 << 20;

/// Message types of the demonstration.
pub mod message_types {
    /// The server answers with the same content.
    pub const ECHO: i32 = 1;
    /// The server keeps the request and never answers.
    pub const KEEP: i32 = 2;
    /// The server changes its wait strategy: word 0 is 1 for block, 0 for adaptive.
    pub const WAIT_STRATEGY: i32 = 3;
    /// The server answers with the block of the request.
    pub const BLOCK: i32 = 4;
}

/// A command to the client.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum ClientCommand {
    /// Wait for the server's name.
    FindServer,
    /// Make this number of calls.
    Call(u32),
    /// Measure round trips over m3ipc, pipe and socket.
    MeasureRoundTrips,
    /// Measure transfers of a block, beside copies through a socket.
    MeasureBlock,
    /// Make a call that the server keeps.
    CallUnanswered,
    /// Exit.
    Exit,
}

/// The reply of the client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ClientReply {
    /// The server's address.
    Found(i32),
    /// Durations of the calls, in nanoseconds.
    Called(Vec<u64>),
    /// Round trips, one entry per mechanism.
    RoundTrips(Vec<RoundTrips>),
    /// Transfers of the block.
    Block(BlockTransfer),
    /// The error of the unanswered call, and its time on CLOCK_MONOTONIC.
    PeerDied { error: String, code: i32, at_ns: u64 },
    /// The command failed.
    Failed(String),
}

/// Round trips over one mechanism. The names of the fields are the keys of the JSON output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoundTrips {
    /// The mechanism.
    pub name: String,
    /// How its processes wait.
    pub waits: String,
    /// The median, in nanoseconds.
    pub median_ns: u64,
    /// The number of round trips.
    pub trips: usize,
}

/// Transfers of a block, and of the same bytes through a Unix socket.
///
/// The names of the fields are the keys of the JSON output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockTransfer {
    /// The size of the block.
    pub bytes: usize,
    /// The median of one transfer in nanoseconds: half a round trip.
    pub hand_over_ns: u64,
    /// The number of transfers.
    pub hand_overs: usize,
    /// The median in nanoseconds until the other process has read all bytes and acknowledged them.
    pub socket_ns: u64,
    /// The number of copies through the socket.
    pub sendings: usize,
}

/// The median, which sorts `durations`; 0 where there are none.
pub fn median(durations: &mut [u64]) -> u64 {
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied().unwrap_or(0)
}

/// A request whose answer can be checked by its number.
pub fn request(m_type: i32, number: i32) -> Message {
    let mut message = Message::new(m_type);
    message.set_word(0, number);
    message
}
