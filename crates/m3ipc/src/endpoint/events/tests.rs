//! A call knows all that was so before it, behind however many deaths the daemon reported it.

use super::super::buffer::Buffer;
use super::super::fast_receive::LeftReceive;
use crate::test::TestNode;
use crate::{
    Address, CLOCK, Code, Endpoint, Node, Privileges, Pulse, ReceivedKind, SYSTEM, Source, Timeout,
    WatchError,
};
use std::time::Duration;

/// A server that has not read the deaths of three peers, and another endpoint.
fn server_with_deaths() -> (TestNode, Endpoint, Endpoint) {
    let node = crate::test::node();
    let (mut server, client) = node.pair_without_link();
    end_peers(&node, &mut server, &[3, 4, 5]);
    (node, server, client)
}

/// Binds endpoints, makes links from `own` to all of them, and then ends them.
fn end_peers(node: &TestNode, own: &mut Endpoint, slots: &[i32]) {
    let bind = |slot: &i32| node.vm().bind_additional(Some(*slot)).expect("a free slot");
    let peers: Vec<Endpoint> = slots.iter().map(bind).collect();
    peers.iter().for_each(|peer| own.notify(peer.address()).expect("a living peer"));
    drop(peers);
}

#[test]
fn a_look_finds_a_pulse_on_a_new_link() {
    let (_node, mut server, mut client) = server_with_deaths();
    let pulse = Pulse { code: 7, value: 8 };
    client.pulse(server.address(), pulse).unwrap();
    assert_eq!(server.try_receive(Source::Any).unwrap().source, client.address());
    assert_eq!(server.latest_kind(), Some(ReceivedKind::Pulse(pulse)));
}

#[test]
fn a_look_finds_a_notification_that_came_through_the_daemon() {
    for source in [Source::Any, Source::From(CLOCK)] {
        let (_node, mut server, mut client) = server_with_deaths();
        client.notify_for(CLOCK, server.address()).unwrap();
        assert_eq!(server.try_receive(source).unwrap().source, CLOCK);
    }
}

#[test]
fn a_look_finds_the_report_of_the_last_death() {
    for source in [Source::Any, Source::From(SYSTEM)] {
        let node = crate::test::node();
        let (mut server, watched) = node.pair_without_link();
        server.watch(watched.address()).unwrap();
        end_peers(&node, &mut server, &[3, 4, 5]);
        let address = watched.address();
        drop(watched);
        assert_eq!(server.try_receive(source).unwrap().source, SYSTEM);
        assert_eq!(server.latest_kind(), Some(ReceivedKind::Death(address)));
    }
}

#[test]
fn a_watch_of_the_last_that_died_fails() {
    let node = crate::test::node();
    let (mut server, client) = node.pair_without_link();
    server.notify(client.address()).unwrap();
    end_peers(&node, &mut server, &[3, 4, 5]);
    let address = client.address();
    drop(client);
    assert_eq!(server.watch(address), Err(WatchError::Died(address)));
}

#[test]
fn a_call_has_the_privileges_of_before_it() {
    let (node, mut server, client) = server_with_deaths();
    let vm = node.vm().id();
    let mut control = Node::attach_at(node.directory()).unwrap();
    let privileges = control.privileges(vm, server.address()).unwrap();
    let none = Privileges { traps: 0, ..privileges };
    control.set_privileges(vm, server.address(), none).unwrap();
    let denied = server.notify(client.address()).map_err(|error| error.code());
    assert_eq!(denied, Err(Code::TrapDenied));
}

#[test]
fn an_endpoint_knows_its_end() {
    let (node, mut server, _client) = server_with_deaths();
    let (vm, address, directory) = (node.vm().id(), server.address(), node.directory().to_owned());
    let before = server.session.page().event_word().load(std::sync::atomic::Ordering::Acquire);
    let unbinding = std::thread::spawn(move || {
        let mut control = Node::attach_at(&directory).unwrap();
        control.unbind_timeout(vm, address, Duration::from_secs(60))
    });
    let told = || server.session.page().event_word().load(std::sync::atomic::Ordering::Acquire);
    while told() == before {
        std::thread::yield_now();
    }
    assert!(!server.is_bound());
    unbinding.join().unwrap().unwrap();
}

/// A server that has not read the death of a source, nor that another endpoint has its slot and
/// notified it.
fn server_of_two_lives() -> (TestNode, Endpoint, Endpoint) {
    let node = crate::test::node();
    let (mut server, _client) = node.pair_without_link();
    end_peers(&node, &mut server, &[4, 3]);
    let mut next = node.vm().bind_additional(Some(3)).unwrap();
    assert_eq!(next.address(), Address(3));
    next.notify(server.address()).unwrap();
    (node, server, next)
}

#[test]
fn a_receive_that_waits_notices_a_death_also_in_the_next_life_of_the_slot() {
    let (_node, mut server, next) = server_of_two_lives();
    // The fast path has left a wait that began before all this.
    let (left, source) = (LeftReceive::Wait, Source::From(next.address()));
    let received = server.end_receive(left, source, &mut Buffer::none(), Timeout::NoWait);
    assert_eq!(received.map_err(|error| error.code()), Err(Code::SrcDied));
    assert!(server.try_receive(source).unwrap().is_notification());
}

#[cfg(feature = "tokio")]
#[test]
fn a_later_look_of_a_receive_notices_a_death_also_in_the_next_life_of_the_slot() {
    let (_node, mut server, next) = server_of_two_lives();
    let source = Source::From(next.address());
    let received = server.receive_bytes_soon(source, true);
    assert_eq!(received.map_err(|error| error.code()), Err(Code::SrcDied));
    assert!(server.receive_bytes_soon(source, false).unwrap().0.is_notification);
}
