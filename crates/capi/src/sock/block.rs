//! Blocks of areas through streams.

use super::answer::{Answer, fault};
use super::table;
use crate::area::{address, keep};
use crate::current::{self, Member};
use crate::memory;
use core::ffi::{c_int, c_void};
use m3ipc_sockets::{Errno, SockKind, Stream};
use std::sync::Arc;

fn stream(fd: c_int) -> Answer<Arc<Stream>> {
    let entry = table::find(fd)?;
    if entry.kind == SockKind::Datagram {
        return Err(Errno::OPNOTSUPP);
    }
    entry.stream().ok_or(Errno::NOTCONN)
}

/// Runs with the endpoint of the caller; `BADF` where it has none.
fn with<T>(body: impl FnOnce(&mut Member) -> Answer<T>) -> Answer<T> {
    let mut answer = Err(Errno::BADF);
    let _ = current::with(|member| {
        answer = body(member);
        Ok(())
    });
    answer
}

/// Sends a block: it is the other process's when that has received it.
pub(super) fn send(fd: c_int, block: *mut c_void) -> Answer {
    let stream = stream(fd)?;
    with(|member| {
        let block = member.blocks.by_address.remove(&address(block)).ok_or(Errno::FAULT)?;
        stream.send_block(&mut member.endpoint, block).map(|_given| 0).map_err(|unsent| {
            // What was not sent is the caller's still.
            if let Some(block) = unsent.block {
                member.blocks.by_address.insert(block.address(), block);
            }
            unsent.error.errno()
        })
    })
}

/// Receives one: its bytes, 0 where the other side has ended.
pub(super) fn receive(fd: c_int, block: *mut *mut c_void) -> Answer<usize> {
    let stream = stream(fd)?;
    memory::check_write(block).map_err(fault)?;
    with(|member| {
        let Some(came) =
            stream.receive_block(&mut member.endpoint).map_err(|error| error.errno())?
        else {
            return Ok(0);
        };
        let bytes = came.len();
        keep(member, came, block).map_err(fault)?;
        Ok(bytes)
    })
}
