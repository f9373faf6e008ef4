//! Messages: send, receive, sendrec, rcvrqst, reply, relay, notify, wakeup.
//!
//! The checks follow the order of the contract: the caller first ([`current::with`]), then its
//! memory, then the partner, in [`m3ipc`].

use crate::failure::{CallFailure, CallResult};
use crate::member::CallingMember;
use crate::memory::{CheckedPtr, ReadBytes, ReadPtr, WritePtr};
use crate::payload::{self, Delivery};
use crate::{current, node};
use core::ffi::c_int;
use m3ipc::{
    ANY, Address, Code, Delivered, HARDWARE, Message, ReceiveError, Received, SendRecError, Source,
    Timeout,
};

#[inline]
pub(crate) fn send(
    to: Address,
    message: ReadPtr<Message>,
    bytes: ReadBytes,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        let message = message.read_anew(&mut member.sent_page)?;
        payload::with_copy(bytes, |bytes| {
            Ok(member.endpoint.send_long(to, &message, bytes, limit)?)
        })?;
        member.answered(to);
        Ok(0)
    })
}

#[inline]
pub(crate) fn receive(from: Address, into: Delivery, limit: Timeout) -> CallResult {
    current::with(|member| {
        into.deliver(|buffer| {
            let taken = member.endpoint.receive_to(from.into(), buffer, limit)?;
            Ok(delivered(member, taken))
        })
    })
}

/// A taken message and the full length of its long part, which may be longer than the buffer.
#[inline]
pub(crate) fn delivered(member: &mut CallingMember, taken: Received) -> (Message, usize) {
    member.received(taken.message.source);
    (taken.message, taken.bytes)
}

#[inline]
pub(crate) fn sendrec(
    to: Address,
    message: WritePtr<Message>,
    bytes: ReadBytes,
    into: Delivery,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        let message = message.read()?;
        payload::with_copy(bytes, |bytes| {
            into.deliver(|buffer| {
                let answer = member.endpoint.request(to, &message, bytes, buffer, limit)?;
                // The request was itself the answer to a request of `to`, if there was one.
                member.answered(to);
                Ok(answer)
            })
        })
    })
}

#[inline]
pub(crate) fn receive_request(into: Delivery, limit: Timeout) -> CallResult {
    current::with(|member| {
        into.deliver(|buffer| {
            let taken = member.endpoint.rcvrqst_to(buffer, limit)?;
            Ok(delivered(member, taken))
        })
    })
}

#[inline]
pub(crate) fn reply(to: Address, message: ReadPtr<Message>, bytes: ReadBytes) -> CallResult {
    current::with(|member| {
        let message = message.read_anew(&mut member.sent_page)?;
        payload::with_copy(bytes, |bytes| {
            Ok(member.endpoint.reply_long(to, &message, bytes).and_then(Delivered::into_result)?)
        })?;
        member.answered(to);
        Ok(0)
    })
}

/// Tells C whether a client has its answer.
pub(crate) fn tell_answered(answered: WritePtr<c_int>, is_answered: bool) -> CallResult<()> {
    if answered.is_null() { Ok(()) } else { answered.write(c_int::from(is_answered)) }
}

/// Answers, then receives from ANY. Tells C by `answered` which half failed.
pub(crate) fn tell_and_reply_receive(
    to: Address,
    message: WritePtr<Message>,
    answered: WritePtr<c_int>,
    limit: Timeout,
) -> CallResult {
    // Before any check that may fail.
    tell_answered(answered, false)?;
    reply_receive(to, message, answered, limit)
}

fn reply_receive(
    to: Address,
    message: WritePtr<Message>,
    answered: WritePtr<c_int>,
    limit: Timeout,
) -> CallResult {
    let mut is_answered = false;
    let result = current::with(|member| {
        // Check first: a message that is taken and cannot be delivered would be lost.
        let place = message.checked_anew(&mut member.message_page)?;
        if !answered.is_null() {
            answered.check()?;
        }
        member.endpoint.reply(to, &place.read()).and_then(Delivered::into_result)?;
        is_answered = true;
        member.answered(to);
        let received = member.endpoint.receive_timeout(Source::Any, limit);
        deliver_plain(member, place, received)
    });
    // A bad address has the code of `result`.
    let _ = tell_answered(answered, is_answered);
    result
}

/// The same with long parts.
pub(crate) fn tell_and_reply_receive_long(
    to: Address,
    bytes: ReadBytes,
    into: Delivery,
    answered: WritePtr<c_int>,
    limit: Timeout,
) -> CallResult {
    // Before any check that may fail.
    tell_answered(answered, false)?;
    let mut is_answered = false;
    let result = current::with(|member| {
        let message = into.message.read()?;
        payload::with_copy(bytes, |bytes| {
            into.deliver(|buffer| {
                member.endpoint.reply_long(to, &message, bytes).and_then(Delivered::into_result)?;
                is_answered = true;
                member.answered(to);
                let received = member.endpoint.receive_to(Source::Any, buffer, limit)?;
                Ok(delivered(member, received))
            })
        })
    });
    // A bad address has the code of `result`.
    let _ = tell_answered(answered, is_answered);
    result
}

/// Receives a message without its long part.
#[inline]
pub(crate) fn receive_plain(
    from: Address,
    message: WritePtr<Message>,
    limit: Timeout,
) -> CallResult {
    current::with(|member| {
        // Check first: a message that is taken and cannot be delivered would be lost.
        let place = message.checked_anew(&mut member.message_page)?;
        let received = member.endpoint.receive_timeout(from, limit);
        deliver_plain(member, place, received)
    })
}

/// Delivers a received message. Its long part, if it has one, is dropped.
#[inline]
pub(crate) fn deliver_plain(
    member: &mut CallingMember,
    place: CheckedPtr<Message>,
    received: Result<Message, ReceiveError>,
) -> CallResult {
    let (message, code) = match received {
        Ok(message) => (message, Ok(0)),
        Err(ReceiveError::BufferTooSmall { message, needed_bytes, .. }) => {
            (*message, Err(CallFailure::cut(message.source, needed_bytes, 0)))
        }
        Err(error) => return Err(error.into()),
    };
    member.received(message.source);
    place.write(message);
    code
}

/// Sends a request and receives its answer, both without a long part.
#[inline]
pub(crate) fn sendrec_plain(to: Address, message: WritePtr<Message>, limit: Timeout) -> CallResult {
    current::with(|member| {
        let place = message.checked_anew(&mut member.message_page)?;
        let answered = member.endpoint.sendrec_timeout(to, &place.read(), limit);
        deliver_answer(member, to, place, answered)
    })
}

/// Delivers an answer of `to`. Its long part, if it has one, is dropped.
///
/// The request was itself the answer to a request of `to`, if there was one. Where no answer came,
/// that request may still be open, and a relay asks the endpoint for it.
pub(crate) fn deliver_answer(
    member: &mut CallingMember,
    to: Address,
    place: CheckedPtr<Message>,
    answered: Result<Message, SendRecError>,
) -> CallResult {
    let (answer, result) = match answered {
        Ok(answer) => (answer, Ok(0)),
        Err(SendRecError::BufferTooSmall { message, needed_bytes, .. }) => {
            (*message, Err(CallFailure::cut(message.source, needed_bytes, 0)))
        }
        Err(error) => return Err(error.into()),
    };
    member.answered(to);
    place.write(answer);
    result
}

pub(crate) fn relay(to: Address, message: ReadPtr<Message>, limit: Timeout) -> CallResult {
    current::with(|member| {
        let message = message.read()?;
        let client = member.unanswered().ok_or_else(|| {
            let text = format!("the caller holds no request to relay to endpoint {to}");
            CallFailure::said(Code::ProcSts, text)
        })?;
        if limit == Timeout::NoWait && !receives_from(member, client, to) {
            let text = format!("endpoint {to} does not receive now, and the call may not wait");
            return Err(CallFailure::said(Code::Again, text));
        }
        member.endpoint.relay_message(client, to, &message)?;
        member.answered(client);
        Ok(0)
    })
}

/// False if `to` is bound and the node sees that it does not receive from `client`.
fn receives_from(member: &CallingMember, client: Address, to: Address) -> bool {
    let vm = member.endpoint.vm();
    let state =
        node::find().and_then(|mut node| node.endpoint(vm, to.slot()).map_err(CallFailure::from));
    match state {
        Ok(Some(state)) if state.address == to.0 => {
            state.wait.state.receives() && [ANY.0, client.0].contains(&state.wait.peer)
        }
        // The relay itself reports any other fault.
        _ => true,
    }
}

pub(crate) fn notify(to: Address) -> CallResult {
    current::with(|member| {
        member.endpoint.notify(to)?;
        Ok(0)
    })
}

/// Notifies in the name of the caller's slot, or of a task.
pub(crate) fn notify_as(slot: i32, to: Address) -> CallResult {
    current::with(|member| {
        if slot == member.endpoint.address().slot() {
            member.endpoint.notify(to)?;
        } else if slot < 0 {
            member.endpoint.notify_for(Address(slot), to)?;
        } else {
            return Err(not_own(slot));
        }
        Ok(0)
    })
}

#[cold]
fn not_own(slot: c_int) -> CallFailure {
    let text = format!("slot {slot} is neither the caller's nor that of a task (below 0)");
    CallFailure::said(Code::Privileges, text)
}

/// Notifies as [`notify_as`] does, with an argument.
pub(crate) fn notify_with(slot: i32, to: Address, argument: u64) -> CallResult {
    current::with(|member| {
        let own = member.endpoint.address();
        let source = match slot {
            slot if slot == own.slot() => own,
            task if task < 0 => Address(task),
            _ => return Err(not_own(slot)),
        };
        member.endpoint.notify_for_with(source, to, argument)?;
        Ok(0)
    })
}

/// Notifies an endpoint of any VM as the hardware.
pub(crate) fn notify_as_hardware(vmid: i32, to: Address) -> CallResult {
    node::find()?.notify_for(vmid, HARDWARE, to, 0)?;
    Ok(0)
}

pub(crate) fn wake(vmid: i32, address: Address) -> CallResult {
    let woken = node::find()?.wakeup(vmid, address);
    woken.map(|()| 0).map_err(|error| CallFailure::from(error).of_other())
}
