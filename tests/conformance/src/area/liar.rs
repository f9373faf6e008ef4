//! A member that breaks the rules of areas: it speaks to the daemon by raw frames, and writes its ledger,
//! its memory and the names in its messages as it likes.
//!
//! Each message has a type that says what is wrong with its block: see [`acts`].

use m3ipc_abi::Address;
use m3ipc_area::{
    AreaMember, BlockLifetime, BlockName, CLAIM, Claim, ClaimState, LedgerWords, OwnLedgerWords,
    RECORD_WORDS, SPAN, Span, ledger_bytes,
};
use m3ipc_conformance::raw::Raw;
use m3ipc_link::{Link, MessageKind as Sent, ReadyBitmap};
use m3ipc_shm::{FixedRegion, LeasedRange, Observed, Shared};
use m3ipc_wire::{AreaEvent, AreaInfo, AreaReply, AreaRequest, DaemonEvent, Reply, Request};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What the liar does, by the type of its message.
pub mod acts {
    /// A block as it should be; its content is changed when the receiver has it.
    pub const CHANGED: i32 = 1;
    /// The same block again.
    pub const TWICE: i32 = 2;
    /// A block that another member holds already.
    pub const ELSEWHERE: i32 = 3;
    /// A block of the receiver itself.
    pub const NOT_HIS: i32 = 4;
    /// Content that is longer than the block.
    pub const TOO_LONG: i32 = 5;
    /// A place beyond the area.
    pub const OUTSIDE: i32 = 6;
    /// A place where the receiver allocates.
    pub const IN_OTHERS: i32 = 7;
    /// A number that no extent has.
    pub const NO_NUMBER: i32 = 8;
    /// An area that is not there.
    pub const NO_AREA: i32 = 9;
    /// Names by chance, over a ledger by chance.
    pub const RANDOM: i32 = 10;
    /// The end.
    pub const END: i32 = 100;
}

struct Liar {
    raw: Raw,
    side: AreaMember<Shared, Observed>,
    /// The same ledger, past all rules.
    ledger: Shared,
    ground: Arc<FixedRegion>,
    peers: HashMap<i32, Observed>,
    info: AreaInfo,
}

/// What a wire extent is to the rules.

impl Liar {
    fn join(directory: &Path, vm: i32, slot: i32, area: u32) -> Self {
        let mut raw = Raw::greeted(directory).expect("the daemon greets");
        raw.bind(vm, Some(slot)).expect("the slot is free");
        let joined = raw.request(&Request::Area(AreaRequest::Attach(area)));
        let Some((Reply::Area(AreaReply::Joined { info, index }), fds)) = joined else {
            panic!("the area cannot be joined: {joined:?}");
        };
        let bytes = usize::try_from(info.limit_bytes).expect("it fits");
        let ground = FixedRegion::map_at(&fds[0], info.base, bytes, true)
            .expect("the area is mapped for writing");
        let ledger =
            || Shared::map_sparse(&fds[1], ledger_bytes(info.numbers)).expect("its own ledger");
        let (own, again) = (ledger(), ledger());
        let side = AreaMember::new(area, index, info.numbers, own);
        let mut liar = Self { raw, side, ledger: again, ground, peers: HashMap::new(), info };
        assert!(liar.ask(&AreaRequest::Mapped(area)).is_some());
        liar
    }

    fn ask(&mut self, request: &AreaRequest) -> Option<Reply> {
        let (reply, _) = self.raw.request(&Request::Area(request.clone()))?;
        while let Some((news, fds)) = self.raw.news.pop_front() {
            match news {
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
                panic!("no room for the liar");
            };
            self.side.learn_extent(extent);
        }
        let held = self.side.allocate(bytes, 64, BlockLifetime::Short).expect("room");
        let tract = self.ground.lease(held.offset(), held.capacity(), true).expect("its own");
        (held, tract)
    }

    fn index_of(&self, address: i32) -> u16 {
        self.side.find(Address(address)).expect("a member")
    }

    /// Writes in its ledger that it has given a block to somebody, whatever it was.
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

fn word(number: u32, which: usize) -> usize {
    number as usize * RECORD_WORDS + which
}

/// A way to somebody; the liar made the link.
struct Way {
    link: Link,
    hints: ReadyBitmap,
    index_there: u32,
}

impl Way {
    fn to(raw: &mut Raw, peer: i32) -> Self {
        let Some((Reply::Contact(info), fds)) = raw.request(&Request::Contact(peer)) else {
            panic!("no link to {peer}");
        };
        let link = Link::map(&fds[0], m3ipc_link::LinkSide::Zero).expect("a link");
        let hints = ReadyBitmap::map(&fds[2]).expect("hints");
        Self { link, hints, index_there: info.index_there }
    }

    /// Sends the name, and waits until it is taken.
    fn say(&mut self, act: i32, name: Option<&BlockName>) {
        let bytes = name.map(BlockName::encode);
        let cargo = bytes.as_ref().map_or_else(|| (&[][..]).into(), m3ipc_link::Payload::block);
        let posted = self.link.post(
            Sent::Send,
            m3ipc_sys::ticks(),
            act,
            &[0; m3ipc_abi::PAYLOAD_BYTES],
            cargo,
        );
        while !self.link.is_taken(posted).expect("a sound peer") {
            self.hints.set(self.index_there);
            self.link.wake_peer();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Gives a block away, and writes valid and invalid UTF-8 into it by turns until it is killed.
pub fn scribble(directory: &Path, vm: &str, slot: i32, area: u32, victim: i32) {
    let vm =
        m3ipc::Node::find(directory).and_then(|mut node| node.vm_named(vm)).expect("the VM").id();
    let mut liar = Liar::join(directory, vm, slot, area);
    println!("ready");
    let mut way = Way::to(&mut liar.raw, victim);
    let receiver = liar.index_of(victim);
    let (held, mut range) = liar.allocate(4096);
    let (valid, invalid) = ("\u{e9}".repeat(2048), [0xc3; 4096]);
    range.copy_from(valid.as_bytes()).expect("writable");
    let name = liar.side.give(held, receiver).expect("a member");
    way.say(acts::CHANGED, Some(&name));
    loop {
        range.copy_from(&invalid).expect("writable");
        range.copy_from(valid.as_bytes()).expect("writable");
    }
}

/// All of it, once; then stays until it is killed.
pub fn run(directory: &Path, vm: &str, slot: i32, area: u32, victim: i32, keeper: i32) {
    let vm =
        m3ipc::Node::find(directory).and_then(|mut node| node.vm_named(vm)).expect("the VM").id();
    let mut liar = Liar::join(directory, vm, slot, area);
    println!("ready");
    let mut way = Way::to(&mut liar.raw, victim);
    let mut to_keeper = Way::to(&mut liar.raw, keeper);
    let (receiver, third) = (liar.index_of(victim), liar.index_of(keeper));

    let (held, mut tract) = liar.allocate(4096);
    tract.copy_from(&[1; 4096]).expect("writable");
    let number = held.number();
    let name = liar.side.give(held, receiver).expect("a member");
    way.say(acts::CHANGED, Some(&name));
    tract.copy_from(&[9; 4096]).expect("writable");
    liar.claim_given(&name, receiver);
    way.say(acts::TWICE, Some(&name));

    let (held, _tract) = liar.allocate(4096);
    let name = liar.side.give(held, third).expect("a member");
    to_keeper.say(acts::ELSEWHERE, Some(&name));
    liar.claim_given(&name, receiver);
    way.say(acts::ELSEWHERE, Some(&name));

    let (theirs, claim) = liar.held_by(victim);
    let foreign = BlockName {
        number: theirs,
        generation: claim.generation,
        hop: claim.hop + 1,
        bytes: 64,
        ..name
    };
    liar.claim_given(&foreign, receiver);
    way.say(acts::NOT_HIS, Some(&foreign));

    let (held, _tract) = liar.allocate(4096);
    let name = liar.side.give(held, receiver).expect("a member");
    way.say(acts::TOO_LONG, Some(&BlockName { bytes: 4097, ..name }));
    liar.ledger.store(word(name.number, SPAN), Span { offset: u32::MAX - 8, units: 16 }.encode());
    way.say(acts::OUTSIDE, Some(&name));
    let place = liar.peers[&victim].load(word(theirs, SPAN));
    liar.ledger.store(word(name.number, SPAN), place);
    way.say(acts::IN_OTHERS, Some(&name));
    way.say(acts::NO_NUMBER, Some(&BlockName { number: u32::MAX, ..name }));
    way.say(acts::NO_AREA, Some(&BlockName { area: area + 99, ..name }));

    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut roll = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 8
    };
    for _ in 0..300 {
        let number = u32::try_from(roll() % u64::from(liar.info.numbers)).expect("a number");
        for which in 0..RECORD_WORDS {
            // Near what could be true, and far from it.
            let garbage =
                if roll() % 2 == 0 { roll() } else { (roll() % 64) | ((roll() % 4) << 40) };
            liar.ledger.store(word(number, which), garbage);
        }
        let name = BlockName {
            number: if roll() % 4 == 0 { theirs } else { number },
            generation: u32::try_from(roll() % 3).expect("small"),
            hop: u32::try_from(roll() % 3).expect("small"),
            bytes: roll() % 9000,
            shared: roll() % 2 == 0,
            ..name
        };
        way.say(acts::RANDOM, Some(&name));
    }
    way.say(acts::END, None);
    println!("said {number}");
    std::thread::sleep(Duration::from_secs(300));
}

/// How many ways there are for one who is not the owner to write in an area in which its owner writes.
pub fn forge(directory: &Path, vm: &str, slot: i32, area: u32) {
    let vm =
        m3ipc::Node::find(directory).and_then(|mut node| node.vm_named(vm)).expect("the VM").id();
    let mut raw = Raw::greeted(directory).expect("the daemon greets");
    raw.bind(vm, Some(slot)).expect("the slot is free");
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
