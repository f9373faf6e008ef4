//! Blocks of areas through streams.

use super::posix::{PosixResult, fault};
use super::table;
use crate::block::pointer_to;
use crate::current;
use crate::member::CallingMember;
use crate::memory::WritePtr;
use core::ffi::{c_int, c_void};
use m3ipc_sockets::{Errno, Stream};
use std::sync::Arc;

fn stream(fd: c_int) -> PosixResult<Arc<Stream>> {
    let entry = table::find(fd)?;
    if !entry.is_stream() {
        return Err(Errno::OPNOTSUPP);
    }
    entry.stream().ok_or(Errno::NOTCONN)
}

/// Runs `body` with the member of the caller; EBADF if the caller is not bound.
fn with_member<T>(body: impl FnOnce(&mut CallingMember) -> PosixResult<T>) -> PosixResult<T> {
    current::with(|member| Ok(body(member))).unwrap_or(Err(Errno::BADF))
}

/// Sends the block at an address. The peer owns the block when it has received it.
pub(crate) fn send(fd: c_int, block: u64) -> PosixResult {
    let stream = stream(fd)?;
    with_member(|member| {
        let block = member.blocks.take(block).map_err(fault)?;
        stream.send_block(&mut member.endpoint, block).map(|_given| 0).map_err(|unsent| {
            // The caller still owns a block that was not sent.
            if let Some(block) = unsent.block {
                member.blocks.insert(block);
            }
            unsent.error.errno()
        })
    })
}

/// Receives a block. Returns its length in bytes, 0 at the end of the stream.
pub(crate) fn receive(fd: c_int, to: WritePtr<*mut c_void>) -> PosixResult<usize> {
    let stream = stream(fd)?;
    to.check().map_err(fault)?;
    with_member(|member| {
        let received = stream.receive_block(&mut member.endpoint);
        let Some(block) = received.map_err(|error| error.errno())? else { return Ok(0) };
        let bytes = block.len();
        to.write(pointer_to(&block)).map_err(fault)?;
        member.blocks.insert(block);
        Ok(bytes)
    })
}
