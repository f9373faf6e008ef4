//! Identities: the caller, the process behind an endpoint, and the permissions of a VM.

use m3ipc_abi::Address;
use m3ipc_sys::{Capabilities, Capability};
use serde::{Deserialize, Serialize};
use std::cell::LazyCell;
use std::rc::Rc;

use super::serde_abi;

/// The capabilities of a caller over the daemon. The first decision that needs them reads them;
/// they hold for the rest of the connection.
pub type Rights = Rc<LazyCell<Capabilities, Box<dyn FnOnce() -> Capabilities>>>;

/// The processes of [`Credentials::may_end`], for people.
pub const MAY_END: &str =
    "a process with CAP_KILL in the user and PID namespace of the daemon (root of the machine)";
/// The processes of [`Credentials::owns_all`], for people.
pub const OWNS_ALL: &str = "a process with CAP_IPC_OWNER in the user and PID namespace of the \
                            daemon (root of the machine)";

/// The caller's identity, as the kernel reported it to the daemon. The user and the groups are
/// those of the caller's connect.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Process id.
    pub pid: i32,
    /// Rights beyond those of the user.
    pub rights: Rights,
}

impl Credentials {
    /// A caller without supplementary groups and capabilities.
    #[must_use]
    pub fn new(uid: u32, gid: u32, pid: i32) -> Self {
        let rights = with_capabilities(|| Capabilities::NONE);
        Self { uid, gid, groups: Vec::new(), pid, rights }
    }

    /// A process with all rights: the daemon in its own name, or an administrator.
    #[must_use]
    pub fn administrator(pid: i32) -> Self {
        Self { rights: with_capabilities(|| Capabilities::ALL), ..Self::new(0, 0, pid) }
    }

    /// Whether the caller may end endpoints, VMs and the node of others: `CAP_KILL`.
    #[must_use]
    pub fn may_end(&self) -> bool {
        self.rights.has(Capability::Kill)
    }

    /// Whether the caller counts as the owner of each VM, except for its end: `CAP_IPC_OWNER`.
    /// Modes do not apply to it.
    #[must_use]
    pub fn owns_all(&self) -> bool {
        self.rights.has(Capability::IpcOwner)
    }

    /// Whether the caller may trace the VMs of others: `CAP_SYS_PTRACE`.
    #[must_use]
    pub fn may_trace(&self) -> bool {
        self.rights.has(Capability::SysPtrace)
    }

    /// Whether the caller is the user of the daemon, which this number names. User 0 is the same
    /// one in the namespaces of the daemon alone.
    #[must_use]
    pub fn is_daemons(&self, daemon: u32) -> bool {
        self.uid == daemon && (daemon != 0 || self.rights.has(Capability::SameNamespaces))
    }

    fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// Capabilities that this function reads, when they are needed.
pub fn with_capabilities(read: impl FnOnce() -> Capabilities + 'static) -> Rights {
    Rc::new(LazyCell::new(Box::new(read)))
}

/// The permissions of a VM: nine bits like those of a file (owner, group, others).
///
/// | bit | allows |
/// |---|---|
/// | read, 4 | to see the VM: list, info, lookups |
/// | write, 2 | to bind a system or task slot (slots below 29) |
/// | execute, 1 | to bind a user slot |
///
/// As with files, only the first class that fits the caller counts. Only the VM's owner and
/// an administrator may end the VM (`CAP_KILL`) or set privileges (`CAP_IPC_OWNER`), whatever the
/// mode.
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
            () if cred.uid == uid => self.0 >> 6,
            () if cred.in_group(gid) => self.0 >> 3,
            () => self.0,
        };
        class & bit != 0 || cred.owns_all()
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
