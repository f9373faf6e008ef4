//! Rules of what travels in pieces: long payloads and copies.

use super::incoming::ANSWERS_STALL_NS;
use super::tests::{FIRST, HEAD, MS, PEER, actions, greet, hello, machine};
use super::*;
use crate::packet::{
    CallEnd, CallKind, CopyOrder, Hello, MessageHead, SessionPair, StreamKind, encode,
};
use crate::settings::{LONG_MAX_BYTES, PIECE_MAX_BYTES};
use crate::{AnswerKind, Content, PIECED_MAX_BYTES};
use m3ipc_abi::Code;

const SESSION: SessionPair = SessionPair { to: 1, from: 1 };
const FROM: i32 = Address::new(1, 103).0;
const READ: CopyOrder = CopyOrder { is_write: false, space: 0, place: 7, bytes: 2 << 20 };
const WRITE: CopyOrder = CopyOrder { is_write: true, ..READ };

fn up() -> Machine {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    let bound = Frame::Bound { vm: 1, endpoint: FROM, moves: 0, after: None };
    machine.received(3 * MS, PEER, FIRST, data(Lane::Message, 0, bound, &[]));
    actions(&mut machine);
    frames(&mut machine);
    machine
}

fn data(lane: Lane, sequence: u64, frame: Frame, body: &[u8]) -> Vec<u8> {
    encode(&Packet::Data { session: SESSION, lane, sequence, expected: [0, 0], frame }, body)
}

fn bulk(machine: &mut Machine, sequence: u64, frame: Frame, body: &[u8]) {
    machine.received(4 * MS, PEER, FIRST, data(Lane::Bulk, sequence, frame, body));
}

fn long_call(call: u64, pieced: u32) -> Frame {
    let (call, kind) = (CallId(call), CallKind::Send);
    Frame::Call { call, vm: 1, from: FROM, to: 3, kind, head: HEAD, pieced }
}

/// A frame after that of [`up`].
fn send_frame(machine: &mut Machine, number: u64, frame: Frame, body: &[u8]) {
    super::tests::send_frame(machine, number + 1, frame, body);
}

fn copy(call: u64, order: CopyOrder) -> Frame {
    Frame::Copy { call: CallId(call), vm: 1, from: FROM, to: 3, order }
}

fn frames(machine: &mut Machine) -> Vec<Frame> {
    let mut frames = Vec::new();
    for lane in Lane::ALL {
        while let Some(transmit) = machine.poll_transmit(5 * MS, PEER, lane) {
            if let Ok((Packet::Data { frame, .. }, _)) = decode(&transmit.into_packet()) {
                frames.push(frame);
            }
        }
    }
    frames
}

#[test]
fn bodies_and_lanes_are_checked() {
    let piece = || Frame::Piece { call: CallId(1), stream: StreamKind::Call };
    let of_copy = || Frame::CopyPiece { call: CallId(1), of_receiver: true };
    let more = || Frame::CopyMore { call: CallId(1), of_receiver: true, admitted: 1 };
    let end = || Frame::CopyEnd { call: CallId(1), code: -1, bytes: 1 };
    let bytes = vec![1; PIECE_MAX_BYTES + 1];
    for (lane, frame, body, is_packet) in [
        (Lane::Bulk, piece(), 0, false),
        (Lane::Bulk, piece(), 1, true),
        (Lane::Bulk, piece(), PIECE_MAX_BYTES, true),
        (Lane::Bulk, piece(), PIECE_MAX_BYTES + 1, false),
        (Lane::Message, piece(), 1, false),
        (Lane::Bulk, of_copy(), 0, false),
        (Lane::Bulk, of_copy(), 1, true),
        (Lane::Message, of_copy(), 1, false),
        (Lane::Message, more(), 0, true),
        (Lane::Message, more(), 1, false),
        (Lane::Bulk, more(), 0, false),
        (Lane::Message, end(), 0, true),
        (Lane::Message, copy(1, READ), 0, true),
        (Lane::Message, copy(1, READ), 1, false),
        (Lane::Message, long_call(1, 9), 40, true),
        (Lane::Message, long_call(1, 9), 41, false),
        (Lane::Message, Frame::Fetch { call: CallId(1), stream: StreamKind::Answer }, 0, true),
    ] {
        let packet = data(lane, 0, frame.clone(), &bytes[..body]);
        assert_eq!(decode(&packet).is_ok(), is_packet, "{frame:?} in {lane:?}, {body} bytes");
    }
}

#[test]
fn a_long_message_is_fetched_and_offered_whole() {
    let mut machine = up();
    send_frame(&mut machine, 0, long_call(1, 5), &[0; 40]);
    assert!(actions(&mut machine).is_empty());
    let fetch = Frame::Fetch { call: CallId(1), stream: StreamKind::Call };
    assert_eq!(frames(&mut machine), [fetch]);
    let piece = Frame::Piece { call: CallId(1), stream: StreamKind::Call };
    bulk(&mut machine, 0, piece.clone(), &[1, 2, 3]);
    assert!(actions(&mut machine).is_empty());
    bulk(&mut machine, 1, piece, &[4, 5]);
    let offered = actions(&mut machine);
    let whole = |action: &Action| match action {
        Action::Deliver { content, .. } => content.long == [1, 2, 3, 4, 5],
        _ => false,
    };
    assert!(offered.iter().any(whole), "{offered:?}");
}

#[test]
fn wrong_pieces_end_the_session() {
    let most = u32::try_from(PIECED_MAX_BYTES).expect("small");
    let mut machine = up();
    send_frame(&mut machine, 0, long_call(1, most + 1), &[0; 40]);
    assert!(!machine.is_reachable(PEER), "too long");

    let mut machine = up();
    send_frame(&mut machine, 0, long_call(1, 5), &[0; 40]);
    frames(&mut machine);
    let piece = Frame::Piece { call: CallId(1), stream: StreamKind::Call };
    bulk(&mut machine, 0, piece.clone(), &[1; 6]);
    assert!(!machine.is_reachable(PEER), "more than announced");

    // The first one is alone with its length; the second waits, and its pieces come unasked.
    let mut machine = up();
    send_frame(&mut machine, 0, long_call(1, most), &[0; 40]);
    send_frame(&mut machine, 1, long_call(2, most), &[0; 40]);
    assert_eq!(frames(&mut machine).len(), 1);
    let second = Frame::Piece { call: CallId(2), stream: StreamKind::Call };
    bulk(&mut machine, 0, second, &[1]);
    assert!(!machine.is_reachable(PEER), "unasked");
}

#[test]
fn a_node_copies_for_its_own_endpoints_and_within_the_window() {
    let mut machine = up();
    send_frame(&mut machine, 0, copy(1, WRITE), &[]);
    let begun = actions(&mut machine);
    assert!(matches!(begun[..], [Action::CopyBegin { .. }]), "{begun:?}");
    let piece = Frame::CopyPiece { call: CallId(1), of_receiver: false };
    let window = Settings::default().copy_window_bytes;
    let full = vec![1; PIECE_MAX_BYTES];
    let fit = window / full.len() as u64;
    for sequence in 0..fit {
        bulk(&mut machine, sequence, piece.clone(), &full);
    }
    assert!(machine.is_reachable(PEER));
    bulk(&mut machine, fit, piece, &full);
    assert!(!machine.is_reachable(PEER), "beyond the window");

    for (frame, why) in [
        (
            Frame::Copy { call: CallId(1), vm: 1, from: 7, to: 3, order: READ },
            "a foreign requester",
        ),
        (copy(1, CopyOrder { bytes: 0, ..READ }), "an empty copy"),
    ] {
        let mut machine = up();
        send_frame(&mut machine, 0, frame, &[]);
        assert!(!machine.is_reachable(PEER), "{why}");
    }
    let mut machine = up();
    send_frame(&mut machine, 0, copy(1, READ), &[]);
    let piece = Frame::CopyPiece { call: CallId(1), of_receiver: false };
    bulk(&mut machine, 0, piece, &[1]);
    assert!(!machine.is_reachable(PEER), "bytes for a read");
}

#[test]
fn a_receiver_admits_a_window_more_than_it_can_have_taken() {
    let window = Settings::default().copy_window_bytes;
    let more = |admitted| Frame::CopyMore { call: CallId(1), of_receiver: false, admitted };
    // A read of the peer: bytes that were given and have not left count for nothing.
    let reading = || {
        let mut machine = up();
        send_frame(&mut machine, 0, copy(1, READ), &[]);
        let id = CopyId::Of(PEER, CallId(1));
        assert_eq!(machine.copy_room(id) as u64, window);
        machine.copy_give(4 * MS, id, vec![1; PIECE_MAX_BYTES].into());
        (machine, id)
    };
    let (mut machine, _) = reading();
    send_frame(&mut machine, 1, more(window + 1), &[]);
    assert!(!machine.is_reachable(PEER), "nothing has left");
    let (mut machine, id) = reading();
    assert!(machine.poll_transmit(5 * MS, PEER, Lane::Bulk).is_some());
    send_frame(&mut machine, 1, more(window + PIECE_MAX_BYTES as u64), &[]);
    assert!(machine.is_reachable(PEER));
    assert_eq!(machine.copy_room(id) as u64, window);
    send_frame(&mut machine, 2, more(READ.bytes), &[]);
    assert!(!machine.is_reachable(PEER), "more than has left");
}

#[test]
fn a_requester_that_was_not_announced_copies_nothing() {
    let mut machine = machine();
    greet(&mut machine, FIRST, hello(1));
    actions(&mut machine);
    frames(&mut machine);
    super::tests::send_frame(&mut machine, 0, copy(1, READ), &[]);
    let (call, code) = (CallId(1), Code::Endpoint.number());
    assert_eq!(actions(&mut machine), []);
    assert!(frames(&mut machine).contains(&Frame::CopyEnd { call, code, bytes: 0 }));
    assert!(machine.is_reachable(PEER) && machine.copies.is_empty());
}

#[test]
fn a_copy_ends_with_a_code_of_the_contract() {
    let requester = EndpointId::of(1, 3);
    for (code, bytes, is_believed) in
        [(-1, 0, true), (-71, 9, true), (7, 0, false), (-1, READ.bytes + 1, false), (0, 1, false)]
    {
        let mut machine = up();
        let copy = machine.copy(4 * MS, requester, Address::new(1, 103), READ).expect("reachable");
        let call = CallId(1);
        frames(&mut machine);
        send_frame(&mut machine, 0, Frame::CopyEnd { call, code, bytes }, &[]);
        let ended = Action::CopyEnded { copy, code, bytes };
        assert_eq!(actions(&mut machine).contains(&ended), is_believed, "{code} {bytes}");
        assert_eq!(machine.is_reachable(PEER), is_believed, "{code} {bytes}");
    }
    // A read whose bytes have not come is not done.
    let mut machine = up();
    machine.copy(4 * MS, requester, Address::new(1, 103), READ).expect("reachable");
    frames(&mut machine);
    let (call, bytes) = (CallId(1), READ.bytes);
    send_frame(&mut machine, 0, Frame::CopyEnd { call, code: 0, bytes }, &[]);
    assert!(machine.is_reachable(PEER) && actions(&mut machine).is_empty());
    assert!(!machine.is_idle());
}

#[test]
fn a_long_message_that_has_not_left_is_not_delivered() {
    let mut machine = up();
    let mut content = Content::new(1);
    content.long = vec![1; LONG_MAX_BYTES + 1];
    let (from, to) = (EndpointId::of(1, 3), Address::new(1, 103));
    let call = Call { from, to, kind: CallKind::Send, user: None, content, limit_ns: None };
    let call = machine.call(4 * MS, call).expect("accepted");
    assert!(matches!(frames(&mut machine)[..], [Frame::Call { .. }]));
    send_frame(&mut machine, 0, Frame::Took { call: CallId(9) }, &[]);
    let outcome = crate::Outcome::NotDelivered(Failure::Broke);
    assert!(actions(&mut machine).contains(&Action::Ended { call, outcome }));
}

#[test]
fn a_block_is_a_long_payload_that_says_so() {
    let head = MessageHead { is_block: true, ..HEAD };
    // Both in one packet and in pieces.
    for pieced in [0, 3] {
        let mut machine = up();
        let (call, kind) = (CallId(1), CallKind::Request);
        let frame = Frame::Call { call, vm: 1, from: FROM, to: 3, kind, head, pieced };
        let body = [[0; 40].as_slice(), &[1, 2, 3]].concat();
        send_frame(&mut machine, 0, frame, &body[..if pieced > 0 { 40 } else { 43 }]);
        if pieced > 0 {
            let piece = Frame::Piece { call, stream: StreamKind::Call };
            bulk(&mut machine, 0, piece, &[1, 2, 3]);
        }
        frames(&mut machine);
        let delivered = actions(&mut machine).into_iter().find_map(|action| match action {
            Action::Deliver { delivery, content, .. } => Some((delivery, content)),
            _ => None,
        });
        let (delivery, content) = delivered.expect("it is whole");
        assert!(content.is_block && content.long == [1, 2, 3]);
        machine.taken(4 * MS, delivery);
        let answer = Content { long: vec![4; 3], is_block: true, ..Content::new(1) };
        machine.answer(4 * MS, delivery, AnswerKind::Reply, &answer).expect("it is awaited");
        let is_block = |frame: &Frame| match frame {
            Frame::End { end: CallEnd::Answered(_, head), .. } => head.is_block,
            _ => false,
        };
        assert!(frames(&mut machine).iter().any(is_block));
    }
}

/// A message of the local endpoint with so many bytes.
fn long_message(bytes: usize) -> Call {
    let content = Content { long: vec![1; bytes], ..Content::new(1) };
    let (from, to) = (EndpointId::of(1, 3), Address::new(1, 103));
    Call { from, to, kind: CallKind::Send, user: None, content, limit_ns: None }
}

#[test]
fn long_messages_that_wait_for_room_hold_up_nothing_else() {
    let mut machine = up();
    let to = |slot| Address::new(1, slot);
    let limits = &mut machine.own.settings.limits;
    (limits.pieced_bytes, limits.notifications) = (2 * LONG_MAX_BYTES as u64, 2);
    let room = Action::Room { node: PEER, vm: 1 };
    machine.call(4 * MS, long_message(2 * LONG_MAX_BYTES)).expect("the only one");
    let refused = machine.call(4 * MS, long_message(LONG_MAX_BYTES + 1));
    assert_eq!(refused, Err(CallRefusal::Full(PEER)));
    assert!(!machine.admits_bytes(1, to(103), LONG_MAX_BYTES + 1, 0));
    assert!(machine.admits_bytes(1, to(103), LONG_MAX_BYTES, 0));
    machine.call(4 * MS, long_message(LONG_MAX_BYTES)).expect("a short one");
    let mut notify = |slot| machine.notify(4 * MS, EndpointId::of(1, 3), to(slot), 1);
    assert_eq!([101, 102].map(&mut notify), [Ok(()); 2]);
    assert_eq!(notify(103), Err(CallRefusal::Full(PEER)));
    // The peer fetches nothing, and notifications have room again.
    frames(&mut machine);
    assert!(actions(&mut machine).contains(&room));
    assert!(!machine.admits_bytes(1, to(103), LONG_MAX_BYTES + 1, 0));
    frames(&mut machine);
    assert_eq!(actions(&mut machine), [], "none for these bytes");
    let fetch = Frame::Fetch { call: CallId(1), stream: StreamKind::Call };
    send_frame(&mut machine, 0, fetch, &[]);
    frames(&mut machine);
    assert!(actions(&mut machine).contains(&room), "they have left");
    assert!(machine.admits_bytes(1, to(103), LONG_MAX_BYTES + 1, 0));
    let beside = LONG_MAX_BYTES as u64;
    assert!(!machine.admits_bytes(1, to(103), LONG_MAX_BYTES + 1, beside));
}

#[test]
fn answers_that_a_peer_does_not_fetch_are_bounded() {
    let mut machine = up();
    machine.own.settings.limits.pieced_bytes = LONG_MAX_BYTES as u64 / 4;
    let answer = Content { long: vec![1; LONG_MAX_BYTES + 1], ..Content::new(1) };
    let stalled_ns = 5 * MS + ANSWERS_STALL_NS;
    let mut ends = Vec::new();
    let fetch = Frame::Fetch { call: CallId(1), stream: StreamKind::Answer };
    // The peer fetches a piece ahead of the last one.
    for (number, at_ns) in (0..8).zip([[4 * MS; 6], [stalled_ns; 6]].into_iter().flatten()) {
        if number == 7 {
            send_frame(&mut machine, number, fetch.clone(), &[]);
            frames(&mut machine);
        }
        let (call, kind) = (CallId(number + 1), CallKind::Request);
        let number = if number == 7 { number + 1 } else { number };
        let frame = Frame::Call { call, vm: 1, from: FROM, to: 3, kind, head: HEAD, pieced: 0 };
        send_frame(&mut machine, number, frame, &[0; 40]);
        let delivery = actions(&mut machine).into_iter().find_map(|action| match action {
            Action::Deliver { delivery, .. } => Some(delivery),
            _ => None,
        });
        let delivery = delivery.expect("it is offered");
        machine.taken(at_ns, delivery);
        machine.answer(at_ns, delivery, AnswerKind::Reply, &answer).expect("it is awaited");
        ends.extend(frames(&mut machine).into_iter().filter_map(|frame| match frame {
            Frame::End { end, .. } => Some(end),
            _ => None,
        }));
    }
    let is_long = |end: &CallEnd| matches!(end, CallEnd::AnsweredLong(..));
    assert!(ends[..6].iter().all(is_long), "{ends:?}");
    assert_eq!(ends[6], CallEnd::Delivered(Failure::TooLong), "{ends:?}");
    assert!(is_long(&ends[7]), "{ends:?}");
    assert!(machine.is_reachable(PEER));
}

#[test]
fn copies_that_were_given_up_leave_no_turn() {
    let mut machine = up();
    let requester = EndpointId::of(1, 3);
    for number in 0..100 {
        send_frame(&mut machine, 2 * number, copy(number + 1, READ), &[]);
        let id = CopyId::Of(PEER, CallId(number + 1));
        machine.copy_give(4 * MS, id, vec![1; 9].into());
        let abort = Frame::CopyAbort { call: CallId(number + 1) };
        send_frame(&mut machine, 2 * number + 1, abort, &[]);
    }
    assert!(machine.is_reachable(PEER));
    assert!(machine.copies.ready.values().all(VecDeque::is_empty));
    // The same for a copy of this node.
    let copy = machine.copy(4 * MS, requester, Address::new(1, 103), WRITE).expect("reachable");
    let (call, admitted) = (CallId(1), 9);
    send_frame(&mut machine, 200, Frame::CopyMore { call, of_receiver: true, admitted }, &[]);
    machine.copy_give(4 * MS, copy, vec![1; 9].into());
    machine.copy_abort(4 * MS, copy);
    assert!(machine.copies.ready.values().all(VecDeque::is_empty));
}

#[test]
fn a_call_that_breaks_the_rules_counts_for_no_later_session() {
    let mut machine = machine();
    machine.own.settings.limits.calls_of_vm = 1;
    greet(&mut machine, FIRST, hello(1));
    let bound = Frame::Bound { vm: 1, endpoint: FROM, moves: 0, after: None };
    super::tests::send_frame(&mut machine, 0, bound.clone(), &[]);
    super::tests::send_frame(&mut machine, 1, long_call(1, u32::MAX), &[0; 40]);
    assert!(!machine.is_reachable(PEER), "too long");
    let second = ConnectionId(2);
    greet(&mut machine, second, Hello { session: 2, ..hello(1) });
    let session = SessionPair { to: 2, from: 2 };
    for (sequence, frame, body) in [(0, bound, 0), (1, long_call(1, 5), 40)] {
        let (lane, expected) = (Lane::Message, [0, 0]);
        let packet = Packet::Data { session, lane, sequence, expected, frame };
        machine.received(4 * MS, PEER, second, encode(&packet, &[0; 40][..body]));
    }
    assert!(machine.is_reachable(PEER), "the first call of this session");
    assert!(frames(&mut machine).iter().any(|frame| matches!(frame, Frame::Fetch { .. })));
}
