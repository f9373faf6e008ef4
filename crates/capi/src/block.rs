//! Blocks in messages: take, send, share, reclaim.

use crate::current;
use crate::failure::{CallFailure, CallResult};
use crate::member::CallingMember;
use crate::memory::{ReadPtr, WritePtr};
use core::ffi::c_void;
use m3ipc::{Address, Block, Code, Delivered, Message, Timeout, Unsent};

/// The address of a block, from the pointer that C passes. The library never follows the pointer.
pub(crate) fn address_of(block: *mut c_void) -> u64 {
    block.expose_provenance() as u64
}

/// The pointer to a block, for C.
pub(crate) fn pointer_to(block: &Block) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(usize::try_from(block.address()).unwrap_or(0))
}

/// Takes the block of the last message.
pub(crate) fn take(to: WritePtr<*mut c_void>, length: WritePtr<usize>) -> CallResult {
    current::with(|member| {
        to.check()?;
        length.check()?;
        let block = member.endpoint.take_block()?.ok_or(Code::NoMsg)?;
        length.write(block.len())?;
        to.write(pointer_to(&block))?;
        member.blocks.insert(block);
        Ok(0)
    })
}

/// Gives a block that was not sent back to the caller.
fn not_sent<E>(member: &mut CallingMember, unsent: Unsent<E>) -> CallFailure
where
    E: std::error::Error + Into<CallFailure>,
{
    let failure = unsent.error.into();
    let Some(block) = unsent.block else { return failure.without_block() };
    member.blocks.insert(block);
    failure
}

pub(crate) fn send(
    to: Address,
    message: ReadPtr<Message>,
    block: u64,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        let message = message.read()?;
        let block = member.blocks.take(block)?;
        match member.endpoint.send_block(to, &message, block, limit) {
            Ok(()) => Ok(0),
            Err(unsent) => Err(not_sent(member, unsent)),
        }
    })
}

pub(crate) fn sendrec(
    to: Address,
    message: WritePtr<Message>,
    block: u64,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        let request = message.read()?;
        message.check()?;
        let block = member.blocks.take(block)?;
        match member.endpoint.sendrec_block(to, &request, block, limit) {
            Ok(answer) => {
                member.answered(to);
                message.write(answer)?;
                Ok(0)
            }
            Err(unsent) => Err(not_sent(member, unsent)),
        }
    })
}

pub(crate) fn reply(to: Address, message: ReadPtr<Message>, block: u64) -> CallResult {
    current::with(|member| {
        let message = message.read()?;
        let block = member.blocks.take(block)?;
        match member.endpoint.try_reply_block(to, &message, block) {
            (Ok(Delivered::Yes), _) => {
                member.answered(to);
                Ok(0)
            }
            (Ok(Delivered::No(error)) | Err(error), block) => {
                Err(not_sent(member, Unsent { error, block }))
            }
        }
    })
}

pub(crate) fn share(
    to: Address,
    message: ReadPtr<Message>,
    block: u64,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        let message = message.read()?;
        let block = member.blocks.get_mut(block)?;
        member.endpoint.share_block(to, &message, block, limit)?;
        Ok(0)
    })
}

pub(crate) fn reclaim(block: u64) -> CallResult {
    current::with(|member| {
        let block = member.blocks.get_mut(block)?;
        let readers = block.readers_left();
        if member.endpoint.reclaim_block(block) {
            return Ok(0);
        }
        let text = format!("{readers} endpoints read the block; reclaim it when they dropped it");
        Err(CallFailure::said(Code::Busy, text))
    })
}
