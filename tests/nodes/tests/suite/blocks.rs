//! Blocks between nodes: the receiver gets a copy as a block of its own, and the block of the
//! sender is freed at the take, or comes back.

use m3ipc::{
    Address, AreaConfig, BlockLifetime, Code, Endpoint, Hold, Message, SendError, SendRecError,
    Source,
};
use m3ipc_test_fixture::{area_turn, until, watchdog};
use m3ipc_test_nodes::blocks::{block_of, pattern, until_all_is_free};
use m3ipc_test_nodes::{Cluster, Process};
use std::time::Duration;

const CLIENT: i32 = 1;
const SERVER: i32 = 10;
const TO: Address = Address(SERVER);
/// What `m3-tests-nodes blocks` does with a block.
const BACK: Message = Message::new(1);
const FREE: Message = Message::new(2);
const KEEP: Message = Message::new(3);
const FREE_ALL: Message = Message::new(4);
const RELAY: Message = Message::new(5);
const SHORT: Duration = Duration::from_millis(100);

fn cluster(name: &str, role: &str) -> (Cluster, Process, Endpoint) {
    watchdog(120);
    let cluster = Cluster::new(name);
    let server = cluster.beta.program(role, SERVER);
    let client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    cluster.alpha.await_endpoint(TO);
    (cluster, server, client)
}

fn sum(bytes: &[u8]) -> i64 {
    bytes.iter().map(|byte| i64::from(*byte)).sum()
}

#[test]
fn a_block_crosses_nodes_and_another_comes_back() {
    let _turn = area_turn();
    let (_cluster, _server, mut client) = cluster("blocks", "blocks");
    let area = client.create_area(&AreaConfig::pair(16 << 20, TO)).expect("a pair with beta");
    // Around each border: the link, one packet, the window of the lane.
    for bytes in [0, 1, 1792, 1793, 61_440, 61_441, 600_000, 5 << 20] {
        let content = pattern(bytes);
        let block = block_of(&mut client, &area, &content);
        let answer = client.sendrec_block(TO, &BACK, block, None).expect("the server answers");
        let length = i64::try_from(bytes).expect("small");
        assert_eq!((answer.long(0), answer.long(1)), (length, sum(&content)));
        let back = client.take_block().expect("it is whole").expect("a block came back");
        let expected: Vec<u8> = content.iter().map(|byte| byte.wrapping_add(1)).collect();
        assert!(back.to_vec() == expected, "{bytes} bytes came back changed");
        assert!(back.is_writable(), "it is a block of this endpoint");
        assert_ne!(back.area(), area.id(), "it lies in another area");
        // It goes on, to the stand-in whose memory it is.
        let answer = client.sendrec_block(TO, &BACK, back, None).expect("the server answers");
        assert_eq!((answer.long(0), answer.long(1)), (length, sum(&expected)));
        let again = client.take_block().expect("it is whole").expect("a block came back");
        assert!(again.iter().zip(&expected).all(|(byte, before)| byte == before.wrapping_add(1)));
    }
    until_all_is_free(&mut client, &area);
    assert_eq!(client.sendrec(TO, &FREE).expect("it answers").long(0), -1, "no block came");
}

#[test]
fn what_was_taken_is_room_again_on_both_nodes() {
    let _turn = area_turn();
    let (_cluster, mut server, mut client) = cluster("blocks-room", "blocks");
    let area = client.create_area(&AreaConfig::pair(1 << 20, TO)).expect("a pair with beta");
    let content = pattern(300_000);
    for number in 0..400 {
        let block = block_of(&mut client, &area, &content);
        if number % 2 == 0 {
            client.send_block(TO, &FREE, block, None).expect("the server takes it");
        } else {
            let answer = client.sendrec_block(TO, &FREE, block, None).expect("it answers");
            assert_eq!(answer.long(1), sum(&content));
        }
        assert_eq!(server.line(), format!("300000 {}", sum(&content)));
    }
    until_all_is_free(&mut client, &area);
}

#[test]
fn each_kind_of_area_and_of_block_crosses() {
    let _turn = area_turn();
    let (_cluster, mut server, mut client) = cluster("blocks-kinds", "blocks");
    let content = pattern(5000);
    let expected = format!("5000 {}", sum(&content));
    for config in [
        AreaConfig::vm(1 << 20),
        AreaConfig::set(1 << 20, &[TO]),
        AreaConfig::pair(1 << 20, TO).owner_writes(),
    ] {
        let area = client.create_area(&config).expect("an area");
        let block = block_of(&mut client, &area, &content);
        client.send_block(TO, &FREE, block, None).expect("the server takes it");
        assert_eq!(server.line(), expected);
        // Its pages are taken from the sender.
        let mut pages = client.allocate_pages(&area, 5000, BlockLifetime::Long).expect("room");
        pages.copy_from(&content).expect("it fits");
        client.send_block_as(TO, &FREE, pages, Hold::Taken, None).expect("the server takes it");
        assert_eq!(server.line(), expected);
        // A shared block is copied, and stays here.
        let mut shared = block_of(&mut client, &area, &content);
        for _ in 0..3 {
            client.share_block(TO, &FREE, &mut shared, None).expect("the server takes it");
            assert_eq!(server.line(), expected);
            assert_eq!(shared.readers_left(), 0, "the copy is not of this block");
        }
        assert!(client.reclaim_block(&mut shared) && shared.is_writable());
        drop(shared);
        until_all_is_free(&mut client, &area);
    }
}

#[test]
fn a_block_that_is_not_taken_comes_back() {
    let _turn = area_turn();
    let (cluster, mut server, mut client) = cluster("blocks-back", "none");
    let area = client.create_area(&AreaConfig::vm(4 << 20)).expect("an area");
    let content = pattern(100_000);
    let mut block = block_of(&mut client, &area, &content);
    let (address, number) = (block.address(), block.number());
    for _ in 0..5 {
        let unsent = client.send_block(TO, &FREE, block, SHORT).expect_err("nobody takes it");
        assert!(matches!(unsent.error, SendError::TimedOut(_)), "{unsent:?}");
        block = unsent.block.expect("it came back");
        let unsent = client.sendrec_block(TO, &FREE, block, SHORT).expect_err("nobody takes it");
        assert!(matches!(unsent.error, SendRecError::TimedOut(_)), "{unsent:?}");
        block = unsent.block.expect("it came back");
        assert_eq!((block.address(), block.number()), (address, number));
        assert!(block.to_vec() == content && block.is_writable());
        let mut shared = block;
        let timed_out = client.share_block(TO, &FREE, &mut shared, SHORT);
        assert!(matches!(timed_out, Err(SendError::TimedOut(_))), "{timed_out:?}");
        assert!(client.reclaim_block(&mut shared));
        block = shared;
    }
    // The server dies while the block is on its way.
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let unsent = client.send_block(TO, &FREE, block, None).expect_err("it dies");
            assert_eq!(unsent.error.code(), Code::DstDied);
            assert!(unsent.block.expect("it came back").to_vec() == content);
        });
        cluster.alpha.await_call(CLIENT, "send");
        server.kill();
        sending.join().expect("no panic");
    });
    // And before it.
    until("the death is known", || !cluster.alpha.knows(TO));
    let block = block_of(&mut client, &area, &content);
    let unsent = client.sendrec_block(TO, &FREE, block, None).expect_err("it is dead");
    assert!(unsent.block.is_some(), "{:?}", unsent.error);
    drop(unsent);
    until_all_is_free(&mut client, &area);
}

#[test]
fn a_server_that_dies_after_the_take_has_the_block() {
    let _turn = area_turn();
    let (_cluster, mut server, mut client) = cluster("blocks-taken", "silent");
    let area = client.create_area(&AreaConfig::vm(4 << 20)).expect("an area");
    let block = block_of(&mut client, &area, &pattern(100_000));
    std::thread::scope(|scope| {
        let asking = scope
            .spawn(|| client.sendrec_block(TO, &FREE, block, None).expect_err("no answer comes"));
        assert_eq!(server.line(), "taken");
        server.kill();
        let unsent = asking.join().expect("no panic");
        assert_eq!(unsent.error.code(), Code::SrcDied);
        assert!(unsent.block.is_none(), "the server had it");
    });
    until_all_is_free(&mut client, &area);
}

#[test]
fn killed_proxies_lose_no_block() {
    let _turn = area_turn();
    for own in [true, false] {
        let (mut cluster, _server, mut client) = cluster("blocks-kills", "none");
        let area = client.create_area(&AreaConfig::vm(4 << 20)).expect("an area");
        let content = pattern(10_000);
        let block = block_of(&mut client, &area, &content);
        std::thread::scope(|scope| {
            let sending = scope
                .spawn(|| client.send_block(TO, &FREE, block, None).expect_err("nobody takes it"));
            cluster.alpha.await_call(CLIENT, "send");
            std::thread::sleep(3 * SHORT);
            if own {
                cluster.alpha.proxy.kill()
            } else {
                cluster.beta.proxy.kill()
            }
            let unsent = sending.join().expect("no panic");
            assert_eq!(unsent.error.code(), Code::Unknown);
            assert!(unsent.block.expect("it came back").to_vec() == content);
        });
        until_all_is_free(&mut client, &area);
    }
}

#[test]
fn a_block_above_the_limit_is_73_and_stays_here() {
    let _turn = area_turn();
    let (_cluster, _server, mut client) = cluster("blocks-long", "blocks");
    let area = client.create_area(&AreaConfig::vm(300 << 20)).expect("an area");
    let bytes = (256 << 20) + 1;
    let block = client.allocate(&area, bytes, BlockLifetime::Short).expect("there is room");
    let unsent = client.sendrec_block(TO, &FREE, block, None).expect_err("it is too long");
    assert_eq!(unsent.error.code(), Code::MsgSize);
    let mut block = unsent.block.expect("it came back");
    block.set_bytes(1000).expect("it fits");
    let answer = client.sendrec_block(TO, &FREE, block, None).expect("its content crosses");
    assert_eq!(answer.long(0), 1000);
}

#[test]
fn a_receiver_that_keeps_blocks_fills_its_own_area_alone() {
    let _turn = area_turn();
    let (_cluster, _server, mut client) = cluster("blocks-kept", "blocks");
    let area = client.create_area(&AreaConfig::vm(64 << 20)).expect("an area");
    let content = pattern(4 << 20);
    let mut kept = 0;
    let refused = loop {
        let block = block_of(&mut client, &area, &content);
        match client.sendrec_block(TO, &KEEP, block, None) {
            Ok(_) => kept += 1,
            Err(unsent) => break unsent,
        }
        assert!(kept < 100, "the area has an end");
    };
    assert_eq!(refused.error.code(), Code::Again, "{}", refused.error);
    let block = refused.block.expect("it came back");
    assert!((8..=16).contains(&kept), "{kept} blocks");
    client.sendrec(TO, &FREE_ALL).expect("the server frees all");
    client.sendrec_block(TO, &FREE, block, None).expect("there is room again");
}

#[test]
fn a_relay_leaves_the_block_with_the_first_server() {
    let _turn = area_turn();
    let (cluster, mut first, mut client) = cluster("blocks-relay", "blocks");
    let mut second = cluster.beta.program("blocks", SERVER + 1);
    cluster.alpha.await_endpoint(Address(SERVER + 1));
    let area = client.create_area(&AreaConfig::vm(4 << 20)).expect("an area");
    let block = block_of(&mut client, &area, &pattern(1000));
    let answer = client.sendrec_block(TO, &RELAY, block, None).expect("the second one answers");
    assert_eq!((answer.source, answer.long(0)), (Address(SERVER + 1), -1));
    assert!(first.line().starts_with("1000 "));
    assert_eq!(second.line(), "-1 0");
    until_all_is_free(&mut client, &area);
}

#[test]
fn an_answer_has_its_own_block_alone() {
    let _turn = area_turn();
    let (_cluster, _server, mut client) = cluster("blocks-answer", "blocks");
    let area = client.create_area(&AreaConfig::vm(4 << 20)).expect("an area");
    // Answers with and without blocks in turn: none has the block of another one.
    for number in 0..50_u8 {
        let block = block_of(&mut client, &area, &[number; 100]);
        let message = if number % 2 == 0 { &BACK } else { &FREE };
        client.sendrec_block(TO, message, block, None).expect("the server answers");
        let back = client.take_block().expect("it is whole").map(|block| block.to_vec());
        assert_eq!(back, (number % 2 == 0).then(|| vec![number + 1; 100]));
    }
    assert!(client.try_receive(Source::Any).is_err());
}
