//! Buffers for frames of the daemon.

use super::fail::no_memory;
use crate::error::Fail;
use m3ipc_wire::REPLY_MAX_BYTES;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Memory for one frame. A thread has it while it reads one frame, so that sleeping endpoints hold
/// none.
pub(super) struct FrameBuffer(pub(super) Box<[u8]>);

/// The buffers that the process keeps for the next frames.
static SPARE: SpareBuffers = SpareBuffers(Mutex::new(Vec::new()));
/// The most buffers that are kept.
const SPARE_MAX: usize = 4;
/// Attempts to lock the spare buffers, for nanoseconds each. They are bounded: in a child by fork a
/// thread that does not exist may hold the lock.
const LOCK_TRIES: u32 = 64;

/// Buffers that no thread has. No thread waits for one: its reader may wait for a CPU behind a
/// thousand threads.
struct SpareBuffers(Mutex<Vec<Box<[u8]>>>);

impl SpareBuffers {
    fn lock(&self) -> Option<MutexGuard<'_, Vec<Box<[u8]>>>> {
        for _ in 0..LOCK_TRIES {
            match self.0.try_lock() {
                Ok(spare) => return Some(spare),
                Err(TryLockError::Poisoned(spare)) => return Some(spare.into_inner()),
                Err(TryLockError::WouldBlock) => m3ipc_sys::relax(),
            }
        }
        None
    }

    fn take(&self) -> Option<Box<[u8]>> {
        self.lock()?.pop()
    }

    /// Keeps a buffer, unless there are enough.
    fn keep(&self, buffer: Box<[u8]>) {
        if let Some(mut spare) = self.lock()
            && spare.len() < SPARE_MAX
        {
            spare.push(buffer);
        }
    }
}

impl FrameBuffer {
    pub(super) fn take() -> Result<Self, Fail> {
        if let Some(spare) = SPARE.take() {
            return Ok(Self(spare));
        }
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(REPLY_MAX_BYTES).map_err(|_| no_memory())?;
        buffer.resize(REPLY_MAX_BYTES, 0);
        Ok(Self(buffer.into_boxed_slice()))
    }
}

impl Drop for FrameBuffer {
    fn drop(&mut self) {
        SPARE.keep(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_several_readers_are_kept_up_to_a_few() {
        let spare = SpareBuffers(Mutex::default());
        assert!(spare.take().is_none());
        (0..SPARE_MAX + 3).for_each(|at| spare.keep(vec![0; at + 1].into()));
        let taken = core::iter::from_fn(|| spare.take()).count();
        assert_eq!(taken, SPARE_MAX);
        let _held = spare.0.lock().expect("no panic");
        // A locked list delays nobody, and loses no more than the buffer.
        assert!(spare.take().is_none());
        spare.keep(vec![0; 1].into());
    }
}
