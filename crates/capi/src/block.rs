//! Blocks in messages: taken, sent, shared.
//!
//! # Safety
//! Messages of C are read and written through [`crate::memory`]; addresses of blocks are
//! looked up, never followed.
#![allow(unsafe_code)]

use crate::area::{address, keep};
use crate::current::{self, Member};
use crate::guard::{Answer, FOREVER, Refused, call, limit};
use crate::memory;
use core::ffi::{c_int, c_long, c_void};
use m3ipc::{Address, Block, Code, Message};

/// `m3_block_take`: the block that came with the message taken last.
///
/// # Safety
/// `block` and `bytes` can be written, else -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_block_take(block: *mut *mut c_void, bytes: *mut usize) -> c_int {
    call(|| {
        current::with(|member| {
            memory::check_write(block)?;
            memory::check_write(bytes)?;
            let came = member.endpoint.take_block()?.ok_or(Code::NoMsg)?;
            memory::write(bytes, came.len())?;
            keep(member, came, block)?;
            Ok(0)
        })
    })
}

fn take(member: &mut Member, block: *mut c_void) -> Result<Block, Refused> {
    member.blocks.by_address.remove(&address(block)).ok_or_else(|| Code::AddrNotAvail.into())
}

/// What was not sent is the caller's still.
fn back(member: &mut Member, block: Option<Block>, code: Code) -> Refused {
    if let Some(block) = block {
        member.blocks.by_address.insert(block.address(), block);
    }
    code.into()
}

/// `m3_send_block`: sends a message with a block, which is the receiver's then.
///
/// # Safety
/// `m` is a message; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_send_block(dst: c_int, m: *mut Message, block: *mut c_void) -> c_int {
    call(|| send(dst, m, block, FOREVER))
}

/// `m3_send_block_T`: the same with a limit.
///
/// # Safety
/// As [`m3_send_block`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_send_block_T(
    dst: c_int,
    m: *mut Message,
    block: *mut c_void,
    timeout_ms: c_long,
) -> c_int {
    call(|| send(dst, m, block, timeout_ms))
}

fn send(dst: c_int, m: *const Message, block: *mut c_void, timeout_ms: c_long) -> Answer {
    let limit = limit(timeout_ms)?;
    current::with(|member| {
        let message = memory::read(m)?;
        let block = take(member, block)?;
        match member.endpoint.send_block(Address(dst), &message, block, limit) {
            Ok(()) => Ok(0),
            Err(unsent) => Err(back(member, unsent.block, unsent.error.code())),
        }
    })
}

/// `m3_sendrec_block`: sendrec with a block, which is the server's then.
///
/// # Safety
/// As [`m3_send_block`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendrec_block(
    dst: c_int,
    m: *mut Message,
    block: *mut c_void,
) -> c_int {
    call(|| sendrec(dst, m, block, FOREVER))
}

/// `m3_sendrec_block_T`: the same with a limit.
///
/// # Safety
/// As [`m3_send_block`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_sendrec_block_T(
    dst: c_int,
    m: *mut Message,
    block: *mut c_void,
    timeout_ms: c_long,
) -> c_int {
    call(|| sendrec(dst, m, block, timeout_ms))
}

fn sendrec(dst: c_int, m: *mut Message, block: *mut c_void, timeout_ms: c_long) -> Answer {
    let limit = limit(timeout_ms)?;
    current::with(|member| {
        let message = memory::read(m)?;
        memory::check_write(m)?;
        let block = take(member, block)?;
        member.answered(dst);
        match member.endpoint.sendrec_block(Address(dst), &message, block, limit) {
            Ok(answer) => {
                memory::write(m, answer)?;
                Ok(0)
            }
            Err(unsent) => Err(back(member, unsent.block, unsent.error.code())),
        }
    })
}

/// `m3_reply_block`: answers with a block, which is the client's then.
///
/// # Safety
/// As [`m3_send_block`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_reply_block(dst: c_int, m: *mut Message, block: *mut c_void) -> c_int {
    call(|| {
        current::with(|member| {
            let message = memory::read(m)?;
            let block = take(member, block)?;
            match member.endpoint.reply_block(Address(dst), &message, block) {
                Ok(()) => {
                    member.answered(dst);
                    Ok(0)
                }
                Err(unsent) => Err(back(member, unsent.block, unsent.error.code())),
            }
        })
    })
}

/// `m3_share_block`: sends a message with a block to read, which stays the caller's.
///
/// # Safety
/// As [`m3_send_block`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_share_block(dst: c_int, m: *mut Message, block: *mut c_void) -> c_int {
    call(|| share(dst, m, block, FOREVER))
}

/// `m3_share_block_T`: the same with a limit.
///
/// # Safety
/// As [`m3_send_block`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_share_block_T(
    dst: c_int,
    m: *mut Message,
    block: *mut c_void,
    timeout_ms: c_long,
) -> c_int {
    call(|| share(dst, m, block, timeout_ms))
}

fn share(dst: c_int, m: *const Message, block: *mut c_void, timeout_ms: c_long) -> Answer {
    let limit = limit(timeout_ms)?;
    current::with(|member| {
        let message = memory::read(m)?;
        let block = member.blocks.by_address.get_mut(&address(block)).ok_or(Code::AddrNotAvail)?;
        member.endpoint.share_block(Address(dst), &message, block, limit)?;
        Ok(0)
    })
}

/// `m3_block_reclaim`: a shared block is the caller's alone again, unless somebody reads it.
#[unsafe(no_mangle)]
pub extern "C" fn m3_block_reclaim(block: *mut c_void) -> c_int {
    call(|| {
        current::with(|member| {
            let block =
                member.blocks.by_address.get_mut(&address(block)).ok_or(Code::AddrNotAvail)?;
            if member.endpoint.reclaim_block(block) { Ok(0) } else { Err(Code::Busy.into()) }
        })
    })
}
