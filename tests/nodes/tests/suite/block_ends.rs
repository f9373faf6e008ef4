//! Blocks between nodes whose senders, proxies or receivers end, or move, in between: each block is
//! freed once, and nothing is left.
// A block that was not sent comes back by value.
#![allow(clippy::result_large_err)]

use m3ipc::nodes::{ForeignRange, Proxy, StandIn, StandInEvent};
use m3ipc::{Address, AreaConfig, Block, Code, Endpoint, Message, Source, VmConfig};
use m3ipc_test_fixture::resources::left_in_directory;
use m3ipc_test_fixture::{NodeFixture, area_turn, signals, until, watchdog};
use m3ipc_test_nodes::blocks::{block_of, pattern, until_all_is_free};
use m3ipc_test_nodes::{Cluster, OneNode, Process, Three, VM};
use std::time::Duration;

const CLIENT: i32 = 1;
const SENDER: i32 = 2;
const SERVER: i32 = 10;
const TO: Address = Address(SERVER);
const MESSAGE: Message = Message::new(2);
const SHORT: Duration = Duration::from_millis(100);
const AREA_BYTES: u64 = 16 << 20;
/// More than a quarter of the area.
const BYTES: usize = 5 << 20;
/// A user slot of gamma, whose backup is beta.
const MOVER: i32 = 205;

fn descriptors(cluster: &Cluster) -> [usize; 2] {
    [&cluster.alpha, &cluster.beta].map(|node| node.proxy.descriptors())
}

/// A program that sends a block of this area, or of its own if there is none. It has begun to.
fn sender(node: &OneNode, slot: i32, area: Option<u32>, to: Address) -> Process {
    sender_at(node, slot, area, to, None)
}

/// The same; it stops at this pause point.
fn sender_at(
    node: &OneNode,
    slot: i32,
    area: Option<u32>,
    to: Address,
    pause: Option<&str>,
) -> Process {
    let directory = node.fixture.directory().to_str().expect("a text");
    let area = area.map_or("own".to_owned(), |area| area.to_string());
    let words = ["send-block", directory, "shop", &slot.to_string(), &area, &to.0.to_string()];
    let mut process = Process::start_at(&[], &words, pause);
    assert_eq!(process.line(), "given");
    process
}

/// Kills a sender whose message waits at the node of its server.
fn kill_sender(cluster: &Cluster, area: u32, to: Address) {
    let mut sender = sender(&cluster.alpha, SENDER, Some(area), to);
    cluster.beta.await_endpoint(Address(SENDER));
    std::thread::sleep(SHORT);
    sender.kill();
    let nodes = [&cluster.alpha, &cluster.beta];
    until("its death is known", || !nodes.iter().any(|node| node.knows(Address(SENDER))));
}

#[test]
fn senders_that_are_killed_leave_no_block() {
    let _turn = area_turn();
    watchdog(120);
    let cluster = Cluster::new("block-senders");
    let _deaf = cluster.beta.program("none", SERVER);
    let mut server = cluster.beta.program("blocks", SERVER + 1);
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    [TO, Address(SERVER + 1)].into_iter().for_each(|to| cluster.alpha.await_endpoint(to));
    let area = client.create_area(&AreaConfig::vm(AREA_BYTES)).expect("an area");
    kill_sender(&cluster, area.id(), TO);
    std::thread::sleep(3 * SHORT);
    let before = descriptors(&cluster);
    for _ in 0..8 {
        kill_sender(&cluster, area.id(), TO);
        until("the proxies keep nothing", || descriptors(&cluster) == before);
    }
    // A server that would take the message, and cannot before its sender is dead.
    server.signal("STOP");
    kill_sender(&cluster, area.id(), Address(SERVER + 1));
    server.signal("CONT");
    // All of the area is room again, and the pair of the living goes on.
    let bytes = usize::try_from(AREA_BYTES / 2).expect("it fits");
    until("the blocks of the dead are room", || {
        client.allocate(&area, AREA_BYTES / 2, m3ipc::BlockLifetime::Short).is_ok()
    });
    let block = block_of(&mut client, &area, &vec![1; bytes]);
    client.send_block(Address(SERVER + 1), &MESSAGE, block, None).expect("the server takes it");
    assert_eq!(server.line(), format!("{bytes} {bytes}"), "no message of the dead comes before");
    // One that takes each message at once: the message is whole.
    let mut sender = sender(&cluster.alpha, SENDER, Some(area.id()), Address(SERVER + 1));
    assert!(server.line().starts_with(&format!("{BYTES} ")));
    sender.kill();
    until_all_is_free(&mut client, &area);
}

/// A proxy is killed around the take: the block is its sender's again, or the receiver has the copy
/// and the error, if there is one, says so. Nothing is left.
#[test]
fn a_proxy_that_is_killed_around_the_take_leaves_nothing() {
    let _turn = area_turn();
    watchdog(120);
    for point in ["proxy.block_copied", "proxy.block_taken"] {
        let is_taken = point == "proxy.block_taken";
        let mut cluster = Cluster::new("block-take");
        let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
        cluster.alpha.await_proxy();
        cluster.alpha.restart_proxy_at(point);
        let mut server = cluster.beta.program("blocks", SERVER);
        cluster.alpha.await_endpoint(TO);
        let area = client.create_area(&AreaConfig::vm(AREA_BYTES)).expect("an area");
        let content = pattern(BYTES);
        let block = block_of(&mut client, &area, &content);
        let before = left_in_directory(cluster.alpha.fixture.directory());
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| client.send_block(TO, &MESSAGE, block, None));
            if is_taken {
                assert!(server.line().starts_with(&format!("{BYTES} ")), "the server took it");
            }
            signals::until_stopped(i32::try_from(cluster.alpha.proxy.pid()).expect("a pid"));
            cluster.alpha.proxy.kill();
            match sending.join().expect("no panic") {
                Ok(()) => assert!(is_taken),
                Err(unsent) => {
                    assert_eq!((is_taken, unsent.error.code()), (false, Code::NotConn));
                    assert!(unsent.block.expect("it came back").to_vec() == content);
                }
            }
        });
        until_all_is_free(&mut client, &area);
        let left = left_in_directory(cluster.alpha.fixture.directory());
        assert!(left.iter().all(|name| before.contains(name)), "{before:?}, then {left:?}");
        // The pair goes on with the next proxy.
        cluster.alpha.restart_proxy();
        cluster.alpha.await_endpoint(TO);
        let block = block_of(&mut client, &area, &pattern(1000));
        client.sendrec_block(TO, &MESSAGE, block, None).expect("the server answers");
        assert!(is_taken || server.line().starts_with("1000 "), "it took the second one alone");
    }
}

/// A sender gives its message up while the proxy copies the block, however long that takes.
#[test]
fn a_block_whose_copy_is_slow_comes_back_at_the_time_limit() {
    let _turn = area_turn();
    watchdog(120);
    let mut cluster = Cluster::new("block-slow");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_proxy();
    cluster.alpha.restart_proxy_at("proxy.block_copied");
    let _server = cluster.beta.program("blocks", SERVER);
    cluster.alpha.await_endpoint(TO);
    let area = client.create_area(&AreaConfig::vm(AREA_BYTES)).expect("an area");
    let block = block_of(&mut client, &area, &pattern(BYTES));
    let unsent = client.send_block(TO, &MESSAGE, block, SHORT).expect_err("the proxy is stopped");
    signals::until_stopped(i32::try_from(cluster.alpha.proxy.pid()).expect("a pid"));
    assert_eq!(unsent.error.code(), Code::TimedOut);
    let block = unsent.block.expect("it came back");
    cluster.alpha.proxy.signal("CONT");
    client.sendrec_block(TO, &MESSAGE, block, None).expect("the server answers");
    until_all_is_free(&mut client, &area);
}

/// A node whose proxy is the test, and a client with a block.
struct Stage {
    stand_in: StandIn,
    client: Endpoint,
    block: Block,
    area: m3ipc::Area,
    _proxy: Proxy,
    fixture: NodeFixture,
}

impl Stage {
    fn new(name: &str) -> Self {
        let fixture = NodeFixture::new(name);
        let vm = fixture.node().vm_init(&VmConfig::new("shop").id(VM)).expect("a fresh VM");
        let range = ForeignRange { vm: VM, first: SERVER, last: SERVER, node: "beta".to_owned() };
        let mut proxy = Proxy::register(fixture.directory(), vec![range]).expect("the only proxy");
        proxy.set_reachable("beta", true).expect("the daemon runs");
        let stand_in = proxy.stand_in(VM, TO).expect("a slot of the other node");
        let mut client = vm.bind(CLIENT).expect("the slot is free");
        let area = client.create_area(&AreaConfig::vm(1 << 20)).expect("an area");
        let block = block_of(&mut client, &area, &pattern(1000));
        Self { stand_in, client, block, area, _proxy: proxy, fixture }
    }
}

/// Looks until a message comes. Its content, if it came with a block.
fn next_block(stand_in: &mut StandIn) -> Vec<u8> {
    loop {
        for event in stand_in.poll().expect("the stand-in is bound") {
            if let StandInEvent::Message { bytes, is_block, .. } = event {
                assert!(is_block, "it came with a block");
                return bytes;
            }
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn a_late_take_leaves_the_block_of_the_next_message_alone() {
    let _turn = area_turn();
    watchdog(60);
    let Stage { mut stand_in, mut client, block, area, _proxy, fixture: _fixture } =
        Stage::new("late-take");
    let from = client.address();
    let mut block = Some(block);
    std::thread::scope(|scope| {
        let given = block.take().expect("it is here");
        let sending = scope.spawn(|| client.send_block(TO, &MESSAGE, given, SHORT));
        assert!(next_block(&mut stand_in) == pattern(1000));
        // The proxy says nothing, and the sender gives the message up.
        let unsent = sending.join().expect("no panic").expect_err("nobody took it");
        assert_eq!(unsent.error.code(), Code::Unknown);
        block = unsent.block;
    });
    let given = block.expect("it came back");
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| client.send_block(TO, &MESSAGE, given, None));
        // The second message has the same block under the same name, and nobody has looked at it.
        std::thread::sleep(SHORT);
        stand_in.taken(from);
        assert!(next_block(&mut stand_in) == pattern(1000));
        assert!(!sending.is_finished(), "the first message was taken, and not the second");
        stand_in.taken(from);
        sending.join().expect("no panic").expect("it was taken");
    });
    until_all_is_free(&mut client, &area);
}

#[test]
fn a_block_that_is_let_go_is_found_again() {
    let _turn = area_turn();
    watchdog(60);
    let Stage { mut stand_in, mut client, block, area, _proxy, fixture: _fixture } =
        Stage::new("let-go");
    let from = client.address();
    let mut shared = block_of(&mut client, &area, &pattern(1000));
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let given = client.send_block(TO, &MESSAGE, block, None).map_err(|it| it.error);
            given.and_then(|()| client.share_block(TO, &MESSAGE, &mut shared, None))
        });
        for _message in 0..2 {
            for _look in 0..3 {
                assert!(next_block(&mut stand_in) == pattern(1000));
                assert!(stand_in.may_let_go(from), "the block is the sender's");
                stand_in.let_go(from);
            }
            assert!(next_block(&mut stand_in) == pattern(1000));
            stand_in.taken(from);
        }
        sending.join().expect("no panic").expect("both were taken");
    });
    assert!(client.reclaim_block(&mut shared));
    drop(shared);
    until_all_is_free(&mut client, &area);
}

/// Requests with blocks wait for an endpoint that moves, as those without do: beta takes the place
/// of the server of gamma, and alpha asks.
#[test]
fn requests_with_blocks_follow_a_server_that_moves() {
    let _turn = area_turn();
    watchdog(240);
    let three = Three::with_backups("block-moves", "[{ slot = 205, node = \"beta\" }]");
    let [alpha, beta, gamma] = &three.nodes;
    let mut home = gamma.program("block-mover", MOVER);
    let to = alpha.await_slot(MOVER);
    assert_eq!(beta.await_slot(MOVER), to);
    let directory = beta.fixture.directory().to_str().expect("a text");
    let mut away = Process::start(&["block-waiter", directory, "shop", &MOVER.to_string()]);
    let mut client = alpha.bind(CLIENT);
    let area = client.create_area(&AreaConfig::vm(AREA_BYTES)).expect("an area");
    let content = pattern(100_000);
    // It takes this message and moves a while later: the first request waits for it, untaken.
    client.send(to, &Message::new(98)).expect("it is here");
    let mut answers = 0;
    let mut block = Some(block_of(&mut client, &area, &content));
    while answers < 3 {
        let given = block.take().expect("it is here");
        match client.sendrec_block(to, &Message::new(1), given, None) {
            Ok(answer) => {
                assert_eq!(answer.long(0), 100_000);
                answers += 1;
                block = Some(client.take_block().expect("it is whole").expect("it came back"));
            }
            Err(unsent) => panic!("alpha is a third node: {}", unsent.error),
        }
    }
    assert_eq!(home.line(), "moved");
    assert_eq!(away.line(), "bound");
    drop(block);
    until_all_is_free(&mut client, &area);
}

/// A block that waits for an endpoint in its own node ends with the move, and leaves nothing.
#[test]
fn a_block_that_waits_for_an_endpoint_that_moves_is_its_senders_again() {
    let _turn = area_turn();
    watchdog(240);
    let three = Three::with_backups("block-moved", "[{ slot = 205, node = \"beta\" }]");
    let [alpha, beta, gamma] = &three.nodes;
    let mut home = gamma.program("block-mover", MOVER);
    let to = alpha.await_slot(MOVER);
    assert_eq!(beta.await_slot(MOVER), to);
    // It takes this message, and the others wait for it.
    alpha.bind(CLIENT).send(to, &Message::new(97)).expect("it is here");
    // On beta, which gets the place, and on gamma, which had it.
    let callers = [(beta, 11), (gamma, 21)].map(|(node, slot)| {
        let caller = sender(node, slot, None, to);
        node.await_call(slot, "send");
        caller
    });
    home.go_on();
    for mut caller in callers {
        assert_eq!(caller.line(), "-332, the block came back");
    }
    assert_eq!(home.line(), "moved");
}

/// The same where the message comes after the move, and nobody takes the place.
#[test]
fn a_block_for_an_endpoint_that_has_moved_is_its_senders_again() {
    let _turn = area_turn();
    watchdog(240);
    let three = Three::with_backups("block-late", "[{ slot = 205, node = \"beta\" }]");
    let [alpha, beta, gamma] = &three.nodes;
    let mut home = gamma.program("block-mover", MOVER);
    let to = alpha.await_slot(MOVER);
    assert_eq!(beta.await_slot(MOVER), to);
    alpha.bind(CLIENT).send(to, &Message::new(97)).expect("it is here");
    let callers = [(beta, 11), (gamma, 21)].map(|(node, slot)| {
        let caller = sender_at(node, slot, None, to, Some("client.block_given"));
        signals::until_stopped(i32::try_from(caller.pid()).expect("a pid"));
        caller
    });
    home.go_on();
    assert_eq!(home.line(), "moved");
    for mut caller in callers {
        caller.signal("CONT");
        let line = caller.line();
        println!("{line}");
        assert!(line.ends_with(", the block came back"), "{line}");
    }
}

/// A proxy gives an answer up that it cannot take without the daemon, which is silent.
#[test]
fn the_block_of_a_refused_answer_is_free_again() {
    let _turn = area_turn();
    watchdog(60);
    let Stage { mut stand_in, client: mut server, block, area, _proxy, fixture } =
        Stage::new("refused-answer");
    // The server knows the other member before.
    let unsent = server.send_block(TO, &MESSAGE, block, m3ipc::Timeout::NoWait);
    let block = unsent.expect_err("nobody looks").block.expect("it came back");
    let mut posted =
        stand_in.post(server.address(), true, &MESSAGE, Vec::new()).expect("the server lives");
    until("the request comes", || {
        assert!(stand_in.poll_posted(&mut posted).is_none());
        server.try_receive(Source::Any).is_ok()
    });
    signals::stop(fixture.daemon_pid());
    server.reply_block(TO, &MESSAGE, block).expect("it is awaited");
    assert!(!stand_in.withdraw(posted), "it was taken");
    signals::resume(fixture.daemon_pid());
    until("the block is free", || {
        let _ = server.try_receive(Source::Any);
        drop(server.allocate(&area, 64, m3ipc::BlockLifetime::Short));
        area.blocks_out() == 0
    });
}
