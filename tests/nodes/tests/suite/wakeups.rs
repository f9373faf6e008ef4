//! Wakeups between nodes.

use m3ipc::{Address, Code, Message, ReceiveError, Source};
use m3ipc_test_fixture::{until, watchdog};
use m3ipc_test_nodes::{Cluster, VM};

const CLIENT: i32 = 1;
const SERVER: i32 = 10;
const SERVER_ADDRESS: Address = Address(SERVER);

#[test]
fn a_wakeup_ends_the_receive_of_a_remote_endpoint_or_is_remembered() {
    watchdog(60);
    let cluster = Cluster::new("wakeup");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    // It runs: it remembers.
    let woken = client.wakeup(SERVER_ADDRESS).expect_err("it receives nothing");
    assert_eq!(woken.code(), Code::ProcRun);
    assert!(matches!(server.receive(Source::Any), Err(ReceiveError::Woken(_))));
    // It sleeps in a receive.
    let receiving = std::thread::spawn(move || {
        let woken = server.receive(Source::Any);
        (server, woken)
    });
    let mut node = cluster.beta.fixture.node();
    until("the server sleeps", || {
        let found = node.endpoint(VM, SERVER).expect("the node answers");
        found.is_some_and(|found| {
            found.wait.state == m3ipc::WaitState::Receive && found.wait.for_ns > 0
        })
    });
    client.wakeup(SERVER_ADDRESS).expect("it receives from anybody");
    let (mut server, woken) = receiving.join().expect("no panic");
    assert!(matches!(woken, Err(ReceiveError::Woken(_))), "{woken:?}");
    // It waits for no message of the same sender, which nobody has taken.
    let pending = client.begin_request(SERVER_ADDRESS, &Message::new(7)).expect("it lives");
    assert_eq!(client.wakeup(SERVER_ADDRESS).expect_err("it runs").code(), Code::ProcRun);
    assert!(matches!(server.receive(Source::Any), Err(ReceiveError::Woken(_))));
    drop(pending);
}

#[test]
fn a_killed_proxy_ends_the_wakeup_under_way() {
    watchdog(120);
    for of_beta in [false, true] {
        let mut cluster = Cluster::new("wakeup-kill");
        let _server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
        let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
        // Nobody answers from now on.
        cluster.beta.proxy.signal("STOP");
        let waking = std::thread::spawn(move || {
            let woken = client.wakeup(SERVER_ADDRESS);
            (client, woken)
        });
        let node = if of_beta { &mut cluster.beta } else { &mut cluster.alpha };
        node.proxy.kill();
        let (mut client, woken) = waking.join().expect("no panic");
        let code = woken.expect_err("nobody answers").code();
        // Under way at the end of the proxy; or begun after it.
        assert!([Code::Unknown, Code::NotConn].contains(&code), "{code:?}");
        let node = if of_beta { &mut cluster.beta } else { &mut cluster.alpha };
        node.restart_proxy();
        cluster.beta.proxy.signal("CONT");
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
        until("wakeups cross again", || {
            client.wakeup(SERVER_ADDRESS).is_err_and(|error| error.code() == Code::ProcRun)
        });
    }
}

#[test]
fn a_stopped_proxy_holds_no_wakeup_up() {
    watchdog(120);
    let cluster = Cluster::new("wakeup-stop");
    let _server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    cluster.alpha.proxy.signal("STOP");
    let woken = client.wakeup(SERVER_ADDRESS).expect_err("nobody says so");
    assert_eq!(woken.code(), Code::Unknown);
    let pid = cluster.alpha.proxy.pid();
    assert!(woken.to_string().contains(&format!("kill -CONT {pid}")), "{woken}");
    // The next request has its own answer.
    assert!(client.name_locate("nobody").is_err_and(|error| error.code() == Code::NoNode));
    cluster.alpha.proxy.signal("CONT");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    until("wakeups cross again", || {
        client.wakeup(SERVER_ADDRESS).is_err_and(|error| error.code() == Code::ProcRun)
    });
}
