//! Owners that do not wait for the seal of their status page: what peers find in the meantime.

use m3ipc::{ReceiveError, Source, Vm};
use m3ipc_abi::{Address, Code};
use m3ipc_hostile::hostile_process;
use m3ipc_link::{ControlPage, STATUS_BYTES};
use m3ipc_sys::{Errno, Mapping};
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{NodeFixture, signals, until, watchdog};
use m3ipc_wire::{
    AwaitedEvent, BindKind, DaemonEvent, RecalledPeer, Reply, Request, VERSION, encode,
};
use rustix::fs::{SealFlags, fcntl_add_seals};
use std::os::fd::OwnedFd;

/// The owner of a new endpoint, which has its pages.
struct Owner {
    raw: RawMember,
    address: i32,
    control: ControlPage,
    status: OwnedFd,
}

impl Owner {
    /// The owner has not said yet that it mapped the pages.
    fn unmapped(fixture: &NodeFixture, vm: &Vm, nonce: u64) -> Self {
        Self::unmapped_in(fixture, vm, None, nonce)
    }

    /// The same in this slot.
    fn unmapped_in(fixture: &NodeFixture, vm: &Vm, slot: Option<i32>, nonce: u64) -> Self {
        let mut raw = RawMember::greeted(fixture.directory()).expect("a connection");
        let bind = Request::Bind { vm: vm.id(), slot, kind: BindKind::Additional, nonce };
        let Some((Reply::Bound { address, .. }, pages)) = raw.request(&bind) else {
            panic!("the member is not bound")
        };
        let [control, status, _ready] = <[OwnedFd; 3]>::try_from(pages).expect("three pages");
        let control = ControlPage::map(control).expect("its own page");
        Self { raw, address, control, status }
    }

    /// The owner has waited for the seal.
    fn sealed(fixture: &NodeFixture, vm: &Vm, nonce: u64) -> Self {
        let mut owner = Self::unmapped(fixture, vm, nonce);
        assert!(matches!(owner.raw.request(&Request::Mapped), Some((Reply::Done, _))));
        assert!(is_sealed(&owner.status));
        owner
    }
}

/// Whether no process can map a status page for writing any more.
fn is_sealed(status: &OwnedFd) -> bool {
    match Mapping::new(status, STATUS_BYTES, true) {
        Ok(_writable) => false,
        Err(errno) => {
            assert_eq!(errno, Errno::PERM);
            true
        }
    }
}

/// Returns after the daemon has served all that was sent before: two connections become readable
/// one after the other.
fn let_the_daemon_serve(fixture: &NodeFixture, vm: &Vm) {
    let mut others =
        [(); 2].map(|()| RawMember::greeted(fixture.directory()).expect("a connection"));
    for other in &mut others {
        assert!(matches!(other.request(&Request::VmInfo(vm.id())), Some((Reply::Vm(_), _))));
    }
}

/// A member asks for its new peer, whose owner maps the pages after the member has asked, and
/// before the daemon reads the question.
fn ask_about_the_mapped(name: &str, question: impl Fn(i32) -> Request) -> Reply {
    watchdog(120);
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    let _process = vm.bind_any().expect("a slot");
    let mut member = Owner::sealed(&fixture, &vm, 1);
    let peer = Owner::unmapped(&fixture, &vm, 2);
    signals::stop(fixture.daemon_pid());
    assert!(member.raw.send_bytes(&encode(&question(peer.address)), &[]));
    // The owner need not send the notice in this test: the look at the question comes later.
    let _ = peer.control.set_mapped();
    signals::resume(fixture.daemon_pid());
    let answer = member.raw.answer().expect("an answer").0;
    assert!(is_sealed(&peer.status), "{answer:?}");
    answer
}

#[test]
fn a_contact_that_does_not_wait_finds_an_endpoint_whose_pages_are_mapped() {
    let answer = ask_about_the_mapped("contacts", Request::ContactNow);
    assert!(matches!(answer, Reply::Contact(_)), "{answer:?}");
}

#[test]
fn a_bind_has_happened_as_soon_as_its_pages_are_mapped() {
    let ask = |address| Request::Await(AwaitedEvent::Bind(address));
    let answer = ask_about_the_mapped("awaited", ask);
    assert!(matches!(answer, Reply::Number(_)), "{answer:?}");
}

/// The same for a peer that keeps the daemon from its seal: the daemon ends that peer.
fn ask_about_the_unsealable(name: &str, question: impl Fn(i32) -> Request) -> Reply {
    watchdog(120);
    let fixture = NodeFixture::new(name);
    let vm = fixture.vm(name);
    let _process = vm.bind_any().expect("a slot");
    let mut member = Owner::sealed(&fixture, &vm, 1);
    let mut peer = Owner::unmapped(&fixture, &vm, 2);
    signals::stop(fixture.daemon_pid());
    assert!(member.raw.send_bytes(&encode(&question(peer.address)), &[]));
    fcntl_add_seals(&peer.status, SealFlags::SEAL).expect("no seals from now on");
    let _ = peer.control.set_mapped();
    signals::resume(fixture.daemon_pid());
    let answer = member.raw.answer().expect("an answer").0;
    assert_eq!(peer.raw.read_to_end(), 0, "{answer:?}");
    answer
}

/// A notification that is kept for a dead endpoint would reach the next one in its slot.
#[test]
fn a_notification_to_a_peer_that_ends_at_the_look_is_refused() {
    let notify = |destination| Request::Notify { destination, bits: 0 };
    let answer = ask_about_the_unsealable("kept", notify);
    let Reply::Refused(refusal) = &answer else { panic!("{answer:?}") };
    assert_eq!(refusal.code, Code::DstDied.number(), "{}", refusal.why);
}

#[test]
fn a_wait_for_the_unbind_of_a_peer_that_ends_at_the_look_does_not_begin() {
    let ask = |address| Request::Await(AwaitedEvent::Unbind(address));
    let answer = ask_about_the_unsealable("ended", ask);
    assert!(!matches!(answer, Reply::Wait(_)), "{answer:?}");
}

#[test]
fn a_wait_for_the_bind_of_a_peer_that_ends_at_the_look_does_not_begin() {
    let ask = |address| Request::Await(AwaitedEvent::Bind(address));
    let answer = ask_about_the_unsealable("awaited-end", ask);
    assert!(matches!(answer, Reply::Refused(_)), "{answer:?}");
}

#[test]
fn an_owner_without_mapped_pages_has_no_contacts() {
    watchdog(60);
    let fixture = NodeFixture::new("early");
    let vm = fixture.vm("early");
    let _process = vm.bind_any().expect("a slot");
    let peer = Owner::sealed(&fixture, &vm, 1);
    let mut owner = Owner::unmapped(&fixture, &vm, 2);
    let answer = owner.raw.request(&Request::Contact(peer.address)).expect("an answer").0;
    let Reply::Refused(refusal) = &answer else { panic!("{answer:?}") };
    assert_eq!(refusal.code, Code::NotBind.number(), "{}", refusal.why);
}

/// A question that comes before the mapping makes the owner send its notice.
#[test]
fn an_owner_sends_the_notice_that_a_peer_waits_for() {
    watchdog(120);
    let fixture = NodeFixture::new("notices");
    let vm = fixture.vm("notices");
    let _process = vm.bind_any().expect("a slot");
    let mut member = Owner::sealed(&fixture, &vm, 1);
    let peer = Owner::unmapped(&fixture, &vm, 2);
    assert!(member.raw.send_bytes(&encode(&Request::Contact(peer.address)), &[]));
    let_the_daemon_serve(&fixture, &vm);
    assert!(!is_sealed(&peer.status), "the owner has not mapped it");
    assert!(peer.control.set_mapped(), "the daemon awaits no notice");
    assert!(peer.raw.send_bytes(&encode(&Request::MappedNoReply), &[]));
    let answer = member.raw.answer().expect("an answer").0;
    assert!(matches!(answer, Reply::Contact(_)), "{answer:?}");
    assert!(is_sealed(&peer.status));
}

/// The first request of an owner may give its pages to a peer.
#[test]
fn no_peer_gets_an_unsealed_page_by_the_first_request_of_its_owner() {
    watchdog(120);
    let fixture = NodeFixture::new("first");
    let vm = fixture.vm("first");
    let _process = vm.bind_any().expect("a slot");
    let mut peer = Owner::sealed(&fixture, &vm, 1);
    // Most of them ask before the daemon looks by the clock.
    for nonce in 2..20 {
        let mut owner = Owner::unmapped(&fixture, &vm, nonce);
        let _ = owner.control.set_mapped();
        let answer = owner.raw.request(&Request::Contact(peer.address)).expect("an answer").0;
        assert!(matches!(answer, Reply::Contact(_)), "{answer:?}");
        // The answer to any request comes behind the event.
        assert!(matches!(peer.raw.request(&Request::VmInfo(vm.id())), Some((Reply::Vm(_), _))));
        // Beside it, an earlier owner may have ended.
        let mut events = std::mem::take(&mut peer.raw.events).into_iter();
        let contact = events.find(|(event, _)| matches!(event, DaemonEvent::Contact(_)));
        let (_event, pages) = contact.expect("a contact");
        assert!(is_sealed(&pages[1]), "the page of bind {nonce}");
    }
}

#[test]
fn an_endpoint_that_nobody_asks_for_is_sealed_too() {
    watchdog(120);
    let fixture = NodeFixture::new("unasked");
    let vm = fixture.vm("unasked");
    let _process = vm.bind_any().expect("a slot");
    let owners: Vec<Owner> = (1..4).map(|nonce| Owner::unmapped(&fixture, &vm, nonce)).collect();
    for owner in &owners {
        if owner.control.set_mapped() {
            assert!(owner.raw.send_bytes(&encode(&Request::MappedNoReply), &[]));
        }
    }
    until("all pages are sealed", || owners.iter().all(|owner| is_sealed(&owner.status)));
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
    let Owner { raw: mut owner, address, .. } = Owner::unmapped(&fixture, &vm, 1);
    for _ in 0..3 {
        assert!(owner.send_bytes(&notice, &[]));
    }
    let answer = owner.request(&Request::Unbind { vm: vm.id(), address });
    assert!(matches!(answer, Some((Reply::Done, _))), "{answer:?}");
    assert!(owner.send_bytes(&notice, &[]), "the connection goes on");
    let answer = owner.request(&Request::VmInfo(vm.id()));
    assert!(matches!(answer, Some((Reply::Vm(_), _))), "{answer:?}");
}

/// The owner counts as bound when it says that the pages are mapped. A killed daemon never looks.
#[test]
fn a_mapping_that_a_killed_daemon_never_saw_costs_no_endpoint() {
    watchdog(120);
    let mut fixture = NodeFixture::new("unread");
    let vm = fixture.vm("unread");
    let _process = vm.bind_any().expect("a slot");
    let Owner { raw: owner, address, control, .. } = Owner::unmapped(&fixture, &vm, 1);
    signals::stop(fixture.daemon_pid());
    let _ = control.set_mapped();
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

#[test]
fn the_first_request_may_share_the_packet_of_the_greeting() {
    watchdog(60);
    let fixture = NodeFixture::new("together");
    let vm = fixture.vm("together");
    let greeting = |version| encode(&Request::Hello { version });
    let behind = |version, bytes: &[u8]| [&greeting(version)[..], bytes].concat();
    let request = encode(&Request::VmInfo(vm.id()));
    let mut raw = RawMember::connect(fixture.directory()).expect("a connection");
    assert!(raw.send_bytes(&behind(VERSION, &request), &[]));
    assert!(matches!(raw.answer(), Some((Reply::Welcome { .. }, _))));
    assert!(matches!(raw.answer(), Some((Reply::Vm(_), _))));
    assert!(raw.send_bytes(&[&request[..], &request].concat(), &[]));
    assert_eq!(raw.read_to_end(), 0, "two later requests in a packet end the connection");
    // Another version may mean anything by the bytes behind its greeting.
    let mut other = RawMember::connect(fixture.directory()).expect("a connection");
    assert!(other.send_bytes(&behind(VERSION + 1, &[0xff; 40]), &[]));
    let answer = other.answer();
    assert!(
        matches!(&answer, Some((Reply::Refused(refusal), _))
            if refusal.code == Code::Version.number()),
        "{answer:?}"
    );
    for bytes in [&[0xff; 40][..], &greeting(VERSION)] {
        let mut raw = RawMember::connect(fixture.directory()).expect("a connection");
        assert!(raw.send_bytes(&behind(VERSION, bytes), &[]));
        assert_eq!(raw.read_to_end(), 1, "a welcome, and the end of the connection");
    }
}

/// A system slot keeps its address: an owner that unbinds late would name the next life.
#[test]
fn an_owner_whose_endpoint_has_ended_unbinds_no_successor() {
    const SYSTEM_SLOT: i32 = 3;
    watchdog(120);
    let fixture = NodeFixture::new("late-unbind");
    let vm = fixture.vm("late-unbind");
    let _process = vm.bind_any().expect("a slot");
    let mut late = RawMember::greeted(fixture.directory()).expect("a connection");
    let slot = Some(SYSTEM_SLOT);
    let bind = Request::Bind { vm: vm.id(), slot, kind: BindKind::Additional, nonce: 1 };
    let Some((Reply::Bound { address, .. }, _pages)) = late.request(&bind) else {
        panic!("the member is not bound")
    };
    assert!(matches!(late.request(&Request::Mapped), Some((Reply::Done, _))));
    // The owner does not leave when it is asked to: the daemon ends its endpoint.
    fixture.node().unbind(vm.id(), Address(address)).expect("the daemon ends it");
    let mut successor = vm.bind_additional(slot).expect("the slot is free");
    assert_eq!(successor.address(), Address(address), "a system slot keeps its address");
    let unbind = Request::Unbind { vm: vm.id(), address };
    let Some((Reply::Refused(refusal), _)) = late.request(&unbind) else {
        panic!("the owner has no endpoint any more")
    };
    assert_eq!(refusal.code, Code::NotBind.number(), "{}", refusal.why);
    let received = successor.try_receive(Source::Any);
    assert!(matches!(received, Err(ReceiveError::WouldBlock(_))), "{received:?}");
}

/// The same for an owner that has not returned to the successor of a killed daemon.
#[test]
fn an_owner_of_a_killed_daemon_unbinds_no_successor() {
    const SYSTEM_SLOT: i32 = 3;
    watchdog(120);
    let mut fixture = NodeFixture::new("later-unbind");
    let vm = fixture.vm("later-unbind");
    let _process = vm.bind_any().expect("a slot");
    let late = vm.bind_additional(Some(SYSTEM_SLOT)).expect("a free slot");
    fixture.restart_daemon();
    fixture.node().unbind(vm.id(), late.address()).expect("the daemon ends it");
    let mut successor = vm.bind_additional(Some(SYSTEM_SLOT)).expect("the slot is free");
    assert_eq!(successor.address(), late.address(), "a system slot keeps its address");
    drop(late);
    let received = successor.try_receive(Source::Any);
    assert!(matches!(received, Err(ReceiveError::WouldBlock(_))), "{received:?}");
}

/// The end of a wait that a member has heard of.
fn ready(member: &mut Owner, vm: &Vm) -> Option<(u64, i32)> {
    // The answer to any request comes behind the events.
    assert!(matches!(member.raw.request(&Request::VmInfo(vm.id())), Some((Reply::Vm(_), _))));
    std::mem::take(&mut member.raw.events).into_iter().find_map(|(event, _)| match event {
        DaemonEvent::Ready { ticket, address } => Some((ticket, address)),
        _ => None,
    })
}

/// The ticket of a wait that begins.
fn wait_for_bind(member: &mut Owner, address: i32) -> u64 {
    let answer = member.raw.request(&Request::Await(AwaitedEvent::Bind(address)));
    let Some((Reply::Wait(ticket), _)) = answer else { panic!("{answer:?}") };
    ticket
}

/// A bind takes effect when its pages are mapped. Without that it ends no wait, and loses none.
#[test]
fn a_wait_goes_on_after_an_owner_that_maps_nothing() {
    const SYSTEM_SLOT: i32 = 3;
    const USER_SLOT: i32 = 40;
    watchdog(120);
    let fixture = NodeFixture::new("unmapped");
    let vm = fixture.vm("unmapped");
    let _process = vm.bind_any().expect("a slot");
    let mut member = Owner::sealed(&fixture, &vm, 1);
    let mut nonces = 2..;
    let mut bind =
        |slot| Owner::unmapped_in(&fixture, &vm, Some(slot), nonces.next().expect("a number"));
    for (slot, waits_before_bind, closes) in [
        (SYSTEM_SLOT, true, true),
        (SYSTEM_SLOT, false, false),
        (USER_SLOT, true, false),
        (USER_SLOT, false, true),
    ] {
        let early = waits_before_bind.then(|| wait_for_bind(&mut member, slot));
        let mut first = bind(slot);
        let ticket = early.unwrap_or_else(|| wait_for_bind(&mut member, slot));
        if !closes {
            let unbind = Request::Unbind { vm: vm.id(), address: first.address };
            assert!(matches!(first.raw.request(&unbind), Some((Reply::Done, _))));
        }
        drop(first);
        let_the_daemon_serve(&fixture, &vm);
        assert_eq!(ready(&mut member, &vm), None, "no bind has taken effect");
        let mut second = bind(slot);
        assert!(matches!(second.raw.request(&Request::Mapped), Some((Reply::Done, _))));
        assert_eq!(ready(&mut member, &vm), Some((ticket, second.address)));
        drop(second);
        let_the_daemon_serve(&fixture, &vm);
    }
}

/// The same wait for the exact address, which never comes again.
#[test]
fn a_wait_for_an_address_ends_with_its_owner_that_maps_nothing() {
    watchdog(60);
    let fixture = NodeFixture::new("past");
    let vm = fixture.vm("past");
    let _process = vm.bind_any().expect("a slot");
    let mut member = Owner::sealed(&fixture, &vm, 1);
    let owner = Owner::unmapped(&fixture, &vm, 2);
    let ticket = wait_for_bind(&mut member, owner.address);
    drop(owner);
    let end = std::iter::repeat_with(|| ready(&mut member, &vm)).flatten().next();
    assert_eq!(end, Some((ticket, Code::Endpoint.number())));
}

#[test]
fn the_end_of_the_node_ends_the_waits_for_binds() {
    watchdog(60);
    let fixture = NodeFixture::new("node-end");
    let vm = fixture.vm("node-end");
    let _process = vm.bind_any().expect("a slot");
    let mut member = Owner::sealed(&fixture, &vm, 1);
    let ticket = wait_for_bind(&mut member, 3);
    let mut other = RawMember::greeted(fixture.directory()).expect("a connection");
    assert!(matches!(other.request(&Request::NodeEnd), Some((Reply::Done, _))));
    assert!(member.raw.answer().is_none(), "the daemon ends");
    let over = DaemonEvent::Ready { ticket, address: Code::VmNotRun.number() };
    assert!(member.raw.events.iter().any(|(event, _)| *event == over), "{:?}", member.raw.events);
}

/// The links of the tables have owners whose quotas pay for them; others cost the daemon nothing.
#[test]
fn a_member_recalls_no_link_that_it_never_had() {
    watchdog(120);
    let mut fixture = NodeFixture::new("recall");
    let vm = fixture.vm("recall");
    let _process = vm.bind_any().expect("a slot");
    let mut owners = [1, 2, 3].map(|nonce| Owner::sealed(&fixture, &vm, nonce));
    let addresses = owners.each_ref().map(|owner| owner.address);
    let [own, linked, stranger] = addresses;
    let answer = owners[0].raw.request(&Request::Contact(linked));
    assert!(matches!(answer, Some((Reply::Contact(_), _))), "{answer:?}");
    fixture.kill_daemon();
    fixture.restart_daemon();
    let mut returned = addresses.map(|address| {
        let mut raw = RawMember::greeted(fixture.directory()).expect("a connection");
        let back = Request::Reattach { vm: vm.id(), address, tid: None };
        assert!(matches!(raw.request(&back), Some((Reply::Bound { .. }, _))));
        assert!(matches!(raw.request(&Request::Mapped), Some((Reply::Done, _))));
        raw
    });
    // One of these lives is the right one.
    let recall = |peer| {
        let peer = |life| RecalledPeer { address: peer, life, was_stand_in: false };
        Request::Recall((1..50).map(peer).collect())
    };
    let mut other = RawMember::greeted(fixture.directory()).expect("a connection");
    let mut links = || match other.request(&Request::NodeInfo) {
        Some((Reply::Node(info), _)) => info.links,
        answer => panic!("{answer:?}"),
    };
    for (member, peer) in [(0, stranger), (2, own)] {
        assert!(matches!(returned[member].request(&recall(peer)), Some((Reply::Done, _))));
        let is_end = |(event, _): &(DaemonEvent, _)| *event == DaemonEvent::Died(peer);
        let ends = returned[member].events.iter().filter(|event| is_end(event));
        assert_eq!(ends.count(), 49, "nobody would tell the member of a later end");
        assert_eq!(links(), 0);
    }
    assert!(matches!(returned[0].request(&recall(linked)), Some((Reply::Done, _))));
    assert_eq!(links(), 1, "a link of the tables is held");
    drop(returned);
    until("all links have ended", || links() == 0);
}

/// The endpoint has no connection to the daemon when another process asks for its end.
#[test]
fn an_endpoint_that_returns_does_not_escape_its_unbind() {
    watchdog(120);
    let mut fixture = NodeFixture::new("returned");
    let vm = fixture.vm("returned");
    let _process = vm.bind_any().expect("a slot");
    let Owner { raw: _before, address, .. } = Owner::sealed(&fixture, &vm, 1);
    fixture.kill_daemon();
    fixture.restart_daemon();
    let directory = fixture.directory().to_str().expect("text").to_owned();
    let (vm_id, number) = (vm.id().to_string(), address.to_string());
    let mut unbinder = hostile_process(0, "unbinder", &[&directory, &vm_id, &number]);
    assert_eq!(unbinder.line(), "ready");
    let mut owner = RawMember::greeted(fixture.directory()).expect("a connection");
    // The daemon reads the requests one after the other, so no grace time ends in between.
    signals::stop(fixture.daemon_pid());
    assert_eq!(unbinder.ask("ask"), "asked");
    let back = Request::Reattach { vm: vm.id(), address, tid: None };
    assert!(owner.send_bytes(&encode(&back), &[]));
    signals::resume(fixture.daemon_pid());
    let answer = owner.answer().expect("an answer").0;
    assert!(matches!(answer, Reply::Bound { address: same, .. } if same == address), "{answer:?}");
    assert!(owner.request(&Request::Mapped).is_some());
    let is_request = |(event, _): &(DaemonEvent, _)| *event == DaemonEvent::Unbound;
    assert!(owner.events.iter().any(is_request), "{:?}", owner.events);
    // The owner does not leave.
    assert_eq!(unbinder.line(), "ended");
}
