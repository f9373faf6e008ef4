//! The receive limit: the longest payload that an endpoint takes.
//!
//! The owner sets it, and the status page publishes it. A sender compares before it allocates, so
//! its call fails at once and needs no round trip. A hostile sender does not compare: the receiver
//! does it again, by the claimed length and by that of the accepted block, and refuses that message
//! alone. A refused message is an error of its sender; the receiver goes on.
//!
//! A payload that lies in the link needs no memory of its own. So no limit is below
//! [`LONG_MAX_BYTES`], and the fast path never asks for it.

use crate::error::Fail;
use m3ipc_abi::{LARGE_MAX_BYTES, LONG_MAX_BYTES, RECEIVE_LIMIT_BYTES};

/// The receive limit of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveLimit(usize);

impl Default for ReceiveLimit {
    fn default() -> Self {
        Self(RECEIVE_LIMIT_BYTES)
    }
}

impl ReceiveLimit {
    /// The nearest possible limit.
    pub(super) fn of(bytes: usize) -> Self {
        Self(bytes.clamp(LONG_MAX_BYTES, LARGE_MAX_BYTES))
    }

    /// The limit in bytes.
    pub(super) fn bytes(self) -> usize {
        self.0
    }

    /// Fails if a payload is longer.
    pub(super) fn check(self, bytes: u64) -> Result<(), Fail> {
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= self.0 => Ok(()),
            other => Err(Fail::too_long(other.unwrap_or(usize::MAX), self.0)),
        }
    }
}
