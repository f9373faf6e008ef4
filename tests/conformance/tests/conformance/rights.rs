//! Privileges: -104 and -110 are real.

use crate::rows;
use crate::world::World;
use m3ipc::{Address, Code, Message, Source, Timeout};

/// The traps in the order of their bits, and the verbs' codes when one is shut.
fn without(trap: u32, call: impl FnOnce(&mut World) -> Code) {
    let mut world = World::new();
    let all = world.node.privileges(world.vm.id(), Address(1)).unwrap();
    let shut = m3ipc::Privileges { traps: all.traps & !(1 << trap), ..all };
    world.node.set_privileges(world.vm.id(), Address(1), shut).unwrap();
    assert_eq!(call(&mut world), Code::TrapDenied);
}

rows! {
    fn send_without_its_trap_is_110() {
        without(0, |world| {
            let peer = world.dead(30);
            world.me.send(peer, &Message::new(0)).unwrap_err().code()
        });
    }

    fn receive_without_its_trap_is_110() {
        without(1, |world| world.me.try_receive(Source::Any).unwrap_err().code());
    }

    fn sendrec_without_its_trap_is_110() {
        without(2, |world| {
            let peer = world.dead(30);
            world.me.sendrec(peer, &Message::new(0)).unwrap_err().code()
        });
    }

    fn notify_without_its_trap_is_110() {
        without(3, |world| {
            let peer = world.dead(30);
            world.me.notify(peer).unwrap_err().code()
        });
    }

    fn rcvrqst_without_its_trap_is_110() {
        without(4, |world| world.me.rcvrqst(&mut [], Timeout::NoWait).unwrap_err().code());
    }

    fn reply_without_its_trap_is_110() {
        without(5, |world| {
            let peer = world.dead(30);
            world.me.reply(peer, &Message::new(0)).unwrap_err().code()
        });
    }

    fn relay_without_its_trap_is_110() {
        without(6, |world| {
            let peer = world.dead(30);
            world.me.relay(peer, peer).unwrap_err().code()
        });
    }

    fn a_partner_outside_ipc_to_is_104() {
        let mut world = World::new();
        let (_allowed, yes) = world.bound(30, &["receive:any"]);
        let (_denied, no) = world.bound(31, &["receive:any"]);
        let all = world.node.privileges(world.vm.id(), Address(1)).unwrap();
        let some = m3ipc::Privileges { ipc_to: Some(vec![30]), ..all };
        world.node.set_privileges(world.vm.id(), Address(1), some).unwrap();
        assert_eq!(world.me.send(no, &Message::new(0)).unwrap_err().code(), Code::CallDenied);
        assert_eq!(world.me.notify(no).unwrap_err().code(), Code::CallDenied);
        world.me.send(yes, &Message::new(0)).unwrap();
    }

    fn a_partner_outside_ipc_from_is_104() {
        let mut world = World::new();
        let all = world.node.privileges(world.vm.id(), Address(1)).unwrap();
        let some = m3ipc::Privileges { ipc_from: Some(vec![30]), ..all };
        world.node.set_privileges(world.vm.id(), Address(1), some).unwrap();
        let (mut denied, _) = world.bound(31, &["send:1"]);
        assert_eq!(denied.code(), Code::CallDenied.number());
        let (_allowed, address) = world.bound(30, &["send:1"]);
        assert_eq!(world.me.receive(Source::Any).unwrap().source, address);
    }

    fn who_sent_is_known_by_process_and_user() {
        let mut world = World::new();
        let (peer, address) = world.bound(30, &["send:1"]);
        world.me.receive(Source::Any).unwrap();
        let identity = world.me.peer(address).unwrap();
        assert_eq!((identity.pid, identity.uid), (peer.pid(), m3ipc_sys::user_id()));
    }
}
