//! The errors of the tables: one small enum per operation, with its code of the contract. Those of
//! areas are in `area_error`.

use m3ipc_abi::{Address, Code, NodeLimits, Slot, Verb, VmLimits};
use thiserror::Error;

/// Why a VM could not be made, found or ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VmError {
    /// The id lies outside `0 .. vms`.
    #[error("VM id {id} is out of range; give an id from 0 to {last}", last = .vms - 1)]
    IdRange {
        /// The id.
        id: i32,
        /// VMs of the node.
        vms: i32,
    },
    /// No VM with that id runs.
    #[error("VM {0} is not running; `m3 vm ls` shows the VMs of the node")]
    NotRunning(i32),
    /// The VM is being ended.
    #[error("VM {0} is ending; wait until it has ended, then make it again")]
    Ending(i32),
    /// A VM with that id runs already.
    #[error("VM id {0} is in use; give another id, or none")]
    IdTaken(i32),
    /// Every id of the node is in use.
    #[error("all {0} VM ids of the node are in use; end a VM with `m3 vm end`")]
    Full(i32),
    /// Another VM has that name.
    #[error("VM name {0:?} is in use; give another name, or end that VM with `m3 vm end`")]
    NameTaken(String),
    /// The VM of that name was made with another parameter than the caller wants.
    #[error(
        "VM {name:?} exists with {parameter} {found}, and the caller wants {wanted}; ask for the \
         same parameters, give another name, or end that VM with `m3 vm end`"
    )]
    Differs {
        /// The VM's name.
        name: String,
        /// The first parameter that differs.
        parameter: &'static str,
        /// Its value in the VM.
        found: String,
        /// The value that the caller wants.
        wanted: String,
    },
    /// The VM of that name belongs to another user.
    #[error(
        "VM {name:?} belongs to user {owner}, so only that user may open or create it; look the VM \
         up by its name and bind in it, or give another name"
    )]
    Foreign {
        /// The VM's name.
        name: String,
        /// Its owner.
        owner: u32,
    },
    /// The same, and the mode of the VM hides it from the caller.
    #[error(
        "VM {0:?} belongs to another user, so only that user may open or create it; give another \
         name"
    )]
    ForeignHidden(String),
    /// No VM has that name.
    #[error("no VM is named {0:?}; `m3 vm ls` shows the VMs of the node")]
    NameUnknown(String),
    /// The name is longer than 15 bytes.
    #[error("the VM name has {0} bytes; give at most 15")]
    NameTooLong(usize),
    /// The name is empty, or has a control character or a slash.
    #[error("VM name {0:?} is empty, or has a slash or a control character; give another name")]
    NameBad(String),
    /// The name is a number, which commands read as an id.
    #[error("VM name {0:?} is a number, which commands read as an id; give a name with a letter")]
    NameIsNumber(String),
    /// The limits are below one or above the node's.
    #[error(
        "{} process slots and {} task slots are outside the limits of the node; give 1 to {} \
         process slots and 0 to {} task slots",
        wanted.procs, wanted.tasks, most.procs, most.tasks
    )]
    Limits {
        /// The limits of the VM.
        wanted: VmLimits,
        /// The limits of the node.
        most: NodeLimits,
    },
    /// A node id lies outside `0 .. nodes`.
    #[error("node id {0} is out of range; give the ids of existing nodes")]
    NodeRange(i32),
    /// The list of nodes lacks the local node.
    #[error("the VM does not span the local node {0}; add it to the list of nodes")]
    NotHere(i32),
    /// Only an administrator may make a VM for another user.
    #[error("only CAP_IPC_OWNER may make a VM owned by user {0}; run the command as that user")]
    OtherOwner(u32),
    /// The caller is neither the VM's owner nor an administrator, or the mode forbids the access.
    #[error("user {uid} may not do this with VM {vm}; ask its owner for a mode that allows it")]
    NotAllowed {
        /// The VM.
        vm: i32,
        /// The caller.
        uid: u32,
    },
    /// `finish_end` before `begin_end`.
    #[error("VM {0} is still running; end it first")]
    StillRunning(i32),
    /// The owner has as many VMs as the quota allows, or only the reserve is left.
    #[error(
        "user {uid} is at its quota of VMs ({quota}), or only the reserve of root is left; end a \
         VM first"
    )]
    Quota {
        /// The owner.
        uid: u32,
        /// VMs per user.
        quota: u64,
    },
}

impl VmError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::IdRange { .. } => Code::BadVmId,
            Self::NotRunning(_) | Self::Ending(_) => Code::VmNotRun,
            Self::IdTaken(_) | Self::Full(_) | Self::NameTaken(_) | Self::Differs { .. } => {
                Code::RscBusy
            }
            Self::NameUnknown(_) => Code::NoNode,
            Self::NameTooLong(_) => Code::NameSize,
            Self::NameBad(_) | Self::NameIsNumber(_) => Code::BadValue,
            Self::Limits { .. } => Code::BadRange,
            Self::NodeRange(_) => Code::BadNodeId,
            Self::NotHere(_) => Code::NoVmNode,
            Self::OtherOwner(_) => Code::Perm,
            Self::NotAllowed { .. } | Self::Foreign { .. } | Self::ForeignHidden(_) => {
                Code::Privileges
            }
            Self::StillRunning(_) => Code::VmRun,
            Self::Quota { .. } => Code::NoMem,
        }
    }
}

/// Why an address leads to no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LookupError {
    /// The slot is outside the VM's limits, or the address is ANY, NONE or SELF.
    #[error("slot {0} is out of range; give the address of a bound endpoint")]
    Range(Slot),
    /// The address is the caller's own.
    #[error("endpoint {0} is the caller itself; give another endpoint")]
    Myself(Address),
    /// Another generation lives, or lived last, in the slot.
    #[error("endpoint {0} is not the latest of its slot; look its address up again")]
    Generation(Address),
    /// The address was the last one of its slot, which is free now.
    #[error("endpoint {0} died; look up its successor, or wait for one")]
    Dead(Address),
}

impl LookupError {
    /// The contract's code. `died` is the caller's code for a dead peer: -109, -108, -105 or -310.
    #[must_use]
    pub const fn code(self, died: Code) -> Code {
        match self {
            Self::Range(_) => Code::Range,
            Self::Myself(_) | Self::Generation(_) => Code::Endpoint,
            Self::Dead(_) => died,
        }
    }
}

/// Why an endpoint was not bound.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BindError {
    /// The VM does not exist, or does not run.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The VM has no such slot.
    #[error("slot {0} is out of range; give a slot within the limits of the VM")]
    Range(Slot),
    /// The slot belongs to another node.
    #[error(
        "slot {slot} belongs to the node {node}; bind there, or bind another slot here (the \
         registry of the nodes has the ranges)"
    )]
    OtherNode {
        /// The slot.
        slot: Slot,
        /// The node.
        node: String,
    },
    /// The slot belongs to no other node, so nobody stands in for it.
    #[error("slot {0} of VM {1} belongs to no other node; register the ranges of the nodes first")]
    NotForeign(Slot, i32),
    /// Another endpoint holds the slot.
    #[error("slot {0} is taken; bind another slot, or let the daemon choose one")]
    Taken(Slot),
    /// Every user slot is taken.
    #[error("every user slot is taken; unbind an endpoint, or make the VM with more slots")]
    Full,
    /// The process or thread has an endpoint already.
    #[error("the process or thread is bound already, as endpoint {0}; use that endpoint")]
    Bound(Address),
    /// The thread's process is not bound in this VM.
    #[error("process {0} is not bound in this VM; bind the process before its threads")]
    ProcessUnbound(i32),
    /// A thread's bind lacks the thread id.
    #[error("the bind of a thread has no thread id; give one")]
    Kind,
    /// The VM's mode, its owner or the member's owner forbids the bind.
    #[error(
        "user {0} may not bind this slot or process; ask the VM's owner for a mode that allows it"
    )]
    NotAllowed(u32),
    /// The slot is the place of an endpoint of another node.
    #[error(
        "slot {slot} is the place of another node's endpoint, and user {uid} may not take it: \
         peers trust its address; run the backup with CAP_IPC_OWNER (root of the machine), or as \
         the user of a node of one user"
    )]
    Place {
        /// The member's owner.
        uid: u32,
        /// The slot.
        slot: Slot,
    },
    /// An endpoint of another user moves to the slot.
    #[error(
        "the endpoint of slot {slot} moves to this node, and user {uid} may not take its address: \
         peers trust it; run the program with CAP_IPC_OWNER (root of the machine), or as the user \
         that it had here before"
    )]
    Arriving {
        /// The member's owner.
        uid: u32,
        /// The slot.
        slot: Slot,
    },
    /// The member's owner has as many slots of the VM as the quota allows, or only the reserve of
    /// the VM's owner is left.
    #[error(
        "user {uid} is at its quota of slots in this VM ({quota}), or only the reserve of the \
         VM's owner is left; unbind an endpoint, or make the VM with more slots"
    )]
    SlotQuota {
        /// The member's owner.
        uid: u32,
        /// Slots per user.
        quota: u64,
    },
    /// The member's owner has as many endpoints as the quota allows.
    #[error("user {uid} is at its quota of members ({quota}); unbind one of them first")]
    Quota {
        /// The member's owner.
        uid: u32,
        /// Endpoints per user.
        quota: u32,
    },
}

impl BindError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Range(_) => Code::Range,
            Self::Taken(_) | Self::Full | Self::Bound(_) => Code::SlotUsed,
            Self::ProcessUnbound(_) => Code::GrpLeader,
            Self::OtherNode { .. } => Code::RmtProc,
            Self::NotForeign(..) => Code::LclProc,
            Self::Kind => Code::BindType,
            Self::NotAllowed(_) | Self::Place { .. } | Self::Arriving { .. } => Code::Privileges,
            Self::Quota { .. } | Self::SlotQuota { .. } => Code::NoMem,
        }
    }
}

/// Why an endpoint was not unbound.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnbindError {
    /// The VM does not exist.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// No endpoint with that address lives.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Both the endpoint and the VM belong to other users.
    #[error(
        "user {0} may not unbind this endpoint; only its user, the VM's owner and {may_end} may",
        may_end = crate::tables::MAY_END
    )]
    NotAllowed(u32),
}

impl UnbindError {
    /// The contract's code: free slot -310, other generation -306.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Lookup(error) => error.code(Code::NotBind),
            Self::NotAllowed(_) => Code::Privileges,
        }
    }
}

/// Why a name was not attached or located.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The VM does not exist.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The endpoint for the name does not live.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Another endpoint, or this one, has the name.
    #[error("endpoint {holder} has the name {name:?} already; attach another name")]
    Taken {
        /// The name.
        name: String,
        /// The endpoint.
        holder: Address,
    },
    /// The name is reserved for others.
    #[error(
        "endpoint {0} has reserved that name for the processes of its service, which have its key \
         in M3_NAME_KEY; attach another name"
    )]
    Reserved(Address),
    /// The caller does not own the VM.
    #[error("user {0} may not reserve names; only the VM's owner may")]
    NotAllowed(u32),
    /// The VM has too many reserved names.
    #[error("the VM has {0} reserved names already; end some services")]
    ReservedQuota(usize),
    /// The name is longer than 63 bytes.
    #[error("the name has {0} bytes; give at most 63")]
    TooLong(usize),
    /// The name is empty or has a zero byte.
    #[error("the name {0:?} is empty or has a zero byte; give another name")]
    Bad(String),
    /// No endpoint has the name.
    #[error("no endpoint has the name {0:?}; `m3 ps` shows the names, and wait4name waits for one")]
    Unknown(String),
    /// The endpoint has as many names as the quota allows.
    #[error("the endpoint is at its quota of names ({0}); use one of them")]
    Quota(u32),
}

impl NameError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Lookup(error) => error.code(Code::NotBind),
            Self::Taken { .. } | Self::Reserved(_) => Code::RscBusy,
            Self::NotAllowed(_) => Code::Privileges,
            Self::TooLong(_) => Code::NameSize,
            Self::Bad(_) => Code::BadValue,
            Self::Unknown(_) => Code::NoNode,
            Self::Quota(_) | Self::ReservedQuota(_) => Code::NoMem,
        }
    }
}

/// Why a wait was not registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WaitError {
    /// The VM does not exist.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The address can never live, or is the caller's own.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The name is not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The caller could not bind the slot.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The slot belongs to another node, and this one has no backup of it.
    #[error(
        "slot {slot} belongs to the node {node}, and its backup is not at this node; add it to \
         `backups` in the registry, on all nodes"
    )]
    NoBackup {
        /// The slot.
        slot: Slot,
        /// The node.
        node: String,
    },
}

impl WaitError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Lookup(error) => error.code(Code::Endpoint),
            Self::Name(error) => error.code(),
            Self::NoBackup { .. } => Code::RmtProc,
            Self::Bind(error) => error.code(),
        }
    }
}

/// Why a proxy cannot say where a slot is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlaceError {
    /// The proxy has named no backup of the slot.
    #[error("slot {0} of VM {1} has no backup; register it first")]
    NoBackup(Slot, i32),
    /// A local endpoint has the slot.
    #[error("a local endpoint has slot {0}; it keeps it")]
    Used(Slot),
    /// The address is one of another slot.
    #[error("the address is not one of slot {0}")]
    Address(Slot),
    /// The endpoint that was to move has ended.
    #[error("the endpoint of slot {0} has ended before it moved")]
    Gone(Slot),
}

impl PlaceError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::NoBackup(..) | Self::Address(_) => Code::BadValue,
            Self::Used(_) => Code::SlotUsed,
            Self::Gone(_) => Code::NotBind,
        }
    }
}

/// Why privileges were not set or shown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrivError {
    /// The VM does not exist.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The endpoint does not live.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The caller is neither the VM's owner nor an administrator.
    #[error(
        "user {0} may not set privileges; only the VM's owner and {owns_all} may",
        owns_all = crate::tables::OWNS_ALL
    )]
    NotAllowed(u32),
}

impl PrivError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Lookup(error) => error.code(Code::NotBind),
            Self::NotAllowed(_) => Code::Privileges,
        }
    }
}

/// Privileges that forbid a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    /// The caller's trap mask does not have the verb.
    #[error("the privileges do not allow {}; the VM's owner can change them", .0.name())]
    Trap(Verb),
    /// The sender's `ipc_to` lacks the receiver, or the receiver's `ipc_from` lacks the sender.
    #[error(
        "the privileges do not allow slot {from} to send to slot {to}; the VM's owner can change \
         them"
    )]
    Call {
        /// The sender's slot.
        from: Slot,
        /// The receiver's slot.
        to: Slot,
    },
}

impl Denied {
    /// The contract's code.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::Trap(_) => Code::TrapDenied,
            Self::Call { .. } => Code::CallDenied,
        }
    }
}

/// Why a link was not made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The VM does not exist, or does not run.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The requester does not live.
    #[error("the requester is not bound: {0}")]
    Requester(LookupError),
    /// The peer does not live.
    #[error(transparent)]
    Peer(LookupError),
    /// The privileges allow messages in neither direction.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The requester's user has as many links as the quota allows.
    #[error(
        "user {uid} is at its quota of links ({quota}); unbind endpoints that are no longer used"
    )]
    Quota {
        /// The requester's user.
        uid: u32,
        /// Links per user.
        quota: u32,
    },
}

impl LinkError {
    /// The contract's code. `died` is the caller's code for a dead peer: -109, -108 or -105.
    #[must_use]
    pub const fn code(&self, died: Code) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Requester(_) => Code::NotBind,
            Self::Peer(error) => error.code(died),
            Self::Denied(error) => error.code(),
            Self::Quota { .. } => Code::NoMem,
        }
    }
}

/// The journal contradicts itself; the replay stopped at this record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("record {at} of the journal contradicts earlier records")]
pub struct ReplayError {
    /// The index of the record.
    pub at: usize,
}
