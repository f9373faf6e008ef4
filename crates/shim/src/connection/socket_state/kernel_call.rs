//! Calls that the program makes in the kernel: their begin, their end, and the bytes in between.

use super::{COUNT_MASK, GENERATION_SHIFT, SUSPECT, SocketId, SocketState, half_of};
use crate::connection::ring_half::Direction;
use crate::counters::{self, Counter};
use crate::kernel::Errno;
use crate::memory::layout::half;
use crate::outcome::{KernelCall, Outcome};
use crate::protocol::{HalfView, pass};
use core::sync::atomic::Ordering;

/// Bytes of one call that count as a further call: long streams search earlier.
const BYTES_OF_CALL: usize = 16 * 1024;

impl KernelCall {
    /// Counts a call as under way, past this library.
    pub(in crate::connection) fn begin(id: SocketId, direction: Direction) -> Self {
        let calls = &id.state().in_kernel[direction as usize];
        let before = calls.fetch_add(1, Ordering::AcqRel);
        let generation = u32::try_from(before >> GENERATION_SHIFT).unwrap_or(0);
        let receives = direction == Direction::Receive;
        Self { socket: id.number(), generation, receives, in_pair: false }
    }

    /// A send of a socket with a pair, in this use of its state; the caller has raised `SENDING`
    /// for it.
    pub(in crate::connection) fn of_pair(id: SocketId, generation: u32) -> Self {
        Self { socket: id.number(), generation, receives: false, in_pair: true }
    }

    /// The same for a receive: the caller has raised `RECEIVING`.
    pub(in crate::connection) fn past_ring(id: SocketId, generation: u32) -> Self {
        Self { socket: id.number(), generation, receives: true, in_pair: true }
    }

    /// Says that the call has come back, after so many bytes or with an error. Another thread may
    /// have closed the socket meanwhile, and another socket may have its state.
    pub fn end(self, result: Result<usize, Errno>) {
        let Some(id) = SocketId::from_number(self.socket) else { return };
        let state = id.state();
        let bytes = result.unwrap_or(0);
        if !self.in_pair {
            let less = |seen: u64| {
                let is_own = seen >> GENERATION_SHIFT == u64::from(self.generation);
                (is_own && seen & COUNT_MASK > 0).then(|| seen - 1)
            };
            let calls = &state.in_kernel[usize::from(self.receives)];
            let ended = calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
            if ended.is_ok() && self.receives {
                state.note_received(result);
            }
            if ended.is_ok() && bytes >= BYTES_OF_CALL {
                let more = u32::try_from(bytes / BYTES_OF_CALL).unwrap_or(u32::MAX >> 8);
                state.search.calls.fetch_add(more, Ordering::Relaxed);
            }
            return;
        }
        // SeqCst: pairs with `free`, which changes the generation and then waits for this thread.
        state.ending.fetch_add(1, Ordering::SeqCst);
        if state.generation.load(Ordering::SeqCst) == self.generation
            && let Some(end) = state.end()
        {
            if self.receives {
                state.note_received(result);
                let half = half_of(end, Direction::Receive);
                half.add(half::KERNEL_TAKEN, bytes as u64);
                state.receives.past_ring.end();
                pass::end(&half);
            } else {
                let half = half_of(end, Direction::Send);
                half.add(half::KERNEL, bytes as u64);
                counters::add(Counter::KernelBytes, bytes as u64);
                half.word(half::SENDING).fetch_sub(1, Ordering::AcqRel);
            }
        }
        state.ending.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SocketState {
    /// Notes the result of a receive of at least one byte. After an end or an error of the stream
    /// the program's next send must fail as the kernel's would.
    pub(in crate::connection) fn note_received(&self, result: Result<usize, Errno>) {
        if matches!(result, Ok(1..) | Err(libc::EAGAIN | libc::EINTR)) {
            return;
        }
        if result.is_err() {
            // The kernel reports each end once.
            self.receives.tells_reset();
        }
        self.progress[1].store(SUSPECT, Ordering::Relaxed);
    }

    /// Whether the peer ended something: all further sends are the kernel's.
    pub(in crate::connection) fn is_suspect(&self) -> bool {
        self.progress[1].load(Ordering::Relaxed) == SUSPECT
    }
}

impl Outcome {
    /// Makes the real call where the kernel must do it.
    ///
    /// # Errors
    /// The error number of the call.
    pub fn or_real(self, real: impl FnOnce() -> Result<usize, i32>) -> Result<usize, i32> {
        match self {
            Self::Done(bytes) => Ok(bytes),
            Self::Failed(errno) => Err(errno),
            Self::Kernel => real(),
            Self::Counted(call) => {
                let result = real();
                call.end(result);
                result
            }
        }
    }
}
