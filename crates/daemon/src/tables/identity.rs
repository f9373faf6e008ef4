//! Identities: the caller, the process behind an endpoint, and the permissions of a VM.

use m3ipc_abi::Address;
use serde::{Deserialize, Serialize};

use super::serde_abi;

/// The caller's identity, as the kernel reported it to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Process id.
    pub pid: i32,
}

impl Credentials {
    /// A caller without supplementary groups.
    #[must_use]
    pub const fn new(uid: u32, gid: u32, pid: i32) -> Self {
        Self { uid, gid, groups: Vec::new(), pid }
    }

    /// Whether the caller is the superuser. Modes and quotas do not apply to the superuser.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.uid == 0
    }

    fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// The permissions of a VM: nine bits like those of a file (owner, group, others).
///
/// | bit | allows |
/// |---|---|
/// | read, 4 | to see the VM: list, info, lookups |
/// | write, 2 | to bind a system or task slot (slots below 29) |
/// | execute, 1 | to bind a user slot |
///
/// As with files, only the first class that fits the caller counts. Only the VM's owner and root
/// may end the VM or set privileges, whatever the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmMode(pub u16);

/// One permission of a [`VmMode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmAccess {
    /// List, info, lookups.
    See,
    /// Bind a system or task slot.
    BindSystemSlot,
    /// Bind a user slot.
    BindUserSlot,
}

impl VmMode {
    /// Everything for the owner; seeing and joining for the group; nothing for others.
    pub const DEFAULT: Self = Self(0o750);

    /// Whether this mode of a VM owned by `uid` and `gid` allows `access` to the caller.
    #[must_use]
    pub fn allows(self, uid: u32, gid: u32, cred: &Credentials, access: VmAccess) -> bool {
        let bit = match access {
            VmAccess::See => 4,
            VmAccess::BindSystemSlot => 2,
            VmAccess::BindUserSlot => 1,
        };
        let class = match () {
            () if cred.is_root() => return true,
            () if cred.uid == uid => self.0 >> 6,
            () if cred.in_group(gid) => self.0 >> 3,
            () => self.0,
        };
        class & bit != 0
    }
}

impl Default for VmMode {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The process or thread behind an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Process id.
    pub pid: i32,
    /// Thread id, if the endpoint belongs to one thread.
    pub tid: Option<i32>,
    /// Start time of the process in clock ticks. With the process id it identifies the process.
    pub started: u64,
}

/// The call that bound an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberKind {
    /// `bind`: the calling process.
    Process,
    /// `tbind`: the calling thread of a process that is bound already.
    Thread,
    /// A further endpoint of a process that is bound already. It belongs to no thread.
    Additional,
    /// `lclbind`: another process, with its own ids.
    Foreign {
        /// User id of the bound process.
        uid: u32,
        /// Group id of the bound process.
        gid: u32,
    },
    /// A proxy, in place of an endpoint of another node. It stands for no process.
    StandIn,
}

impl MemberKind {
    /// Whether the endpoint stands for its process.
    #[must_use]
    pub const fn is_process(self) -> bool {
        matches!(self, Self::Process | Self::Foreign { .. })
    }
}

/// The identity of an endpoint on its node: VM and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemberId {
    /// The VM's id.
    pub vm: i32,
    /// The address in the VM.
    #[serde(with = "serde_abi::address")]
    pub address: Address,
}

impl MemberId {
    /// The endpoint with this address in this VM.
    #[must_use]
    pub const fn new(vm: i32, address: Address) -> Self {
        Self { vm, address }
    }
}
