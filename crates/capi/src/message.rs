//! Messages: send, receive, sendrec, rcvrqst, reply, relay, notify, wakeup.
//!
//! What a caller passes is checked in the order of the contract: first the
//! caller itself ([`current::with`]), then its buffer, then, in [`m3ipc`], the partner.
//!
//! # Safety
//! Pointers of C go through [`crate::memory`] alone.
#![allow(unsafe_code)]

use crate::current::{self, Member};
use crate::guard::{Answer, FOREVER, call, limit};
use crate::long::{Incoming, Outgoing, deliver};
use crate::{memory, node};
use core::ffi::{c_int, c_long};
use m3ipc::{ANY, Address, Code, Message};

/// `mnx_send`: returns when the receiver has taken the message.
///
/// # Safety
/// `m` is a message that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_send(dst: c_int, m: *mut Message) -> c_int {
    call(|| send(dst, m, Outgoing::NONE, FOREVER))
}

/// `mnx_send_T`: the same with a limit.
///
/// # Safety
/// As [`mnx_send`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_send_T(dst: c_int, m: *mut Message, timeout_ms: c_long) -> c_int {
    call(|| send(dst, m, Outgoing::NONE, timeout_ms))
}

#[inline]
pub(crate) fn send(dst: c_int, m: *const Message, long: Outgoing, timeout_ms: c_long) -> Answer {
    let limit = limit(timeout_ms)?;
    current::with(|member| {
        let message = memory::read(m)?;
        long.with(|long| Ok(member.endpoint.send_long(Address(dst), &message, long, limit)?))?;
        answered(member, dst);
        Ok(0)
    })
}

/// `mnx_receive`: waits for a message of `src`, or of anybody.
///
/// # Safety
/// `m` is a message that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_receive(src: c_int, m: *mut Message) -> c_int {
    call(|| receive(src, m, Incoming::NONE, FOREVER))
}

/// `mnx_receive_T`: the same with a limit.
///
/// # Safety
/// As [`mnx_receive`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_receive_T(src: c_int, m: *mut Message, timeout_ms: c_long) -> c_int {
    call(|| receive(src, m, Incoming::NONE, timeout_ms))
}

#[inline]
pub(crate) fn receive(src: c_int, m: *mut Message, long: Incoming, timeout_ms: c_long) -> Answer {
    let limit = limit(timeout_ms)?;
    current::with(|member| {
        deliver(m, long, |room| {
            let taken = member.endpoint.receive_long(Address(src), room, limit)?;
            if taken.is_request {
                member.held = Some(taken.message.source);
            }
            Ok((taken.message, taken.bytes))
        })
    })
}

/// `mnx_sendrec`: sends, and waits for the answer of the same process.
///
/// # Safety
/// `m` is a message that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_sendrec(dst: c_int, m: *mut Message) -> c_int {
    call(|| sendrec(dst, m, Outgoing::NONE, Incoming::NONE, FOREVER))
}

/// `mnx_sendrec_T`: the same with a limit for both halves.
///
/// # Safety
/// As [`mnx_sendrec`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_sendrec_T(dst: c_int, m: *mut Message, timeout_ms: c_long) -> c_int {
    call(|| sendrec(dst, m, Outgoing::NONE, Incoming::NONE, timeout_ms))
}

#[inline]
pub(crate) fn sendrec(
    dst: c_int,
    m: *mut Message,
    out: Outgoing,
    into: Incoming,
    timeout_ms: c_long,
) -> Answer {
    let limit = limit(timeout_ms)?;
    current::with(|member| {
        let message = memory::read(m)?;
        out.with(|long| {
            deliver(m, into, |room| {
                // The request may be an answer itself.
                answered(member, dst);
                Ok(member.endpoint.sendrec_long(Address(dst), &message, long, room, limit)?)
            })
        })
    })
}

/// `mnx_rcvrqst`: takes a request made with sendrec, or a notification.
///
/// # Safety
/// `m` is a message that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_rcvrqst(m: *mut Message) -> c_int {
    call(|| rcvrqst(m, Incoming::NONE, FOREVER))
}

/// `mnx_rcvrqst_T`: the same with a limit.
///
/// # Safety
/// As [`mnx_rcvrqst`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_rcvrqst_T(m: *mut Message, timeout_ms: c_long) -> c_int {
    call(|| rcvrqst(m, Incoming::NONE, timeout_ms))
}

#[inline]
pub(crate) fn rcvrqst(m: *mut Message, long: Incoming, timeout_ms: c_long) -> Answer {
    let limit = limit(timeout_ms)?;
    current::with(|member| {
        deliver(m, long, |room| {
            let taken = member.endpoint.rcvrqst(room, limit)?;
            if taken.is_request {
                member.held = Some(taken.message.source);
            }
            Ok((taken.message, taken.bytes))
        })
    })
}

/// `mnx_reply`: answers one who waits for exactly the caller; never waits.
///
/// # Safety
/// `m` is a message that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_reply(dst: c_int, m: *mut Message) -> c_int {
    call(|| reply(dst, m, Outgoing::NONE))
}

/// `mnx_reply_T`: the same; the limit is only checked.
///
/// # Safety
/// As [`mnx_reply`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_reply_T(dst: c_int, m: *mut Message, timeout_ms: c_long) -> c_int {
    call(|| {
        limit(timeout_ms)?;
        reply(dst, m, Outgoing::NONE)
    })
}

#[inline]
pub(crate) fn reply(dst: c_int, m: *const Message, long: Outgoing) -> Answer {
    current::with(|member| {
        let message = memory::read(m)?;
        long.with(|long| Ok(member.endpoint.reply_long(Address(dst), &message, long)?))?;
        answered(member, dst);
        Ok(0)
    })
}

/// `mnx_relay`: hands the request that was taken last to `dst`.
///
/// # Safety
/// `m` is a message that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_relay(dst: c_int, m: *mut Message) -> c_int {
    call(|| relay(dst, m, FOREVER))
}

/// `mnx_relay_T`: the same; with no time, only where `dst` is receiving.
///
/// # Safety
/// As [`mnx_relay`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_relay_T(dst: c_int, m: *mut Message, timeout_ms: c_long) -> c_int {
    call(|| relay(dst, m, timeout_ms))
}

fn relay(dst: c_int, m: *const Message, timeout_ms: c_long) -> Answer {
    limit(timeout_ms)?;
    current::with(|member| {
        let message = memory::read(m)?;
        let client = member.held.ok_or(Code::ProcSts)?;
        if timeout_ms == 0 && is_at_work(member, client, Address(dst)) {
            return Err(Code::Again.into());
        }
        member.endpoint.relay_message(client, Address(dst), &message)?;
        member.held = None;
        Ok(0)
    })
}

/// Whether an endpoint that lives is not receiving from this client now, as the node sees it.
fn is_at_work(member: &Member, client: Address, to: Address) -> bool {
    let found =
        node::reach().and_then(|mut node| Ok(node.endpoint(member.endpoint.vm(), to.slot())?));
    match found {
        Ok(Some(found)) if found.address == to.0 => {
            let receives = matches!(found.wait.verb.as_str(), "receive" | "rcvrqst");
            !(receives && [ANY.0, client.0].contains(&found.wait.peer))
        }
        // Whatever is wrong with it the relay itself will tell.
        _ => false,
    }
}

/// A request of this client is held no longer.
#[inline]
fn answered(member: &mut Member, client: c_int) {
    if member.held == Some(Address(client)) {
        member.held = None;
    }
}

/// `mnx_notify`: one bit for each source; never waits.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_notify(dst: c_int) -> c_int {
    call(|| current::with(|member| node::done(member.endpoint.notify(Address(dst)))))
}

/// `mnx_src_notify`: the same in the name of a task.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_src_notify(src_nr: c_int, dst: c_int) -> c_int {
    call(|| {
        current::with(|member| {
            if src_nr == member.endpoint.address().slot() {
                return node::done(member.endpoint.notify(Address(dst)));
            }
            if src_nr >= 0 {
                return Err(Code::Privileges.into());
            }
            node::done(member.endpoint.notify_for(Address(src_nr), Address(dst)))
        })
    })
}

/// `mnx_wakeup`: ends another's receive from ANY.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_wakeup(vmid: c_int, ep: c_int) -> c_int {
    call(|| node::done(node::reach()?.wakeup(vmid, Address(ep))).map_err(node::or_died))
}
