//! The table of causes: one row is the documentation and the message of a variant.
//!
//! Every enum of [`super::peer`] takes its rows from here, so one cause has one text everywhere.
//! `{}` is the peer.

use m3ipc_abi::{Address, Code};

/// The documentation of a variant.
macro_rules! cause_doc {
    (Died) => {
        "The peer died, or had died before the call. It took nothing."
    };
    (DiedBefore) => {
        "The server died before it took the request. A repetition is safe."
    };
    (DiedAfter) => {
        "The server died after it took the request and before it answered."
    };
    (Moved) => {
        "The peer moves to another node, and took nothing. A repetition is safe."
    };
    (Nobody) => {
        "No endpoint was bound at that address when the call began."
    };
    (Stale) => {
        "The address belongs to an earlier generation of its slot, or to the caller itself."
    };
    (NoSuchSlot) => {
        "The VM has no such slot."
    };
    (WouldBlock) => {
        "The peer is not ready, and the caller asked for [`Timeout::NoWait`](crate::Timeout)."
    };
    (TimedOut) => {
        "The time limit passed. An outgoing message was withdrawn: the peer never gets it."
    };
    (TimedOutAfter) => {
        "The time limit passed after the server had taken the request. Its answer is not awaited."
    };
    (Interrupted) => {
        "A signal handler ran during the wait. An outgoing message was withdrawn."
    };
    (InterruptedAfter) => {
        "A signal handler ran after the server had taken the request. Its answer is not awaited."
    };
    (Unreachable) => {
        "The node of the peer cannot be reached. The peer took nothing."
    };
    (AnswerLost) => {
        "The peer took the request. Its answer is lost with its node, or for want of room here."
    };
    (Unknown) => {
        "Nobody knows whether the peer has taken the message: its node is lost or silent."
    };
    (Woken) => {
        "Another process ended the wait by `wakeup`."
    };
    (NotQueued) => {
        "The pulse was not taken: as many as the queue holds wait there, or the peer has not \
         returned to a new node daemon yet."
    };
    (Deadlock) => {
        "The peer waits for the caller, directly or through other endpoints."
    };
    (PartnerDenied) => {
        "The privileges of the caller or of the peer exclude this peer."
    };
    (Denied) => {
        "The mode of the VM, or the privileges of the caller, exclude this endpoint or slot."
    };
    (VerbDenied) => {
        "The privileges of the caller exclude this call."
    };
    (PeerBroke) => {
        "The peer broke the rules of the link. The link stays closed."
    };
    (NotWaiting) => {
        "The peer does not wait for an answer of the caller, or does so no longer."
    };
    (NotBlocked) => {
        "The party is neither in receive nor in sendrec, so its memory is its own."
    };
    (Busy) => {
        "The party takes part in another copy."
    };
    (RequestPending) => {
        "A request of the caller to this peer is pending, and nothing else was sent to it."
    };
    (SourceDied) => {
        "The source of the copy died, or had died."
    };
    (DestinationDied) => {
        "The destination of the copy died, or had died."
    };
    (OutOfRange) => {
        "The VM has no such slot, or the grant is shorter than the copy."
    };
    (BadAddress) => {
        "No memory lies at one of the addresses, or its protection forbids the access."
    };
    (NotGranted) => {
        "The party neither leased nor granted this memory to the caller."
    };
    (Taken) => {
        "Another endpoint has the slot, or this process or thread is bound already."
    };
    (ProcessUnbound) => {
        "The process of the thread has no endpoint in this VM."
    };
    (NotBound) => {
        "No process is bound at this address."
    };
    (WasRunning) => {
        "The endpoint was running. Its next receive from ANY ends with the wakeup."
    };
    (WasBusy) => {
        "The endpoint was in another call. Its next receive from ANY ends with the wakeup."
    };
}

/// The text of a cause, in which `ANY` and `NONE` are no endpoints.
pub(super) fn readable(text: &str) -> String {
    text.replace("endpoint ANY is not ready", "no endpoint is ready")
        .replace("endpoint ANY", "any endpoint")
        .replace("endpoint NONE", "the awaited endpoint")
}

/// The text of a code without a variant, if the failure carries no details: the peer is on a node
/// that was lost, as far as this side knows.
pub(super) fn lost_text(code: Code, peer: Address) -> Option<String> {
    let (what, why) = match code {
        Code::NotConn => {
            (format!("endpoint {peer} took nothing"), "its node cannot be reached any more")
        }
        Code::AnswerLost => (
            format!("endpoint {peer} took the request, and no answer comes"),
            "its node was lost, or the answer could not be accepted here",
        ),
        Code::Unknown => (
            format!("nobody knows whether endpoint {peer} took the message"),
            "its node, or a proxy on the way, was lost or is silent",
        ),
        _ => return None,
    };
    let next = match code {
        Code::NotConn => "see why with `m3 node ls`",
        _ => "see the nodes with `m3 node ls`, and check the effect before you repeat the call",
    };
    Some(readable(&format!("{what}: {why}; {next}")))
}

/// The text of a caller without an endpoint.
pub(super) fn unbound_text(code: Code) -> String {
    match code {
        Code::VmNotRun => format!("{code}; `m3 vm ls` shows the VMs of the node"),
        _ => format!(
            "the caller's endpoint is gone, or belongs to the parent of this child by fork \
             ({code}); bind again"
        ),
    }
}

/// The message of a variant: what happened, why, and what to do next.
macro_rules! cause_text {
    (Died) => {
        "endpoint {} died and took nothing; look its name up again"
    };
    (DiedBefore) => {
        "endpoint {} died before it took the request; look its name up again and repeat the request"
    };
    (DiedAfter) => {
        "endpoint {} died after it took the request; check its effect before you repeat it"
    };
    (Moved) => {
        "endpoint {} moves to another node and took nothing; call it again"
    };
    (Nobody) => {
        "no endpoint is bound at {}; look the name up again"
    };
    (Stale) => {
        "{} is the address of an earlier endpoint, or of the caller; look the name up again"
    };
    (NoSuchSlot) => {
        "the VM has no slot for {}; `m3 vm info` shows its slots"
    };
    (WouldBlock) => {
        "endpoint {} is not ready and the call may not wait; give the call a time limit"
    };
    (TimedOut) => {
        "the time limit passed during the wait for endpoint {}; repeat the call or raise the limit"
    };
    (Interrupted) => {
        "a signal handler ran during the wait for endpoint {}; repeat the call"
    };
    (TimedOutAfter) => {
        "the time limit passed after endpoint {} took the request; check its effect before you \
         repeat it, or raise the limit"
    };
    (InterruptedAfter) => {
        "a signal handler ran after endpoint {} took the request; check its effect before you \
         repeat it"
    };
    (Woken) => {
        "a wakeup ended the wait for endpoint {}; receive again"
    };
    (NotQueued) => {
        "the queue of pulses for endpoint {} is full, and this pulse was not taken; send it again \
         after a receive of that endpoint"
    };
    (Deadlock) => {
        "endpoint {} waits for the caller, directly or through others; receive its message first"
    };
    (PartnerDenied) => {
        "privileges exclude messages to or from endpoint {}; ask the VM's owner"
    };
    (Denied) => {
        "endpoint or slot {} is not allowed to the caller; see `m3 vm info`, or ask the VM's owner"
    };
    (VerbDenied) => {
        "the privileges of the caller exclude this call (endpoint {}); ask the VM's owner"
    };
    (PeerBroke) => {
        "endpoint {} broke the rules of the link, which stays closed; end that process"
    };
    (NotWaiting) => {
        "endpoint {} does not wait for an answer from here: its call ended, or it asked nothing; \
         drop the answer"
    };
    (NotBlocked) => {
        "endpoint {} is neither in receive nor in sendrec; copy while it waits"
    };
    (Busy) => {
        "endpoint {} takes part in another copy; repeat the copy"
    };
    (RequestPending) => {
        "a request to endpoint {} is pending; finish it with poll_request, or drop it"
    };
    (SourceDied) => {
        "endpoint {}, the source, died; look its name up again"
    };
    (DestinationDied) => {
        "endpoint {}, the destination, died; look its name up again"
    };
    (OutOfRange) => {
        "the VM has no slot for {}, or its grant is shorter than the copy; check both"
    };
    (BadAddress) => {
        "no accessible memory at an address of the copy with endpoint {}; check address and length"
    };
    (NotGranted) => {
        "endpoint {} neither leased nor granted that memory to the caller; let it grant the range"
    };
    (Taken) => {
        "slot {} is taken, or the caller is bound already; choose a free slot"
    };
    (ProcessUnbound) => {
        "the process has no endpoint in this VM (slot {}); bind the process first"
    };
    (NotBound) => {
        "no process is bound at {}; wait for it with wait_bind"
    };
    (WasRunning) => {
        "endpoint {} was running; its next receive from ANY ends with the wakeup"
    };
    (WasBusy) => {
        "endpoint {} was in another call; its next receive from ANY ends with the wakeup"
    };
}

pub(super) use {cause_doc, cause_text};
