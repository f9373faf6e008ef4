//! The daemon's replies.

use crate::area::AreaReply;
use crate::event::DaemonEvent;
use crate::info::{EndpointInfo, NodeInfo, PeerInfo, Privileges, UserUse, VmInfo};
use crate::nodes::OtherNodeInfo;
use crate::sock::SockReply;
use serde::{Deserialize, Serialize};

/// The reason for a refused request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The code of the contract, negative.
    pub code: i32,
    /// The cause, for people.
    pub why: String,
}

/// The reply to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The daemon has the same version.
    Welcome {
        /// The daemon's [`crate::VERSION`].
        version: u32,
    },
    /// Done, without a result.
    Done,
    /// A number: an id, an address, or a truth value.
    Number(i32),
    /// A node.
    Node(NodeInfo),
    /// A VM.
    Vm(VmInfo),
    /// VMs.
    Vms(Vec<VmInfo>),
    /// The endpoint exists. Three descriptors: control page, status page, ready bitmap.
    Bound {
        /// Its VM.
        vm: i32,
        /// The VM's name.
        vm_name: String,
        /// Its address.
        address: i32,
        /// Its allowed calls: a bit per verb.
        traps: u32,
        /// Whether copies need a lease or a grant also within one user.
        copy_granted: bool,
        /// Bytes of one copy; `None` for any number.
        max_copy_bytes: Option<u64>,
    },
    /// The peer parks at its copy gate while it waits. A descriptor of the bounce buffer, if the
    /// request asked for it.
    CopyGate {
        /// Address of the probe value in the peer's memory.
        address: u64,
        /// The probe value. A requester that reads it there has found the peer's process and may
        /// copy.
        probe: [u64; 2],
    },
    /// The link exists. Three descriptors: link, the peer's status page, its ready bitmap.
    Contact(PeerInfo),
    /// The peer made the link. Its event precedes this reply.
    Known,
    /// The event has not happened yet. [`DaemonEvent::Ready`] will carry this ticket.
    Wait(u64),
    /// Privileges.
    Privileges(Privileges),
    /// Endpoints of a VM.
    Endpoints {
        /// The endpoints.
        list: Vec<EndpointInfo>,
        /// The slot of the next request; `None` at the end.
        next: Option<i32>,
    },
    /// A reply about areas.
    Area(AreaReply),
    /// Not done.
    Refused(Refusal),
    /// A reply about com-sockets.
    Sock(SockReply),
    /// The use and the quotas of some users.
    Usage {
        /// By user id.
        users: Vec<UserUse>,
        /// The user id to ask from for more.
        next: Option<u32>,
    },
    /// The endpoint is on another node, which cannot be reached; the reason, for people.
    Unreachable(String),
    /// What is known of other nodes.
    OtherNodes {
        /// The process of the proxy; `None` if no proxy is registered.
        proxy_pid: Option<i32>,
        /// The nodes by number.
        list: Vec<OtherNodeInfo>,
    },
}

/// A frame from the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromDaemon {
    /// The reply to the open request of this connection.
    Reply(Reply),
    /// A daemon event.
    Event(DaemonEvent),
}
