//! Records of the node daemon about nodes, VMs, endpoints and areas.
//!
//! These are the library's own types: a change of the control protocol does not change them.

use m3ipc_abi::{Address, WaitState};
use m3ipc_wire as wire;
use std::collections::BTreeMap;

/// The parameters of a new node. `None` leaves the daemon's own setting. The example is at
/// [`Node::init`](crate::Node::init).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeParams {
    /// The id of the node.
    pub nodeid: Option<i32>,
    /// The number of VMs.
    pub vms: Option<i32>,
    /// The number of nodes of the system.
    pub nodes: Option<i32>,
    /// Process slots per VM.
    pub procs: Option<i32>,
    /// Task slots per VM.
    pub tasks: Option<i32>,
    /// The name of the system, of at most 15 bytes.
    pub name: Option<String>,
    /// Bytes of one copy between members. A longer copy fails with -34.
    pub max_copy_bytes: Option<u64>,
}

/// A node as it is. The example is at [`Node::info`](crate::Node::info).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NodeInfo {
    /// The id of the node.
    pub nodeid: i32,
    /// Whether the node is initialised (`drvs_init`).
    pub initialised: bool,
    /// The number of VMs it may hold.
    pub vms: i32,
    /// The number of nodes of the system.
    pub nodes: i32,
    /// Process slots per VM.
    pub procs: i32,
    /// Task slots per VM.
    pub tasks: i32,
    /// The process id of the daemon.
    pub daemon_pid: i32,
    /// The version of the daemon.
    pub version: String,
    /// Links that exist.
    pub links: u32,
    /// Endpoints that are bound.
    pub endpoints: u32,
    /// How often a daemon took over from a killed one.
    pub takeovers: u32,
    /// The name of the system.
    pub name: String,
    /// Bytes of one copy between members; `None` for any number.
    pub max_copy_bytes: Option<u64>,
}

/// The use of one quota by a user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QuotaUse {
    /// The name of the quota.
    pub name: String,
    /// The present use; of a total per VM, that in the VM with the highest use.
    pub used: u64,
    /// The limit; `None` for a user without this quota.
    pub limit: Option<u64>,
}

/// What one user holds of the daemon. The example is at [`Node::usage`](crate::Node::usage).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UserUse {
    /// The user.
    pub uid: u32,
    /// The quotas of which the user has a part.
    pub quotas: Vec<QuotaUse>,
}

impl UserUse {
    pub(crate) fn of(from: wire::UserUse) -> Self {
        Self { uid: from.uid, quotas: from.quotas.into_iter().map(QuotaUse::of).collect() }
    }
}

/// When a VM ends without a request. The example is at [`VmConfig::life`](crate::VmConfig::life).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum VmLife {
    /// Never. A request ends it, as does the end of the node.
    #[default]
    UntilEnded,
    /// With the process that created it, however that process ends. Children of it do not count.
    Creator,
    /// With its last member. A VM that nobody joined yet goes on.
    Members,
}

/// A VM as it is. The example is at [`Node::vms`](crate::Node::vms).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct VmInfo {
    /// Its id.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// The user id of its owner.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
    /// Its permission bits.
    pub mode: u16,
    /// Process slots.
    pub procs: i32,
    /// Task slots.
    pub tasks: i32,
    /// Time between SIGPIPE and SIGKILL for the members at the end of the VM, in milliseconds.
    pub grace_ms: u32,
    /// Whether copies need a lease or a grant within one user too.
    pub copy_granted: bool,
    /// Endpoints that are bound.
    pub endpoints: u32,
    /// Whether the VM is ending.
    pub ending: bool,
    /// Named domains of com-sockets and their numbers. Empty in a list of VMs.
    pub domains: BTreeMap<String, u32>,
    /// When it ends without a request.
    pub life: VmLife,
    /// The process that created it. The number may belong to another process since.
    pub creator_pid: i32,
}

/// What an endpoint waits for, as its own record says. The example is at
/// [`Node::endpoints`](crate::Node::endpoints).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct WaitInfo {
    /// What it does.
    #[cfg_attr(feature = "serde", serde(rename = "verb"))]
    pub state: WaitState,
    /// The number of the partner, or of ANY.
    pub peer: i32,
    /// Time asleep in nanoseconds; 0 while it does not sleep.
    pub for_ns: u64,
}

/// An endpoint as it is. The example is at [`Node::endpoints`](crate::Node::endpoints).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EndpointInfo {
    /// The id of its VM.
    pub vm: i32,
    /// Its slot.
    pub slot: i32,
    /// Its address.
    pub address: i32,
    /// Its process.
    pub pid: i32,
    /// Its thread, if the endpoint belongs to one thread.
    pub tid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its names.
    pub names: Vec<String>,
    /// What it waits for.
    pub wait: WaitInfo,
    /// Its links.
    pub links: u32,
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// How often it slept.
    pub slept: u64,
    /// Copies that the kernel made for it.
    pub copies_direct: u64,
    /// Copies between areas, which it made itself.
    pub copies_shared: u64,
    /// Copies through a bounce buffer.
    pub copies_served: u64,
    /// Whether it is connected to this daemon.
    pub connected: bool,
    /// The node that has it, if that is another one: the process is the proxy, and the counts are
    /// those of the stand-in here.
    pub node: Option<String>,
}

/// Another node, as the proxy of this one knows it. The example is at
/// [`Node::other_nodes`](crate::Node::other_nodes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct OtherNodeInfo {
    /// Its number in the registry.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// Whether its endpoints can be called.
    pub reachable: bool,
    /// The VMs, of those that run here and that this user may see, in which it has slots.
    pub vms: Vec<i32>,
    /// Its endpoints in these VMs that can be called from here.
    pub endpoints: u32,
}

/// The other nodes, and the proxy that connects them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct OtherNodes {
    /// The process of the proxy; `None` if no proxy is registered.
    pub proxy_pid: Option<i32>,
    /// The nodes, by number.
    pub nodes: Vec<OtherNodeInfo>,
}

/// The endpoints that may join an area. The example is at [`Node::areas`](crate::Node::areas).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum AreaAudience {
    /// The creator and this endpoint.
    Pair(i32),
    /// The creator and these endpoints.
    Set(Vec<i32>),
    /// Every member of the VM.
    Vm,
}

/// An area as it is. The example is at [`Node::areas`](crate::Node::areas).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AreaInfo {
    /// Its number in the VM.
    pub area: u32,
    /// Its address, the same in every process.
    pub base: u64,
    /// Its size limit in bytes.
    pub limit_bytes: u64,
    /// Bytes of the extents that members have.
    pub extent_bytes: u64,
    /// The address of its creator.
    pub owner: i32,
    /// The endpoints that may join.
    pub audience: AreaAudience,
    /// Whether only its creator writes.
    pub owner_writes: bool,
    /// Whether it has huge pages of the system's pool.
    pub huge: bool,
    /// Whether it is closed to new members.
    pub closed: bool,
    /// Its block numbers.
    pub numbers: u32,
    /// The addresses of its members.
    pub members: Vec<i32>,
}

/// The privileges of an endpoint. The example is at
/// [`Node::set_privileges`](crate::Node::set_privileges).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Privileges {
    /// The calls it may make: one bit per call of the contract.
    pub traps: u32,
    /// The slots it may send to; `None` is all.
    pub ipc_to: Option<Vec<i32>>,
    /// The slots it may receive from; `None` is all.
    pub ipc_from: Option<Vec<i32>>,
    /// Its level, for the use of programs.
    pub level: i32,
}

/// The identity of a peer. The node daemon vouches for it. The example is at
/// [`Endpoint::latest_peer`](crate::Endpoint::latest_peer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its address.
    pub address: Address,
    /// Its process.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Declares the conversion of a record of the protocol into a type of this file, field by field.
macro_rules! same_fields {
    ($($from:ty => $into:ident { $($field:ident),* $(; $deep:ident: $of:path)? })*) => {$(
        impl $into {
            pub(crate) fn of(from: $from) -> Self {
                Self { $($field: from.$field,)* $($deep: $of(from.$deep),)? }
            }
        }
    )*};
}

same_fields! {
    wire::NodeInfo => NodeInfo {
        nodeid, initialised, vms, nodes, procs, tasks, daemon_pid, version, links, endpoints,
        takeovers, name, max_copy_bytes
    }
    wire::VmInfo => VmInfo {
        id, name, uid, gid, mode, procs, tasks, grace_ms, copy_granted, endpoints, ending, domains,
        creator_pid; life: VmLife::of
    }
    wire::QuotaUse => QuotaUse { name, used, limit }
    wire::WaitInfo => WaitInfo { state, peer, for_ns }
    wire::EndpointInfo => EndpointInfo {
        vm, slot, address, pid, tid, uid, gid, names, links, sent, received, slept, copies_direct,
        copies_shared, copies_served, connected, node; wait: WaitInfo::of
    }
    wire::OtherNodeInfo => OtherNodeInfo { id, name, reachable, vms, endpoints }
    wire::AreaInfo => AreaInfo {
        area, base, limit_bytes, extent_bytes, owner, owner_writes, huge, closed, numbers, members;
        audience: AreaAudience::of
    }
    wire::Privileges => Privileges { traps, ipc_to, ipc_from, level }
}

impl NodeParams {
    pub(crate) fn to_wire(&self) -> wire::NodeParams {
        let Self { nodeid, vms, nodes, procs, tasks, ref name, max_copy_bytes } = *self;
        wire::NodeParams { nodeid, vms, nodes, procs, tasks, name: name.clone(), max_copy_bytes }
    }
}

impl Privileges {
    pub(crate) fn into_wire(self) -> wire::Privileges {
        let Self { traps, ipc_to, ipc_from, level } = self;
        wire::Privileges { traps, ipc_to, ipc_from, level }
    }
}

impl VmLife {
    fn of(from: wire::VmLife) -> Self {
        match from {
            wire::VmLife::UntilEnded => Self::UntilEnded,
            wire::VmLife::Creator => Self::Creator,
            wire::VmLife::Members => Self::Members,
        }
    }

    pub(crate) fn to_wire(self) -> wire::VmLife {
        match self {
            Self::UntilEnded => wire::VmLife::UntilEnded,
            Self::Creator => wire::VmLife::Creator,
            Self::Members => wire::VmLife::Members,
        }
    }
}

impl AreaAudience {
    fn of(from: wire::AreaAudience) -> Self {
        match from {
            wire::AreaAudience::Pair(other) => Self::Pair(other),
            wire::AreaAudience::Set(others) => Self::Set(others),
            wire::AreaAudience::Vm => Self::Vm,
        }
    }
}
