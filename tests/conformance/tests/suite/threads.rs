//! Endpoints and the threads that bind them.

use m3ipc::{Address, Message};
use m3ipc_test_fixture::{AreaProcess, NodeFixture, area_turn};

/// An endpoint belongs to its process. The thread that bound it may end, and peers still learn of
/// the death of the process. A process may have several endpoints.
#[test]
fn an_endpoint_outlives_the_thread_that_bound_it() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("moved");
    let vm = fixture.vm("moved");
    let mut me = vm.bind(1).unwrap();
    let mut other = vm.bind_additional(Some(2)).unwrap();
    let mut member = AreaProcess::start(&fixture, &vm, 3, &["moved"]);
    let second = std::thread::spawn(move || {
        let ended = other.sendrec(Address(4), &Message::new(1));
        (other, ended)
    });
    let first = std::thread::spawn(move || {
        let ended = me.sendrec(Address(3), &Message::new(1));
        (me, ended)
    });
    let mut taken = [member.line(), member.line()];
    taken.sort();
    assert_eq!(taken, ["3", "4"], "both have a request");
    member.kill();
    let ((mut me, first), (other, second)) = (first.join().unwrap(), second.join().unwrap());
    assert_eq!(first.unwrap_err(), m3ipc::SendRecError::DiedAfter(Address(3)));
    assert_eq!(second.unwrap_err(), m3ipc::SendRecError::DiedAfter(Address(4)));
    drop(other);
    assert!(me.is_bound(), "the first endpoint stays");
}
