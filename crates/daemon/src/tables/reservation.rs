//! A reserved name.

use m3ipc_abi::Address;

/// A name that waits for its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    /// The endpoint that made it. It ends with that endpoint.
    pub(super) holder: Address,
    /// The key of its processes.
    pub(super) key: u64,
}
