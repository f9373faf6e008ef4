//! A peer that broke the rules of its link reaches nobody any more.

use m3ipc::{Address, Code, Endpoint, Message, SendError, Source, Vm};
use m3ipc_link::{LINK_BYTES, held, slot};
use m3ipc_test_fixture::raw::{PeerPages, RawMember};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use m3ipc_wire::{BindKind, Reply, Request};
use std::time::Duration;

/// A member without the library, and its link with `me`.
fn raw_peer(fixture: &NodeFixture, vm: &Vm, me: &Endpoint) -> (RawMember, Address, PeerPages) {
    let mut raw = RawMember::greeted(fixture.directory()).expect("a connection");
    let bind = Request::Bind { vm: vm.id(), slot: None, kind: BindKind::Additional, nonce: 1 };
    let Some((Reply::Bound { address, .. }, _pages)) = raw.request(&bind) else {
        panic!("the member is not bound")
    };
    assert!(matches!(raw.request(&Request::Mapped), Some((Reply::Done, _))));
    let pages = raw.contact(me.address().0).expect("a link");
    (raw, Address(address), pages)
}

/// Only the proxy of the node may hold a message. A peer that writes such a word is no proxy, and
/// nothing of what it claims is believed: not that the outcome is unknown, and no code.
#[test]
fn a_peer_that_is_no_proxy_holds_no_message() {
    watchdog(120);
    /// The slot of the party that did not ask for the link.
    const SLOT: usize = 0x40;
    const LIMIT: Duration = Duration::from_millis(200);
    let fixture = NodeFixture::new("holders");
    let vm = fixture.vm("holders");
    let mut me = vm.bind_any().expect("a slot");
    for last_step in 0..4 {
        let (_raw, address, pages) = raw_peer(&fixture, &vm, &me);
        while me.peer(address).is_none() {
            let _ = me.receive_timeout(Source::Any, LIMIT);
        }
        let failed = std::thread::scope(|scope| {
            let calling = scope.spawn(|| {
                let asked = me.sendrec_timeout(address, &Message::new(1), LIMIT);
                asked.expect_err("nobody answers").code()
            });
            let word = pages.link.word64(SLOT);
            let request = loop {
                match slot::peek(word) {
                    Ok(Some(request)) => break request,
                    _ if calling.is_finished() => return calling.join().expect("it ends"),
                    _ => std::hint::spin_loop(),
                }
            };
            let is_held = held::hold(word, request);
            match last_step {
                1 => drop(held::give_back(word, request)),
                2 => drop(held::lose(word, request)),
                3 => drop(held::take(word, request) && held::lose_answer(word, request)),
                _ => {}
            }
            let failed = calling.join().expect("it ends");
            assert!(failed == Code::PeerBroke || !is_held, "step {last_step} ends with {failed}");
            failed
        });
        assert!(matches!(failed, Code::PeerBroke | Code::TimedOut), "{failed}");
    }
}

#[test]
fn a_notification_of_a_poisoned_peer_does_not_arrive() {
    watchdog(60);
    let fixture = NodeFixture::new("poisoned");
    let vm = fixture.vm("poisoned");
    let mut me = vm.bind_any().expect("a slot");
    let (_raw, address, pages) = raw_peer(&fixture, &vm, &me);
    let receive = |me: &mut m3ipc::Endpoint| {
        // All states are invalid, and each bit of the notification is set.
        pages.link.write(0, &[0xff; LINK_BYTES]);
        me.receive_timeout(Source::Any, Duration::from_millis(20))
    };
    // The first one over the link may come before the broken rule is found.
    while me.peer(address).is_none() {
        let _ = receive(&mut me);
    }
    let _ = receive(&mut me);
    for _ in 0..5 {
        let received = receive(&mut me);
        assert!(received.is_err(), "{received:?}");
    }
    let sent = me.send(address, &Message::new(1));
    assert!(matches!(sent, Err(SendError::PeerBroke(_))), "{sent:?}");
}
