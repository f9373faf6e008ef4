//! Requests after a kill of the daemon: the next daemon tells a repeat from a new request.

use m3ipc::{Code, Delivery, Message};
use m3ipc_test_fixture::{NodeFixture, take_pending, watchdog};
use std::time::Duration;

#[test]
fn a_new_bind_after_a_takeover_gets_no_endpoint_of_another_thread() {
    watchdog(120);
    let mut fixture = NodeFixture::new("new-bind");
    let vm = fixture.vm("shop");
    let mut own = vm.bind_any().expect("a bind");
    let mut worker = vm.bind_additional(None).expect("an additional endpoint");
    fixture.restart_daemon();
    // Neither endpoint has called the new daemon yet.
    let again = vm.bind_any().expect_err("the process is bound already");
    assert_eq!(again.code(), Code::SlotUsed, "{again}");
    let newcomer = vm.bind_additional(None).expect("another additional endpoint");
    assert_ne!(newcomer.address(), worker.address());
    drop(newcomer);
    worker.name_attach("worker").expect("the worker is still bound");
    assert_eq!(own.name_locate("worker").expect("its name"), worker.address());
}

#[test]
fn a_repeated_request_for_a_name_succeeds_after_a_takeover() {
    watchdog(120);
    let mut fixture = NodeFixture::new("names");
    let vm = fixture.vm("shop");
    let mut own = vm.bind_any().expect("a bind");
    let mut worker = vm.bind_additional(None).expect("an additional endpoint");
    own.name_attach("stock").expect("a free name");
    assert_eq!(own.name_attach("stock").expect_err("it has it").code(), Code::RscBusy);
    fixture.restart_daemon();
    // As if the answer to the request had been lost with the daemon.
    own.name_attach("stock").expect("it has the name");
    assert_eq!(worker.name_attach("stock").expect_err("taken").code(), Code::RscBusy);
}

/// A request to a server that ends while no daemon runs. Another one has its slot, and so its
/// address, before the client knows of the new daemon.
fn end_of_a_request(name: &str, was_taken: bool, successor_calls: bool) -> m3ipc::SendRecError {
    let mut fixture = NodeFixture::new(name);
    let vm = fixture.vm("shop");
    let mut client = vm.bind(2).expect("slot 2 is free");
    let mut server = vm.bind_additional(Some(1)).expect("slot 1 is free");
    let (address, client_address) = (server.address(), client.address());
    let mut pending = client.begin_request(address, &Message::new(7)).expect("the server lives");
    take_pending(&mut server, &mut client, &mut pending);
    server.reply(client_address, &Message::new(8)).expect("the client waits");
    while client.poll_request(&mut pending).expect("an answer comes").is_none() {}
    let mut pending = client.begin_request(address, &Message::new(7)).expect("the server lives");
    if was_taken {
        take_pending(&mut server, &mut client, &mut pending);
    }
    fixture.kill_daemon();
    drop(server);
    fixture.restart_daemon();
    let mut successor = vm.bind_additional(Some(1)).expect("the slot is free again");
    assert_eq!(successor.address(), address);
    let calls = std::thread::spawn(move || {
        if successor_calls {
            successor.notify(client_address).expect("the client lives");
        }
        successor
    });
    let end = loop {
        match client.poll_request(&mut pending) {
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Ok(Some(answer)) => panic!("nobody answers: {answer:?}"),
            Err(end) => break end,
        }
    };
    let _successor = calls.join().expect("no panic");
    end
}

#[test]
fn a_request_ends_with_its_server_although_another_one_has_the_address() {
    watchdog(120);
    for successor_calls in [false, true] {
        let end = end_of_a_request("missed", false, successor_calls);
        assert_eq!((end.code(), end.delivery()), (Code::DstDied, Delivery::NotTaken), "{end}");
        let end = end_of_a_request("missed-taken", true, successor_calls);
        assert_eq!((end.code(), end.delivery()), (Code::SrcDied, Delivery::Taken), "{end}");
    }
}
