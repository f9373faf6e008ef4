//! The errors of operations on areas, with their codes of the contract.

use super::error::{LookupError, VmError};
use m3ipc_abi::{Address, Code};
use thiserror::Error;

/// Why an operation on an area failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AreaError {
    /// The VM's state.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// An endpoint's state.
    #[error(transparent)]
    Endpoint(#[from] LookupError),
    /// The VM has no such area.
    #[error("the VM has no area {0}; it never had one, or all members of the area have left")]
    Unknown(u32),
    /// The limit is not a valid size of an area.
    #[error(
        "an area cannot have {0} bytes; give at most 274,877,906,944, in steps of 4,096 (of \
         2,097,152 with huge pages)"
    )]
    Limit(u64),
    /// The area has as many members as an area may have.
    #[error(
        "the area has as many members as an area may have (256 at a time, 4,096 in its life); \
         create another area"
    )]
    TooManyMembers,
    /// The VM has as many areas as it may have.
    #[error("the VM has 4,096 areas already; detach from some of them")]
    TooMany,
    /// The user is at a quota, or only the reserve of the owner is left.
    #[error(
        "user {uid} is at its quota of {name}, or only the reserve of the owner is left; detach \
         from areas that are no longer needed, or ask the owner of the VM"
    )]
    Quota {
        /// The user.
        uid: u32,
        /// The quota.
        name: &'static str,
    },
    /// The VM's address range is used up.
    #[error(
        "no addresses are left for an area of {0} bytes in this VM; ask for fewer bytes, or \
         detach from other areas"
    )]
    NoAddresses(u64),
    /// The endpoint is not in the area's audience, or the area is closed.
    #[error(
        "endpoint {0} is not in the audience of the area, or the area is closed; ask its owner"
    )]
    NotInAudience(Address),
    /// Only the area's owner may do this.
    #[error("endpoint {0} does not own the area; only the owner may do this")]
    NotOwner(Address),
    /// No gap is large enough.
    #[error(
        "the area is full: no gap of {bytes} bytes is left of {limit}; free blocks, or create a \
         larger area"
    )]
    Full {
        /// The requested size in bytes.
        bytes: u64,
        /// The area's limit in bytes.
        limit: u64,
    },
}

impl AreaError {
    /// Whether extents that nobody uses any more could help.
    #[must_use]
    pub const fn lacks_room(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Quota { .. })
    }

    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            // Not the caller: the partner of a pair, or the receiver of a block.
            Self::Endpoint(error) => error.code(Code::DstDied),
            Self::Unknown(_) => Code::NoNode,
            Self::Limit(_) => Code::BadRange,
            Self::TooManyMembers | Self::TooMany | Self::Quota { .. } | Self::NoAddresses(_) => {
                Code::NoMem
            }
            Self::NotInAudience(_) | Self::NotOwner(_) => Code::Privileges,
            Self::Full { .. } => Code::AllocMem,
        }
    }
}
