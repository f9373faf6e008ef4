//! A member that breaks the rules of areas. It speaks to the daemon by raw frames, and writes any
//! value into its ledger, its memory and the names in its messages.
//!
//! The type of each message says what is wrong with its block: see [`acts`].

mod against_stand_in;

pub use against_stand_in::attack as attack_stand_in;

use crate::round::vm_id;
use m3ipc_abi::Address;
use m3ipc_area::{
    AreaMember, BlockLifetime, BlockName, CLAIM, Claim, ClaimState, LedgerWords, OwnLedgerWords,
    RECORD_WORDS, SPAN, Span, ledger_bytes,
};
use m3ipc_link::{Link, MessageKind as Sent, ReadyBitmap};
use m3ipc_shm::{FixedRegion, LeasedRange, Observed, Shared};
use m3ipc_test_fixture::Rng;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_wire::{
    AreaAudience, AreaEvent, AreaInfo, AreaParams, AreaReply, AreaRequest, DaemonEvent, Reply,
    Request,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What is wrong with a block, by the type of its message.
mod acts {
    /// A sound block; its content changes when the receiver has it.
    pub const CHANGED: i32 = 1;
    /// The same block again.
    pub const TWICE: i32 = 2;
    /// A block that another member holds already.
    pub const ELSEWHERE: i32 = 3;
    /// A block of the receiver itself.
    pub const OF_RECEIVER: i32 = 4;
    /// Content that is longer than the block.
    pub const TOO_LONG: i32 = 5;
    /// A span beyond the area.
    pub const OUTSIDE: i32 = 6;
    /// A span in which the receiver allocates.
    pub const OF_ANOTHER: i32 = 7;
    /// A number that no extent has.
    pub const NO_NUMBER: i32 = 8;
    /// An area that does not exist.
    pub const NO_AREA: i32 = 9;
    /// Random names over a random ledger.
    pub const RANDOM: i32 = 10;
    /// The last message.
    pub const END: i32 = 100;
}

struct HostileMember {
    raw: RawMember,
    side: AreaMember<Shared, Observed>,
    /// The same ledger, without the rules.
    ledger: Shared,
    memory: Arc<FixedRegion>,
    peers: HashMap<i32, Observed>,
    info: AreaInfo,
}

impl HostileMember {
    fn join(directory: &str, vm: &str, slot: &str, area: &str) -> Self {
        let (mut raw, area) = bind(directory, vm, slot, area);
        let joined = raw.request(&Request::Area(AreaRequest::Attach(area)));
        let Some((Reply::Area(AreaReply::Joined { info, index }), fds)) = joined else {
            panic!("the area cannot be joined: {joined:?}");
        };
        let bytes = usize::try_from(info.limit_bytes).expect("it fits");
        let memory = FixedRegion::map_at(&fds[0], info.base, bytes, true)
            .expect("the area is mapped for writing");
        let ledger =
            || Shared::map_sparse(&fds[1], ledger_bytes(info.numbers)).expect("its own ledger");
        let (own, again) = (ledger(), ledger());
        let side = AreaMember::new(area, index, info.numbers, own);
        let mut member = Self { raw, side, ledger: again, memory, peers: HashMap::new(), info };
        assert!(member.ask(&AreaRequest::Mapped(area)).is_some());
        member
    }

    fn ask(&mut self, request: &AreaRequest) -> Option<Reply> {
        let (reply, _) = self.raw.request(&Request::Area(request.clone()))?;
        while let Some((event, fds)) = self.raw.events.pop_front() {
            match event {
                DaemonEvent::Area(AreaEvent::Member { index, address, .. }) => {
                    let view = || Observed::map_sparse(&fds[0], ledger_bytes(self.info.numbers));
                    self.peers.insert(address, view().expect("a ledger"));
                    self.side.learn_member(index, Address(address), view().expect("a ledger"));
                }
                DaemonEvent::Area(AreaEvent::Extent { extent, .. }) => {
                    self.side.learn_extent(extent)
                }
                _ => {}
            }
        }
        Some(reply)
    }

    fn allocate(&mut self, bytes: u64) -> (m3ipc_area::HeldBlock, LeasedRange) {
        if self.side.free_and_total_bytes().0 < bytes {
            let request = AreaRequest::Extent {
                area: self.info.area,
                needed: 1 << 20,
                wanted: 1 << 20,
                from_back: false,
            };
            let Some(Reply::Area(AreaReply::Extent(extent))) = self.ask(&request) else {
                panic!("no room for the hostile member");
            };
            self.side.learn_extent(extent);
        }
        let held = self.side.allocate(bytes, 64, BlockLifetime::Short).expect("room");
        let range = self.memory.lease(held.offset(), held.capacity(), true).expect("its own");
        (held, range)
    }

    fn index_of(&self, address: i32) -> u16 {
        self.side.find(Address(address)).expect("a member")
    }

    /// The index of a member that may not have joined yet.
    fn expected_index_of(&mut self, address: i32) -> u16 {
        let request = AreaRequest::Index { area: self.info.area, address };
        let Some(Reply::Number(index)) = self.ask(&request) else { panic!("no member {address}") };
        let index = u16::try_from(index).expect("an index");
        self.side.expect_member(index, Address(address));
        index
    }

    /// Asks for more room than there is, so that the daemon looks for orphans.
    fn ask_for_all_room(&mut self) {
        let bytes = self.info.limit_bytes;
        let request = AreaRequest::Extent {
            area: self.info.area,
            needed: bytes,
            wanted: bytes,
            from_back: false,
        };
        let _refused = self.ask(&request);
        std::thread::sleep(Duration::from_millis(5));
    }

    /// Writes into its ledger that it has given a block to a member.
    fn claim_given(&self, name: &BlockName, to: u16) {
        let given = Claim {
            state: ClaimState::Given,
            other: to,
            hop: name.hop.saturating_sub(1),
            generation: name.generation,
        };
        self.ledger.store(word(name.number, CLAIM), given.encode());
    }

    /// The number and the claim of a block that this member holds.
    fn held_by(&self, address: i32) -> (u32, Claim) {
        let ledger = &self.peers[&address];
        let held = (0..self.info.numbers).find_map(|number| {
            let claim = Claim::decode(ledger.load(word(number, CLAIM)));
            (claim.state == ClaimState::Held).then_some((number, claim))
        });
        held.expect("it holds one")
    }
}

fn number(word: &str) -> i32 {
    word.parse().expect("a number in the arguments")
}

/// Binds by raw frames; the connection, and the number of the area.
fn bind(directory: &str, vm: &str, slot: &str, area: &str) -> (RawMember, u32) {
    let directory = Path::new(directory);
    let mut raw = RawMember::greeted(directory).expect("the daemon greets");
    raw.bind(vm_id(directory, vm), Some(number(slot))).expect("the slot is free");
    (raw, number(area).cast_unsigned())
}

fn word(number: u32, which: usize) -> usize {
    number as usize * RECORD_WORDS + which
}

/// A link to a peer. The hostile member makes it before it says that it is ready: the peer's first
/// message would make one, too.
struct HostileLink {
    link: Link,
    ready: ReadyBitmap,
    index_there: u32,
}

impl HostileLink {
    fn to(raw: &mut RawMember, peer: i32) -> Self {
        let Some((Reply::Contact(info), fds)) = raw.request(&Request::Contact(peer)) else {
            panic!("no link to {peer}");
        };
        let link = Link::map(&fds[0], m3ipc_link::LinkSide::Zero).expect("a link");
        let ready = ReadyBitmap::map(&fds[2]).expect("a ready bitmap");
        Self { link, ready, index_there: info.index_there }
    }

    /// Waits for a message of this peer, and takes it.
    fn take(&mut self, peer: i32) -> m3ipc_link::TakenMessage {
        loop {
            if let Some(arrival) = self.link.peek().expect("a sound peer") {
                let taken = self.link.take(arrival, &mut []).expect("a sound peer");
                self.link.wake_peer();
                if let Some(message) = taken {
                    return message;
                }
            }
            assert!(peer > 0, "a peer");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for a message with a block, accepts the block and takes the message.
    fn take_block(&mut self, member: &mut HostileMember, from: i32) -> m3ipc_area::HeldBlock {
        while self.link.peek().expect("a sound peer").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The daemon's events tell the extents and the members.
        let index = AreaRequest::Index { area: member.info.area, address: from };
        assert!(member.ask(&index).is_some());
        let name = m3ipc_area::ClaimedBlockName::decode(&self.link.incoming_block_name());
        let giver = member.index_of(from);
        let held = member.side.accept(giver, &name.expect("a name")).expect("it was given");
        self.take(from);
        held
    }

    /// Sends the name, and waits until it is taken.
    fn send(&mut self, act: i32, name: Option<&BlockName>) {
        let bytes = name.map(BlockName::encode);
        let payload = bytes.as_ref().map_or_else(|| (&[][..]).into(), m3ipc_link::Payload::block);
        let posted = self.link.post(
            Sent::Send,
            m3ipc_sys::ticks(),
            act,
            &[0; m3ipc_abi::PAYLOAD_BYTES],
            payload,
        );
        while !self.link.is_taken(posted).expect("a sound peer") {
            self.ready.set(self.index_there);
            self.link.wake_peer();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Takes two blocks of a dead allocator member. Hides the first one from the search for blocks in
/// use, shows it again and gives it to the victim; then drops the second one, and asks for room.
pub fn hide(directory: &str, vm: &str, slot: &str, area: &str, victim: &str) {
    let victim = number(victim);
    let mut member = HostileMember::join(directory, vm, slot, area);
    let mut link = HostileLink::to(&mut member.raw, victim);
    println!("ready");
    let (first, second) =
        (link.take_block(&mut member, victim), link.take_block(&mut member, victim));
    // The victim tells that the allocator member is dead.
    link.take(victim);
    let at = word(first.number(), CLAIM);
    let held = member.ledger.load(at);
    let hidden = Claim { state: ClaimState::Returned, ..Claim::decode(held) };
    member.ledger.store(at, hidden.encode());
    member.ask_for_all_room();
    member.ledger.store(at, held);
    let receiver = member.index_of(victim);
    let name = member.side.give(first, receiver).expect("a member");
    link.send(acts::CHANGED, Some(&name));
    member.side.release(second);
    for _ in 0..20 {
        member.ask_for_all_room();
    }
    link.send(acts::END, None);
    std::thread::sleep(Duration::from_secs(300));
}

/// Gives a block away, and writes valid and invalid UTF-8 into it by turns until it is killed.
pub fn scribble(directory: &str, vm: &str, slot: &str, area: &str, victim: &str) {
    let victim = number(victim);
    let mut member = HostileMember::join(directory, vm, slot, area);
    let mut link = HostileLink::to(&mut member.raw, victim);
    println!("ready");
    let receiver = member.index_of(victim);
    let (held, mut range) = member.allocate(4096);
    let (valid, invalid) = ("\u{e9}".repeat(2048), [0xc3; 4096]);
    range.copy_from(valid.as_bytes()).expect("writable");
    let name = member.side.give(held, receiver).expect("a member");
    link.send(acts::CHANGED, Some(&name));
    loop {
        range.copy_from(&invalid).expect("writable");
        range.copy_from(valid.as_bytes()).expect("writable");
    }
}

/// Sends each wrong block once, then stays until it is killed.
pub fn attack(directory: &str, vm: &str, slot: &str, area: &str, peers: [&str; 2]) {
    let [victim, keeper] = peers.map(number);
    let mut member = HostileMember::join(directory, vm, slot, area);
    let mut link = HostileLink::to(&mut member.raw, victim);
    let mut to_keeper = HostileLink::to(&mut member.raw, keeper);
    println!("ready");
    let (receiver, third) = (member.index_of(victim), member.index_of(keeper));

    let (held, mut range) = member.allocate(4096);
    range.copy_from(&[1; 4096]).expect("writable");
    let number = held.number();
    let name = member.side.give(held, receiver).expect("a member");
    link.send(acts::CHANGED, Some(&name));
    range.copy_from(&[9; 4096]).expect("writable");
    member.claim_given(&name, receiver);
    link.send(acts::TWICE, Some(&name));

    let (held, _range) = member.allocate(4096);
    let name = member.side.give(held, third).expect("a member");
    to_keeper.send(acts::ELSEWHERE, Some(&name));
    member.claim_given(&name, receiver);
    link.send(acts::ELSEWHERE, Some(&name));

    let (theirs, claim) = member.held_by(victim);
    let foreign = BlockName {
        number: theirs,
        generation: claim.generation,
        hop: claim.hop + 1,
        bytes: 64,
        ..name
    };
    member.claim_given(&foreign, receiver);
    link.send(acts::OF_RECEIVER, Some(&foreign));

    let (held, _range) = member.allocate(4096);
    let name = member.side.give(held, receiver).expect("a member");
    link.send(acts::TOO_LONG, Some(&BlockName { bytes: 4097, ..name }));
    member.ledger.store(word(name.number, SPAN), Span { offset: u32::MAX - 8, units: 16 }.encode());
    link.send(acts::OUTSIDE, Some(&name));
    let span = member.peers[&victim].load(word(theirs, SPAN));
    member.ledger.store(word(name.number, SPAN), span);
    link.send(acts::OF_ANOTHER, Some(&name));
    link.send(acts::NO_NUMBER, Some(&BlockName { number: u32::MAX, ..name }));
    link.send(acts::NO_AREA, Some(&BlockName { area: member.info.area + 99, ..name }));

    let mut rng = Rng::of(0x1234_5678_9abc_def1);
    let mut random = || rng.number() >> 8;
    for _ in 0..300 {
        let number = u32::try_from(random() % u64::from(member.info.numbers)).expect("a number");
        for which in 0..RECORD_WORDS {
            // Values near to a sound record, and far from it.
            let garbage =
                if random() % 2 == 0 { random() } else { (random() % 64) | ((random() % 4) << 40) };
            member.ledger.store(word(number, which), garbage);
        }
        let name = BlockName {
            number: if random() % 4 == 0 { theirs } else { number },
            generation: u32::try_from(random() % 3).expect("small"),
            hop: u32::try_from(random() % 3).expect("small"),
            bytes: random() % 9000,
            shared: random() % 2 == 0,
            ..name
        };
        link.send(acts::RANDOM, Some(&name));
    }
    link.send(acts::END, None);
    println!("said {number}");
    std::thread::sleep(Duration::from_secs(300));
}

/// Gives a block of an area that it never maps, so that no member can attach it.
pub fn give_unmapped(directory: &str, vm: &str, slot: &str, victim: &str) {
    let (mut raw, victim) = bind(directory, vm, slot, victim);
    let mut link = HostileLink::to(&mut raw, victim.cast_signed());
    let name = BlockName {
        area: create_unmapped(&mut raw),
        number: 0,
        generation: 0,
        hop: 0,
        bytes: 64,
        shared: false,
        payload: false,
    };
    println!("ready");
    link.send(acts::NO_AREA, Some(&name));
    std::thread::sleep(Duration::from_secs(300));
}

/// An area in which only the owner writes, and which it never maps.
fn create_unmapped(raw: &mut RawMember) -> u32 {
    let config = AreaParams {
        limit_bytes: 1 << 20,
        audience: AreaAudience::Vm,
        owner_writes: true,
        huge: false,
        low: false,
    };
    let created = raw.request(&Request::Area(AreaRequest::Create(config)));
    let Some((Reply::Area(AreaReply::Joined { info, .. }), _memory)) = created else {
        panic!("no area: {created:?}");
    };
    info.area
}

/// Tries each way to write into an area in which only the owner writes, and says how many succeed.
pub fn write_everywhere(directory: &str, vm: &str, slot: &str, area: &str) {
    let (mut raw, area) = bind(directory, vm, slot, area);
    let joined = raw.request(&Request::Area(AreaRequest::Attach(area)));
    let Some((Reply::Area(AreaReply::Joined { info, .. }), fds)) = joined else {
        panic!("the area cannot be joined: {joined:?}");
    };
    println!("ready");
    let bytes = usize::try_from(info.limit_bytes).expect("it fits");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fds[0]));
    let reopened = std::fs::OpenOptions::new().read(true).write(true).open(path);
    let ways = [
        FixedRegion::map_at(&fds[0], info.base, bytes, true).is_ok(),
        reopened
            .as_ref()
            .is_ok_and(|again| FixedRegion::map_at(again, info.base, bytes, true).is_ok()),
        reopened.is_ok_and(|again| std::os::unix::fs::FileExt::write_at(&again, b"x", 0).is_ok()),
        rustix::io::write(&fds[0], b"x").is_ok(),
        m3ipc_sys::release_memory(&fds[0], 0, 4096).is_ok(),
        rustix::fs::ftruncate(&fds[0], 4096).is_ok(),
    ];
    let reads = FixedRegion::map_at(&fds[0], info.base, bytes, false).is_ok();
    println!("{} ways to write, reads: {reads}", ways.iter().filter(|way| **way).count());
    std::thread::sleep(Duration::from_secs(300));
}
