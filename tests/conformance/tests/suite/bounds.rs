//! What a peer could do without end, and the bound on it. Each case was found by reading the code
//! as an attacker would.

use m3ipc::{Message, SendRecError, Source, Vm};
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{NodeFixture, watchdog};
use m3ipc_wire::{BindKind, Reply, Request};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A thread with an endpoint, which does one thing on request.
struct BoundThread {
    tell: Sender<()>,
    done: Receiver<()>,
    address: m3ipc::Address,
}

impl BoundThread {
    fn new(vm: &Vm, slot: i32, act: impl Fn(&mut m3ipc::Endpoint) + Send + 'static) -> Self {
        let (vm, (tell, hear), (say, listen), (finish, done)) =
            (vm.clone(), channel(), channel(), channel());
        std::thread::spawn(move || {
            let mut me = vm.bind_thread(Some(slot)).expect("a slot");
            say.send(me.address()).expect("the test listens");
            for () in hear {
                act(&mut me);
                let _ = finish.send(());
            }
        });
        Self { tell, done, address: listen.recv().expect("it is bound") }
    }

    fn begin(&self) {
        self.tell.send(()).expect("it listens");
    }

    /// Makes the thread act, and waits until it has.
    fn act(&self) {
        self.begin();
        self.done.recv().expect("it acts");
    }
}

#[test]
fn endless_notifications_do_not_starve_other_peers() {
    watchdog(60);
    let fixture = NodeFixture::new("notes");
    let vm = fixture.vm("notes");
    let mut server = vm.bind(1).unwrap();
    let to = server.address();
    // The lowest slots come first: these two could keep the server busy.
    let low = BoundThread::new(&vm, 2, move |me| me.notify(to).unwrap());
    let next = BoundThread::new(&vm, 3, move |me| me.notify(to).unwrap());
    let high = BoundThread::new(&vm, 30, move |me| me.notify(to).unwrap());
    let client = BoundThread::new(&vm, 31, move |me| drop(me.send(to, &Message::new(7))));
    high.act();
    client.begin();
    let (mut notes, mut heard_client, mut heard_high) = (0, false, false);
    while !(heard_client && heard_high) {
        low.act();
        next.act();
        let message = server.receive(Source::Any).unwrap();
        heard_client |= message.source == client.address;
        heard_high |= message.source == high.address;
        notes += 1;
        assert!(notes < 500, "starved: message {heard_client}, notification {heard_high}");
    }
}

#[test]
fn a_pending_request_survives_the_end_of_its_server() {
    watchdog(60);
    let fixture = NodeFixture::new("pending");
    let vm = fixture.vm("pending");
    let mut me = vm.bind(1).unwrap();
    let server = BoundThread::new(&vm, 30, |server| {
        let request = server.receive(Source::Any).unwrap();
        server.reply(request.source, &Message::new(0)).unwrap();
    });
    let address = server.address;
    // The first contact may take longer than the begin of a request.
    server.begin();
    me.sendrec(address, &Message::new(0)).unwrap();
    let mut pending = me.begin_request(address, &Message::new(1)).unwrap();
    drop(server);
    // Another call learns of the death and frees the link.
    while me.peer(address).is_some() {
        let _ = me.receive_timeout(Source::Any, Duration::from_millis(10));
    }
    // Another takes the index of its link.
    let to = me.address();
    let other = BoundThread::new(&vm, 31, move |me| me.notify(to).unwrap());
    other.act();
    assert!(me.receive(Source::Any).is_ok());
    let polled = me.poll_request(&mut pending);
    assert!(matches!(polled, Err(SendRecError::DiedBefore(_))), "{polled:?}");
    assert_eq!(me.abandon(&pending), None);
}

#[test]
fn notify_does_not_wait_for_a_member_that_never_maps_its_pages() {
    watchdog(60);
    let fixture = NodeFixture::new("unmapped");
    let vm = fixture.vm("unmapped");
    let mut raw = RawMember::greeted(fixture.directory()).unwrap();
    let ground = raw.bind_unmapped(vm.id(), None).unwrap();
    let mut pair = m3ipc_test_fixture::MemberProcess::start(
        0,
        "pair",
        &[fixture.directory().to_str().unwrap(), "unmapped"],
    );
    assert!(pair.line().starts_with("ready"));
    // Notify never waits, not even for a peer that never maps its pages.
    pair.tell(&format!("notify {}", ground.address));
    let said = pair.line();
    assert!(said.starts_with("notified"), "{said}");
}

#[test]
fn answers_keep_the_order_of_their_requests() {
    watchdog(60);
    let fixture = NodeFixture::new("order");
    let vm = fixture.vm("order");
    let mut raw = RawMember::greeted(fixture.directory()).unwrap();
    let _pages = raw.bind(vm.id(), Some(1)).unwrap();
    // This member never maps its pages, so a contact with it is deferred.
    let mut other = RawMember::greeted(fixture.directory()).unwrap();
    let bind = Request::Bind { vm: vm.id(), slot: Some(2), kind: BindKind::Additional, nonce: 1 };
    let Some((Reply::Bound { address, .. }, _)) = other.request(&bind) else { panic!("no bind") };
    for request in [Request::Contact(address), Request::Forget(9), Request::VmInfo(vm.id())] {
        assert!(raw.send_bytes(&m3ipc_wire::encode(&request), &[]));
    }
    let mut answers = || raw.answer().unwrap().0;
    assert!(matches!(answers(), Reply::Refused(_)), "the contact is given up");
    assert_eq!(answers(), Reply::Done);
    assert!(matches!(answers(), Reply::Vm(_)));
}

#[test]
fn a_member_that_does_not_read_does_not_fill_the_daemon() {
    watchdog(120);
    let fixture = NodeFixture::new("reads");
    let vm = fixture.vm("reads");
    let resident_kb = || -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", fixture.daemon_pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let mut first = RawMember::greeted(fixture.directory()).unwrap();
    let _ground = first.bind(vm.id(), None).unwrap();
    for number in 0..60 {
        let name = format!("{number:063}");
        assert_eq!(first.request(&Request::NameAttach { name, key: None }).unwrap().0, Reply::Done);
    }
    let before = resident_kb();
    let flood = RawMember::greeted(fixture.directory()).unwrap();
    let frame = m3ipc_wire::encode(&Request::Endpoints { vm: vm.id(), from: i32::MIN });
    let (mut taken, mut refused_in_a_row) = (0, 0);
    while taken < 40_000 && refused_in_a_row < 300 {
        if flood.send_bytes(&frame, &[]) {
            (taken, refused_in_a_row) = (taken + 1, 0);
        } else {
            refused_in_a_row += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let grown = resident_kb().saturating_sub(before);
    println!("bounds: {taken} requests of one who never reads, daemon grown by {grown} KiB");
    assert!(grown < 16 * 1024, "the daemon keeps {grown} KiB for one who does not read");
    assert!(fixture.node().info().is_ok());
}

#[test]
fn a_list_of_endpoints_fits_a_frame() {
    watchdog(60);
    let fixture = NodeFixture::new("fits");
    let vm = fixture.vm("fits");
    let mut pairs = Vec::new();
    for number in 0..20 {
        let words = [fixture.directory().to_str().unwrap(), "fits", &number.to_string()];
        let mut role = m3ipc_test_fixture::MemberProcess::start(0, "named", &words);
        assert_eq!(role.line(), "named 64");
        pairs.push(role);
    }
    let listed =
        fixture.node().endpoints(vm.id()).expect("20 endpoints of 64 names each can be listed");
    assert_eq!(listed.len(), 20);
    assert!(listed.iter().all(|endpoint| endpoint.names.len() == 64));
}
