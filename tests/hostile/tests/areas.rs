//! A hostile member of an area: it gets nothing accepted that breaks the rules.

use m3ipc::{Address, AreaConfig, BlockLifetime, Code, Message, Source, Timeout};
use m3ipc_hostile::hostile_area_member;
use m3ipc_test_fixture::{AreaProcess, NodeFixture, area_turn, until};

/// Each breach of the rules by a member of the audience is refused with -500, or harmless.
#[test]
fn a_hostile_member_gets_nothing_accepted_that_is_not_so() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("hostile");
    let vm = fixture.vm("hostile");
    let mut me = vm.bind(1).unwrap();
    let mut keeper = AreaProcess::start(&fixture, &vm, 2, &["hold"]);
    let area = me.create_area(&AreaConfig::vm(4 << 20)).unwrap();
    // The keeper has attached it, and the hostile member knows of one block of this endpoint.
    let first = me.allocate(&area, 64, BlockLifetime::Short).unwrap();
    me.send_block(Address(2), &Message::new(0), first, Timeout::Never).unwrap();
    keeper.line();
    let mut own = me.allocate(&area, 4096, BlockLifetime::Short).unwrap();
    own.fill(77).unwrap();
    let mut hostile = hostile_area_member(
        &fixture,
        &vm,
        "area-attacker",
        &["3", &area.id().to_string(), "1", "2"],
    );
    let (mut refused, mut accepted_at_random, mut first) = (Vec::new(), 0, None);
    loop {
        let message = me.receive(Source::Any).unwrap();
        match (message.m_type, me.take_block()) {
            // A sound block.
            (1, Ok(Some(block))) => first = Some(block),
            (100, _) => break,
            // A random name can be a valid one, but only in an extent of the hostile member.
            (10, Ok(Some(block))) => {
                accepted_at_random += 1;
                let (begin, end) = (block.address(), block.address() + block.capacity_bytes());
                assert!(begin >= area.base() && end <= area.base() + area.limit_bytes());
                assert!(end <= own.address() || begin >= own.address() + 4096);
            }
            (10, Err(_)) => {}
            (act, Err(error)) => refused.push((act, error.code())),
            (act, other) => panic!("act {act} was believed: {other:?}"),
        }
    }
    let broke = Code::PeerBroke;
    let expected: Vec<(i32, Code)> =
        (2..=8).map(|act| (act, broke)).chain([(9, Code::NoNode)]).collect();
    assert_eq!(refused, expected, "and {accepted_at_random} at random");
    // A giver can still write the block that it gave. It cannot take it back, and touches nothing
    // else.
    let first = first.unwrap();
    until("the giver's writing is seen", || first.get(4095) == Some(9));
    assert!(own.iter().all(|byte| byte == 77));
    drop(own);
    // The blocks that the hostile member held are free again, and no other member loses any.
    hostile.kill();
    me.wait_unbind(Address(3), Timeout::Never).unwrap();
    drop(first);
    keeper.kill();
    me.wait_unbind(Address(2), Timeout::Never).unwrap();
    let all = me.allocate(&area, 3 << 20, BlockLifetime::Short);
    assert!(all.is_ok(), "{:?}", all.err());
}

/// The daemon looks twice before it gives the memory of the dead out again.
#[test]
fn a_block_that_was_hidden_from_the_search_keeps_its_memory() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("hider");
    let vm = fixture.vm("hider");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(4 << 20)).unwrap();
    let id = area.id().to_string();
    let mut allocator = AreaProcess::start(&fixture, &vm, 2, &["give", &id]);
    let _hider = hostile_area_member(&fixture, &vm, "area-hider", &["3", &id, "1"]);
    for _ in 0..2 {
        me.sendrec(Address(2), &Message::new(1)).unwrap();
        let block = me.take_block().unwrap().unwrap();
        me.send_block(Address(3), &Message::new(1), block, Timeout::Never).unwrap();
    }
    allocator.kill();
    me.wait_unbind(Address(2), Timeout::Never).unwrap();
    me.send(Address(3), &Message::new(1)).unwrap();
    assert_eq!(me.receive(Source::Any).unwrap().m_type, 1);
    let shown = me.take_block().unwrap();
    assert_eq!(me.receive(Source::Any).unwrap().m_type, 100, "the search is over");
    // Whoever gets that memory next writes into it.
    let mut others = Vec::new();
    for bytes in [1 << 20, 1 << 18, 1 << 16] {
        while let Ok(mut block) = me.allocate(&area, bytes, BlockLifetime::Short) {
            block.fill(9).unwrap();
            others.push(block);
        }
    }
    let block = shown.expect("the victim accepted it");
    assert!(block.iter().all(|byte| byte == 3), "the memory of a held block was given out again");
}

/// A message whose block is of an area that nobody can attach does not stay in the way of others.
#[test]
fn a_block_of_an_area_that_its_owner_never_maps_costs_one_receive() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("unmapped");
    let vm = fixture.vm("unmapped");
    let mut me = vm.bind(1).unwrap();
    let _hostile = hostile_area_member(&fixture, &vm, "area-unmapped", &["2", "1"]);
    until("its message comes", || me.try_receive(Source::Any).is_ok());
    assert_eq!(me.take_block().map(|_| ()).unwrap_err().code(), Code::PeerBroke);
    let (mut other, to) = (vm.bind_additional(Some(3)).unwrap(), me.address());
    let sending = std::thread::spawn(move || other.send(to, &Message::new(7)));
    assert_eq!(me.receive(Source::Any).unwrap().m_type, 7);
    sending.join().unwrap().unwrap();
}

#[test]
fn the_kernel_lets_only_the_owner_write() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("forge");
    let vm = fixture.vm("forge");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(4 << 20).owner_writes()).unwrap();
    let mut block = me.allocate(&area, 4096, BlockLifetime::Short).unwrap();
    block.fill(5).unwrap();
    let mut forger =
        hostile_area_member(&fixture, &vm, "area-writer", &["2", &area.id().to_string()]);
    assert_eq!(forger.line(), "0 ways to write, reads: true");
    assert!(block.iter().all(|byte| byte == 5));
}

/// The safe API hands out copies only: a text that was validated stays valid, whatever a hostile
/// member writes. `Block` has compile-fail examples for slices.
#[test]
fn a_validated_text_stays_valid_while_a_hostile_member_writes() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("scribble");
    let vm = fixture.vm("scribble");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(4 << 20)).unwrap();
    let _hostile =
        hostile_area_member(&fixture, &vm, "area-scribbler", &["3", &area.id().to_string(), "1"]);
    me.receive(Source::Any).unwrap();
    let block = me.take_block().unwrap().expect("a block that was given");
    let (mut valid, mut invalid) = (0_u32, 0_u32);
    until("valid and invalid texts are seen", || {
        for _ in 0..100 {
            match String::from_utf8(block.to_vec()) {
                Ok(text) => {
                    valid += 1;
                    assert!(std::str::from_utf8(text.as_bytes()).is_ok(), "it changed afterwards");
                    assert_eq!(text.chars().count(), text.chars().rev().count());
                }
                Err(_) => invalid += 1,
            }
        }
        valid > 100 && invalid > 100
    });
    let words = block.cast::<u16>().expect("it has an even length");
    assert_eq!(words.iter().count(), 2048, "the length is private");
    assert!(words.into_sealed().is_err(), "a member can write, so there is no slice");
}
