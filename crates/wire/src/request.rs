//! What members ask of the daemon.

use crate::area::AreaRequest;
use crate::info::{NodeParams, Privileges, VmParams};
use crate::sock::SockRequest;
use crate::trace::TraceRequest;
use serde::{Deserialize, Serialize};

/// What kind of endpoint a bind makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindKind {
    /// The process itself.
    Process,
    /// A further thread of a bound process; its thread id.
    Thread(i32),
}

/// What a member can wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwaitedEvent {
    /// The caller's own bind by another (lclbind).
    OwnBind,
    /// An endpoint of this address to exist.
    Bind(i32),
    /// The endpoint of this address to be gone.
    Unbind(i32),
    /// An endpoint to take this name.
    Name(String),
}

/// A frame from a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// First of all. Answer: `Welcome`.
    Hello {
        /// The library's [`crate::VERSION`].
        version: u32,
    },
    /// drvs_init. Answer: `Number` with the node's id.
    NodeInit(NodeParams),
    /// drvs_end. Answer: `Done`, then the daemon leaves.
    NodeEnd,
    /// Answer: `Node`.
    NodeInfo,
    /// vm_init. Answer: `Vm`.
    VmInit(VmParams),
    /// vm_end. Answer: `Done` when all members have gone.
    VmEnd(i32),
    /// Answer: `Vm`.
    VmInfo(i32),
    /// Answer: `Vm`.
    VmFind(String),
    /// Answer: `Vms`.
    VmList,
    /// Binds this connection's process or thread. Answer: `Bound`, with desk,
    /// status page and hints; it counts when `Mapped` has been answered.
    Bind {
        /// The VM.
        vm: i32,
        /// The slot; the lowest free user slot where none is given.
        slot: Option<i32>,
        /// What is bound.
        kind: BindKind,
    },
    /// The pages of `Bound` or `Reattached` are mapped. Answer: `Done`.
    Mapped,
    /// Binds another process (lclbind). Answer: `Number`, its address.
    BindOther {
        /// The VM.
        vm: i32,
        /// The process.
        pid: i32,
        /// The slot.
        slot: i32,
    },
    /// Takes the endpoint that another made for this process. Answer: `Bound`,
    /// or `Wait` where there is none yet.
    Claim,
    /// Unbinds this connection's endpoint or another's. Answer: `Done` when it has left.
    Unbind {
        /// The VM.
        vm: i32,
        /// The endpoint.
        address: i32,
    },
    /// The endpoint has seen that another unbound it, and has left.
    Left,
    /// A link to this endpoint. Answer: `Contact`, with link, status page and
    /// hints; or `Known` where the link is in the news already.
    Contact(i32),
    /// The address of a process. Answer: `Number`.
    GetEndpoint(i32),
    /// Answer: `Number` where it is so already, else `Wait`.
    Await(AwaitedEvent),
    /// Ends the waiting for this ticket. Answer: `Done`.
    Forget(u64),
    /// Takes a name. Answer: `Done`.
    NameAttach(String),
    /// Who has this name. Answer: `Number`.
    NameLocate(String),
    /// Ends another's receive(ANY). Answer: `Done`, or the code.
    Wakeup {
        /// The VM.
        vm: i32,
        /// The endpoint.
        address: i32,
    },
    /// setpriv. Answer: `Done`.
    SetPrivileges {
        /// The VM.
        vm: i32,
        /// The endpoint.
        address: i32,
        /// What it may do from now on.
        privileges: Privileges,
    },
    /// getpriv. Answer: `Privileges`.
    GetPrivileges {
        /// The VM.
        vm: i32,
        /// The endpoint.
        address: i32,
    },
    /// src_notify: a notification in another's name. Answer: `Done`.
    NotifyFor {
        /// In whose name.
        source: i32,
        /// To whom.
        destination: i32,
    },
    /// The endpoints of a VM, from this slot on. Answer: `Endpoints`.
    Endpoints {
        /// The VM.
        vm: i32,
        /// The first slot to tell of.
        from: i32,
    },
    /// After `Reattach`: the peers of this endpoint's links. Those that have
    /// died meanwhile are in the news before the answer. Answer: `Done`.
    Recall(Vec<i32>),
    /// Hangs this endpoint's bell. Answer: `Done`, with the bell.
    OpenDoorbell,
    /// A clapper for the bell of this endpoint. Answer: `Done`, with the clapper.
    DoorbellSender(i32),
    /// Whether this endpoint's waiting has closed a circle. Answer: `Number`, 1 or 0; 2 where it
    /// seems so and another of the circle was awake: to be asked again soon.
    IsDeadlock,
    /// This endpoint wants to copy with a peer it has a link with. Answer: `Berth` once the peer
    /// has said `Berthed`, with the window where one was asked for.
    CopyGate {
        /// The peer.
        peer: i32,
        /// The peer surely waits (its request is held here), whatever its desk says yet.
        surely: bool,
        /// Whether a window is needed, through which the peer copies for itself.
        window: bool,
    },
    /// After `News::Berth`: this endpoint lies still for the peer while it waits. No answer.
    CopyGateReady {
        /// The peer.
        peer: i32,
        /// Where the probe lies in the memory of this endpoint.
        address: u64,
        /// What lies there.
        probe: [u64; 2],
    },
    /// About areas.
    Area(AreaRequest),
    /// A member of a daemon that was killed is back. Answer: `Bound`, with new
    /// desk, status page and hints for links to come.
    Reattach {
        /// Its VM.
        vm: i32,
        /// Its address.
        address: i32,
        /// Its thread, where it is one of a process's further threads.
        tid: Option<i32>,
    },
    /// As `Contact`, where the link of before never reached this endpoint (it had
    /// no descriptor or no memory for it): made anew, for both.
    Renew(i32),
    /// As `Contact`, for a call that does not wait: refused with -11 where the
    /// other has not come (back) to this daemon yet.
    ContactNow(i32),
    /// A notification for one who has not come (back) to this daemon yet: the daemon
    /// keeps it until then. Answer: `Done`; refused with -11 where the other is there.
    Notify {
        /// To whom.
        destination: i32,
        /// The pending bits, for HARDWARE and SYSTEM.
        bits: u64,
    },
    /// About tracing.
    Trace(TraceRequest),
    /// About com-sockets.
    Sock(SockRequest),
}
