//! The requests of members.

use crate::area::AreaRequest;
use crate::info::{NodeParams, Privileges, RecalledPeer, VmParams};
use crate::nodes::{BackedSlot, NodesRequest};
use crate::sock::SockRequest;
use crate::trace::TraceRequest;
use serde::{Deserialize, Serialize};

/// The kind of endpoint that a bind makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindKind {
    /// The process itself.
    Process,
    /// A further thread of a bound process; its thread id.
    Thread(i32),
    /// A further endpoint of a bound process, which belongs to no thread.
    Additional,
    /// The process itself, in a slot that few programs ask for: the last free one of this node. The
    /// slot in the request is left free.
    Anchor,
}

/// An event that a member can await.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwaitedEvent {
    /// The caller's own bind by another process (lclbind).
    OwnBind,
    /// An endpoint of this address exists.
    Bind(i32),
    /// The endpoint of this address is gone.
    Unbind(i32),
    /// An endpoint has this name.
    Name(String),
    /// This slot is at this node, as its home has it or its backup took it. The caller needs no
    /// endpoint. Without a proxy this waits for one.
    Place {
        /// The slot.
        slot: BackedSlot,
        /// Whether an additional endpoint of the caller shall have it, not the process.
        is_additional: bool,
    },
}

/// A frame from a member. Each variant names its reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first frame. Reply: `Welcome`.
    Hello {
        /// The library's [`crate::VERSION`].
        version: u32,
    },
    /// drvs_init. Reply: `Number` with the node's id.
    NodeInit(NodeParams),
    /// drvs_end. Reply: `Done`; then the daemon exits.
    NodeEnd,
    /// The state of the node. Reply: `Node`.
    NodeInfo,
    /// vm_init. Reply: `Vm`.
    VmInit(VmParams),
    /// The VM of these parameters; makes it if none has the name. Waits until a VM of this name
    /// that is ending has ended. Reply: `Vm`.
    VmOpen(VmParams),
    /// vm_end. Reply: `Done` after all members have left.
    VmEnd(i32),
    /// The VM of this id. Reply: `Vm`.
    VmInfo(i32),
    /// The VM of this name. Reply: `Vm`.
    VmFind(String),
    /// All VMs. Reply: `Vms`.
    VmList,
    /// Binds the process or thread of this connection. Reply: `Bound`, with control page, status
    /// page and ready bitmap. The bind counts after `Mapped` or `MappedNoReply`, or when the
    /// control page says that the pages are mapped.
    Bind {
        /// The VM.
        vm: i32,
        /// The slot; `None` for the lowest free user slot. An anchor leaves this slot free.
        slot: Option<i32>,
        /// The kind of endpoint.
        kind: BindKind,
        /// A random number of this bind. A repeat of the request after the death of the daemon has
        /// the same one, and gets the endpoint that the dead daemon made for it.
        nonce: u64,
    },
    /// The pages of `Bound` are mapped. Reply: `Done`.
    Mapped,
    /// Binds another process (lclbind). Reply: `Number`, its address.
    BindOther {
        /// The VM.
        vm: i32,
        /// The process.
        pid: i32,
        /// The slot.
        slot: i32,
    },
    /// Takes the endpoint that another process made for this process. Reply: `Bound`, or `Wait` if
    /// there is none yet.
    Claim,
    /// Unbinds this connection's endpoint or another endpoint. Reply: `Done` after it has left.
    Unbind {
        /// The VM.
        vm: i32,
        /// The endpoint.
        address: i32,
    },
    /// The endpoint knows that another process unbound it, and has left.
    Left,
    /// A link to this endpoint. Reply: `Contact`, with link, status page and ready bitmap; or
    /// `Known` if a daemon event already brought the link.
    Contact(i32),
    /// The address of a process. Reply: `Number`.
    GetEndpoint(i32),
    /// Awaits an event. Reply: `Number` if it has happened, else `Wait`.
    Await(AwaitedEvent),
    /// Ends the wait with this ticket. Reply: `Done`.
    Forget(u64),
    /// Takes a name. Reply: `Done`.
    NameAttach {
        /// The name.
        name: String,
        /// The key of a reserved name.
        key: Option<u64>,
    },
    /// Reserves a name for processes with this key, until the caller's endpoint ends; without a
    /// key the reservation ends now. Only for the VM's owner. Reply: `Done`.
    NameReserve {
        /// The name.
        name: String,
        /// The key.
        key: Option<u64>,
    },
    /// The endpoint of this name. Reply: `Number`.
    NameLocate(String),
    /// Ends another endpoint's receive(ANY). Reply: `Done`, or the code.
    Wakeup {
        /// The VM.
        vm: i32,
        /// The endpoint.
        address: i32,
    },
    /// setpriv. Reply: `Done`.
    SetPrivileges {
        /// The VM.
        vm: i32,
        /// The endpoint.
        address: i32,
        /// Its new privileges.
        privileges: Privileges,
    },
    /// getpriv. Reply: `Privileges`.
    GetPrivileges {
        /// The VM.
        vm: i32,
        /// The endpoint.
        address: i32,
    },
    /// src_notify, ntfy_value and hdw_notify: a notification from another source, or with an
    /// argument. Reply: `Done`.
    NotifyFor {
        /// The VM. The caller need not be a member of it.
        vm: i32,
        /// The source.
        source: i32,
        /// The destination.
        destination: i32,
        /// The argument. Arguments that were not received yet join as sets of bits.
        bits: u64,
    },
    /// The endpoints of a VM, from a slot on. Reply: `Endpoints`.
    Endpoints {
        /// The VM.
        vm: i32,
        /// The first slot.
        from: i32,
    },
    /// After `Reattach`: the peers of this endpoint's links. An event for each peer that has ended
    /// precedes the reply. Reply: `Done`.
    Recall(Vec<RecalledPeer>),
    /// Opens this endpoint's doorbell. Reply: `Done`, with the doorbell receiver.
    OpenDoorbell,
    /// A sender for the doorbell of this endpoint. Reply: `Done`, with the doorbell sender.
    DoorbellSender(i32),
    /// Whether this endpoint's wait closed a cycle. Reply: `Number`, 1 or 0; 2 if there seems to be
    /// a cycle, but a member of it was awake. Ask again soon after a 2.
    IsDeadlock,
    /// This endpoint wants to copy with a linked peer. Reply: `CopyGate` after the peer sent
    /// `CopyGateReady`, with the bounce buffer if asked for.
    CopyGate {
        /// The peer.
        peer: i32,
        /// The peer certainly waits, whatever its control page says yet: this endpoint holds a
        /// request of the peer.
        surely: bool,
        /// Whether the copy needs a bounce buffer, through which the peer copies for itself.
        bounce_buffer: bool,
    },
    /// After [`DaemonEvent::CopyGate`](crate::DaemonEvent::CopyGate): this endpoint parks at its
    /// copy gate for the peer while it waits. No reply.
    CopyGateReady {
        /// The peer.
        peer: i32,
        /// Address of the probe value in the memory of this endpoint.
        address: u64,
        /// The probe value.
        probe: [u64; 2],
    },
    /// A request about areas.
    Area(AreaRequest),
    /// A member of a killed daemon is back. Reply: `Bound`, with new control page, status page and
    /// ready bitmap for later links.
    Reattach {
        /// Its VM.
        vm: i32,
        /// Its address.
        address: i32,
        /// Its thread, if it is a further thread of a process.
        tid: Option<i32>,
    },
    /// As `Contact`, after an earlier link did not reach this endpoint (it had no descriptor or no
    /// memory left). The daemon makes the link anew, for both parties.
    Renew(i32),
    /// As `Contact`, for a non-blocking call. The daemon refuses it with -11 if the peer has not
    /// attached to this daemon yet.
    ContactNow(i32),
    /// A notification for an endpoint that has not attached to this daemon yet. The daemon keeps
    /// it until then. Reply: `Done`; refused with -11 if the endpoint is attached.
    Notify {
        /// The destination.
        destination: i32,
        /// The pending bits, for HARDWARE and SYSTEM.
        bits: u64,
    },
    /// A request about tracing.
    Trace(TraceRequest),
    /// A request about com-sockets.
    Sock(SockRequest),
    /// The use and the quotas of users, from this user id on. Reply: `Usage`. Root and the daemon's
    /// user see all users, others themselves.
    Usage {
        /// The first user id.
        from: u32,
    },
    /// A request of the proxy of the node.
    Nodes(NodesRequest),
    /// As `Mapped`, by the owner of a new endpoint, which does not wait: the control page says that
    /// the daemon awaits this notice. No reply.
    MappedNoReply,
    /// Moves this connection's endpoint to the other node that may have its slot. Reply: `Done`
    /// when it has left.
    Move,
}
