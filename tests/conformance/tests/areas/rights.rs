//! Shared blocks, the audience of an area, seals, and the limits of an area.

use m3ipc::{Address, AreaConfig, BlockLifetime, Code, Hold, Message, Source, Timeout};
use m3ipc_test_fixture::{AreaProcess, NodeFixture, area_turn};

#[test]
fn a_shared_block_is_read_by_all_and_comes_back() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("shared");
    let vm = fixture.vm("shared");
    let mut me = vm.bind(1).unwrap();
    let readers: Vec<AreaProcess> =
        (2..5).map(|slot| AreaProcess::start(&fixture, &vm, slot, &["sum"])).collect();
    let config = AreaConfig::set(1 << 20, &[Address(2), Address(3), Address(4)]).owner_writes();
    let area = me.create_area(&config).unwrap();
    for round in 1..50_u8 {
        let mut block = me.allocate(&area, 1000, BlockLifetime::Short).unwrap();
        block.fill(round).unwrap();
        for slot in 2..5 {
            me.share_block(Address(slot), &Message::new(1), &mut block, Timeout::Never).unwrap();
        }
        assert_eq!(block.fill(0).unwrap_err().code(), Code::Perm);
        while !me.reclaim_block(&mut block) {
            std::thread::yield_now();
        }
        assert_eq!(block.readers_left(), 0);
        block.set(0, 0).unwrap();
    }
    drop(readers);
}

#[test]
fn a_second_share_that_fails_leaves_the_first_one() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("twice");
    let vm = fixture.vm("twice");
    let mut me = vm.bind(1).unwrap();
    let mut reader = vm.bind_additional(Some(2)).unwrap();
    let other = vm.bind_additional(Some(3)).unwrap();
    let (to, message) = (reader.address(), Message::new(1));
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    let mut block = me.allocate(&area, 1000, BlockLifetime::Short).unwrap();
    let read = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            reader.receive(Source::Any).unwrap();
            reader.take_block().unwrap().unwrap()
        });
        me.share_block(to, &message, &mut block, Timeout::Never).unwrap();
        reading.join().unwrap()
    });
    let busy = me.share_block(to, &message, &mut block, Timeout::NoWait).unwrap_err();
    assert_eq!((busy.code(), block.readers_left()), (Code::Again, 1));
    let unsent = me.send_block(other.address(), &message, block, Timeout::NoWait).unwrap_err();
    assert_eq!(unsent.error.code(), Code::Busy);
    let mut block = unsent.block.unwrap();
    drop(read);
    assert!(me.reclaim_block(&mut block));
}

#[test]
fn the_giver_can_lose_the_memory_and_get_it_back() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("taken");
    let vm = fixture.vm("taken");
    let mut me = vm.bind(1).unwrap();
    let _echo = AreaProcess::start(&fixture, &vm, 2, &["pass", "1"]);
    let area = me.create_area(&AreaConfig::pair(4 << 20, Address(2))).unwrap();
    let mut block = me.allocate_pages(&area, 10_000, BlockLifetime::Short).unwrap();
    block.fill(1).unwrap();
    let address = block.address();
    me.send_block_as(Address(2), &Message::new(1), block, Hold::Taken, Timeout::Never).unwrap();
    // The kernel refuses even to read it for this process.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.starts_with(&format!("{address:x}-"))).unwrap();
    assert!(line.contains("---s"), "{line}");
    me.receive(Source::From(Address(2))).unwrap();
    let mut block = me.take_block().unwrap().unwrap();
    assert_eq!(block.get(0), Some(2));
    block.set(0, 3).unwrap();
    let odd = me.allocate(&area, 100, BlockLifetime::Short).unwrap();
    let unsent = me
        .send_block_as(Address(2), &Message::new(1), odd, Hold::Taken, Timeout::Never)
        .unwrap_err();
    assert_eq!(unsent.error.code(), Code::Align);
}

#[test]
fn only_the_audience_attaches() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("audience");
    let vm = fixture.vm("audience");
    let mut me = vm.bind(1).unwrap();
    let _sum = AreaProcess::start(&fixture, &vm, 2, &["sum"]);
    let _other = AreaProcess::start(&fixture, &vm, 3, &["sum"]);
    let area = me.create_area(&AreaConfig::pair(1 << 20, Address(2))).unwrap();
    assert_eq!(AreaProcess::ask(&mut me, Address(2), &area, 10).long(0), 10);
    let block = me.allocate(&area, 10, BlockLifetime::Short).unwrap();
    let unsent = me.sendrec_block(Address(3), &Message::new(1), block, Timeout::Never).unwrap_err();
    assert_eq!(unsent.error.code(), Code::Privileges);
    assert!(unsent.block.is_some());
    assert_eq!(me.attach_area(99).unwrap_err().code(), Code::NoNode);
}

#[test]
fn a_member_that_left_comes_back_while_another_holds_a_block() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("back");
    let vm = fixture.vm("back");
    let mut me = vm.bind(1).unwrap();
    let _sum = AreaProcess::start(&fixture, &vm, 2, &["sum"]);
    let mut holder = AreaProcess::start(&fixture, &vm, 3, &["hold"]);
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    let block = me.allocate(&area, 10, BlockLifetime::Short).unwrap();
    me.send_block(Address(3), &Message::new(1), block, Timeout::Never).unwrap();
    holder.line();
    me.detach_area(&area).unwrap();
    let id = area.id();
    drop(area);
    let again = me.attach_area(id).unwrap();
    let answer = AreaProcess::ask(&mut me, Address(2), &again, 10);
    assert_eq!((answer.m_type, answer.long(0)), (0, 10));
}

#[test]
fn a_seal_is_refused_while_the_other_can_write_and_kept_afterwards() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("seal");
    let vm = fixture.vm("seal");
    let mut me = vm.bind(1).unwrap();
    let mut other = AreaProcess::start(&fixture, &vm, 2, &["hold"]);
    let area = me.create_area(&AreaConfig::pair(1 << 20, Address(2))).unwrap();
    let block = me.allocate(&area, 4096, BlockLifetime::Short).unwrap();
    me.send_block(Address(2), &Message::new(1), block, Timeout::Never).unwrap();
    other.line();
    area.renounce_writing().unwrap();
    // The other has a writable mapping, whatever it says: the receiver's demand is refused.
    assert_eq!(area.seal().unwrap_err().code(), Code::Busy);
    assert!(!area.is_sealed());
    other.kill();
    me.wait_unbind(Address(2), Timeout::Never).unwrap();
    area.seal().unwrap();
    assert!(area.is_sealed());
    // In an area of many nobody can demand it.
    let open = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    open.renounce_writing().unwrap();
    assert_eq!(open.seal().unwrap_err().code(), Code::Perm);
}

#[test]
fn a_full_area_and_missing_huge_pages_are_errors() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("full");
    let vm = fixture.vm("full");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(4 << 20)).unwrap();
    let mut blocks = Vec::new();
    let full = loop {
        match me.allocate(
            &area,
            100_000,
            if blocks.len() % 2 == 0 { BlockLifetime::Short } else { BlockLifetime::Long },
        ) {
            Ok(mut block) => {
                block.fill(1).unwrap();
                blocks.push(block);
            }
            Err(error) => break error,
        }
    };
    assert_eq!(full.code(), Code::AllocMem, "{full}");
    assert!(blocks.len() >= 30, "{} blocks of 100,000 bytes in 4 MiB", blocks.len());
    blocks.pop();
    assert!(
        me.allocate(&area, 50_000, BlockLifetime::Short).is_ok(),
        "room that came free is room"
    );
    // Huge pages of a pool that may be empty: blocks, or an error that says why.
    let huge = me.create_area(&AreaConfig::vm(4 << 20).pages(m3ipc::Pages::Huge));
    match huge.and_then(|area| me.allocate(&area, 1 << 20, BlockLifetime::Short)) {
        Ok(mut block) => block.fill(1).unwrap(),
        Err(error) => {
            assert!([Code::NoMem, Code::NoSys].contains(&error.code()), "{error}");
            assert!(error.why().contains("no memory for"), "{error}");
        }
    }
    let transparent = AreaConfig::vm(4 << 20).pages(m3ipc::Pages::Transparent).prefault();
    let area = me.create_area(&transparent).unwrap();
    me.allocate_pages(&area, 3 << 20, BlockLifetime::Long).unwrap().fill(2).unwrap();
}
