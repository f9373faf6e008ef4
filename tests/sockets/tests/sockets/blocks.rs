//! Blocks of areas through com-sockets: by reference, and with forged names.

use crate::fixture::{Fixture, Peer};
use m3ipc::{Area, AreaConfig, Block, BlockLifetime, Endpoint};
use m3ipc_sockets::{Errno, Stream};
use std::io::{Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PORT: u16 = 80;
const BYTES: usize = 300_000;
const MARK: &[u8; 8] = b"m3block\n";

/// A process is in one VM at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two processes with endpoints, and an area of this process.
fn setup(name: &str) -> (Fixture, Peer, Endpoint, Area) {
    let fixture = Fixture::new(name);
    let there = fixture.peer(1, "blocks", PORT);
    let mut me = fixture.vm.bind_any().expect("a slot");
    let area = me.create_area(&AreaConfig::vm(64 << 20)).expect("an area");
    (fixture, there, me, area)
}

fn filled(me: &mut Endpoint, area: &Area, with: u8) -> Block {
    let mut block = me.allocate(area, BYTES as u64, BlockLifetime::Short).expect("room");
    block.fill(with).expect("it is held");
    block
}

fn connect(fixture: &Fixture) -> Stream {
    fixture.domain.connect(fixture.at(1, PORT)).expect("a connection")
}

/// Sends a block there and back: each byte is larger by 1, and the address is the same.
fn pass(stream: &Stream, me: &mut Endpoint, block: Block, value: u8) -> Block {
    let address = block.address();
    stream.send_block(me, block).map_err(|unsent| unsent.error).expect("it is sent");
    let back = stream.receive_block(me).expect("it is true").expect("a block");
    assert_eq!((back.address(), back.len()), (address, BYTES));
    assert!(back.iter().all(|byte| byte == value.wrapping_add(1)), "after {value}");
    back
}

#[test]
fn a_block_goes_there_and_back_without_a_copy() {
    let _alone = alone();
    let (fixture, _there, mut me, area) = setup("blocks");
    let stream = connect(&fixture);
    let mut block = filled(&mut me, &area, 7);
    for round in 0..50 {
        block = pass(&stream, &mut me, block, 7 + round);
    }
    drop(block);
    // A dropped block is free again: an area has room for any number of them.
    for round in 0..300_u32 {
        let block = filled(&mut me, &area, 3);
        drop(pass(&stream, &mut me, block, 3));
        assert!(area.blocks_out() <= 1, "round {round}");
    }
}

#[test]
fn a_block_that_was_not_accepted_is_taken_back_and_its_name_is_invalid_then() {
    let _alone = alone();
    let (fixture, _there, mut me, area) = setup("back");
    let first = connect(&fixture);
    let block = filled(&mut me, &area, 1);
    drop(pass(&first, &mut me, block, 1));
    // The peer does not serve this connection while the first one lasts.
    let waiting = connect(&fixture);
    let block = filled(&mut me, &area, 5);
    let given =
        waiting.send_block(&mut me, block).map_err(|unsent| unsent.error).expect("it is sent");
    let block = me.take_back_given(&given).expect("nobody has it");
    assert!(block.len() == BYTES && block.iter().all(|byte| byte == 5));
    assert!(me.take_back_given(&given).is_none(), "it was taken back twice");
    drop(first);
    is_over(&waiting);
    assert!(block.iter().all(|byte| byte == 5), "the refused peer wrote into it");
}

#[test]
fn a_forged_name_ends_its_connection_and_nothing_else() {
    let _alone = alone();
    let (fixture, _there, mut me, area) = setup("forged");
    // The other side is a member of the area from here on.
    let block = filled(&mut me, &area, 1);
    drop(pass(&connect(&fixture), &mut me, block, 1));
    let block = filled(&mut me, &area, 9);
    let (process, _) = connect(&fixture).peer_process();
    let there = me.locate_process(process).expect("it is bound");
    let given = me.give_block(there, block).map_err(|unsent| unsent.error).expect("it is given");
    let name = given.name();
    // Area, number, generation, hop, a length beyond the block, sharing, payload, a value of no
    // name.
    for (at, bit) in [
        (0, 1),
        (4, 1),
        (7, 0x80),
        (8, 1),
        (12, 1),
        (15, 0x80),
        (18, 0x80),
        (23, 0x80),
        (24, 1),
        (24, 2),
        (30, 1),
    ] {
        let mut forged = name;
        forged[at] ^= bit;
        refused_name(&connect(&fixture), MARK, &forged);
    }
    refused_name(&connect(&fixture), b"m3clock\n", &name);
    refused_name(&connect(&fixture), MARK, &[0xff; 32]);
    // The valid name is accepted after all of that, once.
    let stream = connect(&fixture);
    (&stream).write_all(&[&MARK[..], &name].concat()).expect("room");
    let mut back = stream.receive_block(&mut me).expect("it is true").expect("a block");
    assert!(back.iter().all(|byte| byte == 10) && back.fill(0).is_ok());
    drop(stream);
    refused_name(&connect(&fixture), MARK, &name);
    assert!(
        me.take_back_given(&given).is_none(),
        "it was accepted, and came back under another name"
    );
    // A block that was never given cannot be accepted.
    let refused = me.accept_given(there, &name).map(drop).expect_err("it is this endpoint's own");
    assert_eq!(refused.code(), m3ipc::Code::PeerBroke);
    drop(pass(&connect(&fixture), &mut me, back, 0));
}

#[test]
fn where_no_block_can_be_sent_it_stays_where_it_is() {
    let _alone = alone();
    let (fixture, there, mut me, area) = setup("stays");
    let stream = connect(&fixture);
    stream.set_nonblocking(true).expect("a flag");
    let block = filled(&mut me, &area, 2);
    let unsent = stream.send_block(&mut me, block).map(drop).expect_err("it does not wait");
    assert_eq!(unsent.error.errno(), Errno::INVAL);
    assert_eq!(
        stream.receive_block(&mut me).map(drop).expect_err("it does not wait").errno(),
        Errno::INVAL
    );
    stream.set_nonblocking(false).expect("a flag");
    // A process without an endpoint.
    let _echo = fixture.peer(2, "echo", PORT);
    let elsewhere = fixture.domain.connect(fixture.at(2, PORT)).expect("a connection");
    let unsent = elsewhere.send_block(&mut me, unsent.block.expect("it came back"));
    let unsent = unsent.expect_err("nobody can have it there");
    assert_eq!(unsent.error.errno(), Errno::BADF, "{}", unsent.error);
    drop(there);
    is_over(&stream);
    let unsent = stream.send_block(&mut me, unsent.block.expect("it came back"));
    let unsent = unsent.expect_err("the other side is dead");
    let block = unsent.block.expect("it came back");
    assert!(block.len() == BYTES && block.iter().all(|byte| byte == 2));
}

/// Sends this name in place of a block, and waits until the other side closes.
fn refused_name(stream: &Stream, mark: &[u8; 8], name: &[u8; 32]) {
    let mut stream = stream;
    stream.write_all(&[&mark[..], name].concat()).expect("room");
    is_over(stream);
}

/// Waits until the other side closes.
fn is_over(stream: &Stream) {
    let mut stream = stream;
    assert!(matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_)), "an answer");
}
