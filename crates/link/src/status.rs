//! The status page: the public state of an endpoint.
//!
//! Its owner writes it and its peers read it. The daemon seals it against other writers. Senders
//! read its one cache line after every post. So the line changes only if the owner begins or ends a
//! sleep, moves to another CPU, or changes its hot set, its priority or its receive limit.

use crate::wait_mode::WaitMode;
use crate::words::{Page, View, Word32, Word64};
use core::sync::atomic::Ordering;
use m3ipc_abi::{LARGE_MAX_BYTES, LONG_MAX_BYTES, RECEIVE_LIMIT_BYTES};
use m3ipc_shm::{ObservedPage, SharedPage};
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// Size of a status page in bytes.
pub const STATUS_BYTES: usize = m3ipc_shm::PAGE_BYTES;
/// Size of the hot set: the links that an endpoint polls without their ready bits.
pub const HOT_SET_MAX: usize = 6;

const MODE: usize = 0;
const CPU: usize = 8;
const HOT_SET: usize = 12;
const PRIORITY: usize = HOT_SET + 4 * HOT_SET_MAX;
const THREAD: usize = PRIORITY + 4;
const RECEIVE_LIMIT: usize = THREAD + 4;
const _: () = assert!(RECEIVE_LIMIT + 4 <= 64, "peers read one cache line");
/// The highest priority of an endpoint.
pub const PRIORITY_MAX: u8 = 99;
#[allow(clippy::cast_possible_truncation)] // asserted below
const DEFAULT_RECEIVE_LIMIT: u32 = RECEIVE_LIMIT_BYTES as u32;
const _: () = assert!(DEFAULT_RECEIVE_LIMIT as usize == RECEIVE_LIMIT_BYTES);
const _: () = assert!(LARGE_MAX_BYTES <= u32::MAX as usize);

/// Publishes a wait mode. Before a sleep, the owner polls once more afterwards.
fn publish_mode(word: &impl Word64, mode: WaitMode) {
    word.swap(mode.encode(), Ordering::SeqCst);
    // Pairs with the fences of `slot::post`, `slot::take`, `slot::refuse`, `Link::notify`,
    // `Link::send_pulse` and `ReadyBitmap::raise`, after which a sender reads the mode.
    word.fence_after_update();
}

/// The owner's side of a status page.
#[derive(Debug)]
pub struct OwnStatus<P = SharedPage> {
    page: P,
    cpu: u32,
}

impl OwnStatus {
    /// Maps the own status page, before the daemon seals it.
    ///
    /// # Errors
    /// Those of [`SharedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        SharedPage::map(memory).map(Self::over)
    }
}

impl<P: Page> OwnStatus<P> {
    /// The own status page in this memory.
    pub fn over(page: P) -> Self {
        page.word32(CPU).store(u32::MAX, Ordering::Relaxed);
        for at in 0..HOT_SET_MAX {
            page.word32(HOT_SET + 4 * at).store(u32::MAX, Ordering::Relaxed);
        }
        page.word32(RECEIVE_LIMIT).store(DEFAULT_RECEIVE_LIMIT, Ordering::Relaxed);
        Self { page, cpu: u32::MAX }
    }

    /// Publishes the wait mode: see [`waiting`](crate::waiting).
    pub fn set_mode(&self, mode: WaitMode) {
        publish_mode(self.page.word64(MODE), mode);
    }

    /// The wait mode that was published last.
    #[must_use]
    pub fn mode(&self) -> WaitMode {
        WaitMode::decode(self.page.word64(MODE).load(Ordering::Relaxed))
    }

    /// Publishes the CPU of the owner, if it has changed.
    #[inline]
    pub fn set_cpu(&mut self, cpu: u32) {
        if self.cpu != cpu {
            self.cpu = cpu;
            self.page.word32(CPU).store(cpu, Ordering::Relaxed);
        }
    }

    /// The CPU of the owner, as published last.
    #[must_use]
    #[inline]
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Publishes the priority of the owner. Afterwards, wake peers that wait and inherit.
    pub fn set_priority(&self, priority: u8) {
        let word = self.page.word32(PRIORITY);
        word.swap(u32::from(priority), Ordering::SeqCst);
        // Pairs with the fence of `publish_mode`, after which a peer reads the priority.
        word.fence_after_update();
    }

    /// The priority that was published last.
    #[must_use]
    pub fn priority(&self) -> u8 {
        as_priority(self.page.word32(PRIORITY).load(Ordering::Relaxed))
    }

    /// Publishes the thread that takes over the priorities of clients, or 0.
    pub fn set_thread(&self, tid: u32) {
        self.page.word32(THREAD).store(tid, Ordering::Relaxed);
    }

    /// The thread that was published last, or 0.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.page.word32(THREAD).load(Ordering::Relaxed)
    }

    /// Publishes the longest payload that the owner takes, in bytes.
    pub fn set_receive_limit(&self, bytes: usize) {
        let bytes = u32::try_from(bytes.min(LARGE_MAX_BYTES)).unwrap_or(u32::MAX);
        self.page.word32(RECEIVE_LIMIT).store(bytes, Ordering::Relaxed);
    }

    /// The receive limit that was published last, in bytes.
    #[must_use]
    pub fn receive_limit(&self) -> usize {
        as_receive_limit(self.page.word32(RECEIVE_LIMIT).load(Ordering::Relaxed))
    }

    /// Puts a link into an entry of the hot set. Afterwards, poll the link that was in this entry
    /// once more: its sender may have seen it there and set no ready bit.
    pub fn set_hot(&self, entry: usize, index: u32) {
        let word = self.page.word32(HOT_SET + 4 * (entry % HOT_SET_MAX));
        word.swap(index, Ordering::SeqCst);
        // Pairs with the fence of `slot::post`, after which a sender calls `PeerStatus::is_hot`.
        word.fence_after_update();
    }
}

/// A peer's side of a status page.
#[derive(Debug)]
pub struct PeerStatus<V = ObservedPage>(V);

impl PeerStatus {
    /// Maps a peer's status page.
    ///
    /// # Errors
    /// Those of [`ObservedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        ObservedPage::map(memory).map(Self)
    }
}

impl<V: View> PeerStatus<V> {
    /// A peer's status page in this memory.
    pub fn over(view: V) -> Self {
        Self(view)
    }

    /// The owner's wait mode. Read it after a publication: see [`waiting`](crate::waiting).
    #[must_use]
    #[inline]
    pub fn mode(&self) -> WaitMode {
        WaitMode::decode(self.0.load64(MODE, Ordering::SeqCst))
    }

    /// Whether the owner's wait mode is `Awake`. Read it after a publication, as the mode.
    #[must_use]
    #[inline]
    pub fn is_awake(&self) -> bool {
        self.0.load64(MODE, Ordering::SeqCst) == WaitMode::Awake.encode()
    }

    /// The CPU that the owner last published.
    #[must_use]
    #[inline]
    pub fn cpu(&self) -> u32 {
        self.0.load32(CPU, Ordering::Relaxed)
    }

    /// The priority that the owner claims, at most [`PRIORITY_MAX`].
    #[must_use]
    #[inline]
    pub fn priority(&self) -> u8 {
        as_priority(self.0.load32(PRIORITY, Ordering::SeqCst))
    }

    /// The thread that, as the owner claims, takes over the priorities of clients; 0 for none.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.0.load32(THREAD, Ordering::Relaxed)
    }

    /// The longest payload that the owner says it takes, in bytes. An owner that published none
    /// has none.
    #[must_use]
    pub fn receive_limit(&self) -> usize {
        as_receive_limit(self.0.load32(RECEIVE_LIMIT, Ordering::Relaxed))
    }

    /// Whether the owner polls the link of this index without its ready bit.
    #[must_use]
    #[inline]
    pub fn is_hot(&self, index: u32) -> bool {
        (0..HOT_SET_MAX).any(|at| self.0.load32(HOT_SET + 4 * at, Ordering::SeqCst) == index)
    }
}

/// The priority in a word. A hostile owner gets the highest one at most.
fn as_priority(word: u32) -> u8 {
    u8::try_from(word).map_or(PRIORITY_MAX, |priority| priority.min(PRIORITY_MAX))
}

/// The receive limit in a word, within what a message can have. A payload in the link always fits.
fn as_receive_limit(word: u32) -> usize {
    match word as usize {
        0 => LARGE_MAX_BYTES,
        bytes => bytes.clamp(LONG_MAX_BYTES, LARGE_MAX_BYTES),
    }
}
