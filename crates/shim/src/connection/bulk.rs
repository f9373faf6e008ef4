//! Bulk streams: a direction that overflows its ring again and again pays for ring and kernel.
//!
//! Overflows are judged in windows of [`OVERFLOWS`]. A stream is bulk if it sent few bytes through
//! its ring in a window, and sent them in few pieces: where many small messages lie between two
//! overflows, the ring gains more than an overflow costs. Only overflows of a ring of the largest
//! size count, since a smaller one grows. An early burst, or a burst now and then in a long life,
//! so leaves a stream in its ring.
//!
//! The counts of bytes and pieces come from shared memory, and may have any value.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Overflows of a window.
const OVERFLOWS: u32 = 16;
/// A bulk stream fills its ring less often than this between two overflows.
const RINGS: u64 = 8;
/// A bulk stream publishes fewer pieces than this between two overflows.
const PIECES: u64 = 128;

/// The window of overflows of one direction. The sender's lock guards it.
#[derive(Debug)]
pub struct BulkWindow {
    overflows: AtomicU32,
    /// The bytes that had gone through the ring at the start of the window.
    bytes: AtomicU64,
    /// The pieces of these bytes.
    pieces: AtomicU64,
}

impl BulkWindow {
    /// An empty window: all zeros.
    pub(super) const fn new() -> Self {
        Self { overflows: AtomicU32::new(0), bytes: AtomicU64::new(0), pieces: AtomicU64::new(0) }
    }

    /// Forgets the stream of before.
    pub(super) fn reset(&self) {
        self.overflows.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.pieces.store(0, Ordering::Relaxed);
    }

    /// Notes an overflow after so many bytes and pieces, ever, of a ring of this size; whether the
    /// stream is bulk.
    pub(super) fn note_overflow(&self, bytes: u64, pieces: u64, ring_bytes: usize) -> bool {
        let overflows = self.overflows.load(Ordering::Relaxed) + 1;
        if overflows < OVERFLOWS {
            self.overflows.store(overflows, Ordering::Relaxed);
            return false;
        }
        self.overflows.store(0, Ordering::Relaxed);
        let since =
            |start: &AtomicU64, now: u64| now.wrapping_sub(start.swap(now, Ordering::Relaxed));
        let (bytes, pieces) = (since(&self.bytes, bytes), since(&self.pieces, pieces));
        let average = |count: u64| count / u64::from(OVERFLOWS);
        average(bytes) < RINGS.saturating_mul(ring_bytes as u64) && average(pieces) < PIECES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING_BYTES: usize = 65_536;

    /// The overflows until a stream is bulk that sends so many bytes and pieces before each.
    fn overflows_until_bulk(
        window: &BulkWindow,
        from: u64,
        bytes: u64,
        pieces: u64,
    ) -> Option<u64> {
        (1..=1000).find(|overflow| {
            let count = |each: u64| from.wrapping_add(overflow * each);
            window.note_overflow(count(bytes), count(pieces), RING_BYTES)
        })
    }

    #[test]
    fn a_stream_that_overflows_again_and_again_is_bulk() {
        assert_eq!(overflows_until_bulk(&BulkWindow::new(), 0, 65_536, 4), Some(16));
        assert_eq!(overflows_until_bulk(&BulkWindow::new(), 0, 0, 0), Some(16));
        let window = BulkWindow::new();
        assert_eq!(overflows_until_bulk(&window, 0, 65_536, 4), Some(16));
        window.reset();
        assert_eq!(overflows_until_bulk(&window, 0, 65_536, 4), Some(16));
    }

    #[test]
    fn a_stream_that_overflows_now_and_then_is_not_bulk() {
        assert_eq!(overflows_until_bulk(&BulkWindow::new(), 0, 1 << 20, 64), None);
        // Many small messages, and then one that is larger than the ring.
        assert_eq!(overflows_until_bulk(&BulkWindow::new(), 0, 400_000, 400), None);
    }

    #[test]
    fn bytes_of_before_count_for_one_window_alone() {
        assert_eq!(overflows_until_bulk(&BulkWindow::new(), 1 << 40, 65_536, 4), Some(32));
    }

    #[test]
    fn any_counts_in_shared_memory_are_harmless() {
        let window = BulkWindow::new();
        for count in [u64::MAX, 0, 1, u64::MAX - 1, 1 << 63] {
            for _overflow in 0..40 {
                window.note_overflow(count, !count, usize::MAX);
            }
        }
        assert_eq!(overflows_until_bulk(&BulkWindow::new(), u64::MAX - 9, 65_536, 4), Some(16));
    }
}
