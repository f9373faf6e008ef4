//! Domains that the VM's configuration names.

use crate::fixture::Fixture;
use m3ipc::{Code, VmConfig};
use m3ipc_sockets::{Domain, Errno};
use std::io::{Read, Write};
use std::net::SocketAddrV4;

#[test]
fn a_domain_is_joined_and_reached_by_its_name_also_after_a_kill_of_the_daemon() {
    let mut fixture = Fixture::new("names");
    let config = VmConfig::new("named").domain("front", 0).domain("store", 7).grace_ms(0);
    let vm = fixture.node.node().vm_init(&config).expect("a VM");
    assert_eq!(
        (vm.domain("front"), vm.domain("store"), vm.domain("back")),
        (Some(0), Some(7), None)
    );
    for round in 0..2 {
        let vm = fixture.node.node().vm_named("named").expect("a VM");
        let directory = fixture.node.directory();
        let store = Domain::join_named(directory, &vm, "store").expect("a domain");
        assert_eq!(store.number(), 7, "round {round}");
        let listener = store.listen(80, 4).expect("a port");
        let front = Domain::join_named(directory, &vm, "front").expect("a domain");
        let at = SocketAddrV4::new(front.address_named(&vm, "store").expect("an address"), 80);
        let mut sent = front.connect(at).expect("a connection");
        let (mut came, from) = listener.accept().expect("a connection");
        sent.write_all(b"by name").expect("room");
        let mut bytes = [0; 7];
        came.read_exact(&mut bytes).expect("bytes");
        assert_eq!((&bytes, *from.ip()), (b"by name", front.address()));
        let unknown = Domain::join_named(directory, &vm, "back").expect_err("no such name");
        assert_eq!(unknown.errno(), Errno::ADDRNOTAVAIL);
        assert!(unknown.to_string().contains("front, store"), "{unknown}");
        assert_eq!(
            front.address_named(&vm, "back").expect_err("no such name").errno(),
            Errno::ADDRNOTAVAIL
        );
        drop((store, front, listener, sent, came));
        fixture.node.kill_daemon();
        fixture.node.restart_daemon();
    }
}

#[test]
fn a_join_without_a_name_gets_no_named_domain() {
    let fixture = Fixture::new("unnamed");
    let mut config = VmConfig::new("crowd").grace_ms(0);
    for number in [0, 1, 3] {
        config = config.domain(&format!("seat {number}"), number);
    }
    let vm = fixture.node.node().vm_init(&config).expect("a VM");
    // One process has one domain of its own, however often it asks.
    let mine = Domain::join(fixture.node.directory(), &vm).expect("a domain");
    let again = Domain::join(fixture.node.directory(), &vm).expect("a domain");
    assert_eq!((mine.number(), again.number()), (2, 2));
    let named = Domain::join_named(fixture.node.directory(), &vm, "seat 3").expect("a domain");
    assert_eq!(named.number(), 3);
}

#[test]
fn names_that_cannot_be_are_refused_and_nothing_is_made() {
    let fixture = Fixture::new("wrong");
    let config = || VmConfig::new("never");
    let wrong = [
        config().domain("", 1),
        config().domain("a name of 16 byt", 1),
        config().domain("12", 1),
        config().domain("two\nlines", 1),
        config().domain("far", 253),
        config().domain("a", 1).domain("b", 1),
        (0..33).fold(config(), |config, at| config.domain(&format!("d{at}"), at)),
    ];
    let mut node = fixture.node.node();
    for config in &wrong {
        let refused = node.vm_init(config).expect_err("it cannot be");
        assert_eq!(refused.code(), Code::BadValue, "{config:?}: {refused}");
    }
    assert!(node.vm_named("never").is_err(), "one was made");
    let most = (0..32).fold(config(), |config, at| config.domain(&format!("the domain {at}"), at));
    assert_eq!(node.vm_init(&most).expect("as many as may be").info().domains.len(), 32);
}
