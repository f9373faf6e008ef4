//! What the daemon answers.

use crate::area::AreaReply;
use crate::event::DaemonEvent;
use crate::info::{EndpointInfo, NodeInfo, PeerInfo, Privileges, VmInfo};
use crate::sock::SockReply;
use serde::{Deserialize, Serialize};

/// Why the daemon does not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The code of the contract, negative.
    pub code: i32,
    /// The cause, for people.
    pub why: String,
}

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The daemon speaks the same version.
    Welcome {
        /// The daemon's [`crate::VERSION`].
        version: u32,
    },
    /// Done, with nothing to tell.
    Done,
    /// A number: an id, an address, or a truth value.
    Number(i32),
    /// A node.
    Node(NodeInfo),
    /// A VM.
    Vm(VmInfo),
    /// VMs.
    Vms(Vec<VmInfo>),
    /// The endpoint is made; three descriptors: desk, status page, hints.
    Bound {
        /// Its VM.
        vm: i32,
        /// The VM's name.
        vm_name: String,
        /// Its address.
        address: i32,
        /// What it may do: a bit per verb.
        traps: u32,
        /// Whether copies need a lease or a grant also within one user.
        copy_granted: bool,
    },
    /// The peer lies still for copies while it waits; a descriptor of the window, where one was asked for.
    Berth {
        /// Where the peer's probe lies in its memory.
        address: u64,
        /// What lies there: who can read it there has found the peer's process, and may copy.
        probe: [u64; 2],
    },
    /// The link is made; three descriptors: link, the peer's status page, its hints.
    Contact(PeerInfo),
    /// The link was made by the peer; it lies in the news before this answer.
    Known,
    /// It is not so yet: `News::Ready` will carry this ticket.
    Wait(u64),
    /// Privileges.
    Privileges(Privileges),
    /// Endpoints, and the slot to ask from next.
    Endpoints {
        /// The endpoints.
        list: Vec<EndpointInfo>,
        /// The next slot, or none.
        next: Option<i32>,
    },
    /// About areas.
    Area(AreaReply),
    /// Not done.
    Refused(Refusal),
    /// About com-sockets.
    Sock(SockReply),
}

/// A frame from the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromDaemon {
    /// The answer to the one open request of this connection.
    Reply(Reply),
    /// Something that happened.
    News(DaemonEvent),
}
