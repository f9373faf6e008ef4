//! Blocks of areas through streams.
//!
//! A call uses the endpoint of the caller only to give or accept a block, never while it waits for
//! the stream: other threads go on with the endpoint meanwhile.

use super::kernel;
use super::posix::{PosixResult, fault};
use super::table::{self, SocketEntry};
use crate::block::pointer_to;
use crate::current;
use crate::member::CallingMember;
use crate::memory::WritePtr;
use core::ffi::{c_int, c_void};
use core::time::Duration;
use m3ipc::{Address, Code, GivenBlock};
use m3ipc_sockets::{Errno, Stream};
use m3ipc_sys::PerProcess;
use std::sync::{Arc, Mutex, PoisonError};

/// Attempts to get the endpoint for a block that was not sent, and the pause between two.
const RETURNS: u32 = 100;
const RETURN_PAUSE: Duration = Duration::from_millis(1);

/// Blocks that were not sent, each with the endpoint that gave it: other threads were in calls on
/// that endpoint. They return at its next call about blocks and streams.
static UNSENT: PerProcess<Mutex<Vec<(i32, Address, GivenBlock)>>> = PerProcess::new();

fn stream(fd: c_int) -> PosixResult<(Arc<SocketEntry>, Arc<Stream>)> {
    let entry = table::find(fd)?;
    if !entry.is_stream() {
        return Err(Errno::OPNOTSUPP);
    }
    let stream = entry.stream().ok_or(Errno::NOTCONN)?;
    Ok((entry, stream))
}

/// Runs `body` with the member of the caller; EBADF if the caller is not bound, EBUSY if another
/// thread is in a call on its endpoint.
fn with_member<T>(body: impl FnOnce(&mut CallingMember) -> PosixResult<T>) -> PosixResult<T> {
    let made = current::with(|member| {
        return_unsent(member);
        Ok(body(member))
    });
    made.unwrap_or_else(|failure| {
        Err(if failure.code == Code::NotReady { Errno::BUSY } else { Errno::BADF })
    })
}

fn return_unsent(member: &mut CallingMember) {
    let own = (member.endpoint.vm(), member.endpoint.address());
    let mut unsent = UNSENT.get().lock().unwrap_or_else(PoisonError::into_inner);
    for (.., given) in unsent.extract_if(.., |(vm, address, _)| (*vm, *address) == own) {
        take_back(member, &given);
    }
}

/// The caller still owns a block that was not sent.
fn take_back(member: &mut CallingMember, given: &GivenBlock) {
    if let Some(block) = member.endpoint.take_back_given(given) {
        member.blocks.insert(block);
    }
}

/// Sends the block at an address. The peer owns the block when it has received it.
pub(crate) fn send(fd: c_int, block: u64) -> PosixResult {
    let (_, stream) = stream(fd)?;
    let (vm, address, given) = with_member(|member| {
        let block = member.blocks.take(block).map_err(fault)?;
        let given = stream.give_block(&mut member.endpoint, block).map_err(|unsent| {
            if let Some(block) = unsent.block {
                member.blocks.insert(block);
            }
            unsent.error.errno()
        })?;
        Ok((member.endpoint.vm(), member.endpoint.address(), given))
    })?;
    let Err(error) = stream.send_given(&given) else { return Ok(0) };
    for _ in 0..RETURNS {
        let back = with_member(|member| {
            take_back(member, &given);
            Ok(())
        });
        if back != Err(Errno::BUSY) {
            return Err(error.errno());
        }
        // A signal shortens the pause alone.
        let _ = kernel::pause(RETURN_PAUSE);
    }
    let mut unsent = UNSENT.get().lock().unwrap_or_else(PoisonError::into_inner);
    unsent.push((vm, address, given));
    Err(error.errno())
}

/// Receives a block. Returns its length in bytes, 0 at the end of the stream.
pub(crate) fn receive(fd: c_int, to: WritePtr<*mut c_void>) -> PosixResult<usize> {
    let (entry, stream) = stream(fd)?;
    to.check().map_err(fault)?;
    with_member(|member| stream.check_blocks(&mut member.endpoint).map_err(|error| error.errno()))?;
    let kept = entry.arrived().pop_front();
    let arrived = match kept {
        Some(arrived) => arrived,
        None => match stream.next_block().map_err(|error| error.errno())? {
            Some(arrived) => arrived,
            None => return Ok(0),
        },
    };
    let accepted = with_member(|member| {
        let block = stream.accept_block(&mut member.endpoint, &arrived);
        let block = block.map_err(|error| error.errno())?;
        let bytes = block.len();
        to.write(pointer_to(&block)).map_err(fault)?;
        member.blocks.insert(block);
        Ok(bytes)
    });
    if accepted == Err(Errno::BUSY) {
        entry.arrived().push_front(arrived);
    }
    accepted
}
