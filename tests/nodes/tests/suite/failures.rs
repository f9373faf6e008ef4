//! Three nodes, and what befalls one of them while numbered messages flow: nothing is lost or
//! doubled, each call ends truly, and the others go on.

use m3ipc::Address;
use m3ipc_test_fixture::{signals, until, watchdog};
use m3ipc_test_nodes::{Flow, Spaces, Three, VM};
use std::time::Instant;

const ALPHA: usize = 0;
const BETA: usize = 1;
const GAMMA: usize = 2;
const SERVER_OF_BETA: i32 = 10;
const SERVER_OF_GAMMA: i32 = 20;

/// A flow from alpha to beta, and one from alpha to gamma.
fn flows(three: &Three) -> [Flow; 2] {
    let [alpha, beta, gamma] = &three.nodes;
    let flows = [
        Flow::start(alpha, 1, beta, SERVER_OF_BETA),
        Flow::start(alpha, 2, gamma, SERVER_OF_GAMMA),
    ];
    flows.iter().for_each(|flow| flow.await_successes(20));
    flows
}

#[test]
fn a_stopped_proxy_leaves_the_healthy_pairs_alone() {
    watchdog(120);
    let three = Three::new("stop");
    let [healthy, harmed] = flows(&three);
    let proxy = three.nodes[GAMMA].proxy.pid().cast_signed();
    signals::stop(proxy);
    let stopped = Instant::now();
    healthy.await_successes(100);
    harmed.await_failures(1);
    println!("the silence was noticed after {:?}", stopped.elapsed());
    until("the node is lost", || !three.nodes[ALPHA].knows(Address(SERVER_OF_GAMMA)));
    healthy.await_successes(100);
    assert_eq!(healthy.failures(), 0);
    signals::resume(proxy);
    harmed.await_successes(20);
    healthy.finish();
    harmed.finish();
}

#[test]
fn a_flap_loses_and_doubles_nothing() {
    watchdog(120);
    let three = Three::new("flap");
    let [flow, other] = flows(&three);
    let cable = three.cable((ALPHA, BETA));
    let mut clean = 0;
    // On a loaded machine the grace may pass before the two have met again.
    for _ in 0..200 {
        let failures = flow.failures();
        cable.cut();
        flow.await_successes(20);
        clean += u32::from(flow.failures() == failures);
        if clean == 10 {
            break;
        }
    }
    assert_eq!(clean, 10, "no flap passed without an error");
    assert_eq!(other.failures(), 0);
    flow.finish();
    other.finish();
}

#[test]
fn a_partition_ends_the_calls_truly_and_heals() {
    watchdog(180);
    let three = Three::new("partition");
    let [flow, other] = flows(&three);
    let back = Flow::start(&three.nodes[BETA], 11, &three.nodes[ALPHA], 3);
    for _ in 0..2 {
        three.cable((ALPHA, BETA)).hold();
        flow.await_failures(1);
        back.await_failures(1);
        // Each side goes on in its own slots, and with the third node.
        for (node, slot) in [(ALPHA, 5), (BETA, 15)] {
            drop(three.nodes[node].bind(slot));
        }
        other.await_successes(50);
        three.cable((ALPHA, BETA)).heal();
        flow.await_successes(20);
        back.await_successes(20);
    }
    assert_eq!(other.failures(), 0);
    for flow in [flow, other, back] {
        flow.finish();
    }
}

#[test]
fn a_pulled_cable_ends_the_calls_truly_and_heals() {
    watchdog(180);
    let Some(spaces) = Spaces::make("a_pulled_cable_ends_the_calls_truly_and_heals") else {
        return;
    };
    let three = Three::in_spaces("cable", &spaces);
    let [flow, other] = flows(&three);
    let back = Flow::start(&three.nodes[BETA], 11, &three.nodes[ALPHA], 3);
    back.await_successes(20);
    // Shorter than the silence: what was under way comes later.
    for _ in 0..3 {
        spaces.isolate(BETA);
        spaces.join(BETA);
        flow.await_successes(10);
    }
    spaces.isolate(BETA);
    let pulled = Instant::now();
    flow.await_failures(1);
    println!("the silence was noticed after {:?}", pulled.elapsed());
    back.await_failures(1);
    other.await_successes(50);
    spaces.join(BETA);
    flow.await_successes(20);
    back.await_successes(20);
    assert_eq!(other.failures(), 0);
    for flow in [flow, other, back] {
        flow.finish();
    }
}

#[test]
fn proxies_that_are_killed_and_started_again_lose_and_double_nothing() {
    watchdog(180);
    let mut three = Three::new("restart");
    let [flow, other] = flows(&three);
    for node in [BETA, ALPHA, BETA] {
        three.nodes[node].proxy.kill();
        flow.await_failures(1);
        three.nodes[node].restart_proxy();
        flow.await_successes(20);
    }
    // The proxy of alpha carried both.
    other.await_successes(20);
    flow.finish();
    other.finish();
    let beta = three.nodes[BETA].fixture.node().endpoints(VM).expect("the daemon runs");
    assert!(!beta.is_empty());
}
