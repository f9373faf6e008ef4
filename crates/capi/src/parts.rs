//! Long messages in parts, as readv(2) and writev(2) name them.
//!
//! The parts pass through one buffer, as each long message does: see [`crate::payload`].

use crate::current;
use crate::failure::{CallFailure, CallResult};
use crate::ipc::delivered;
use crate::memory::{ReadBytes, ReadPtr, WriteBytes, WritePtr};
use crate::payload::{too_long, with_buffer, with_room};
use core::ffi::c_int;
use m3ipc::{Address, Buffer, Code, Delivered, LARGE_MAX_BYTES, LONG_MAX_BYTES, Message, Timeout};

/// The limit of parts, that of the kernel.
const PARTS_MAX: usize = 1_024;

/// An array of parts, as C names it, and what a part of it is.
#[derive(Clone, Copy)]
pub(crate) struct PartArray<F> {
    pub(crate) iov: ReadPtr<libc::iovec>,
    pub(crate) count: c_int,
    pub(crate) part: F,
}

impl<F> PartArray<F> {
    #[cold]
    fn too_many(&self) -> CallFailure {
        let text = format!("{} parts are not between 0 and {PARTS_MAX}", self.count);
        CallFailure::said(Code::Inval, text)
    }

    fn read<T>(&self) -> CallResult<Vec<T>>
    where
        F: Fn(&libc::iovec) -> T,
    {
        let count = usize::try_from(self.count).ok().filter(|count| *count <= PARTS_MAX);
        let parts = (0..count.ok_or_else(|| self.too_many())?)
            .map(|at| Ok((self.part)(&self.iov.read_at(at)?)));
        parts.collect()
    }
}

/// Runs `body` with a copy of the parts, one after the other.
fn gather<T>(parts: &[ReadBytes], body: impl FnOnce(&[u8]) -> CallResult<T>) -> CallResult<T> {
    let bytes = total(parts.iter().map(|part| part.len()));
    if bytes > LARGE_MAX_BYTES {
        return Err(too_long(bytes));
    }
    with_buffer(bytes, |buffer| {
        let mut rest = &mut *buffer;
        for part in parts {
            let (front, behind) = rest.split_at_mut(part.len());
            part.read(front)?;
            rest = behind;
        }
        body(buffer)
    })
}

/// Runs `take` with a buffer as long as the parts, and delivers its result to them: the message and
/// the length of its long part.
fn scatter(
    message: WritePtr<Message>,
    parts: &[WriteBytes],
    length: WritePtr<usize>,
    take: impl FnOnce(&mut Buffer<'_>) -> CallResult<(Message, usize)>,
) -> CallResult {
    // Check first: a message that is taken and cannot be delivered would be lost.
    message.check()?;
    let write_length = |bytes| if length.is_null() { Ok(()) } else { length.write(bytes) };
    let room = total(parts.iter().map(|part| part.len()));
    let mut unchecked = LONG_MAX_BYTES;
    for part in parts {
        let bytes = part.len().min(unchecked);
        part.check(bytes)?;
        unchecked -= bytes;
    }
    write_length(0)?;
    with_room(room, |buffer| {
        let (taken, bytes) = take(buffer)?;
        message.write(taken)?;
        let mut rest = buffer.front(bytes);
        for part in parts {
            let (front, behind) = rest.split_at(part.len().min(rest.len()));
            part.write(front)?;
            rest = behind;
        }
        write_length(bytes)?;
        if bytes <= room { Ok(0) } else { Err(CallFailure::cut(taken.source, bytes, room)) }
    })
}

fn total(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.fold(0, usize::saturating_add)
}

pub(crate) fn send(
    to: Address,
    message: ReadPtr<Message>,
    parts: &PartArray<impl Fn(&libc::iovec) -> ReadBytes>,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        let message = message.read()?;
        gather(&parts.read()?, |bytes| {
            Ok(member.endpoint.send_long(to, &message, bytes, limit)?)
        })?;
        member.answered(to);
        Ok(0)
    })
}

pub(crate) fn reply(
    to: Address,
    message: ReadPtr<Message>,
    parts: &PartArray<impl Fn(&libc::iovec) -> ReadBytes>,
) -> CallResult {
    current::with(|member| {
        let message = message.read()?;
        gather(&parts.read()?, |bytes| {
            Ok(member.endpoint.reply_long(to, &message, bytes).and_then(Delivered::into_result)?)
        })?;
        member.answered(to);
        Ok(0)
    })
}

pub(crate) fn receive(
    from: Address,
    message: WritePtr<Message>,
    parts: &PartArray<impl Fn(&libc::iovec) -> WriteBytes>,
    length: WritePtr<usize>,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        scatter(message, &parts.read()?, length, |buffer| {
            let taken = member.endpoint.receive_to(from.into(), buffer, limit)?;
            Ok(delivered(member, taken))
        })
    })
}

pub(crate) fn sendrec(
    to: Address,
    message: WritePtr<Message>,
    out: &PartArray<impl Fn(&libc::iovec) -> ReadBytes>,
    into: &PartArray<impl Fn(&libc::iovec) -> WriteBytes>,
    length: WritePtr<usize>,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        let request = message.read()?;
        gather(&out.read()?, |bytes| {
            scatter(message, &into.read()?, length, |buffer| {
                // The request may itself be the answer to a request of `to`.
                member.answered(to);
                Ok(member.endpoint.request(to, &request, bytes, buffer, limit)?)
            })
        })
    })
}
