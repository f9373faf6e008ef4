//! A stand-in that is taken away, one that has no room, and the sandbox of the proxy.

use m3ipc::nodes::{ForeignRange, OtherNode, Proxy, StandInEvent};
use m3ipc::{Address, Code, Message, SendError};
use m3ipc_test_fixture::{NodeFixture, USERS, UserNode, is_root, until, watchdog};
use m3ipc_test_nodes::{Cluster, Process, VM};
use std::time::Duration;

const CLIENT: i32 = 1;
const SERVER: i32 = 10;
const SERVER_ADDRESS: Address = Address(SERVER);

#[test]
fn a_stand_in_that_is_unbound_ends_the_calls_that_go_through_it() {
    watchdog(60);
    let cluster = Cluster::new("unbound");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    for (role, code) in [("silent", Code::AnswerLost), ("deaf", Code::NotConn)] {
        let mut server = cluster.beta.program(role, SERVER);
        cluster.alpha.await_endpoint(SERVER_ADDRESS);
        cluster.beta.await_endpoint(client.address());
        let from = client.address();
        let asking = std::thread::spawn(move || {
            // A message that comes after the return of the stand-in waits for the deaf server.
            let limit = Duration::from_secs(20);
            let asked = client.sendrec_timeout(SERVER_ADDRESS, &Message::new(7), limit);
            (client, asked)
        });
        if role == "silent" {
            assert_eq!(server.line(), "taken");
        } else {
            cluster.alpha.await_call(CLIENT, "sendrec");
        }
        // On the node of the server, an administrator ends the stand-in of the client.
        cluster.beta.fixture.node().unbind(VM, from).expect("root may");
        let (back, asked) = asking.join().expect("the call ends");
        client = back;
        let found = asked.expect_err("nobody answers").code();
        // The deaf one may not have had the message yet.
        let is_late = matches!(found, Code::Again | Code::TimedOut);
        assert!(found == code || role == "deaf" && is_late, "{role}: {found}");
        server.kill();
        until("the death is known", || !cluster.alpha.knows(SERVER_ADDRESS));
    }
    // The stand-in comes back, and so does the talk.
    let _server = cluster.beta.program("echo", SERVER);
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    cluster.beta.await_endpoint(client.address());
    let answer = client.sendrec(SERVER_ADDRESS, &Message::new(7)).expect("the server answers");
    assert_eq!(answer.m_type, 8);
}

#[test]
fn other_nodes_and_their_endpoints_are_listed() {
    watchdog(60);
    let fixture = NodeFixture::new("listed");
    fixture.node().vm_init(&m3ipc::VmConfig::new("shop").id(VM)).expect("a fresh VM");
    let mut asker = fixture.node();
    let before = asker.other_nodes().expect("the daemon answers");
    assert_eq!((before.proxy_pid, before.nodes), (None, vec![]));
    let range = ForeignRange { vm: VM, first: SERVER, last: SERVER, node: "beta".to_owned() };
    let mut proxy = Proxy::register(fixture.directory(), vec![range]).expect("root may");
    let known = [(2, "beta"), (3, "gamma")];
    let known = known.map(|(id, name)| OtherNode { id, name: name.to_owned() });
    proxy.set_known(known.to_vec()).expect("the daemon takes it");
    proxy.set_reachable("beta", true).expect("the daemon takes it");
    let stand_in = proxy.stand_in(VM, SERVER_ADDRESS).expect("the slot is of beta");
    let listed = asker.other_nodes().expect("the daemon answers");
    assert_eq!(listed.proxy_pid, i32::try_from(std::process::id()).ok());
    let of = |at: usize| {
        let it = &listed.nodes[at];
        (it.id, it.name.as_str(), it.reachable, it.vms.clone(), it.endpoints)
    };
    assert_eq!(of(0), (2, "beta", true, vec![VM], 1));
    assert_eq!(of(1), (3, "gamma", false, vec![], 0));
    let endpoints = asker.endpoints(VM).expect("the VM runs");
    assert_eq!(endpoints[0].node.as_deref(), Some("beta"));
    // Only the proxy says which nodes there are, and with it they go.
    let mut other = Proxy::register_again(fixture.directory(), vec![]).map(drop);
    assert_eq!(other.expect_err("one proxy is enough").code(), Code::RscBusy);
    drop((stand_in, proxy));
    until("the nodes have gone", || {
        asker.other_nodes().is_ok_and(|it| it.proxy_pid.is_none() && it.nodes.is_empty())
    });
    other = Proxy::register(fixture.directory(), vec![]).map(drop);
    assert!(other.is_ok());
}

#[test]
fn a_stand_in_without_room_hears_of_those_that_give_up() {
    watchdog(60);
    let fixture = NodeFixture::new("no-room");
    let vm = fixture.node().vm_init(&m3ipc::VmConfig::new("shop").id(VM)).expect("a fresh VM");
    let range = ForeignRange { vm: VM, first: SERVER, last: SERVER, node: "beta".to_owned() };
    let proxy = Proxy::register(fixture.directory(), vec![range]).expect("root may");
    let mut stand_in = proxy.stand_in(VM, SERVER_ADDRESS).expect("the slot is of beta");
    let first = vm.bind(1).expect("the slot is free");
    let second = vm.bind_additional(Some(2)).expect("the slot is free");
    let from = [first.address(), second.address()];
    let limit = Duration::from_millis(500);
    let sending = std::thread::spawn(move || {
        let mut first = first;
        // The process is bound as long as its first endpoint lives.
        (first.send_timeout(SERVER_ADDRESS, &Message::new(1), limit), first)
    });
    let mut found = Vec::new();
    until("the first message comes", || {
        found = stand_in.poll().expect("it is bound");
        !found.is_empty()
    });
    assert!(matches!(found[..], [StandInEvent::Message { from: it, .. }] if it == from[0]));
    // There is no room for a second one. The first sender gives up meanwhile.
    let waiting = std::thread::spawn(move || {
        let mut second = second;
        second.send(SERVER_ADDRESS, &Message::new(2))
    });
    until("the first sender has given up", || {
        let found = stand_in.poll_without_messages().expect("it is bound");
        let message = |event: &StandInEvent| matches!(event, StandInEvent::Message { .. });
        assert!(!found.iter().any(message), "{found:?}");
        found.contains(&StandInEvent::GivenUp(from[0]))
    });
    stand_in.failed(from[0], Code::TimedOut);
    let (sent, _first) = sending.join().expect("no panic");
    assert!(matches!(sent, Err(SendError::TimedOut(_))), "{sent:?}");
    // A message of a user that is not admitted stays, too.
    let mut users = Vec::new();
    let found_any = stand_in.poll_admitted(false, &mut |user| {
        users.push(user);
        false
    });
    assert_eq!(found_any.expect("it is bound"), []);
    assert!(!users.is_empty() && users.iter().all(|user| *user == m3ipc_sys::user_id()));
    // Now there is room.
    until("the second message comes", || {
        found = stand_in.poll().expect("it is bound");
        !found.is_empty()
    });
    assert!(matches!(found[..], [StandInEvent::Message { from: it, .. }] if it == from[1]));
    stand_in.taken(from[1]);
    waiting.join().expect("no panic").expect("it was taken");
}

/// A field of /proc/PID/status.
fn status(pid: u32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.expect("a field").trim().to_owned()
}

#[test]
fn a_running_proxy_is_in_its_sandbox() {
    watchdog(60);
    let cluster = Cluster::new("sandbox");
    let _server = cluster.beta.program("echo", SERVER);
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    client.sendrec(SERVER_ADDRESS, &Message::new(7)).expect("the server answers");
    for node in [&cluster.alpha, &cluster.beta] {
        let pid = node.proxy.pid();
        assert_eq!([status(pid, "Seccomp"), status(pid, "NoNewPrivs")], ["2", "1"]);
    }
}

#[test]
fn the_sandbox_forbids_files_programs_and_other_networks() {
    watchdog(60);
    let cluster = Cluster::new("probe");
    let config = cluster.directory().join("alpha.toml");
    let mut probe = Process::start(&["sandbox", config.to_str().expect("a text")]);
    let mode = probe.line();
    assert!(mode.contains("seccomp"), "{mode}");
    println!("{mode}");
    let mut attempts = 0;
    loop {
        let line = probe.line();
        if line == "done" {
            break;
        }
        // Only Landlock knows ports; an older kernel has none.
        let needs_landlock = line.contains("elsewhere") || line.contains("listen");
        let is_right = line.starts_with("right ");
        assert!(is_right || needs_landlock && !mode.ends_with(", Landlock"), "{mode}: {line}");
        attempts += 1;
    }
    assert_eq!(attempts, 11);
}

#[test]
fn a_proxy_that_root_starts_becomes_its_user() {
    if !is_root("a_proxy_that_root_starts_becomes_its_user") {
        return;
    }
    watchdog(60);
    let [user, other, ..] = USERS;
    // Another node's files: its keys and its registry.
    let cluster = Cluster::new("user");
    let more = ["--proxy-user", &user.to_string()];
    let node = UserNode::start_with("proxy-user", 0, true, &more);
    let vm = node.node().vm_init(&m3ipc::VmConfig::new("shop").id(VM)).expect("a fresh VM");
    let start = |user: u32| {
        let state = cluster.directory().join(format!("state-{user}"));
        std::fs::create_dir(&state).expect("a test may write there");
        std::os::unix::fs::chown(&state, Some(user), Some(user)).expect("root may");
        let registry = std::fs::read_to_string(cluster.directory().join("nodes.toml"));
        // A port that nobody has.
        let registry = registry.expect("a registry").replace("127.0.0.1:", "127.0.0.9:");
        std::fs::write(cluster.directory().join("other.toml"), registry).expect("may write");
        let config = cluster.directory().join(format!("user-{user}.toml"));
        let text = format!(
            "node = \"alpha\"\nregistry = \"other.toml\"\nkeys = \"keys\"\nuser = \"{user}\"\n\
             runtime_dir = {:?}\nstate = {state:?}\n",
            node.directory()
        );
        std::fs::write(&config, text).expect("a test may write there");
        Process::start(&["proxy", config.to_str().expect("a text")])
    };
    // The daemon knows no such proxy, so that one ends.
    assert_eq!(start(other).line(), "");
    let proxy = start(user);
    // It has registered before.
    until("the sandbox is closed", || status(proxy.pid(), "Seccomp") == "2");
    let refused = vm.bind(SERVER).expect_err("the slot is of beta");
    assert_eq!(refused.code(), Code::RmtProc);
    let ids = [user; 4].map(|id| id.to_string()).join("\t");
    assert_eq!([status(proxy.pid(), "Uid"), status(proxy.pid(), "Gid")], [ids.clone(), ids]);
    assert_eq!(status(proxy.pid(), "Groups"), "");
}
