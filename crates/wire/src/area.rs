//! Frames about areas.

use m3ipc_abi::Extent;
use serde::{Deserialize, Serialize};

/// The endpoints that may join an area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaAudience {
    /// Its owner and this endpoint.
    Pair(i32),
    /// Its owner and these endpoints.
    Set(Vec<i32>),
    /// Every member of the VM.
    Vm,
}

/// The parameters of an area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaParams {
    /// Its highest size, in bytes.
    pub limit_bytes: u64,
    /// The endpoints that may join.
    pub audience: AreaAudience,
    /// Whether only its owner writes. Otherwise the holder of a block writes it.
    pub owner_writes: bool,
    /// Whether it consists of huge pages (hugetlb).
    pub huge: bool,
    /// Whether its addresses are of the range that sanitizers and valgrind leave free, if that has
    /// room.
    pub low: bool,
}

/// The present state of an area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaInfo {
    /// Its number in the VM.
    pub area: u32,
    /// Its address in every process.
    pub base: u64,
    /// Its highest size, in bytes.
    pub limit_bytes: u64,
    /// Bytes in the extents of members.
    pub extent_bytes: u64,
    /// The endpoint that made it.
    pub owner: i32,
    /// The endpoints that may join.
    pub audience: AreaAudience,
    /// Whether only its owner writes.
    pub owner_writes: bool,
    /// Whether it consists of huge pages.
    pub huge: bool,
    /// Whether no further member may join.
    pub closed: bool,
    /// Number of its block numbers.
    pub numbers: u32,
    /// Its members.
    pub members: Vec<i32>,
}

/// A request about areas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaRequest {
    /// Makes an area. Reply: `Joined`, with its memory and the caller's ledger.
    Create(AreaParams),
    /// Joins an area. Reply: as for `Create`; then events of extents and members.
    Attach(u32),
    /// Memory and ledger of `Joined` are mapped. Reply: `Done`.
    Mapped(u32),
    /// The index of another member, so that the caller can hand blocks to it. Reply: `Number`.
    Index {
        /// The area.
        area: u32,
        /// The member.
        address: i32,
    },
    /// A further extent for the caller. Reply: `Extent`.
    Extent {
        /// The area.
        area: u32,
        /// Least length, in bytes.
        needed: u64,
        /// Preferred length, in bytes.
        wanted: u64,
        /// Whether the extent is for long-lived blocks, from the back of the area.
        from_back: bool,
    },
    /// Returns an extent of the caller in which no block is in use. Reply: `Done`.
    Release {
        /// The area.
        area: u32,
        /// The first byte of the extent.
        offset: u64,
    },
    /// Leaves an area. Reply: `Done`.
    Detach(u32),
    /// Lets no further member join. Reply: `Done`.
    Close(u32),
    /// After a takeover: asks for the events that the former daemon may not have sent. Reply:
    /// `Done`.
    Recall(u32),
    /// No living member holds a block of this dead member, by the ledgers that the caller sees. No
    /// reply.
    Orphaned {
        /// The area.
        area: u32,
        /// The dead member's index.
        index: u16,
    },
    /// The areas of a VM. Reply: `Areas`.
    List {
        /// The VM.
        vm: i32,
        /// List areas above this number.
        after: u32,
    },
}

/// A reply about areas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaReply {
    /// The caller may map the area. Two descriptors: its memory, the caller's ledger.
    Joined {
        /// The area.
        info: AreaInfo,
        /// The caller's index.
        index: u16,
    },
    /// An extent for the caller.
    Extent(Extent),
    /// Areas of a VM.
    Areas {
        /// The areas.
        list: Vec<AreaInfo>,
        /// The `after` of the next request; `None` at the end.
        next: Option<u32>,
    },
}

/// An event of an area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AreaEvent {
    /// A member has joined. One descriptor: its ledger.
    Member {
        /// The area.
        area: u32,
        /// Its index.
        index: u16,
        /// Its address.
        address: i32,
    },
    /// A member may join. Other members can hand blocks to it already.
    Expected {
        /// The area.
        area: u32,
        /// Its index.
        index: u16,
        /// Its address.
        address: i32,
    },
    /// A member has left, or died.
    Left {
        /// The area.
        area: u32,
        /// Its index.
        index: u16,
        /// Whether its endpoint has ended.
        died: bool,
    },
    /// A member has an extent.
    Extent {
        /// The area.
        area: u32,
        /// The extent.
        extent: Extent,
    },
    /// The daemon took over and cannot read the ledgers. It asks for the orphaned extents of dead
    /// members.
    FindOrphans {
        /// The area.
        area: u32,
    },
    /// Another member found no room for an extent: the receiver of this event returns its extents
    /// if it uses none of them.
    RoomWanted {
        /// The area.
        area: u32,
    },
    /// An extent is free again: its member died, or returned it.
    ExtentGone {
        /// The area.
        area: u32,
        /// Its first byte.
        offset: u64,
    },
}
