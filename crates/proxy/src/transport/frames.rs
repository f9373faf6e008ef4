//! Frames on a stream of bytes.
//!
//! ```text
//! byte 0    kind: 0 data, 1 beat, 2 close, 3 name
//! byte 1-3  length of the rest, little-endian; 0 of a beat, 2 of a close, 1 to 63 of a name
//! byte 4-   the rest
//! ```
//! The decoder checks a header before it keeps a byte of the rest, so a claimed length costs no
//! memory. It never panics: every access is a checked one.

use bytes::{Bytes, BytesMut};

/// The bytes of a header.
pub const HEADER_BYTES: usize = 4;
/// The largest length that a header can hold.
pub const LENGTH_LIMIT: usize = (1 << 24) - 1;
/// The bytes of one buffer. A longer frame gets a buffer of its own.
const BUFFER_BYTES: usize = 128 << 10;
const DATA: u8 = 0;
const BEAT: u8 = 1;
const CLOSE: u8 = 2;
const NAME: u8 = 3;
/// The largest name.
const NAME_BYTES: usize = 63;

/// Why a side closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub u16);

impl Reason {
    /// The connection was refused, or another one has replaced it.
    pub const CLOSED: Self = Self(1);
    /// The life of the proxy has ended.
    pub const LEFT: Self = Self(2);
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::CLOSED => {
                f.write_str("the connection was refused, or another one has replaced it")
            }
            Self::LEFT => f.write_str("its proxy has ended; start it there with `m3 node join`"),
            Self(other) => write!(f, "reason {other}, which this release does not know"),
        }
    }
}

/// A broken rule of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first byte is no kind.
    #[error("the peer sent a frame of the unknown kind {0}")]
    Kind(u8),
    /// The length does not fit the kind or exceeds the limit.
    #[error("the peer sent a frame of kind {kind} with {bytes} bytes; the limit is {limit}")]
    Length {
        /// The kind.
        kind: u8,
        /// The claimed length.
        bytes: usize,
        /// The largest length of this kind.
        limit: usize,
    },
    /// A name came where none may.
    #[error("the peer sent a second name, or a name where a certificate has it")]
    Name,
    /// Data came before the name.
    #[error("the peer sent data before its name")]
    Early,
}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<B> {
    /// Bytes of the link protocol.
    Data(B),
    /// A sign of life.
    Beat,
    /// The peer's last frame.
    Close(Reason),
    /// The claimed name of the peer; plain connections only.
    Name(B),
}

impl<B: AsRef<[u8]>> Frame<B> {
    /// Appends the frame to an output. The caller has checked that its length fits.
    pub fn encode(&self, output: &mut Vec<u8>) {
        match self {
            Self::Data(bytes) => encode_data(bytes.as_ref(), &[], output),
            Self::Beat => encode(BEAT, [&[]; 2], output),
            Self::Close(reason) => encode(CLOSE, [&reason.0.to_le_bytes(), &[]], output),
            Self::Name(bytes) => encode(NAME, [bytes.as_ref(), &[]], output),
        }
    }
}

/// Appends a frame of data in two parts to an output. The caller has checked that its length fits.
pub fn encode_data(head: &[u8], body: &[u8], output: &mut Vec<u8>) {
    encode(DATA, [head, body], output);
}

fn encode(kind: u8, parts: [&[u8]; 2], output: &mut Vec<u8>) {
    let bytes = parts[0].len() + parts[1].len();
    debug_assert!(bytes <= LENGTH_LIMIT);
    let length = u32::try_from(bytes).unwrap_or(0).to_le_bytes();
    output.reserve(HEADER_BYTES + bytes);
    output.extend_from_slice(&[kind, length[0], length[1], length[2]]);
    parts.into_iter().for_each(|part| output.extend_from_slice(part));
}

/// The decoder: bytes in, frames out. A frame is a part of the decoder's memory, and no copy.
#[derive(Debug, Default)]
pub struct Decoder {
    input: BytesMut,
    limit: usize,
}

impl Decoder {
    /// A decoder for data up to this many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { input: BytesMut::new(), limit: limit.min(LENGTH_LIMIT) }
    }

    /// Takes bytes of the stream.
    pub fn take(&mut self, bytes: &[u8]) {
        let free = self.input.capacity() - self.input.len();
        if free < bytes.len() && !self.input.try_reclaim(bytes.len()) {
            // Not a longer one each time: a kept frame keeps all of it.
            let room = BUFFER_BYTES.max(self.input.len() + bytes.len());
            let full = std::mem::replace(&mut self.input, BytesMut::with_capacity(room));
            self.input.extend_from_slice(&full);
        }
        self.input.extend_from_slice(bytes);
    }

    /// Bytes that belong to no returned frame.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.input.len()
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// The peer broke a rule; the decoder is of no use after that.
    pub fn next_frame(&mut self) -> Result<Option<Frame<Bytes>>, FrameError> {
        let Some(&[kind, low, middle, high]) = self.input.first_chunk() else { return Ok(None) };
        let bytes = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        let (least, limit) = match kind {
            DATA => (0, self.limit),
            BEAT => (0, 0),
            CLOSE => (2, 2),
            NAME => (1, NAME_BYTES),
            _ => return Err(FrameError::Kind(kind)),
        };
        if bytes < least || bytes > limit {
            return Err(FrameError::Length { kind, bytes, limit });
        }
        if self.input.len() < HEADER_BYTES + bytes {
            return Ok(None);
        }
        let rest = self.input.split_to(HEADER_BYTES + bytes).freeze().split_off(HEADER_BYTES);
        Ok(Some(match (kind, rest.first_chunk()) {
            (BEAT, _) => Frame::Beat,
            (CLOSE, Some(&code)) => Frame::Close(Reason(u16::from_le_bytes(code))),
            (NAME, _) => Frame::Name(rest),
            (_, _) => Frame::Data(rest),
        }))
    }
}

#[cfg(test)]
mod tests;
