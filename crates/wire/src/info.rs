//! Records that several frames carry.

use m3ipc_abi::WaitState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The parameters of a node. The daemon's settings replace missing ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeParams {
    /// The node's id.
    pub nodeid: Option<i32>,
    /// VMs on the node.
    pub vms: Option<i32>,
    /// Nodes of the system.
    pub nodes: Option<i32>,
    /// Process slots per VM.
    pub procs: Option<i32>,
    /// Task slots per VM.
    pub tasks: Option<i32>,
    /// The name of the system, under 16 bytes.
    pub name: Option<String>,
    /// Bytes of one copy; `None` for any number.
    pub max_copy_bytes: Option<u64>,
}

/// The present state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its id.
    pub nodeid: i32,
    /// Whether drvs_init has been called.
    pub initialised: bool,
    /// Highest number of VMs.
    pub vms: i32,
    /// Nodes of the system.
    pub nodes: i32,
    /// Process slots per VM.
    pub procs: i32,
    /// Task slots per VM.
    pub tasks: i32,
    /// The daemon's process id.
    pub daemon_pid: i32,
    /// The daemon's version.
    pub version: String,
    /// Present links.
    pub links: u32,
    /// Bound endpoints.
    pub endpoints: u32,
    /// How often a daemon has taken over from a killed daemon.
    pub takeovers: u32,
    /// The name of the system.
    pub name: String,
    /// Bytes of one copy; `None` for any number.
    pub max_copy_bytes: Option<u64>,
}

/// The use of one quota by a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaUse {
    /// The name of the quota.
    pub name: String,
    /// The present use; of a total per VM, that in the VM with the highest use.
    pub used: u64,
    /// The limit; `None` for a user without this quota.
    pub limit: Option<u64>,
}

/// What one user holds of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserUse {
    /// The user.
    pub uid: u32,
    /// The quotas of which the user has a part.
    pub quotas: Vec<QuotaUse>,
}

/// Highest number of named domains of one VM.
pub const VM_DOMAINS_MAX: usize = 32;

/// When a VM ends without a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VmLife {
    /// Never.
    #[default]
    UntilEnded,
    /// With the process that created it.
    Creator,
    /// With its last member.
    Members,
}

/// The parameters of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmParams {
    /// Its id; `None` for the lowest free id.
    pub id: Option<i32>,
    /// Its name, under 16 bytes.
    pub name: String,
    /// Process slots; `None` for the node's number.
    pub procs: Option<i32>,
    /// Task slots; `None` for the node's number.
    pub tasks: Option<i32>,
    /// Permission bits of owner, group and others (4 see, 2 system slots, 1 bind).
    pub mode: u16,
    /// Group; `None` for the creator's group.
    pub gid: Option<u32>,
    /// Time that members have between SIGPIPE and SIGKILL, in milliseconds.
    pub grace_ms: u32,
    /// Whether copies need a lease or a grant also within one user.
    pub copy_granted: bool,
    /// Named domains of com-sockets and their numbers; at most [`VM_DOMAINS_MAX`].
    pub domains: BTreeMap<String, u32>,
    /// The users of named domains, by name. Others are for the owner of the VM.
    pub domain_users: BTreeMap<String, u32>,
    /// When it ends without a request.
    pub life: VmLife,
}

/// The present state of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmInfo {
    /// Its id.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// Its owner's user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
    /// Its permission bits.
    pub mode: u16,
    /// Process slots.
    pub procs: i32,
    /// Task slots.
    pub tasks: i32,
    /// Time that members have between SIGPIPE and SIGKILL, in milliseconds.
    pub grace_ms: u32,
    /// Whether copies need a lease or a grant also within one user.
    pub copy_granted: bool,
    /// Bound endpoints.
    pub endpoints: u32,
    /// Whether it is ending.
    pub ending: bool,
    /// Named domains of com-sockets and their numbers. Empty in a list of VMs.
    pub domains: BTreeMap<String, u32>,
    /// When it ends without a request.
    pub life: VmLife,
    /// The process that created it.
    pub creator_pid: i32,
}

/// The wait of an endpoint, by its own record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitInfo {
    /// What it does.
    pub state: WaitState,
    /// The partner's number, or ANY.
    pub peer: i32,
    /// Duration of its sleep so far, in nanoseconds; 0 while it does not sleep.
    pub for_ns: u64,
}

/// The present state of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointInfo {
    /// Its VM.
    pub vm: i32,
    /// Its slot.
    pub slot: i32,
    /// Its address.
    pub address: i32,
    /// Its process.
    pub pid: i32,
    /// Its thread, if it is a further thread of a process.
    pub tid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its names.
    pub names: Vec<String>,
    /// Its wait.
    pub wait: WaitInfo,
    /// Its links.
    pub links: u32,
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// Sleeps.
    pub slept: u64,
    /// Its copies that the kernel made.
    pub copies_direct: u64,
    /// Its copies between areas, which it made itself.
    pub copies_shared: u64,
    /// Its copies through a bounce buffer.
    pub copies_served: u64,
    /// Whether it is connected to this daemon.
    pub connected: bool,
    /// The node that has it, if that is another one: here is its stand-in.
    pub node: Option<String>,
}

/// The other party of a link, as the daemon vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Its address.
    pub address: i32,
    /// Its process.
    pub pid: i32,
    /// The number of its bind: a later endpoint of the address has another.
    pub life: u64,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The index of the link in the ready bitmap of the addressee.
    pub index_here: u32,
    /// The index of the link in the ready bitmap of the peer.
    pub index_there: u32,
    /// The allowed messages to the peer: a bit per kind of message.
    pub may_send: u32,
    /// The allowed messages from the peer: a bit per kind of message.
    pub may_receive: u32,
}

impl PeerInfo {
    /// The bit of a notification in the masks. The bit of a message is `1 << kind`.
    pub const MAY_NOTIFY: u32 = 1;
    /// The bit, among the messages to a peer, of a peer that is a proxy: it may hold messages.
    pub const MAY_HOLD: u32 = 1 << 16;
}

/// The peer of a link that a member has since an earlier daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecalledPeer {
    /// Its address.
    pub address: i32,
    /// [`PeerInfo::life`] of the link.
    pub life: u64,
    /// Whether it was the stand-in of an endpoint of another node.
    pub was_stand_in: bool,
}

/// The privileges of an endpoint, as the contract names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// Allowed calls: a bit per [`m3ipc_abi::Verb`].
    pub traps: u32,
    /// Slots to which it may send; `None` for all.
    pub ipc_to: Option<Vec<i32>>,
    /// Slots from which it may receive; `None` for all.
    pub ipc_from: Option<Vec<i32>>,
    /// Its level. The programs choose its meaning.
    pub level: i32,
}

/// The endpoint of a doorbell. The descriptor travels beside the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorbellInfo {
    /// The owner's address.
    pub address: i32,
}
