//! The status page: an endpoint's public face.
//!
//! Written by its owner, seen by its peers; the daemon seals it against any
//! other writer. Its one line is read after every post, so it changes only
//! when the owner goes to sleep, wakes, moves to another CPU or attends to other links.

use crate::words::{Page, View, Word32, Word64};
use core::sync::atomic::Ordering;
use m3ipc_abi::Address;
use m3ipc_shm::{ObservedPage, SharedPage};
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// Size of a status page in bytes.
pub const STATUS_BYTES: usize = m3ipc_shm::PAGE_BYTES;
/// The most links that an endpoint looks at without being hinted.
pub const HOT_SET_MAX: usize = 6;

const MODE: usize = 0;
const CPU: usize = 8;
const WATCH: usize = 12;

/// Whether, and how, an endpoint must be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// It looks for itself.
    Awake,
    /// It sleeps on the words of its links and waits for this source (or ANY).
    OnLinks(Address),
    /// It sleeps at its bell and waits for this source (or ANY).
    AtDoorbell(Address),
}

impl WaitMode {
    fn encode(self) -> u64 {
        match self {
            Self::Awake => 0,
            Self::OnLinks(source) => 1 | u64::from(source.0.cast_unsigned()) << 32,
            Self::AtDoorbell(source) => 2 | u64::from(source.0.cast_unsigned()) << 32,
        }
    }

    /// Whatever a peer writes has a meaning: at worst, nobody is woken.
    #[inline]
    fn decode(word: u64) -> Self {
        let source = Address(((word >> 32) as u32).cast_signed());
        match word & 0xff {
            1 => Self::OnLinks(source),
            2 => Self::AtDoorbell(source),
            _ => Self::Awake,
        }
    }
}

/// Says that one sleeps, before the last look at all that could wake.
pub fn publish_mode(word: &impl Word64, mode: WaitMode) {
    word.swap(mode.encode(), Ordering::SeqCst);
    word.fence_after_update(); // pairs with `post` and `take`, which look at the mode afterwards
}

/// The owner's side.
#[derive(Debug)]
pub struct OwnStatus<P = SharedPage> {
    page: P,
    cpu: u32,
}

impl OwnStatus {
    /// Maps one's own status page, before the daemon seals it.
    ///
    /// # Errors
    /// Of [`SharedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        SharedPage::map(memory).map(Self::over)
    }
}

impl<P: Page> OwnStatus<P> {
    /// One's own status in this memory.
    pub fn over(page: P) -> Self {
        page.word32(CPU).store(u32::MAX, Ordering::Relaxed);
        for at in 0..HOT_SET_MAX {
            page.word32(WATCH + 4 * at).store(u32::MAX, Ordering::Relaxed);
        }
        Self { page, cpu: u32::MAX }
    }

    /// Goes to sleep, or wakes.
    pub fn set_mode(&self, mode: WaitMode) {
        publish_mode(self.page.word64(MODE), mode);
    }

    /// Tells on which CPU the owner runs, where that has changed.
    #[inline]
    pub fn set_cpu(&mut self, cpu: u32) {
        if self.cpu != cpu {
            self.cpu = cpu;
            self.page.word32(CPU).store(cpu, Ordering::Relaxed);
        }
    }

    /// Tells which link is looked at without a hint; the caller looks at the
    /// link that lost its place once more afterwards.
    pub fn set_hot(&self, place: usize, index: u32) {
        let watch = self.page.word32(WATCH + 4 * (place % HOT_SET_MAX));
        watch.swap(index, Ordering::SeqCst);
        watch.fence_after_update(); // pairs with `post` before `PeerStatus::watches`
    }
}

/// A peer's side: what one may see.
#[derive(Debug)]
pub struct PeerStatus<V = ObservedPage>(V);

impl PeerStatus {
    /// Maps a peer's status page.
    ///
    /// # Errors
    /// Of [`ObservedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        ObservedPage::map(memory).map(Self)
    }
}

impl<V: View> PeerStatus<V> {
    /// A peer's status in this memory.
    pub fn over(view: V) -> Self {
        Self(view)
    }

    /// Whether it must be woken; to be asked after a post.
    #[must_use]
    #[inline]
    pub fn mode(&self) -> WaitMode {
        WaitMode::decode(self.0.load64(MODE, Ordering::SeqCst))
    }

    /// The CPU it was last seen on.
    #[must_use]
    #[inline]
    pub fn cpu(&self) -> u32 {
        self.0.load32(CPU, Ordering::Relaxed)
    }

    /// Whether it looks at the link of this index without a hint.
    #[must_use]
    #[inline]
    pub fn is_hot(&self, index: u32) -> bool {
        (0..HOT_SET_MAX).any(|at| self.0.load32(WATCH + 4 * at, Ordering::SeqCst) == index)
    }
}
