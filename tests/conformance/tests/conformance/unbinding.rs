//! unbind, and other calls and events that unbind.

use crate::fixture::{Fixture, LONG, SHORT};
use crate::rows;
use m3ipc::{Address, Code, Message, Source, Timeout};

rows! {
    fn unbind_of_another_ends_its_blocked_call_with_65() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["receive:any"]);
        fixture.until_blocked(30, "receive");
        fixture.me.unbind_other(address).unwrap();
        assert_eq!(peer.code(), Code::Shutdown.number());
        assert!(fixture.node.endpoint(fixture.vm.id(), 30).unwrap().is_none());
    }

    fn unbind_of_another_sends_it_sigpipe() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["pipe"]);
        assert_eq!(peer.code(), 0);
        fixture.me.unbind_other(address).unwrap();
        assert_eq!(peer.died_of(), Some(13));
    }

    fn unbind_of_a_free_slot_is_310_and_of_another_generation_306() {
        let mut fixture = Fixture::new();
        let dead = fixture.dead(30);
        assert_eq!(fixture.node.unbind(fixture.vm.id(), dead).unwrap_err().code(), Code::NotBind);
        let (_peer, living) = fixture.bound(30, &[]);
        assert_eq!(living.generation(), dead.generation() + 1);
        assert_eq!(fixture.node.unbind(fixture.vm.id(), dead).unwrap_err().code(), Code::Endpoint);
    }

    fn exit_unbinds() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &[]);
        peer.leave();
        assert_eq!(fixture.me.wait_unbind(address, Timeout::Never), Ok(()));
        assert_eq!(fixture.me.send(address, &Message::new(0)).unwrap_err().code(), Code::DstDied);
    }

    fn exec_unbinds() {
        let mut fixture = Fixture::new();
        let (peer, address) = fixture.bound(30, &["exec"]);
        assert_eq!(fixture.me.wait_unbind(address, Timeout::Never), Ok(()));
        assert!(std::fs::exists(format!("/proc/{}", peer.pid())).unwrap(), "the process goes on");
    }

    fn death_by_a_signal_unbinds() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &[]);
        peer.kill();
        assert_eq!(fixture.me.wait_unbind(address, Timeout::Never), Ok(()));
    }

    fn after_fork_the_child_is_unbound_and_the_parent_is_not() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["fork", "send:1"]);
        assert_eq!(peer.code(), Code::NotBind.number());
        assert_eq!(fixture.me.receive(Source::Any).unwrap().source, address);
        assert_eq!(peer.code(), 0);
    }

    fn after_fork_the_child_of_a_polling_parent_is_unbound_too() {
        let fixture = Fixture::new();
        let (mut peer, _) = fixture.bound(30, &["arm", "fork"]);
        assert_eq!(peer.code(), Code::Again.number());
        assert_eq!(peer.code(), Code::NotBind.number());
    }

    fn the_end_of_a_thread_unbinds_its_endpoint_alone() {
        let mut fixture = Fixture::new();
        let vm = fixture.vm.clone();
        let ended = std::thread::spawn(move || {
            let endpoint = vm.bind_thread(Some(30)).unwrap();
            let address = endpoint.address();
            // The thread ends without unbinding.
            std::mem::forget(endpoint);
            address
        });
        let address = ended.join().unwrap();
        assert_eq!(fixture.me.wait_unbind(address, Timeout::Never), Ok(()));
        assert!(fixture.me.is_bound());
    }

    fn wait4unbind_returns_when_the_endpoint_is_gone() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &[]);
        let waiter = fixture.thread(31, move |waiter| waiter.wait_unbind(address, Timeout::Never));
        fixture.until_blocked(31, "wait4");
        peer.kill();
        assert_eq!(waiter.join().unwrap(), Ok(()));
    }

    fn wait4unbind_of_an_endpoint_that_is_gone_is_0_at_once() {
        let mut fixture = Fixture::new();
        let dead = fixture.dead(30);
        // A wait that does not end at once ends with -61. The answer of the daemon takes its time.
        assert_eq!(fixture.me.wait_unbind(dead, LONG), Ok(()));
        let (_peer, _) = fixture.bound(30, &[]);
        assert_eq!(fixture.me.wait_unbind(dead, LONG), Ok(()));
    }

    fn wait4unbind_beyond_its_limit_is_61_and_of_oneself_306() {
        let mut fixture = Fixture::new();
        let (_peer, address) = fixture.bound(30, &[]);
        assert_eq!(fixture.me.wait_unbind(address, SHORT).unwrap_err().code(), Code::TimedOut);
        assert_eq!(fixture.me.wait_unbind(Address(1), LONG).unwrap_err().code(), Code::Endpoint);
    }
}
