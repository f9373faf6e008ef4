//! The call that closes a circle is refused.

use super::*;

#[test]
fn the_second_of_two_senders_is_refused() {
    let (mut world, [a, b]) = World::of([30, 31]);
    world.call(a, send(b, 1));
    assert_eq!(world.call(b, send(a, 2)), [unsent(b, Code::Locked)]);
    assert_eq!(world.limited(b, send(a, 2), Limit::NoWait), [unsent(b, Code::Again)]);
    assert_eq!(world.call(b, receive(a)), [got(b, from(a, 1)), delivered(a)]);
}

#[test]
fn a_server_that_receives_from_its_own_client_is_refused() {
    let (mut world, [a, b]) = World::of([30, 31]);
    world.call(a, sendrec(b, 1));
    world.call(b, RECEIVE_ANY);
    assert_eq!(world.call(b, receive(a)), [failed(b, Code::Locked)]);
}

#[test]
fn a_server_may_ask_its_own_client() {
    let (mut world, [a, b]) = World::of([30, 31]);
    world.call(a, sendrec(b, 1));
    world.call(b, RECEIVE_ANY);
    assert_eq!(world.call(b, sendrec(a, 2)), [answered(a, from(b, 2))]);
}

#[test]
fn the_last_of_a_longer_circle_is_refused() {
    let (mut world, [a, b, c, d]) = World::of([30, 31, 32, 33]);
    world.call(a, send(b, 1));
    world.call(b, receive(c));
    world.call(c, sendrec(d, 2));
    world.call(d, RECEIVE_ANY);
    assert_eq!(world.call(d, send(a, 3)), [unsent(d, Code::Locked)]);
}

#[test]
fn a_relay_that_would_close_a_circle_leaves_the_client_where_it_was() {
    let (mut world, [a, b, c]) = World::of([30, 31, 32]);
    world.call(a, sendrec(b, 1));
    world.call(b, RECEIVE_ANY);
    world.call(c, sendrec(a, 2));
    assert_eq!(world.call(b, Call::Relay { client: a, dst: c }), [failed(b, Code::Locked)]);
    assert_eq!(world.call(b, reply(a, 3)), [answered(a, from(b, 3)), delivered(b)]);
}
