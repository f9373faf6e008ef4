//! What can be wrong, one small enum per operation; each knows its code of the contract.

use m3ipc_abi::{Address, Code, Slot, VmLimits};
use thiserror::Error;

use super::privileges::Verb;

/// Why a VM could not be made, found or ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VmError {
    /// The id lies outside `0 .. vms`.
    #[error("VM id {0} is out of range")]
    IdRange(i32),
    /// No VM of that id runs.
    #[error("VM {0} is not running")]
    NotRunning(i32),
    /// The VM is being ended.
    #[error("VM {0} is ending")]
    Ending(i32),
    /// A VM of that id runs already.
    #[error("VM id {0} is in use")]
    IdTaken(i32),
    /// Another VM has that name.
    #[error("VM name {0:?} is in use")]
    NameTaken(String),
    /// No VM has that name.
    #[error("no VM is named {0:?}")]
    NameUnknown(String),
    /// The name is longer than 15 bytes.
    #[error("VM name of {0} bytes is too long")]
    NameTooLong(usize),
    /// The name is empty or has a control character or a slash in it.
    #[error("VM name {0:?} is not a plain name")]
    NameBad(String),
    /// The limits are below one or above the node's.
    #[error("{0:?} does not fit into the node's limits")]
    Limits(VmLimits),
    /// A node id lies outside `0 .. nodes`.
    #[error("node id {0} is out of range")]
    NodeRange(i32),
    /// The nodes are given and the local one is not among them.
    #[error("the VM does not span the local node {0}")]
    NotHere(i32),
    /// Only root may make a VM for somebody else.
    #[error("only root may make a VM owned by user {0}")]
    OtherOwner(u32),
    /// The caller is neither the VM's owner nor root, or the mode does not allow it.
    #[error("user {uid} is not allowed to do this with VM {vm}")]
    NotAllowed {
        /// The VM.
        vm: i32,
        /// The caller.
        uid: u32,
    },
    /// `finish_end` before `begin_end`.
    #[error("VM {0} was not told to end")]
    StillRunning(i32),
    /// The caller has as many VMs as the quota allows.
    #[error("user {uid} has its {quota} VMs")]
    Quota {
        /// The caller.
        uid: u32,
        /// VMs per user.
        quota: u32,
    },
}

impl VmError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::IdRange(_) => Code::BadVmId,
            Self::NotRunning(_) | Self::Ending(_) => Code::VmNotRun,
            Self::IdTaken(_) | Self::NameTaken(_) => Code::RscBusy,
            Self::NameUnknown(_) => Code::NoNode,
            Self::NameTooLong(_) => Code::NameSize,
            Self::NameBad(_) => Code::BadValue,
            Self::Limits(_) => Code::BadRange,
            Self::NodeRange(_) => Code::BadNodeId,
            Self::NotHere(_) => Code::NoVmNode,
            Self::OtherOwner(_) => Code::Perm,
            Self::NotAllowed { .. } => Code::Privileges,
            Self::StillRunning(_) => Code::VmRun,
            Self::Quota { .. } => Code::NoMem,
        }
    }
}

/// Why an address leads to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LookupError {
    /// The slot is outside the VM's limits, or the address is ANY, NONE or SELF.
    #[error("slot {0} is out of range")]
    Range(Slot),
    /// The address is the caller's own.
    #[error("{0} is the caller itself")]
    Myself(Address),
    /// Another generation lives, or lived last, in the slot.
    #[error("{0:?} is of another generation")]
    Generation(Address),
    /// The address was the last one of its slot, which is free now.
    #[error("{0:?} died")]
    Dead(Address),
}

impl LookupError {
    /// The contract's code; `died` is the call's own for a dead peer (-109, -108, -105 or -310).
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
    /// The VM is not there, or not running.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// No such slot in this VM.
    #[error("slot {0} is out of range")]
    Range(Slot),
    /// Somebody is bound there.
    #[error("slot {0} is taken")]
    Taken(Slot),
    /// Every user slot is taken.
    #[error("every user slot is taken")]
    Full,
    /// The process or thread has an endpoint already.
    #[error("it is bound already, as {0:?}")]
    Bound(Address),
    /// The thread's process is not bound in this VM.
    #[error("process {0} is not bound in this VM")]
    ProcessUnbound(i32),
    /// The member does not fit the kind: a thread without a thread id.
    #[error("a thread's endpoint needs a thread id")]
    Kind,
    /// The VM's mode, its owner or the member's owner forbid it.
    #[error("user {0} is not allowed to bind this")]
    NotAllowed(u32),
    /// The member's owner has as many endpoints as the quota allows.
    #[error("user {uid} has its {quota} endpoints")]
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
            Self::Kind => Code::BindType,
            Self::NotAllowed(_) => Code::Privileges,
            Self::Quota { .. } => Code::NoMem,
        }
    }
}

/// Why an endpoint was not unbound.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnbindError {
    /// The VM is not there.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// Nobody of that address lives.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The endpoint is another user's, and the VM too.
    #[error("user {0} is not allowed to unbind this")]
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
    /// The VM is not there.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The endpoint that is to bear the name does not live.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Another endpoint, or this one, has the name.
    #[error("{0:?} bears that name")]
    Taken(Address),
    /// The name is longer than 63 bytes.
    #[error("name of {0} bytes is too long")]
    TooLong(usize),
    /// The name is empty or has a zero byte in it.
    #[error("name is empty or has a zero byte in it")]
    Bad,
    /// Nobody has the name.
    #[error("nobody has that name")]
    Unknown,
    /// The endpoint has as many names as the quota allows.
    #[error("the endpoint has its {0} names")]
    Quota(u32),
}

impl NameError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Lookup(error) => error.code(Code::NotBind),
            Self::Taken(_) => Code::RscBusy,
            Self::TooLong(_) => Code::NameSize,
            Self::Bad => Code::BadValue,
            Self::Unknown => Code::NoNode,
            Self::Quota(_) => Code::NoMem,
        }
    }
}

/// Why a wait was not registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WaitError {
    /// The VM is not there.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// That address can never come to be, or is the caller's own.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The name is none.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl WaitError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Lookup(error) => error.code(Code::Endpoint),
            Self::Name(error) => error.code(),
        }
    }
}

/// Why privileges were not set or shown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrivError {
    /// The VM is not there.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The endpoint does not live.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The caller is neither the VM's owner nor root.
    #[error("user {0} is not allowed to set privileges")]
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
    #[error("privileges do not allow {0:?}")]
    Trap(Verb),
    /// The sender's `to` or the receiver's `from` does not have the other.
    #[error("privileges do not allow {from} to talk to {to}")]
    Call {
        /// Slot the message would come from.
        from: Slot,
        /// Slot it would go to.
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
    /// The VM is not there, or not running.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The asking endpoint does not live.
    #[error("the asking endpoint is not bound: {0}")]
    Asker(LookupError),
    /// The peer does not live.
    #[error(transparent)]
    Peer(LookupError),
    /// Privileges let the two talk in neither direction.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The asker's owner has as many links as the quota allows.
    #[error("user {uid} has its {quota} links")]
    Quota {
        /// The asker's owner.
        uid: u32,
        /// Links per user.
        quota: u32,
    },
}

impl LinkError {
    /// The contract's code; `died` is the call's own for a dead peer (-109, -108 or -105).
    #[must_use]
    pub const fn code(&self, died: Code) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Asker(_) => Code::NotBind,
            Self::Peer(error) => error.code(died),
            Self::Denied(error) => error.code(),
            Self::Quota { .. } => Code::NoMem,
        }
    }
}

/// A journal that contradicts itself: replay stopped at this record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("record {at} of the journal contradicts those before it")]
pub struct ReplayError {
    /// Its index.
    pub at: usize,
}

/// Why an area is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AreaError {
    /// The VM's state.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// An endpoint's state.
    #[error(transparent)]
    Endpoint(#[from] LookupError),
    /// The VM has no such area.
    #[error("the VM has no area {0} (any more)")]
    Unknown(u32),
    /// The limit is no size of an area.
    #[error("an area of {0} bytes cannot be: 1 to 274,877,906,944, in steps of 4,096")]
    Limit(u64),
    /// It has as many members as an area may have.
    #[error("the area has as many members as an area may have (256 at a time, 4,096 in its life)")]
    Crowded,
    /// The VM has as many areas as it may have.
    #[error("the VM has 4,096 areas already; detach from some")]
    TooMany,
    /// The VM's window of addresses is used up.
    #[error(
        "no addresses are left for an area of {0} bytes in this VM; ask for less, or detach from others"
    )]
    NoAddresses(u64),
    /// The endpoint is not of the area's audience, or the area is closed.
    #[error("endpoint {0} is not in the audience of the area, or the area is closed")]
    NotInAudience(Address),
    /// Only its maker may do this.
    #[error("endpoint {0} did not make the area; only its maker may do this")]
    NotOwner(Address),
    /// There is no room.
    #[error("the area is full: no {bytes} bytes in a row are left of {limit}")]
    Full {
        /// What was asked for, in bytes.
        bytes: u64,
        /// The area's limit in bytes.
        limit: u64,
    },
}

impl AreaError {
    /// The contract's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Vm(error) => error.code(),
            Self::Endpoint(error) => error.code(Code::NotBind),
            Self::Unknown(_) => Code::NoNode,
            Self::Limit(_) => Code::BadRange,
            Self::Crowded | Self::TooMany | Self::NoAddresses(_) => Code::NoMem,
            Self::NotInAudience(_) | Self::NotOwner(_) => Code::Privileges,
            Self::Full { .. } => Code::AllocMem,
        }
    }
}
