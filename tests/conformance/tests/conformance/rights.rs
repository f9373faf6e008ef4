//! Privileges: -104 and -110 are real.

use crate::fixture::Fixture;
use crate::rows;
use m3ipc::{Address, Code, Location, Message, Source, Timeout};
use m3ipc_abi::Verb;

/// The call of an endpoint that may not use the verb.
fn without(verb: Verb, call: impl FnOnce(&mut Fixture) -> Code) {
    let mut fixture = Fixture::new();
    let all = fixture.node.privileges(fixture.vm.id(), Address(1)).unwrap();
    let shut = m3ipc::Privileges { traps: all.traps & !verb.mask(), ..all };
    fixture.node.set_privileges(fixture.vm.id(), Address(1), shut).unwrap();
    assert_eq!(call(&mut fixture), Code::TrapDenied);
}

rows! {
    fn send_without_its_trap_is_110() {
        without(Verb::Send, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.send(peer, &Message::new(0)).unwrap_err().code()
        });
    }

    fn receive_without_its_trap_is_110() {
        without(Verb::Receive, |fixture| fixture.me.try_receive(Source::Any).unwrap_err().code());
    }

    fn sendrec_without_its_trap_is_110() {
        without(Verb::Sendrec, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.sendrec(peer, &Message::new(0)).unwrap_err().code()
        });
    }

    fn notify_without_its_trap_is_110() {
        without(Verb::Notify, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.notify(peer).unwrap_err().code()
        });
    }

    fn rcvrqst_without_its_trap_is_110() {
        without(Verb::Rcvrqst, |fixture| {
            fixture.me.rcvrqst(&mut [], Timeout::NoWait).unwrap_err().code()
        });
    }

    fn reply_without_its_trap_is_110() {
        without(Verb::Reply, |fixture| {
            let peer = fixture.dead(30);
            fixture.reply_code(peer)
        });
    }

    fn relay_without_its_trap_is_110() {
        without(Verb::Relay, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.relay(peer, peer).unwrap_err().code()
        });
    }

    fn wakeup_without_its_trap_is_110() {
        without(Verb::Wakeup, |fixture| {
            let (tell, told) = std::sync::mpsc::channel();
            let peer = fixture.thread(30, move |peer| {
                tell.send(peer.address()).unwrap();
                peer.receive(Address(1)).unwrap()
            });
            let address = told.recv().unwrap();
            fixture.until_blocked(30, "receive");
            let denied = fixture.me.wakeup(address).unwrap_err().code();
            fixture.me.send(address, &Message::new(0)).unwrap();
            peer.join().unwrap();
            denied
        });
    }

    fn vcopy_without_its_trap_is_110() {
        without(Verb::Vcopy, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.copy_to(peer, 8, &[0; 8]).unwrap_err().code()
        });
    }

    fn vcopy_between_others_without_its_trap_is_110() {
        without(Verb::Vcopy, |fixture| {
            let from = (fixture.dead(30), Location::At(8));
            let to = (fixture.dead(31), Location::At(8));
            fixture.me.copy_between(from, to, 8, Timeout::Never).unwrap_err().code()
        });
    }

    fn src_notify_without_its_trap_is_110() {
        without(Verb::SrcNotify, |fixture| {
            let peer = fixture.dead(30);
            fixture.me.notify_for(Address(1), peer).unwrap_err().code()
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
