//! Members and daemons that die while blocks are allocated, held and given.

use m3ipc::{Address, AreaConfig, BlockLifetime, Code, Message, Timeout};
use m3ipc_test_fixture::{AreaProcess, NodeFixture, area_turn, until};

#[test]
fn the_blocks_of_a_killed_holder_are_free_again() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("killed");
    let vm = fixture.vm("killed");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    for _ in 0..20 {
        let mut hold = AreaProcess::start(&fixture, &vm, 2, &["hold"]);
        for _ in 0..3 {
            let block = me.allocate(&area, 200_000, BlockLifetime::Short).unwrap();
            let number = block.number();
            me.send_block(Address(2), &Message::new(1), block, Timeout::Never).unwrap();
            assert_eq!(hold.line(), number.to_string());
        }
        hold.kill();
        me.wait_unbind(Address(2), Timeout::Never).unwrap();
    }
    // All of them are free again.
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(me.allocate(&area, 200_000, BlockLifetime::Short).unwrap());
    }
}

#[test]
fn the_extent_of_a_killed_allocator_is_free_when_no_block_is_used() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("home");
    let vm = fixture.vm("home");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(8 << 20)).unwrap();
    let id = area.id();
    let mut allocators = Vec::new();
    for slot in 2..6 {
        allocators.push(AreaProcess::start(&fixture, &vm, slot, &["churn", &id.to_string()]));
    }
    for allocator in &mut allocators {
        assert_ne!(allocator.line(), "");
    }
    let extents = |fixture: &NodeFixture| fixture.node().areas(vm.id()).unwrap()[0].extent_bytes;
    assert!(extents(&fixture) > 0);
    drop(allocators);
    for slot in 2..6 {
        me.wait_unbind(Address(slot), Timeout::Never).unwrap();
    }
    // This endpoint never took what they sent, so no member holds a block of them.
    assert_eq!(extents(&fixture), 0);
    assert!(me.allocate(&area, 7 << 20, BlockLifetime::Short).is_ok());
}

#[test]
fn members_go_on_without_their_daemon_and_with_the_next() {
    let _turn = area_turn();
    let mut fixture = NodeFixture::new("takeover");
    let vm = fixture.vm("takeover");
    let mut me = vm.bind(1).unwrap();
    let mut sum = AreaProcess::start(&fixture, &vm, 2, &["sum"]);
    let area = me.create_area(&AreaConfig::vm(8 << 20)).unwrap();
    assert_eq!(AreaProcess::ask(&mut me, Address(2), &area, 1000).long(0), 1000);
    fixture.kill_daemon();
    assert_eq!(AreaProcess::ask(&mut me, Address(2), &area, 1000).long(0), 1000);
    fixture.restart_daemon();
    // More room, from the next daemon.
    assert_eq!(AreaProcess::ask(&mut me, Address(2), &area, 6 << 20).long(0), 6 << 20);
    let block = me.allocate(&area, 1 << 20, BlockLifetime::Short).unwrap();
    drop(block);
    sum.kill();
    me.wait_unbind(Address(2), Timeout::Never).unwrap();
    assert!(me.allocate(&area, 7 << 20, BlockLifetime::Long).is_ok());
    let _late = AreaProcess::start(&fixture, &vm, 3, &["sum"]);
    let block = me.allocate(&area, 10, BlockLifetime::Short).unwrap();
    let answer = me.sendrec_block(Address(3), &Message::new(1), block, Timeout::Never).unwrap();
    assert_eq!(answer.m_type, Code::Orphaned.number(), "no newcomer in an area of a killed daemon");
    // A new area works with each member.
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    assert_eq!(AreaProcess::ask(&mut me, Address(3), &area, 1000).long(0), 1000);
}

#[test]
fn random_use_and_random_kills_leave_no_block_with_two_holders() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("churn");
    let vm = fixture.vm("churn");
    let mut me = vm.bind(20).unwrap();
    let area = me.create_area(&AreaConfig::vm(32 << 20)).unwrap();
    let id = area.id().to_string();
    let start = |slot: i32| AreaProcess::start(&fixture, &vm, slot, &["churn", &id]);
    let mut members: Vec<AreaProcess> = (1..=6).map(start).collect();
    for round in 0..40_usize {
        let slot = round % 6;
        for member in &mut members {
            let line = member.line();
            assert!(line.parse::<u64>().is_ok(), "{line}");
        }
        members[slot].kill();
        let address = Address(i32::try_from(slot).unwrap() + 1);
        me.wait_unbind(address, Timeout::Never).unwrap();
        members[slot] = start(address.0);
    }
    drop(members);
    for slot in 1..=6 {
        me.wait_unbind(Address(slot), Timeout::Never).unwrap();
    }
    assert_eq!(fixture.node().areas(vm.id()).unwrap()[0].extent_bytes, 0, "something is lost");
}

#[test]
fn extents_of_the_dead_come_back_after_a_takeover() {
    let _turn = area_turn();
    let mut fixture = NodeFixture::new("deserted");
    let vm = fixture.vm("deserted");
    let mut me = vm.bind(1).unwrap();
    let _sum = AreaProcess::start(&fixture, &vm, 3, &["sum"]);
    let area = me.create_area(&AreaConfig::vm(4 << 20)).unwrap();
    assert_eq!(AreaProcess::ask(&mut me, Address(3), &area, 1000).long(0), 1000);
    let mut allocator = AreaProcess::start(&fixture, &vm, 2, &["give", &area.id().to_string()]);
    me.sendrec(Address(2), &Message::new(1)).unwrap();
    let block = me.take_block().unwrap().unwrap();
    fixture.kill_daemon();
    allocator.kill();
    fixture.restart_daemon();
    me.wait_unbind(Address(2), Timeout::Never).unwrap();
    // Its allocator is dead, the block is in use: its room is not free.
    let full = me.allocate(&area, 5 << 19, BlockLifetime::Short).unwrap_err();
    assert_eq!(full.code(), Code::AllocMem);
    assert!(block.iter().all(|byte| byte == 3));
    drop(block);
    until("the room of the dead is given out again", || {
        me.allocate(&area, 5 << 19, BlockLifetime::Short).is_ok()
    });
    assert_eq!(AreaProcess::ask(&mut me, Address(3), &area, 1000).long(0), 1000);
}
