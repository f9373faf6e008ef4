//! A peer that broke the rules of its link reaches nobody any more.

use m3ipc::{Message, SendError, Source};
use m3ipc_link::LINK_BYTES;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{NodeFixture, watchdog};
use m3ipc_wire::{BindKind, Reply, Request};
use std::time::Duration;

#[test]
fn a_notification_of_a_poisoned_peer_does_not_arrive() {
    watchdog(60);
    let fixture = NodeFixture::new("poisoned");
    let vm = fixture.vm("poisoned");
    let mut me = vm.bind_any().expect("a slot");
    let mut raw = RawMember::greeted(fixture.directory()).expect("a connection");
    let bind = Request::Bind { vm: vm.id(), slot: None, kind: BindKind::Additional, nonce: 1 };
    let Some((Reply::Bound { address, .. }, _pages)) = raw.request(&bind) else {
        panic!("the member is not bound")
    };
    assert!(matches!(raw.request(&Request::Mapped), Some((Reply::Done, _))));
    let pages = raw.contact(me.address().0).expect("a link");
    let receive = |me: &mut m3ipc::Endpoint| {
        // All states are invalid, and each bit of the notification is set.
        pages.link.write(0, &[0xff; LINK_BYTES]);
        me.receive_timeout(Source::Any, Duration::from_millis(20))
    };
    // The first one over the link may come before the broken rule is found.
    while me.peer(m3ipc::Address(address)).is_none() {
        let _ = receive(&mut me);
    }
    let _ = receive(&mut me);
    for _ in 0..5 {
        let received = receive(&mut me);
        assert!(received.is_err(), "{received:?}");
    }
    let sent = me.send(m3ipc::Address(address), &Message::new(1));
    assert!(matches!(sent, Err(SendError::PeerBroke(_))), "{sent:?}");
}
