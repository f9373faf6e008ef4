//! The desk: what an endpoint and the node daemon share, and nobody else.
//!
//! The daemon bumps `news` (a word the owner may sleep on) when frames wait on
//! the control socket, and raises flags; the owner tells what it waits for and counts.

use crate::words::{Page, Word32, Word64};
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_abi::Address;
use m3ipc_shm::SharedPage;
use m3ipc_sys::Errno;
use std::os::fd::AsFd;

/// Size of a desk in bytes.
pub const CONTROL_PAGE_BYTES: usize = m3ipc_shm::PAGE_BYTES;

/// A wakeup that no receive(ANY) has consumed yet.
pub const FLAG_WOKEN: u32 = 1;
/// Another has unbound this endpoint.
pub const FLAG_UNBOUND: u32 = 2;
/// The VM has ended.
pub const FLAG_ENDED: u32 = 4;

const NEWS: usize = 0;
const FLAGS: usize = 4;
const BLOCKED: usize = 64;
const SINCE: usize = 72;
const THREAD: usize = 80;
const COUNTERS: usize = 128;
/// Where in the page the owner's pulse lies, in bytes.
pub const LIVENESS_LOCK_OFFSET: usize = CONTROL_PAGE_BYTES - m3ipc_sys::LIVENESS_LOCK_BYTES;

/// The calls an endpoint can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// In none: it runs.
    None = 0,
    /// In send: not yet taken.
    Send = 1,
    /// In receive.
    Receive = 2,
    /// In sendrec: not yet taken.
    SendRec = 3,
    /// In sendrec: taken, awaiting the answer.
    Await = 4,
    /// In rcvrqst.
    Rcvrqst = 5,
    /// Waiting for a bind, an unbind or a name.
    Wait = 6,
}

impl Verb {
    /// Whether who is in this call lies still, and may be copied with.
    #[must_use]
    #[inline]
    pub const fn may_be_copied(self) -> bool {
        matches!(self, Self::Receive | Self::Rcvrqst | Self::SendRec | Self::Await)
    }

    fn from_bits(bits: u64) -> Self {
        match bits & 0xff {
            1 => Self::Send,
            2 => Self::Receive,
            3 => Self::SendRec,
            4 => Self::Await,
            5 => Self::Rcvrqst,
            6 => Self::Wait,
            _ => Self::None,
        }
    }
}

/// What an endpoint says that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRecord {
    /// The call.
    pub verb: Verb,
    /// The partner, or ANY.
    pub peer: Address,
    /// Since when, in nanoseconds of the monotonic clock; 0 while it still looks.
    pub since_ns: u64,
    /// The thread that sleeps.
    pub tid: u32,
}

/// What an endpoint counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Messages posted and taken by a peer.
    Sent = 0,
    /// Messages taken.
    Received = 1,
    /// Notifications sent.
    Notified = 2,
    /// Times it slept.
    Slept = 3,
    /// Peers it woke.
    Woke = 4,
    /// Links it poisoned.
    Poisoned = 5,
    /// Copies that the kernel made.
    CopiedDirect = 6,
    /// Copies that went through a window or a buffer.
    CopiedServed = 7,
    /// Copies between areas, which the requester made.
    CopiedShared = 8,
}

/// The owner's side of a desk.
#[derive(Debug)]
pub struct ControlPage<P = SharedPage>(P);

impl ControlPage {
    /// Maps a desk.
    ///
    /// # Errors
    /// Of [`SharedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        SharedPage::map(memory).map(Self)
    }
}

impl<P: Page> ControlPage<P> {
    /// The desk in this memory.
    pub fn over(page: P) -> Self {
        Self(page)
    }

    /// The word that the daemon bumps: sleep on it beside the links.
    #[must_use]
    #[inline]
    pub fn event_word(&self) -> &P::Word32 {
        self.0.word32(NEWS)
    }

    /// The flags that are raised.
    #[must_use]
    #[inline]
    pub fn flags(&self) -> u32 {
        self.0.word32(FLAGS).load(Ordering::Acquire)
    }

    /// Lowers a flag; `true` if it was raised.
    pub fn take_flag(&self, flag: u32) -> bool {
        self.0.word32(FLAGS).fetch_and(!flag, Ordering::AcqRel) & flag != 0
    }

    /// Raises a flag.
    pub fn raise(&self, flag: u32) {
        self.0.word32(FLAGS).fetch_or(flag, Ordering::AcqRel);
    }

    /// Says what the owner begins to wait for: one store to a line of its own.
    #[inline]
    pub fn set_blocked(&self, verb: Verb, peer: Address) {
        let word = verb as u64 | u64::from(peer.0.cast_unsigned()) << 32;
        self.0.word64(SINCE).store(0, Ordering::Relaxed);
        self.0.word64(BLOCKED).store(word, Ordering::Release);
    }

    /// Says since when, and which thread: before the owner sleeps.
    pub fn set_sleep_start(&self, since_ns: u64, tid: u32) {
        self.0.word32(THREAD).store(tid, Ordering::Relaxed);
        self.0.word64(SINCE).store(since_ns, Ordering::Release);
    }

    /// Says that the owner runs.
    #[inline]
    pub fn set_running(&self) {
        self.0.word64(BLOCKED).store(0, Ordering::Release);
    }

    /// Counts one.
    #[inline]
    pub fn count(&self, counter: Counter) {
        let word = self.0.word64(COUNTERS + 8 * counter as usize);
        // One writer: no locked addition is needed.
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// The daemon's side of a desk.
#[derive(Debug)]
pub struct ControlPageView<P = SharedPage>(P);

impl ControlPageView {
    /// Maps a desk.
    ///
    /// # Errors
    /// Of [`SharedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        SharedPage::map(memory).map(Self)
    }

    /// The word of the owner's pulse: what it holds is the owner's claim.
    #[must_use]
    pub fn liveness_lock(&self) -> &AtomicU32 {
        self.0.word32(LIVENESS_LOCK_OFFSET)
    }
}

impl<P: Page> ControlPageView<P> {
    /// The desk in this memory.
    pub fn over(page: P) -> Self {
        Self(page)
    }

    /// Tells the owner that there are news, and wakes it.
    pub fn announce_event(&self) {
        let news = self.0.word32(NEWS);
        news.bump();
        self.0.wake(news);
    }

    /// Raises a flag.
    pub fn raise(&self, flag: u32) {
        self.0.word32(FLAGS).fetch_or(flag, Ordering::AcqRel);
    }

    /// What the owner says that it waits for.
    #[must_use]
    pub fn blocked(&self) -> WaitRecord {
        let word = self.0.word64(BLOCKED).load(Ordering::Acquire);
        WaitRecord {
            verb: Verb::from_bits(word),
            peer: Address(((word >> 32) as u32).cast_signed()),
            since_ns: self.0.word64(SINCE).load(Ordering::Acquire),
            tid: self.0.word32(THREAD).load(Ordering::Relaxed),
        }
    }

    /// What the owner has counted.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.0.word64(COUNTERS + 8 * counter as usize).load(Ordering::Relaxed)
    }
}
