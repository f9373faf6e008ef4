//! Connections one after the other: prepared connections are like all others.

use crate::fixture::Fixture;
use m3ipc_sockets::{Domain, Errno, Listener, Stream};
use m3ipc_test_fixture::until;
use std::io::{Read, Write};

/// Connections of a round: more than are prepared at once.
const MANY: usize = 40;

/// Both ends of a connection, checked to be of the same one.
fn meet(from: &Domain, listener: &Listener) -> (Stream, Stream) {
    let mut here = from.connect(listener.local_addr()).expect("it connects");
    here.write_all(b"who").expect("it sends");
    let (mut there, peer) = listener.accept().expect("one waits");
    assert_eq!((peer, here.peer_addr()), (here.local_addr(), listener.local_addr()));
    let mut bytes = [0; 3];
    there.read_exact(&mut bytes).expect("bytes come");
    there.write_all(b"me!").expect("it sends");
    here.read_exact(&mut bytes).expect("bytes come");
    assert_eq!(&bytes, b"me!");
    (here, there)
}

#[test]
fn repeated_connections_reach_the_right_peer_each_time() {
    let fixture = Fixture::new("again");
    let other = Domain::join_numbered(fixture.node.directory(), &fixture.vm, 1).unwrap();
    let listener = fixture.domain.listen(80, 8).unwrap();
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..MANY {
        let (mut here, mut there) = meet(&other, &listener);
        assert!(ports.insert(here.local_addr().port()), "an address of one's own is given twice");
        // A prepared connection that is not open does not count.
        until("the two ends are listed", || fixture.counters().len() == 2);
        here.shutdown(m3ipc_sockets::Direction::Send).unwrap();
        assert_eq!(there.read(&mut [0; 8]).unwrap(), 0);
        drop(there);
        assert_eq!(here.read(&mut [0; 8]).unwrap(), 0);
        drop(here);
        until("closed ones are not listed", || fixture.counters().is_empty());
    }
    let mut open: Vec<_> = (0..MANY).map(|_| meet(&other, &listener)).collect();
    for (at, (here, there)) in open.iter_mut().enumerate() {
        let byte = u8::try_from(at).unwrap();
        here.write_all(&[byte]).unwrap();
        let mut got = [0];
        there.read_exact(&mut got).unwrap();
        assert_eq!(got, [byte], "another's byte");
    }
}

#[test]
fn no_connection_opens_to_a_closed_listener() {
    let fixture = Fixture::new("ended");
    let other = Domain::join_numbered(fixture.node.directory(), &fixture.vm, 1).unwrap();
    let listener = fixture.domain.listen(80, 8).unwrap();
    for _ in 0..MANY {
        meet(&other, &listener);
    }
    let to = listener.local_addr();
    drop(listener);
    assert_eq!(other.connect(to).unwrap_err().errno(), Errno::CONNREFUSED);
    // The next listener on the port gets the connections from then on.
    let next = fixture.domain.listen(80, 8).unwrap();
    for _ in 0..MANY {
        meet(&other, &next);
    }
    let id = fixture.vm.id();
    drop(m3ipc::Node::attach_at(fixture.node.directory()).unwrap().vm_end(id));
    until("nobody is reached in a VM that has ended", || other.connect(to).is_err());
}

#[test]
fn a_listener_is_ready_when_one_that_was_prepared_is_opened() {
    let fixture = Fixture::new("knock");
    let other = Domain::join_numbered(fixture.node.directory(), &fixture.vm, 1).unwrap();
    let listener = fixture.domain.listen(80, 64).unwrap();
    listener.set_nonblocking(true);
    let poll = m3ipc_sys::Poll::new().unwrap();
    poll.add(&listener, 7).unwrap();
    for _ in 0..MANY {
        let here = other.connect(listener.local_addr()).unwrap();
        let mut ready = Vec::new();
        poll.wait(&mut ready, Some(40_000_000_000)).unwrap();
        assert_eq!(ready.first().map(|event| event.token), Some(7), "nobody says that one waits");
        let (there, _) = listener.accept().unwrap();
        assert_eq!(there.peer_addr(), here.local_addr());
        assert!(listener.accept().is_err(), "one connection is taken twice");
    }
}
