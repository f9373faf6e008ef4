//! Kills of the daemon while large payloads flow: each payload arrives whole, once, or its receiver
//! gets an error that says so.

use m3ipc::test::TestNode;
use m3ipc::{Address, Code, Endpoint, Node, Source, Timeout};
use m3ipc_abi::LONG_MAX_BYTES;
use m3ipc_large::{
    is_intact, kill_daemon, outcome, payload, signal_daemon, take_pending, watchdog,
};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// The counts of one run.
#[derive(Debug, Default)]
struct Tally {
    calls: AtomicU64,
    kills: AtomicU64,
    /// Payloads without a byte where bytes were sent.
    empty: AtomicU64,
    /// Payloads with other bytes than those sent.
    wrong: AtomicU64,
    /// Answers that their clients could not accept. The server took the requests.
    lost_answers: AtomicU64,
    /// Calls that ended with another error.
    failed: AtomicU64,
}

impl Tally {
    fn check(&self, place: &str, found: &[u8]) {
        if found.is_empty() {
            println!("{place}: an empty payload");
            self.empty.fetch_add(1, Ordering::Relaxed);
        } else if !is_intact(found) {
            println!("{place}: a wrong payload of {} bytes", found.len());
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn fail(&self, place: &str, error: &dyn std::error::Error) {
        println!("{place}: {error}");
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn assert_clean(&self) {
        let counts = [&self.empty, &self.wrong, &self.failed];
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [0; 3], "empty, wrong, failed: {self:?}");
    }
}

/// Answers with a payload of another length. Between two requests the server is often busy.
fn serve(mut server: Endpoint, tally: Arc<Tally>, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut rng = fastrand::Rng::with_seed(1);
        while !stop.load(Ordering::Relaxed) {
            if rng.u8(..4) == 0 {
                std::thread::sleep(Duration::from_micros(rng.u64(..5_000)));
            }
            match server.receive_bytes(Source::Any, Duration::from_millis(200)) {
                Ok((received, bytes)) => {
                    tally.check("server", &bytes);
                    let answer = payload(rng.u64(..), length(&mut rng));
                    if let Err(error) = server.reply_bytes(received.message.source, 0, &answer) {
                        tally.fail("reply", &error);
                    }
                }
                Err(m3ipc::ReceiveError::TimedOut(_)) => {}
                Err(error) => tally.fail("receive", &error),
            }
        }
    })
}

/// Half of the lengths fit no link.
fn length(rng: &mut fastrand::Rng) -> usize {
    if rng.bool() { rng.usize(16..LONG_MAX_BYTES) } else { rng.usize(LONG_MAX_BYTES..60_000) }
}

/// Makes calls from endpoints that come and go, so that pairs are new at most kills.
fn call(node: &TestNode, to: Address, seed: u64, calls: u64, tally: &Arc<Tally>) -> JoinHandle<()> {
    let (vm, tally) = (node.vm().clone(), Arc::clone(tally));
    std::thread::spawn(move || {
        let mut rng = fastrand::Rng::with_seed(seed);
        // A slot of its own: a bind during a restart cannot meet an endpoint of another thread.
        let slot = 40 + i32::try_from(seed).expect("a small number");
        let mut done = 0;
        while done < calls {
            let mut client = match vm.bind_additional(Some(slot)) {
                Ok(client) => client,
                Err(error) => {
                    tally.fail("bind", &error);
                    continue;
                }
            };
            for _ in 0..rng.u64(1..20) {
                let request = payload(rng.u64(..), length(&mut rng));
                match client.sendrec_bytes(to, 7, &request, LIMIT) {
                    Ok((_, answer)) => tally.check("client", &answer),
                    Err(error) if error.code() == Code::AnswerLost => {
                        println!("sendrec: {error}");
                        tally.lost_answers.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => tally.fail("sendrec", &error),
                }
                done += 1;
                tally.calls.fetch_add(1, Ordering::Relaxed);
            }
        }
    })
}

fn run(calls: u64, pause_ms: std::ops::Range<u64>) {
    const CLIENTS: u64 = 3;
    let node = m3ipc::test::node();
    let tally = Arc::new(Tally::default());
    let stop = Arc::new(AtomicBool::new(false));
    let server = node.vm().bind(1).expect("a free slot");
    let to = server.address();
    let server = serve(server, Arc::clone(&tally), Arc::clone(&stop));
    let clients: Vec<_> =
        (0..CLIENTS).map(|seed| call(&node, to, seed, calls / CLIENTS + 1, &tally)).collect();
    let mut rng = fastrand::Rng::with_seed(9);
    let are_finished = || clients.iter().all(JoinHandle::is_finished);
    while !are_finished() {
        std::thread::sleep(Duration::from_millis(rng.u64(pause_ms.clone())));
        kill_daemon(&node);
        // A successor serves before most kills, also where its start takes longer than the pause.
        if tally.kills.fetch_add(1, Ordering::Relaxed) % 4 != 3 {
            let begun = Instant::now();
            while !are_finished() && Node::find(node.directory()).is_err() {
                assert!(begun.elapsed() < LIMIT, "no successor of a killed daemon");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    for client in clients {
        client.join().expect("a client without a panic");
    }
    stop.store(true, Ordering::Relaxed);
    server.join().expect("a server without a panic");
    println!("{tally:?}");
    tally.assert_clean();
}

#[test]
fn kills_of_the_daemon_lose_no_payload() {
    watchdog(Duration::from_secs(100));
    run(1_500, 50..200);
}

#[test]
#[ignore = "100,000 calls take minutes"]
fn kills_of_the_daemon_lose_no_payload_of_many() {
    watchdog(Duration::from_secs(3_000));
    run(100_000, 50..200);
}

/// A successor of the killed daemon is killed, too, while an endpoint unbinds.
#[test]
fn a_drop_beside_kills_of_successors_leaves_the_slot_free() {
    watchdog(Duration::from_secs(100));
    let node = m3ipc::test::node();
    let vm = node.vm().clone();
    let _first = vm.bind(1).expect("a free slot");
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..25 {
        let endpoint = vm.bind_additional(Some(40)).expect("the slot is free in each round");
        kill_daemon(&node);
        let dropping = std::thread::spawn(move || drop(endpoint));
        for _ in 0..3 {
            while Node::find(node.directory()).is_err() && !dropping.is_finished() {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_micros(rng.u64(..2_000)));
            if !dropping.is_finished() {
                kill_daemon(&node);
            }
        }
        dropping.join().expect("no panic");
        println!("round {round}");
    }
}

/// It has not read the request to unbind, and will never notice the closed connection.
#[test]
fn a_drop_at_a_stopped_daemon_that_is_killed_leaves_the_slot_free() {
    watchdog(Duration::from_secs(100));
    let node = m3ipc::test::node();
    let vm = node.vm().clone();
    let _first = vm.bind(1).expect("a free slot");
    for _ in 0..10 {
        // The bind ends what was dropped: the slot is taken by no other endpoint.
        let endpoint = vm.bind_additional(Some(40)).expect("the slot of a dropped endpoint");
        signal_daemon(&node, Signal::STOP);
        drop(endpoint);
        kill_daemon(&node);
    }
}

#[test]
fn a_request_to_a_busy_server_survives_a_kill() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    let thread = std::thread::spawn(move || {
        let mut answers = Vec::new();
        for seed in 0..3 {
            answers.push(client.sendrec_bytes(to, 7, &payload(seed, 100_000), LIMIT).unwrap().1);
        }
        answers
    });
    // The client has posted its request when the server sleeps this long without a receive.
    std::thread::sleep(Duration::from_millis(300));
    kill_daemon(&node);
    for seed in 0..3 {
        let (received, bytes) = server.receive_bytes(Source::Any, LIMIT).unwrap();
        assert_eq!(bytes, payload(seed, 100_000));
        server.reply_bytes(received.message.source, 0, &payload(seed + 9, 50_000)).unwrap();
    }
    for (answer, seed) in thread.join().unwrap().iter().zip(0..) {
        assert_eq!(answer, &payload(seed + 9, 50_000));
    }
}

#[test]
fn an_answer_in_an_area_of_a_killed_daemon_is_lost_and_the_next_one_arrives() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    for seed in [2, 3] {
        let mut pending = client.begin_request_bytes(to, 7, payload(1, 100)).unwrap();
        let (received, _) = take_pending(&mut server, &mut client, &mut pending);
        server.reply_bytes(received.message.source, 0, &payload(seed, 100_000)).unwrap();
        if seed == 2 {
            kill_daemon(&node);
            let lost = outcome(&mut client, &mut pending).unwrap_err();
            assert_eq!(lost.code(), Code::AnswerLost, "{lost}");
        } else {
            assert!(outcome(&mut client, &mut pending).unwrap() == payload(seed, 100_000));
        }
    }
    // No call of the server between its replies brought the lost answer back.
    let none = server.try_receive(Source::Any);
    assert!(matches!(none, Err(m3ipc::ReceiveError::WouldBlock(_))), "{none:?}");
}

#[test]
fn a_lost_answer_hides_no_later_message_of_the_server() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    let mut pending = client.begin_request_bytes(to, 7, payload(1, 100)).unwrap();
    let (received, _) = take_pending(&mut server, &mut client, &mut pending);
    let client_address = received.message.source;
    server.reply_bytes(client_address, 0, &payload(2, 100_000)).unwrap();
    kill_daemon(&node);
    let lost = outcome(&mut client, &mut pending).unwrap_err();
    assert_eq!(lost.code(), Code::AnswerLost, "{lost}");
    let thread = std::thread::spawn(move || {
        server.send_bytes(client_address, 9, &payload(3, 100_000), LIMIT).unwrap();
    });
    let (received, bytes) = client.receive_bytes(Source::Any, LIMIT).unwrap();
    assert_eq!(received.message.m_type, 9);
    assert!(bytes == payload(3, 100_000));
    thread.join().unwrap();
}

const SERVED_NODE: &str = "M3_LARGE_SERVED_NODE";

/// The server of the test below: the test program, started again. Dies after its second answer.
#[test]
fn process_of_two_answers() {
    let Ok(directory) = std::env::var(SERVED_NODE) else { return };
    let vm = Node::attach_at(directory.as_ref()).unwrap().vm_named("test").unwrap();
    let mut server = vm.bind_any().unwrap();
    server.name_attach("two-answers").unwrap();
    for _ in 0..2 {
        let (received, bytes) = server.receive_bytes(Source::Any, LIMIT).unwrap();
        server.reply_bytes(received.message.source, 0, &bytes).unwrap();
    }
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn the_answer_of_a_dead_server_is_whole_or_lost() {
    watchdog(Duration::from_secs(100));
    let node = m3ipc::test::node();
    let mut client = node.vm().bind_any().unwrap();
    let mut lost = 0;
    for seed in 0..10 {
        let mut server = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process_of_two_answers"])
            .env(SERVED_NODE, node.directory())
            .spawn()
            .unwrap();
        let to = client.wait_name("two-answers", LIMIT).unwrap();
        // Makes the link and the area of both requests and answers.
        let sent = payload(seed, 6_000);
        let (_, answer) = client.sendrec_bytes(to, 7, &sent, LIMIT).unwrap();
        assert!(answer == sent);
        let mut pending = client.begin_request_bytes(to, 7, sent.clone()).unwrap();
        server.wait().unwrap();
        // Nothing tells the client that the daemon has freed the memory of the answer.
        std::thread::sleep(Duration::from_millis(20));
        // The client reads the news of the death in another call than the poll for the answer.
        assert!(client.is_bound());
        match outcome(&mut client, &mut pending) {
            Ok(answer) => assert!(answer == sent, "a wrong answer: {seed}"),
            Err(error) => {
                assert_eq!(error.code(), Code::AnswerLost, "{error}");
                lost += 1;
            }
        }
    }
    println!("{lost} of 10 answers were lost");
}

#[test]
fn a_send_without_wait_for_an_answer_survives_a_kill() {
    watchdog(Duration::from_secs(60));
    let node = m3ipc::test::node();
    let (mut server, mut client) = node.pair_without_link();
    let to = server.address();
    let thread = std::thread::spawn(move || {
        client.send_bytes(to, 7, &payload(1, 5_000_000), Timeout::Never).unwrap();
        client
    });
    std::thread::sleep(Duration::from_millis(300));
    kill_daemon(&node);
    let (_, bytes) = server.receive_bytes(Source::Any, LIMIT).unwrap();
    assert!(bytes == payload(1, 5_000_000));
    thread.join().unwrap();
}
