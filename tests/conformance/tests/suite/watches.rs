//! Reports of deaths, and the kinds of what is taken.

use m3ipc::{Address, Code, Endpoint, Message, Received, ReceivedKind, SYSTEM, Source, WatchError};
use m3ipc_test_fixture::{AreaProcess, NodeFixture, area_turn, watchdog};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

fn receive(server: &mut Endpoint) -> Received {
    server.receive_long(Source::Any, &mut [], LIMIT).expect("a private node")
}

fn check_death(server: &Endpoint, received: Received, peer: Address) {
    assert!(received.is_notification && !received.is_request);
    assert_eq!((received.message.source, received.died), (SYSTEM, Some(peer)));
    let [code, endpoint] = [0, 1].map(|at| received.message.word(at));
    assert_eq!((code, endpoint), (Code::SrcDied.number(), peer.0));
    assert_eq!(server.latest_kind(), Some(ReceivedKind::Death(peer)));
}

#[test]
fn a_server_learns_that_a_client_was_killed() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("watched");
    let vm = fixture.vm("watched");
    let mut server = vm.bind(1).unwrap();
    let mut client = AreaProcess::start(&fixture, &vm, 3, &["moved"]);
    let address = Address(3);
    assert_eq!(server.wait_bind(address, LIMIT).unwrap(), address);
    server.watch(address).unwrap();
    server.notify(address).unwrap();
    let thread = std::thread::spawn(move || {
        let received = receive(&mut server);
        (server, received)
    });
    client.kill();
    let (mut server, received) = thread.join().unwrap();
    check_death(&server, received, address);
    assert_eq!(server.watch(address), Err(WatchError::Died(address)));
    assert!(server.try_receive(Source::Any).is_err(), "one report");
}

#[test]
fn a_death_comes_after_the_last_message() {
    watchdog(60);
    let fixture = NodeFixture::new("order");
    let vm = fixture.vm("order");
    let mut server = vm.bind(1).unwrap();
    let to = server.address();
    server.watch_all(true);
    for slot in 30..60 {
        let mut client = vm.bind_additional(Some(slot)).unwrap();
        let address = client.address();
        let thread = std::thread::spawn(move || {
            for number in 0..10 {
                client.send(to, &Message::new(number)).unwrap();
            }
        });
        for number in 0..10 {
            assert_eq!(receive(&mut server).message.m_type, number);
        }
        let received = receive(&mut server);
        check_death(&server, received, address);
        thread.join().unwrap();
    }
    server.watch_all(false);
    let mut client = vm.bind_additional(Some(30)).unwrap();
    client.notify(to).unwrap();
    assert_eq!(receive(&mut server).died, None);
    drop(client);
    assert!(server.receive_timeout(Source::Any, Duration::from_millis(50)).is_err());
}

#[test]
fn a_watch_survives_a_kill_of_the_daemon() {
    watchdog(60);
    let mut fixture = NodeFixture::new("killed");
    let vm = fixture.vm("killed");
    let mut server = vm.bind(1).unwrap();
    let (one, two) = (vm.bind_additional(Some(30)).unwrap(), vm.bind_additional(Some(31)).unwrap());
    let addresses = [one.address(), two.address()];
    for address in addresses {
        server.watch(address).unwrap();
    }
    fixture.restart_daemon();
    drop(one);
    let received = receive(&mut server);
    check_death(&server, received, addresses[0]);
    drop(two);
    let received = server.receive_long(SYSTEM, &mut [], LIMIT);
    if let Ok(received) = received {
        check_death(&server, received, addresses[1]);
    } else {
        // Nothing is bound at SYSTEM: a receive from it finds only what has come.
        let received = receive(&mut server);
        check_death(&server, received, addresses[1]);
    }
}

#[test]
fn deaths_do_not_starve_other_peers() {
    watchdog(60);
    let fixture = NodeFixture::new("starve");
    let vm = fixture.vm("starve");
    let mut server = vm.bind(1).unwrap();
    let to = server.address();
    server.watch_all(true);
    let mut sender = vm.bind_additional(Some(29)).unwrap();
    let thread = std::thread::spawn(move || sender.send(to, &Message::new(7)));
    let mut reports = 0;
    loop {
        // Two come and go for each receive.
        for slot in [30, 31] {
            let mut visitor = vm.bind_additional(Some(slot)).unwrap();
            visitor.notify(to).unwrap();
        }
        let received = receive(&mut server);
        if !received.is_notification {
            break;
        }
        reports += 1;
        assert!(reports < 500, "starved");
    }
    thread.join().unwrap().unwrap();
}

#[test]
fn a_message_with_the_type_of_a_notification_is_none() {
    watchdog(60);
    let fixture = NodeFixture::new("kinds");
    let vm = fixture.vm("kinds");
    let mut server = vm.bind(1).unwrap();
    let to = server.address();
    assert_eq!(server.latest_kind(), None);
    for slot in [-2, 30] {
        let mut client = vm.bind_additional(Some(slot)).unwrap();
        let mut forged = Message::new(Message::notification_type(slot));
        forged.set_word(0, Code::SrcDied.number());
        forged.set_word(1, 5);
        let thread = std::thread::spawn(move || {
            client.send(to, &forged).unwrap();
            client.sendrec(to, &forged).unwrap();
            client.notify(to).unwrap();
            client
        });
        let kinds = [ReceivedKind::Message, ReceivedKind::Request, ReceivedKind::Notification];
        for kind in kinds {
            let received = receive(&mut server);
            assert!(received.message.is_notification(), "by its type");
            assert_eq!(received.is_notification, kind == ReceivedKind::Notification);
            assert_eq!(received.is_request, kind == ReceivedKind::Request);
            assert_eq!((server.latest_kind(), received.died), (Some(kind), None));
            if received.is_request {
                server.reply(received.message.source, &Message::new(0)).unwrap();
            }
        }
        drop(thread.join().unwrap());
    }
}

/// On the fast path too, which the second and later deliveries of a peer take.
#[test]
fn a_notification_that_was_there_before_the_receive_is_one() {
    let fixture = NodeFixture::new("noted");
    let vm = fixture.vm("noted");
    let mut server = vm.bind(1).unwrap();
    let mut client = vm.bind_additional(Some(30)).unwrap();
    for _ in 0..10 {
        client.notify(server.address()).unwrap();
        let received = receive(&mut server);
        assert!(received.is_notification && !received.is_request);
        assert_eq!(server.latest_kind(), Some(ReceivedKind::Notification));
    }
}
