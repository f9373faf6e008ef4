//! One member's side of an area: its ledger, its extents, and what it knows of the others.
//!
//! ```text
//!        allocate            give                 (message)            accept
//! FREE ------------> HELD ----------> GIVEN to B - - - - - - - - > HELD at B, next hop
//!   ^                  |  <----------   (taken back where             |
//!   |                  |   take_back     the message was withdrawn)   | release
//!   +------------------+                                              v
//!   |     release                                                RETURNED at B
//!   +---------------------------------------------------------------- + sweep, by the home
//! ```
//!
//! The home uses a number and its room again only after it has made the old generation
//! void and then seen that nobody living claims it: whoever accepts writes his claim and
//! then looks at the home's record, so one of the two notices.

mod accept;
mod give;
mod share;
mod sweep;

use crate::allocator::{Allocator, BlockLifetime};
use crate::claim::{Claim, ClaimState, Span};
use crate::extent_map::{Extent, ExtentMap};
use crate::name::BlockName;
use crate::ownership_trace::{BlockStatus, trace_owner};
use crate::words::{CLAIM, LedgerWords, OwnLedgerWords, READING, RECORD_WORDS, SPAN, UNIT_BYTES};
use m3ipc_abi::Address;
use std::collections::VecDeque;

pub use accept::AcceptError;

/// A block that this member holds. Not to be dropped: it is given, released or kept.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "give it, or release it"]
pub struct HeldBlock {
    pub(crate) number: u32,
    pub(crate) generation: u32,
    pub(crate) hop: u32,
    pub(crate) home: u16,
    pub(crate) span: Span,
    pub(crate) bytes: u64,
}

/// A block that this member reads while another holds it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "end the reading"]
pub struct SharedReading {
    pub(crate) number: u32,
    pub(crate) generation: u32,
    pub(crate) hop: u32,
    pub(crate) span: Span,
    pub(crate) bytes: u64,
}

macro_rules! where_it_lies {
    ($($name:ident)*) => {$(
        impl $name {
            /// Where it begins, in bytes from the area's beginning.
            #[must_use]
            pub fn offset(&self) -> u64 {
                u64::from(self.span.offset) * UNIT_BYTES
            }

            /// The length of its content in bytes.
            #[must_use]
            pub fn bytes(&self) -> u64 {
                self.bytes
            }

            /// What was allocated, in bytes.
            #[must_use]
            pub fn capacity(&self) -> u64 {
                u64::from(self.span.units) * UNIT_BYTES
            }

            /// Its number in the area.
            #[must_use]
            pub fn number(&self) -> u32 {
                self.number
            }
        }
    )*};
}
where_it_lies!(HeldBlock SharedReading);

impl HeldBlock {
    /// Sets the length of its content, of at most its capacity; false where that is longer.
    pub fn set_bytes(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.capacity();
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// In the how manieth hand it is since its home allocated it.
    #[must_use]
    pub fn hop(&self) -> u32 {
        self.hop
    }
}

/// There is no room: what to ask the daemon for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for a block of {bytes} bytes in the extents of this member")]
pub struct AreaFull {
    /// What the block takes, in bytes, with what its alignment may cost.
    pub bytes: u64,
}

/// Another member, as this one knows it.
#[derive(Debug)]
struct OtherMember<P> {
    index: u16,
    address: Address,
    /// None until it has joined.
    ledger: Option<P>,
    lives: bool,
}

impl<P: LedgerWords> OtherMember<P> {
    fn load(&self, at: usize) -> u64 {
        self.ledger.as_ref().map_or(0, |ledger| ledger.load(at))
    }
}

/// What the home knows of one of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnState {
    Free,
    /// Held by the home itself.
    Here,
    /// Given to another, or gone on from there.
    Out,
    /// Void since this turn: free when nobody claims it whom one has heard of in a later turn.
    Void(u64),
}

#[derive(Clone, Copy, Debug)]
struct OwnBlock {
    state: OwnState,
    span: Span,
    generation: u32,
}

/// The numbers of one extent of this home.
#[derive(Debug)]
struct OwnExtent {
    first_number: u32,
    blocks: Vec<OwnBlock>,
}

/// One member's side of an area. `O` is its own ledger, `P` those of the others.
#[derive(Debug)]
pub struct AreaMember<O, P> {
    area: u32,
    me: u16,
    numbers: u32,
    own: O,
    peers: Vec<OtherMember<P>>,
    plan: ExtentMap,
    allocator: Allocator,
    extents: Vec<OwnExtent>,
    free_numbers: Vec<u32>,
    /// Own blocks that are out or void, to be looked at in turn.
    out: VecDeque<u32>,
    /// How often the news were heard.
    turn: u64,
    /// What the block that was accepted last was before: its number, this member's claim, and its generation.
    former: Option<(u32, u64, u32)>,
}

impl<O: OwnLedgerWords, P: LedgerWords> AreaMember<O, P> {
    /// The side of a member that has just joined; `numbers` is how many blocks the ledgers have room for.
    pub fn new(area: u32, me: u16, numbers: u32, own: O) -> Self {
        Self {
            area,
            me,
            numbers,
            own,
            peers: Vec::new(),
            plan: ExtentMap::default(),
            allocator: Allocator::default(),
            extents: Vec::new(),
            free_numbers: Vec::new(),
            out: VecDeque::new(),
            turn: 0,
            former: None,
        }
    }

    /// All news of members have been heard up to now: what was made void before may be free.
    ///
    /// Whoever claims a block has joined before, and the daemon tells of that before he can; so whoever
    /// claimed it before it was made void is known after the next hearing.
    pub fn mark_events_received(&mut self) {
        self.turn += 1;
    }

    /// This member's index.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.me
    }

    /// Another member may join: blocks can be given to it already.
    pub fn expect_member(&mut self, index: u16, address: Address) {
        if index != self.me && self.peer(index).is_none() {
            self.peers.push(OtherMember { index, address, ledger: None, lives: true });
        }
    }

    /// Another member has joined.
    pub fn learn_member(&mut self, index: u16, address: Address, ledger: P) {
        self.expect_member(index, address);
        if let Some(peer) =
            self.peers.iter_mut().find(|peer| peer.index == index && peer.ledger.is_none())
        {
            peer.ledger = Some(ledger);
        }
    }

    /// A member has died, or left: its claims count no longer.
    pub fn member_left(&mut self, index: u16) {
        for peer in self.peers.iter_mut().filter(|peer| peer.index == index) {
            peer.lives = false;
        }
    }

    /// The living member of this address.
    #[must_use]
    pub fn find(&self, address: Address) -> Option<u16> {
        self.peers.iter().find(|peer| peer.lives && peer.address == address).map(|peer| peer.index)
    }

    /// All other living members.
    pub fn members(&self) -> impl Iterator<Item = Address> {
        self.peers.iter().filter(|peer| peer.lives).map(|peer| peer.address)
    }

    /// The daemon has given an extent to somebody; where it is this member's, it allocates there from now on.
    pub fn learn_extent(&mut self, extent: Extent) {
        self.plan.add(extent);
        if extent.home != self.me
            || self.extents.iter().any(|own| own.first_number == extent.first_number)
        {
            return;
        }
        let last = extent.first_number.saturating_add(extent.numbers).min(self.numbers);
        let numbers = extent.first_number..last;
        self.allocator.add(extent.offset, extent.bytes);
        let fresh = OwnBlock {
            state: OwnState::Free,
            span: Span { offset: 0, units: 0 },
            generation: extent.generation & 0xff_ffff,
        };
        self.extents.push(OwnExtent {
            first_number: extent.first_number,
            blocks: numbers.clone().map(|_| fresh).collect(),
        });
        self.free_numbers.extend(numbers.rev());
    }

    /// Beginning and end of the memory without a gap around this offset, as far as it has been given out.
    #[must_use]
    pub fn span(&self, offset: u64) -> Option<(u64, u64)> {
        self.plan.span(offset)
    }

    /// The daemon has taken the extent of a dead member back.
    pub fn forget_extent(&mut self, offset: u64) {
        self.plan.remove(offset);
    }

    /// Allocates a block; `align` is a power of two.
    ///
    /// # Errors
    /// [`Full`], also where all block numbers are in use: another extent brings both.
    pub fn allocate(
        &mut self,
        bytes: u64,
        align: u64,
        kind: BlockLifetime,
    ) -> Result<HeldBlock, AreaFull> {
        self.sweep_some();
        let full = AreaFull { bytes: bytes.saturating_add(align) };
        let units = bytes.max(1).div_ceil(UNIT_BYTES);
        let Ok(count) = u32::try_from(units) else { return Err(full) };
        if !align.is_power_of_two() {
            return Err(full);
        }
        let room = units * UNIT_BYTES;
        let offset = match self.take(room, align, kind) {
            Some(offset) => offset,
            None => {
                self.sweep_all();
                self.take(room, align, kind).ok_or(full)?
            }
        };
        let Some(number) = self.free_numbers.pop() else {
            self.allocator.give(offset, room);
            return Err(full);
        };
        // Extents lie within the area, whose limit is below 2^32 units.
        let span =
            Span { offset: u32::try_from(offset / UNIT_BYTES).unwrap_or(u32::MAX), units: count };
        let generation = match self.own_block(number) {
            Some(block) => {
                block.state = OwnState::Here;
                block.span = span;
                block.generation
            }
            None => return Err(full),
        };
        // The place first: who sees this claim sees the place.
        self.own.store(word_of(number, SPAN), span.encode());
        self.claim(number, ClaimState::Held, 0, 0, generation);
        Ok(HeldBlock { number, generation, hop: 0, home: self.me, span: span, bytes })
    }

    fn take(&mut self, room: u64, align: u64, kind: BlockLifetime) -> Option<u64> {
        if self.free_numbers.is_empty() {
            return None;
        }
        self.allocator.take(room, align, kind)
    }

    /// Ends the holding of a block: its home's it is again, at once or when the home looks.
    pub fn release(&mut self, held: HeldBlock) {
        if held.home == self.me {
            self.void(held.number, held.generation, false);
        } else {
            self.claim(held.number, ClaimState::Returned, 0, held.hop, held.generation);
        }
    }

    /// Bytes that are free in this member's extents, and their whole.
    #[must_use]
    pub fn room(&self) -> (u64, u64) {
        (self.allocator.free_bytes(), self.allocator.total_bytes())
    }

    /// The longest free range in this member's extents, in bytes.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.allocator.largest_free()
    }

    /// Own blocks that others hold, or may hold.
    #[must_use]
    pub fn out(&self) -> usize {
        self.out.len()
    }

    /// How a block stands by the ledgers of all.
    #[must_use]
    pub fn block_status(&self, number: u32, generation: u32) -> BlockStatus {
        let Some(home) = self.plan.allocator_of(number).filter(|_| number < self.numbers) else {
            return BlockStatus::Gone;
        };
        trace_owner(home, generation, self.peers.len() + 1, |member| {
            self.word(member, word_of(number, CLAIM)).map(Claim::decode)
        })
    }

    /// The dead members whose extents nobody living uses any more, as this one sees it.
    #[must_use]
    pub fn orphaned_extents(&self) -> Vec<u16> {
        let dead = |home: u16| self.peer(home).is_some_and(|peer| !peer.lives);
        let mut homes: Vec<u16> =
            self.plan.extents().map(|extent| extent.home).filter(|home| dead(*home)).collect();
        homes.sort_unstable();
        homes.dedup();
        let used = |home: u16| {
            self.plan.extents().filter(|extent| extent.home == home).any(|extent| {
                let last = extent.first_number.saturating_add(extent.numbers).min(self.numbers);
                crate::orphan_scan::is_in_use(self, home, extent.first_number..last)
            })
        };
        homes.retain(|home| !used(*home));
        homes
    }

    fn name(&self, held: &HeldBlock, hop: u32, shared: bool) -> BlockName {
        let (number, generation, bytes) = (held.number, held.generation, held.bytes);
        BlockName { area: self.area, number, generation, hop, bytes, shared, payload: false }
    }

    fn claim(&self, number: u32, state: ClaimState, other: u16, hop: u32, generation: u32) {
        self.own.store(word_of(number, CLAIM), Claim { state, other, hop, generation }.encode());
    }

    fn peer(&self, index: u16) -> Option<&OtherMember<P>> {
        self.peers.iter().find(|peer| peer.index == index)
    }

    fn word(&self, member: u16, at: usize) -> Option<u64> {
        if member == self.me {
            return Some(self.own.load(at));
        }
        self.peer(member).map(|peer| peer.load(at))
    }

    /// Another living member that says that it holds or reads the block of this generation.
    fn claimer(&self, number: u32, generation: u32) -> Option<Address> {
        let claims = |peer: &&OtherMember<P>| {
            let claim = peer.load(word_of(number, CLAIM));
            let reading = peer.load(word_of(number, READING));
            peer.lives && crate::ownership_trace::is_claimed(claim, reading, generation)
        };
        self.peers.iter().find(claims).map(|peer| peer.address)
    }

    fn own_block(&mut self, number: u32) -> Option<&mut OwnBlock> {
        let extent = self.extents.iter_mut().find(|extent| {
            number
                .checked_sub(extent.first_number)
                .is_some_and(|at| (at as usize) < extent.blocks.len())
        })?;
        let at = (number - extent.first_number) as usize;
        extent.blocks.get_mut(at)
    }
}

impl<O: OwnLedgerWords, P: LedgerWords> crate::orphan_scan::LedgerSet for AreaMember<O, P> {
    fn word(&self, member: u16, number: u32, word: usize) -> Option<u64> {
        Self::word(self, member, word_of(number, word))
    }

    fn lives(&self, member: u16) -> bool {
        member == self.me || self.peer(member).is_some_and(|peer| peer.lives)
    }

    fn living(&self) -> impl Iterator<Item = u16> {
        let others = self.peers.iter().filter(|peer| peer.lives && peer.ledger.is_some());
        others.map(|peer| peer.index).chain([self.me])
    }

    fn count(&self) -> usize {
        self.peers.len() + 1
    }
}

const fn word_of(number: u32, word: usize) -> usize {
    number as usize * RECORD_WORDS + word
}

#[cfg(test)]
mod tests;
