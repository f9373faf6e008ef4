use super::*;
use crate::ends::Fate;
use crate::layout::{LINK_BYTES, PULSES_MAX};
use m3ipc_abi::{Address, Code};

fn pair() -> (Link, Link) {
    let memory = m3ipc_sys::create_memory("m3-test", LINK_BYTES as u64).unwrap();
    (Link::map(&memory, LinkSide::Zero).unwrap(), Link::map(&memory, LinkSide::One).unwrap())
}

const PAYLOAD_A: [u8; 40] = [7; 40];

#[test]
fn a_request_and_its_answer_cross_with_their_long_payloads() {
    let (mut client, mut server) = pair();
    let long: Vec<u8> = (0..=250).cycle().take(LONG_MAX_BYTES).collect();
    let request = client.post(MessageKind::Request, 1, 5, &PAYLOAD_A, &long);
    let mut room = vec![0; LONG_MAX_BYTES];
    let arrival = server.peek().unwrap().unwrap();
    let got = server.take(arrival, &mut room).unwrap().unwrap();
    assert_eq!((got.m_type, got.payload, got.long_bytes), (5, PAYLOAD_A, LONG_MAX_BYTES));
    assert_eq!(room, long);
    assert!(client.is_taken(request).unwrap());
    assert_eq!(server.answer(MessageKind::Reply, 6, &PAYLOAD_A, b"yes"), Ok(AnswerOutcome::Posted));
    let arrival = client.peek_answer(request).unwrap().unwrap();
    assert_eq!(client.take(arrival, &mut room).unwrap().unwrap().long_bytes, 3);
    assert_eq!(
        server.answer(MessageKind::Reply, 6, &PAYLOAD_A, b""),
        Ok(AnswerOutcome::NotAwaited)
    );
}

#[test]
fn an_abandoned_request_gets_no_answer() {
    let (mut client, mut server) = pair();
    let request = client.post(MessageKind::Request, 1, 5, &PAYLOAD_A, &[]);
    let arrival = server.peek().unwrap().unwrap();
    server.take(arrival, &mut []).unwrap().unwrap();
    assert_eq!(client.cancel(request), Ok(Cancelled::Taken));
    assert_eq!(
        server.answer(MessageKind::Reply, 6, &PAYLOAD_A, &[]),
        Ok(AnswerOutcome::NotAwaited)
    );
    assert_eq!(client.peek_answer(request), Ok(None));
    assert!(server.is_free().unwrap());
}

#[test]
fn an_answer_to_an_earlier_request_does_not_count() {
    let (mut client, mut server) = pair();
    let first = client.post(MessageKind::Request, 1, 5, &PAYLOAD_A, &[]);
    let arrival = server.peek().unwrap().unwrap();
    server.take(arrival, &mut []).unwrap().unwrap();
    // The server posts its answer and stops before it checks the request again.
    server.post(MessageKind::Reply, first.sequence(), 6, &PAYLOAD_A, &[]);
    assert_eq!(client.cancel(first), Ok(Cancelled::Taken));
    let second = client.post(MessageKind::Request, 2, 5, &PAYLOAD_A, &[]);
    assert_eq!(client.peek_answer(second), Ok(None));
}

/// Posts a request and takes it.
fn ask(client: &mut Link, server: &mut Link) -> SlotState {
    let request = client.post(MessageKind::Request, 1, 5, &PAYLOAD_A, &[]);
    let arrival = server.peek().unwrap().unwrap();
    server.take(arrival, &mut []).unwrap().unwrap();
    request
}

#[test]
fn an_answer_that_was_never_taken_makes_room_for_the_next() {
    let (mut client, mut server) = pair();
    let first = ask(&mut client, &mut server);
    assert_eq!(server.answer(MessageKind::Reply, 6, &PAYLOAD_A, b""), Ok(AnswerOutcome::Posted));
    let unseen = server.posted();
    assert_eq!(server.withdraw_void_answer(), Ok(()));
    assert_eq!(server.fate(unseen), MessageFate::Open, "its request is the last one");
    assert_eq!(client.cancel(first), Ok(Cancelled::Taken));
    let second = ask(&mut client, &mut server);
    assert_eq!(client.peek_answer(second), Ok(None), "the answer belongs to the first request");
    assert_eq!(server.answer(MessageKind::Reply, 7, &PAYLOAD_A, b""), Ok(AnswerOutcome::Posted));
    assert_eq!(server.fate(unseen), MessageFate::Gone);
    let arrival = client.peek_answer(second).unwrap().unwrap();
    assert_eq!(client.take(arrival, &mut []).unwrap().unwrap().m_type, 7);
}

#[test]
fn a_refused_answer_answers_no_later_request() {
    let (mut client, mut server) = pair();
    let first = ask(&mut client, &mut server);
    assert_eq!(server.answer(MessageKind::Reply, 6, &PAYLOAD_A, b""), Ok(AnswerOutcome::Posted));
    let refused = server.posted();
    let arrival = client.peek_answer(first).unwrap().unwrap();
    assert!(client.refuse(arrival, SlotRefusal::Retry));
    assert_eq!(server.fate(refused), MessageFate::Refused(SlotRefusal::Retry));
    assert_eq!(client.cancel(first), Ok(Cancelled::Taken));
    let second = ask(&mut client, &mut server);
    assert_eq!(client.peek_answer(second), Ok(None));
    assert_eq!(server.answer(MessageKind::Reply, 7, &PAYLOAD_A, b""), Ok(AnswerOutcome::Posted));
    let arrival = client.peek_answer(second).unwrap().unwrap();
    assert_eq!(client.take(arrival, &mut []).unwrap().unwrap().m_type, 7);
    assert_eq!(
        server.answer(MessageKind::Reply, 8, &PAYLOAD_A, b""),
        Ok(AnswerOutcome::NotAwaited),
        "each request has one answer"
    );
}

#[test]
fn garbage_breaks_the_link() {
    let (mut client, server) = pair();
    let posted = client.post(MessageKind::Send, 1, 5, &PAYLOAD_A, &[]);
    server.peer_word().store(u64::MAX, Ordering::Relaxed);
    assert_eq!(client.is_taken(posted), Err(RuleBroken));
    assert_eq!(client.withdraw(posted), Err(RuleBroken));
    assert_eq!(client.is_free(), Err(RuleBroken));
    assert_eq!(server.peek(), Err(RuleBroken));
}

#[test]
fn a_length_beyond_the_link_is_refused_after_the_take() {
    let (mut client, mut server) = pair();
    client.post(MessageKind::Send, 1, 5, &PAYLOAD_A, &[]);
    client.page.word64(HEAD).store(u64::MAX, Ordering::Relaxed);
    let arrival = server.peek().unwrap().unwrap();
    assert_eq!(server.take(arrival, &mut [0; 64]).unwrap_err(), RuleBroken);
}

#[test]
fn notifications_coalesce_and_join_their_arguments() {
    let (one, other) = pair();
    one.notify(1);
    one.notify(4);
    assert_eq!(other.take_notifications(), Some(5));
    assert_eq!(other.take_notifications(), None);
    assert!(!one.has_notification());
}

#[test]
fn the_first_notification_leaves_the_later_ones_pending() {
    let (one, other) = pair();
    for argument in [1, 2, 4] {
        one.notify(argument);
    }
    assert_eq!(other.take_first_notification(), Some(1));
    assert!(!one.is_notification_taken());
    assert_eq!(other.take_notifications(), Some(6));
    assert!(one.is_notification_taken());
    one.notify(8);
    assert_eq!(other.take_first_notification(), Some(8));
    assert_eq!(other.take_first_notification(), None);
}

#[test]
fn any_number_of_pending_notifications_is_valid() {
    let (one, other) = pair();
    one.page.word64(LinkSide::Zero.notification()).store(u64::MAX, Ordering::Relaxed);
    assert_eq!(other.take_first_notification(), Some(0));
    one.notify(1);
    assert_eq!(other.take_notifications(), Some(1));
    assert_eq!(other.take_notifications(), None);
}

#[test]
fn pulses_keep_their_order_and_stand_apart_from_notifications() {
    let (mut one, mut other) = pair();
    assert!(one.send_pulse(7, u64::MAX));
    one.notify(4);
    assert!(one.send_pulse(255, 1));
    assert!(other.has_notification() && other.has_pulse());
    assert_eq!(other.take_notifications(), Some(4));
    assert!(one.is_notification_taken());
    assert_eq!(one.pending_pulses(), 2);
    assert_eq!(other.take_pulse(), Some((7, u64::MAX)));
    assert_eq!(other.take_pulse(), Some((255, 1)));
    assert_eq!((other.take_pulse(), other.has_notification()), (None, false));
}

#[test]
fn a_full_ring_refuses_and_loses_nothing() {
    let (mut one, mut other) = pair();
    let (mut sent, mut taken) = (0_u64, 0_u64);
    // Each round shifts the ring, so each place is used for each number.
    for round in 1..=3 * PULSES_MAX {
        while one.send_pulse(sent.to_le_bytes()[0], sent) {
            sent += 1;
        }
        assert_eq!(one.pending_pulses(), PULSES_MAX);
        for _ in 0..1 + round % PULSES_MAX {
            assert_eq!(other.take_pulse(), Some((taken.to_le_bytes()[0], taken)));
            taken += 1;
        }
    }
    // Both directions are apart, and messages too.
    assert!(other.send_pulse(1, 2) && one.take_pulse() == Some((1, 2)));
    assert!(one.is_free().unwrap() && one.peek().unwrap().is_none());
}

#[test]
fn copied_pulses_keep_their_places_until_they_are_removed() {
    let (mut one, mut other) = pair();
    let mut sent = 0_u8;
    // Each round shifts the ring.
    for copied in 1..=PULSES_MAX {
        let first = sent;
        while one.send_pulse(sent, u64::from(sent)) {
            sent += 1;
        }
        let pulses: Vec<u8> = std::iter::from_fn(|| other.copy_pulse()).map(|it| it.0).collect();
        assert_eq!(pulses, (first..sent).collect::<Vec<u8>>());
        assert_eq!(one.pending_pulses(), PULSES_MAX);
        // The latest ones are found again.
        other.uncopy_pulses(PULSES_MAX - copied);
        other.remove_copied_pulses(copied);
        assert_eq!(one.pending_pulses(), PULSES_MAX - copied);
        for number in first + u8::try_from(copied).unwrap()..sent {
            assert_eq!(other.take_pulse(), Some((number, u64::from(number))));
        }
        assert_eq!(other.copy_pulse(), None);
        // No others go with them.
        other.remove_copied_pulses(PULSES_MAX);
        other.uncopy_pulses(PULSES_MAX);
        assert_eq!(one.pending_pulses(), 0);
        sent %= 100;
    }
}

#[test]
fn any_number_of_pending_pulses_is_valid() {
    let (mut one, mut other) = pair();
    one.page.word64(LinkSide::Zero.notification()).store(u64::MAX, Ordering::Relaxed);
    assert!(!one.send_pulse(1, 1));
    assert_eq!(one.pending_pulses(), PULSES_MAX);
    for _ in 0..255 {
        assert_eq!(other.take_pulse(), Some((0, 0)));
    }
    assert_eq!(other.take_pulse(), None);
}

/// A client and a proxy that holds its message.
fn hold(kind: MessageKind) -> (Link, Link, SlotState) {
    let (mut client, mut proxy) = pair();
    client.let_peer_hold();
    let posted = client.post(kind, 1, 5, &PAYLOAD_A, &[]);
    let arrival = proxy.peek().unwrap().unwrap();
    assert_eq!(proxy.hold(arrival).unwrap().unwrap().0.m_type, 5);
    (client, proxy, posted)
}

#[test]
fn a_late_end_of_a_held_message_leaves_the_next_one_alone() {
    let (mut client, mut proxy, first) = hold(MessageKind::Send);
    assert_eq!(client.cancel(first), Ok(Cancelled::Unknown));
    let second = client.post(MessageKind::Send, 2, 6, &PAYLOAD_A, &[]);
    assert!(!proxy.give_back(first, Code::DstDied), "its sender waits no longer");
    assert_eq!(client.ended_by_proxy(second), Ok(None));
    let arrival = proxy.peek().unwrap().unwrap();
    let taken = proxy.take(arrival, &mut []).unwrap().unwrap();
    assert_eq!((taken.m_type, taken.payload), (6, PAYLOAD_A), "the second message is whole");
}

#[test]
fn a_late_loss_of_an_answer_leaves_the_next_request_alone() {
    let (mut client, mut proxy, first) = hold(MessageKind::Request);
    assert!(proxy.take_held(first));
    assert_eq!(client.cancel(first), Ok(Cancelled::Taken));
    client.post(MessageKind::Request, 2, 6, &PAYLOAD_A, &[]);
    assert!(!proxy.lose_answer(first, Code::SrcDied), "its sender waits no longer");
    let arrival = proxy.peek().unwrap().unwrap();
    assert_eq!(proxy.hold(arrival).unwrap().unwrap().0.m_type, 6);
}

#[test]
fn the_code_of_a_proxy_ends_a_message_and_frees_the_slot() {
    let (client, mut proxy, posted) = hold(MessageKind::Send);
    assert_eq!((client.is_free(), client.is_held(posted)), (Ok(false), true));
    assert!(proxy.give_back(posted, Code::NotConn));
    assert_eq!(client.ended_by_proxy(posted), Ok(Some((Fate::NotTaken, Code::NotConn))));
    assert_eq!((client.is_free(), client.is_held(posted)), (Ok(true), false));
    assert!(!client.may_be_taken(posted));

    let (client, mut proxy, posted) = hold(MessageKind::Send);
    assert!(proxy.lose(posted));
    assert_eq!(client.ended_by_proxy(posted), Ok(Some((Fate::Unknown, Code::Unknown))));
    assert_eq!((client.is_free(), client.may_be_taken(posted)), (Ok(true), true));

    let (client, mut proxy, posted) = hold(MessageKind::Request);
    assert!(proxy.take_held(posted) && proxy.lose_answer(posted, Code::AnswerLost));
    assert_eq!(client.ended_by_proxy(posted), Ok(Some((Fate::Taken, Code::AnswerLost))));
    assert_eq!(client.cancel(posted), Ok(Cancelled::Unanswered));
    assert_eq!(client.proxy_code(), Ok(Code::AnswerLost));
    client.page.word32(client.side.other().proxy_code()).store(7, Ordering::Relaxed);
    assert_eq!(client.ended_by_proxy(posted), Err(RuleBroken), "no code");
}

#[test]
fn the_words_of_a_proxy_break_the_rules_in_an_ordinary_link() {
    let (mut client, mut hostile) = pair();
    let posted = client.post(MessageKind::Send, 1, 5, &PAYLOAD_A, &[]);
    let arrival = hostile.peek().unwrap().unwrap();
    assert!(hostile.hold(arrival).unwrap().is_some());
    assert_eq!(client.is_taken(posted), Err(RuleBroken));
    assert!(!client.is_held(posted), "nobody waits for it");
    assert!(hostile.give_back(posted, Code::DstDied));
    assert_eq!(client.ended_by_proxy(posted), Ok(None), "its code counts for nothing");
    assert_eq!(client.withdraw(posted), Err(RuleBroken));
    assert_eq!((client.cancel(posted), client.is_free()), (Err(RuleBroken), Err(RuleBroken)));
    assert_eq!(client.canceller(posted).cancel(), Err(RuleBroken));
}

#[test]
fn the_fast_steps_carry_payloads_up_to_the_length_of_a_link() {
    let (mut client, mut server) = pair();
    ask(&mut client, &mut server);
    assert_eq!(server.answer(MessageKind::Reply, 6, &PAYLOAD_A, &[]), Ok(AnswerOutcome::Posted));
    let arrival = client.peek().unwrap().unwrap();
    client.take(arrival, &mut []).unwrap().unwrap();
    for bytes in [0, 1, 63, 100, LONG_MAX_BYTES] {
        let long: Vec<u8> = (0..=250).cycle().take(bytes).collect();
        assert!(client.is_ready_to_post());
        let request = client.post(MessageKind::Request, 1, 5, &PAYLOAD_A, &long);
        let (kind, state) = server.look().unwrap();
        let mut room = vec![];
        let taken = server.take_long(kind, state, Address(9), |claimed| {
            room.resize(claimed, 0);
            &mut room
        });
        let (message, taken_bytes) = taken.unwrap();
        assert_eq!((message.source, message.m_type, message.payload), (Address(9), 5, PAYLOAD_A));
        assert_eq!((taken_bytes, &room), (bytes, &long));
        let owed = server.ready_to_answer().unwrap();
        assert!(server.answer_long(owed, 6, &PAYLOAD_A, &long));
        assert!(server.ready_to_answer().is_none() && !server.owes_answer());
        // Memory for the front alone.
        let mut front = [0; 10];
        let state = client.look_for_answer(request).unwrap();
        let kind = MessageKind::Reply;
        let taken = client.take_long(kind, state, Address(1), |_| &mut front).unwrap();
        assert_eq!((taken.0.m_type, taken.1), (6, bytes));
        let fitting = bytes.min(front.len());
        assert_eq!(front[..fitting], long[..fitting]);
    }
}

#[test]
fn the_fast_take_leaves_blocks_lies_and_withdrawn_messages_alone() {
    let (mut client, mut server) = pair();
    let name = [3; BLOCK_NAME_BYTES];
    let block = Payload::block(&name);
    let posted = client.post(MessageKind::Send, 1, 5, &PAYLOAD_A, block);
    let (kind, state) = server.look().unwrap();
    assert!(server.take_long(kind, state, Address(9), |_| panic!("no length")).is_none());
    // A length beyond the link, with and without the flag of a block.
    for lie in [1793, u32::MAX, 1 << 31] {
        let word = u64::from(lie) << 32;
        server.page.word64(server.peer.offset + HEAD).store(word, Ordering::Relaxed);
        assert!(server.take_long(kind, state, Address(9), |_| panic!("no length")).is_none());
    }
    assert_eq!(client.is_taken(posted), Ok(false));
    assert_eq!(client.withdraw(posted), Ok(Withdrawing::Withdrawn));
    server.page.word64(server.peer.offset + HEAD).store(8 << 32, Ordering::Relaxed);
    let mut room = [0; 8];
    assert!(server.take_long(kind, state, Address(9), |_| &mut room).is_none());
    assert!(server.owed().is_none());
}

#[test]
fn an_answer_with_a_payload_is_decided_by_its_client() {
    let (mut client, mut server) = pair();
    ask(&mut client, &mut server);
    assert_eq!(server.answer(MessageKind::Reply, 6, &PAYLOAD_A, &[]), Ok(AnswerOutcome::Posted));
    let arrival = client.peek().unwrap().unwrap();
    client.take(arrival, &mut []).unwrap().unwrap();
    let request = ask(&mut client, &mut server);
    let owed = server.ready_to_answer().unwrap();
    assert_eq!(client.cancel(request), Ok(Cancelled::Taken));
    assert!(!server.answer_long(owed, 6, &PAYLOAD_A, &[1; 100]), "nobody awaits it");
    assert!(client.is_quiet(), "the answer is withdrawn");
}
