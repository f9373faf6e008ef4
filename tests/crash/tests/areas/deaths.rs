//! Members and daemons that die while blocks are allocated, held and given.

use m3ipc::{Address, AreaConfig, BlockLifetime, Code, Message, Source, Timeout};
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
fn the_area_of_a_dead_owner_ends_with_its_last_block_out() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("ownerless");
    let vm = fixture.vm("ownerless");
    let mut me = vm.bind(1).unwrap();
    let _sum = AreaProcess::start(&fixture, &vm, 3, &["sum"]);
    let areas = |fixture: &NodeFixture| fixture.node().areas(vm.id()).unwrap();
    for _ in 0..3 {
        let mut owner = AreaProcess::start(&fixture, &vm, 2, &["own"]);
        me.sendrec(Address(2), &Message::new(1)).unwrap();
        let block = me.take_block().unwrap().unwrap();
        let area = me.attached(block.area()).unwrap();
        // As a program in C has it, which has no handle.
        area.keep();
        // Each living member has been in the area, and this one has room of its own there.
        assert_eq!(AreaProcess::ask(&mut me, Address(3), &area, 1000).long(0), 1000);
        drop(area);
        owner.kill();
        me.wait_unbind(Address(2), Timeout::Never).unwrap();
        for _ in 0..3 {
            me.try_receive(Source::Any).expect_err("nobody sends");
        }
        assert_eq!(areas(&fixture).len(), 1, "a block of it is out");
        assert!(block.iter().all(|byte| byte == 0));
        drop(block);
        until("the area ends", || {
            me.try_receive(Source::Any).expect_err("nobody sends");
            areas(&fixture).is_empty()
        });
    }
}

#[test]
fn a_payload_reaches_a_peer_that_cannot_join_the_area_of_a_killed_daemon() {
    let _turn = area_turn();
    let mut fixture = NodeFixture::new("older");
    let vm = fixture.vm("older");
    let mut server = vm.bind(1).unwrap();
    let mut client = vm.bind_additional(Some(2)).unwrap();
    let payload = vec![7; 100_000];
    // The client does not take this one, and so never joins the area for it.
    let soon = Timeout::After(std::time::Duration::from_millis(1));
    let unsent = server.send_long(Address(2), &Message::new(1), &payload, soon).unwrap_err();
    assert_eq!(unsent.code(), Code::TimedOut);
    fixture.kill_daemon();
    fixture.restart_daemon();
    let thread = std::thread::spawn(move || {
        let request = server.receive(Source::Any).unwrap();
        server.reply_long(request.source, &Message::new(2), &payload).unwrap();
        server
    });
    let mut room = vec![0; 100_000];
    let message = Message::new(3);
    let answer = client.sendrec_long(Address(1), &message, &[], &mut room, Timeout::Never).unwrap();
    assert_eq!((answer.1, room[99_999]), (100_000, 7));
    thread.join().unwrap();
}

#[test]
fn payloads_and_blocks_go_on_after_a_kill_of_the_daemon_with_either_party() {
    let _turn = area_turn();
    let mut fixture = NodeFixture::new("both");
    let vm = fixture.vm("both");
    let mut me = vm.bind(1).unwrap();
    let (payload, mut room) = (vec![9; 300_000], vec![0; 300_000]);
    // The address of a system slot stays the same for each process that has it.
    for _ in 0..4 {
        let mut echo = AreaProcess::start(&fixture, &vm, 2, &["echo"]);
        for _ in 0..3 {
            room.fill(0);
            let to = (Address(2), Message::new(1));
            let got = me.sendrec_long(to.0, &to.1, &payload, &mut room, Timeout::Never).unwrap();
            assert!(got.1 == payload.len() && room == payload);
        }
        let area = me.create_area(&AreaConfig::pair(1 << 20, Address(2))).unwrap();
        let block = me.allocate(&area, 100_000, BlockLifetime::Short).unwrap();
        me.sendrec_block(Address(2), &Message::new(1), block, Timeout::Never).unwrap();
        assert_eq!(me.take_block().unwrap().unwrap().len(), 100_000);
        fixture.kill_daemon();
        echo.kill();
        fixture.restart_daemon();
        me.wait_unbind(Address(2), Timeout::Never).unwrap();
    }
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
