//! bind, tbind, lclbind, getep and the waits for them.

use crate::fixture::{Fixture, LONG, SHORT};
use crate::rows;
use m3ipc::{Address, Code, Message, Source, Timeout, VmConfig};
use m3ipc_test_fixture::NodeFixture;

rows! {
    fn bind_gives_the_endpoint_of_the_slot() {
        let fixture = Fixture::new();
        assert_eq!(fixture.me.address(), Address(1));
        assert_eq!(fixture.bound(30, &[]).1, Address::new(1, 30));
    }

    fn bind_of_a_slot_out_of_range_is_34() {
        let fixture = Fixture::new();
        for slot in [64, -5] {
            let refused = fixture.vm.bind_thread(Some(slot)).unwrap_err();
            assert_eq!(refused.code(), Code::Range, "{slot}");
        }
    }

    fn bind_of_a_taken_slot_is_337() {
        let fixture = Fixture::new();
        let mut other = fixture.process("1", &[]);
        assert_eq!(other.line(), "refused -337");
    }

    fn a_process_is_bound_once() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.vm.bind(30).unwrap_err().code(), Code::SlotUsed);
        let second = fixture.node.vm_init(&VmConfig::new("second")).unwrap();
        assert_eq!(second.bind(1).unwrap_err().code(), Code::SlotUsed);
    }

    fn bind_in_a_vm_that_has_ended_is_303_or_302() {
        let mut fixture = Fixture::new();
        let second = fixture.node.vm_init(&VmConfig::new("second")).unwrap();
        fixture.node.vm_end(second.id()).unwrap();
        let code = second.bind(2).unwrap_err().code();
        assert!([Code::VmNotRun, Code::BadVmId].contains(&code), "{code:?}");
    }

    fn bind_without_a_daemon_is_318() {
        // Ended, not killed: a member that needs a daemon starts one in place of a killed one.
        let fixture = NodeFixture::new("no-daemon");
        let vm = fixture.vm("no-daemon");
        fixture.node().end().unwrap();
        assert_eq!(vm.bind(30).unwrap_err().code(), Code::DrvsInit);
    }

    fn tbind_gives_each_thread_its_own_endpoint() {
        let mut fixture = Fixture::new();
        let threads = [30, 31].map(|slot| {
            fixture.thread(slot, move |peer| {
                peer.sendrec(Address(1), &Message::new(slot)).unwrap().m_type
            })
        });
        for _ in 0..2 {
            let request = fixture.me.receive(Source::Any).unwrap();
            assert_eq!(request.source, Address::new(1, request.m_type));
            fixture.me.reply(request.source, &Message::new(request.m_type + 100)).unwrap();
        }
        assert_eq!(threads.map(|thread| thread.join().unwrap()), [130, 131]);
    }

    fn tbind_in_a_process_that_is_not_bound_is_334() {
        let fixture = Fixture::new();
        let Fixture { me, vm, node: _node, node_fixture: _kept } = fixture;
        drop(me);
        assert_eq!(vm.bind_thread(Some(30)).unwrap_err().code(), Code::GrpLeader);
    }

    fn tbind_in_another_vm_than_the_process_is_334() {
        let mut fixture = Fixture::new();
        let second = fixture.node.vm_init(&VmConfig::new("second")).unwrap();
        assert_eq!(second.bind_thread(Some(30)).unwrap_err().code(), Code::GrpLeader);
    }

    fn lclbind_binds_another_process_and_wakes_its_wait4bind() {
        let mut fixture = Fixture::new();
        let mut peer = fixture.process("-", &["claim", "send:1"]);
        assert!(peer.line().starts_with("waits "));
        let address = fixture.node.bind_other(fixture.vm.id(), peer.pid(), 30).unwrap();
        assert_eq!(peer.line(), format!("bound {}", address.0));
        assert_eq!(fixture.me.receive(Source::Any).unwrap().source, address);
        assert_eq!(peer.code(), 0);
    }

    fn lclbind_of_no_process_is_304() {
        let mut fixture = Fixture::new();
        let refused = fixture.node.bind_other(fixture.vm.id(), i32::MAX, 30).unwrap_err();
        assert_eq!(refused.code(), Code::BadProc);
    }

    fn getep_finds_a_process_by_its_number() {
        let mut fixture = Fixture::new();
        let (peer, address) = fixture.bound(30, &[]);
        assert_eq!(fixture.me.locate_process(peer.pid()), Ok(address));
        assert_eq!(fixture.node.own_address().unwrap(), Address(1));
    }

    fn getep_of_a_process_that_is_not_bound_is_310() {
        let mut fixture = Fixture::new();
        let mut stranger = fixture.process("-", &["claim"]);
        stranger.line();
        assert_eq!(fixture.me.locate_process(stranger.pid()).unwrap_err().code(), Code::NotBind);
    }

    fn wait4bindep_returns_when_the_endpoint_is_bound() {
        let mut fixture = Fixture::new();
        let waiter = fixture.thread(30, |peer| peer.wait_bind(Address(2), Timeout::Never));
        fixture.until_blocked(30, "wait4");
        let (_late, address) = fixture.bound(2, &[]);
        assert_eq!(waiter.join().unwrap(), Ok(address));
        assert_eq!(fixture.me.wait_bind(address, LONG), Ok(address));
    }

    fn wait4bindep_beyond_its_limit_is_61() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.me.wait_bind(Address(2), SHORT).unwrap_err().code(), Code::TimedOut);
    }

    fn wait4bindep_of_oneself_is_306() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.me.wait_bind(Address(1), LONG).unwrap_err().code(), Code::Endpoint);
    }
}
