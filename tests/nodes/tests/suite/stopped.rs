//! A proxy that is stopped: each call of its node ends, and those that need no other node succeed.

use m3ipc::{Address, Code, Message};
use m3ipc_test_fixture::{until, watchdog};
use m3ipc_test_nodes::{Cluster, VM};
use std::time::Duration;

const CLIENT: i32 = 1;
const NEIGHBOUR: i32 = 2;
const SERVER: i32 = 10;
const TO: Address = Address(SERVER);
/// A slot of the other node that nobody has.
const NOBODY: Address = Address(11);
const SHORT: Duration = Duration::from_millis(50);

#[test]
fn a_stopped_proxy_holds_up_no_call_with_a_limit_and_no_question() {
    watchdog(120);
    let cluster = Cluster::new("stopped");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    let mut neighbour = cluster.alpha.vm.bind_additional(Some(NEIGHBOUR)).expect("a free slot");
    cluster.alpha.await_endpoint(TO);
    let mut node = cluster.alpha.fixture.node();
    cluster.alpha.proxy.signal("STOP");
    let message = Message::new(7);
    // Nobody takes the messages, and the codes say so. After a withdrawal the slot is free.
    let sent = client.send_timeout(TO, &message, SHORT).map_err(|error| error.code());
    assert_eq!(sent, Err(Code::TimedOut));
    let asked = client.sendrec_timeout(TO, &message, SHORT).map_err(|error| error.code());
    assert_eq!(asked.map(|it| it.m_type), Err(Code::TimedOut));
    client.notify(TO).expect("a notification waits in its link");
    assert!(client.copy_from(TO, 4096_u64, &mut [0; 8]).is_err(), "nothing was lent");
    let waited = client.wait_bind(NOBODY, SHORT).map_err(|error| error.code());
    assert_eq!(waited, Err(Code::TimedOut));
    assert!(client.unbind_other(TO).is_err_and(|error| error.code() == Code::RmtProc));
    client.name_attach("alpha's").expect("it is free here");
    assert!(client.name_locate("beta's").is_err_and(|error| error.code() == Code::NoNode));
    let others = node.other_nodes().expect("the daemon knows them");
    assert_eq!(others.proxy_pid, Some(cluster.alpha.proxy.pid().cast_signed()));
    // Endpoints of this node need no proxy.
    let pending = client.begin_request(neighbour.address(), &message).expect("it is here");
    assert_eq!(neighbour.receive(m3ipc::Source::Any).map(|it| it.source).ok(), Some(Address(1)));
    assert_eq!(client.abandon(&pending), None);
    cluster.alpha.proxy.signal("CONT");
    until("calls cross again", || {
        let sent = client.send_timeout(TO, &message, Duration::from_secs(1));
        let taken = server.receive_timeout(m3ipc::Source::From(Address(CLIENT)), SHORT);
        sent.is_ok() || taken.is_ok()
    });
}

#[test]
fn a_stopped_proxy_holds_up_no_end_of_a_vm() {
    watchdog(120);
    let cluster = Cluster::new("stopped-end");
    let _server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let client = cluster.alpha.program("silent", CLIENT);
    cluster.alpha.await_endpoint(TO);
    cluster.alpha.proxy.signal("STOP");
    cluster.alpha.fixture.node().vm_end(VM).expect("its members end");
    drop(client);
}
