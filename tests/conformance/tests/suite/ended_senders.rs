//! What a call accepted arrives although its sender ends at once.

use m3ipc::{Endpoint, Message, Pulse, ReceivedKind, Source, Vm};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);
const PULSE: Pulse = Pulse { code: 7, value: 1 << 40 };

/// The ways in which a sender ends at once.
#[derive(Clone, Copy)]
enum End {
    Drop,
    /// The sender has contacted nobody before, so its link is new as well.
    FirstContact,
}

fn notify_and_end(vm: &Vm, to: m3ipc::Address, end: End) -> m3ipc::Address {
    let vm = vm.clone();
    let thread = std::thread::spawn(move || {
        let mut own = vm.bind_thread(None).expect("a slot");
        if !matches!(end, End::FirstContact) {
            own.send(to, &Message::new(1)).expect("it is taken");
        }
        own.notify(to).expect("accepted");
        own.pulse(to, PULSE).expect("accepted");
        let address = own.address();
        drop(own);
        address
    });
    thread.join().expect("no panic")
}

fn expect_both(server: &mut Endpoint, from: m3ipc::Address) {
    let notified = server.receive_timeout(Source::Any, LIMIT).expect("the notification");
    assert_eq!((notified.source, server.latest_kind()), (from, Some(ReceivedKind::Notification)));
    let pulse = server.receive_timeout(Source::Any, LIMIT).expect("the pulse");
    assert_eq!((pulse.source, server.latest_kind()), (from, Some(ReceivedKind::Pulse(PULSE))));
}

#[test]
fn what_was_accepted_arrives_after_each_kind_of_end() {
    watchdog(120);
    let fixture = NodeFixture::new("accepted");
    let vm = fixture.vm("accepted");
    let mut server = vm.bind(1).expect("a slot");
    let to = server.address();
    for end in [End::Drop, End::FirstContact] {
        for _ in 0..20 {
            let sender = std::thread::spawn({
                let vm = vm.clone();
                move || notify_and_end(&vm, to, end)
            });
            if !matches!(end, End::FirstContact) {
                assert_eq!(server.receive_timeout(Source::Any, LIMIT).expect("it").m_type, 1);
            }
            let from = sender.join().expect("no panic");
            server.wait_unbind(from, LIMIT).expect("it is gone");
            expect_both(&mut server, from);
        }
    }
    assert!(server.try_receive(Source::Any).is_err(), "each once");
}

#[test]
fn what_was_accepted_wakes_a_receiver_that_sleeps() {
    watchdog(120);
    let fixture = NodeFixture::new("sleeps");
    let vm = fixture.vm("sleeps");
    let mut server = vm.bind(1).expect("a slot");
    let to = server.address();
    for _ in 0..20 {
        let receiver = std::thread::spawn(move || {
            let first = server.receive_timeout(Source::Any, LIMIT).expect("the notification");
            assert_eq!(server.latest_kind(), Some(ReceivedKind::Notification));
            let second = server.receive_timeout(Source::Any, LIMIT).expect("the pulse");
            assert_eq!(server.latest_kind(), Some(ReceivedKind::Pulse(PULSE)));
            assert_eq!(first.source, second.source);
            server
        });
        notify_and_end(&vm, to, End::FirstContact);
        server = receiver.join().expect("no panic");
    }
}

#[test]
fn ended_senders_keep_the_order_of_slots() {
    watchdog(60);
    let fixture = NodeFixture::new("slots");
    let vm = fixture.vm("slots");
    let mut server = vm.bind(1).expect("a slot");
    let to = server.address();
    let mut living = vm.bind_additional(Some(32)).expect("a slot");
    for slot in [33, 31] {
        let vm = vm.clone();
        let gone = std::thread::spawn(move || {
            let mut own = vm.bind_thread(Some(slot)).expect("a slot");
            own.notify(to).expect("accepted");
            own.address()
        });
        server.wait_unbind(gone.join().expect("no panic"), LIMIT).expect("it is gone");
    }
    living.notify(to).expect("accepted");
    let slots = [31, 32, 33]
        .map(|_| server.receive_timeout(Source::Any, LIMIT).expect("a notification").source.slot());
    assert_eq!(slots, [31, 32, 33]);
}
