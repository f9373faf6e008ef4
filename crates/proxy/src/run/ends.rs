//! Messages of remote endpoints, and how they have ended on this node.

use super::network::Clock;
use m3ipc::nodes::{COPIED_MAX_BYTES, PostedEnd};
use m3ipc::{Address, Code, Message};
use m3ipc_fabric::{
    AnswerKind, CallKind, Content, DeliveryId, EndpointId, Failure, Machine, PIECED_MAX_BYTES,
};

const _: () = assert!(COPIED_MAX_BYTES == PIECED_MAX_BYTES);

/// A message of a remote endpoint for the local side.
pub struct Parcel {
    /// The number by which the machine knows it.
    pub number: DeliveryId,
    /// The remote sender.
    pub from: EndpointId,
    /// The receiver.
    pub to: Address,
    /// Its kind.
    pub kind: CallKind,
    /// The message.
    pub content: Content,
}

/// Reports the end of a delivery.
pub fn report(machine: &mut Machine, clock: &Clock, number: DeliveryId, end: PostedEnd) {
    let now_ns = clock.now_ns();
    match end {
        PostedEnd::Taken => machine.taken(now_ns, number),
        PostedEnd::Relayed(message, words) => {
            machine.taken(now_ns, number);
            let Message { m_type, payload, .. } = message;
            let content = Content { m_type, payload, long: words, is_block: false };
            let _ = machine.answer(now_ns, number, AnswerKind::Relay, &content);
        }
        PostedEnd::Answered(message, long) => {
            answer(machine, now_ns, number, (message, long, false))
        }
        PostedEnd::AnsweredByBlock(message, long) => {
            answer(machine, now_ns, number, (message, long, true));
        }
        // Its block could not be had.
        PostedEnd::Failed(Code::AnswerLost) => {
            machine.taken(now_ns, number);
            machine.unanswered(now_ns, number, Failure::TooLong);
        }
        // The end of the receiver follows, and ends the call.
        PostedEnd::Failed(Code::SrcDied) => machine.taken(now_ns, number),
        PostedEnd::Failed(code) => {
            machine.refused(now_ns, number, failure_of(code));
            // It was taken before.
            machine.unanswered(now_ns, number, failure_of(code));
        }
    }
}

fn answer(
    machine: &mut Machine,
    now_ns: u64,
    number: DeliveryId,
    (message, long, is_block): (Message, Vec<u8>, bool),
) {
    machine.taken(now_ns, number);
    if long.len() > PIECED_MAX_BYTES {
        return machine.unanswered(now_ns, number, Failure::TooLong);
    }
    let Message { m_type, payload, .. } = message;
    let content = Content { m_type, payload, long, is_block };
    // The requester may have given up meanwhile.
    let _ = machine.answer(now_ns, number, AnswerKind::Reply, &content);
}

/// What a code of the own node means for the caller on the other one.
pub fn failure_of(code: Code) -> Failure {
    match code {
        Code::DstDied | Code::DeadSrcDst | Code::SrcDied => Failure::Died,
        Code::Endpoint | Code::Range => Failure::NoEndpoint,
        Code::CallDenied | Code::TrapDenied => Failure::Denied,
        Code::Locked => Failure::Locked,
        Code::Migrate => Failure::Moved,
        Code::PeerBroke => Failure::Broke,
        Code::MsgSize => Failure::TooLong,
        Code::NoMem | Code::AllocMem | Code::Again | Code::NoPayload => Failure::Overload,
        // The daemon here has gone, is silent, or has ended the VM or the stand-in of the sender:
        // this node cannot be reached.
        Code::NotConn
        | Code::DrvsInit
        | Code::VmNotRun
        | Code::Shutdown
        | Code::TimedOut
        | Code::NotBind => Failure::LinkDown,
        _ => Failure::State,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_above_the_limit_of_its_receiver_is_73_on_both_nodes() {
        assert_eq!(failure_of(Code::MsgSize).code_before(), Code::MsgSize);
    }

    #[test]
    fn a_daemon_that_has_gone_is_no_state_of_the_receiver() {
        for code in [Code::NotConn, Code::DrvsInit, Code::TimedOut, Code::NotBind] {
            assert_eq!(failure_of(code).code_before(), Code::NotConn, "{code:?}");
        }
        // Codes that mean the same on both nodes.
        for code in [Code::DstDied, Code::Endpoint, Code::CallDenied, Code::Locked, Code::Migrate] {
            assert_eq!(failure_of(code).code_before(), code);
        }
    }
}
