//! `m3-proxy` from the shell: keys, join, ls, leave, and the demonstration.

use m3ipc_proxy::status::{State, Status};
use m3ipc_test_fixture::{program, until, watchdog};
use m3ipc_test_nodes::free_ports;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

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
        let again = place.run(&["join", "--config", &config]);
        assert!(again.status.code() == BUSY && error(&again).contains("m3 node leave"));
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

/// Children that end with the test.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn proxies_in_the_foreground_take_relative_paths() {
    watchdog(60);
    let place = Place::new("relative");
    let [a, b] = free_ports();
    let (alpha, beta) = (format!("alpha=127.0.0.1:{a}"), format!("beta=127.0.0.1:{b}"));
    place.good(&["keys", "--dir", ".", &alpha, &beta]);
    place.good(&["share", "shop", "--nodes", "alpha,beta", "--registry", "nodes.toml"]);
    let mut proxies = Children(vec![]);
    let mut vms = vec![];
    for name in ["alpha", "beta"] {
        let file = place.0.join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).expect("keys made it");
        std::fs::write(&file, format!("{text}runtime_dir = \"{name}\"\n")).expect("own files");
        let mut daemon = Command::new(program("m3-tests-daemon"));
        daemon.arg("--runtime-dir").arg(place.0.join(name));
        proxies.0.push(daemon.stderr(Stdio::null()).spawn().expect("the program starts"));
        let config = format!("{name}.toml");
        let mut node = None;
        until("the daemon serves", || {
            node = m3ipc::Node::find(&place.0.join(name)).ok();
            node.is_some()
        });
        let mut node = node.expect("it was found just now");
        vms.push(node.vm_init(&m3ipc::VmConfig::new("shop").id(0)).expect("a fresh VM"));
        let mut proxy = place.command(&["run", "--config", &config]);
        proxies.0.push(proxy.stderr(Stdio::null()).spawn().expect("the program starts"));
    }
    until("both proxies count their starts", || {
        ["alpha.lives", "beta.lives"].iter().all(|it| place.0.join(it).exists())
    });
    let server = vms[1].bind_any().expect("a free slot of beta");
    let at_alpha = place.0.join("alpha");
    until("alpha has a stand-in", || {
        let listed = m3ipc::Node::find(&at_alpha).and_then(|mut it| it.endpoints(0));
        listed.is_ok_and(|all| all.iter().any(|it| it.address == server.address().0))
    });
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
