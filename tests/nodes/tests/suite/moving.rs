//! What the daemon of one node does with endpoints that move. The test is the proxy.

use m3ipc::nodes::{BackedSlot, NodesEvent, OtherSlots, Proxy, SlotPlace};
use m3ipc::{
    Address, Audience, Code, Delivered, Endpoint, Location, Message, Rights, Source, Timeout,
};
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{NodeFixture, signals, until, watchdog};
use m3ipc_test_nodes::VM;
use m3ipc_wire::{BindKind, Reply, Request, encode};
use std::thread::JoinHandle;
use std::time::Duration;

/// A user slot of this node, whose backup is at beta.
const SLOT: i32 = 205;
const BACKED: BackedSlot = BackedSlot { vm: VM, slot: SLOT };
/// Another one, which nobody has at first.
const OTHER: BackedSlot = BackedSlot { vm: VM, slot: 210 };
/// The requests of a flood.
const FLOOD: usize = 1000;

/// A node whose proxy is this test, an endpoint that may move, and a caller.
struct Home {
    proxy: Proxy,
    mover: Endpoint,
    caller: Endpoint,
    vm: m3ipc::Vm,
    fixture: NodeFixture,
}

impl Home {
    fn new(name: &str) -> Self {
        let fixture = NodeFixture::new(name);
        let vm = fixture.node().vm_init(&m3ipc::VmConfig::new("shop").id(VM)).expect("a fresh VM");
        let slots = OtherSlots { foreign: Vec::new(), backed: vec![BACKED, OTHER] };
        let proxy = Proxy::register(fixture.directory(), slots);
        let mut proxy = proxy.expect("the user of the daemon may");
        proxy.set_reachable("beta", true).expect("the daemon takes it");
        let caller = vm.bind(1).expect("a free slot");
        let mover = vm.bind_additional(Some(SLOT)).expect("a free slot");
        Self { proxy, mover, caller, vm, fixture }
    }
}

fn migrate(mover: Endpoint) -> JoinHandle<(Result<(), Code>, Endpoint)> {
    migrate_within(mover, Timeout::Never)
}

fn migrate_within(mut mover: Endpoint, limit: Timeout) -> JoinHandle<(Result<(), Code>, Endpoint)> {
    std::thread::spawn(move || (mover.migrate_timeout(limit).map_err(|error| error.code()), mover))
}

/// Waits until an endpoint wants to move.
fn await_move(proxy: &mut Proxy, address: Address) {
    let wanted = NodesEvent::Move { vm: VM, address: address.0 };
    until("the endpoint asks", || {
        while let Some(event) = proxy.next_event().expect("the daemon lives") {
            if event == wanted {
                return true;
            }
        }
        false
    });
}

/// The caller waits for an endpoint in a thread of its own.
fn wait_bind(mut caller: Endpoint, to: Address) -> JoinHandle<(Result<Address, Code>, Endpoint)> {
    std::thread::spawn(move || {
        (caller.wait_bind(to, Duration::from_secs(20)).map_err(|error| error.code()), caller)
    })
}

#[test]
fn a_move_ends_with_its_endpoint() {
    watchdog(60);
    let Home { mut proxy, mover, vm: _vm, caller: _caller, fixture: _fixture } =
        Home::new("move-ended");
    let address = mover.address();
    let moving = migrate(mover);
    await_move(&mut proxy, address);
    // Another node has taken the slot meanwhile.
    proxy.place(BACKED, SlotPlace::There("beta".to_owned())).expect("the daemon takes it");
    let (moved, _mover) = moving.join().expect("no panic");
    assert_eq!(moved, Err(Code::NotBind));
}

#[test]
fn an_additional_endpoint_waits_for_its_place() {
    watchdog(60);
    let Home { mut proxy, mover: _mover, vm, caller, fixture: _fixture } = Home::new("additional");
    let slot = OTHER.slot;
    proxy.place(OTHER, SlotPlace::There("beta".to_owned())).expect("the daemon takes it");
    let refused = vm.bind_backup(slot, None).map_err(|error| error.code());
    assert_eq!(refused.err(), Some(Code::SlotUsed), "the process is bound");
    let brief = Duration::from_millis(20);
    let late = vm.bind_additional_backup(slot, brief).map_err(|error| error.code());
    assert_eq!(late.err(), Some(Code::TimedOut));
    let of_thread = vm.clone();
    let waiting =
        std::thread::spawn(move || of_thread.bind_additional_backup(slot, Duration::from_secs(20)));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!waiting.is_finished(), "it waits");
    proxy.place(OTHER, SlotPlace::Here(None)).expect("the daemon takes it");
    let bound = waiting.join().expect("no panic").expect("the place is free");
    assert_eq!(bound.address().slot(), slot);
    drop((bound, caller));
    let unbound = vm.bind_additional_backup(slot, None).map_err(|error| error.code());
    assert_eq!(unbound.err(), Some(Code::GrpLeader), "at once");
}

#[test]
fn a_slot_without_a_backup_does_not_ask_the_proxy() {
    watchdog(60);
    let Home { mut proxy, mover: _mover, vm, caller: _caller, fixture: _fixture } =
        Home::new("no-backup");
    let mut other = vm.bind_additional(Some(SLOT + 1)).expect("a free slot");
    // The proxy reads nothing.
    assert_eq!(other.migrate().map_err(|error| error.code()), Err(Code::NoNode));
    while let Some(event) = proxy.next_event().expect("the daemon lives") {
        assert!(!matches!(event, NodesEvent::Move { .. }), "{event:?}");
    }
}

#[test]
fn a_wait_for_an_endpoint_that_moves_ends_with_its_bind_or_with_none() {
    watchdog(60);
    for is_claimed in [true, false] {
        let home = Home::new(if is_claimed { "wait-claimed" } else { "wait-missed" });
        let Home { mut proxy, mover, mut caller, vm: _vm, fixture: _fixture } = home;
        let address = mover.address();
        let moving = migrate(mover);
        await_move(&mut proxy, address);
        assert!(proxy.moves(VM, address, "beta").expect("the daemon lives"));
        let (moved, _mover) = moving.join().expect("no panic");
        assert_eq!(moved, Ok(()));
        let sent = caller.send(address, &Message::new(1)).map_err(|error| error.code());
        assert_eq!(sent, Err(Code::Migrate));
        let waiting = wait_bind(caller, address);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished(), "it waits");
        let stand_in = is_claimed.then(|| proxy.stand_in(VM, address).expect("the slot is there"));
        if !is_claimed {
            proxy.place(BACKED, SlotPlace::Here(None)).expect("the daemon takes it");
        }
        let (waited, _caller) = waiting.join().expect("no panic");
        assert_eq!(waited, if is_claimed { Ok(address) } else { Err(Code::Endpoint) });
        drop(stand_in);
    }
}

#[test]
fn an_answer_to_a_client_that_moves_says_that_it_is_dead() {
    watchdog(60);
    let Home { mut proxy, mut mover, caller: mut server, vm: _vm, fixture: _fixture } =
        Home::new("client");
    let address = mover.address();
    let pending = mover.begin_request(server.address(), &Message::new(7)).expect("posted");
    assert_eq!(server.receive(Source::Any).map(|it| it.source).ok(), Some(address));
    let moving = migrate(mover);
    await_move(&mut proxy, address);
    assert!(proxy.moves(VM, address, "beta").expect("the daemon lives"));
    assert_eq!(moving.join().expect("no panic").0, Ok(()));
    let answered = server
        .reply(address, &Message::new(8))
        .and_then(Delivered::into_result)
        .map_err(|error| error.code());
    assert_eq!(answered, Err(Code::DstDied));
    let received = server.receive(Source::From(address)).map_err(|error| error.code());
    assert_eq!(received.map(|it| it.m_type), Err(Code::SrcDied));
    drop(pending);
}

#[test]
fn a_stand_in_that_gave_way_leaves_the_new_endpoint_alone() {
    watchdog(60);
    let Home { mut proxy, mover, vm, caller: mut client, fixture: _fixture } =
        Home::new("gave-way");
    let address = mover.address();
    let moving = migrate(mover);
    await_move(&mut proxy, address);
    assert!(proxy.moves(VM, address, "beta").expect("the daemon lives"));
    assert_eq!(moving.join().expect("no panic").0, Ok(()));
    let stand_in = proxy.stand_in(VM, address).expect("the slot is there");
    proxy.place(BACKED, SlotPlace::Here(Some(address.0))).expect("the daemon takes it");
    let mut back = vm.bind_additional(Some(SLOT)).expect("the slot is here");
    assert_eq!(back.address(), address);
    stand_in.ended();
    let server = std::thread::spawn(move || {
        let request = back.receive(Source::Any).expect("nobody has ended it");
        back.reply(request.source, &Message::new(8)).expect("the client waits");
    });
    let answer = client.sendrec(address, &Message::new(7)).map_err(|error| error.code());
    assert_eq!(answer.map(|it| it.m_type), Ok(8));
    server.join().expect("no panic");
}

/// A member that speaks the control protocol without the library, bound in [`OTHER`].
fn raw_member(fixture: &NodeFixture) -> (RawMember, Address) {
    let mut raw = RawMember::greeted(fixture.directory()).expect("a connection");
    let kind = BindKind::Additional;
    let bind = Request::Bind { vm: VM, slot: Some(OTHER.slot), kind, nonce: 1 };
    let Some((Reply::Bound { address, .. }, _pages)) = raw.request(&bind) else {
        panic!("the slot is free")
    };
    (raw, Address(address))
}

/// The endpoints that want to move, as far as the proxy has heard.
fn moves(proxy: &mut Proxy) -> Vec<i32> {
    let mut moves = Vec::new();
    while let Some(event) = proxy.next_event().expect("the daemon lives") {
        if let NodesEvent::Move { address, .. } = event {
            moves.push(address);
        }
    }
    moves
}

#[test]
fn a_flood_of_requests_to_move_is_one_event_of_the_proxy() {
    watchdog(60);
    let Home { mut proxy, mover: _mover, vm: _vm, caller: _caller, fixture } = Home::new("flood");
    let (mut raw, address) = raw_member(&fixture);
    assert!(matches!(raw.request(&Request::Mapped), Some((Reply::Done, _))));
    for _round in 0..2 {
        assert!(raw.send_bytes(&encode(&Request::Move), &[]));
        for _ in 1..FLOOD {
            assert!(raw.send_bytes(&encode(&Request::Move), &[]));
            let given_up = raw.answer().expect("the earlier request has an answer").0;
            assert!(matches!(given_up, Reply::Refused(_)), "{given_up:?}");
        }
        let mut wanted = Vec::new();
        until("the proxy hears of it", || {
            wanted.extend(moves(&mut proxy));
            !wanted.is_empty()
        });
        assert_eq!(wanted, [address.0]);
        // The next round is one event again.
        let why = (Code::NotConn, "a test".to_owned());
        proxy.refuse_move((VM, address), why).expect("the daemon lives");
        let Some((Reply::Refused(refusal), _)) = raw.answer() else { panic!("it was refused") };
        assert_eq!(refusal.code, Code::NotConn.number());
        assert!(moves(&mut proxy).is_empty());
    }
}

#[test]
fn a_move_that_was_given_up_does_not_happen_later() {
    watchdog(60);
    let Home { mut proxy, mut mover, vm: _vm, mut caller, fixture: _fixture } =
        Home::new("given-up");
    let address = mover.address();
    let limit = Duration::from_millis(50);
    for limit in [Timeout::NoWait, Timeout::After(limit), Timeout::Never] {
        let moved = mover.migrate_timeout(limit).map_err(|error| error.code());
        // The proxy is silent: the caller's own limit is over, or that of each caller.
        let own = limit != Timeout::Never;
        assert_eq!(moved, Err(if own { Code::TimedOut } else { Code::NotConn }));
        assert_eq!(moves(&mut proxy), [address.0]);
        assert!(!proxy.moves(VM, address, "beta").expect("the daemon lives"), "{limit:?}");
        assert!(mover.is_bound());
        let pending = caller.begin_request(address, &Message::new(7)).expect("it is here");
        let taken = mover.receive(Source::Any).map(|it| it.source).map_err(|error| error.code());
        assert_eq!(taken, Ok(caller.address()));
        assert_eq!(caller.abandon(&pending), None);
    }
    // The proxy decides in time.
    let moving = migrate_within(mover, Timeout::After(Duration::from_secs(60)));
    await_move(&mut proxy, address);
    assert!(proxy.moves(VM, address, "beta").expect("the daemon lives"));
    assert_eq!(moving.join().expect("no panic").0, Ok(()));
}

#[test]
fn a_stopped_daemon_leaves_a_move_unknown_and_its_next_call_tells() {
    watchdog(120);
    // The proxy has decided before the daemon goes on, or it has not.
    for decides in [true, false] {
        let home = Home::new(if decides { "stopped-decided" } else { "stopped" });
        let Home { mut proxy, mover, vm: _vm, caller: _caller, fixture } = home;
        let address = mover.address();
        let moving = migrate_within(mover, Timeout::After(Duration::from_millis(500)));
        await_move(&mut proxy, address);
        signals::stop(fixture.daemon_pid());
        let deciding = decides.then(|| {
            std::thread::spawn(move || (proxy.moves(VM, address, "beta").expect("it lives"), proxy))
        });
        let (moved, mut mover) = moving.join().expect("no panic");
        signals::resume(fixture.daemon_pid());
        // The time limit may have been over before the daemon was stopped.
        assert!(matches!(moved, Err(Code::Unknown | Code::TimedOut)), "{moved:?}");
        let has_moved = deciding.is_some_and(|it| it.join().expect("no panic").0);
        assert!(moved == Err(Code::Unknown) || !has_moved);
        let next = mover.name_attach("next").map_err(|error| error.code());
        assert_eq!(next.is_err(), has_moved, "{next:?}");
        assert_eq!(mover.is_bound(), !has_moved);
    }
}

#[test]
fn a_contact_that_waits_hears_that_its_peer_moves() {
    watchdog(60);
    let Home { mut proxy, mover: _mover, vm: _vm, mut caller, fixture } = Home::new("contact");
    // Its pages are not mapped, so nobody gets a link with it yet.
    let (raw, address) = raw_member(&fixture);
    let sending = std::thread::spawn(move || {
        caller.send(address, &Message::new(1)).map_err(|error| error.code())
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(!sending.is_finished(), "it waits");
    assert!(raw.send_bytes(&encode(&Request::Move), &[]));
    await_move(&mut proxy, address);
    assert!(proxy.moves(VM, address, "beta").expect("the daemon lives"));
    assert_eq!(sending.join().expect("no panic"), Err(Code::Migrate));
}

#[test]
fn a_request_that_was_taken_ends_with_the_move_and_one_that_was_not_may_come_again() {
    watchdog(60);
    let Home { mut proxy, mut mover, vm, caller, fixture: _fixture } = Home::new("owed");
    let address = mover.address();
    let other = vm.bind_additional(Some(2)).expect("a free slot");
    let ask = |mut client: Endpoint| {
        std::thread::spawn(move || {
            client.sendrec(address, &Message::new(7)).map_err(|error| error.code())
        })
    };
    let first = caller.address();
    let taken = ask(caller);
    assert_eq!(mover.receive(Source::Any).map(|it| it.source).ok(), Some(first));
    let queued = ask(other);
    std::thread::sleep(Duration::from_millis(100));
    let moving = migrate(mover);
    await_move(&mut proxy, address);
    assert!(proxy.moves(VM, address, "beta").expect("the daemon lives"));
    assert_eq!(moving.join().expect("no panic").0, Ok(()));
    assert_eq!(taken.join().expect("no panic").map(|it| it.m_type), Err(Code::SrcDied));
    assert_eq!(queued.join().expect("no panic").map(|it| it.m_type), Err(Code::Migrate));
}

#[test]
fn a_copy_from_a_client_that_moves_ends_as_at_its_death() {
    watchdog(60);
    let Home { mut proxy, mut mover, caller: mut server, vm: _vm, fixture: _fixture } =
        Home::new("copies");
    let address = mover.address();
    let granted = mover.grant(Audience::Vm, vec![7; 100], Rights::Read);
    let place = Location::Granted(granted.expect("there is room"), 0);
    let mut pending = mover.begin_request(server.address(), &Message::new(7)).expect("posted");
    assert_eq!(server.receive(Source::Any).map(|it| it.source).ok(), Some(address));
    let moving = migrate(mover);
    await_move(&mut proxy, address);
    assert!(proxy.moves(VM, address, "beta").expect("the daemon lives"));
    let (moved, mut mover) = moving.join().expect("no panic");
    assert_eq!(moved, Ok(()));
    let copied = server.copy_from(address, place, &mut [0; 100]).map_err(|error| error.code());
    assert_eq!(copied, Err(Code::SrcDied));
    // The request of the mover itself ends with its endpoint.
    let answer = mover.poll_request(&mut pending).map_err(|error| error.code());
    assert_eq!(answer.map(|it| it.map(|it| it.m_type)), Err(Code::NotBind));
}
