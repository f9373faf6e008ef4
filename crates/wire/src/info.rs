//! Records that several frames carry.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a node is started with; what is not given is the daemon's own setting.
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
}

/// A node as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its id.
    pub nodeid: i32,
    /// Whether drvs_init has been called.
    pub initialised: bool,
    /// VMs it may hold.
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
    /// Links that live.
    pub links: u32,
    /// Endpoints that are bound.
    pub endpoints: u32,
    /// How often a daemon has taken over from a killed one.
    pub takeovers: u32,
}

/// Domains of one VM that have names, at most.
pub const VM_DOMAINS_MAX: usize = 32;

/// What a VM is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmParams {
    /// Its id; the lowest free one where none is given.
    pub id: Option<i32>,
    /// Its name, under 16 bytes.
    pub name: String,
    /// Process slots; the node's where none is given.
    pub procs: Option<i32>,
    /// Task slots; the node's where none is given.
    pub tasks: Option<i32>,
    /// Who may join: permission bits of owner, group and others (4 see, 2 system slots, 1 bind).
    pub mode: u16,
    /// Group; the creator's where none is given.
    pub gid: Option<u32>,
    /// How long members have after SIGPIPE before SIGKILL, in milliseconds.
    pub grace_ms: u32,
    /// Whether copies need a lease or a grant also within one user.
    pub copy_granted: bool,
    /// Domains of com-sockets that have names, and their numbers; at most [`VM_DOMAINS_MAX`].
    pub domains: BTreeMap<String, u32>,
}

/// A VM as it is.
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
    /// How long members have after SIGPIPE before SIGKILL, in milliseconds.
    pub grace_ms: u32,
    /// Whether copies need a lease or a grant also within one user.
    pub copy_granted: bool,
    /// Bound endpoints.
    pub endpoints: u32,
    /// Whether it is ending.
    pub ending: bool,
    /// Domains of com-sockets that have names, and their numbers; not told in a list of VMs.
    pub domains: BTreeMap<String, u32>,
}

/// What an endpoint waits for, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitInfo {
    /// The call it is in, or `running`.
    pub verb: String,
    /// The partner's number, or ANY.
    pub peer: i32,
    /// For how long, in nanoseconds; 0 while it does not sleep.
    pub for_ns: u64,
}

/// An endpoint as it is.
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
    /// Its thread, where it is one of a process's further threads.
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
    /// Times it slept.
    pub slept: u64,
    /// Copies it asked for that the kernel made.
    pub copies_direct: u64,
    /// Copies between areas, which it made itself.
    pub copies_shared: u64,
    /// Copies it asked for that went through windows or a buffer.
    pub copies_served: u64,
    /// Whether it is connected to this daemon.
    pub connected: bool,
}

/// The other party of a link, as the daemon vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Its address.
    pub address: i32,
    /// Its process.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The index of the link in one's own hints.
    pub index_here: u32,
    /// The index of the link in the peer's hints.
    pub index_there: u32,
    /// What one may do to the peer: a bit per kind of message.
    pub may_send: u32,
    /// What the peer may do to one.
    pub may_receive: u32,
}

impl PeerInfo {
    /// The bit of a notification in the masks; those of messages are `1 << kind`.
    pub const MAY_NOTIFY: u32 = 1;
    /// All bits.
    pub const MAY_ALL: u32 = 0x1f;
}

/// What an endpoint may do: the privileges of the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges {
    /// Calls it may make: a bit per verb.
    pub traps: u32,
    /// Slots it may send to; `None` is all.
    pub ipc_to: Option<Vec<i32>>,
    /// Slots it may receive from; `None` is all.
    pub ipc_from: Option<Vec<i32>>,
    /// Its level, for the programs' own use.
    pub level: i32,
}

/// Where a bell hangs: nothing but that it does; the descriptor travels beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorbellInfo {
    /// The address it belongs to.
    pub address: i32,
}
