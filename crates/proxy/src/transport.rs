//! What a proxy needs of a network: frames in order, to a peer with a proven name, and the truth
//! about the end.
//!
//! ```text
//!            poll: readable or writable, or the deadline has passed
//!                             |
//!   send(frame) ──> bounded output ──> TLS ──> TCP        Taken | Full | End
//!   receive()   <── one frame      <── TLS <── TCP        a frame | none yet | End
//! ```
//! - Nothing blocks. [`Sent::Full`] means that the peer does not read; the frame was not taken.
//! - Memory is bounded by [`Limits`], whatever the peer does.
//! - An [`End`] is final: each later call returns the same one.
//! - [`Sent::Taken`] is no delivery. What the peer has received is for the link protocol to say.
//! - A connection sends a beat when it has nothing else to send, and ends as [`End::Silent`] when
//!   nothing came for [`Limits::silence`].

mod connection;
pub mod frames;
pub mod plain;
mod session;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::NodeName;
use bytes::Bytes;
pub(crate) use connection::connect_to;
use frames::FrameError;
pub use frames::Reason;

/// Bounds of a connection in bytes and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest frame that is sent or received, below 16 MB.
    pub frame_bytes: usize,
    /// The most bytes that wait for a peer that does not read; at least a frame and its header.
    pub output_bytes: usize,
    /// The time for connect and handshake.
    pub handshake: Duration,
    /// The time for the rest of a frame after its first byte.
    pub frame: Duration,
    /// The time without any byte after which the peer counts as gone; a beat is due four times in
    /// it.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 128 << 10,
            output_bytes: 512 << 10,
            handshake: Duration::from_secs(5),
            frame: Duration::from_secs(5),
            silence: Duration::from_millis(2_500),
        }
    }
}

/// The fate of a frame at [`Connection::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The connection has a copy.
    Taken,
    /// The output is full or the peer is not known yet; nothing was taken.
    Full,
}

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// This side closed it.
    #[error("closed by this side, reason {}", .0.0)]
    ClosedHere(Reason),
    /// The peer closed it with a reason.
    #[error("closed by the peer: {0}")]
    Closed(Reason),
    /// The connection died without a reason: its process, its machine or the way to it.
    #[error("the connection is lost: {0}")]
    Lost(io::ErrorKind),
    /// Nothing came within [`Limits::silence`].
    #[error("nothing came for {0:?}")]
    Silent(Duration),
    /// The handshake or a frame took longer than its limit.
    #[error("the peer did not finish its {what} within {limit:?}")]
    TooSlow {
        /// The unfinished part.
        what: &'static str,
        /// Its limit.
        limit: Duration,
    },
    /// The peer broke the rules of frames.
    #[error(transparent)]
    Broken(#[from] FrameError),
    /// The handshake failed, or a record is not authentic.
    #[error("TLS: {0}")]
    Tls(String),
    /// The peer has another name than the expected one.
    #[error("the peer is {found}, not {expected}")]
    WrongName {
        /// The expected name.
        expected: NodeName,
        /// The name in its certificate or its claim.
        found: NodeName,
    },
    /// The peer's certificate or claim holds no name, several, or one of another form.
    #[error("the peer shows no node name")]
    NoName,
}

/// A frame was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The caller's mistake.
    #[error("a frame of {bytes} bytes; the limit is {limit}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The connection has ended.
    #[error(transparent)]
    Ended(#[from] End),
}

/// A way to other nodes.
pub trait Transport: Send + Sync {
    /// Begins a connection to the node of this name; its handshake goes on in
    /// [`Connection::receive`].
    ///
    /// # Errors
    /// This side has no socket to give.
    fn connect(
        &self,
        node: &NodeName,
        at: SocketAddr,
        now: Instant,
    ) -> io::Result<Box<dyn Connection>>;

    /// Listens for connections of other nodes.
    ///
    /// # Errors
    /// The address cannot be used.
    fn listen(&self, at: SocketAddr) -> io::Result<Box<dyn Listener>>;
}

/// A listening socket.
pub trait Listener: AsFd + Send {
    /// The next connection, if one waits; its handshake goes on in [`Connection::receive`].
    ///
    /// # Errors
    /// The system has no descriptor or memory to give.
    fn accept(&mut self, now: Instant) -> io::Result<Option<Box<dyn Connection>>>;

    /// The address at which it listens.
    ///
    /// # Errors
    /// The socket does not tell.
    fn address(&self) -> io::Result<SocketAddr>;
}

/// A connection with one peer.
pub trait Connection: AsFd + Send {
    /// The proven name of the peer (with the plain backend: claimed), once it is known.
    fn peer(&self) -> Option<&NodeName>;

    /// Takes a copy of a frame in two parts, which [`Connection::flush`] or the next
    /// [`Connection::receive`] writes. Frames of the same turn share a record and a system call.
    ///
    /// # Errors
    /// The frame is too large, or the connection has ended.
    fn send(&mut self, head: &[u8], body: &[u8], now: Instant) -> Result<Sent, SendError>;

    /// Writes as much as the socket takes.
    ///
    /// A connection that breaks here says so in the next [`Connection::receive`].
    fn flush(&mut self);

    /// Reads, writes and checks the time; the next whole frame.
    ///
    /// To be called while it returns frames, and again after each event and each deadline. A frame
    /// is a part of the memory of the connection: one that is kept keeps up to 200 KB with it.
    ///
    /// # Errors
    /// The connection has ended. Frames that came before the end are returned first.
    fn receive(&mut self, now: Instant) -> Result<Option<Bytes>, End>;

    /// Whether `poll` shall tell when the socket takes more bytes.
    fn wants_write(&self) -> bool;

    /// When [`Connection::receive`] is due even without an event; none after the end.
    fn deadline(&self) -> Option<Instant>;

    /// Tells the peer the reason as far as the socket takes it, and ends the connection.
    fn close(&mut self, reason: Reason);
}
