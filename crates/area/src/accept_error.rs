//! The reasons for a refused hand-over.

use m3ipc_abi::Address;

/// The reason for a refused block. Except for `Elsewhere`, the giver broke the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// No extent has the number, or the block lies outside the extents of its allocator member.
    #[error("block {0} lies outside the extents of its allocator member; the giver is faulty")]
    Outside(u32),
    /// The claimed content is longer than the block.
    #[error(
        "block {number} has {capacity} bytes, but its giver claims {bytes}; the giver is faulty"
    )]
    TooLong {
        /// The block.
        number: u32,
        /// Claimed length of the content, in bytes.
        bytes: u64,
        /// Length of the block, in bytes.
        capacity: u64,
    },
    /// By the ledgers, the sender did not give the block to this member.
    #[error("the sender does not hold block {0}, or gave it to another member")]
    NotGiven(u32),
    /// Another living member claims the block: it was given twice, or the claim is false.
    #[error("endpoint {by} claims block {number} too; ask the sender for another block")]
    Elsewhere {
        /// The block.
        number: u32,
        /// The member that claims it.
        by: Address,
    },
    /// The message names a shared block as given, or a given block as shared.
    #[error("block {0} is shared where the message gives it, or given where the message shares it")]
    WrongKind(u32),
}
