//! The long part of a message: up to 1,792 bytes in the link, up to 1 GiB as a block.
//!
//! The bytes pass through a buffer of the library in both directions, on the stack up to 1,792
//! bytes. A longer one grows with the bytes that arrive, whatever room the program has. Memory of
//! the program is therefore only accessed by a copy, and a program may use the same memory for a
//! request and its answer.

use crate::failure::{CallFailure, CallResult};
use crate::memory::{self, ReadBytes, WriteBytes, WritePtr};
use m3ipc::{Buffer, Code, LARGE_MAX_BYTES, LONG_MAX_BYTES, Message};

/// Runs `body` with a copy of the bytes that a message sends.
#[inline]
pub(crate) fn with_copy<T>(
    source: ReadBytes,
    body: impl FnOnce(&[u8]) -> CallResult<T>,
) -> CallResult<T> {
    if source.len() == 0 { body(&[]) } else { with_copy_slow(source, body) }
}

fn with_copy_slow<T>(
    source: ReadBytes,
    body: impl FnOnce(&[u8]) -> CallResult<T>,
) -> CallResult<T> {
    with_buffer(source.len(), |buffer| {
        let copy = buffer.get_mut(..source.len()).ok_or_else(|| too_long(source.len()))?;
        source.read(copy)?;
        body(copy)
    })
}

/// The failure of a payload that no message carries.
#[cold]
pub(crate) fn too_long(bytes: usize) -> CallFailure {
    let text = format!(
        "a payload of {bytes} bytes is longer than a message can be ({LARGE_MAX_BYTES} bytes); \
         split it, or send a block"
    );
    CallFailure::said(Code::MsgSize, text)
}

/// Runs `body` with room for a payload that arrives: for so many bytes of it at most.
pub(crate) fn with_room<T>(
    bytes: usize,
    body: impl FnOnce(&mut Buffer<'_>) -> CallResult<T>,
) -> CallResult<T> {
    if bytes > LONG_MAX_BYTES {
        return body(&mut Buffer::UpTo(&mut Vec::new(), bytes));
    }
    let mut buffer = [0; LONG_MAX_BYTES];
    body(&mut Buffer::Slice(&mut buffer[..bytes]))
}

/// Runs `body` with a buffer of so many bytes, or of the longest message; -12 without memory.
pub(crate) fn with_buffer<T>(
    bytes: usize,
    body: impl FnOnce(&mut [u8]) -> CallResult<T>,
) -> CallResult<T> {
    if bytes > LONG_MAX_BYTES {
        return body(&mut memory::zeroed(bytes.min(LARGE_MAX_BYTES))?);
    }
    let mut buffer = [0; LONG_MAX_BYTES];
    body(&mut buffer[..bytes])
}

/// Where a received message goes.
#[derive(Clone, Copy)]
pub(crate) struct Delivery {
    pub(crate) message: WritePtr<Message>,
    /// The long part.
    pub(crate) bytes: WriteBytes,
    /// The length of the long part; may be null.
    pub(crate) length: Option<WritePtr<usize>>,
}

impl Delivery {
    /// A call without `_long`.
    pub(crate) fn plain(message: WritePtr<Message>) -> Self {
        Self { message, bytes: WriteBytes::NONE, length: None }
    }

    /// A call with `_long`.
    pub(crate) fn long(
        message: WritePtr<Message>,
        bytes: WriteBytes,
        length: WritePtr<usize>,
    ) -> Self {
        Self { message, bytes, length: (!length.is_null()).then_some(length) }
    }

    /// Runs `take` with a buffer for the long part, and delivers its result: the message and
    /// the length of its long part.
    #[inline]
    pub(crate) fn deliver(
        self,
        take: impl FnOnce(&mut Buffer<'_>) -> CallResult<(Message, usize)>,
    ) -> CallResult {
        // Check first: a message that is taken and cannot be delivered would be lost.
        self.message.check()?;
        if self.bytes.len() == 0 && self.length.is_none() {
            let (message, bytes) = take(&mut Buffer::none())?;
            self.message.write(message)?;
            return if bytes == 0 {
                Ok(0)
            } else {
                Err(CallFailure::cut(message.source, bytes, 0))
            };
        }
        self.deliver_long(take)
    }

    fn deliver_long(
        self,
        take: impl FnOnce(&mut Buffer<'_>) -> CallResult<(Message, usize)>,
    ) -> CallResult {
        // A check of each page of a longer buffer would cost every call more than it saves.
        self.bytes.check(LONG_MAX_BYTES)?;
        let write_length =
            |bytes| self.length.map_or(Ok(()), |length: WritePtr<usize>| length.write(bytes));
        write_length(0)?;
        with_room(self.bytes.len(), |buffer| {
            let (message, bytes) = take(buffer)?;
            self.message.write(message)?;
            self.bytes.write(buffer.front(bytes))?;
            write_length(bytes)?;
            let room = self.bytes.len();
            if bytes <= room { Ok(0) } else { Err(CallFailure::cut(message.source, bytes, room)) }
        })
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
