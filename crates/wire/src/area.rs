//! Areas in frames.

use serde::{Deserialize, Serialize};

/// Who may join an area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaAudience {
    /// Its maker and this endpoint.
    Pair(i32),
    /// Its maker and these endpoints.
    Set(Vec<i32>),
    /// Every member of the VM.
    Vm,
}

/// What an area is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaParams {
    /// Its size at most, in bytes.
    pub limit_bytes: u64,
    /// Who may join.
    pub audience: AreaAudience,
    /// Only its maker writes; else whoever holds a block.
    pub owner_writes: bool,
    /// Made of huge pages (hugetlb).
    pub huge: bool,
}

/// An area as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaInfo {
    /// Its number in the VM.
    pub area: u32,
    /// Where it is mapped, in every process.
    pub base: u64,
    /// Its size at most, in bytes.
    pub limit_bytes: u64,
    /// Bytes given to members to allocate in.
    pub extent_bytes: u64,
    /// Who made it.
    pub owner: i32,
    /// Who may join.
    pub audience: AreaAudience,
    /// Only its maker writes.
    pub owner_writes: bool,
    /// Made of huge pages.
    pub huge: bool,
    /// Nobody new may join.
    pub closed: bool,
    /// Block numbers that it has.
    pub numbers: u32,
    /// Endpoints that take part.
    pub members: Vec<i32>,
}

/// A piece of an area in which one member allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaExtent {
    /// The member that allocates in it.
    pub home: u16,
    /// Where it begins, in bytes from the area's beginning.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The first of its block numbers.
    pub first_number: u32,
    /// How many block numbers it has.
    pub numbers: u32,
    /// The generation that its numbers begin with.
    pub generation: u32,
}

/// What members ask about areas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaRequest {
    /// A new area. Answer: `Joined`, with its memory and the caller's ledger.
    Create(AreaParams),
    /// To take part. Answer: as of `Create`; then news of extents and members.
    Attach(u32),
    /// Memory and ledger of `Joined` are mapped. Answer: `Done`.
    Mapped(u32),
    /// The index of another, so that blocks can be given to it. Answer: `Number`.
    Index {
        /// The area.
        area: u32,
        /// Who.
        address: i32,
    },
    /// More room to allocate in. Answer: `Extent`.
    Extent {
        /// The area.
        area: u32,
        /// What is needed in one piece, in bytes.
        needed: u64,
        /// What would be welcome, in bytes.
        wanted: u64,
        /// For blocks that live long.
        from_back: bool,
    },
    /// The caller takes part no longer. Answer: `Done`.
    Detach(u32),
    /// Nobody new may join. Answer: `Done`.
    Close(u32),
    /// After a takeover: what a predecessor may not have told of this area, as news. Answer: `Done`.
    Recall(u32),
    /// Nobody living uses what this dead member allocated, as the caller sees it. No answer.
    Orphaned {
        /// The area.
        area: u32,
        /// The dead member's index.
        index: u16,
    },
    /// The areas of a VM. Answer: `Areas`.
    List {
        /// The VM.
        vm: i32,
        /// Those above this number.
        after: u32,
    },
}

/// What the daemon answers about areas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaReply {
    /// The caller may map the area; two descriptors: its memory, the caller's ledger.
    Joined {
        /// The area.
        info: AreaInfo,
        /// The caller's index.
        index: u16,
    },
    /// Room to allocate in.
    Extent(AreaExtent),
    /// Areas, and the number to ask on from.
    Areas {
        /// The areas.
        list: Vec<AreaInfo>,
        /// The next to ask from, or none.
        next: Option<u32>,
    },
}

/// What the daemon tells of areas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaEvent {
    /// A member has joined; one descriptor: its ledger.
    Member {
        /// The area.
        area: u32,
        /// Its index.
        index: u16,
        /// Who it is.
        address: i32,
    },
    /// A member may join; blocks can be given to it.
    Expected {
        /// The area.
        area: u32,
        /// Its index.
        index: u16,
        /// Who it is.
        address: i32,
    },
    /// A member has left, or died.
    Left {
        /// The area.
        area: u32,
        /// Its index.
        index: u16,
    },
    /// A member has got an extent.
    Extent {
        /// The area.
        area: u32,
        /// The extent.
        extent: AreaExtent,
    },
    /// The daemon has not made the area and cannot look: which extents of the dead are deserted?
    FindOrphans {
        /// The area.
        area: u32,
    },
    /// The extent of a dead member is free again.
    ExtentGone {
        /// The area.
        area: u32,
        /// Where it began, in bytes.
        offset: u64,
    },
}
