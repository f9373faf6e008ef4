//! VMs that end with their creator or with their last member, VMs that are opened or created, and
//! nodes that stay.

use m3ipc::{Address, Code, Node, NodeError, Source, Vm, VmConfig, VmLife};
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{MemberProcess, NodeFixture, signals, watchdog};
use m3ipc_wire::{Reply, Request};
use std::os::fd::AsFd;

/// Starts a process that opens or creates the VM "shop" with this life. Returns it and the VM's id.
fn creator(fixture: &NodeFixture, life: &str) -> (MemberProcess, i32) {
    let directory = fixture.directory().to_str().expect("a plain path");
    let mut process = MemberProcess::start(0, "creator", &[directory, "shop", life]);
    let line = process.line();
    let id = line.strip_prefix("vm ").and_then(|id| id.parse().ok());
    (process, id.unwrap_or_else(|| panic!("no VM: {line}")))
}

fn member(fixture: &NodeFixture, role: &str) -> MemberProcess {
    let directory = fixture.directory().to_str().expect("a plain path");
    let mut process = MemberProcess::start(0, role, &[directory, "shop"]);
    assert!(process.line().starts_with("at "), "it is bound");
    process
}

/// Kills a process, and returns when it has ended.
fn kill(process: &MemberProcess) {
    let fd = m3ipc_sys::open_process(process.pid()).expect("it lives");
    m3ipc_sys::signal(&fd, m3ipc_sys::Signal::KILL).expect("a process of this test");
    until(|| m3ipc_sys::wait_readable(&[fd.as_fd()], u64::MAX) == Ok(true));
}

fn until(mut happened: impl FnMut() -> bool) {
    while !happened() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

fn has_shop(fixture: &NodeFixture) -> bool {
    fixture.node().vms().expect("the list").iter().any(|vm| vm.name == "shop")
}

#[test]
fn a_vm_ends_with_its_killed_creator_and_takes_its_workers_along() {
    watchdog(120);
    let fixture = NodeFixture::new("creator");
    let (first, id) = creator(&fixture, "creator");
    let info = fixture.node().vm(id).expect("the VM").info().clone();
    assert_eq!((info.life, info.creator_pid), (VmLife::Creator, first.pid()));
    let mut worker = member(&fixture, "listener");
    kill(&first);
    until(|| worker.has_ended());
    until(|| !has_shop(&fixture));
    let (_second, _) = creator(&fixture, "creator");
    assert!(has_shop(&fixture));
}

#[test]
fn a_vm_with_another_life_outlives_its_creator() {
    watchdog(120);
    let fixture = NodeFixture::new("outlives");
    let (first, id) = creator(&fixture, "until-ended");
    kill(&first);
    drop(first);
    let (second, same) = creator(&fixture, "until-ended");
    assert_eq!(same, id);
    assert_ne!(fixture.node().vm(id).expect("the VM").info().creator_pid, second.pid());
}

#[test]
fn a_restart_waits_until_the_vm_of_the_killed_creator_has_ended() {
    watchdog(120);
    let fixture = NodeFixture::new("restart");
    for _ in 0..5 {
        let (first, _) = creator(&fixture, "creator");
        let mut worker = member(&fixture, "listener");
        kill(&first);
        // The workers of the old VM are still leaving.
        let (second, _) = creator(&fixture, "creator");
        until(|| worker.has_ended());
        let id = fixture.node().vm_named("shop").expect("the new VM").id();
        assert_eq!(fixture.node().vm(id).expect("it").info().creator_pid, second.pid());
    }
}

#[test]
fn a_vm_ends_with_its_last_member_and_not_before_its_first() {
    watchdog(120);
    let fixture = NodeFixture::new("members");
    let (first, _) = creator(&fixture, "members");
    kill(&first);
    drop(first);
    assert!(has_shop(&fixture), "no member has joined yet");
    let (one, other) = (member(&fixture, "listener"), member(&fixture, "listener"));
    kill(&one);
    drop(one);
    assert!(has_shop(&fixture), "a member is left");
    kill(&other);
    until(|| !has_shop(&fixture));
}

#[test]
fn a_death_while_no_daemon_runs_ends_the_vm_after_the_restart() {
    watchdog(120);
    for life in ["creator", "members"] {
        let mut fixture = NodeFixture::new("no-daemon");
        let (creator, _) = creator(&fixture, life);
        let worker = member(&fixture, "listener");
        fixture.kill_daemon();
        kill(if life == "creator" { &creator } else { &worker });
        fixture.restart_daemon();
        until(|| !has_shop(&fixture));
    }
}

#[test]
fn a_death_after_a_restart_of_the_daemon_ends_the_vm_too() {
    watchdog(120);
    for life in ["creator", "members"] {
        let mut fixture = NodeFixture::new("restarted");
        let (creator, _) = creator(&fixture, life);
        let worker = member(&fixture, "listener");
        fixture.restart_daemon();
        assert!(has_shop(&fixture), "the creator and the member live");
        kill(if life == "creator" { &creator } else { &worker });
        until(|| !has_shop(&fixture));
    }
}

#[test]
fn the_vm_of_a_creator_that_unbinds_goes_on() {
    watchdog(60);
    let fixture = NodeFixture::new("unbinds");
    let config = VmConfig::new("shop").life(VmLife::Creator);
    let vm = fixture.node().vm_init(&config).expect("a VM");
    drop(vm.bind_any().expect("a slot"));
    let mut again = vm.bind_any().expect("the VM runs");
    assert!(again.try_receive(Source::Any).is_err_and(|error| error.code().number() == -11));
}

fn why_not(opened: Result<Vm, NodeError>) -> String {
    match opened {
        Err(NodeError::InUse(refusal)) => refusal.why().to_owned(),
        other => panic!("the parameters differ: {other:?}"),
    }
}

#[test]
fn open_or_create_names_the_parameter_that_differs() {
    watchdog(60);
    let mut fixture = NodeFixture::new("differs");
    let config = VmConfig::new("shop").procs(64).grace_ms(70).domain("web", 3);
    let vm = fixture.node().vm_open_or_create(&config).expect("created");
    let free = VmConfig::new("shop").grace_ms(70).domain("web", 3);
    assert_eq!(fixture.node().vm_open_or_create(&free).expect("opened").id(), vm.id());
    for restart in [false, true] {
        if restart {
            fixture.restart_daemon();
        }
        let node = &mut fixture.node();
        let mut refused = |change: VmConfig| why_not(node.vm_open_or_create(&change));
        for (change, words) in [
            (config.clone().procs(32), "process slots 64, and the caller wants 32"),
            (config.clone().tasks(2), "task slots"),
            (config.clone().mode(0o700), "mode 750, and the caller wants 700"),
            (config.clone().group(54_321), "group"),
            (config.clone().grace_ms(80), "grace time 70 ms, and the caller wants 80 ms"),
            (config.clone().copy_granted(true), "copies of all memory"),
            (config.clone().life(VmLife::Creator), "by request alone"),
            (config.clone().domain("mail", 4), "domains"),
            (config.clone().domain_user("web", 54_321), "users of domains {}, and the caller"),
            (config.clone().id(7), "id 0, and the caller wants 7"),
        ] {
            let why = refused(change);
            assert!(why.contains(words) && why.contains("\"shop\""), "{why}");
        }
        let why = refused(VmConfig::new("other").id(vm.id()));
        assert!(why.contains("id 0 is in use"), "{why}");
    }
}

#[test]
fn the_limit_of_a_connection_bounds_the_requests_that_wait_for_ends() {
    watchdog(60);
    let fixture = NodeFixture::new("limited");
    let config = VmConfig::new("shop").grace_ms(600_000);
    let vm = fixture.node().vm_init(&config).expect("a VM");
    let member = member(&fixture, "listener");
    // A stopped process does not end in the grace time.
    signals::stop(member.pid());
    let limited = || {
        let limit = std::time::Duration::from_millis(200);
        Node::find_timeout(fixture.directory(), limit).expect("the node runs")
    };
    let ends = [
        limited().vm_end(vm.id()),
        limited().vm_open_or_create(&config).map(drop),
        limited().end(),
    ];
    for ended in ends {
        let why = match ended {
            Err(NodeError::TimedOut(refusal)) => refusal.why().to_owned(),
            other => panic!("the member has not ended: {other:?}"),
        };
        assert!(why.contains("grace time"), "{why}");
    }
    kill(&member);
}

/// A daemon that ends a second after its last connection, and a connection.
fn on_demand(directory: &str) -> (MemberProcess, Node) {
    let flags = ["--runtime-dir", directory, "--log-level", "error", "--idle-exit", "1"];
    let daemon = MemberProcess::start(0, "daemon", &[&flags[..], &["--uninitialised"]].concat());
    let mut node = None;
    until(|| {
        node = Node::find(directory.as_ref()).ok();
        node.is_some()
    });
    (daemon, node.expect("found above"))
}

#[test]
fn a_node_that_drvs_init_began_stays_without_vms_until_drvs_end() {
    watchdog(120);
    let folder = std::env::temp_dir().join(format!("m3-test-{}-init", std::process::id()));
    let directory = folder.to_str().expect("a plain path");
    let (mut idle, node) = on_demand(directory);
    drop(node);
    until(|| idle.has_ended());

    let (mut daemon, node) = on_demand(directory);
    let mut raw = RawMember::greeted(&folder).expect("the daemon answers");
    drop(node);
    let params = m3ipc_wire::NodeParams {
        nodeid: Some(3),
        name: Some("contract".into()),
        max_copy_bytes: Some(1 << 20),
        ..m3ipc_wire::NodeParams::default()
    };
    let reply = raw.request(&Request::NodeInit(params));
    assert!(matches!(reply, Some((Reply::Number(3), _))), "{reply:?}");
    drop(raw);
    // More than its idle time.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(!daemon.has_ended());
    drop(daemon);
    let (mut successor, mut node) = on_demand(directory);
    let info = node.info().expect("its state");
    assert!(info.initialised && info.nodeid == 3, "{info:?}");
    assert_eq!((&info.name[..], info.max_copy_bytes), ("contract", Some(1 << 20)));
    node.end().expect("the end of the node");
    until(|| successor.has_ended());
}

#[test]
fn a_copy_above_the_limit_of_the_node_is_refused() {
    watchdog(60);
    let folder = std::env::temp_dir().join(format!("m3-test-{}-copy", std::process::id()));
    let directory = folder.to_str().expect("a plain path");
    let (mut daemon, node) = on_demand(directory);
    let mut raw = RawMember::greeted(&folder).expect("the daemon answers");
    drop(node);
    let params =
        m3ipc_wire::NodeParams { max_copy_bytes: Some(64), ..m3ipc_wire::NodeParams::default() };
    raw.request(&Request::NodeInit(params)).expect("an answer");
    let mut node = Node::find(&folder).expect("the node runs");
    let vm = node.vm_init(&VmConfig::new("copy")).expect("a VM");
    let mut me = vm.bind_any().expect("a slot");
    let other = vm.bind_additional(None).expect("a slot");
    let refused = |bytes: &[u8], me: &mut m3ipc::Endpoint| {
        me.copy_to(other.address(), 0, bytes).expect_err("the party runs").code()
    };
    assert_eq!(refused(&[0; 64], &mut me), Code::ProcSts, "as long as the limit");
    assert_eq!(refused(&[0; 65], &mut me), Code::Range);
    let (from, to) = ((Address(1), 0.into()), (other.address(), 0.into()));
    let third = me.copy_between(from, to, 65, None).expect_err("too long");
    assert_eq!(third.code(), Code::Range);
    drop((me, other));
    node.end().expect("the end of the node");
    until(|| daemon.has_ended());
}
