//! Children by fork, while other threads are inside the sockets of their parent.

use crate::fixture::Fixture;
use m3ipc_sockets::{
    Direction, Domain, Errno, Interest, Listener, Mode, Poller, ReceiveOptions, Stream,
};
use m3ipc_test_fixture::{in_child, until};
use std::io::Write;

const WAIT: ReceiveOptions = ReceiveOptions { wait: true, peek: false };

fn connection(domain: &Domain, listener: &Listener) -> (Stream, Stream) {
    let one = domain.connect(listener.local_addr()).expect("a connection");
    (one, listener.accept().expect("a connection").0)
}

/// The threads sleep with the locks of a stream and of a poller in their hands. A child that took
/// one would hang.
#[test]
fn a_child_gets_errors_beside_locks_that_are_held() {
    let fixture = Fixture::new("forks");
    let domain = &fixture.domain;
    let listener = domain.listen(0, 8).unwrap();
    let (mut end, stream) = connection(domain, &listener);
    let (mut other_end, other) = connection(domain, &listener);
    let poller = Poller::new().unwrap();
    poller.add(&other, 0, Interest::Read, Mode::Level).unwrap();
    let datagrams = domain.datagrams(0).unwrap();
    // Objects that end in the child, and here.
    let ends = (connection(domain, &listener), domain.clone(), domain.listen(0, 8).unwrap());
    let (began, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (stream, poller, one, two) = (&stream, &poller, began.clone(), began);
        scope.spawn(move || {
            one.send(m3ipc_sys::thread_id()).unwrap();
            stream.receive(&mut [0; 8], WAIT)
        });
        scope.spawn(move || {
            two.send(m3ipc_sys::thread_id()).unwrap();
            poller.wait(&mut vec![], None)
        });
        let own = m3ipc_sys::process_id();
        for thread in [begun.recv().unwrap(), begun.recv().unwrap()] {
            until("the thread sleeps", || m3ipc_sys::thread_sleeps(own, thread) == Ok(true));
        }
        let told = in_child(|| {
            let is_forked = |it: Result<(), Errno>| assert_eq!(it, Err(Errno::NOTCONN));
            is_forked(stream.receive(&mut [0; 8], WAIT).map(drop));
            is_forked(stream.send(b"x", true).map(drop));
            is_forked(stream.shutdown(Direction::Both));
            is_forked(stream.available().map(drop));
            is_forked(stream.set_nonblocking(true).map_err(|e| Errno::from_io_error(&e).unwrap()));
            assert_eq!(stream.wakeups(), m3ipc_sockets::WakeupCounts::default());
            is_forked(poller.wait(&mut vec![], None));
            is_forked(poller.notify());
            let own_poller = Poller::new().unwrap();
            is_forked(own_poller.add(stream, 0, Interest::Read, Mode::Level));
            is_forked(own_poller.remove(&other));
            is_forked(listener.accept_timeout(true, u64::MAX).map(drop).map_err(|e| e.errno()));
            is_forked(datagrams.receive(&mut [0; 8], WAIT).map(drop));
            let to = datagrams.local_addr();
            is_forked(datagrams.send_to(b"x", to, true).map(drop).map_err(|e| e.errno()));
            is_forked(datagrams.connect(Some(to)).map_err(|e| e.errno()));
            assert_eq!(datagrams.peer_addr(), None);
            is_forked(domain.connect(listener.local_addr()).map(drop).map_err(|e| e.errno()));
            drop(ends);
            let own = Domain::join(fixture.node.directory(), &fixture.vm).unwrap();
            own.listen(0, 8).is_ok() && own.datagrams(0).is_ok()
        });
        end.write_all(b"end").unwrap();
        other_end.write_all(b"end").unwrap();
        assert!(told, "see the panic of the child");
    });
}
