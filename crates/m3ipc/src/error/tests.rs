use super::*;
use m3ipc_abi::{Address, Code, Message};
use m3ipc_link::ends::Delivery;

const TO: Address = Address(5);

#[test]
fn every_code_becomes_the_variant_that_gives_it_back() {
    for code in Code::ALL.iter().copied() {
        for found in [
            SendError::of(code.into(), Address(5)).code(),
            ReceiveError::of(code.into(), Address(5)).code(),
            SendRecError::of(code.into(), Address(5)).code(),
            ReplyError::of(code.into(), Address(5)).code(),
            NotifyError::of(code.into(), Address(5)).code(),
            PulseError::of(code.into(), Address(5)).code(),
            CopyError::of(code.into(), Address(5)).code(),
            BindError::of(code.into(), Address(5)).code(),
            WaitError::of(code.into(), Address(5)).code(),
            WakeupError::of(code.into(), Address(5)).code(),
            UnbindError::of(code.into(), Address(5)).code(),
            NodeError::from(Fail::from(code)).code(),
            NameError::from(Fail::from(code)).code(),
            AreaError::from(Fail::from(code)).code(),
        ] {
            assert_eq!(found, code);
        }
    }
}

#[test]
fn causes_are_kept_apart() {
    let to = Address(5);
    assert_eq!(SendRecError::of(Code::DstDied.into(), to), SendRecError::DiedBefore(to));
    assert_eq!(SendRecError::of(Code::SrcDied.into(), to), SendRecError::DiedAfter(to));
    assert_eq!(SendRecError::of(Code::Migrate.into(), to), SendRecError::Moved(to));
    assert_eq!(SendError::of(Code::NotBind.into(), to), SendError::Unbound(Code::NotBind));
    let full = AreaError::from(Fail::new(Code::AllocMem, "no range of 5 bytes is left"));
    assert!(matches!(full, AreaError::Full(_)));
    assert_eq!(full.why(), "no range of 5 bytes is left");
}

#[test]
fn a_failure_after_the_take_keeps_a_code_that_tells_of_it() {
    let taken = |code: Code| SendRecError::of(Fail::from(code).ended(code, Delivery::Taken), TO);
    assert_eq!(taken(Code::TimedOut), SendRecError::TimedOutAfter(TO));
    assert_eq!(taken(Code::PeerBroke), SendRecError::PeerBroke(TO));
    assert_eq!(taken(Code::Unknown).delivery(), Delivery::Unknown);
    let lost = taken(Code::NoMem);
    assert_eq!((lost.code(), lost.delivery()), (Code::AnswerLost, Delivery::Taken));
}

#[test]
fn a_lost_node_is_named_as_the_reason() {
    for (code, said) in [
        (Code::NotConn, "took nothing"),
        (Code::AnswerLost, "took the request"),
        (Code::Unknown, "nobody knows"),
    ] {
        let text = SendRecError::of(code.into(), Address(5)).to_string();
        assert!(text.contains(said) && text.contains("endpoint 5"), "{text}");
        assert!(text.contains("m3 node ls") && text.contains(&code.number().to_string()), "{text}");
        let detailed = SendRecError::of(Fail::new(code, "a detail"), Address(5)).to_string();
        assert!(detailed.starts_with("a detail"), "{detailed}");
    }
}

#[test]
fn a_message_names_the_numbers_and_the_next_step() {
    let text = SendError::too_long(2_000_000_000).to_string();
    assert!(text.contains("2000000000") && text.contains("block"), "{text}");
    let message = Message { source: Address(7), ..Message::new(1) };
    let text = ReceiveError::too_small(message, 500, 64, false).to_string();
    assert!(text.contains("500") && text.contains("64") && text.contains('7'), "{text}");
}
