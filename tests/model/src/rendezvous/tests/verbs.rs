//! Verbs, order of receives, death, withdrawal.

use m3ipc_abi::{ANY, SELF};

use super::*;
use crate::rendezvous::PULSES_MAX;
use crate::rendezvous::receive::notification;

#[test]
fn a_send_waits_for_its_receiver() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    assert_eq!(fixture.call(a, send(b, 1)), []);
    assert_eq!(fixture.call(b, RECEIVE_ANY), [got(b, from(a, 1)), delivered(a)]);
}

#[test]
fn a_no_wait_send_succeeds_only_if_the_receiver_waits_for_it() {
    let (mut fixture, [a, b, c]) = Fixture::of([30, 31, 32]);
    assert_eq!(fixture.limited(a, send(b, 1), Limit::NoWait), [unsent(a, Code::Again)]);
    fixture.call(b, receive(c));
    assert_eq!(fixture.limited(a, send(b, 1), Limit::NoWait), [unsent(a, Code::Again)]);
    assert_eq!(fixture.limited(c, send(b, 2), Limit::NoWait), [got(b, from(c, 2)), delivered(c)]);
}

#[test]
fn wakeup_then_notifications_by_slot_then_messages_by_arrival() {
    let (mut fixture, [b, high, low, task]) = Fixture::of([31, 40, 30, -2]);
    fixture.call(high, send(b, 7));
    fixture.call(low, send(b, 8));
    for source in [high, low] {
        fixture.step(Op::Signal(source.slot()));
    }
    for source in [high, low, task, task] {
        assert_eq!(fixture.call(source, Call::Notify { dst: b }), [done(source)]);
    }
    assert_eq!(fixture.call(task, Call::Wakeup { dst: b }), [failed(task, Code::ProcRun)]);
    fixture.call(high, send(b, 7));
    fixture.call(low, send(b, 8));
    assert_eq!(fixture.call(b, RECEIVE_ANY), [failed(b, Code::WokenUp)]);
    for source in [task, low, high] {
        assert_eq!(fixture.call(b, RECEIVE_ANY), [got(b, notification(source))]);
    }
    assert_eq!(fixture.call(b, RECEIVE_ANY), [got(b, from(high, 7)), delivered(high)]);
    assert_eq!(fixture.call(b, RECEIVE_ANY), [got(b, from(low, 8)), delivered(low)]);
    assert_eq!(fixture.limited(b, RECEIVE_ANY, Limit::NoWait), [failed(b, Code::Again)]);
}

#[test]
fn a_receive_from_one_source_takes_only_its_notification_and_messages() {
    let (mut fixture, [a, b, c]) = Fixture::of([30, 31, 32]);
    fixture.call(c, Call::Notify { dst: b });
    fixture.call(c, send(b, 1));
    assert_eq!(fixture.call(b, receive(a)), []);
    assert_eq!(fixture.call(a, Call::Notify { dst: b }), [got(b, notification(a)), done(a)]);
}

#[test]
fn a_sendrec_ends_only_by_a_send_or_reply_of_its_server() {
    let (mut fixture, [a, b, c]) = Fixture::of([30, 31, 32]);
    fixture.call(b, RECEIVE_ANY);
    assert_eq!(fixture.call(a, sendrec(b, 1)), [got(b, from(a, 1))]);
    assert_eq!(fixture.call(c, send(a, 9)), []);
    assert_eq!(fixture.call(b, Call::Notify { dst: a }), [done(b)]);
    assert_eq!(fixture.call(c, reply(a, 9)), [failed(c, Code::NotReady)]);
    assert_eq!(fixture.call(b, reply(a, 2)), [answered(a, from(b, 2)), delivered(b)]);
    assert_eq!(fixture.call(b, reply(a, 2)), [unsent(b, Code::ProcSts)]);
    assert_eq!(fixture.call(a, RECEIVE_ANY), [got(a, notification(b))]);
    fixture.call(a, sendrec(b, 3));
    fixture.call(b, RECEIVE_ANY);
    assert_eq!(fixture.call(b, send(a, 4)), [answered(a, from(b, 4)), delivered(b)]);
}

#[test]
fn a_reply_before_the_request_is_taken_is_refused() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    fixture.call(a, sendrec(b, 1));
    assert_eq!(fixture.call(b, reply(a, 2)), [unsent(b, Code::ProcSts)]);
}

#[test]
fn a_no_wait_sendrec_is_delivered_or_not_sent() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    assert_eq!(fixture.limited(a, sendrec(b, 1), Limit::NoWait), [unsent(a, Code::Again)]);
    fixture.call(b, RECEIVE_ANY);
    let ended = fixture.limited(a, sendrec(b, 1), Limit::NoWait);
    assert_eq!(ended, [got(b, from(a, 1)), lost(a, Code::TimedOut)]);
}

#[test]
fn rcvrqst_takes_requests_and_notifications_and_leaves_plain_sends() {
    let (mut fixture, [a, b, c]) = Fixture::of([30, 31, 32]);
    fixture.call(a, send(b, 1));
    assert_eq!(fixture.call(b, Call::Rcvrqst), []);
    assert_eq!(fixture.call(c, Call::Notify { dst: b }), [got(b, notification(c)), done(c)]);
    fixture.call(c, sendrec(b, 2));
    assert_eq!(fixture.call(b, Call::Rcvrqst), [got(b, from(c, 2))]);
    assert_eq!(fixture.limited(b, Call::Rcvrqst, Limit::NoWait), [failed(b, Code::Again)]);
    assert_eq!(fixture.call(b, RECEIVE_ANY), [got(b, from(a, 1)), delivered(a)]);
}

#[test]
fn a_relayed_request_comes_from_the_client_and_is_answered_to_it() {
    let (mut fixture, [a, b, c]) = Fixture::of([30, 31, 32]);
    fixture.call(b, RECEIVE_ANY);
    fixture.call(a, sendrec(b, 1));
    assert_eq!(fixture.call(b, Call::Relay { client: a, dst: c }), [done(b)]);
    assert_eq!(fixture.call(b, reply(a, 2)), [unsent(b, Code::ProcSts)]);
    assert_eq!(fixture.call(c, Call::Rcvrqst), [got(c, from(a, 1))]);
    assert_eq!(fixture.call(c, reply(a, 3)), [answered(a, from(c, 3)), delivered(c)]);
    fixture.call(a, send(b, 4));
    assert_eq!(fixture.call(b, Call::Relay { client: a, dst: c }), [failed(b, Code::ProcSts)]);
}

#[test]
fn a_relay_to_a_waiting_server_is_taken_at_once() {
    let (mut fixture, [a, b, c]) = Fixture::of([30, 31, 32]);
    fixture.call(c, RECEIVE_ANY);
    fixture.call(a, sendrec(b, 1));
    fixture.call(b, RECEIVE_ANY);
    assert_eq!(fixture.call(b, Call::Relay { client: a, dst: c }), [got(c, from(a, 1)), done(b)]);
    assert_eq!(fixture.call(b, Call::Relay { client: a, dst: a }), [failed(b, Code::Endpoint)]);
}

#[test]
fn a_relayed_client_whose_new_server_dies_keeps_its_codes() {
    let (mut fixture, [a, b, c]) = Fixture::of([30, 31, 32]);
    fixture.call(a, sendrec(b, 1));
    fixture.call(b, RECEIVE_ANY);
    fixture.call(b, Call::Relay { client: a, dst: c });
    assert_eq!(fixture.step(Op::Kill(32)), [lost(a, Code::DstDied)]);
}

#[test]
fn a_wakeup_ends_receive_any_or_is_remembered() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    fixture.call(b, RECEIVE_ANY);
    assert_eq!(fixture.call(a, Call::Wakeup { dst: b }), [failed(b, Code::WokenUp), done(a)]);
    fixture.call(b, receive(a));
    assert_eq!(fixture.call(a, Call::Wakeup { dst: b }), [failed(a, Code::ProcSts)]);
    assert_eq!(fixture.call(a, send(b, 1)), [got(b, from(a, 1)), delivered(a)]);
    assert_eq!(fixture.call(b, RECEIVE_ANY), [failed(b, Code::WokenUp)]);
}

#[test]
fn checks_come_in_the_order_of_the_contract() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    let codes = |ended: Vec<Completion>| ended[0].result.unwrap_err();
    for out in [ANY, SELF, Address(64), Address(-5)] {
        assert_eq!(codes(fixture.call(a, send(out, 1))), Code::Range);
    }
    assert_eq!(codes(fixture.call(a, send(a, 1))), Code::Endpoint);
    assert_eq!(codes(fixture.call(a, send(Address::new(9, 31), 1))), Code::Endpoint);
    fixture.step(Op::Kill(31));
    assert_eq!(codes(fixture.call(a, send(b, 1))), Code::DstDied);
    assert_eq!(codes(fixture.call(a, sendrec(b, 1))), Code::DeadSrcDst);
    assert_eq!(codes(fixture.call(a, receive(b))), Code::SrcDied);
    assert_eq!(codes(fixture.call(a, Call::Notify { dst: b })), Code::DstDied);
    assert_eq!(codes(fixture.call(b, send(a, 1))), Code::NotBind);
    let next = fixture.bind(31);
    assert!(next.generation() > b.generation());
    assert_eq!(codes(fixture.call(a, send(b, 1))), Code::Endpoint);
    fixture.call(next, RECEIVE_ANY);
    assert_eq!(codes(fixture.call(next, send(a, 1))), Code::NotReady);
}

#[test]
fn pulses_queue_up_to_their_bound_and_come_after_the_notification_of_their_sender() {
    let (mut fixture, [a, b, c]) = Fixture::of([30, 31, 32]);
    let pulse = |value| Call::Pulse { dst: c, pulse: (7, value) };
    let taken = |source, value| [got(c, Message::pulse(source, 7, value, 1))];
    for value in 0..PULSES_MAX as u64 {
        assert_eq!(fixture.call(a, pulse(value)), [done(a)]);
    }
    assert_eq!(fixture.call(a, pulse(99)), [failed(a, Code::Again)]);
    assert_eq!(fixture.call(b, pulse(100)), [done(b)], "each pair has a queue of its own");
    fixture.call(a, Call::Notify { dst: c });
    assert_eq!(fixture.call(c, receive(b)), taken(b, 100));
    let notified = Message::notification(a, 0, 0, 0);
    assert_eq!(fixture.call(c, RECEIVE_ANY), [got(c, notified)]);
    for value in 0..PULSES_MAX as u64 {
        assert_eq!(fixture.call(c, RECEIVE_ANY), taken(a, value));
    }
    fixture.call(c, Call::Rcvrqst);
    assert_eq!(fixture.call(b, pulse(1)), [taken(b, 1)[0], done(b)]);
    fixture.call(b, pulse(2));
    fixture.step(Op::Kill(b.slot()));
    assert_eq!(fixture.limited(c, RECEIVE_ANY, Limit::NoWait), taken(b, 2), "of the dead");
    assert_eq!(fixture.limited(c, RECEIVE_ANY, Limit::NoWait), [failed(c, Code::Again)]);
}

#[test]
fn what_the_dead_left_comes_by_slot_and_before_a_later_life() {
    let (mut fixture, [low, dead, high, c]) = Fixture::of([30, 31, 32, 33]);
    let pulse = |value| Call::Pulse { dst: c, pulse: (7, value) };
    let notified = |source| [got(c, Message::notification(source, 0, 0, 0))];
    for sender in [high, dead] {
        fixture.call(sender, Call::Notify { dst: c });
        fixture.call(sender, pulse(1));
        fixture.step(Op::Kill(sender.slot()));
    }
    let later = fixture.bind(31);
    for sender in [later, low] {
        fixture.call(sender, Call::Notify { dst: c });
    }
    assert_eq!(fixture.call(c, receive(high)), notified(high), "also from the dead alone");
    assert_eq!(fixture.call(c, RECEIVE_ANY), notified(low));
    assert_eq!(fixture.call(c, RECEIVE_ANY), notified(dead));
    assert_eq!(fixture.call(c, RECEIVE_ANY), [got(c, Message::pulse(dead, 7, 1, 1))]);
    assert_eq!(fixture.call(c, RECEIVE_ANY), notified(later));
    assert_eq!(fixture.call(c, receive(high)), [got(c, Message::pulse(high, 7, 1, 1))]);
    assert_eq!(fixture.call(c, receive(high)), [failed(c, Code::SrcDied)]);
}

#[test]
fn death_ends_waits_in_the_order_of_the_contract() {
    let (mut fixture, [x, s1, s2, client, receiver, watcher, any]) =
        Fixture::of([40, 33, 32, 35, 34, 31, 36]);
    fixture.call(client, sendrec(x, 1));
    fixture.call(x, RECEIVE_ANY);
    fixture.call(s1, send(x, 2));
    fixture.call(s2, sendrec(x, 3));
    fixture.call(receiver, receive(x));
    fixture.call(watcher, Call::AwaitUnbind { dst: x });
    fixture.call(x, Call::Notify { dst: s1 });
    fixture.call(any, RECEIVE_ANY);
    assert_eq!(
        fixture.step(Op::Kill(x.slot())),
        [
            unsent(s1, Code::DstDied),
            unsent(s2, Code::DstDied),
            failed(receiver, Code::SrcDied),
            lost(client, Code::SrcDied),
            done(watcher),
        ]
    );
    assert_eq!(fixture.call(watcher, Call::AwaitUnbind { dst: x }), [done(watcher)]);
    let next = fixture.bind(40);
    let left = Message::notification(x, 0, 0, 0);
    assert_eq!(fixture.limited(s1, RECEIVE_ANY, Limit::NoWait), [got(s1, left)]);
    assert_eq!(fixture.limited(s1, RECEIVE_ANY, Limit::NoWait), [failed(s1, Code::Again)]);
    assert_eq!(fixture.call(watcher, Call::AwaitUnbind { dst: x }), [done(watcher)]);
    let ended = fixture.limited(watcher, Call::AwaitUnbind { dst: next }, Limit::NoWait);
    assert_eq!(ended, [failed(watcher, Code::TimedOut)]);
    let never = Address::new(9, 40);
    assert_eq!(
        fixture.call(watcher, Call::AwaitUnbind { dst: never }),
        [failed(watcher, Code::Endpoint)]
    );
}

#[test]
fn an_endpoint_unbound_by_another_ends_its_call_with_shutdown() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    fixture.call(a, send(b, 1));
    assert_eq!(fixture.step(Op::Unbind(30)), [unsent(a, Code::Shutdown)]);
    assert_eq!(fixture.limited(b, RECEIVE_ANY, Limit::NoWait), [failed(b, Code::Again)]);
}

#[test]
fn a_withdrawn_call_reports_the_fate_of_its_message() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    fixture.limited(a, sendrec(b, 1), Limit::Bounded);
    assert_eq!(fixture.step(Op::Expire(30)), [unsent(a, Code::TimedOut)]);
    fixture.limited(a, sendrec(b, 1), Limit::Bounded);
    fixture.call(b, RECEIVE_ANY);
    assert_eq!(fixture.step(Op::Signal(30)), [lost(a, Code::Intr)]);
    assert_eq!(fixture.call(b, reply(a, 2)), [unsent(b, Code::ProcSts)]);
    fixture.call(a, send(b, 3));
    assert_eq!(fixture.step(Op::Expire(30)), []);
    assert_eq!(fixture.step(Op::Signal(30)), [unsent(a, Code::Intr)]);
}
