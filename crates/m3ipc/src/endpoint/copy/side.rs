//! The sides of a copy: own memory, or a location in the memory of a party.

use super::grant_table::Grant;
use m3ipc_abi::Code;
use m3ipc_link::CopyCommand;
use m3ipc_sys::{CopySource, CopyTarget};

/// A location in the memory of a party. The example is at
/// [`Endpoint::copy_between`](crate::Endpoint::copy_between).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// An address of the party.
    At(u64),
    /// An offset in bytes into a grant of the party.
    Granted(Grant, u64),
    /// An offset in bytes into the memory that the party leased for its present request: into its
    /// leases that allow the direction of the copy, one after the other. A copy lies within one
    /// lease.
    Leased(u64),
}

/// The number that stands for the leases of a party where else that of a grant stands. No grant has
/// it: the generation of a grant is above 0.
pub(super) const LEASES: u64 = 1;

impl From<u64> for Location {
    fn from(address: u64) -> Self {
        Self::At(address)
    }
}

impl Location {
    /// The space of a copy command and the address in it.
    pub(super) fn parts(self) -> (u64, u64) {
        match self {
            Self::At(address) => (0, address),
            Self::Granted(grant, offset) => (grant.to_u64(), offset),
            Self::Leased(offset) => (LEASES, offset),
        }
    }
}

/// The requester's own memory as one side of a copy.
#[derive(Debug)]
pub(super) enum OwnMemory<'a> {
    From(&'a CopySource<'a>),
    Into(&'a mut CopyTarget<'a>),
}

impl OwnMemory<'_> {
    /// The role of the party on the other side.
    pub(super) fn role(&self) -> Role {
        match self {
            Self::From(_) => Role::Destination,
            Self::Into(_) => Role::Source,
        }
    }

    /// The length in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::From(bytes) => bytes.bytes(),
            Self::Into(buffer) => buffer.bytes(),
        }
    }
}

/// The role of a party in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Source,
    Destination,
}

impl Role {
    /// The code for the death of a party in this role.
    pub(super) fn died(self) -> Code {
        match self {
            Self::Source => Code::SrcDied,
            Self::Destination => Code::DstDied,
        }
    }
}

/// One side of a copy.
#[derive(Debug)]
pub(super) enum CopySide<'a> {
    /// Own memory, the source.
    Source(CopySource<'a>),
    /// Own memory, the destination.
    Target(CopyTarget<'a>),
    /// A party.
    Party {
        /// Its link.
        index: u32,
        /// The location in its memory.
        location: Location,
    },
}

/// A side with its way of copying.
#[derive(Debug)]
pub(super) enum CopyEnd<'a> {
    Source(CopySource<'a>),
    Target(CopyTarget<'a>),
    Direct {
        index: u32,
        address: u64,
    },
    /// Memory of an area, at the same address here.
    InArea {
        index: u32,
        address: u64,
    },
    Served {
        index: u32,
        command: CopyCommand,
    },
}

impl CopyEnd<'_> {
    /// The link of the party; `None` for own memory.
    pub(super) fn index(&self) -> Option<u32> {
        match self {
            Self::Direct { index, .. }
            | Self::InArea { index, .. }
            | Self::Served { index, .. } => Some(*index),
            Self::Source(_) | Self::Target(_) => None,
        }
    }
}
