//! `m3-proxy` from the shell: keys, join, ls, leave, and the demonstration.

use m3ipc_proxy::status::{State, Status};
use m3ipc_test_fixture::{USERS, program, until, watchdog};
use m3ipc_test_nodes::free_ports;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The exit codes of the program.
const BUSY: Option<i32> = Some(3);
const SYSTEM: Option<i32> = Some(4);

/// A directory of one test, and the program in it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("m3-tools-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a test may write there");
        Self(path)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program("m3-tests-proxy"));
        command.args(words).current_dir(&self.0).env("TMPDIR", &self.0).stdin(Stdio::null());
        command.env("M3_DAEMON", program("m3-tests-daemon"));
        command.env("M3_TESTS_OWNER", std::process::id().to_string());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("the program starts")
    }

    fn good(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).expect("a text")
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the directory is there");
        entries.map(|it| it.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for node in ["alpha", "beta"] {
            let runtime = self.0.join(node);
            if runtime.exists() {
                let _ = self.run(&["leave", "--runtime-dir", &runtime.to_string_lossy()]);
                let _ = m3ipc::Node::find(&runtime).and_then(m3ipc::Node::end);
            }
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn two_nodes_join_see_each_other_and_leave() {
    watchdog(120);
    let place = Place::new("join");
    let [a, b] = free_ports();
    let (alpha, beta) = (format!("alpha=127.0.0.1:{a}"), format!("beta=127.0.0.1:{b}"));
    place.good(&["keys", &alpha, &beta]);
    assert_eq!(place.good(&["share", "shop", "--nodes", "alpha,beta", "--id", "3"]).trim(), "3");
    // The same again changes nothing; other nodes are refused.
    assert_eq!(place.good(&["share", "shop", "--nodes", "beta,alpha"]).trim(), "3");
    let other = place.run(&["share", "shop", "--nodes", "alpha"]);
    assert!(other.status.code() == SYSTEM && error(&other).contains("alpha, beta"));
    let mut directories = vec![];
    for name in ["alpha", "beta"] {
        let file = place.0.join("m3-keys").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).expect("keys made it");
        let text = format!("{text}runtime_dir = \"../{name}\"\n");
        std::fs::write(&file, text).expect("a test may write there");
        let config = format!("m3-keys/{name}.toml");
        let said = place.good(&["join", "--config", &config]);
        assert!(said.contains("VM 3 (shop) runs") && said.contains("has joined"), "{said}");
        for verb in ["join", "run"] {
            let again = place.run(&[verb, "--config", &config]);
            assert!(again.status.code() == BUSY && error(&again).contains("m3 node leave"));
            // The first one keeps its socket.
            place.good(&["ls", "--runtime-dir", name]);
        }
        directories.push(place.0.join(name).to_string_lossy().into_owned());
    }
    let status = |directory: &str| -> Status {
        let text = place.good(&["ls", "--json", "--runtime-dir", directory]);
        serde_json::from_str(&text).expect("a status")
    };
    until("both nodes can be reached", || {
        directories.iter().all(|it| status(it).nodes[0].state == State::Up)
    });
    let of_alpha = status(&directories[0]);
    let node = &of_alpha.nodes[0];
    assert_eq!((of_alpha.node.as_str(), node.name.as_str()), ("alpha", "beta"));
    assert_eq!(node.incarnation, Some(status(&directories[1]).incarnation));
    assert!(node.sent.packets > 0 && node.received.bytes > 0 && node.round_trip_us.is_some());
    let shown = place.good(&["ls", "--runtime-dir", &directories[0]]);
    assert!(shown.contains("ROUND TRIP") && shown.contains("beta"), "{shown}");
    place.good(&["leave", "--runtime-dir", &directories[1]]);
    assert!(!place.0.join("beta/proxy.sock").exists());
    until("the loss is seen", || status(&directories[0]).nodes[0].state == State::Lost);
    let lost = status(&directories[0]);
    assert!(lost.nodes[0].why.is_some() && lost.nodes[0].lost == 1, "{lost:?}");
    let nobody = place.run(&["ls", "--runtime-dir", &directories[1]]);
    assert!(nobody.status.code() == SYSTEM && error(&nobody).contains("m3 node join"));
    assert_eq!(place.run(&["leave", "--runtime-dir", &directories[1]]).status.code(), SYSTEM);
    // A proxy outlives its daemon, and says so: after an orderly end, and after a kill.
    let runtime = place.0.join("alpha");
    let waits = || {
        until("the proxy waits for a daemon", || {
            let alone = place.run(&["ls", "--runtime-dir", &directories[0]]);
            alone.status.code() == SYSTEM && error(&alone).contains("m3 up")
        });
    };
    m3ipc::Node::find(&runtime).and_then(m3ipc::Node::end).expect("it runs");
    waits();
    let mut next = Command::new(program("m3-tests-daemon"));
    next.arg("--runtime-dir").arg(&runtime).stdout(Stdio::null()).stderr(Stdio::null());
    let mut next = next.spawn().expect("the program starts");
    until("the proxy has the next daemon", || {
        place.run(&["ls", "--runtime-dir", &directories[0]]).status.success()
    });
    next.kill().expect("a child");
    next.wait().expect("a child");
    waits();
    place.good(&["leave", "--runtime-dir", &directories[0]]);
}

/// New keys of one CA for a node, which take the place of the former ones.
fn renew(place: &Place, node: &str) {
    let keys = place.0.join("m3-keys");
    for ending in ["key", "pem"] {
        std::fs::remove_file(keys.join(format!("{node}.{ending}"))).expect("keys are there");
    }
    place.good(&["keys", node]);
}

#[test]
fn a_hangup_puts_new_keys_in_force_and_ends_nothing() {
    watchdog(120);
    let place = Place::new("renewal");
    let [a, b] = free_ports();
    place.good(&["keys", &format!("alpha=127.0.0.1:{a}"), &format!("beta=127.0.0.1:{b}")]);
    let mut pids = vec![];
    for name in ["alpha", "beta"] {
        let file = place.0.join("m3-keys").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).expect("keys made it");
        std::fs::write(&file, format!("{text}runtime_dir = \"../{name}\"\n")).expect("a test may");
        let said = place.good(&["join", "--config", &format!("m3-keys/{name}.toml")]);
        let pid = said.lines().find_map(|line| line.split("proxy ").nth(1)).expect("it joined");
        pids.push(pid.trim().to_owned());
    }
    let directories =
        ["alpha", "beta"].map(|name| place.0.join(name).to_string_lossy().into_owned());
    let status = |at: usize| -> Status {
        let text = place.good(&["ls", "--json", "--runtime-dir", &directories[at]]);
        serde_json::from_str(&text).expect("a status")
    };
    let are_up = || (0..2).all(|at| status(at).nodes[0].state == State::Up);
    until("both nodes can be reached", are_up);
    let first = status(0).certificate.expect("TLS has certificates");
    assert!(first.at_s > 1_700_000_000 && first.warning(0).is_none(), "{first:?}");
    let said = |name: &str| {
        std::fs::read_to_string(place.0.join(name).join("proxy.log")).unwrap_or_default()
    };
    // A file that is no key changes nothing, and the reason is named.
    let hang_up = |at: usize| {
        let done = Command::new("kill").args(["-HUP", &pids[at]]).status().expect("kill runs");
        assert!(done.success());
    };
    let own = place.0.join("m3-keys/alpha.pem");
    let good = std::fs::read(&own).expect("keys made it");
    std::fs::write(&own, "no certificate").expect("a test may write there");
    hang_up(0);
    until("the refusal is said", || said("alpha").contains("alpha.pem holds no usable PEM"));
    std::fs::write(&own, good).expect("a test may write there");
    for (at, name) in ["alpha", "beta"].into_iter().enumerate() {
        renew(&place, name);
        hang_up(at);
        until("the new keys are in force", || said(name).contains("new keys are in force"));
    }
    // The connection went on, and the next one comes about by the new keys.
    assert!(are_up() && (0..2).all(|at| status(at).nodes[0].lost == 0));
    place.good(&["leave", "--runtime-dir", &directories[1]]);
    until("the loss is seen", || status(0).nodes[0].state == State::Lost);
    place.good(&["join", "--config", "m3-keys/beta.toml"]);
    until("both nodes can be reached again", are_up);
    for directory in &directories {
        place.good(&["leave", "--runtime-dir", directory]);
    }
}

/// The words of the page of two nodes: two proxies in the foreground, in one directory.
#[test]
fn proxies_in_the_foreground_take_relative_paths() {
    watchdog(120);
    let place = Place::new("relative");
    let [a, b] = free_ports();
    place.good(&["keys", "alpha", "beta"]);
    let registry = format!(
        "cluster = \"lab\"\n\
         [[node]]\nid = 1\nname = \"alpha\"\naddress = \"127.0.0.1:{a}\"\n\
         [[node]]\nid = 2\nname = \"beta\"\naddress = \"127.0.0.1:{b}\"\n\
         [[vm]]\nid = 3\nname = \"shop\"\n\
         slots = {{ alpha = [[-35, 9], [29, 99]], beta = [[10, 28], [100, 185]] }}\n"
    );
    let write = |name: &str, text: &str| {
        std::fs::write(place.0.join(name), text).expect("a test may write there");
    };
    write("nodes.toml", &registry);
    let mut proxies = ["alpha", "beta"].map(|name| {
        let text = format!(
            "node = \"{name}\"\nregistry = \"nodes.toml\"\nkeys = \"m3-keys\"\n\
             runtime_dir = \"{name}\"\n"
        );
        let file = format!("{name}.toml");
        write(&file, &text);
        place.command(&["run", "--config", &file]).spawn().expect("the program starts")
    });
    let [mut alpha, mut beta] = ["alpha", "beta"].map(|name| {
        let runtime = place.0.join(name);
        until("the daemon runs", || m3ipc::Node::find(&runtime).is_ok());
        m3ipc::Node::find(&runtime).expect("it runs")
    });
    let shop = m3ipc::VmConfig::new("shop").id(3);
    let _vm = alpha.vm_init(&shop).expect("the id is free");
    let server = beta.vm_init(&shop).map(|vm| vm.bind(10)).expect("the id is free");
    let _server = server.expect("the slot is of beta");
    until("the stand-in is there", || alpha.endpoint(3, 10).is_ok_and(|it| it.is_some()));
    for proxy in &mut proxies {
        proxy.kill().expect("a child");
        proxy.wait().expect("a child");
    }
}

#[test]
fn a_join_makes_the_vms_of_the_registry_and_joins_none_that_allows_more() {
    watchdog(120);
    let place = Place::new("vms");
    let [a, b] = free_ports();
    place.good(&["keys", "alpha", "beta"]);
    let registry = format!(
        "cluster = \"lab\"\n\
         [[node]]\nid = 1\nname = \"alpha\"\naddress = \"127.0.0.1:{a}\"\n\
         [[node]]\nid = 2\nname = \"beta\"\naddress = \"127.0.0.1:{b}\"\n\
         [[vm]]\nid = 3\nname = \"bank\"\n\
         slots = {{ alpha = [[-35, 9], [29, 99]], beta = [[10, 28], [100, 199]] }}\n\
         parameters = {{ procs = 200, mode = 0o700, copy = \"granted\", grace_ms = 500 }}\n"
    );
    std::fs::write(place.0.join("nodes.toml"), registry).expect("a test may write there");
    let text = "node = \"alpha\"\nregistry = \"nodes.toml\"\nkeys = \"m3-keys\"\n\
                runtime_dir = \"alpha\"\n";
    std::fs::write(place.0.join("alpha.toml"), text).expect("a test may write there");
    place.good(&["join", "--config", "alpha.toml"]);
    let mut node = m3ipc::Node::find(&place.0.join("alpha")).expect("the join started it");
    let made = node.vm(3).expect("the join made it").info().clone();
    let told = (made.procs, made.mode, made.copy_granted, made.grace_ms);
    assert_eq!(told, (200, 0o700, true, 500));
    place.good(&["leave", "--runtime-dir", "alpha"]);
    node.vm_end(3).expect("its owner may");
    node.vm_init(&m3ipc::VmConfig::new("bank").id(3).mode(0o777)).expect("the id is free");
    let refused = place.run(&["join", "--config", "alpha.toml"]);
    let why = error(&refused);
    assert!(refused.status.code() == SYSTEM && why.contains("VM bank has mode 777"), "{why}");
}

#[test]
fn a_proxy_that_cannot_start_says_why() {
    watchdog(60);
    let place = Place::new("why");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = taken.local_addr().expect("it listens");
    place.good(&["keys", &format!("alpha={at}")]);
    let file = place.0.join("m3-keys/alpha.toml");
    let text =
        std::fs::read_to_string(&file).expect("keys made it") + "runtime_dir = \"../alpha\"\n";
    std::fs::write(&file, text).expect("a test may write there");
    let refused = place.run(&["join", "--config", "m3-keys/alpha.toml"]);
    assert_eq!(refused.status.code(), SYSTEM);
    assert!(error(&refused).contains("cannot listen at"), "{}", error(&refused));
    // The same files a second time: nothing is replaced.
    let again = place.run(&["keys", &format!("alpha={at}")]);
    assert!(again.status.code() == SYSTEM && error(&again).contains("alpha.key"));
    assert!(error(&refused).contains("m3 down"), "the daemon runs on: {}", error(&refused));
    let key = place.0.join("m3-keys/alpha.key");
    let with_mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&key, with_mode(0o644)).expect("a test may");
    let open = place.run(&["join", "--config", "m3-keys/alpha.toml"]);
    assert!(open.status.code() == SYSTEM && error(&open).contains("chmod 600"), "{}", error(&open));
    // Nothing is half made.
    std::fs::remove_file(&key).expect("a test may");
    for nodes in [&["alpha"][..], &["beta", "alpha"], &["beta", "beta"], &["beta=127.0.0.1:1"]] {
        let half = place.run(&[&["keys"], nodes].concat());
        assert!(half.status.code() == SYSTEM && !key.exists(), "{nodes:?}: {}", error(&half));
        assert!(!place.0.join("m3-keys/beta.key").exists(), "{nodes:?}");
    }
    place.good(&["keys", "beta"]);
    std::fs::remove_file(place.0.join("m3-keys/ca.key")).expect("a test may");
    let lacks = place.run(&["keys", "gamma"]);
    assert!(lacks.status.code() == SYSTEM && error(&lacks).contains("ca.key"), "{}", error(&lacks));
    let mixed = place.run(&["keys", "--dir", "other", "a=127.0.0.1:1", "b"]);
    assert!(mixed.status.code() == SYSTEM && !place.0.join("other").exists());
}

#[test]
fn the_demonstration_shows_a_death_and_a_return_and_leaves_nothing() {
    watchdog(120);
    for words in [&["demo", "--calls", "20"][..], &["demo", "--calls", "20", "--loopback"]] {
        let place = Place::new(if words.len() > 3 { "loopback" } else { "demo" });
        let said = place.good(words);
        for part in ["alpha to gamma", "the call returned after", "-505", "nothing"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(place.names().is_empty(), "{:?}", place.names());
    }
}

#[test]
fn the_demonstration_runs_for_an_ordinary_user() {
    watchdog(120);
    if m3ipc_sys::user_id() != 0 {
        println!("SKIP the_demonstration_runs_for_an_ordinary_user: the other test is of one");
        return;
    }
    let place = Place::new("user");
    // The user may not read where the programs were built.
    let programs = ["m3-tests-proxy", "m3-tests-daemon"].map(|name| {
        let copy = place.0.join(name);
        std::fs::copy(program(name), &copy).expect("a test may write there");
        copy
    });
    let files = place.0.join("files");
    std::fs::create_dir(&files).expect("a test may write there");
    chown(&files, Some(USERS[0]), Some(USERS[0])).expect("root may");
    let mut command = Command::new(&programs[0]);
    command.args(["demo", "--calls", "20"]).current_dir(&files).stdin(Stdio::null());
    command.env("TMPDIR", &files).env("M3_DAEMON", &programs[1]);
    command.env("M3_TESTS_OWNER", std::process::id().to_string());
    let shown = command.uid(USERS[0]).gid(USERS[0]).output().expect("the program starts");
    let said = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success(), "{said}{}", error(&shown));
    assert!(said.contains("the call returned after"), "{said}");
    assert_eq!(std::fs::read_dir(&files).expect("it is there").count(), 0);
}

#[test]
fn a_demonstration_that_is_killed_leaves_nothing() {
    watchdog(120);
    for signal in ["KILL", "INT"] {
        let place = Place::new(signal);
        let mut command = place.command(&["demo", "--calls", "100000", "--loopback"]);
        let mut demo = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let output = demo.stdout.take().expect("a pipe");
        // All nodes run when the first line comes.
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a text");
        assert!(line.starts_with("start"), "{line}");
        assert!(!of_place(&place.0).is_empty());
        let pid = demo.id().to_string();
        let kill = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(kill.expect("kill runs").success());
        demo.wait().expect("a child");
        until("the processes are gone", || of_place(&place.0).is_empty());
        until("the files are gone", || place.names().is_empty());
    }
}

/// The processes whose command line names a path of the test.
fn of_place(path: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    let lines = processes.filter_map(|it| {
        let line = std::fs::read(it.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&*path.to_string_lossy()).then_some(line)
    });
    lines.collect()
}
