//! Records: every change of the tables is one of these.

use m3ipc_abi::{Address, Extent, NodeLimits};
use m3ipc_wire::Privileges;
use serde::{Deserialize, Serialize};

use super::area::{Area, AreaMembership, LatestArea};
use super::identity::{Member, MemberId, MemberKind};
use super::serde_abi;
use super::vm::VmSpec;

/// What `drvs_init` sets besides the id and the limits of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTerms {
    /// The name of the system.
    pub name: String,
    /// Bytes of one copy; `None` for any number.
    pub max_copy_bytes: Option<u64>,
    /// Whether a call of `drvs_init` began the node. It then stays until `drvs_end`.
    pub by_call: bool,
}

impl Default for NodeTerms {
    fn default() -> Self {
        Self { name: "m3ipc".to_owned(), max_copy_bytes: None, by_call: false }
    }
}

/// One change of the tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The node began. This is always the first record.
    Node {
        /// Its id.
        nodeid: i32,
        /// Its limits.
        #[serde(with = "serde_abi::NodeLimitsForm")]
        limits: NodeLimits,
        /// What `drvs_init` set besides.
        terms: NodeTerms,
    },
    /// A VM began; `spec.id` and `spec.nodes` are filled in.
    VmInit(VmSpec),
    /// A VM began to end.
    VmEnding(i32),
    /// A VM ended.
    VmEnd(i32),
    /// The latest address of a free slot (in snapshots).
    Generation(MemberId),
    /// An endpoint was bound.
    Bind {
        /// The endpoint.
        id: MemberId,
        /// The process or thread behind it.
        member: Member,
        /// The call that bound it.
        kind: MemberKind,
        /// The member's user id.
        uid: u32,
        /// The member's group id.
        gid: u32,
        /// The nonce of the request, if the member bound itself.
        nonce: Option<u64>,
        /// The number of this bind among all of the node.
        life: u64,
    },
    /// An endpoint ended, with its names, privileges and links.
    Unbind(MemberId),
    /// An endpoint got a name.
    Name {
        /// The endpoint.
        id: MemberId,
        /// The name.
        name: String,
    },
    /// An endpoint reserved a name, or gave its reservation up.
    Reserve {
        /// The endpoint.
        id: MemberId,
        /// The name.
        name: String,
        /// The key, if it is reserved.
        key: Option<u64>,
    },
    /// An endpoint got privileges.
    Priv {
        /// The endpoint.
        id: MemberId,
        /// All of its privileges.
        privileges: Privileges,
    },
    /// A link was made.
    Link {
        /// The party that requested the link. Its user's quota is charged.
        requester: MemberId,
        /// The index of the link at the requester.
        requester_index: u32,
        /// The other party.
        #[serde(with = "serde_abi::address")]
        peer: Address,
        /// The index of the link at the other party.
        peer_index: u32,
    },
    /// An area was created.
    Area {
        /// Its VM.
        vm: i32,
        /// Its state.
        area: Area,
    },
    /// A member of an area has a new state, or is new.
    AreaMember {
        /// Its VM.
        vm: i32,
        /// The number of the area.
        area: u32,
        /// The index of the member.
        index: u16,
        /// The member.
        member: AreaMembership,
    },
    /// An area takes no new members.
    AreaClosed {
        /// Its VM.
        vm: i32,
        /// The number of the area.
        area: u32,
    },
    /// An area ended with its last member.
    AreaEnd {
        /// Its VM.
        vm: i32,
        /// Its number.
        area: u32,
    },
    /// An extent was given to a member of an area.
    Extent {
        /// Its VM.
        vm: i32,
        /// The number of the area.
        area: u32,
        /// The extent.
        extent: Extent,
    },
    /// Extents of an area were freed.
    ExtentsGone {
        /// Its VM.
        vm: i32,
        /// The number of the area.
        area: u32,
        /// The offsets of the extents, in order.
        offsets: Vec<u64>,
    },
    /// The latest area of a VM (in snapshots).
    LatestArea {
        /// Its VM.
        vm: i32,
        /// The area.
        latest: LatestArea,
    },
    /// A link was removed while both parties lived.
    Unlink {
        /// One party.
        id: MemberId,
        /// The other party.
        #[serde(with = "serde_abi::address")]
        peer: Address,
    },
    /// The number of the latest bind of the node (in snapshots).
    Lives(u64),
}
