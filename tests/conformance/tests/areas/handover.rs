//! Blocks and large payloads that pass from one member to another.

use m3ipc::{
    Address, AreaConfig, BlockLifetime, Code, Delivery, Message, SendRecError, Source, Timeout,
};
use m3ipc_test_fixture::{AreaProcess, NodeFixture, area_turn, signals, until};

#[test]
fn a_block_passes_three_processes_in_place() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("pipeline");
    let vm = fixture.vm("pipeline");
    let mut me = vm.bind(1).unwrap();
    let _three = AreaProcess::start(&fixture, &vm, 4, &["pass", "1"]);
    let _two = AreaProcess::start(&fixture, &vm, 3, &["pass", "4"]);
    let _one = AreaProcess::start(&fixture, &vm, 2, &["pass", "3"]);
    let area = me.create_area(&AreaConfig::vm(64 << 20)).unwrap();
    for bytes in [64_u64, 4096, 100_000, 16 << 20] {
        let mut block = me.allocate(&area, bytes, BlockLifetime::Short).unwrap();
        block.fill(7).unwrap();
        let (address, number) = (block.address(), block.number());
        me.send_block(Address(2), &Message::new(1), block, Timeout::Never).unwrap();
        let back = me.receive(Source::From(Address(4))).unwrap();
        let block = me.take_block().unwrap().unwrap();
        assert_eq!((back.source, block.address(), block.number()), (Address(4), address, number));
        assert_eq!(block.len() as u64, bytes);
        assert!(block.iter().step_by(64).all(|byte| byte == 10), "each of the three adds one");
        assert!(block.iter().enumerate().all(|(at, byte)| at % 64 == 0 || byte == 7));
    }
    drop(me);
}

#[test]
fn what_the_receiver_drops_is_room_again() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("room");
    let vm = fixture.vm("room");
    let mut me = vm.bind(1).unwrap();
    let _sum = AreaProcess::start(&fixture, &vm, 2, &["sum"]);
    let area = me.create_area(&AreaConfig::pair(1 << 20, Address(2))).unwrap();
    for _ in 0..1000 {
        assert_eq!(AreaProcess::ask(&mut me, Address(2), &area, 300_000).long(0), 300_000);
    }
    assert_eq!(
        me.allocate(&area, 2 << 20, BlockLifetime::Short).unwrap_err().code(),
        Code::AllocMem
    );
}

#[test]
fn pointers_are_valid_everywhere() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("pointers");
    let vm = fixture.vm("pointers");
    let mut me = vm.bind(1).unwrap();
    let _walk = AreaProcess::start(&fixture, &vm, 2, &["walk"]);
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    let mut block = me.allocate(&area, 8192, BlockLifetime::Long).unwrap().cast::<u64>().unwrap();
    let base = block.address();
    // A list through the block in an order of its own, by plain addresses.
    let places: Vec<u64> = (0..500).map(|at| (at * 7 % 500) * 2).collect();
    for (pair, value) in places.windows(2).zip(1..) {
        let node = [base + 8 * pair[1], value];
        block.write_at(usize::try_from(pair[0]).unwrap(), &node).unwrap();
    }
    let last = usize::try_from(places[499]).unwrap();
    block.write_at(last, &[0, 500]).unwrap();
    let mut request = Message::new(1);
    request.set_long(0, (base + 8 * places[0]).cast_signed());
    let answer = me.sendrec_block(Address(2), &request, block, Timeout::Never).unwrap();
    assert_eq!(answer.long(0), 500 * 501 / 2);
}

#[test]
fn large_payloads_travel_by_themselves() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("large");
    let vm = fixture.vm("large");
    let mut me = vm.bind(1).unwrap();
    let _echo = AreaProcess::start(&fixture, &vm, 2, &["echo"]);
    let mut room = vec![0; 40 << 20];
    me.set_receive_limit(room.len());
    for bytes in [0_usize, 1792, 1793, 4096, 1 << 20, 40 << 20, 5000] {
        let sent: Vec<u8> = (0..bytes).map(|at| u8::try_from(at * 31 % 251).unwrap_or(0)).collect();
        let message = Message::new(9);
        let (_, got) =
            me.sendrec_long(Address(2), &message, &sent, &mut room, Timeout::Never).unwrap();
        assert_eq!(got, bytes);
        assert!(room[..got] == sent[..], "{bytes} bytes came back changed");
    }
    // Too little room: the full length is told, and nothing is left over.
    let sent = vec![3; 100_000];
    for _ in 0..2000 {
        let cut = me.sendrec_long(Address(2), &Message::new(9), &sent, &mut room[..10], None);
        let Err(SendRecError::BufferTooSmall { needed_bytes, .. }) = cut else {
            panic!("10 bytes are too little: {cut:?}");
        };
        assert_eq!((needed_bytes, room[9]), (100_000, 3));
    }
}

/// A call that ends after its request was taken leaves the block to the server.
#[test]
fn a_server_hands_on_a_block_whose_client_gave_up() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("gave_up");
    let vm = fixture.vm("gave_up");
    let mut me = vm.bind(1).unwrap();
    let _sum = AreaProcess::start(&fixture, &vm, 3, &["sum"]);
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    let (id, vm) = (area.id(), vm.clone());
    let server = std::thread::spawn(move || {
        let mut server = vm.bind_thread(Some(2)).unwrap();
        server.attach_area(id).unwrap();
        let request = server.receive(Source::From(Address(1))).unwrap();
        let block = server.take_block().unwrap().unwrap();
        // The client tells that it has given up.
        assert!(server.receive(Source::Any).unwrap().is_notification());
        assert!(!server.reply(request.source, &Message::new(2)).unwrap().is_yes());
        let on = server.sendrec_block(Address(3), &Message::new(1), block, Timeout::Never);
        on.unwrap().long(0)
    });
    me.wait_bind(Address(2), Timeout::Never).unwrap();
    let mut block = me.allocate(&area, 1000, BlockLifetime::Short).unwrap();
    block.fill(1).unwrap();
    let mut here = Some(block);
    while let Some(block) = here {
        let short = Timeout::from_ms(100);
        let unsent = me.sendrec_block(Address(2), &Message::new(1), block, short).unwrap_err();
        assert_eq!(unsent.error.code(), Code::TimedOut);
        // It stays here until the server has taken the request.
        here = unsent.block;
    }
    me.notify(Address(2)).unwrap();
    assert_eq!(server.join().unwrap(), 1000);
}

/// The same for a request with a block that served as the answer to a request of its server.
#[test]
fn a_client_hands_on_a_block_that_came_as_an_answer_of_a_server_that_gave_up() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("answered");
    let vm = fixture.vm("answered");
    let mut me = vm.bind(1).unwrap();
    let _sum = AreaProcess::start(&fixture, &vm, 3, &["sum"]);
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    let (id, vm) = (area.id(), vm.clone());
    let client = std::thread::spawn(move || {
        let mut client = vm.bind_thread(Some(2)).unwrap();
        client.attach_area(id).unwrap();
        let answer = client.sendrec(Address(1), &Message::new(7)).unwrap();
        assert_eq!(answer.m_type, 1);
        let block = client.take_block().unwrap().unwrap();
        // The server tells that it has given up.
        assert!(client.receive(Source::Any).unwrap().is_notification());
        let on = client.sendrec_block(Address(3), &Message::new(1), block, Timeout::Never);
        on.unwrap().long(0)
    });
    me.wait_bind(Address(2), Timeout::Never).unwrap();
    assert_eq!(me.receive(Source::From(Address(2))).unwrap().m_type, 7);
    let mut block = me.allocate(&area, 1000, BlockLifetime::Short).unwrap();
    block.fill(1).unwrap();
    let mut here = Some(block);
    while let Some(block) = here {
        let short = Timeout::from_ms(100);
        let unsent = me.sendrec_block(Address(2), &Message::new(1), block, short).unwrap_err();
        assert_eq!(unsent.error.code(), Code::TimedOut);
        // It stays here until the client has taken the answer.
        assert_eq!(unsent.block.is_none(), unsent.error.delivery() == Delivery::Taken);
        here = unsent.block;
    }
    me.notify(Address(2)).unwrap();
    assert_eq!(client.join().unwrap(), 1000);
}

/// The receiver joins the area of the block only by the daemon.
#[test]
fn a_receive_that_accepts_no_block_in_time_leaves_the_message_to_the_next_one() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("late");
    let vm = fixture.vm("late");
    let mut me = vm.bind(1).unwrap();
    let mut server = vm.bind_additional(Some(2)).unwrap();
    let (from, to) = (me.address(), server.address());
    me.notify(to).unwrap();
    assert!(server.receive(Source::Any).unwrap().is_notification());
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    let sending = std::thread::spawn(move || {
        let mut block = me.allocate(&area, 1000, BlockLifetime::Short).unwrap();
        block.fill(5).unwrap();
        me.send_block(to, &Message::new(1), block, Timeout::Never).unwrap();
        me
    });
    let mut node = fixture.node();
    let mut sender = || node.endpoint(vm.id(), from.slot()).unwrap().unwrap();
    until("the sender waits", || sender().wait.state.waits());
    signals::stop(fixture.daemon_pid());
    let early = [Timeout::NoWait, Timeout::from_ms(5)]
        .map(|limit| server.receive_timeout(Source::Any, limit).map_err(|error| error.code()));
    signals::resume(fixture.daemon_pid());
    assert_eq!(early, [Err(Code::Again), Err(Code::TimedOut)]);
    assert_eq!(server.receive(Source::Any).unwrap().m_type, 1);
    assert_eq!(server.take_block().unwrap().unwrap().to_vec(), [5; 1000]);
    sending.join().unwrap();
}

#[test]
fn a_message_that_is_not_taken_leaves_the_block_here() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("withdrawn");
    let vm = fixture.vm("withdrawn");
    let mut me = vm.bind(1).unwrap();
    let hold = AreaProcess::start(&fixture, &vm, 2, &["hold"]);
    let area = me.create_area(&AreaConfig::pair(1 << 20, Address(2))).unwrap();
    hold.signal(m3ipc_sys::Signal::STOP);
    let mut block = me.allocate(&area, 1000, BlockLifetime::Short).unwrap();
    block.fill(5).unwrap();
    let number = block.number();
    let unsent =
        me.send_block(Address(2), &Message::new(1), block, Timeout::from_ms(20)).unwrap_err();
    assert_eq!(unsent.error.code(), Code::TimedOut);
    let mut block = unsent.block.unwrap();
    assert_eq!((block.number(), block.get(999)), (number, Some(5)));
    block.set(0, 6).unwrap();
    let gone = me.send_block(Address(3), &Message::new(1), block, Timeout::Never).unwrap_err();
    assert!(gone.block.is_some());
}

/// Bytes of addresses that a process has in memory of areas and of ledgers.
fn mapped_bytes(pid: i32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let ours = maps
        .lines()
        .filter(|line| line.contains("/memfd:m3-area") || line.contains("/memfd:m3-ledger"));
    ours.map(|line| {
        let (start, rest) = line.split_once('-').expect("a range");
        let end = rest.split(' ').next().expect("an end");
        let number = |text| u64::from_str_radix(text, 16).expect("an address");
        number(end) - number(start)
    })
    .sum()
}

#[test]
fn a_payload_takes_addresses_for_itself_and_not_for_the_limit_of_its_area() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("need");
    let vm = fixture.vm("need");
    let mut me = vm.bind(1).unwrap();
    let own = std::process::id().cast_signed();
    let before = mapped_bytes(own);
    let echo = AreaProcess::start(&fixture, &vm, 2, &["echo"]);
    let mut room = vec![0; 20 << 20];
    me.set_receive_limit(room.len());
    for (bytes, most) in [(10_000, 4 << 20), (20 << 20, 48 << 20)] {
        let payload = vec![7; bytes];
        let message = Message::new(1);
        let got = me.sendrec_long(Address(2), &message, &payload, &mut room, Timeout::Never);
        assert_eq!(got.unwrap().1, bytes);
        for process in [mapped_bytes(own) - before, mapped_bytes(echo.pid())] {
            assert!(process <= most, "{bytes} bytes of payload take {process} bytes of addresses");
        }
    }
    // An area of the program is there as a whole, since programs follow addresses in it.
    let area = me.create_area(&AreaConfig::vm(32 << 20)).unwrap();
    assert!(mapped_bytes(own) - before >= 32 << 20 && area.limit_bytes() == 32 << 20);
}

#[test]
fn areas_find_a_place_where_a_tool_has_taken_their_range() {
    const RANGES: (u64, usize) = (0x2000_0000_0000, 32 << 40);
    let _turn = area_turn();
    let fixture = NodeFixture::new("tool");
    let vm = fixture.vm("tool");
    let mut me = vm.bind(1).unwrap();
    let mut room = vec![0; 100_000];
    // ThreadSanitizer and valgrind take the addresses of all ordinary areas.
    let memory = m3ipc_sys::create_sparse("m3-tool", RANGES.1 as u64, false).unwrap();
    let tool = m3ipc_sys::FixedMapping::new(&memory, RANGES.0, RANGES.1, false).unwrap();
    // A peer without the tool is refused first, and then knows.
    let mut tell = AreaProcess::start(&fixture, &vm, 2, &["tell", "1"]);
    let told = me.receive_long(Source::From(Address(2)), &mut room, Timeout::Never).unwrap();
    assert_eq!((told.bytes, tell.line().as_str()), (100_000, "Ok(())"));
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    assert!(area.base() < 1 << 39, "{:#x}", area.base());
    let _sum = AreaProcess::start(&fixture, &vm, 3, &["sum"]);
    assert_eq!(AreaProcess::ask(&mut me, Address(3), &area, 1000).long(0), 1000);
    // Where no range is free, the error names the occupant.
    let low = m3ipc_sys::create_sparse("m3-other-tool", 448 << 30, false).unwrap();
    drop(area);
    me.try_receive(Source::Any).expect_err("nothing is there");
    let both = m3ipc_sys::FixedMapping::new(&low, 64 << 30, 448 << 30, false);
    if both.is_ok() {
        let error = me.create_area(&AreaConfig::vm(1 << 20)).unwrap_err();
        assert_eq!(error.code(), Code::RscBusy);
        assert!(error.to_string().contains("/memfd:m3-"), "{error}");
    }
    drop(tool);
}
