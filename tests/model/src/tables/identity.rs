//! Who asks, who is bound, and who may: identities as the daemon tells them.

use m3ipc_abi::Address;
use serde::{Deserialize, Serialize};

use super::foreign;

/// The caller's identity, as the kernel vouched for it to the daemon.
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
    /// A caller with no supplementary groups.
    #[must_use]
    pub const fn new(uid: u32, gid: u32, pid: i32) -> Self {
        Self { uid, gid, groups: Vec::new(), pid }
    }

    /// Whether this is the superuser, to whom modes and quotas do not apply.
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.uid == 0
    }

    fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// Who may do what in a VM: nine permission bits as of a file (owner, group, others).
///
/// | bit | allows |
/// |---|---|
/// | read, 4 | to see it: list, info, lookups |
/// | write, 2 | to bind a system or task slot (slots below 29) |
/// | execute, 1 | to bind a user slot: to join |
///
/// As with files only the first class that fits counts. Ending the VM and
/// setting privileges are its owner's and root's, whatever the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmMode(pub u16);

/// One permission bit of a [`Mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// List, info, lookups.
    See,
    /// Bind a system or task slot.
    Serve,
    /// Bind a user slot.
    Join,
}

impl VmMode {
    /// All for the owner, seeing and joining for the group, nothing for others.
    pub const DEFAULT: Self = Self(0o750);

    /// Whether this mode of a VM owned by `uid` and `gid` allows it to the caller.
    #[must_use]
    pub fn allows(self, uid: u32, gid: u32, cred: &Credentials, want: Want) -> bool {
        let bit = match want {
            Want::See => 4,
            Want::Serve => 2,
            Want::Join => 1,
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

/// The living being behind an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Process id.
    pub pid: i32,
    /// Thread id, of an endpoint that belongs to one thread.
    pub tid: Option<i32>,
    /// The daemon's own key, opaque here (a connection, a start time to know the member again).
    pub token: u64,
}

/// How an endpoint came to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberKind {
    /// bind: the calling process.
    Process,
    /// tbind: the calling thread of a process that is bound already.
    Thread,
    /// lclbind: another process, whose own ids these are.
    Foreign {
        /// User id of the process that is bound.
        uid: u32,
        /// Its group id.
        gid: u32,
    },
}

/// An endpoint on its node: VM and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemberId {
    /// The VM's id.
    pub vm: i32,
    /// The address in it.
    #[serde(with = "foreign::address")]
    pub address: Address,
}

impl MemberId {
    /// The endpoint of this address in this VM.
    #[must_use]
    pub const fn new(vm: i32, address: Address) -> Self {
        Self { vm, address }
    }
}
