//! Receiving: the steps of [`crate::protocol::pull`], then sleep in the kernel.

use super::blocked::{CallLimit, Refusals, disconnect, interrupted, seal};
use super::pairs::PairEnd;
use super::past_ring_thread::PastRingThread;
use super::reservation::Reservation;
use super::ring_half::{Direction, RingHalf};
use super::route;
use crate::buffers::{Buffers, IovCursor, no_runs};
use crate::kernel::{Errno, file, socket};
use crate::memory::layout::half;
use crate::memory::lock::{self, LockResult};
use crate::outcome::Outcome;
use crate::protocol::pull::{Attempt, ReceivePort, attempt};
use crate::protocol::settle::{WakeupPort, arm, disarm};
use crate::protocol::{Corrupt, HalfView, RingState};
use crate::spin::{self, CallSpin};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::os::fd::RawFd;

/// Spins of a receiver that waits for a sender's next instructions, before it yields the CPU.
const SPINS: u32 = 400;
/// One receive past the ring in so many goes through the library all the same.
const PROBE: u32 = 32;
/// Wakeup bytes that a peek skips at most: more are never sent unasked.
const WAKEUPS_SKIPPED_MAX: usize = 512;
/// Sleeps of one call that end without a byte, before the peer counts as hostile: other receivers
/// may take the bytes that woke this one.
const SLEEPS_MAX: u32 = 10_000_000;

/// A half with the descriptor that its wakeup bytes arrive at.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveHalf {
    /// The half that this end receives on.
    pub half: RingHalf,
    /// The descriptor.
    pub fd: RawFd,
    /// This end of the pair.
    pub end: PairEnd,
}

impl HalfView for ReceiveHalf {
    type Word = AtomicU64;

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.half.word(offset)
    }
}

impl WakeupPort for ReceiveHalf {
    fn take_wakeups(&self, most: usize) -> Result<usize, Errno> {
        let mut bytes = [0_u8; 256];
        let bytes = bytes.get_mut(..most).unwrap_or(&mut []);
        socket::receive_bytes(self.fd, bytes, libc::MSG_DONTWAIT)
    }

    fn pause(&self, round: u32) {
        if round < SPINS {
            m3ipc_sys::relax();
        } else {
            m3ipc_sys::yield_cpu();
        }
    }
}

impl ReceiveHalf {
    /// Bytes of the ring, and bytes of the kernel that are no wakeup bytes; `None` where the kernel
    /// does not answer.
    pub fn readable_bytes(&self) -> Option<usize> {
        let ring = self.ring().ok()?.filled;
        let wakeups = usize::try_from(self.wakeups_in_kernel()).unwrap_or(0);
        let queued = socket::ioctl_number(self.fd, libc::FIONREAD).ok()?;
        Some(ring + usize::try_from(queued).ok()?.saturating_sub(wakeups))
    }
}

/// What one end keeps between its receives.
#[derive(Debug)]
pub struct ReceiveMemory {
    /// The record of spins.
    pub spin: CallSpin,
    /// Not 0 where calls on the descriptor slept lately: the next call may spin before it asks.
    pub sleeps: AtomicU32,
    /// Receives past the ring.
    pub passes: AtomicU32,
    /// The refusals of receives.
    pub refusals: Refusals,
    /// An error of the kernel, behind bytes that arrived before it; 0 is none.
    kept_error: AtomicU64,
    /// Not 0: a receive has reported that the peer ended with unread bytes.
    told_reset: AtomicU32,
    /// The `SO_RCVLOWAT` that the program set while bytes lay in the ring; 0 is none. The kernel
    /// gets it when they are taken: it would count their wakeup byte alone.
    pub low_mark: AtomicU32,
    /// The thread of a receive past the ring.
    pub past_ring: PastRingThread,
    /// The slot word that the half is to have; 0 is none.
    pub wanted_slot: AtomicU64,
    /// The ends of the sender's rests, as far as this end knows.
    returns: AtomicU64,
    /// The memory of the ring, as this process took it from the system.
    pub(super) reservation: Reservation,
}

impl ReceiveMemory {
    /// All zeros.
    pub const fn new() -> Self {
        Self {
            spin: CallSpin::new(),
            sleeps: AtomicU32::new(0),
            passes: AtomicU32::new(0),
            refusals: Refusals::new(),
            kept_error: AtomicU64::new(0),
            told_reset: AtomicU32::new(0),
            low_mark: AtomicU32::new(0),
            past_ring: PastRingThread::new(),
            wanted_slot: AtomicU64::new(0),
            returns: AtomicU64::new(0),
            reservation: Reservation::new(),
        }
    }

    /// Keeps an error of the kernel for the next call.
    pub fn keep_error(&self, errno: Errno) {
        self.kept_error.store(u64::from(errno.unsigned_abs()), Ordering::Relaxed);
    }

    /// Takes the error that an earlier call kept.
    pub fn take_error(&self) -> Option<Errno> {
        let kept = self.kept_error.swap(0, Ordering::Relaxed);
        (kept != 0).then(|| i32::try_from(kept).unwrap_or(libc::EIO))
    }

    /// Whether this receive is the first to report that the peer ended with unread bytes.
    pub fn tells_reset(&self) -> bool {
        self.told_reset.swap(1, Ordering::Relaxed) == 0
    }

    /// Whether an error waits for the next call.
    pub fn has_error(&self) -> bool {
        self.kept_error.load(Ordering::Relaxed) != 0
    }

    /// Notes so many ends of rests of the sender: spins before the next ones paid nothing, and may
    /// pay now.
    fn note_returns(&self, returns: u64) {
        if self.returns.swap(returns, Ordering::Relaxed) != returns {
            self.spin.reset();
            spin::note_return();
        }
    }

    /// Whether the next receive spins for bytes.
    pub fn will_spin(&self, spin_ns: u64, flags: i32) -> bool {
        spin_ns > 0
            && flags & libc::MSG_DONTWAIT == 0
            && self.sleeps.load(Ordering::Relaxed) != 0
            && self.spin.pays()
    }

    /// Whether the next receive goes through the library all the same: it finds out whether calls
    /// on the descriptor sleep.
    pub fn is_probe(&self) -> bool {
        // Two threads may count one receive, which makes a probe later by one.
        let passes = self.passes.load(Ordering::Relaxed);
        self.passes.store(passes.wrapping_add(1), Ordering::Relaxed);
        passes.is_multiple_of(PROBE)
    }

    /// Forgets the past.
    pub fn reset(&self) {
        self.spin.reset();
        self.sleeps.store(0, Ordering::Relaxed);
        self.kept_error.store(0, Ordering::Relaxed);
        self.told_reset.store(0, Ordering::Relaxed);
        self.low_mark.store(0, Ordering::Relaxed);
        self.past_ring.reset();
        self.wanted_slot.store(0, Ordering::Relaxed);
        self.returns.store(0, Ordering::Relaxed);
        self.reservation.forget();
    }
}

/// How a call receives.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveOptions {
    /// The flags of the call.
    pub flags: i32,
    /// The longest spin.
    pub spin_ns: u64,
    /// Whether the call spins before it asks the kernel.
    pub spins: bool,
    /// Whether the kernel carries small messages that would need wakeup bytes.
    pub by_message: bool,
}

/// A receiver's side of one direction, for one call.
struct Receiver<'a> {
    half: ReceiveHalf,
    memory: &'a ReceiveMemory,
    /// Whether the socket of the call still has its state: another thread may close it.
    is_own: &'a dyn Fn() -> bool,
    options: ReceiveOptions,
    cursor: IovCursor<'a>,
}

impl HalfView for Receiver<'_> {
    type Word = AtomicU64;

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.half.word(offset)
    }
}

impl WakeupPort for Receiver<'_> {
    fn take_wakeups(&self, most: usize) -> Result<usize, Errno> {
        self.half.take_wakeups(most)
    }

    fn pause(&self, round: u32) {
        self.half.pause(round);
    }
}

impl ReceivePort for Receiver<'_> {
    fn left(&self) -> usize {
        self.cursor.left()
    }

    #[inline]
    fn copy_out(&mut self, ring: RingState) -> Result<usize, Corrupt> {
        let discard = self.has(libc::MSG_TRUNC);
        // A sender has the whole ring before it writes. A peer that names more may have nothing.
        let is_ours = ring.filled == 0
            || discard
            || self.memory.reservation.reserve(&self.half.half, ring.size);
        if !is_ours {
            return Err(Corrupt);
        }
        Ok(self.half.half.read(ring, &mut self.cursor, discard))
    }

    fn receive_from_kernel(&mut self) -> Result<usize, Errno> {
        let mut copies = no_runs();
        let now = self.cursor.clone();
        let flags = self.options.flags & (libc::MSG_PEEK | libc::MSG_TRUNC) | libc::MSG_DONTWAIT;
        let bytes = socket::receive(self.half.fd, &now.remaining(&mut copies), flags)?;
        self.cursor.skip(bytes);
        Ok(bytes)
    }

    fn peek_kernel(&self) -> Result<usize, Errno> {
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        socket::receive_bytes(self.half.fd, &mut [0], flags)
    }

    fn peek_behind_wakeups(&mut self, wakeups: usize) -> Result<usize, Errno> {
        let (mut before, mut copies) = ([0_u8; WAKEUPS_SKIPPED_MAX], no_runs());
        let Some(before) = before.get_mut(..wakeups) else { return Ok(0) };
        let now = self.cursor.clone();
        let buffers = now.remaining_behind(before, &mut copies);
        let flags = self.options.flags & libc::MSG_TRUNC | libc::MSG_PEEK | libc::MSG_DONTWAIT;
        let got = socket::receive(self.half.fd, &buffers, flags)?;
        let bytes = got.saturating_sub(wakeups);
        self.cursor.skip(bytes);
        Ok(bytes)
    }

    fn keep_error(&self, errno: Errno) {
        self.memory.keep_error(errno);
    }

    fn take_error(&self) -> Option<Errno> {
        self.memory.take_error()
    }

    fn is_peek(&self) -> bool {
        self.has(libc::MSG_PEEK)
    }

    fn wants_all(&self) -> bool {
        self.has(libc::MSG_WAITALL) && !self.is_peek()
    }

    fn may_wait(&self) -> bool {
        !self.has(libc::MSG_DONTWAIT)
    }

    fn is_nonblocking(&self) -> bool {
        file::is_nonblocking(self.half.fd)
    }

    fn note_sleeps(&self, sleeps: bool) {
        self.memory.sleeps.store(u32::from(sleeps), Ordering::Relaxed);
    }

    fn spin(&self, arrived: &dyn Fn() -> bool) -> bool {
        let own_cpu = u64::from(m3ipc_sys::current_cpu());
        let sender_cpu = self.word(half::SENDER_CPU);
        let same_cpu = || sender_cpu.load(Ordering::Relaxed) == own_cpu;
        self.memory.spin.spin(self.options.spin_ns, same_cpu, arrived)
    }
}

impl Receiver<'_> {
    fn has(&self, flag: i32) -> bool {
        self.options.flags & flag != 0
    }

    /// Whether another thread closed the socket: its pair is out of reach, or the half is that of
    /// another socket by now.
    fn is_closed(&self) -> bool {
        !(self.is_own)() || self.half.half.is_blank()
    }

    /// One attempt under the lock; `None`: the call sleeps.
    fn attempt(&mut self, total: usize) -> Option<Outcome> {
        let limit = CallLimit::new(self.half.fd, self.options.flags, Direction::Receive);
        let lock = self.half.half.lock(half::RECEIVE_LOCK);
        let taken = lock::take(lock, || limit.ns());
        // Under the lock: a close changes the answer first, and then waits for the lock.
        if self.is_closed() {
            return Some(done_or(total - self.cursor.left(), Outcome::Failed(libc::EBADF)));
        }
        let held = match taken {
            LockResult::Held(held) => held,
            LockResult::Own => {
                let failed = interrupted(self.half.fd, self.options.flags);
                return Some(done_or(total - self.cursor.left(), failed));
            }
            LockResult::Busy => {
                let answer = if seal(&self.half, Direction::Receive) {
                    Outcome::Kernel
                } else {
                    limit.answer(&self.memory.refusals)
                };
                return Some(done_or(total - self.cursor.left(), answer));
            }
        };
        if held.recovered {
            // The receiver that died may have been polling.
            self.word(half::SUPPRESSION).swap(0, Ordering::SeqCst);
        }
        arm(&self.half, self.memory.wanted_slot.load(Ordering::SeqCst));
        self.memory.note_returns(self.load(half::RETURNS));
        if self.options.spins && self.options.by_message && !self.in_ring() {
            route::switch_for_spin(&self.half.half, self.half.end);
        }
        match attempt(self, total, self.options.spins) {
            Err(Corrupt) => Some(disconnect(self.half.fd)),
            Ok(Attempt::Done(bytes)) => Some(Outcome::Done(bytes)),
            Ok(Attempt::Failed(errno)) => Some(Outcome::Failed(errno)),
            Ok(Attempt::Sleep) => None,
        }
    }
}

/// Receives on one half, as many bytes as the cursor has left. `is_own` says whether the half is
/// still that of the call's socket. If not, the number may be another socket's, so the kernel must
/// not make the call either.
pub fn receive(
    half: ReceiveHalf,
    memory: &ReceiveMemory,
    cursor: IovCursor<'_>,
    options: ReceiveOptions,
    is_own: &dyn Fn() -> bool,
) -> Outcome {
    let total = cursor.left();
    let ReceiveOptions { flags, spin_ns, .. } = options;
    let mut call = Receiver { half, memory, is_own, options, cursor };
    let (mut rounds, mut left, mut began_ns) = (0_u32, total, 0);
    loop {
        if let Some(outcome) = call.attempt(total) {
            return outcome;
        }
        call.options.spins = memory.will_spin(spin_ns, flags);
        // No event loop polls for this half while the call sleeps.
        if half.load(half::POLLER_SLOT) != 0 {
            memory.wanted_slot.store(0, Ordering::SeqCst);
            let lock = half.half.lock(half::RECEIVE_LOCK);
            let _held =
                lock::take(lock, || CallLimit::new(half.fd, flags, Direction::Receive).ns());
            disarm(&half);
            continue;
        }
        // Many small arrivals for one call are no fault.
        rounds = if call.left() == left { rounds + 1 } else { 0 };
        left = call.left();
        if rounds > SLEEPS_MAX {
            return disconnect(half.fd);
        }
        let slept = sleep(half.fd, &mut began_ns);
        if call.is_closed() {
            // The sleep was that of the closed socket, and its bytes are out of reach.
            return match slept {
                Ok(0) => Outcome::Done(total - left),
                Ok(_) => done_or(total - left, Outcome::Failed(libc::EBADF)),
                Err(errno) => done_or(total - left, Outcome::Failed(errno)),
            };
        }
        match slept {
            Ok(_) => {}
            Err(errno @ (libc::EINTR | libc::EAGAIN)) => {
                return done_or(total - left, Outcome::Failed(errno));
            }
            Err(errno) => call.keep_error(errno),
        }
    }
}

/// Sleeps until the socket is readable; 0 is its end. The kernel knows timeouts, signals, ends and
/// errors. A time limit is that of the call, which may sleep again and again: `began_ns` is the
/// time of its first sleep, or 0.
fn sleep(fd: RawFd, began_ns: &mut u64) -> Result<usize, Errno> {
    let now_ns = m3ipc_sys::monotonic_ns();
    if *began_ns != 0
        && let Ok(limit_ns @ 1..) = socket::time_option_ns(fd, libc::SO_RCVTIMEO)
    {
        let left_ns = limit_ns.saturating_sub(now_ns.saturating_sub(*began_ns));
        return match socket::wait_sleeping(fd, left_ns)? {
            0 => Err(libc::EAGAIN),
            // Bytes or the end: the next attempt finds out.
            _ => Ok(1),
        };
    }
    *began_ns = now_ns;
    let mut byte = [0];
    let mut run = [Buffers::run(&mut byte)];
    socket::receive_sleeping(fd, &Buffers::from_mut(&mut run), libc::MSG_PEEK)
}

fn done_or(got: usize, other: Outcome) -> Outcome {
    if got > 0 { Outcome::Done(got) } else { other }
}
