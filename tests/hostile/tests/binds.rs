//! Owners that do not wait for the seal of their status page: what peers find in the meantime.

use m3ipc::Vm;
use m3ipc_abi::Code;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{NodeFixture, signals, watchdog};
use m3ipc_wire::{AwaitedEvent, BindKind, Reply, Request, VERSION, encode};

/// A member with an endpoint that has its pages, and has not said that it mapped them.
fn unmapped(fixture: &NodeFixture, vm: &Vm, nonce: u64) -> (RawMember, i32) {
    let mut raw = RawMember::greeted(fixture.directory()).expect("a connection");
    let bind = Request::Bind { vm: vm.id(), slot: None, kind: BindKind::Additional, nonce };
    let Some((Reply::Bound { address, .. }, _pages)) = raw.request(&bind) else {
        panic!("the member is not bound")
    };
    (raw, address)
}

/// A member and its new peer. The daemon reads the member's question first: the peer's notice came
/// later, and the peer was served later.
fn ask_before_the_notice(name: &str, question: impl Fn(i32) -> Request) -> Reply {
    watchdog(120);
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    let _process = vm.bind_any().expect("a slot");
    let (mut member, _) = unmapped(&fixture, &vm, 1);
    assert!(matches!(member.request(&Request::Mapped), Some((Reply::Done, _))));
    let (peer, address) = unmapped(&fixture, &vm, 2);
    // The answer to a third one shows that the daemon reads no more frames of the peer now.
    let mut third = RawMember::greeted(fixture.directory()).expect("a connection");
    assert!(matches!(third.request(&Request::VmInfo(vm.id())), Some((Reply::Vm(_), _))));
    signals::stop(fixture.daemon_pid());
    assert!(member.send_bytes(&encode(&question(address)), &[]));
    assert!(peer.send_bytes(&encode(&Request::MappedNoReply), &[]));
    signals::resume(fixture.daemon_pid());
    member.answer().expect("an answer").0
}

#[test]
fn a_contact_that_does_not_wait_finds_an_endpoint_whose_notice_waits() {
    let answer = ask_before_the_notice("contacts", Request::ContactNow);
    assert!(matches!(answer, Reply::Contact(_)), "{answer:?}");
}

#[test]
fn a_bind_has_happened_as_soon_as_its_notice_waits() {
    let ask = |address| Request::Await(AwaitedEvent::Bind(address));
    let answer = ask_before_the_notice("awaited", ask);
    assert!(matches!(answer, Reply::Number(_)), "{answer:?}");
}

/// Answers belong to the requests before them, so a notice must never have one.
#[test]
fn a_notice_has_no_answer() {
    watchdog(120);
    let fixture = NodeFixture::new("answers");
    let vm = fixture.vm("answers");
    let _process = vm.bind_any().expect("a slot");
    let notice = encode(&Request::MappedNoReply);
    let mut stranger = RawMember::greeted(fixture.directory()).expect("a connection");
    assert!(stranger.send_bytes(&notice, &[]));
    let answer = stranger.request(&Request::VmInfo(vm.id()));
    assert!(matches!(answer, Some((Reply::Vm(_), _))), "{answer:?}");
    let (mut owner, address) = unmapped(&fixture, &vm, 1);
    for _ in 0..3 {
        assert!(owner.send_bytes(&notice, &[]));
    }
    let answer = owner.request(&Request::Unbind { vm: vm.id(), address });
    assert!(matches!(answer, Some((Reply::Done, _))), "{answer:?}");
    assert!(owner.send_bytes(&notice, &[]), "the connection goes on");
    let answer = owner.request(&Request::VmInfo(vm.id()));
    assert!(matches!(answer, Some((Reply::Vm(_), _))), "{answer:?}");
}

/// The owner counts as bound when it has sent the notice. A killed daemon may never read it.
#[test]
fn a_notice_that_a_killed_daemon_never_read_costs_no_endpoint() {
    watchdog(120);
    let mut fixture = NodeFixture::new("unread");
    let vm = fixture.vm("unread");
    let _process = vm.bind_any().expect("a slot");
    let (owner, address) = unmapped(&fixture, &vm, 1);
    signals::stop(fixture.daemon_pid());
    assert!(owner.send_bytes(&encode(&Request::MappedNoReply), &[]));
    fixture.kill_daemon();
    fixture.restart_daemon();
    let mut owner = RawMember::greeted(fixture.directory()).expect("a connection");
    let back = Request::Reattach { vm: vm.id(), address, tid: None };
    let answer = owner.request(&back).expect("an answer").0;
    assert!(matches!(answer, Reply::Bound { address: same, .. } if same == address), "{answer:?}");
    assert!(matches!(owner.request(&Request::Mapped), Some((Reply::Done, _))));
}

#[test]
fn a_member_of_the_version_before_is_told_so() {
    watchdog(60);
    let fixture = NodeFixture::new("older");
    let mut raw = RawMember::connect(fixture.directory()).expect("a connection");
    let Some((Reply::Refused(refusal), _)) = raw.request(&Request::Hello { version: VERSION - 1 })
    else {
        panic!("another version is not refused")
    };
    assert_eq!(refusal.code, Code::Version.number(), "{}", refusal.why);
    assert_eq!(raw.read_to_end(), 0, "the connection ends");
}
