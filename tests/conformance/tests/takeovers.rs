//! Requests after a kill of the daemon: the next daemon tells a repeat from a new request.

use m3ipc::Code;
use m3ipc_test_fixture::{NodeFixture, watchdog};

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
