//! The accesses that a lease or a grant allows.

use m3ipc_link::CopyDirection;

/// The accesses to leased or granted memory. The example is at
/// [`Endpoint::grant`](crate::Endpoint::grant).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes.
    Both,
}

impl Rights {
    pub(super) fn allow(self, what: CopyDirection) -> bool {
        match self {
            Self::Read => what == CopyDirection::Read,
            Self::Write => what == CopyDirection::Write,
            Self::Both => true,
        }
    }
}
