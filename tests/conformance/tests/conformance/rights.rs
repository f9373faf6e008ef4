//! Privileges: -104 and -110 are real.

use crate::fixture::Fixture;
use crate::rows;
use m3ipc::{Address, Code, Message, Source, Timeout};

/// The traps in the order of their bits, and the verbs' codes when one is shut.
fn without(trap: u32, call: impl FnOnce(&mut Fixture) -> Code) {
    let mut fixture = Fixture::new();
    let all = fixture.node.privileges(fixture.vm.id(), Address(1)).unwrap();
    let shut = m3ipc::Privileges { traps: all.traps & !(1 << trap), ..all };
    fixture.node.set_privileges(fixture.vm.id(), Address(1), shut).unwrap();
    assert_eq!(call(&mut fixture), Code::TrapDenied);
}

rows! {
    fn send_without_its_trap_is_110() {
        without(0, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.send(peer, &Message::new(0)).unwrap_err().code()
        });
    }

    fn receive_without_its_trap_is_110() {
        without(1, |fixture| fixture.me.try_receive(Source::Any).unwrap_err().code());
    }

    fn sendrec_without_its_trap_is_110() {
        without(2, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.sendrec(peer, &Message::new(0)).unwrap_err().code()
        });
    }

    fn notify_without_its_trap_is_110() {
        without(3, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.notify(peer).unwrap_err().code()
        });
    }

    fn rcvrqst_without_its_trap_is_110() {
        without(4, |fixture| fixture.me.rcvrqst(&mut [], Timeout::NoWait).unwrap_err().code());
    }

    fn reply_without_its_trap_is_110() {
        without(5, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.reply(peer, &Message::new(0)).unwrap_err().code()
        });
    }

    fn relay_without_its_trap_is_110() {
        without(6, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.relay(peer, peer).unwrap_err().code()
        });
    }

    fn a_partner_outside_ipc_to_is_104() {
        let mut fixture = Fixture::new();
        let (_allowed, yes) = fixture.bound(30, &["receive:any"]);
        let (_denied, no) = fixture.bound(31, &["receive:any"]);
        let all = fixture.node.privileges(fixture.vm.id(), Address(1)).unwrap();
        let some = m3ipc::Privileges { ipc_to: Some(vec![30]), ..all };
        fixture.node.set_privileges(fixture.vm.id(), Address(1), some).unwrap();
        assert_eq!(fixture.me.send(no, &Message::new(0)).unwrap_err().code(), Code::CallDenied);
        assert_eq!(fixture.me.notify(no).unwrap_err().code(), Code::CallDenied);
        fixture.me.send(yes, &Message::new(0)).unwrap();
    }

    fn a_partner_outside_ipc_from_is_104() {
        let mut fixture = Fixture::new();
        let all = fixture.node.privileges(fixture.vm.id(), Address(1)).unwrap();
        let some = m3ipc::Privileges { ipc_from: Some(vec![30]), ..all };
        fixture.node.set_privileges(fixture.vm.id(), Address(1), some).unwrap();
        let (mut denied, _) = fixture.bound(31, &["send:1"]);
        assert_eq!(denied.code(), Code::CallDenied.number());
        let (_allowed, address) = fixture.bound(30, &["send:1"]);
        assert_eq!(fixture.me.receive(Source::Any).unwrap().source, address);
    }

    fn the_sender_is_known_by_process_and_user() {
        let mut fixture = Fixture::new();
        let (peer, address) = fixture.bound(30, &["send:1"]);
        fixture.me.receive(Source::Any).unwrap();
        let identity = fixture.me.peer(address).unwrap();
        assert_eq!((identity.pid, identity.uid), (peer.pid(), m3ipc_sys::user_id()));
    }
}
