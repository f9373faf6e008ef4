//! The long part of a message: up to 1,792 bytes in the link, up to 1 GiB as a block.
//!
//! The bytes pass through a buffer of the library in both directions, on the stack up to 1,792
//! bytes. Memory of the program is therefore only accessed by a copy, and a program may use the
//! same memory for a request and its answer.

use crate::failure::CallResult;
use crate::memory::{self, ReadBytes, WriteBytes, WritePtr};
use m3ipc::{Code, LARGE_MAX_BYTES, LONG_MAX_BYTES, Message};

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
        let copy = buffer.get_mut(..source.len()).ok_or(Code::MsgSize)?;
        source.read(copy)?;
        body(copy)
    })
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
        take: impl FnOnce(&mut [u8]) -> CallResult<(Message, usize)>,
    ) -> CallResult {
        // Check first: a message that is taken and cannot be delivered would be lost.
        self.message.check()?;
        if self.bytes.len() == 0 && self.length.is_none() {
            let (message, bytes) = take(&mut [])?;
            self.message.write(message)?;
            return if bytes == 0 { Ok(0) } else { Err(Code::MsgSize.into()) };
        }
        self.deliver_long(take)
    }

    fn deliver_long(
        self,
        take: impl FnOnce(&mut [u8]) -> CallResult<(Message, usize)>,
    ) -> CallResult {
        // A check of each page of a longer buffer would cost every call more than it saves.
        self.bytes.check(LONG_MAX_BYTES)?;
        let write_length =
            |bytes| self.length.map_or(Ok(()), |length: WritePtr<usize>| length.write(bytes));
        write_length(0)?;
        with_buffer(self.bytes.len(), |buffer| {
            let (message, bytes) = take(buffer)?;
            self.message.write(message)?;
            self.bytes.write(&buffer[..bytes.min(buffer.len())])?;
            write_length(bytes)?;
            if bytes <= self.bytes.len() { Ok(0) } else { Err(Code::MsgSize.into()) }
        })
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
