//! Pulses, timers, and copies by an offset into what a client leased.

use m3ipc::{
    Address, CopyError, Endpoint, EndpointInfo, Lease, Location, Message, PULSE_MESSAGE,
    PULSES_MAX, Pulse, PulseError, ReceivedKind, Source, Vm, WaitStrategy,
};
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);
const WAITS: [WaitStrategy; 3] = [WaitStrategy::Adaptive, WaitStrategy::Block, WaitStrategy::Spin];

fn pair(vm: &Vm) -> (Endpoint, Endpoint) {
    (vm.bind(1).expect("a free slot"), vm.bind_additional(Some(30)).expect("a free slot"))
}

/// Waits until the endpoint is in a call, asleep or not.
fn until_blocked(fixture: &NodeFixture, vm: &Vm, address: Address) {
    let mut node = fixture.node();
    let running = |found: EndpointInfo| !found.wait.state.waits();
    while node.endpoint(vm.id(), address.slot()).expect("a node").is_none_or(running) {
        std::thread::yield_now();
    }
}

fn pulse(value: u64) -> Pulse {
    Pulse { code: value.to_le_bytes()[0], value }
}

/// Receives a pulse, and checks that the message says what the kind says.
fn receive_pulse(server: &mut Endpoint, from: Address) -> Pulse {
    let message = server.receive_timeout(Source::Any, LIMIT).expect("a pulse");
    let Some(ReceivedKind::Pulse(pulse)) = server.latest_kind() else {
        panic!("no pulse: {message:?}");
    };
    assert_eq!((message.source, message.m_type), (from, PULSE_MESSAGE));
    assert_eq!(message.word(0), i32::from(pulse.code));
    assert_eq!(message.long(1).cast_unsigned(), pulse.value);
    pulse
}

#[test]
fn pulses_arrive_in_their_order_and_a_full_queue_is_an_error() {
    watchdog(60);
    let fixture = NodeFixture::new("pulses");
    let vm = fixture.vm("pulses");
    let (mut server, mut client) = pair(&vm);
    let (to, from) = (server.address(), client.address());
    for strategy in WAITS {
        server.set_strategy(strategy);
        for round in 0..3 {
            for value in 0..PULSES_MAX as u64 {
                client.pulse(to, pulse(round + value)).unwrap();
            }
            assert_eq!(client.pulse(to, pulse(99)), Err(PulseError::NotQueued(to)));
            assert_eq!(client.pending_pulses(to), PULSES_MAX);
            for value in 0..PULSES_MAX as u64 {
                assert_eq!(receive_pulse(&mut server, from), pulse(round + value));
            }
            assert!(server.try_receive(Source::Any).is_err(), "the refused one never comes");
        }
    }
}

#[test]
fn a_pulse_wakes_each_kind_of_receive() {
    watchdog(60);
    let fixture = NodeFixture::new("wakes");
    let vm = fixture.vm("wakes");
    let (mut server, mut client) = pair(&vm);
    let (to, from) = (server.address(), client.address());
    for strategy in WAITS {
        server.set_strategy(strategy);
        for way in 0..3 {
            // The link is there after the first round, so the client wakes a sleeper by itself.
            let thread = std::thread::spawn(move || {
                let received = match way {
                    0 => server.receive_timeout(Source::Any, LIMIT),
                    1 => server.receive_timeout(from, LIMIT),
                    _ => server.rcvrqst(&mut [], LIMIT).map(|received| received.message),
                };
                (server, received.unwrap())
            });
            until_blocked(&fixture, &vm, to);
            client.pulse(to, pulse(way)).unwrap();
            let (back, message) = thread.join().unwrap();
            server = back;
            assert_eq!((message.source, message.m_type), (from, PULSE_MESSAGE));
            assert_eq!(server.latest_kind(), Some(ReceivedKind::Pulse(pulse(way))));
        }
    }
}

#[test]
fn notifications_come_first_and_messages_last() {
    watchdog(60);
    let fixture = NodeFixture::new("order");
    let vm = fixture.vm("order");
    let (mut server, mut client) = pair(&vm);
    let (to, from) = (server.address(), client.address());
    for strategy in WAITS {
        server.set_strategy(strategy);
        client.pulse(to, pulse(1)).unwrap();
        client.notify(to).unwrap();
        client.pulse(to, pulse(2)).unwrap();
        let thread = std::thread::spawn(move || {
            client.send(to, &Message::new(7)).unwrap();
            client
        });
        until_blocked(&fixture, &vm, from);
        assert!(server.receive(Source::Any).unwrap().is_notification());
        assert_eq!(server.latest_kind(), Some(ReceivedKind::Notification));
        assert_eq!(receive_pulse(&mut server, from), pulse(1));
        assert_eq!(receive_pulse(&mut server, from), pulse(2));
        assert_eq!(server.receive(Source::Any).unwrap().m_type, 7);
        assert_eq!(server.latest_kind(), Some(ReceivedKind::Message));
        client = thread.join().unwrap();
    }
}

#[test]
fn a_pulse_makes_the_descriptor_readable_and_is_kept_by_a_new_daemon() {
    watchdog(60);
    let mut fixture = NodeFixture::new("descriptor");
    let vm = fixture.vm("descriptor");
    let (mut server, mut client) = pair(&vm);
    let (to, from) = (server.address(), client.address());
    let fd = server.fd().unwrap().try_clone_to_owned().unwrap();
    let limit_ns = u64::try_from(LIMIT.as_nanos()).unwrap();
    client.pulse(to, pulse(0)).unwrap();
    for value in 0..100 {
        assert_eq!(receive_pulse(&mut server, from), pulse(value));
        assert!(server.try_receive(Source::Any).is_err());
        client.pulse(to, pulse(value + 1)).unwrap();
        assert!(m3ipc_sys::wait_readable(&[fd.as_fd()], limit_ns).unwrap());
    }
    client.pulse(to, pulse(101)).unwrap();
    fixture.restart_daemon();
    assert_eq!(receive_pulse(&mut server, from), pulse(100));
    client.pulse(to, pulse(102)).unwrap();
    assert_eq!(receive_pulse(&mut server, from), pulse(101));
    assert_eq!(receive_pulse(&mut server, from), pulse(102));
}

#[test]
fn a_flood_of_pulses_lets_messages_through_and_loses_none() {
    watchdog(60);
    let fixture = NodeFixture::new("flood");
    let vm = fixture.vm("flood");
    let (mut server, mut client) = pair(&vm);
    let mut other = vm.bind_additional(Some(31)).unwrap();
    let (to, from) = (server.address(), client.address());
    let talking = std::thread::spawn(move || {
        for number in 0..50 {
            other.send(to, &Message::new(number)).unwrap();
        }
    });
    let flooding = std::thread::spawn(move || {
        let mut value = 0;
        while value < 20_000 {
            match client.pulse(to, pulse(value)) {
                Ok(()) => value += 1,
                Err(PulseError::NotQueued(_)) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        // The queue ends with its owner.
        while client.pending_pulses(to) != 0 {
            std::thread::yield_now();
        }
    });
    let (mut value, mut number) = (0, 0);
    while value < 20_000 || number < 50 {
        let message = server.receive_timeout(Source::Any, LIMIT).unwrap();
        if message.source == from {
            assert_eq!(server.latest_kind(), Some(ReceivedKind::Pulse(pulse(value))));
            value += 1;
        } else {
            assert_eq!(message.m_type, number);
            number += 1;
        }
    }
    talking.join().unwrap();
    flooding.join().unwrap();
}

#[test]
fn a_pulse_is_no_answer_and_outlives_its_sender() {
    watchdog(60);
    let fixture = NodeFixture::new("ends");
    let vm = fixture.vm("ends");
    let (mut server, mut client) = pair(&vm);
    let (to, from) = (server.address(), client.address());
    let thread = std::thread::spawn(move || {
        let answer = client.sendrec(to, &Message::new(1)).unwrap();
        assert_eq!(answer.m_type, 2);
        assert_eq!(receive_pulse(&mut client, to), pulse(5));
        client
    });
    assert_eq!(server.receive(Source::Any).unwrap().m_type, 1);
    server.pulse(from, pulse(5)).unwrap();
    server.reply(from, &Message::new(2)).unwrap();
    let mut client = thread.join().unwrap();
    client.notify(to).unwrap();
    (0..16).for_each(|value| client.pulse(to, pulse(value)).unwrap());
    server.watch(from).unwrap();
    drop(client);
    server.wait_unbind(from, LIMIT).unwrap();
    assert!(server.receive_timeout(from, LIMIT).unwrap().is_notification());
    for value in 0..15 {
        assert_eq!(server.receive_timeout(Source::Any, LIMIT).unwrap().source, from);
        assert_eq!(server.latest_kind(), Some(ReceivedKind::Pulse(pulse(value))));
    }
    assert_eq!(receive_pulse(&mut server, from), pulse(15), "also by a receive from the dead");
    assert_eq!(server.receive_timeout(from, LIMIT), Err(m3ipc::ReceiveError::Died(from)));
    server.receive_timeout(Source::Any, LIMIT).unwrap();
    assert_eq!(server.latest_kind(), Some(ReceivedKind::Death(from)), "the report comes last");
    assert!(server.try_receive(Source::Any).is_err());
    assert_eq!(server.pulse(from, pulse(7)), Err(PulseError::Died(from)));
    let own = server.address();
    assert_eq!(server.pulse(own, pulse(8)), Err(PulseError::Stale(own)));
}

#[test]
fn timers_end_waits_of_each_strategy() {
    watchdog(60);
    let fixture = NodeFixture::new("timers");
    let vm = fixture.vm("timers");
    let (mut server, mut client) = pair(&vm);
    let own = server.address();
    for strategy in WAITS {
        server.set_strategy(strategy);
        let started = Instant::now();
        let (first, period) = (Duration::from_millis(20), Duration::from_millis(5));
        let timer = server.set_timer(pulse(1), first, Some(period)).unwrap();
        server.set_timer(pulse(2), Duration::from_millis(10), None).unwrap();
        assert_eq!(receive_pulse(&mut server, own), pulse(2));
        assert!(started.elapsed() >= Duration::from_millis(10), "not before its time");
        assert_eq!(receive_pulse(&mut server, own), pulse(1));
        assert!(started.elapsed() >= first, "not before its time");
        let received = server.rcvrqst(&mut [], LIMIT).unwrap().message;
        assert_eq!((received.source, received.word(0)), (own, 1));
        // Ends that nobody takes count.
        std::thread::sleep(Duration::from_millis(30));
        let late = server.receive(Source::Any).unwrap();
        assert!(late.word(1) >= 5, "{late:?}");
        // Messages come as before, and a receive with a limit keeps its limit.
        client.notify(own).unwrap();
        while !server.receive(Source::Any).unwrap().is_notification() {}
        assert!(server.cancel_timer(timer) && !server.cancel_timer(timer));
        assert!(server.try_receive(Source::Any).is_err(), "its pulse went with it");
        let short = server.receive_timeout(Source::Any, Duration::from_millis(1));
        assert!(short.is_err(), "{short:?}");
    }
}

#[test]
fn a_timer_that_always_runs_out_lets_others_through() {
    watchdog(60);
    let fixture = NodeFixture::new("busy");
    let vm = fixture.vm("busy");
    let (mut server, mut client) = pair(&vm);
    let (to, from) = (server.address(), client.address());
    let timer = server.set_timer(pulse(1), Duration::ZERO, Some(Duration::from_nanos(1))).unwrap();
    let thread = std::thread::spawn(move || {
        for value in 0..PULSES_MAX as u64 {
            client.pulse(to, pulse(value)).unwrap();
        }
        client.send(to, &Message::new(7)).unwrap();
        while client.pending_pulses(to) != 0 {
            std::thread::yield_now();
        }
    });
    let (mut pulses, mut messages) = (0, 0);
    while (pulses, messages) != (PULSES_MAX, 1) {
        let message = server.receive(Source::Any).unwrap();
        pulses += usize::from(message.source == from && message.m_type == PULSE_MESSAGE);
        messages += usize::from(message.m_type == 7);
    }
    thread.join().unwrap();
    assert!(server.cancel_timer(timer));
}

#[test]
fn a_server_copies_by_an_offset_into_the_leases_of_its_client() {
    watchdog(60);
    let fixture = NodeFixture::new("leases");
    let vm = fixture.vm("leases");
    let (mut server, mut client) = pair(&vm);
    let (to, from) = (server.address(), client.address());
    let thread = std::thread::spawn(move || {
        let (text, mut answer) = (*b"0123456789", [b'.'; 8]);
        let leases = [Lease::read(&text), Lease::write(&mut answer)];
        client.sendrec_leased(to, &Message::new(1), &leases, None).unwrap();
        assert_eq!(&answer, b"..bye...");
        client.sendrec(to, &Message::new(2)).unwrap();
        client
    });
    assert_eq!(server.receive(Source::Any).unwrap().m_type, 1);
    let mut found = [0; 3];
    server.copy_from(from, Location::Leased(4), &mut found).unwrap();
    assert_eq!(&found, b"456");
    server.copy_to(from, Location::Leased(2), b"bye").unwrap();
    for beyond in [8, 10, u64::MAX] {
        let refused = server.copy_from(from, Location::Leased(beyond), &mut found);
        assert_eq!(refused, Err(CopyError::OutOfRange(from)), "{beyond}");
    }
    let refused = server.copy_to(from, Location::Leased(7), b"no");
    assert_eq!(refused, Err(CopyError::OutOfRange(from)));
    server.reply(from, &Message::new(0)).unwrap();
    assert_eq!(server.receive(Source::Any).unwrap().m_type, 2);
    let refused = server.copy_from(from, Location::Leased(0), &mut found);
    assert_eq!(refused, Err(CopyError::NotGranted(from)), "the leases ended with their call");
    server.reply(from, &Message::new(0)).unwrap();
    thread.join().unwrap();
}
