//! The registry in slapd and in etcd, killed and started again while calls flow.
//!
//! A test of a server skips, and says so, where the server is not installed.

use m3ipc::{Code, Endpoint, Message};
use m3ipc_registry::{Address, Backend, BackendError, File, Wanted};
use m3ipc_test_fixture::{program, until, watchdog};
use m3ipc_test_nodes::servers::{Etcd, Slapd};
use m3ipc_test_nodes::{Cluster, Directory, Process};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

const SERVER: i32 = 10;
const SERVER_ADDRESS: m3ipc::Address = m3ipc::Address(SERVER);
const CLIENT: i32 = 1;
/// A slot that no node has at first.
const LATER: i32 = 205;

/// Runs `m3-registry`. Returns its output, or its reason.
fn registry(words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program("m3-tests-nodes"));
    let done = command.arg("registry").args(words).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    if done.status.success() { Ok(text(done.stdout)) } else { Err(text(done.stderr)) }
}

/// The value of `registry` in the configuration of a node.
fn served(node: &str, more: &[&str]) -> String {
    let own = program("m3-tests-nodes").display().to_string();
    let words = ["registry", "serve", "--node", node, "--every-ms", "100"];
    let words: Vec<String> = words.iter().chain(more).map(|word| format!("{word:?}")).collect();
    format!("{{ program = {own:?}, arguments = [{}] }}", words.join(", "))
}

/// A client that calls again and again, until it is told to stop.
struct Flow {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU32>,
    client: Option<JoinHandle<Endpoint>>,
}

impl Flow {
    fn begin(mut client: Endpoint) -> Self {
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&calls));
        let client = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let message = Message::new(1);
                client.sendrec(SERVER_ADDRESS, &message).expect("no call fails");
                counted.fetch_add(1, Ordering::Relaxed);
            }
            client
        });
        Self { stop, calls, client: Some(client) }
    }

    /// Waits until more calls were answered.
    fn goes_on(&self) {
        let before = self.calls.load(Ordering::Relaxed);
        until("calls go on", || self.calls.load(Ordering::Relaxed) > before + 20);
    }

    fn end(mut self) -> Endpoint {
        self.stop.store(true, Ordering::Relaxed);
        let client = self.client.take().expect("it runs");
        client.join().expect("no call failed")
    }
}

/// A slot that was claimed later is bound on its node, and called from the other one.
fn is_called(cluster: &Cluster, client: &mut Endpoint) {
    until("the node may bind the slot", || {
        cluster.beta.vm.bind(LATER).map(drop).map_err(|error| error.code()) != Err(Code::RmtProc)
    });
    let _server = cluster.beta.program("echo", LATER);
    let address = || {
        let all = cluster.alpha.fixture.node().endpoints(m3ipc_test_nodes::VM);
        let all = all.unwrap_or_default().into_iter().map(|it| m3ipc::Address(it.address));
        all.into_iter().find(|address| address.slot() == LATER)
    };
    // The first address may be that of the bind above, which has ended.
    until("the endpoint answers on the other node", || {
        let answer = address().map(|to| client.sendrec(to, &Message::new(7)));
        answer.is_some_and(|answer| answer.is_ok_and(|answer| answer.m_type == 8))
    });
    assert_eq!(cluster.alpha.vm.bind(LATER).map(drop).map_err(|it| it.code()), Err(Code::RmtProc));
}

fn is_refused_at_first(cluster: &Cluster) {
    for node in [&cluster.alpha, &cluster.beta] {
        until("nobody may bind a slot that no node has", || {
            let bound = node.vm.bind(LATER);
            bound.is_err_and(|error| error.to_string().contains("not claimed"))
        });
    }
}

#[test]
fn a_cluster_reads_a_directory_that_is_killed_and_started_again() {
    watchdog(120);
    let directory = Directory::new("ldap");
    let schema = registry(&["ldap", "schema"]).expect("it prints");
    let Some(mut slapd) = Slapd::new("a_cluster_reads_a_directory", directory.path(), &schema)
    else {
        return;
    };
    let file = directory.path().join("nodes.toml");
    let url = slapd.url();
    let import = || {
        let writer = slapd_words(&slapd);
        let writer: Vec<&str> = writer.iter().map(String::as_str).collect();
        let file = file.to_str().expect("text");
        registry(&[&["ldap", "import", "--url", &url], &writer[..], &[file]].concat())
    };
    assert!(import().expect("it is written").contains("added    cn=shop,cn=test"));
    let get = |words: &[&str]| registry(&[&["ldap", "get", "--url", &url], words].concat());
    let vm = get(&["vm", "shop"]).expect("it is there");
    assert!(vm.contains("vmid=3\nname=shop\nnodes=1,2\n"), "{vm}");
    let refused = get(&["vm", "bank"]).expect_err("nobody made it");
    assert!(refused.contains("no VM `bank`; it has: shop"), "{refused}");

    let cluster = Cluster::with(directory, |node| served(node, &["--source", &url]));
    let _server = cluster.beta.program("echo", SERVER);
    let client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    is_refused_at_first(&cluster);
    let flow = Flow::begin(client);
    flow.goes_on();
    slapd.kill();
    flow.goes_on();
    let lost = get(&["nodes"]).expect_err("it is dead");
    assert!(lost.contains("cannot be reached"), "{lost}");
    slapd.restart();

    // More slots for a node, while the proxies run; none of the old ones changes its owner.
    let text = std::fs::read_to_string(&file).expect("the test wrote it");
    let more = text.replace("[100, 199]", "[100, 199], [200, 209]");
    assert_ne!(more, text);
    std::fs::write(&file, more).expect("a test may write there");
    let writer = slapd_words(&slapd);
    let writer: Vec<&str> = writer.iter().map(String::as_str).collect();
    let words = [&["ldap", "import", "--url", &url], &writer[..], &[file.to_str().expect("text")]];
    assert!(registry(&words.concat()).expect("it is written").contains("written  cn=shop,cn=test"));
    flow.goes_on();
    is_called(&cluster, &mut flow.end());
}

fn slapd_words(slapd: &Slapd) -> Vec<String> {
    slapd.as_writer().to_vec()
}

#[test]
fn a_directory_with_an_overlap_is_refused_and_both_ranges_are_named() {
    watchdog(60);
    let directory = Directory::new("overlap");
    let schema = registry(&["ldap", "schema"]).expect("it prints");
    let Some(slapd) = Slapd::new("a_directory_with_an_overlap", directory.path(), &schema) else {
        return;
    };
    let (file, url) = (directory.path().join("nodes.toml"), slapd.url());
    let writer = slapd_words(&slapd);
    let writer: Vec<&str> = writer.iter().map(String::as_str).collect();
    let words = [&["ldap", "import", "--url", &url], &writer[..], &[file.to_str().expect("text")]];
    registry(&words.concat()).expect("it is written");
    // A second entry for the same VM, with slots of the first one.
    let text = std::fs::read_to_string(&file).expect("the test wrote it");
    let (nodes, _) = text.split_once("[[vm]]").expect("it has a VM");
    let second = "[[vm]]\nid = 3\nname = \"other\"\nslots = { alpha = [[150, 160]] }\n";
    std::fs::write(&file, format!("{nodes}{second}")).expect("a test may write there");
    let done = registry(&words.concat()).expect("it is written");
    assert!(done.contains("kept     cn=shop,cn=test"), "{done}");
    let refused = registry(&["show", "--source", &url]).expect_err("an overlap");
    let named = ["100..199 of node beta", "150..160 of node alpha", "overlap"];
    assert!(named.iter().all(|text| refused.contains(text)), "{refused}");
}

/// A registry process with its output.
fn serving(etcd: &Etcd, file: &str, node: &str) -> Process {
    let words = ["registry", "serve", "--source", file, "--etcd", &etcd.url(), "--node", node];
    Process::start(&[&words[..], &["--every-ms", "50"]].concat())
}

/// Reads its output up to a line with this text.
fn await_line(process: &mut Process, text: &str) -> String {
    loop {
        let line = process.line();
        if line.contains(text) {
            return line;
        }
    }
}

/// The programs of the registry that read this file, without their keepers.
fn serving_file(file: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    let of_file = processes.filter_map(|it| {
        let line = std::fs::read(it.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_one = line.contains(file) && !line.contains(m3ipc_proxy::run::keeper::COMMAND);
        is_one.then(|| it.file_name().to_string_lossy().into_owned())
    });
    of_file.collect()
}

#[test]
fn a_program_of_the_registry_that_is_killed_comes_back() {
    watchdog(120);
    let directory = Directory::new("killed");
    let file = directory.path().join("nodes.toml").display().to_string();
    let cluster = Cluster::with(directory, |node| served(node, &["--source", &file]));
    let _server = cluster.beta.program("echo", SERVER);
    let client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    let flow = Flow::begin(client);
    flow.goes_on();
    let killed = serving_file(&file);
    assert_eq!(killed.len(), 2, "one for each node");
    for pid in &killed {
        let kill = Command::new("kill").args(["-KILL", pid]).status();
        assert!(kill.expect("kill runs").success());
    }
    flow.goes_on();
    until("both come back", || {
        let now = serving_file(&file);
        now.len() == 2 && now.iter().all(|pid| !killed.contains(pid))
    });
    flow.goes_on();
    flow.end();
}

#[test]
fn slots_are_claimed_in_etcd_which_is_killed_and_started_again() {
    watchdog(180);
    let directory = Directory::new("etcd");
    let Some(mut etcd) = Etcd::new("slots_are_claimed_in_etcd", directory.path()) else { return };
    let file = directory.path().join("nodes.toml").display().to_string();
    let url = etcd.url();
    let claim = |node: &str, slots: &str| {
        let words = ["claim", "--source", &file, "--etcd", &url, "--node", node, "--vm", "shop"];
        registry(&[&words[..], &["--slots", slots]].concat())
    };
    until("etcd serves", || claim("alpha", "300..309").is_ok());
    let taken = claim("beta", "305..320").expect_err("alpha has them");
    let named = ["305..320 of node beta", "300..309 of node alpha", "overlap"];
    assert!(named.iter().all(|text| taken.contains(text)), "{taken}");
    let written = claim("alpha", "150..150").expect_err("beta has them in the file");
    let named = ["150..150 of node alpha", "overlap 100..199 of node beta"];
    assert!(named.iter().all(|text| written.contains(text)), "{written}");

    let words = ["--source", &file, "--etcd", &url];
    let mut cluster = Cluster::with(directory, |node| served(node, &words));
    let _server = cluster.beta.program("echo", SERVER);
    let client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    is_refused_at_first(&cluster);
    let flow = Flow::begin(client);
    flow.goes_on();
    etcd.kill();
    let lost = claim("beta", "200..209").expect_err("nobody can claim now");
    assert!(lost.contains("calls go on, new claims wait"), "{lost}");
    flow.goes_on();
    etcd.restart();
    until("slots can be claimed again", || claim("beta", "200..209").is_ok());
    flow.goes_on();
    let mut client = flow.end();
    is_called(&cluster, &mut client);

    // A proxy that was killed has a successor at once: its lease ended with it.
    cluster.beta.proxy.kill();
    drop(_server);
    until("the node is lost", || !cluster.alpha.knows(SERVER_ADDRESS));
    cluster.beta.restart_proxy();
    let _server = cluster.beta.program("echo", SERVER);
    cluster.alpha.await_endpoint(SERVER_ADDRESS);
    client.sendrec(SERVER_ADDRESS, &Message::new(1)).expect("the new proxy serves");
}

#[test]
fn a_second_living_node_is_refused_and_a_stopped_one_is_fenced() {
    watchdog(120);
    let directory = Directory::new("lives");
    let Some(etcd) = Etcd::new("a_second_living_node", directory.path()) else { return };
    let file = directory.path().join("nodes.toml").display().to_string();
    let mut first = serving(&etcd, &file, "alpha");
    await_line(&mut first, "registry ");
    // While the first one lives, a second one ends with its name.
    let words = ["serve", "--source", &file, "--etcd", &etcd.url(), "--node", "alpha"];
    let mut command = Command::new(program("m3-tests-nodes"));
    let second = command.arg("registry").args(words).stdin(Stdio::piped()).output();
    let second = String::from_utf8(second.expect("it starts").stderr).expect("text");
    let named = format!("another process is the node `alpha`: process {} of", first.pid());
    assert!(second.contains(&named), "{second}");
    // Another node is none of its business.
    await_line(&mut serving(&etcd, &file, "beta"), "registry ");

    // The first one stands still, and loses its lease. Its successor claims; it can claim no more.
    first.signal("STOP");
    let mut successor = serving(&etcd, &file, "alpha");
    await_line(&mut successor, "registry ");
    first.signal("CONT");
    let said = await_line(&mut first, "another process is the node `alpha`");
    assert!(said.contains(&format!("process {}", successor.pid())), "{said}");
}

#[test]
fn a_claim_of_a_life_that_has_ended_is_refused() {
    watchdog(60);
    let directory = Directory::new("fence");
    let Some(etcd) = Etcd::new("a_claim_of_a_life", directory.path()) else { return };
    let file = directory.path().join("nodes.toml");
    let open = || {
        let address = Address { members: vec![etcd.url()], ..Address::default() };
        let written = Box::new(File::new(&file));
        m3ipc_registry::Etcd::new(written, &address).expect("the address is right")
    };
    let mut first = open();
    until("etcd serves", || first.begin("alpha").is_ok());
    first.claim("alpha", "shop", Wanted::Range(300, 309)).expect("it lives");
    // It does not renew its lease, so another one may begin. Each has its own number.
    let mut second = open();
    second.begin("alpha").expect("the lease ends");
    let refused = first.claim("alpha", "shop", Wanted::Range(310, 319));
    assert!(matches!(refused, Err(BackendError::SecondLife { .. })), "{refused:?}");
    second.claim("alpha", "shop", Wanted::Range(310, 319)).expect("it lives");
    second.end();
    first.begin("alpha").expect("its successor has ended");
}

#[test]
fn claims_of_many_at_once_are_disjoint() {
    watchdog(120);
    let directory = Directory::new("many");
    let Some(etcd) = Etcd::new("claims_of_many_at_once", directory.path()) else { return };
    let file = directory.path().join("nodes.toml").display().to_string();
    let text = std::fs::read_to_string(&file).expect("the test wrote it");
    std::fs::write(&file, format!("{text}parameters = {{ procs = 1000 }}\n")).expect("it writes");
    let show = || registry(&["show", "--source", &file, "--etcd", &etcd.url()]);
    until("etcd serves", || show().is_ok());
    let one = |node: &'static str, count: u32| {
        let words = ["claim", "--source", &file, "--etcd", &etcd.url(), "--node", node];
        let count = count.to_string();
        registry(&[&words[..], &["--vm", "shop", "--count", &count]].concat())
    };
    std::thread::scope(|scope| {
        for count in [150, 200, 250] {
            for node in ["alpha", "beta"] {
                scope.spawn(move || one(node, count).expect("slots are free"));
            }
        }
    });
    // The reader of the registry refuses an overlap.
    let all = show().expect("no overlap");
    let count = slots_of(&all);
    for node in ["alpha", "beta"] {
        assert!(count(node) >= 250, "{node}: {all}");
    }
    let full = one("alpha", 5_000).expect_err("a VM of 1,000 slots");
    assert!(full.contains("free slots below 1000"), "{full}");
}

/// Counts the slots of a node in the text of a registry.
fn slots_of(text: &str) -> impl Fn(&str) -> i64 + '_ {
    move |node| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{node} = ")));
        let numbers: Vec<i64> = line
            .expect("the node has slots")
            .split(|c: char| !c.is_ascii_digit() && c != '-')
            .filter_map(|word| word.parse().ok())
            .collect();
        numbers.chunks(2).map(|range| range[1] - range[0] + 1).sum()
    }
}
