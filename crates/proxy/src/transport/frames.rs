//! Frames on a stream of bytes.
//!
//! ```text
//! byte 0    kind: 0 data, 1 beat, 2 close, 3 name
//! byte 1-3  length of the rest, little-endian; 0 of a beat, 2 of a close, 1 to 63 of a name
//! byte 4-   the rest
//! ```
//! The decoder checks a header before it keeps a byte of the rest, so a claimed length costs no
//! memory. It never panics: every access is a checked one.

/// The bytes of a header.
pub const HEADER_BYTES: usize = 4;
/// The largest length that a header can hold.
pub const LENGTH_LIMIT: usize = (1 << 24) - 1;
const DATA: u8 = 0;
const BEAT: u8 = 1;
const CLOSE: u8 = 2;
const NAME: u8 = 3;
/// The largest name.
const NAME_BYTES: usize = 63;
/// Decoded bytes are removed when this many have gathered.
const TIDY_BYTES: usize = 64 << 10;

/// Why a side closes; the numbers are those of the link protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub u16);

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
pub enum Frame<'a> {
    /// Bytes of the link protocol.
    Data(&'a [u8]),
    /// A sign of life.
    Beat,
    /// The peer's last frame.
    Close(Reason),
    /// The claimed name of the peer; plain connections only.
    Name(&'a [u8]),
}

impl Frame<'_> {
    /// Appends the frame to an output. The caller has checked that its length fits.
    pub fn encode(&self, output: &mut Vec<u8>) {
        let (kind, rest): (u8, &[u8]) = match self {
            Self::Data(bytes) => (DATA, bytes),
            Self::Beat => (BEAT, &[]),
            Self::Close(reason) => (CLOSE, &reason.0.to_le_bytes()),
            Self::Name(bytes) => (NAME, bytes),
        };
        debug_assert!(rest.len() <= LENGTH_LIMIT);
        let length = u32::try_from(rest.len()).unwrap_or(0).to_le_bytes();
        output.extend_from_slice(&[kind, length[0], length[1], length[2]]);
        output.extend_from_slice(rest);
    }
}

/// The decoder: bytes in, frames out.
#[derive(Debug, Default)]
pub struct Decoder {
    input: Vec<u8>,
    start: usize,
    limit: usize,
}

impl Decoder {
    /// A decoder for data up to this many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { input: Vec::new(), start: 0, limit: limit.min(LENGTH_LIMIT) }
    }

    /// Takes bytes of the stream.
    pub fn take(&mut self, bytes: &[u8]) {
        if self.start > TIDY_BYTES || self.start == self.input.len() {
            self.input.drain(..self.start);
            self.start = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// Bytes that belong to no returned frame.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.input.len() - self.start
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// The peer broke a rule; the decoder is of no use after that.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        let pending = &self.input[self.start..];
        let Some(&[kind, low, middle, high]) = pending.first_chunk() else { return Ok(None) };
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
        let Some(rest) = pending.get(HEADER_BYTES..HEADER_BYTES + bytes) else { return Ok(None) };
        self.start += HEADER_BYTES + bytes;
        Ok(Some(match (kind, rest) {
            (BEAT, _) => Frame::Beat,
            (CLOSE, &[low, high]) => Frame::Close(Reason(u16::from_le_bytes([low, high]))),
            (NAME, name) => Frame::Name(name),
            (_, data) => Frame::Data(data),
        }))
    }
}

#[cfg(test)]
mod tests;
