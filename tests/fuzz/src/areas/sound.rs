//! Two members that keep the rules, with the checks of what they get.

use super::memory::{
    AREA, AREA_BYTES, EXTENT_BYTES, HOSTILE, Ledgers, MEMBERS, NUMBERS, NUMBERS_OF_EXTENT, Own,
    View, extent,
};
use m3ipc_abi::{Address, Extent};
use m3ipc_area::{
    AreaMember, BlockLifetime, BlockName, ClaimedBlockName, HeldBlock, LedgerSet, LedgerWords,
    NAME_BYTES, RECORD_WORDS, SharedReading, is_in_use,
};
use m3ipc_shm::{FixedRegion, LeasedRange};
use std::sync::Arc;

/// The bytes of a name.
pub(super) type Name = [u8; NAME_BYTES];

/// The indexes of the sound members.
const SOUND: [u16; 2] = [0, 2];

/// A block in the hands of a sound member.
#[derive(Debug)]
struct Hold {
    actor: usize,
    block: HeldBlock,
    /// Whether the holder shares it.
    shared: bool,
    range: Option<LeasedRange>,
}

/// A message with a block.
#[derive(Debug)]
struct Sent {
    actor: usize,
    name: BlockName,
}

/// The area with its two sound members.
#[derive(Debug)]
pub(super) struct Area {
    members: Vec<AreaMember<Own, View>>,
    holds: Vec<Hold>,
    readings: Vec<(usize, SharedReading)>,
    sent: Vec<Sent>,
    /// Names of blocks that are shared.
    shared: Vec<Sent>,
    /// By sound member: whether it knows that the hostile member left.
    knows_death: [bool; 2],
    /// Whether the daemon has given the extent of the hostile member to member 0.
    reclaimed: bool,
    views: Vec<View>,
    region: Option<Arc<FixedRegion>>,
}

/// The ledgers as the daemon reads them.
struct DaemonView<'a> {
    views: &'a [View],
    hostile_lives: bool,
}

impl LedgerSet for DaemonView<'_> {
    fn word(&self, member: u16, number: u32, word: usize) -> Option<u64> {
        let at = number as usize * RECORD_WORDS + word;
        Some(self.views.get(usize::from(member))?.load(at))
    }

    fn lives(&self, member: u16) -> bool {
        member < MEMBERS && (member != HOSTILE || self.hostile_lives)
    }

    fn living(&self) -> impl Iterator<Item = u16> {
        (0..MEMBERS).filter(|member| self.lives(*member))
    }

    fn count(&self) -> usize {
        usize::from(MEMBERS)
    }
}

impl Area {
    pub(super) fn new(ledgers: &Ledgers) -> Self {
        let member = |index: u16| {
            let own = ledgers.own[usize::from(index)].clone();
            let mut member = AreaMember::new(AREA, index, NUMBERS, own);
            for other in 0..MEMBERS {
                let view = ledgers.views[usize::from(other)].clone();
                member.learn_member(other, Address(i32::from(other)), view);
                member.learn_extent(extent(other));
            }
            member
        };
        Self {
            members: SOUND.into_iter().map(member).collect(),
            holds: Vec::new(),
            readings: Vec::new(),
            sent: Vec::new(),
            shared: Vec::new(),
            knows_death: [false; 2],
            reclaimed: false,
            views: ledgers.views.clone(),
            region: ledgers.region.clone(),
        }
    }

    /// A name that a sound member sent or shared, and its sender.
    pub(super) fn sent(&self, which: usize) -> Option<(u16, BlockName)> {
        let all = self.sent.len() + self.shared.len();
        let sent = self.sent.iter().chain(&self.shared).nth(which % all.max(1))?;
        Some((SOUND[sent.actor], sent.name))
    }

    fn hold_of(&self, actor: usize, which: usize) -> Option<usize> {
        let own: Vec<usize> =
            (0..self.holds.len()).filter(|at| self.holds[*at].actor == actor).collect();
        own.get(which % own.len().max(1)).copied()
    }

    pub(super) fn allocate(&mut self, actor: usize, bytes: u64, align: u64, long: bool) {
        let lifetime = if long { BlockLifetime::Long } else { BlockLifetime::Short };
        if let Ok(block) = self.members[actor].allocate(bytes, align, lifetime) {
            assert!(block.offset().is_multiple_of(align), "the alignment is kept");
            self.hold(actor, block);
        }
    }

    /// Checks a block that a sound member got, and leases its memory as the library does.
    fn hold(&mut self, actor: usize, block: HeldBlock) {
        assert!(block.bytes() <= block.capacity(), "content beyond the block");
        let end = block.offset() + block.capacity();
        assert!(end <= AREA_BYTES, "a block beyond the area");
        // A hostile allocator member can give the same bytes away twice. A sound one cannot.
        let is_sound = self.has_sound_allocator(block.number());
        for other in self.holds.iter().filter(|_| is_sound) {
            let other_end = other.block.offset() + other.block.capacity();
            let apart = end <= other.block.offset() || other_end <= block.offset();
            let same_allocator = self.has_sound_allocator(other.block.number());
            assert!(apart || !same_allocator, "two holders: {block:?} and {:?}", other.block);
        }
        let mut range = self
            .region
            .as_ref()
            .and_then(|region| region.lease(block.offset(), block.capacity(), true));
        if let Some(range) = &mut range {
            let last = range.bytes() - 1;
            range.write_at(last, &[1]).expect("inside the range");
        }
        self.holds.push(Hold { actor, block, shared: false, range });
    }

    fn has_sound_allocator(&self, number: u32) -> bool {
        let extent = number / u32::from(NUMBERS_OF_EXTENT);
        extent != u32::from(HOSTILE) || self.reclaimed
    }

    pub(super) fn give(&mut self, actor: usize, which: usize, to: u16) {
        let Some(at) = self.hold_of(actor, which).filter(|at| !self.holds[*at].shared) else {
            return;
        };
        let Hold { block, range, .. } = self.holds.swap_remove(at);
        match self.members[actor].give(block, to) {
            Ok(name) => self.sent.push(Sent { actor, name }),
            Err(block) => self.holds.push(Hold { actor, block, shared: false, range }),
        }
    }

    pub(super) fn accept(&mut self, actor: usize, from: u16, name: &Name, refuses: bool) {
        let Some(claimed) = ClaimedBlockName::decode(name) else { return };
        if from == SOUND[actor] {
            return;
        }
        // The library takes no message of a member that left.
        if from == HOSTILE && self.knows_death[actor] {
            return;
        }
        let Ok(block) = self.members[actor].accept(from, &claimed) else { return };
        if refuses {
            return self.members[actor].refuse(block);
        }
        self.hold(actor, block);
    }

    pub(super) fn take_back(&mut self, actor: usize, which: usize) {
        let own: Vec<usize> =
            (0..self.sent.len()).filter(|at| self.sent[*at].actor == actor).collect();
        let Some(at) = own.get(which % own.len().max(1)).copied() else { return };
        let sent = self.sent.swap_remove(at);
        if let Some(returned) = self.members[actor].take_back(&sent.name) {
            self.hold(actor, returned.into_held());
        } else if which.is_multiple_of(4) {
            self.members[actor].abandon(&sent.name);
        }
    }

    pub(super) fn release(&mut self, actor: usize, which: usize) {
        let Some(at) = self.hold_of(actor, which) else { return };
        let hold = self.holds.swap_remove(at);
        drop(hold.range);
        let number = hold.block.number();
        self.shared.retain(|shared| shared.actor != actor || shared.name.number != number);
        self.members[actor].release(hold.block);
    }

    pub(super) fn share(&mut self, actor: usize, which: usize) {
        let Some(at) = self.hold_of(actor, which) else { return };
        let hold = &mut self.holds[at];
        hold.shared = true;
        let name = self.members[actor].share(&hold.block);
        self.shared.push(Sent { actor, name });
    }

    pub(super) fn unshare(&mut self, actor: usize, which: usize) {
        let Some(at) = self.hold_of(actor, which).filter(|at| self.holds[*at].shared) else {
            return;
        };
        let hold = &mut self.holds[at];
        if self.members[actor].readers_left(&hold.block, &[0, 1, 2]) == 0
            && self.members[actor].unshare(&hold.block)
        {
            hold.shared = false;
        }
    }

    pub(super) fn read(&mut self, actor: usize, from: u16, name: &Name) {
        let Some(claimed) = ClaimedBlockName::decode(name) else { return };
        if from == SOUND[actor] {
            return;
        }
        if let Ok(reading) = self.members[actor].accept_shared(from, &claimed) {
            assert!(reading.bytes() <= reading.capacity(), "content beyond the block");
            assert!(reading.offset() + reading.capacity() <= AREA_BYTES, "beyond the area");
            self.readings.push((actor, reading));
        }
    }

    pub(super) fn finish(&mut self, actor: usize, which: usize) {
        let own: Vec<usize> =
            (0..self.readings.len()).filter(|at| self.readings[*at].0 == actor).collect();
        let Some(at) = own.get(which % own.len().max(1)).copied() else { return };
        let (_, reading) = self.readings.swap_remove(at);
        self.members[actor].finish(reading);
    }

    pub(super) fn sweep(&mut self, actor: usize) {
        self.members[actor].mark_events_received();
        self.members[actor].sweep_all();
        let (free, total) = self.members[actor].free_and_total_bytes();
        assert!(free <= total && self.members[actor].largest_free() <= free);
    }

    pub(super) fn leave(&mut self, actor: usize, hostile: u16) {
        self.knows_death[actor] = true;
        self.members[actor].member_left(hostile);
    }

    /// The daemon frees the extent of the hostile member, and gives it to member 0.
    pub(super) fn reclaim(&mut self, hostile: u16) {
        if self.knows_death != [true; 2] || self.reclaimed {
            return;
        }
        let old = extent(hostile);
        let view = DaemonView { views: &self.views, hostile_lives: false };
        let numbers = old.first_number..old.first_number + old.numbers;
        if is_in_use(&view, hostile, numbers.clone()) {
            return;
        }
        let is_held = self.holds.iter().any(|hold| numbers.contains(&hold.block.number()));
        assert!(!is_held, "the daemon frees an extent in which a member holds a block");
        self.reclaimed = true;
        let fresh = Extent { allocator: 0, generation: 5000, ..old };
        for member in &mut self.members {
            let _ = member.orphaned_extents();
            member.forget_extent(old.offset);
            member.learn_extent(fresh);
        }
    }

    pub(super) fn surrender(&mut self, actor: usize) {
        if actor == 0 && self.reclaimed {
            return;
        }
        for extent in self.members[actor].surrender_extents() {
            assert!(!self.holds.iter().any(|hold| {
                let offset = hold.block.offset();
                let number = hold.block.number();
                self.has_sound_allocator(number)
                    && (extent.offset..extent.offset + EXTENT_BYTES).contains(&offset)
            }));
            let generation = extent.generation + 10_000;
            let again = Extent { generation, ..extent };
            for member in &mut self.members {
                member.forget_extent(extent.offset);
                member.learn_extent(again);
            }
        }
    }

    /// Asks all questions about a block.
    pub(super) fn ask(&self, actor: usize, number: u32, generation: u32) {
        let member = &self.members[actor];
        let _ = (member.block_status(number, generation), member.orphaned_extents());
        if number < NUMBERS {
            let _ = member.own_claim(number);
        }
        for hold in self.holds.iter().filter(|hold| hold.actor == actor) {
            let _ = member.is_mine_alone(&hold.block);
        }
        let _ = (member.span(u64::from(number) * 1024), member.blocks_away());
    }
}
