//! Areas between processes: hand-over, sharing, large payloads, deaths.

mod steps;

use m3ipc::{
    Address, AreaConfig, BlockLifetime, Code, Endpoint, Hold, Message, Source, Timeout, Vm,
};
use m3ipc_conformance::{Field, program, watchdog};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// A process is in one VM at a time, and its areas lie where they lie: one test after the other.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    static ALL: Once = Once::new();
    ALL.call_once(|| watchdog(280));
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A member in a process of its own; killed when it is dropped.
struct Member {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Member {
    fn start(field: &Field, vm: &Vm, slot: i32, role: &[&str]) -> Self {
        Self::start_paused(field, vm, slot, role, "")
    }

    /// One that stops itself at this point.
    fn start_paused(field: &Field, vm: &Vm, slot: i32, role: &[&str], point: &str) -> Self {
        let mut command = Command::new(program("m3-tests-area"));
        command.env("M3_PAUSE", point);
        command.arg(field.directory()).arg(vm.name()).arg(slot.to_string()).args(role);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut member = Self { child, output };
        assert_eq!(member.hear(), "ready");
        member
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("lines");
        line.trim().to_owned()
    }

    /// Until it has stopped itself.
    fn until_paused(&self) {
        until("it stops itself", || self.is_paused());
    }

    fn is_paused(&self) -> bool {
        let text =
            std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    fn go_on(&self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).expect("a number");
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("it lives");
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for what comes about by itself.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    panic!("waited in vain: {what}");
}

fn asked(me: &mut Endpoint, of: Address, area: &m3ipc::Area, bytes: u64) -> Message {
    let mut block = me.allocate(area, bytes, BlockLifetime::Short).expect("room");
    block.fill(1).expect("its own");
    me.sendrec_block(of, &Message::new(1), block, Timeout::Never).expect("an answer")
}

#[test]
fn a_block_passes_three_processes_in_place() {
    let _alone = alone();
    let field = Field::new("pipeline");
    let vm = field.vm("pipeline");
    let mut me = vm.bind(1).unwrap();
    let _three = Member::start(&field, &vm, 4, &["pass", "1"]);
    let _two = Member::start(&field, &vm, 3, &["pass", "4"]);
    let _one = Member::start(&field, &vm, 2, &["pass", "3"]);
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
    let _alone = alone();
    let field = Field::new("room");
    let vm = field.vm("room");
    let mut me = vm.bind(1).unwrap();
    let _sum = Member::start(&field, &vm, 2, &["sum"]);
    let area = me.create_area(&AreaConfig::pair(1 << 20, Address(2))).unwrap();
    for _ in 0..5000 {
        assert_eq!(asked(&mut me, Address(2), &area, 300_000).long(0), 300_000);
    }
    assert_eq!(
        me.allocate(&area, 2 << 20, BlockLifetime::Short).unwrap_err().code(),
        Code::AllocMem
    );
}

#[test]
fn pointers_are_valid_everywhere() {
    let _alone = alone();
    let field = Field::new("pointers");
    let vm = field.vm("pointers");
    let mut me = vm.bind(1).unwrap();
    let _walk = Member::start(&field, &vm, 2, &["walk"]);
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
    let _alone = alone();
    let field = Field::new("large");
    let vm = field.vm("large");
    let mut me = vm.bind(1).unwrap();
    let _echo = Member::start(&field, &vm, 2, &["echo"]);
    let mut room = vec![0; 40 << 20];
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
        let (_, got) = me
            .sendrec_long(Address(2), &Message::new(9), &sent, &mut room[..10], Timeout::Never)
            .unwrap();
        assert_eq!((got, room[9]), (100_000, 3));
    }
}

#[test]
fn a_message_that_is_not_taken_leaves_the_block_here() {
    let _alone = alone();
    let field = Field::new("withdrawn");
    let vm = field.vm("withdrawn");
    let mut me = vm.bind(1).unwrap();
    let hold = Member::start(&field, &vm, 2, &["hold"]);
    let area = me.create_area(&AreaConfig::pair(1 << 20, Address(2))).unwrap();
    m3ipc_sys::signal(
        m3ipc_sys::open_process(hold.child.id().cast_signed()).unwrap(),
        m3ipc_sys::Signal::STOP,
    )
    .unwrap();
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

#[test]
fn the_blocks_of_a_killed_holder_come_home() {
    let _alone = alone();
    let field = Field::new("killed");
    let vm = field.vm("killed");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    for _ in 0..20 {
        let mut hold = Member::start(&field, &vm, 2, &["hold"]);
        for _ in 0..3 {
            let block = me.allocate(&area, 200_000, BlockLifetime::Short).unwrap();
            let number = block.number();
            me.send_block(Address(2), &Message::new(1), block, Timeout::Never).unwrap();
            assert_eq!(hold.hear(), number.to_string());
        }
        hold.kill();
        me.wait_unbind(Address(2), Timeout::Never).unwrap();
    }
    // All of them are room again.
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(me.allocate(&area, 200_000, BlockLifetime::Short).unwrap());
    }
}

#[test]
fn a_killed_home_leaves_its_extent_when_nobody_uses_it() {
    let _alone = alone();
    let field = Field::new("home");
    let vm = field.vm("home");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(8 << 20)).unwrap();
    let id = area.id();
    let mut homes = Vec::new();
    for slot in 2..6 {
        homes.push(Member::start(&field, &vm, slot, &["churn", &id.to_string()]));
    }
    for home in &mut homes {
        assert_ne!(home.hear(), "");
    }
    let extents = |field: &Field| field.node().areas(vm.id()).unwrap()[0].extent_bytes;
    assert!(extents(&field) > 0);
    drop(homes);
    for slot in 2..6 {
        me.wait_unbind(Address(slot), Timeout::Never).unwrap();
    }
    // What those had sent to this endpoint was never taken: nobody has anything of them.
    assert_eq!(extents(&field), 0);
    assert!(me.allocate(&area, 7 << 20, BlockLifetime::Short).is_ok());
}

#[test]
fn a_shared_block_is_read_by_all_and_comes_back() {
    let _alone = alone();
    let field = Field::new("shared");
    let vm = field.vm("shared");
    let mut me = vm.bind(1).unwrap();
    let readers: Vec<Member> =
        (2..5).map(|slot| Member::start(&field, &vm, slot, &["sum"])).collect();
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
fn the_giver_can_lose_the_memory_and_get_it_back() {
    let _alone = alone();
    let field = Field::new("taken");
    let vm = field.vm("taken");
    let mut me = vm.bind(1).unwrap();
    let _echo = Member::start(&field, &vm, 2, &["pass", "1"]);
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
    let _alone = alone();
    let field = Field::new("audience");
    let vm = field.vm("audience");
    let mut me = vm.bind(1).unwrap();
    let _sum = Member::start(&field, &vm, 2, &["sum"]);
    let _other = Member::start(&field, &vm, 3, &["sum"]);
    let area = me.create_area(&AreaConfig::pair(1 << 20, Address(2))).unwrap();
    assert_eq!(asked(&mut me, Address(2), &area, 10).long(0), 10);
    let block = me.allocate(&area, 10, BlockLifetime::Short).unwrap();
    let unsent = me.sendrec_block(Address(3), &Message::new(1), block, Timeout::Never).unwrap_err();
    assert_eq!(unsent.error.code(), Code::Privileges);
    assert!(unsent.block.is_some());
    assert_eq!(me.attach_area(99).unwrap_err().code(), Code::NoNode);
    me.detach_area(&area).unwrap();
    let id = area.id();
    drop(area);
    let again = me.attach_area(id).unwrap();
    assert_eq!(
        asked(&mut me, Address(2), &again, 10).long(0),
        10,
        "who comes back is another member"
    );
}

#[test]
fn members_go_on_without_their_daemon_and_with_the_next() {
    let _alone = alone();
    let mut field = Field::new("takeover");
    let vm = field.vm("takeover");
    let mut me = vm.bind(1).unwrap();
    let mut sum = Member::start(&field, &vm, 2, &["sum"]);
    let area = me.create_area(&AreaConfig::vm(8 << 20)).unwrap();
    assert_eq!(asked(&mut me, Address(2), &area, 1000).long(0), 1000);
    field.kill_daemon();
    assert_eq!(asked(&mut me, Address(2), &area, 1000).long(0), 1000);
    field.restart_daemon();
    // More room, from the next daemon.
    assert_eq!(asked(&mut me, Address(2), &area, 6 << 20).long(0), 6 << 20);
    let block = me.allocate(&area, 1 << 20, BlockLifetime::Short).unwrap();
    drop(block);
    sum.kill();
    me.wait_unbind(Address(2), Timeout::Never).unwrap();
    assert!(me.allocate(&area, 7 << 20, BlockLifetime::Long).is_ok());
    let _late = Member::start(&field, &vm, 3, &["sum"]);
    let block = me.allocate(&area, 10, BlockLifetime::Short).unwrap();
    let answer = me.sendrec_block(Address(3), &Message::new(1), block, Timeout::Never).unwrap();
    assert_eq!(answer.m_type, Code::NotReady.number(), "no newcomer in an area of a killed daemon");
    // A new area is whole again.
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    assert_eq!(asked(&mut me, Address(3), &area, 1000).long(0), 1000);
}

#[test]
fn random_use_and_random_kills_leave_no_block_in_two_hands() {
    let _alone = alone();
    let field = Field::new("churn");
    let vm = field.vm("churn");
    let mut me = vm.bind(20).unwrap();
    let area = me.create_area(&AreaConfig::vm(32 << 20)).unwrap();
    let id = area.id().to_string();
    let start = |slot: i32| Member::start(&field, &vm, slot, &["churn", &id]);
    let mut members: Vec<Member> = (1..=6).map(start).collect();
    for round in 0..40_usize {
        let slot = round % 6;
        for member in &mut members {
            let line = member.hear();
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
    assert_eq!(field.node().areas(vm.id()).unwrap()[0].extent_bytes, 0, "something is lost");
}

/// Everything that a member of the audience can do against the rules: refused with -500, or harmless.
#[test]
fn a_liar_gets_nothing_accepted_that_is_not_so() {
    let _alone = alone();
    let field = Field::new("liar");
    let vm = field.vm("liar");
    let mut me = vm.bind(1).unwrap();
    let mut keeper = Member::start(&field, &vm, 2, &["hold"]);
    let area = me.create_area(&AreaConfig::vm(4 << 20)).unwrap();
    // The keeper has attached it, and this endpoint holds one block that the liar knows of.
    let first = me.allocate(&area, 64, BlockLifetime::Short).unwrap();
    me.send_block(Address(2), &Message::new(0), first, Timeout::Never).unwrap();
    keeper.hear();
    let mut own = me.allocate(&area, 4096, BlockLifetime::Short).unwrap();
    own.fill(77).unwrap();
    let mut liar = Member::start(&field, &vm, 3, &["liar", &area.id().to_string(), "1", "2"]);
    let (mut refused, mut accepted_at_random, mut first) = (Vec::new(), 0, None);
    loop {
        let message = me.receive(Source::Any).unwrap();
        match (message.m_type, me.take_block()) {
            // A block as it should be.
            (1, Ok(Some(block))) => first = Some(block),
            (100, _) => break,
            // By chance a name can be a right one: of an own extent of the liar's, then, and of nobody else's.
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
    // Mode moves: the giver can write what it gave. It cannot have it back, and touches nothing else.
    let first = first.unwrap();
    until("the giver's writing is seen", || first.get(4095) == Some(9));
    assert!(own.iter().all(|byte| byte == 77));
    drop(own);
    // What of it died with the liar is room again, and nobody is the worse for it.
    liar.kill();
    me.wait_unbind(Address(3), Timeout::Never).unwrap();
    drop(first);
    keeper.kill();
    me.wait_unbind(Address(2), Timeout::Never).unwrap();
    let all = me.allocate(&area, 3 << 20, BlockLifetime::Short);
    assert!(all.is_ok(), "{:?}", all.err());
}

#[test]
fn only_the_owner_writes_by_the_kernels_word() {
    let _alone = alone();
    let field = Field::new("forge");
    let vm = field.vm("forge");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(4 << 20).owner_writes()).unwrap();
    let mut block = me.allocate(&area, 4096, BlockLifetime::Short).unwrap();
    block.fill(5).unwrap();
    let mut forger = Member::start(&field, &vm, 2, &["forge", &area.id().to_string()]);
    assert_eq!(forger.hear(), "0 ways to write, reads: true");
    assert!(block.iter().all(|byte| byte == 5));
}

#[test]
fn a_seal_is_refused_while_the_other_can_write_and_kept_afterwards() {
    let _alone = alone();
    let field = Field::new("seal");
    let vm = field.vm("seal");
    let mut me = vm.bind(1).unwrap();
    let mut other = Member::start(&field, &vm, 2, &["hold"]);
    let area = me.create_area(&AreaConfig::pair(1 << 20, Address(2))).unwrap();
    let block = me.allocate(&area, 4096, BlockLifetime::Short).unwrap();
    me.send_block(Address(2), &Message::new(1), block, Timeout::Never).unwrap();
    other.hear();
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
    let _alone = alone();
    let field = Field::new("full");
    let vm = field.vm("full");
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

#[test]
fn extents_of_the_dead_come_back_after_a_takeover() {
    let _alone = alone();
    let mut field = Field::new("deserted");
    let vm = field.vm("deserted");
    let mut me = vm.bind(1).unwrap();
    let _sum = Member::start(&field, &vm, 3, &["sum"]);
    let area = me.create_area(&AreaConfig::vm(4 << 20)).unwrap();
    assert_eq!(asked(&mut me, Address(3), &area, 1000).long(0), 1000);
    let mut home = Member::start(&field, &vm, 2, &["give", &area.id().to_string()]);
    me.sendrec(Address(2), &Message::new(1)).unwrap();
    let block = me.take_block().unwrap().unwrap();
    field.kill_daemon();
    home.kill();
    field.restart_daemon();
    me.wait_unbind(Address(2), Timeout::Never).unwrap();
    // Its home is dead, the block is not: nobody gets its room.
    let full = me.allocate(&area, 5 << 19, BlockLifetime::Short).unwrap_err();
    assert_eq!(full.code(), Code::AllocMem);
    assert!(block.iter().all(|byte| byte == 3));
    drop(block);
    until("the room of the dead is given out again", || {
        me.allocate(&area, 5 << 19, BlockLifetime::Short).is_ok()
    });
    assert_eq!(asked(&mut me, Address(3), &area, 1000).long(0), 1000);
}

/// The safe API must hand out copies alone: a text that was validated stays valid whatever a hostile
/// member writes. `Block` has compile-fail examples for slices.
#[test]
fn a_validated_text_stays_valid_while_a_hostile_member_writes() {
    let _alone = alone();
    let field = Field::new("scribble");
    let vm = field.vm("scribble");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(4 << 20)).unwrap();
    let _hostile = Member::start(&field, &vm, 3, &["scribble", &area.id().to_string(), "1"]);
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

/// An endpoint belongs to its process: the thread that bound it may end, and peers still learn of the
/// death of the process. A process may have several.
#[test]
fn an_endpoint_outlives_the_thread_that_bound_it() {
    let _alone = alone();
    let field = Field::new("moved");
    let vm = field.vm("moved");
    let mut me = vm.bind(1).unwrap();
    let mut other = vm.bind_additional(Some(2)).unwrap();
    let mut member = Member::start(&field, &vm, 3, &["moved"]);
    let second = std::thread::spawn(move || {
        let ended = other.sendrec(Address(4), &Message::new(1));
        (other, ended)
    });
    let first = std::thread::spawn(move || {
        let ended = me.sendrec(Address(3), &Message::new(1));
        (me, ended)
    });
    let mut taken = [member.hear(), member.hear()];
    taken.sort();
    assert_eq!(taken, ["3", "4"], "both have a request");
    member.kill();
    let ((mut me, first), (other, second)) = (first.join().unwrap(), second.join().unwrap());
    assert_eq!(first.unwrap_err(), m3ipc::SendRecError::DiedAfter(Address(3)));
    assert_eq!(second.unwrap_err(), m3ipc::SendRecError::DiedAfter(Address(4)));
    drop(other);
    assert!(me.is_bound(), "the first endpoint stays");
}
