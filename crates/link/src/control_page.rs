//! The control page: the page that an endpoint and the node daemon share.
//!
//! The daemon increments the event word, on which the owner may sleep, after each daemon event. It
//! also raises flags. The owner records its waits and counts its calls.
//!
//! One word says whether the owner has mapped the pages of its bind. Owner and daemon each set a
//! bit of it by one instruction, which returns the other bit. So the daemon finds the pages mapped,
//! or the owner finds that the daemon awaits a notice.

use crate::wait_call::WaitCall;
use crate::words::{Page, Word32, Word64};
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_abi::Address;
use m3ipc_shm::SharedPage;
use m3ipc_sys::{Errno, LIVENESS_OWNER_DIED, LIVENESS_OWNER_MASK, LIVENESS_WAITERS, LivenessLock};
use std::os::fd::AsFd;

/// Size of a control page in bytes.
pub const CONTROL_PAGE_BYTES: usize = m3ipc_shm::PAGE_BYTES;

/// Flag: a wakeup that no receive(ANY) has consumed yet.
pub const FLAG_WOKEN: u32 = 1;
/// Flag: another process has unbound this endpoint.
pub const FLAG_UNBOUND: u32 = 2;
/// Flag: the VM has ended.
pub const FLAG_ENDED: u32 = 4;

const EVENT_WORD: usize = 0;
const FLAGS: usize = 4;
const BEHIND: usize = 8;
const MAPPED: usize = 12;
const BLOCKED: usize = 64;
const SINCE: usize = 72;
const THREAD: usize = 80;
const COUNTERS: usize = 128;
/// Bit of the word of the mapping: the owner has mapped its pages.
const IS_MAPPED: u32 = 1;
/// Bit of the word of the mapping: the daemon awaits a notice.
const IS_AWAITED: u32 = 2;
/// Offset of the word that the kernel marks when the daemon ends, in bytes.
pub const DAEMON_MARK_OFFSET: usize = LIVENESS_LOCK_OFFSET - 64;
/// Offset of the owner's liveness lock in the page, in bytes.
pub const LIVENESS_LOCK_OFFSET: usize = CONTROL_PAGE_BYTES - m3ipc_sys::LIVENESS_LOCK_BYTES;

/// The wait of an endpoint, by its own record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRecord {
    /// The call.
    pub call: WaitCall,
    /// The partner, or ANY.
    pub peer: Address,
    /// Begin of its sleep, in nanoseconds of the monotonic clock; 0 while it polls.
    pub since_ns: u64,
    /// The sleeping thread.
    pub tid: u32,
}

/// The counters of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Messages that a peer took.
    Sent = 0,
    /// Messages that the endpoint took.
    Received = 1,
    /// Notifications sent.
    Notified = 2,
    /// Sleeps.
    Slept = 3,
    /// Wake-ups of peers.
    Woke = 4,
    /// Poisoned links.
    Poisoned = 5,
    /// Direct copies, by the kernel.
    CopiedDirect = 6,
    /// Served copies, through a bounce buffer.
    CopiedServed = 7,
    /// Copies in common areas, by the requester.
    CopiedShared = 8,
}

/// What a daemon mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonMark {
    /// The daemon has given no mark: only a look at its connection shows its end.
    None,
    /// The daemon runs, or is stopped.
    Live,
    /// The daemon has begun to end.
    Ended,
}

impl DaemonMark {
    /// The meaning of this value of the word. The kernel wakes a sleeper only if the waiters bit is
    /// set.
    #[must_use]
    pub fn of(value: u32) -> Self {
        if value & LIVENESS_OWNER_DIED != 0 {
            Self::Ended
        } else if value & LIVENESS_WAITERS != 0 && value & LIVENESS_OWNER_MASK != 0 {
            Self::Live
        } else {
            Self::None
        }
    }
}

/// The owner's side of a control page.
#[derive(Debug)]
pub struct ControlPage<P = SharedPage>(P);

impl ControlPage {
    /// Maps a control page.
    ///
    /// # Errors
    /// Those of [`SharedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        SharedPage::map(memory).map(Self)
    }

    /// Locks the liveness lock for this thread. The page stays mapped as long as the lock.
    ///
    /// # Errors
    /// Those of [`LivenessLock::take_in`].
    pub fn take_liveness_lock(&self) -> Result<LivenessLock, Errno> {
        LivenessLock::take_in(self.0.mapping(), LIVENESS_LOCK_OFFSET)
    }
}

impl<P: Page> ControlPage<P> {
    /// The control page in this memory.
    pub fn over(page: P) -> Self {
        Self(page)
    }

    /// The word that the daemon increments. Every sleep includes it.
    #[must_use]
    #[inline]
    pub fn event_word(&self) -> &P::Word32 {
        self.0.word32(EVENT_WORD)
    }

    /// The word that the kernel marks when the daemon ends, and wakes a sleeper of. See
    /// [`DaemonMark`] for its values.
    #[must_use]
    pub fn daemon_mark(&self) -> &P::Word32 {
        self.0.word32(DAEMON_MARK_OFFSET)
    }

    /// Says that the owner has mapped its pages. `true` if the daemon awaits a notice of that.
    #[must_use]
    pub fn set_mapped(&self) -> bool {
        self.0.word32(MAPPED).fetch_or(IS_MAPPED, Ordering::SeqCst) & IS_AWAITED != 0
    }

    /// Whether the daemon has events for the owner that it could not send yet.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.0.word32(BEHIND).load(Ordering::SeqCst) != 0
    }

    /// The raised flags.
    #[must_use]
    #[inline]
    pub fn flags(&self) -> u32 {
        self.0.word32(FLAGS).load(Ordering::Acquire)
    }

    /// Lowers a flag. `true` if it was raised.
    pub fn take_flag(&self, flag: u32) -> bool {
        self.0.word32(FLAGS).fetch_and(!flag, Ordering::AcqRel) & flag != 0
    }

    /// Raises a flag.
    pub fn raise(&self, flag: u32) {
        self.0.word32(FLAGS).fetch_or(flag, Ordering::AcqRel);
    }

    /// Records the begin of a wait. The record has a cache line of its own.
    #[inline]
    pub fn set_blocked(&self, call: WaitCall, peer: Address) {
        let word = call as u64 | u64::from(peer.0.cast_unsigned()) << 32;
        self.0.word64(SINCE).store(0, Ordering::Relaxed);
        self.0.word64(BLOCKED).store(word, Ordering::Release);
    }

    /// Records the begin of a sleep, in nanoseconds of the monotonic clock, and the thread.
    pub fn set_sleep_start(&self, since_ns: u64, tid: u32) {
        self.0.word32(THREAD).store(tid, Ordering::Relaxed);
        self.0.word64(SINCE).store(since_ns, Ordering::Release);
    }

    /// Records the end of the wait.
    #[inline]
    pub fn set_running(&self) {
        self.0.word64(BLOCKED).store(0, Ordering::Release);
    }

    /// Increments a counter.
    #[inline]
    pub fn count(&self, counter: Counter) {
        let word = self.0.word64(COUNTERS + 8 * counter as usize);
        // The word has one writer, so the addition needs no lock.
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The value of a counter.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.0.word64(COUNTERS + 8 * counter as usize).load(Ordering::Relaxed)
    }
}

/// The daemon's side of a control page.
#[derive(Debug)]
pub struct ControlPageView<P = SharedPage>(P);

impl ControlPageView {
    /// Maps a control page.
    ///
    /// # Errors
    /// Those of [`SharedPage::map`].
    pub fn map(memory: impl AsFd) -> Result<Self, Errno> {
        SharedPage::map(memory).map(Self)
    }

    /// The word of the owner's liveness lock. Its value is only a claim of the owner.
    #[must_use]
    pub fn liveness_lock(&self) -> &AtomicU32 {
        self.0.word32(LIVENESS_LOCK_OFFSET)
    }
}

impl<P: Page> ControlPageView<P> {
    /// The control page in this memory.
    pub fn over(page: P) -> Self {
        Self(page)
    }

    /// Tells the owner whether the daemon has events for it that it could not send yet. Announce an
    /// event after it.
    pub fn set_behind(&self, is_behind: bool) {
        self.0.word32(BEHIND).store(u32::from(is_behind), Ordering::SeqCst);
    }

    /// Whether the owner says that it has mapped its pages. If not, it sends a notice when it has.
    #[must_use]
    pub fn await_mapped(&self) -> bool {
        self.0.word32(MAPPED).fetch_or(IS_AWAITED, Ordering::SeqCst) & IS_MAPPED != 0
    }

    /// Announces a daemon event to the owner, and wakes it.
    pub fn announce_event(&self) {
        let word = self.0.word32(EVENT_WORD);
        word.bump();
        self.0.wake(word);
    }

    /// Raises a flag.
    pub fn raise(&self, flag: u32) {
        self.0.word32(FLAGS).fetch_or(flag, Ordering::AcqRel);
    }

    /// The owner's record of its wait.
    #[must_use]
    pub fn blocked(&self) -> WaitRecord {
        let word = self.0.word64(BLOCKED).load(Ordering::Acquire);
        WaitRecord {
            call: WaitCall::from_bits(word),
            peer: Address(((word >> 32) as u32).cast_signed()),
            since_ns: self.0.word64(SINCE).load(Ordering::Acquire),
            tid: self.0.word32(THREAD).load(Ordering::Relaxed),
        }
    }

    /// The value of a counter.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.0.word64(COUNTERS + 8 * counter as usize).load(Ordering::Relaxed)
    }
}
