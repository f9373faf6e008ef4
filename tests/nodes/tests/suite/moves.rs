//! An endpoint moves to another node and back: gamma is its home, beta has its backup, and alpha is
//! a third node. Callers on all three go on.

use m3ipc::{Address, Code, Endpoint, Message};
use m3ipc_test_fixture::{signals, until, watchdog};
use m3ipc_test_nodes::{OneNode, Process, Three};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const ALPHA: usize = 0;
const BETA: usize = 1;
const GAMMA: usize = 2;
/// A user slot of gamma: its address has a generation.
const SLOT: i32 = 205;
/// A user slot of beta.
const OTHER: i32 = 105;
const BACKUPS: &str = "[{ slot = 205, node = \"beta\" }]";
/// A refused connection counts as the end of a node.
const REFUSED: &str = "[{ slot = 205, node = \"beta\", after = \"refused\" }]";
/// The slots of the callers on each node.
const CALLERS: [&[i32]; 3] = [&[1, 2], &[11], &[21]];
/// The type of a request that asks the server to move.
const MOVE: i32 = 99;
/// The pause between two calls of a caller.
const PAUSE: Duration = Duration::from_millis(5);
/// Longer than the least time between two changes of a place.
const LATER: Duration = Duration::from_millis(1100);

/// Starts a program that binds itself when it may.
fn start(node: &OneNode, role: &str) -> Process {
    start_in(node, role, SLOT)
}

fn start_in(node: &OneNode, role: &str, slot: i32) -> Process {
    let directory = node.fixture.directory().to_str().expect("a text");
    Process::start(&[role, directory, "shop", &slot.to_string()])
}

#[derive(Debug, Default)]
struct Shared {
    stops: AtomicBool,
    successes: [AtomicU32; 3],
    /// The waits for the endpoint that failed, by node.
    failed_waits: Mutex<Vec<(usize, Code)>>,
}

type Calls = Vec<(u32, Result<(), Code>)>;

/// Callers on all nodes that ask the server, one number after another.
struct Callers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Calls>>,
}

impl Callers {
    fn start(three: &Three, to: Address) -> Self {
        Self::start_in(three, to, CALLERS)
    }

    fn start_in(three: &Three, to: Address, slots: [&[i32]; 3]) -> Self {
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        for (node, slots) in slots.into_iter().enumerate() {
            for slot in slots {
                let endpoint = three.nodes[node].bind(*slot);
                let (shared, first) = (Arc::clone(&shared), 1_000_000 * threads.len());
                let first = u32::try_from(first).expect("few");
                threads.push(std::thread::spawn(move || ask(endpoint, to, (node, first), &shared)));
            }
        }
        Self { shared, threads }
    }

    /// Waits until the callers of each node have had more answers.
    fn await_successes(&self) {
        for (node, successes) in self.shared.successes.iter().enumerate() {
            let goal = successes.load(Ordering::Relaxed) + 10;
            until(&format!("the calls of node {node} go on"), || {
                successes.load(Ordering::Relaxed) >= goal
            });
        }
    }

    fn finish(self) -> Calls {
        self.shared.stops.store(true, Ordering::Relaxed);
        let all = self.threads.into_iter().map(|it| it.join().expect("the caller ends"));
        all.flatten().collect()
    }
}

/// Asks until the test ends. A call that was not taken because the server moves is repeated.
fn ask(mut endpoint: Endpoint, to: Address, (node, first): (usize, u32), shared: &Shared) -> Calls {
    let mut calls = Vec::new();
    for number in first.. {
        if shared.stops.load(Ordering::Relaxed) {
            break;
        }
        let request = Message::new(7).with_bytes(&number.to_ne_bytes());
        let outcome = loop {
            let asked = endpoint.sendrec(to, &request).map_err(|error| error.code());
            if asked != Err(Code::Migrate) || shared.stops.load(Ordering::Relaxed) {
                break asked.map(|answer| assert_eq!(answer.payload, request.payload));
            }
            match endpoint.wait_bind(to, Duration::from_secs(1)).map_err(|error| error.code()) {
                Ok(_) => {}
                Err(code) => shared.failed_waits.lock().expect("no panic").push((node, code)),
            }
        };
        if outcome.is_ok() {
            shared.successes[node].fetch_add(1, Ordering::Relaxed);
        }
        calls.push((number, outcome));
        std::thread::sleep(PAUSE);
    }
    calls
}

/// How often each number was taken.
fn times(taken: &[Vec<String>]) -> BTreeMap<u32, u32> {
    let mut times = BTreeMap::new();
    // Other lines tell of moves and ends.
    for number in taken.iter().flatten().filter_map(|line| line.parse().ok()) {
        *times.entry(number).or_default() += 1;
    }
    times
}

/// Checks that each call ended truly, and no message was taken twice.
fn check(calls: &Calls, taken: &[Vec<String>]) {
    let mut times = times(taken);
    for (number, outcome) in calls {
        let times = times.remove(number).unwrap_or(0);
        let is_true = match outcome {
            Ok(()) | Err(Code::AnswerLost | Code::SrcDied) => times == 1,
            Err(Code::Unknown) => times <= 1,
            Err(
                Code::Migrate | Code::NotConn | Code::DstDied | Code::DeadSrcDst | Code::Endpoint,
            ) => times == 0,
            Err(_) => false,
        };
        assert!(is_true, "{number} ended with {outcome:?}, and was taken {times} times");
    }
    assert!(times.is_empty(), "nobody sent {times:?}");
}

/// Asks the server to move.
fn ask_to_move(node: &OneNode, to: Address) {
    ask_to_move_as(node, 5, to);
}

fn ask_to_move_as(node: &OneNode, slot: i32, to: Address) {
    let mut endpoint = node.bind(slot);
    until("the server is asked to move", || endpoint.sendrec(to, &Message::new(MOVE)).is_ok());
}

/// The lines of a server up to this one.
fn lines_until(server: &mut Process, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line| line != last) {
        lines.push(server.line());
        assert!(!lines.last().is_some_and(|line| line.is_empty()), "before {last}: {lines:?}");
    }
    lines
}

fn prepare(name: &str, backups: &str) -> (Three, Process, Address) {
    let three = Three::with_backups(name, backups);
    let server = three.nodes[GAMMA].program("mover", SLOT);
    let address = three.nodes[ALPHA].await_slot(SLOT);
    assert!(address.generation() > 0, "a user slot");
    assert_eq!(three.nodes[BETA].await_slot(SLOT), address);
    (three, server, address)
}

#[test]
fn callers_go_on_while_an_endpoint_moves_there_and_back() {
    watchdog(240);
    let (three, mut home, address) = prepare("moves", BACKUPS);
    let mut away = start(&three.nodes[BETA], "waiter");
    let callers = Callers::start(&three, address);
    callers.await_successes();
    let mut taken = [Vec::new(), Vec::new()];
    for _round in 0..3 {
        ask_to_move(&three.nodes[ALPHA], address);
        taken[0].extend(lines_until(&mut home, "moved"));
        taken[1].extend(lines_until(&mut away, "bound"));
        callers.await_successes();
        std::thread::sleep(LATER);
        ask_to_move(&three.nodes[ALPHA], address);
        taken[1].extend(lines_until(&mut away, "moved"));
        taken[0].extend(lines_until(&mut home, "bound"));
        callers.await_successes();
        std::thread::sleep(LATER);
    }
    // A program waits on the other node each time, so each wait ends with its bind.
    let waits = std::mem::take(&mut *callers.shared.failed_waits.lock().expect("no panic"));
    assert_eq!(waits, []);
    let calls = callers.finish();
    taken[0].extend(home.rest());
    taken[1].extend(away.rest());
    check(&calls, &taken);
    // Nothing is lost: only the last call of a caller may end unrepeated.
    let failed: Vec<_> =
        calls.iter().filter(|(_, it)| !matches!(it, Ok(()) | Err(Code::Migrate))).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn a_place_that_nobody_claims_is_at_its_home_again() {
    watchdog(120);
    let (three, mut server, address) = prepare("unclaimed", BACKUPS);
    let mut client = three.nodes[ALPHA].bind(1);
    let request = Message::new(7).with_bytes(&1_u32.to_ne_bytes());
    assert!(client.sendrec(address, &request).is_ok());
    ask_to_move(&three.nodes[ALPHA], address);
    lines_until(&mut server, "moved");
    let end = client.sendrec(address, &request).map_err(|error| error.code());
    assert!(matches!(end, Err(Code::NotConn | Code::Migrate)), "{end:?}");
    // The program of the home waits for its slot, and gets it.
    assert_eq!(server.line(), "bound");
    until("alpha calls the successor", || {
        let successor = three.nodes[ALPHA].await_slot(SLOT);
        client.sendrec(successor, &request).is_ok()
    });
    assert_eq!(server.line(), "1");
}

#[test]
fn an_endpoint_stays_where_it_cannot_move() {
    watchdog(120);
    let (mut three, mut server, address) = prepare("stays", BACKUPS);
    three.nodes[BETA].proxy.kill();
    let mut client = three.nodes[ALPHA].bind(1);
    let request = Message::new(7).with_bytes(&1_u32.to_ne_bytes());
    std::thread::sleep(LATER);
    ask_to_move(&three.nodes[ALPHA], address);
    assert_eq!(server.line(), "refused -64");
    assert!(client.sendrec(address, &request).is_ok());
    // A slot without a backup.
    let mut other = three.nodes[GAMMA].bind(22);
    assert_eq!(other.migrate().map_err(|error| error.code()), Err(Code::NoNode));
}

/// Asks the server to move, by a caller of its own node: that one needs no proxy.
fn ask_at_home(node: &OneNode, to: Address) {
    let mut endpoint = node.bind(22);
    endpoint.sendrec(to, &Message::new(MOVE)).expect("the server answers first");
}

#[test]
fn the_proxy_of_the_home_is_stopped() {
    watchdog(60);
    let (three, mut home, address) = prepare("stop-home-proxy", BACKUPS);
    let mut away = start(&three.nodes[BETA], "waiter");
    let mut client = three.nodes[GAMMA].bind(23);
    let request = Message::new(7).with_bytes(&1_u32.to_ne_bytes());
    three.nodes[GAMMA].proxy.signal("STOP");
    ask_at_home(&three.nodes[GAMMA], address);
    // Nobody decides, and the call ends.
    assert_eq!(home.line(), "refused -64");
    assert!(client.sendrec(address, &request).is_ok());
    assert_eq!(home.line(), "1");
    // The proxy reads the wish now, which its owner has given up.
    three.nodes[GAMMA].proxy.signal("CONT");
    std::thread::sleep(LATER);
    assert!(client.sendrec(address, &request).is_ok(), "it has not moved");
    assert_eq!(home.line(), "1");
    until("alpha and beta reach gamma again", || {
        three.nodes[ALPHA].knows(address) && three.nodes[BETA].knows(address)
    });
    ask_to_move(&three.nodes[ALPHA], address);
    lines_until(&mut home, "moved");
    lines_until(&mut away, "bound");
}

#[test]
fn the_proxy_of_the_other_node_is_stopped() {
    watchdog(120);
    for is_noticed in [false, true] {
        let (three, mut home, address) = prepare("stop-other-proxy", BACKUPS);
        let away = start(&three.nodes[BETA], "waiter");
        let callers = Callers::start_in(&three, address, [&[1, 2], &[], &[21]]);
        three.nodes[BETA].proxy.signal("STOP");
        if is_noticed {
            // Longer than the silence that counts.
            std::thread::sleep(Duration::from_secs(4));
        }
        ask_at_home(&three.nodes[GAMMA], address);
        let mut lines = vec![home.line()];
        while lines.last().is_some_and(|line| line.parse::<u32>().is_ok()) {
            lines.push(home.line());
        }
        let word = lines.last().map(String::as_str);
        assert!(word == Some("refused -64") || word == Some("moved") && !is_noticed, "{word:?}");
        three.nodes[BETA].proxy.signal("CONT");
        std::thread::sleep(LATER);
        is_served_and_true(&three, callers, [home, away], lines);
    }
}

#[test]
fn two_endpoints_move_past_each_other_and_back() {
    watchdog(240);
    let backups = "[{ slot = 205, node = \"beta\" }, { slot = 105, node = \"gamma\" }]";
    let (three, gammas, first) = prepare("past", backups);
    let betas = three.nodes[BETA].program("mover", OTHER);
    let second = three.nodes[ALPHA].await_slot(OTHER);
    let waiters = [
        start_in(&three.nodes[BETA], "waiter", SLOT),
        start_in(&three.nodes[GAMMA], "waiter", OTHER),
    ];
    let [mut first_away, mut second_away] = waiters;
    let (mut first_home, mut second_home) = (gammas, betas);
    let callers =
        [Callers::start(&three, first), Callers::start_in(&three, second, [&[3], &[12], &[22]])];
    let mut taken = [const { Vec::new() }; 4];
    let both_move = || {
        std::thread::scope(|scope| {
            scope.spawn(|| ask_to_move_as(&three.nodes[ALPHA], 5, first));
            scope.spawn(|| ask_to_move_as(&three.nodes[ALPHA], 6, second));
        });
    };
    for _round in 0..2 {
        callers.iter().for_each(Callers::await_successes);
        both_move();
        taken[0].extend(lines_until(&mut first_home, "moved"));
        taken[1].extend(lines_until(&mut first_away, "bound"));
        taken[2].extend(lines_until(&mut second_home, "moved"));
        taken[3].extend(lines_until(&mut second_away, "bound"));
        callers.iter().for_each(Callers::await_successes);
        std::thread::sleep(LATER);
        both_move();
        taken[1].extend(lines_until(&mut first_away, "moved"));
        taken[0].extend(lines_until(&mut first_home, "bound"));
        taken[3].extend(lines_until(&mut second_away, "moved"));
        taken[2].extend(lines_until(&mut second_home, "bound"));
        std::thread::sleep(LATER);
    }
    let [to_first, to_second] = callers.map(Callers::finish);
    let rest = [first_home, first_away, second_home, second_away].map(|mut it| it.rest());
    taken.iter_mut().zip(rest).for_each(|(taken, rest)| taken.extend(rest));
    check(&to_first, &taken[..2]);
    check(&to_second, &taken[2..]);
    let is_lost = |it: &Result<(), Code>| !matches!(it, Ok(()) | Err(Code::Migrate));
    let lost: Vec<_> = to_first.iter().chain(&to_second).filter(|(_, it)| is_lost(it)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn a_move_to_a_node_whose_vm_has_ended_comes_back() {
    watchdog(120);
    let (three, mut server, address) = prepare("no-vm", BACKUPS);
    let mut client = three.nodes[ALPHA].bind(1);
    three.nodes[BETA].fixture.node().vm_end(m3ipc_test_nodes::VM).expect("it runs");
    ask_to_move(&three.nodes[ALPHA], address);
    lines_until(&mut server, "moved");
    let request = Message::new(7).with_bytes(&1_u32.to_ne_bytes());
    let end = client.sendrec(address, &request).map_err(|error| error.code());
    assert!(matches!(end, Err(Code::NotConn | Code::Migrate)), "{end:?}");
    assert_eq!(server.line(), "bound");
    until("alpha calls the successor", || {
        let successor = three.nodes[ALPHA].await_slot(SLOT);
        client.sendrec(successor, &request).is_ok()
    });
}

/// Moves the server to beta among calls, kills something, and checks that each call ends truly and
/// some server can be called in the end.
fn kill_while_it_moves(name: &str, kill: impl FnOnce(&mut Three, &mut Process, &mut Process)) {
    watchdog(240);
    let (mut three, mut home, address) = prepare(name, REFUSED);
    let mut away = start(&three.nodes[BETA], "waiter");
    let callers = Callers::start(&three, address);
    callers.await_successes();
    ask_to_move(&three.nodes[ALPHA], address);
    kill(&mut three, &mut home, &mut away);
    std::thread::sleep(LATER);
    is_served_and_true(&three, callers, [home, away], Vec::new());
}

/// Checks that each call has ended truly, and that a server can be called. `seen` are lines of the
/// servers that were read before.
fn is_served_and_true(
    three: &Three,
    callers: Callers,
    [mut home, mut away]: [Process; 2],
    seen: Vec<String>,
) {
    let calls = callers.finish();
    // A server that was not killed goes on, or the slot is free for this one.
    let mut spare = start(&three.nodes[GAMMA], "waiter");
    let mut client = three.nodes[ALPHA].bind(6);
    let request = Message::new(7).with_bytes(&u32::MAX.to_ne_bytes());
    until("a server answers", || {
        let successor = three.nodes[ALPHA].await_slot(SLOT);
        client.sendrec(successor, &request).is_ok()
    });
    let mut taken = [seen, home.rest(), away.rest(), spare.rest()];
    let last = u32::MAX.to_string();
    taken.iter_mut().for_each(|lines| lines.retain(|line| *line != last));
    check(&calls, &taken);
}

#[test]
fn the_new_process_is_killed() {
    kill_while_it_moves("kill-new", |_, _, away| away.kill());
}

#[test]
fn the_old_process_is_killed() {
    kill_while_it_moves("kill-old", |_, home, _| home.kill());
}

#[test]
fn the_proxy_of_the_home_is_killed() {
    kill_while_it_moves("kill-home-proxy", |three, _, _| {
        three.nodes[GAMMA].proxy.kill();
        three.nodes[GAMMA].restart_proxy();
    });
}

#[test]
fn the_proxy_of_the_other_node_is_killed() {
    kill_while_it_moves("kill-other-proxy", |three, _, _| {
        three.nodes[BETA].proxy.kill();
        three.nodes[BETA].restart_proxy();
    });
}

#[test]
fn the_daemon_of_the_home_is_killed() {
    kill_while_it_moves("kill-home-daemon", |three, _, _| {
        signals::kill(three.nodes[GAMMA].fixture.daemon_pid());
        three.nodes[GAMMA].fixture.restart_daemon();
        three.nodes[GAMMA].restart_proxy();
    });
}

#[test]
fn the_daemon_of_the_other_node_is_killed() {
    kill_while_it_moves("kill-other-daemon", |three, _, _| {
        signals::kill(three.nodes[BETA].fixture.daemon_pid());
        three.nodes[BETA].fixture.restart_daemon();
        three.nodes[BETA].restart_proxy();
    });
}

/// What is killed at a pause point.
#[derive(Clone, Copy)]
enum Part {
    Proxy,
    Daemon,
}

/// The same with a kill at a state of the move. The place of a killed node is not taken, so the
/// point is passed by the move alone.
fn kill_at(name: &str, node: usize, part: Part, point: &str) {
    watchdog(240);
    let mut three = Three::with_backups(name, BACKUPS);
    match part {
        Part::Proxy => three.nodes[node].restart_proxy_at(point),
        Part::Daemon => {
            three.nodes[node].fixture.restart_daemon_at(point);
            three.nodes[node].restart_proxy();
        }
    }
    let mut home = start(&three.nodes[GAMMA], "mover");
    assert_eq!(home.line(), "bound");
    let address = three.nodes[ALPHA].await_slot(SLOT);
    assert_eq!(three.nodes[BETA].await_slot(SLOT), address);
    let away = start(&three.nodes[BETA], "waiter");
    let callers = Callers::start(&three, address);
    callers.await_successes();
    // A stopped process may hold its answer up.
    let mut asker = three.nodes[ALPHA].bind(5);
    let asked = std::thread::spawn(move || drop(asker.sendrec(address, &Message::new(MOVE))));
    let victim = match part {
        Part::Proxy => three.nodes[node].proxy.pid().cast_signed(),
        Part::Daemon => three.nodes[node].fixture.daemon_pid(),
    };
    signals::until_stopped(victim);
    signals::kill(victim);
    if matches!(part, Part::Daemon) {
        three.nodes[node].fixture.restart_daemon();
    }
    three.nodes[node].restart_proxy();
    asked.join().expect("no panic");
    std::thread::sleep(LATER);
    is_served_and_true(&three, callers, [home, away], Vec::new());
}

#[test]
fn the_proxy_of_the_home_is_killed_when_it_is_asked() {
    kill_at("at-p-move-asked-h", GAMMA, Part::Proxy, "proxy.move_asked");
}

#[test]
fn the_proxy_of_the_home_is_killed_when_the_endpoint_has_ended() {
    kill_at("at-p-move-ended-h", GAMMA, Part::Proxy, "proxy.move_ended");
}

#[test]
fn the_proxy_of_the_home_is_killed_before_it_says_so() {
    kill_at("at-p-move-noted-h", GAMMA, Part::Proxy, "proxy.move_noted");
}

#[test]
fn the_proxy_of_the_other_node_is_killed_before_the_place_is_free() {
    kill_at("at-p-place-free-o", BETA, Part::Proxy, "proxy.place_free");
}

#[test]
fn the_proxy_of_the_other_node_is_killed_when_the_place_is_free() {
    kill_at("at-p-place-known-o", BETA, Part::Proxy, "proxy.place_known");
}

#[test]
fn the_daemon_of_the_home_is_killed_before_the_endpoint_ends() {
    kill_at("at-d-placed-h", GAMMA, Part::Daemon, "daemon.placed");
}

#[test]
fn the_daemon_of_the_home_is_killed_when_the_endpoint_has_ended() {
    kill_at("at-d-move-ended-h", GAMMA, Part::Daemon, "daemon.move_ended");
}

#[test]
fn the_daemon_of_the_other_node_is_killed_before_the_place_is_free() {
    kill_at("at-d-placed-o", BETA, Part::Daemon, "daemon.placed");
}
