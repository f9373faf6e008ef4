//! What the mechanisms of messages have in common.

use m3ipc_report::schema::Wait;

use crate::job::{Load, Test};
use crate::payload::MESSAGE_BYTES;

/// Waits of a mechanism that blocks: all messages, deaths and restarts.
///
/// IPC1 and IPC2 are the same calls for a mechanism of the kernel.
pub fn blocking(load: &Load) -> &'static [Wait] {
    match load.test {
        Test::Ipc1 | Test::Ipc2 | Test::Ipc3 | Test::Death { .. } | Test::Restart => &[Wait::Block],
        _ => &[],
    }
}

/// The payload: 48 bytes, or one byte for IPC3.
pub const fn bytes(load: &Load) -> usize {
    if matches!(load.test, Test::Ipc3) { 1 } else { MESSAGE_BYTES }
}
