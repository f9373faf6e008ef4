//! The order of checks: caller bound, slot range, self, generation, free slot.

use crate::fixture::Fixture;
use crate::rows;
use m3ipc::{ANY, Address, Code, Message, NONE, SELF, Timeout};

/// The codes of all verbs that name a partner.
fn codes(fixture: &mut Fixture, peer: Address) -> [Code; 5] {
    let message = Message::new(0);
    [
        fixture.me.send(peer, &message).unwrap_err().code(),
        fixture.me.sendrec(peer, &message).unwrap_err().code(),
        fixture.me.receive(m3ipc::Source::From(peer)).unwrap_err().code(),
        fixture.me.notify(peer).unwrap_err().code(),
        fixture.reply_code(peer),
    ]
}

rows! {
    fn a_slot_out_of_range_is_34() {
        let mut fixture = Fixture::new();
        for slot in [64, -5] {
            let codes = codes(&mut fixture, Address::new(1, slot));
            assert_eq!(codes, [Code::Range; 5], "{slot}");
        }
    }

    fn any_none_and_self_are_no_destination_34() {
        let mut fixture = Fixture::new();
        for peer in [ANY, NONE, SELF] {
            let message = Message::new(0);
            assert_eq!(fixture.me.send(peer, &message).unwrap_err().code(), Code::Range);
            assert_eq!(fixture.me.sendrec(peer, &message).unwrap_err().code(), Code::Range);
            assert_eq!(fixture.me.notify(peer).unwrap_err().code(), Code::Range);
        }
    }

    fn oneself_is_306() {
        let mut fixture = Fixture::new();
        assert_eq!(codes(&mut fixture, Address(1)), [Code::Endpoint; 5]);
        assert_eq!(fixture.me.wakeup(Address(1)).unwrap_err().code(), Code::Endpoint);
    }

    fn another_generation_is_306_whether_the_slot_is_free_or_not() {
        let mut fixture = Fixture::new();
        let first = fixture.dead(30);
        let (mut peer, _second) = fixture.bound(30, &[]);
        assert_eq!(codes(&mut fixture, first), [Code::Endpoint; 5]);
        peer.kill();
        fixture.until_free(30);
        assert_eq!(codes(&mut fixture, first), [Code::Endpoint; 5]);
    }

    fn a_free_slot_is_the_died_code_of_each_verb() {
        let mut fixture = Fixture::new();
        let dead = fixture.dead(30);
        let expected =
            [Code::DstDied, Code::DeadSrcDst, Code::SrcDied, Code::DstDied, Code::DstDied];
        assert_eq!(codes(&mut fixture, dead), expected);
        assert_eq!(fixture.me.wakeup(dead).unwrap_err().code(), Code::DstDied);
    }

    fn a_system_slot_that_was_never_bound_is_dead_not_stale() {
        let mut fixture = Fixture::new();
        assert_eq!(
            fixture.me.send(Address(7), &Message::new(0)).unwrap_err().code(),
            Code::DstDied
        );
    }

    fn an_unbound_caller_is_310_before_any_other_check() {
        let mut fixture = Fixture::new();
        let (go, gone) = std::sync::mpsc::channel();
        let peer = fixture.thread(30, move |peer| {
            gone.recv().unwrap();
            let first = peer.send(Address(1000), &Message::new(0)).unwrap_err().code();
            (first, peer.is_bound())
        });
        let address = Address(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().unwrap().address);
        let _ = fixture.node.unbind_timeout(fixture.vm.id(), address, Timeout::NoWait);
        // The daemon serves a connection in order: this answer says that it has told the peer.
        fixture.node.endpoint(fixture.vm.id(), 30).unwrap();
        go.send(()).unwrap();
        assert_eq!(peer.join().unwrap(), (Code::NotBind, false));
    }
}
