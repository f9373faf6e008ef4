//! Areas: allocation, ownership of blocks, and the checks of a hand-over.
//!
//! The members of an area share its memory. The node daemon cuts the area into *extents*. Each
//! extent has one *allocator member*, which alone allocates in it, from private tables
//! ([`Allocator`]). Each member has a *ledger*: it alone writes the ledger, and the other members
//! read it.
//!
//! ```text
//! ledger of A (allocator of block 7)    ledger of B              ledger of C
//! 7: given to B, hop 0, gen 3     -->   7: given to C, hop 1 --> 7: held, hop 2
//! ```
//!
//! **Every shared word has one writer.** So no member can damage the record of another member, and
//! a member that dies leaves whole words. [`trace_owner`] finds the holder of a block: it starts at
//! the allocator member and follows the hops. Each member on the way wrote its claim while it held
//! the block. A receiver first writes its own claim and then reads all others
//! ([`AreaMember::accept`]). So of two receivers of one block, at most one keeps it.
//!
//! Limits: this crate maps no memory, sends no messages and does not talk to the daemon.
#![forbid(unsafe_code)]

mod accept_error;
mod allocator;
mod block;
mod claim;
mod extent_map;
mod member;
mod name;
mod orphan_scan;
mod other_members;
mod own_blocks;
mod ownership_trace;
mod words;

pub use accept_error::AcceptError;
pub use allocator::{Allocator, BlockLifetime};
pub use block::{HeldBlock, ReturnedBlock, SharedReading};
pub use claim::{Claim, ClaimState, Span};
pub use extent_map::ExtentMap;
pub use member::{AreaFull, AreaMember};
pub use name::{BlockName, ClaimedBlockName, NAME_BYTES};
pub use orphan_scan::{LedgerSet, is_in_use};
pub use ownership_trace::{BlockStatus, is_claimed, trace_owner};
pub use words::{
    CLAIM, LedgerWords, OwnLedgerWords, READING, RECORD_WORDS, SPAN, UNIT_BYTES, ledger_bytes,
    numbers_of,
};
