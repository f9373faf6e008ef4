//! Areas: who allocates where, who holds which block, and what makes a hand-over valid.
//!
//! An area is memory that its members share. The node daemon cuts it into
//! *extents*; each has one *home*, the only member that allocates in it, from
//! private tables ([`Allocator`]). What members must know of each other stands in
//! *ledgers*, one per member, written by that member alone and only read by the others:
//!
//! ```text
//! ledger of A (home of block 7)       ledger of B             ledger of C
//! 7: given to B, hop 0, gen 3   -->   7: given to C, hop 1 --> 7: held, hop 2
//! ```
//!
//! **Every shared word has one writer**, so nobody can break another's record, and a
//! member that dies in the middle leaves words that are whole. Who holds a block is
//! what [`walk`] finds: from its home, along the hops, each claim made by the one who
//! held the block then. A receiver writes its own claim first and looks at all
//! others' afterwards ([`Side::accept`]), so of two who were given the same block at
//! most one keeps it.
//!
//! What it does not do: map memory, talk to the daemon, send messages.

mod allocator;
mod claim;
mod extent_map;
mod member;
mod name;
mod orphan_scan;
mod ownership_trace;
mod words;

pub use allocator::{Allocator, BlockLifetime};
pub use claim::{Claim, ClaimState, Span};
pub use extent_map::{Extent, ExtentMap};
pub use member::{AcceptError, AreaFull, AreaMember, HeldBlock, SharedReading};
pub use name::{BlockName, ClaimedBlockName, NAME_BYTES};
pub use orphan_scan::{LedgerSet, is_in_use};
pub use ownership_trace::{BlockStatus, is_claimed, trace_owner};
pub use words::{
    CLAIM, LedgerWords, OwnLedgerWords, READING, RECORD_WORDS, SPAN, UNIT_BYTES, ledger_bytes,
    numbers_of,
};
