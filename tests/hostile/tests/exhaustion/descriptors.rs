//! No descriptors: in the daemon, in a client, in a server.

use crate::fixture::{Lowered, Pair, VM, assert_works, node, talker};
use m3ipc::Node;
use m3ipc_test_fixture::MemberProcess;
use std::time::Duration;

#[test]
fn a_daemon_without_descriptors_refuses_and_goes_on() {
    let node = node("nofile-daemon");
    let pair = Pair::new(node.path());
    let lowered = Lowered::descriptors(node.daemon_pid(), 16);
    let (mut taken, mut refused) = (Vec::new(), 0);
    for _ in 0..64 {
        match Node::find(node.directory()) {
            Ok(one) => taken.push(one),
            Err(error) => {
                assert_eq!(error.code(), m3ipc_abi::Code::NoMem, "{error}");
                assert!(error.why().contains("LimitNOFILE"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(!taken.is_empty() && refused > 32, "{} taken", taken.len());
    // A connected process gets the code as well: the daemon cannot hold its pages.
    let vm = taken[0].vm_named(VM).expect("a question costs nothing");
    let error = vm.bind_any().expect_err("no descriptor for a bind");
    assert_eq!(error.code(), m3ipc_abi::Code::NoMem, "{error}");
    drop(lowered);
    assert_works(node.path(), &pair.address);
    drop(taken);
    let whole = pair.finish(Vec::new());
    println!(
        "T14 descriptors of the daemon: {refused} of 64 newcomers refused, {whole} messages, lost 0"
    );
}

#[test]
fn a_caller_without_descriptors_gets_a_code() {
    let node = node("nofile-caller");
    let pair = Pair::new(node.path());
    let mut caller = MemberProcess::start(0, "caller", &[node.path(), VM]);
    assert!(caller.line().starts_with("at "));
    for round in 0..3 {
        let _lowered = Lowered::descriptors(caller.pid(), round);
        let answer = caller.ask(&pair.address);
        assert!(answer.starts_with("-12 ") && answer.contains("ulimit -n"), "{answer}");
    }
    let lowered = Lowered::descriptors(caller.pid(), 0);
    let answer = caller.ask("attach");
    assert!(answer.starts_with("-12 ") && answer.contains("ulimit -n"), "{answer}");
    drop(lowered);
    // The same links, and a new connection: the failure leaves no trace.
    assert_eq!(caller.ask(&pair.address), "0");
    assert_eq!(caller.ask("attach"), "0");
    drop(caller);
    let whole = pair.finish(Vec::new());
    println!(
        "T14 descriptors of a caller: 4 of 4 calls told -12, then served; {whole} messages, lost 0"
    );
}

#[test]
fn a_server_without_descriptors_serves_whom_it_knows() {
    let node = node("nofile-server");
    let pair = Pair::new(node.path());
    let lowered = Lowered::descriptors(pair.server_pid(), 0);
    // Their links cannot reach the server: these clients wait, and no other does.
    let joined: Vec<MemberProcess> = (0..3).map(|_| talker(node.path(), &pair.address)).collect();
    std::thread::sleep(Duration::from_millis(1500));
    drop(lowered);
    assert_works(node.path(), &pair.address);
    let whole = pair.finish(joined);
    println!(
        "T14 descriptors of a server: 3 of 3 newcomers served when it had some, {whole} messages, \
         lost 0"
    );
}

#[test]
fn a_vm_ends_when_its_daemon_has_descriptors_again() {
    let node = node("nofile-end");
    let mut member = MemberProcess::start(0, "caller", &[node.path(), VM]);
    assert!(member.line().starts_with("at "));
    let mut ending = Node::find(node.directory()).expect("a connection");
    let vm = ending.vm_named(VM).expect("the VM").id();
    // The member is in no call, so the daemon has to kill it, and cannot read whose it is.
    let lowered = Lowered::no_descriptors(node.daemon_pid());
    let end = std::thread::spawn(move || ending.vm_end(vm));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!end.is_finished() && !member.has_ended(), "no signal without a look at its users");
    drop(lowered);
    end.join().expect("no panic").expect("the VM ends");
    while !member.has_ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_new_endpoint_outlives_a_daemon_without_descriptors() {
    let node = node("nofile-new");
    let pair = Pair::new(node.path());
    for round in 0..20 {
        let mut member = MemberProcess::start(0, "caller", &[node.path(), VM]);
        assert!(member.line().starts_with("at "));
        // The daemon has not looked at the new endpoint yet.
        let lowered = Lowered::no_descriptors(node.daemon_pid());
        std::thread::sleep(Duration::from_millis(100));
        drop(lowered);
        assert_eq!(member.ask(&pair.address), "0", "round {round}");
    }
    let whole = pair.finish(Vec::new());
    println!("T14 a daemon without descriptors: 20 new endpoints live, {whole} messages, lost 0");
}
