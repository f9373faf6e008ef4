//! A backup takes the place of an endpoint whose node ends: alpha has the clients, gamma the
//! server, beta its backup.

use m3ipc::{Address, Code, Endpoint, Message};
use m3ipc_test_fixture::{signals, until, watchdog};
use m3ipc_test_nodes::{OneNode, Process, Three};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const ALPHA: usize = 0;
const BETA: usize = 1;
const GAMMA: usize = 2;
/// A user slot of gamma: its address has a generation.
const SLOT: i32 = 205;
/// A refused connection counts as the end of gamma.
const BACKUPS: &str = "[{ slot = 205, node = \"beta\", after = \"refused\" }]";
/// The word of gamma alone counts.
const CAREFUL: &str = "[{ slot = 205, node = \"beta\" }]";
const CLIENTS: u32 = 3;
/// The pause between two calls of a client.
const PAUSE: Duration = Duration::from_millis(1);
/// Attempts, of which one must show that no call failed that could wait for the backup.
const ROUNDS: usize = 5;

/// Starts a program that binds itself when it may.
fn start(node: &OneNode, role: &str) -> Process {
    let directory = node.fixture.directory().to_str().expect("a text");
    Process::start(&[role, directory, "shop", &SLOT.to_string()])
}

/// Kills the proxy, the daemon and the server of a node. What the server has taken.
fn kill_node(node: &mut OneNode, server: &mut Process) -> Vec<String> {
    // First the one that would tell of the death of the server, last the one that it would revive.
    node.proxy.kill();
    let taken = server.rest();
    signals::kill(node.fixture.daemon_pid());
    taken
}

#[derive(Debug, Default)]
struct Shared {
    stops: AtomicBool,
    successes: AtomicU32,
    /// Calls that failed without having left.
    unreachable: AtomicU32,
}

type Calls = Vec<(u32, Result<(), Code>)>;

/// Clients that ask the server, without a time limit, one number after another.
struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Calls>>,
}

impl Clients {
    fn start(node: &OneNode, to: Address) -> Self {
        let shared = Arc::new(Shared::default());
        let threads = (0..CLIENTS).map(|client| {
            let endpoint = node.bind(1 + i32::try_from(client).expect("few"));
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || ask(endpoint, to, client, &shared))
        });
        let threads = threads.collect();
        Self { shared, threads }
    }

    fn await_successes(&self) {
        let goal = self.shared.successes.load(Ordering::Relaxed) + 10 * CLIENTS;
        until("the calls go on", || self.shared.successes.load(Ordering::Relaxed) >= goal);
    }

    fn unreachable(&self) -> u32 {
        self.shared.unreachable.load(Ordering::Relaxed)
    }

    fn finish(self) -> Calls {
        self.shared.stops.store(true, Ordering::Relaxed);
        let all = self.threads.into_iter().map(|it| it.join().expect("the client ends"));
        all.flatten().collect()
    }
}

fn ask(mut endpoint: Endpoint, to: Address, client: u32, shared: &Shared) -> Calls {
    let mut calls = Vec::new();
    for number in (client..).step_by(CLIENTS as usize) {
        if shared.stops.load(Ordering::Relaxed) {
            break;
        }
        let request = Message::new(7).with_bytes(&number.to_ne_bytes());
        let asked = endpoint.sendrec(to, &request).map_err(|error| error.code());
        let outcome = asked.map(|answer| assert_eq!(answer.payload, request.payload));
        let counter = match outcome {
            Ok(()) => Some(&shared.successes),
            Err(Code::NotConn) => Some(&shared.unreachable),
            Err(_) => None,
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        calls.push((number, outcome));
        std::thread::sleep(PAUSE);
    }
    calls
}

/// Checks that each call ended truly, and no message was taken twice.
fn check(calls: Calls, taken: &[Vec<String>]) {
    let mut times: BTreeMap<u32, u32> = BTreeMap::new();
    for line in taken.iter().flatten() {
        // Other lines tell of binds and ends.
        if let Ok(number) = line.parse() {
            *times.entry(number).or_default() += 1;
        }
    }
    for (number, outcome) in calls {
        let times = times.remove(&number).unwrap_or(0);
        let is_true = match outcome {
            Ok(()) | Err(Code::AnswerLost | Code::SrcDied) => times == 1,
            Err(Code::Unknown) => times <= 1,
            Err(Code::NotConn | Code::DstDied | Code::DeadSrcDst | Code::Endpoint) => times == 0,
            Err(_) => false,
        };
        assert!(is_true, "{number} ended with {outcome:?}, and was taken {times} times");
    }
    assert!(times.is_empty(), "nobody sent {times:?}");
}

/// Waits until a bind at the home is refused. Its reason.
fn await_refusal(home: &OneNode) -> String {
    let mut line = String::new();
    until("the home knows its backup", || {
        line = start(home, "try").line();
        line != "bound"
    });
    line
}

#[test]
fn a_backup_answers_when_the_node_of_a_server_ends_and_the_home_comes_back_later() {
    watchdog(240);
    let mut three = Three::with_backups("backup", BACKUPS);
    let mut server = three.nodes[GAMMA].program("tally", SLOT);
    let address = three.nodes[ALPHA].await_slot(SLOT);
    assert!(address.generation() > 0, "a user slot");
    // Both nodes have met before one of them ends.
    assert_eq!(three.nodes[BETA].await_slot(SLOT), address);
    let clients = Clients::start(&three.nodes[ALPHA], address);
    clients.await_successes();
    let mut backup = start(&three.nodes[BETA], "backup");
    let taken_at_home = kill_node(&mut three.nodes[GAMMA], &mut server);
    assert_eq!(backup.line(), "bound");
    clients.await_successes();
    // The home comes back, and may not have its slot.
    three.nodes[GAMMA].fixture.restart_daemon();
    three.nodes[GAMMA].restart_proxy();
    three.nodes[GAMMA].await_proxy();
    let refusal = await_refusal(&three.nodes[GAMMA]);
    assert!(refusal.starts_with("-308 ") && refusal.contains("beta"), "{refusal}");
    clients.await_successes();
    // The program of the home waits until the backup ends.
    let mut successor = start(&three.nodes[GAMMA], "backup");
    clients.await_successes();
    let taken_by_backup = backup.rest();
    assert_eq!(successor.line(), "bound");
    let successor_address = three.nodes[GAMMA].await_slot(SLOT);
    let calls = clients.finish();
    until("alpha knows the successor", || three.nodes[ALPHA].knows(successor_address));
    let mut client = three.nodes[ALPHA].bind(5);
    let request = Message::new(7).with_bytes(&u32::MAX.to_ne_bytes());
    assert!(client.sendrec(successor_address, &request).is_ok());
    let mut calls_of_all = calls;
    calls_of_all.push((u32::MAX, Ok(())));
    check(calls_of_all, &[taken_at_home, taken_by_backup, successor.rest()]);
}

#[test]
fn calls_that_have_not_left_wait_for_the_backup() {
    watchdog(240);
    let mut clean = 0;
    for round in 0..ROUNDS {
        let mut three = Three::with_backups(&format!("backup-wait-{round}"), BACKUPS);
        let mut server = three.nodes[GAMMA].program("tally", SLOT);
        let address = three.nodes[ALPHA].await_slot(SLOT);
        assert_eq!(three.nodes[BETA].await_slot(SLOT), address);
        let clients = Clients::start(&three.nodes[ALPHA], address);
        let mut backup = start(&three.nodes[BETA], "backup");
        clients.await_successes();
        let taken_at_home = kill_node(&mut three.nodes[GAMMA], &mut server);
        assert_eq!(backup.line(), "bound");
        clients.await_successes();
        // On a loaded machine the backup may come too late.
        clean += usize::from(clients.unreachable() == 0);
        check(clients.finish(), &[taken_at_home, backup.rest()]);
        if clean > 0 {
            return;
        }
    }
    panic!("in each round, calls failed that could wait");
}

#[test]
fn a_server_whose_proxy_alone_has_ended_is_replaced_and_ends() {
    watchdog(120);
    let mut three = Three::with_backups("replaced", BACKUPS);
    let mut server = three.nodes[GAMMA].program("tally", SLOT);
    let address = three.nodes[BETA].await_slot(SLOT);
    let mut backup = start(&three.nodes[BETA], "backup");
    three.nodes[GAMMA].proxy.kill();
    assert_eq!(backup.line(), "bound");
    // The server lives, and serves its own node.
    let mut neighbour = three.nodes[GAMMA].bind(21);
    let request = Message::new(7).with_bytes(&1_u32.to_ne_bytes());
    assert!(neighbour.sendrec(address, &request).is_ok());
    assert_eq!(server.line(), "1");
    three.nodes[GAMMA].restart_proxy();
    let end = server.line();
    assert!(end.starts_with("ended -"), "{end}");
    until("gamma calls the backup", || neighbour.sendrec(address, &request).is_ok());
    assert_eq!(backup.line(), "1");
    // A new start of the proxy of the backup leaves it where it is.
    three.nodes[BETA].restart_proxy();
    until("gamma calls it again", || neighbour.sendrec(address, &request).is_ok());
    assert_eq!(backup.line(), "1");
}

#[test]
fn a_node_without_the_backup_does_not_wait() {
    watchdog(60);
    let three = Three::with_backups("no-backup", BACKUPS);
    let _server = three.nodes[GAMMA].program("tally", SLOT);
    let [alpha, beta, _] = &three.nodes;
    let _ = (alpha.await_slot(SLOT), beta.await_slot(SLOT));
    let refused = alpha.vm.bind_backup(SLOT, None).expect_err("its backup is at beta");
    assert_eq!(refused.code(), Code::RmtProc);
    assert!(refused.to_string().contains("gamma"), "{refused}");
    for limit in [Duration::ZERO, PAUSE] {
        let late = beta.vm.bind_backup(SLOT, limit).expect_err("the server lives");
        assert_eq!(late.code(), Code::TimedOut);
    }
}

/// A server on gamma that beta knows, and its backup there.
fn with_backup(name: &str, backups: &str) -> (Three, Process, Address, Process) {
    let three = Three::with_backups(name, backups);
    let server = three.nodes[GAMMA].program("tally", SLOT);
    let address = three.nodes[BETA].await_slot(SLOT);
    let backup = start(&three.nodes[BETA], "backup");
    (three, server, address, backup)
}

#[test]
fn a_proxy_that_is_told_to_end_hands_its_places_over() {
    watchdog(120);
    let (three, _server, address, mut backup) = with_backup("told", CAREFUL);
    three.nodes[GAMMA].proxy.signal("TERM");
    assert_eq!(backup.line(), "bound");
    assert_eq!(three.nodes[BETA].await_slot(SLOT), address);
}

#[test]
fn a_node_whose_daemon_has_ended_says_so() {
    watchdog(120);
    let (three, mut server, _, mut backup) = with_backup("daemon", CAREFUL);
    signals::kill(three.nodes[GAMMA].fixture.daemon_pid());
    assert_eq!(backup.line(), "bound");
    // The server has brought a new daemon to life. It ends when the nodes meet again.
    let end = server.line();
    assert!(end.starts_with("ended -"), "{end}");
}

#[test]
fn a_killed_proxy_hands_nothing_over_where_its_word_alone_counts() {
    watchdog(120);
    let (mut three, mut server, address, _backup) = with_backup("killed", CAREFUL);
    three.nodes[GAMMA].proxy.kill();
    let mut client = three.nodes[ALPHA].bind(5);
    let request = Message::new(7).with_bytes(&1_u32.to_ne_bytes());
    let ask = |client: &mut Endpoint| client.sendrec(address, &request).map_err(|it| it.code());
    until("alpha has lost gamma", || ask(&mut client) == Err(Code::NotConn));
    let beta = &three.nodes[BETA];
    let late = beta.vm.bind_backup(SLOT, Duration::from_secs(3)).expect_err("no proof");
    assert_eq!(late.code(), Code::TimedOut);
    three.nodes[GAMMA].restart_proxy();
    until("the server is still there", || ask(&mut client).is_ok());
    assert_eq!(server.line(), "1");
}

#[test]
fn a_backup_hears_of_an_end_long_after_the_silence() {
    watchdog(120);
    // Alpha connects to gamma, so gamma finds out by probes alone.
    let slot = 35;
    let backups = "[{ slot = 35, node = \"gamma\", after = \"refused\" }]";
    let mut three = Three::with_backups("late", backups);
    let _server = three.nodes[ALPHA].program("tally", slot);
    let address = three.nodes[GAMMA].await_slot(slot);
    let directory = three.nodes[GAMMA].fixture.directory().to_str().expect("a text").to_owned();
    let mut backup = Process::start(&["backup", &directory, "shop", &slot.to_string()]);
    three.nodes[ALPHA].proxy.signal("STOP");
    let mut client = three.nodes[GAMMA].bind(21);
    let request = Message::new(7).with_bytes(&1_u32.to_ne_bytes());
    let mut ask = || client.sendrec(address, &request).map_err(|it| it.code());
    until("gamma has lost alpha", || ask() == Err(Code::NotConn));
    three.nodes[ALPHA].proxy.kill();
    assert_eq!(backup.line(), "bound");
    until("gamma calls the backup", || ask().is_ok());
}

#[test]
fn one_that_is_bound_already_does_not_wait() {
    watchdog(60);
    let three = Three::with_backups("bound", CAREFUL);
    let _server = three.nodes[GAMMA].program("tally", SLOT);
    let beta = &three.nodes[BETA];
    let _ = beta.await_slot(SLOT);
    let _own = beta.bind(11);
    let refused = beta.vm.bind_backup(SLOT, None).expect_err("it is bound");
    assert_eq!(refused.code(), Code::SlotUsed);
}
