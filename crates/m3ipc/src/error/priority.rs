//! The errors of priorities.

use m3ipc_abi::Code;

/// Why a priority or an inheritance was not set.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (mut server, _client) = node.pair();
/// use m3ipc::{Code, PriorityError};
///
/// let refused = server.set_priority(100).unwrap_err();
/// assert_eq!((refused, refused.code()), (PriorityError::OutOfRange(100), Code::BadRange));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriorityError {
    /// The priority is above [`PRIORITY_MAX`](crate::PRIORITY_MAX).
    #[error("priority {0} is above {max}", max = m3ipc_link::PRIORITY_MAX)]
    OutOfRange(u8),
    /// The kernel does not let this thread run under SCHED_FIFO.
    #[error("SCHED_FIFO is not permitted; raise RLIMIT_RTPRIO or grant CAP_SYS_NICE")]
    NotPermitted,
    /// The endpoint is not bound, or belongs to the parent process.
    #[error("the endpoint is not bound in this process")]
    Unbound,
}

impl PriorityError {
    /// The code of the C contract. The example is at [`PriorityError`].
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::OutOfRange(_) => Code::BadRange,
            Self::NotPermitted => Code::Perm,
            Self::Unbound => Code::NotBind,
        }
    }
}
