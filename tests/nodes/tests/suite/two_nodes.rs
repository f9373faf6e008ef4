//! Programs of two nodes talk with the ordinary verbs, and errors are true.

use m3ipc::trace::{Join, TraceConfig};
use m3ipc::{
    Address, Code, Message, ReceiveError, SendError, SendRecError, Source, VmConfig, VmLife,
};
use m3ipc_test_fixture::{until, watchdog};
use m3ipc_test_nodes::{Cluster, VM};
use std::time::Duration;

/// A client slot of alpha, and a server slot of beta. The addresses of system slots never change.
const CLIENT: i32 = 1;
const SERVER: i32 = 10;
const SERVER_ADDRESS: Address = Address(SERVER);
const SHORT: Duration = Duration::from_millis(100);

fn numbered(number: u32) -> Message {
    let mut message = Message::new(7);
    message.payload[..4].copy_from_slice(&number.to_ne_bytes());
    message
}

#[test]
fn a_request_and_its_answer_cross_nodes() {
    watchdog(60);
    let cluster = Cluster::new("sendrec");
    let _server = cluster.beta.program("echo", SERVER);
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    for number in 0..100 {
        let request = numbered(number);
        let answer = client.sendrec(SERVER_ADDRESS, &request).expect("the server answers");
        assert_eq!((answer.source, answer.m_type), (SERVER_ADDRESS, 8));
        assert_eq!(answer.payload, request.payload);
    }
    // Payloads that a link holds go along, in both directions.
    let bytes: Vec<u8> = (0..1400_u32).map(|at| at.to_le_bytes()[0]).collect();
    let mut buffer = vec![0; 2000];
    let request = numbered(1);
    let answer = client.sendrec_long(SERVER_ADDRESS, &request, &bytes, &mut buffer, None);
    assert_eq!(answer.expect("the server answers").1, bytes.len());
    assert_eq!(buffer[..bytes.len()], bytes);
    assert!(client.sendrec(SERVER_ADDRESS, &request).is_ok());
}

#[test]
fn a_relay_serves_and_a_raw_copy_is_refused() {
    watchdog(60);
    let cluster = Cluster::new("relay");
    let _worker = cluster.beta.program("echo", SERVER + 1);
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let asking = std::thread::spawn(move || {
        let bytes = [5_u8; 100];
        let address = bytes.as_ptr() as u64;
        let mut request = numbered(1);
        request.payload[8..16].copy_from_slice(&address.to_ne_bytes());
        client.sendrec(SERVER_ADDRESS, &request)
    });
    let request = server.receive(Source::Any).expect("the request comes");
    let mut address = [0; 8];
    address.copy_from_slice(&request.payload[8..16]);
    let mut copy = [0; 100];
    let copied = server.copy_from(request.source, u64::from_ne_bytes(address), &mut copy);
    assert!(copied.is_err() && copy == [0; 100], "{copied:?}");
    server.relay(request.source, Address(SERVER + 1)).expect("the client waits");
    let answer = asking.join().expect("no panic").expect("the worker answers");
    assert_eq!((answer.m_type, answer.payload), (8, request.payload));
}

#[test]
fn ten_thousand_messages_stay_in_order() {
    watchdog(120);
    const MESSAGES: u32 = 10_000;
    let cluster = Cluster::new("order");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let from = client.address();
    let receiver = std::thread::spawn(move || {
        for number in 0..MESSAGES {
            let message = server.receive(Source::Any).expect("a message comes");
            assert_eq!((message.source, message.payload), (from, numbered(number).payload));
        }
        assert!(matches!(server.try_receive(Source::Any), Err(ReceiveError::WouldBlock(_))));
    });
    for number in 0..MESSAGES {
        client.send(SERVER_ADDRESS, &numbered(number)).expect("the server receives");
    }
    receiver.join().expect("all came in order");
}

#[test]
fn notifications_cross_nodes_in_both_directions() {
    watchdog(60);
    let cluster = Cluster::new("notify");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    cluster.beta.await_endpoint(client.address());
    client.notify(SERVER_ADDRESS).expect("the server lives");
    let notified = server.receive(Source::Any).expect("a notification comes");
    assert!(notified.is_notification() && notified.source == client.address());
    server.notify(client.address()).expect("the client lives");
    let notified = client.receive(SERVER_ADDRESS).expect("a notification comes");
    assert!(notified.is_notification() && notified.source == SERVER_ADDRESS);
}

#[test]
fn a_notification_crosses_nodes_although_its_sender_ends_at_once() {
    watchdog(120);
    let cluster = Cluster::new("ends");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let _process = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    for _ in 0..20 {
        let vm = cluster.alpha.vm.clone();
        let ended = std::thread::spawn(move || {
            let mut own = vm.bind_thread(None).expect("a slot");
            own.notify(SERVER_ADDRESS).expect("the server lives");
            own.address()
        });
        let from = ended.join().expect("no panic");
        let notified = server.receive(Source::Any).expect("a notification comes");
        assert!(notified.is_notification() && notified.source == from);
    }
}

#[test]
fn notifications_of_many_senders_that_end_at_once_cross_nodes() {
    watchdog(120);
    const SENDERS: usize = 16;
    let cluster = Cluster::new("crowd");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let _process = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    for _ in 0..10 {
        // All announcements, notifications and ends come together.
        let together = std::sync::Barrier::new(SENDERS);
        let mut sent: Vec<Address> = std::thread::scope(|scope| {
            let sender = || {
                let mut own = cluster.alpha.vm.bind_thread(None).expect("a slot");
                together.wait();
                own.notify(SERVER_ADDRESS).expect("the server lives");
                own.address()
            };
            let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(sender)).collect();
            senders.into_iter().map(|it| it.join().expect("no panic")).collect()
        });
        let mut received: Vec<Address> = (0..SENDERS)
            .map(|_| server.receive(Source::Any).expect("a notification comes"))
            .map(|it| it.source)
            .collect();
        sent.sort_unstable();
        received.sort_unstable();
        assert_eq!(received, sent);
    }
}

#[test]
fn a_message_that_is_not_received_in_time_is_not_taken() {
    watchdog(60);
    let cluster = Cluster::new("limit");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    for _ in 0..3 {
        let sent = client.send_timeout(SERVER_ADDRESS, &numbered(1), SHORT);
        assert!(matches!(sent, Err(SendError::TimedOut(_))), "{sent:?}");
        assert!(matches!(server.try_receive(Source::Any), Err(ReceiveError::WouldBlock(_))));
        let asked = client.sendrec_timeout(SERVER_ADDRESS, &numbered(2), SHORT);
        assert!(matches!(asked, Err(SendRecError::TimedOut(_))), "{asked:?}");
        assert!(matches!(server.try_receive(Source::Any), Err(ReceiveError::WouldBlock(_))));
    }
    // A request that was taken in time, and not answered, is the server's. Its late answer finds
    // nobody, and the next request its own answer.
    let asking = std::thread::spawn(move || {
        let asked = client.sendrec_timeout(SERVER_ADDRESS, &numbered(3), SHORT);
        assert!(matches!(asked, Err(SendRecError::TimedOutAfter(_))), "{asked:?}");
        client
    });
    let request = server.receive(Source::Any).expect("the request comes");
    let mut client = asking.join().expect("the client hears of its limit");
    let _ = server.reply(request.source, &numbered(3));
    let serving = std::thread::spawn(move || {
        let request = server.receive(Source::Any).expect("the next request comes");
        server.reply(request.source, &request).expect("the client waits");
    });
    let answer = client.sendrec(SERVER_ADDRESS, &numbered(4)).expect("the server answers");
    assert_eq!(answer.payload, numbered(4).payload);
    serving.join().expect("the server has answered");
}

#[test]
fn a_time_limit_that_meets_the_take_tells_the_truth() {
    watchdog(120);
    const MESSAGES: u32 = 400;
    let cluster = Cluster::new("race");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let receiver = std::thread::spawn(move || {
        let mut got = Vec::new();
        loop {
            // Ready now and then, so that takes meet ends of limits.
            std::thread::sleep(Duration::from_micros((got.len() % 7) as u64 * 300));
            let message = server.receive(Source::Any).expect("messages come");
            let number = u32::from_ne_bytes(message.payload[..4].try_into().expect("4 bytes"));
            if number == u32::MAX {
                return got;
            }
            got.push(number);
        }
    });
    let mut sent = Vec::new();
    for number in 0..MESSAGES {
        let limit = Duration::from_micros(u64::from(number % 13) * 150);
        match client.send_timeout(SERVER_ADDRESS, &numbered(number), limit) {
            Ok(()) => sent.push(number),
            Err(SendError::TimedOut(_) | SendError::WouldBlock(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    client.send(SERVER_ADDRESS, &numbered(u32::MAX)).expect("the server receives");
    let got = receiver.join().expect("messages come");
    assert_eq!(got, sent);
    assert!(!sent.is_empty() && sent.len() < MESSAGES as usize, "{} were in time", sent.len());
}

#[test]
fn the_death_of_the_server_says_whether_it_took_the_request() {
    watchdog(60);
    let cluster = Cluster::new("death");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    for (role, code) in [("silent", Code::SrcDied), ("deaf", Code::DstDied)] {
        let mut server = cluster.beta.program(role, SERVER);
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
        let asking = std::thread::spawn(move || {
            let asked = client.sendrec(SERVER_ADDRESS, &numbered(1));
            (client, asked)
        });
        if role == "silent" {
            assert_eq!(server.line(), "taken");
        } else {
            cluster.alpha.await_call(CLIENT, "sendrec");
        }
        server.kill();
        let (back, asked) = asking.join().expect("the call ends");
        client = back;
        assert_eq!(asked.expect_err("the server is dead").code(), code);
        until("the death is known", || !cluster.alpha.knows(SERVER_ADDRESS));
        let asked = client.sendrec(SERVER_ADDRESS, &numbered(1));
        assert_eq!(asked.expect_err("nobody is there").code(), Code::DeadSrcDst);
    }
}

/// The codes of the failure table for a node that is lost: never sent, sent, taken; and for a node
/// that has begun a new life.
fn is_of_a_lost_node(code: Code, taken: bool) -> bool {
    let codes = [Code::NotConn, Code::Unknown, Code::DstDied];
    if taken {
        [Code::AnswerLost, Code::Unknown, Code::SrcDied].contains(&code)
    } else {
        codes.contains(&code)
    }
}

#[test]
fn a_killed_proxy_ends_the_calls_and_a_new_one_serves_again() {
    watchdog(120);
    let mut cluster = Cluster::new("proxy");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    for of_beta in [false, true] {
        let mut server = cluster.beta.program("silent", SERVER);
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
        let asking = std::thread::spawn(move || {
            let asked = client.sendrec(SERVER_ADDRESS, &numbered(1));
            (client, asked)
        });
        assert_eq!(server.line(), "taken");
        cluster.alpha.await_call(CLIENT, "sendrec (taken)");
        let node = if of_beta { &mut cluster.beta } else { &mut cluster.alpha };
        node.proxy.kill();
        let (back, asked) = asking.join().expect("the call ends");
        client = back;
        let code = asked.expect_err("the node is lost").code();
        assert!(is_of_a_lost_node(code, true), "{code}");
        assert_ne!(code, Code::Unknown, "the take was known");
        // Until there is a proxy again, a call fails at once.
        until("the node is lost", || !cluster.alpha.knows(SERVER_ADDRESS));
        let asked = client.sendrec(SERVER_ADDRESS, &numbered(1));
        assert_eq!(asked.expect_err("the node is lost").code(), Code::NotConn);
        let node = if of_beta { &mut cluster.beta } else { &mut cluster.alpha };
        node.restart_proxy();
        server.kill();
        let _server = cluster.beta.program("echo", SERVER);
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
        let answer = client.sendrec(SERVER_ADDRESS, &numbered(2)).expect("all is well again");
        assert_eq!(answer.payload, numbered(2).payload);
        drop(_server);
        until("the death is known", || !cluster.alpha.knows(SERVER_ADDRESS));
    }
}

#[test]
fn a_killed_daemon_of_the_other_node_ends_the_calls() {
    watchdog(120);
    let mut cluster = Cluster::new("daemon");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    let mut server = cluster.beta.program("silent", SERVER);
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let asking = std::thread::spawn(move || {
        let asked = client.sendrec(SERVER_ADDRESS, &numbered(1));
        (client, asked)
    });
    assert_eq!(server.line(), "taken");
    cluster.alpha.await_call(CLIENT, "sendrec (taken)");
    cluster.beta.fixture.kill_daemon();
    let (mut client, asked) = asking.join().expect("the call ends");
    let code = asked.expect_err("the node is lost").code();
    assert!(is_of_a_lost_node(code, true), "{code}");
    server.kill();
    cluster.beta.fixture.restart_daemon();
    let _server = cluster.beta.program("echo", SERVER);
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    until("the server answers", || client.sendrec(SERVER_ADDRESS, &numbered(2)).is_ok());
}

#[test]
fn a_slot_of_another_node_is_refused() {
    watchdog(60);
    let cluster = Cluster::new("bind");
    // A program in a slot of the other node would keep the proxy from its registration.
    let _server = cluster.beta.program("echo", SERVER);
    let client = cluster.alpha.program("echo", CLIENT);
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    cluster.beta.await_endpoint(Address(CLIENT));
    drop(client);
    let refused = cluster.alpha.vm.bind(SERVER).expect_err("the slot is of beta").to_string();
    assert!(refused.contains("beta"), "{refused}");
    let any = cluster.alpha.vm.bind_any().expect("alpha has slots");
    assert!((29..100).contains(&any.address().slot()), "{:?}", any.address());
    let any = cluster.beta.vm.bind_any().expect("beta has slots");
    assert!((100..200).contains(&any.address().slot()), "{:?}", any.address());
}

#[test]
fn an_endpoint_of_another_node_is_not_unbound_from_here() {
    watchdog(60);
    let cluster = Cluster::new("unbind");
    let mut server = cluster.beta.program("silent", SERVER);
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    let mut other = cluster.alpha.vm.bind_additional(Some(2)).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let asking = std::thread::spawn(move || {
        other.sendrec_timeout(SERVER_ADDRESS, &Message::new(7), Duration::from_secs(2))
    });
    assert_eq!(server.line(), "taken");
    let refused = client.unbind_other(SERVER_ADDRESS).expect_err("it is on the other node");
    assert_eq!(refused.code(), Code::RmtProc);
    assert!(refused.to_string().contains("beta"), "{refused}");
    // The calls of others go on: this one ends with its time.
    let asked = asking.join().expect("no panic").expect_err("nobody answers");
    assert!(matches!(asked, SendRecError::TimedOutAfter(_)), "{asked:?}");
}

#[test]
fn endpoints_that_send_to_each_other_do_not_wait_for_ever() {
    watchdog(60);
    let cluster = Cluster::new("circle");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    let from = client.address();
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    cluster.beta.await_endpoint(from);
    let other = std::thread::spawn(move || server.sendrec(from, &numbered(1)).map(drop));
    let one = client.sendrec(SERVER_ADDRESS, &numbered(2)).map(drop);
    // The other one is free to end: its partner has given up, and is gone now.
    drop(client);
    let other = other.join().expect("the call ends");
    let codes = [one, other].map(|it| it.expect_err("nobody receives").code());
    assert!(codes.contains(&Code::Locked), "{codes:?}");
}

#[test]
fn the_end_of_a_vm_leaves_the_proxy_alone() {
    watchdog(60);
    let cluster = Cluster::new("vm-end");
    let _server = cluster.beta.program("echo", SERVER);
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let proxy = cluster.alpha.proxy.pid();
    for _ in 0..2 {
        let mut node = cluster.alpha.fixture.node();
        node.vm_end(VM).expect("the VM ends");
        let vm = node.vm_init(&VmConfig::new("shop").id(VM)).expect("a new VM");
        let mut client = vm.bind(CLIENT).expect("the slot is of alpha");
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
        assert!(client.sendrec(SERVER_ADDRESS, &numbered(1)).is_ok());
    }
    // A VM that ends with its members does not wait for stand-ins.
    let mut node = cluster.alpha.fixture.node();
    node.vm_end(VM).expect("the VM ends");
    let config = VmConfig::new("shop").id(VM).life(VmLife::Members);
    let vm = node.vm_init(&config).expect("a new VM");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    drop(vm.bind(CLIENT).expect("the slot is of alpha"));
    until("the VM has ended", || cluster.alpha.fixture.node().vm_named("shop").is_err());
    assert!(std::path::Path::new(&format!("/proc/{proxy}")).exists());
}

#[test]
fn programs_that_come_and_go_leave_nothing() {
    watchdog(120);
    let cluster = Cluster::new("left");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    let directory = cluster.directory().to_owned();
    let runtime = [&cluster.alpha, &cluster.beta].map(|it| it.fixture.directory().to_owned());
    let proxies = [cluster.alpha.proxy.pid(), cluster.beta.proxy.pid()];
    let mut before = None;
    for round in 0..6 {
        let mut server = cluster.beta.program("echo", SERVER);
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
        client.sendrec(SERVER_ADDRESS, &numbered(round)).expect("the server answers");
        server.kill();
        until("the death is known", || !cluster.alpha.knows(SERVER_ADDRESS));
        let count = || [&cluster.alpha, &cluster.beta].map(|it| it.proxy.descriptors());
        // The daemon knows of the end of a stand-in before its proxy has closed it.
        let mut settled = count();
        until("the proxies are at rest", || {
            std::thread::sleep(SHORT);
            std::mem::replace(&mut settled, count()) == settled
        });
        match before {
            None => before = Some(settled),
            Some(before) => until("no descriptor is left", || count() == before),
        }
    }
    drop(client);
    drop(cluster);
    for path in runtime.iter().chain([&directory]) {
        assert!(!path.exists(), "{} is left", path.display());
    }
    for pid in proxies {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
    }
}

#[test]
fn a_traced_call_to_another_node_is_one_call_on_each_node() {
    watchdog(120);
    let cluster = Cluster::new("traced");
    let _server = cluster.beta.program("echo", SERVER);
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    client.sendrec(SERVER_ADDRESS, &Message::new(7)).expect("the server answers");
    for node in [&cluster.alpha, &cluster.beta] {
        let mut trace = node.fixture.node().trace(VM, TraceConfig::default()).expect("root may");
        let (mut join, mut calls) = (Join::new(10_000), Vec::new());
        // A member and a stand-in stamp from the call on in which they hear of the tracer.
        until("a call is traced", || {
            client.sendrec(SERVER_ADDRESS, &Message::new(7)).expect("the server answers");
            let read = trace.poll(|endpoint, record| join.add(endpoint, &record));
            read.expect("the daemon runs");
            calls.extend(join.take_calls());
            !calls.is_empty()
        });
        let call = calls[0];
        assert_eq!((call.request.from, call.request.to), (client.address(), SERVER_ADDRESS));
        assert!(call.phases().server > 0 && call.phases().server < call.ticks());
    }
}
