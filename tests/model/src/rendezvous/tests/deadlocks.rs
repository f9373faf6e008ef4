//! The machine refuses the call that closes a cycle.

use super::*;

#[test]
fn the_second_of_two_senders_is_refused() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    fixture.call(a, send(b, 1));
    assert_eq!(fixture.call(b, send(a, 2)), [unsent(b, Code::Locked)]);
    assert_eq!(fixture.limited(b, send(a, 2), Limit::NoWait), [unsent(b, Code::Again)]);
    assert_eq!(fixture.call(b, receive(a)), [got(b, from(a, 1)), delivered(a)]);
}

#[test]
fn a_server_that_receives_from_its_own_client_is_refused() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    fixture.call(a, sendrec(b, 1));
    fixture.call(b, RECEIVE_ANY);
    assert_eq!(fixture.call(b, receive(a)), [failed(b, Code::Locked)]);
}

#[test]
fn a_server_may_ask_its_own_client() {
    let (mut fixture, [a, b]) = Fixture::of([30, 31]);
    fixture.call(a, sendrec(b, 1));
    fixture.call(b, RECEIVE_ANY);
    assert_eq!(fixture.call(b, sendrec(a, 2)), [answered(a, from(b, 2))]);
}

#[test]
fn the_last_of_a_longer_cycle_is_refused() {
    let (mut fixture, [a, b, c, d]) = Fixture::of([30, 31, 32, 33]);
    fixture.call(a, send(b, 1));
    fixture.call(b, receive(c));
    fixture.call(c, sendrec(d, 2));
    fixture.call(d, RECEIVE_ANY);
    assert_eq!(fixture.call(d, send(a, 3)), [unsent(d, Code::Locked)]);
}

#[test]
fn a_relay_that_would_close_a_cycle_leaves_the_client_with_its_server() {
    let (mut fixture, [a, b, c]) = Fixture::of([30, 31, 32]);
    fixture.call(a, sendrec(b, 1));
    fixture.call(b, RECEIVE_ANY);
    fixture.call(c, sendrec(a, 2));
    assert_eq!(fixture.call(b, Call::Relay { client: a, dst: c }), [failed(b, Code::Locked)]);
    assert_eq!(fixture.call(b, reply(a, 3)), [answered(a, from(b, 3)), delivered(b)]);
}
