//! The kind of what a call received: for the endpoint (`m3_kind`), and for the thread
//! (`m3_last_kind`), since several threads may use one endpoint.

use crate::failure::CallResult;
use core::cell::Cell;
use core::ffi::c_int;
use m3ipc::{Code, ReceivedKind};

/// The numbers of `m3ipc/message.h`.
const KIND_MESSAGE: c_int = 1;
const KIND_REQUEST: c_int = 2;
const KIND_NOTIFY: c_int = 3;
const KIND_DEATH: c_int = 4;
const KIND_PULSE: c_int = 5;

thread_local! {
    /// Without a destructor, so that an access checks no state of it.
    static LAST: Cell<Option<ReceivedKind>> = const { Cell::new(None) };
}

/// Keeps the kind of what this thread has just received.
#[inline]
pub(crate) fn keep(kind: Option<ReceivedKind>) {
    LAST.set(kind);
}

/// The number of the kind of what this thread received last.
pub(crate) fn last() -> CallResult {
    number_of(LAST.get())
}

/// The number of a kind.
pub(crate) fn number_of(kind: Option<ReceivedKind>) -> CallResult {
    match kind.ok_or(Code::NoMsg)? {
        ReceivedKind::Request => Ok(KIND_REQUEST),
        ReceivedKind::Notification => Ok(KIND_NOTIFY),
        ReceivedKind::Death(_) => Ok(KIND_DEATH),
        ReceivedKind::Pulse(_) => Ok(KIND_PULSE),
        _ => Ok(KIND_MESSAGE),
    }
}
