//! What a stream and its poller share.

use crate::pair::DirectionWords;
use crate::receive_ring::RING_MAX_BYTES;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use m3ipc_link::notification::Rest;
use m3ipc_wire::sock::half;
use std::os::fd::OwnedFd;
use std::sync::Weak;

/// A ready stream or descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollEvent {
    /// The token under which it was added.
    pub token: u64,
    /// There are bytes to read, or the other side has ended its sending. Rarely neither: a wakeup
    /// record can come after its bytes were read. A read then fails with `WouldBlock`.
    pub readable: bool,
    /// There is room for bytes.
    pub writable: bool,
    /// The other side has gone.
    pub hung_up: bool,
}

/// What a poller sees of a connection.
#[derive(Debug)]
pub(crate) struct PolledConnection {
    /// The words of the direction in which this side sends.
    pub(crate) out: DirectionWords,
    /// The words of the direction in which the peer sends.
    back: DirectionWords,
    /// One more than the number of the place at which a poller awaits the connection.
    place: AtomicU64,
    /// Where the next bytes of the peer lie in its pool, and where the next own ones go.
    next: [AtomicUsize; 2],
    /// The kernel has something to say that the stream has not heard yet.
    asks_kernel: AtomicBool,
    /// The peer's words TAIL and GIVEN at the last look of the stream that found no bytes.
    nothing_at: [AtomicU64; 2],
}

impl PolledConnection {
    pub(crate) fn new(out: DirectionWords, back: DirectionWords) -> Self {
        Self {
            out,
            back,
            place: AtomicU64::new(0),
            next: Default::default(),
            asks_kernel: AtomicBool::new(true),
            nothing_at: [u64::MAX; 2].map(AtomicU64::new),
        }
    }

    /// The suppression word between wakeup records.
    #[inline]
    pub(crate) fn rest(&self) -> Rest {
        self.place.load(Ordering::SeqCst).checked_sub(1).map_or(Rest::Needed, Rest::Armed)
    }

    /// Whether the next receive must ask the kernel.
    #[inline]
    pub(crate) fn must_ask_kernel(&self) -> bool {
        self.asks_kernel.load(Ordering::Acquire)
    }

    /// Makes the next receive ask the kernel.
    pub(crate) fn ask_kernel(&self) {
        self.asks_kernel.store(true, Ordering::Release);
    }

    /// A receive asks the kernel now.
    pub(crate) fn asks_kernel(&self) {
        self.asks_kernel.swap(false, Ordering::AcqRel);
    }

    /// Whether bytes lie in blocks, or in the socket behind a record.
    ///
    /// The peer may write all these words. False ones cost the loop one look at this connection,
    /// which the stream then [notes](Self::note_nothing).
    #[inline]
    pub(crate) fn has_bytes(&self) -> bool {
        let word = |at| self.back.word(at).load(Ordering::Relaxed);
        let (tail, given) = (self.back.word(half::TAIL).load(Ordering::SeqCst), word(half::GIVEN));
        (tail != word(half::HEAD) || given != word(half::TAKEN))
            && [tail, given] != self.nothing_at.each_ref().map(|it| it.load(Ordering::Relaxed))
    }

    /// Notes the peer's words TAIL and GIVEN, as they were before a look that found no bytes.
    pub(crate) fn note_nothing(&self, tail: u64, given: u64) {
        self.nothing_at[0].store(tail, Ordering::Relaxed);
        self.nothing_at[1].store(given, Ordering::Relaxed);
    }

    /// The number of bytes in blocks as the words say, at most a ring of them.
    pub(crate) fn bytes_in_blocks(&self) -> u64 {
        let [head, tail] =
            [half::HEAD, half::TAIL].map(|at| self.back.word(at).load(Ordering::SeqCst));
        tail.saturating_sub(head).min(RING_MAX_BYTES)
    }

    /// Notes where the next bytes of the peer lie, for [`prefetch`](Self::prefetch).
    #[inline]
    pub(crate) fn note_next_in(&self, offset: usize) {
        self.next[0].store(offset, Ordering::Relaxed);
    }

    /// Notes where the next bytes go.
    #[inline]
    pub(crate) fn note_next_out(&self, offset: usize) {
        self.next[1].store(offset, Ordering::Relaxed);
    }

    /// Asks the CPU for the lines of the next bytes in both directions. They come while the program
    /// finds its stream.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let [incoming, own] = [0, 1].map(|at| self.next[at].load(Ordering::Relaxed));
        self.out.pair.prefetch_bytes(incoming, own);
    }

    /// Lets the peer set a bit in place of a wakeup record, where a bitmap is free.
    pub(crate) fn arm(&self, place: Option<u64>) {
        let Some(place) = place else { return };
        self.place.store(place + 1, Ordering::SeqCst);
        self.back.suppression().arm(place);
    }

    /// Lets the peer send wakeup records. The stream may have bytes without one.
    pub(crate) fn disarm(&self) {
        self.place.store(0, Ordering::SeqCst);
        self.back.suppression().disarm();
    }

    /// Tells the peer that this side takes no more bytes. Before the kernel knows it: the peer then
    /// asks the kernel at each send.
    pub(crate) fn publish_end(&self) {
        self.back.word(half::RECEIVER_ENDED).store(1, Ordering::Release);
    }

    /// Whether the peer has said that it takes no more bytes.
    #[inline]
    pub(crate) fn has_peer_ended(&self) -> bool {
        // In the line that each send writes.
        self.out.word(half::RECEIVER_ENDED).load(Ordering::Relaxed) != 0
    }

    /// Whether the peer sent on this CPU last.
    pub(crate) fn peer_is_on(&self, cpu: u32) -> bool {
        self.back.cpu(half::SENDER_CPU).load(Ordering::Relaxed) == cpu
    }

    /// Publishes the CPU of the receiver where it has changed.
    pub(crate) fn publish_cpu(&self, cpu: u32) {
        let word = self.back.cpu(half::RECEIVER_CPU);
        if word.load(Ordering::Relaxed) != cpu {
            word.store(cpu, Ordering::Relaxed);
        }
    }
}

/// A poller that streams remove themselves from.
pub(crate) trait StreamRemover: core::fmt::Debug + Send + Sync {
    /// Removes the stream with this socket and entry.
    fn remove(&self, socket: &OwnedFd, entry: u64);
}

/// The entry of a stream in a poller.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) poller: Weak<dyn StreamRemover>,
    pub(crate) entry: u64,
}

impl Registration {
    /// Whether the poller still exists.
    pub(crate) fn is_alive(&self) -> bool {
        self.poller.strong_count() > 0
    }

    /// Removes the stream from its poller.
    pub(crate) fn end(&self, socket: &OwnedFd, polled: &PolledConnection) {
        if let Some(poller) = self.poller.upgrade() {
            poller.remove(socket, self.entry);
        }
        polled.disarm();
    }
}
