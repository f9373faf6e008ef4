//! The order of checks: caller bound, slot range, self, generation, free slot.

use crate::rows;
use crate::world::World;
use m3ipc::{ANY, Address, Code, Message, NONE, SELF};

/// The codes of all verbs that name a partner.
fn codes(world: &mut World, peer: Address) -> [Code; 5] {
    let message = Message::new(0);
    [
        world.me.send(peer, &message).unwrap_err().code(),
        world.me.sendrec(peer, &message).unwrap_err().code(),
        world.me.receive(m3ipc::Source::From(peer)).unwrap_err().code(),
        world.me.notify(peer).unwrap_err().code(),
        world.me.reply(peer, &message).unwrap_err().code(),
    ]
}

rows! {
    fn a_slot_out_of_range_is_34() {
        let mut world = World::new();
        for slot in [64, -5] {
            let codes = codes(&mut world, Address::new(1, slot));
            assert_eq!(codes, [Code::Range; 5], "{slot}");
        }
    }

    fn any_none_and_self_are_no_destination_34() {
        let mut world = World::new();
        for peer in [ANY, NONE, SELF] {
            let message = Message::new(0);
            assert_eq!(world.me.send(peer, &message).unwrap_err().code(), Code::Range);
            assert_eq!(world.me.sendrec(peer, &message).unwrap_err().code(), Code::Range);
            assert_eq!(world.me.notify(peer).unwrap_err().code(), Code::Range);
        }
    }

    fn oneself_is_306() {
        let mut world = World::new();
        assert_eq!(codes(&mut world, Address(1)), [Code::Endpoint; 5]);
        assert_eq!(world.me.wakeup(Address(1)).unwrap_err().code(), Code::Endpoint);
    }

    fn another_generation_is_306_whether_the_slot_is_free_or_not() {
        let mut world = World::new();
        let first = world.dead(30);
        let (mut peer, _second) = world.bound(30, &[]);
        assert_eq!(codes(&mut world, first), [Code::Endpoint; 5]);
        peer.kill();
        world.until_free(30);
        assert_eq!(codes(&mut world, first), [Code::Endpoint; 5]);
    }

    fn a_free_slot_is_told_by_the_died_code_of_each_verb() {
        let mut world = World::new();
        let dead = world.dead(30);
        let expected = [Code::DstDied, Code::DeadSrcDst, Code::SrcDied, Code::DstDied, Code::DstDied];
        assert_eq!(codes(&mut world, dead), expected);
        assert_eq!(world.me.wakeup(dead).unwrap_err().code(), Code::DstDied);
    }

    fn a_system_slot_that_nobody_ever_held_is_dead_not_stale() {
        let mut world = World::new();
        assert_eq!(world.me.send(Address(7), &Message::new(0)).unwrap_err().code(), Code::DstDied);
    }

    fn who_is_not_bound_any_more_is_told_310_before_anything_else() {
        let mut world = World::new();
        let (go, gone) = std::sync::mpsc::channel();
        let peer = world.thread(30, move |peer| {
            gone.recv().unwrap();
            let first = peer.send(Address(1000), &Message::new(0)).unwrap_err().code();
            (first, peer.is_bound())
        });
        let address = Address(world.node.endpoint(world.vm.id(), 30).unwrap().unwrap().address);
        let limit = crate::world::SHORT;
        let _ = world.node.unbind_timeout(world.vm.id(), address, limit);
        go.send(()).unwrap();
        assert_eq!(peer.join().unwrap(), (Code::NotBind, false));
    }
}
