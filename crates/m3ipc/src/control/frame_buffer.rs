//! The buffer for frames of the daemon, one per process.

use super::fail::no_memory;
use crate::error::Fail;
use m3ipc_wire::REPLY_MAX_BYTES;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory for one frame. The process shares one buffer, so that sleeping endpoints hold none.
pub(super) struct FrameBuffer(pub(super) Box<[u8]>);

static SPARE_BUFFER: Mutex<Option<Box<[u8]>>> = Mutex::new(None);
/// Whether the process has allocated a buffer before, so that one comes back soon.
static HAS_ALLOCATED: AtomicBool = AtomicBool::new(false);
/// Attempts to take the shared buffer; the thread yields between two of them.
const SPARE_TRIES: u32 = 1000;

impl FrameBuffer {
    pub(super) fn take() -> Result<Self, Fail> {
        // A buffer is in use only while one frame is read. The attempts are bounded: in a child by
        // fork a thread that does not exist may hold the buffer.
        for _ in 0..SPARE_TRIES {
            if let Some(spare) = SPARE_BUFFER.try_lock().ok().and_then(|mut spare| spare.take()) {
                return Ok(Self(spare));
            }
            if !HAS_ALLOCATED.swap(true, Ordering::Relaxed) {
                break;
            }
            std::thread::yield_now();
        }
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(REPLY_MAX_BYTES).map_err(|_| no_memory())?;
        buffer.resize(REPLY_MAX_BYTES, 0);
        Ok(Self(buffer.into_boxed_slice()))
    }
}

impl Drop for FrameBuffer {
    fn drop(&mut self) {
        if let Ok(mut spare) = SPARE_BUFFER.try_lock() {
            *spare = Some(std::mem::take(&mut self.0));
        }
    }
}
