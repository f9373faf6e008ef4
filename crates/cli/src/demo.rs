//! The show: a private node, a server and a client in processes of their own.
//!
//! ```text
//! command/demo (tells) ── acts ── scene ── node: `m3 __demo daemon`, dies with us and clears up
//!                           │       ├───── server: answers, or keeps a request until it is killed
//!                           │       └───── client: calls, measures ── raw: echo over pipe, socket
//!                           └── remains: what is left of all that
//! ```
//! All parts die with the one who tells; what they need is in a directory of
//! their own, so no other node sees or feels anything.

pub mod acts;
mod client;
pub mod part;
mod raw;
pub mod remains;
pub mod scene;
mod server;

use m3ipc::Message;
use serde::{Deserialize, Serialize};

/// Name of the VM.
const VM: &str = "demo";
/// Name of the server.
const SERVER: &str = "server";
/// Bytes of a message in every comparison: a slot of a link.
pub const BYTES: usize = 64;
/// Bytes of the block that changes hands.
pub const BLOCK_BYTES: usize = 64 << 20;

/// Message types of the demo.
mod types {
    /// Answer with the same content.
    pub const ECHO: i32 = 1;
    /// Take the request and never answer.
    pub const KEEP: i32 = 2;
    /// Wait by sleeping at once (word 0 is 1) or as endpoints do (0) from now on.
    pub const WAIT: i32 = 3;
    /// Answer with the block that comes.
    pub const BLOCK: i32 = 4;
}

/// What the client is told to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Wait until a server is there.
    Find,
    /// Make so many calls.
    Calls(u32),
    /// Measure m3ipc beside the others.
    Measure,
    /// Hand a block over, beside copying it.
    Block,
    /// Make a call that is not answered.
    Hang,
    /// Leave.
    End,
}

/// What the client answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Told {
    /// The server's address.
    Found(i32),
    /// The times of the calls, in nanoseconds.
    Called(Vec<u64>),
    /// What was measured.
    Measured(Vec<Measured>),
    /// What a block takes.
    Handed(Handed),
    /// How the call ended, and when by CLOCK_MONOTONIC.
    Died { error: String, code: i32, at_ns: u64 },
    /// Something went wrong.
    Failed(String),
}

/// Round trips of one way to talk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Which.
    pub name: String,
    /// How its sides wait.
    pub waits: String,
    /// Median in nanoseconds.
    pub median_ns: u64,
    /// How many trips were taken.
    pub trips: usize,
}

/// A block that changes hands, beside the same bytes through a Unix socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handed {
    /// Its bytes.
    pub bytes: usize,
    /// Median of a hand-over, half of there and back, in nanoseconds.
    pub hand_over_ns: u64,
    /// How many hand-overs were made.
    pub hand_overs: usize,
    /// Median until the other side has all bytes and has said so, in nanoseconds.
    pub socket_ns: u64,
    /// How often they were sent.
    pub sendings: usize,
}

/// The middle one of some times.
pub fn median(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// A request whose answer can be checked.
fn request(m_type: i32, number: i32) -> Message {
    let mut message = Message::new(m_type);
    message.set_word(0, number);
    message
}
