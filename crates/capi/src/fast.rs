//! The front door: calls without a long part that the fast halves of [`m3ipc`] can make.
//!
//! ```text
//! a call of C ── front door ── member ── page of the message ── fast half ── 0
//!                    │           │               │                 │
//!                    └───────────┴───────────────┴─ [`call`]       └ slow half, with errno kept
//! ```
//!
//! A door does what its function in [`crate::ipc`] does, in the same order. It leaves the whole
//! call to that function unless the member of the caller is free, its message lies in the page of
//! the last one, and the fast half has begun the call. A member that has ended begins no call, and
//! a child by fork has no free member. No fast half changes `errno`, so a door does not look at
//! it.

use crate::current;
use crate::failure::{CallFailure, CallResult};
use crate::guard::{call, catch, enclosed};
use crate::ipc;
use crate::member::CallingMember;
use crate::memory::{CheckedPtr, ReadBytes, ReadPtr, WritePtr};
use core::ffi::c_int;
use m3ipc::{
    Address, Message, Source, Timeout, UnfinishedReceive, UnfinishedRequest, UnfinishedSend,
};

/// Runs a door. `None` if it leaves the whole call.
#[inline(always)]
fn open(door: impl FnOnce(&mut CallingMember) -> Option<c_int> + Copy) -> Option<c_int> {
    catch(move || current::with_idle(door)).unwrap_or_else(Some)
}

/// The code of a result.
fn code_of(result: CallResult) -> c_int {
    result.unwrap_or_else(CallFailure::tell)
}

#[inline(always)]
pub(crate) fn sendrec(to: Address, message: WritePtr<Message>, limit: Timeout) -> c_int {
    let door = move |member: &mut CallingMember| {
        let place = message.checked_in(member.message_page)?;
        let request = place.read();
        let deliver = |answer| place.write(answer);
        match member.endpoint.sendrec_fast_half(to, &request, limit, deliver) {
            Ok(()) => {
                // The request may itself be the answer to a request of `to`.
                member.answered(to);
                Some(0)
            }
            Err(rest) if rest.is_whole() => None,
            Err(rest) => Some(end_sendrec(member, rest, to, place, limit)),
        }
    };
    open(door).unwrap_or_else(|| sendrec_slow(to, message, limit))
}

#[cold]
fn sendrec_slow(to: Address, message: WritePtr<Message>, limit: Timeout) -> c_int {
    call(|| ipc::sendrec_plain(to, message, limit))
}

#[cold]
fn end_sendrec(
    member: &mut CallingMember,
    rest: UnfinishedRequest,
    to: Address,
    place: CheckedPtr<Message>,
    limit: Timeout,
) -> c_int {
    enclosed(|| {
        let answered = member.endpoint.sendrec_slow_half(rest, to, &place.read(), limit);
        code_of(ipc::deliver_answer(member, to, place, answered))
    })
}

#[inline(always)]
pub(crate) fn send(to: Address, message: ReadPtr<Message>, limit: Timeout) -> c_int {
    let door = move |member: &mut CallingMember| {
        let text = message.read_in(member.sent_page)?;
        match member.endpoint.send_fast_half(to, &text, limit) {
            Ok(()) => member.answered(to),
            Err(rest) if rest.is_whole() => return None,
            Err(rest) => return Some(end_send(member, rest, to, &text, limit)),
        }
        Some(0)
    };
    open(door).unwrap_or_else(|| send_slow(to, message, limit))
}

#[cold]
fn send_slow(to: Address, message: ReadPtr<Message>, limit: Timeout) -> c_int {
    call(|| ipc::send(to, message, ReadBytes::NONE, limit))
}

#[cold]
fn end_send(
    member: &mut CallingMember,
    rest: UnfinishedSend,
    to: Address,
    message: &Message,
    limit: Timeout,
) -> c_int {
    enclosed(|| match member.endpoint.send_slow_half(rest, to, message, limit) {
        Ok(()) => {
            member.answered(to);
            0
        }
        Err(error) => CallFailure::from(error).tell(),
    })
}

#[inline(always)]
pub(crate) fn notify(to: Address) -> c_int {
    let door = move |member: &mut CallingMember| member.endpoint.notify_fast_half(to).then_some(0);
    open(door).unwrap_or_else(|| notify_slow(to))
}

#[cold]
fn notify_slow(to: Address) -> c_int {
    call(|| ipc::notify(to))
}

#[inline(always)]
pub(crate) fn receive(from: Address, message: WritePtr<Message>, limit: Timeout) -> c_int {
    let door = move |member: &mut CallingMember| {
        let place = message.checked_in(member.message_page)?;
        let source = Source::from(from);
        match member.endpoint.receive_fast_half(source, limit, |next| deliver(place, next)) {
            Ok(source) => member.received(source),
            Err(rest) if rest.is_whole() => return None,
            Err(rest) => return Some(end_receive(member, rest, place, (source, limit))),
        }
        Some(0)
    };
    open(door).unwrap_or_else(|| receive_slow(from, message, limit))
}

#[cold]
fn receive_slow(from: Address, message: WritePtr<Message>, limit: Timeout) -> c_int {
    call(|| ipc::receive_plain(from, message, limit))
}

/// Delivers a message that a fast half has taken. Returns its source.
#[inline(always)]
fn deliver(place: CheckedPtr<Message>, message: Message) -> Address {
    place.write(message);
    message.source
}

#[cold]
fn end_receive(
    member: &mut CallingMember,
    rest: UnfinishedReceive,
    place: CheckedPtr<Message>,
    (source, limit): (Source, Timeout),
) -> c_int {
    enclosed(|| {
        let received = member.endpoint.receive_slow_half(rest, source, limit);
        code_of(ipc::deliver_plain(member, place, received))
    })
}

#[inline(always)]
pub(crate) fn reply(to: Address, message: ReadPtr<Message>) -> c_int {
    let door = move |member: &mut CallingMember| {
        let answer = message.read_in(member.sent_page)?;
        if !member.endpoint.reply_fast_half(to, &answer) {
            return None;
        }
        member.answered(to);
        Some(0)
    };
    open(door).unwrap_or_else(|| reply_slow(to, message))
}

#[cold]
fn reply_slow(to: Address, message: ReadPtr<Message>) -> c_int {
    call(|| ipc::reply(to, message, ReadBytes::NONE))
}

#[inline(always)]
pub(crate) fn reply_receive(
    to: Address,
    message: WritePtr<Message>,
    answered: WritePtr<c_int>,
    limit: Timeout,
) -> c_int {
    let door = move |member: &mut CallingMember| {
        let place = message.checked_in(member.message_page)?;
        let tell = answered.checked_in(member.message_page);
        if tell.is_none() && !answered.is_null() {
            return None;
        }
        if !member.endpoint.reply_fast_half(to, &place.read()) {
            return None;
        }
        // Both before the receive, so that it need not keep their values.
        member.answered(to);
        if let Some(tell) = tell {
            tell.write(1);
        }
        let any = Source::Any;
        match member.endpoint.receive_fast_half(any, limit, |next| deliver(place, next)) {
            Ok(source) => member.received(source),
            Err(rest) => return Some(end_receive(member, rest, place, (any, limit))),
        }
        Some(0)
    };
    open(door).unwrap_or_else(|| reply_receive_slow(to, message, answered, limit))
}

#[cold]
fn reply_receive_slow(
    to: Address,
    message: WritePtr<Message>,
    answered: WritePtr<c_int>,
    limit: Timeout,
) -> c_int {
    call(|| ipc::tell_and_reply_receive(to, message, answered, limit))
}
