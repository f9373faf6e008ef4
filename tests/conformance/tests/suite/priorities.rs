//! Priorities: the order of a receive, its bound, and what a server takes over from its clients.

#![allow(clippy::unwrap_used)]

use m3ipc::{
    Address, Endpoint, EndpointInfo, Inheritance, Message, PRIORITY_MAX, PriorityError, Source, Vm,
    WaitStrategy,
};
use m3ipc_sys::Scheduling;
use m3ipc_test_fixture::{NodeFixture, watchdog};
use std::thread::{JoinHandle, spawn, yield_now};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(50);
/// The type of the requests that a server makes for its client.
const FOR_CLIENT: i32 = 1000;

fn endpoint(vm: &Vm, slot: i32) -> Endpoint {
    // The first endpoint is that of the process.
    let bound = if slot == 1 { vm.bind(1) } else { vm.bind_additional(Some(slot)) };
    bound.expect("a free slot")
}

fn facts(fixture: &NodeFixture, vm: &Vm, of: Address) -> EndpointInfo {
    fixture.node().endpoint(vm.id(), of.slot()).expect("a node").expect("a bound endpoint")
}

/// Waits until the endpoint sleeps in a call for this peer: its request is posted.
fn until_asleep(fixture: &NodeFixture, vm: &Vm, who: Address, peer: Address) {
    let is_asleep = |wait: &m3ipc::WaitInfo| wait.peer == peer.0 && wait.for_ns > 0;
    while !is_asleep(&facts(fixture, vm, who).wait) {
        yield_now();
    }
}

/// A client in a sendrec. Its priority is the type of its request.
fn ask(mut client: Endpoint, to: Address, priority: u8) -> JoinHandle<()> {
    client.set_priority(priority).unwrap();
    spawn(move || {
        let request = Message::new(i32::from(priority));
        client.sendrec_timeout(to, &request, LIMIT).unwrap();
    })
}

/// Takes a message, and no notification.
fn take(server: &mut Endpoint) -> Message {
    loop {
        let message = server.receive_timeout(Source::Any, LIMIT).unwrap();
        if !message.is_notification() {
            return message;
        }
    }
}

/// Takes a request and answers it. Returns its type.
fn serve(server: &mut Endpoint) -> i32 {
    let request = take(server);
    server.reply(request.source, &Message::new(0)).unwrap();
    request.m_type
}

#[test]
fn the_highest_priority_is_first_and_equals_keep_their_order() {
    watchdog(60);
    let fixture = NodeFixture::new("order");
    let vm = fixture.vm("order");
    let mut server = endpoint(&vm, 1);
    let to = server.address();
    let mut clients: Vec<Endpoint> = (30..36).map(|slot| endpoint(&vm, slot)).collect();
    for strategy in [WaitStrategy::Adaptive, WaitStrategy::Block] {
        server.set_strategy(strategy);
        let mut waiting = Vec::new();
        let priorities = [0, 5, 0, PRIORITY_MAX, 5, 1];
        for ((client, priority), number) in clients.iter_mut().zip(priorities).zip(0..) {
            client.set_priority(priority).unwrap();
            assert_eq!(client.priority(), priority);
            waiting.push(client.begin_send(to, &Message::new(number), Vec::new()).unwrap());
        }
        let taken: Vec<i32> = waiting.iter().map(|_| take(&mut server).m_type).collect();
        assert_eq!(taken, [3, 1, 4, 5, 0, 2]);
        for (client, pending) in clients.iter_mut().zip(&mut waiting) {
            client.poll_send(pending).expect("taken");
        }
    }
    let refused = clients[0].set_priority(PRIORITY_MAX + 1);
    assert_eq!(refused, Err(PriorityError::OutOfRange(PRIORITY_MAX + 1)));
}

#[test]
fn a_sender_of_the_highest_priority_cannot_keep_others_out() {
    watchdog(60);
    let fixture = NodeFixture::new("bound");
    let vm = fixture.vm("bound");
    let (mut server, mut flood, mut meek) =
        (endpoint(&vm, 1), endpoint(&vm, 30), endpoint(&vm, 31));
    let to = server.address();
    flood.set_priority(PRIORITY_MAX).unwrap();
    let mut waiting = meek.begin_send(to, &Message::new(1), Vec::new()).unwrap();
    let mut passed = 0;
    loop {
        let mut sent = flood.begin_send(to, &Message::new(2), Vec::new()).unwrap();
        if take(&mut server).m_type == 1 {
            break;
        }
        flood.poll_send(&mut sent).expect("taken");
        passed += 1;
        assert!(passed <= 32);
    }
    assert_eq!(passed, 32);
    meek.poll_send(&mut waiting).expect("taken");
}

#[test]
fn a_sender_that_raises_each_waiting_message_cannot_keep_others_out() {
    let fixture = NodeFixture::new("raise");
    let vm = fixture.vm("raise");
    let (mut server, mut flood, mut meek) =
        (endpoint(&vm, 1), endpoint(&vm, 30), endpoint(&vm, 31));
    let to = server.address();
    // The first message of the flood is older than that of the other, and is seen twice.
    let mut sent = flood.begin_send(to, &Message::new(2), Vec::new()).unwrap();
    let mut waiting = meek.begin_send(to, &Message::new(1), Vec::new()).unwrap();
    for passed in 0.. {
        assert!(passed < 200, "the oldest message waits for ever");
        // The server looks at the message for the sake of a notification, before it is raised.
        flood.notify(to).unwrap();
        assert!(server.receive_timeout(Source::Any, LIMIT).unwrap().is_notification());
        flood.set_priority(PRIORITY_MAX).unwrap();
        flood.notify(to).unwrap();
        if take(&mut server).m_type == 1 {
            break;
        }
        flood.poll_send(&mut sent).expect("taken");
        flood.set_priority(0).unwrap();
        sent = flood.begin_send(to, &Message::new(2), Vec::new()).unwrap();
    }
    meek.poll_send(&mut waiting).expect("taken");
}

/// The order in which the last server of a chain takes a request of a client of priority 3 and one
/// of its other client, which a client of priority 7 waits for.
fn order_in_chain(inheritance: Inheritance) -> Vec<i32> {
    let fixture = NodeFixture::new("chain");
    let vm = fixture.vm("chain");
    let (mut first, mut last) = (endpoint(&vm, 1), endpoint(&vm, 2));
    let (to_first, to_last) = (first.address(), last.address());
    let low = endpoint(&vm, 30);
    let low_address = low.address();
    let low = ask(low, to_last, 3);
    until_asleep(&fixture, &vm, low_address, to_last);

    first.set_inheritance(inheritance).unwrap();
    let high = ask(endpoint(&vm, 31), to_first, 7);
    let server = spawn(move || {
        let request = take(&mut first);
        first.sendrec_timeout(to_last, &Message::new(FOR_CLIENT), LIMIT).unwrap();
        first.reply(request.source, &Message::new(0)).unwrap();
        assert_eq!(first.priority(), 0, "given back");
        first // its end would be that of all endpoints of this process
    });
    until_asleep(&fixture, &vm, to_first, to_last);
    let order = vec![serve(&mut last), serve(&mut last)];
    [low, high].into_iter().for_each(|thread| thread.join().unwrap());
    drop(server.join().unwrap());
    order
}

#[test]
fn without_inheritance_an_urgent_client_waits_behind_a_lower_one() {
    watchdog(60);
    assert_eq!(order_in_chain(Inheritance::None), [3, FOR_CLIENT], "the inversion");
    assert_eq!(order_in_chain(Inheritance::Order), [FOR_CLIENT, 3]);
}

#[test]
fn a_priority_passes_along_a_chain_that_waits_already() {
    watchdog(60);
    let fixture = NodeFixture::new("raise");
    let vm = fixture.vm("raise");
    let (mut first, mut middle, mut last) = (endpoint(&vm, 1), endpoint(&vm, 2), endpoint(&vm, 3));
    let (to_first, to_middle, to_last) = (first.address(), middle.address(), last.address());
    first.set_inheritance(Inheritance::Order).unwrap();
    middle.set_inheritance(Inheritance::Order).unwrap();
    let other = endpoint(&vm, 30);
    let other_address = other.address();
    let other = ask(other, to_last, 3);
    until_asleep(&fixture, &vm, other_address, to_last);

    // first waits for middle, and middle for last, for a client without a priority.
    let ordinary = ask(endpoint(&vm, 31), to_first, 0);
    let servers = [
        spawn(move || {
            for _client in 0..2 {
                let request = take(&mut first);
                if request.m_type == 0 {
                    first.sendrec_timeout(to_middle, &Message::new(1), LIMIT).unwrap();
                }
                first.reply(request.source, &Message::new(0)).unwrap();
            }
            first
        }),
        spawn(move || {
            let request = take(&mut middle);
            middle.sendrec_timeout(to_last, &Message::new(FOR_CLIENT), LIMIT).unwrap();
            middle.reply(request.source, &Message::new(0)).unwrap();
            middle
        }),
    ];
    until_asleep(&fixture, &vm, to_middle, to_last);
    until_asleep(&fixture, &vm, to_first, to_middle);
    let urgent = endpoint(&vm, 32);
    let urgent_address = urgent.address();
    let urgent = ask(urgent, to_first, 7);
    until_asleep(&fixture, &vm, urgent_address, to_first);
    // Each sleep that begins now follows a look at the clients. A notification ends one, as the
    // request did before.
    let mut witness = endpoint(&vm, 33);
    for server in [to_first, to_middle] {
        let before = facts(&fixture, &vm, server).slept;
        while facts(&fixture, &vm, server).slept == before {
            witness.notify(server).unwrap();
            yield_now();
        }
    }
    assert_eq!([serve(&mut last), serve(&mut last)], [FOR_CLIENT, 3]);
    [other, ordinary, urgent].into_iter().for_each(|thread| thread.join().unwrap());
    drop(servers.map(|thread| thread.join().unwrap()));
}

#[test]
fn a_thread_runs_at_the_priority_of_its_client() {
    watchdog(60);
    let fixture = NodeFixture::new("thread");
    let vm = fixture.vm("thread");
    let mut server = endpoint(&vm, 1);
    let to = server.address();
    let before = Scheduling::of_thread(0).unwrap();
    if let Err(refused) = server.set_inheritance(Inheritance::Thread) {
        assert_eq!(refused, PriorityError::NotPermitted);
        assert!(Scheduling::fifo(1).apply_to(0).is_err(), "not permitted, indeed");
        return;
    }
    assert_eq!(Scheduling::of_thread(0), Ok(before));
    let low = ask(endpoint(&vm, 30), to, 2);
    let request = take(&mut server);
    assert_eq!(Scheduling::of_thread(0), Ok(Scheduling::fifo(2)));

    // A client that lends raises the server while that works, without a call of the server.
    let mut lender = endpoint(&vm, 31);
    lender.set_priority(4).unwrap();
    let lender = spawn(move || {
        lender.set_inheritance(Inheritance::Thread).unwrap();
        lender.sendrec_timeout(to, &Message::new(4), LIMIT).unwrap();
    });
    while Scheduling::of_thread(0) != Ok(Scheduling::fifo(4)) {
        yield_now();
    }
    server.reply(request.source, &Message::new(0)).unwrap();
    assert_eq!((server.priority(), serve(&mut server)), (4, 4));
    assert_eq!(Scheduling::of_thread(0), Ok(before));
    drop(server);
    [low, lender].into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(Scheduling::of_thread(0), Ok(before));
}
