//! Sending: a copy into the ring, or the kernel where the ring is full or not in use.

use super::armed_poller::PeerPoller;
use super::blocked::{CallLimit, Refusals, disconnect, interrupted, seal};
use super::bulk::BulkWindow;
use super::idle_rings;
use super::past_gains::PastGains;
use super::ring_extent::RingExtent;
use super::ring_half::{Direction, RingHalf};
use super::seen_ends;
use super::socket_state::{SUSPECT, SocketId, half_of};
use super::unannounced;
use super::wakeup_share::WakeupShare;
use crate::buffers::{Buffers, IovCursor, no_runs};
use crate::counters::{self, Counter};
use crate::kernel::{Errno, file, ready, socket};
use crate::memory::layout::half;
use crate::memory::lock::{self, Held, LockResult};
use crate::memory::window::PairMemory;
use crate::outcome::{KernelCall, Outcome};
use crate::pin::PinReason;
use crate::pressure;
use crate::protocol::publish::{Published, SendPort, publish};
use crate::protocol::{Corrupt, HalfView, RingState};
use crate::spin::CallSpin;
use core::sync::atomic::{AtomicU64, Ordering};
use m3ipc_link::notification::NotificationSuppression;
use m3ipc_sys::monotonic_ns;
use std::os::fd::RawFd;

/// Bytes that are published at once, so that the receiver copies while the sender does.
const CHUNK_BYTES: usize = 16 * 1024;
/// A message of so many bytes costs the kernel hardly more than a wakeup byte.
const SMALL_BYTES: usize = 2048;
/// The time in which the kernel of a peer that is gone answers a wakeup byte.
const ANSWER_NS: u32 = 1_000_000;
/// Sends without progress of the receiver, after which the sender asks the kernel for the peer.
const STALE_SENDS: u64 = 8;

/// A sender's side of one direction, for one call.
#[derive(Debug)]
pub struct Sender<'a> {
    /// The descriptor of the call.
    pub fd: RawFd,
    /// The socket of the descriptor.
    pub id: SocketId,
    /// The use of the socket's state.
    pub generation: u32,
    /// The half that this end sends on.
    pub half: RingHalf,
    /// The pair that the half lies in.
    pub memory: PairMemory,
    /// The poller of the peer, as far as it is mapped.
    pub peer_poller: &'a PeerPoller,
    /// The record of spins for room in the ring.
    pub spin: &'a CallSpin,
    /// The memory of the ring, as this process took it from the system.
    pub extent: &'a RingExtent,
    /// Bytes of the largest ring.
    pub ring_bytes_max: usize,
    /// The overflows of the ring; `None` where no stream counts as bulk.
    pub bulk: Option<&'a BulkWindow>,
    /// The wakeup bytes of the messages; `None` where no direction rests for them.
    pub share: Option<&'a WakeupShare>,
    /// Whether the kernel carries a small message that would need a wakeup byte.
    pub by_message: bool,
    /// The refusals of sends.
    pub refusals: &'a Refusals,
    /// The longest spin.
    pub spin_ns: u64,
    /// Whether each publish sends a wakeup byte.
    pub always_wake: bool,
    /// Whether the first send after the peer's end fails, as on Unix sockets.
    pub is_unix: bool,
    /// The head that the last send saw, the number of sends that saw the same head, and the ends
    /// that this process had seen.
    pub progress: &'a [AtomicU64; 3],
}

impl HalfView for Sender<'_> {
    type Word = AtomicU64;

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.half.word(offset)
    }
}

impl SendPort for Sender<'_> {
    fn send_wakeup(&self) -> Result<(), Errno> {
        unannounced::announce_before(self.id);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        socket::send_bytes(self.fd, &[0], flags).map(drop)
    }

    #[inline]
    fn offer(&self, slot: u64) -> bool {
        let stamp = || self.half.store(half::STAMP, monotonic_ns());
        unannounced::note(self.id, self.fd) && self.peer_poller.offer(self.memory, slot, stamp)
    }

    fn always_wakes(&self) -> bool {
        self.always_wake
    }
}

/// The outcome of a send into the ring.
enum Put {
    /// The ring took all bytes.
    All,
    /// The ring is full.
    Full,
    /// The kernel carries the message itself.
    ByKernel,
    /// The kernel refuses the wakeup byte of a last piece of so many bytes.
    Refused(Errno, usize),
}

/// The peer, as the kernel sees it.
enum PeerState {
    Alive,
    /// The peer ended its own sending, or everything.
    Ending,
    Gone,
    /// Gone with bytes that it has not read.
    Reset,
}

impl Sender<'_> {
    /// Sends. `switch` tries to switch to the ring where bytes go through the kernel.
    pub fn send(
        &self,
        buffers: &Buffers<'_>,
        flags: i32,
        switch: impl FnOnce(&RingHalf) -> bool,
    ) -> Outcome {
        idle_rings::look_in_send();
        let mut cursor = IovCursor::new(buffers);
        if self.is_sealed() {
            return self.kernel_call();
        }
        let limit = CallLimit::new(self.fd, flags, Direction::Send);
        let held = match lock::take(self.half.word(half::SEND_LOCK), || limit.ns()) {
            LockResult::Held(held) => held,
            LockResult::Own => return interrupted(self.fd, flags),
            LockResult::Busy if seal(&self.half, Direction::Send) => return self.kernel_call(),
            LockResult::Busy => return limit.answer(self.refusals),
        };
        if held.recovered && self.load(half::PUBLISHING) & 1 == 1 {
            self.add(half::PUBLISHING, 1);
        }
        let total = cursor.left();
        if !self.in_ring() {
            if !self.prefers_ring(total) {
                self.note_asleep();
                return self.kernel_call();
            }
            if !switch(&self.half) {
                return self.kernel_call();
            }
        }
        if self.load(half::ATTACHED) != 1 {
            // The peer receives without this library from now on. It still takes what the ring has.
            self.switch_to_kernel();
            counters::add(Counter::Downgrades, 1);
            return self.kernel_call();
        }
        match self.peer_state() {
            PeerState::Alive => {}
            PeerState::Ending => {
                // The kernel alone knows what becomes of a message from now on.
                self.switch_to_kernel();
                return self.kernel_call();
            }
            PeerState::Gone => return Outcome::Kernel,
            PeerState::Reset => return Outcome::Failed(libc::ECONNRESET),
        }
        let put = self.put(&mut cursor, flags);
        let sent = total - cursor.left();
        counters::add(Counter::RingBytes, sent as u64);
        match put {
            Err(Corrupt) => disconnect(self.fd),
            Ok(Put::All) => Outcome::Done(total),
            Ok(Put::Refused(_, piece)) if sent > piece => Outcome::Done(sent - piece),
            // The real call reports it once more, with its signal.
            Ok(Put::Refused(libc::EPIPE, _)) => Outcome::Kernel,
            Ok(Put::Refused(errno, _)) => Outcome::Failed(errno),
            Ok(Put::ByKernel) => {
                self.switch_to_kernel();
                // The kernel answers for the peer; the next head counts as progress.
                self.progress[0].store(u64::MAX, Ordering::Relaxed);
                self.note_asleep();
                self.kernel_call()
            }
            Ok(Put::Full) => {
                self.switch_to_kernel();
                self.note_overflow();
                if sent == 0 {
                    return self.kernel_call();
                }
                self.add(half::SENDING, 1);
                self.send_rest(held, &mut cursor, flags, sent)
            }
        }
    }

    /// Notes an overflow into the kernel, under the sender's lock. A bulk stream stays there.
    fn note_overflow(&self) {
        counters::add(Counter::Overflows, 1);
        self.add(half::OVERFLOWS, 1);
        let Some(window) = self.bulk else { return };
        // A smaller ring grows when it is empty.
        if self.load(half::RING_BYTES) < self.ring_bytes_max as u64 {
            return;
        }
        let pieces = self.load(half::WAKEUPS).wrapping_add(self.load(half::SPARED));
        let is_bulk = window.note_overflow(self.load(half::TAIL), pieces, self.ring_bytes_max);
        if is_bulk && self.load(half::PINNED) == 0 {
            self.half.store(half::REASON, PinReason::Bulk as u64);
            self.half.store(half::PINNED, 1);
            counters::count_pin(PinReason::Bulk);
        }
    }

    /// Notes a message that the kernel carries because its receiver sleeps; under the sender's
    /// lock.
    #[inline]
    fn note_asleep(&self) {
        if self.share.is_some_and(|share| share.note_asleep(PastGains::of_process())) {
            self.rest();
        }
    }

    /// Whether a message follows an answer that came through the kernel, in a direction at rest,
    /// while other tasks want the CPUs: a ring of this direction alone gains nothing.
    #[inline]
    fn is_one_way(&self, share: &WakeupShare) -> bool {
        pressure::is_on()
            && self.id.state().end().is_some_and(|end| {
                let answers = half_of(end, Direction::Receive);
                answers.load(half::PINNED) == half::AT_REST
                    && share.has_answers(answers.load(half::KERNEL_TAKEN))
            })
    }

    /// Rests in the kernel from now on, under the sender's lock: most messages needed wakeup bytes.
    fn rest(&self) {
        // What the kernel carries from now on must not overtake the bytes of the ring. Out of the
        // ring a wakeup byte would come behind bytes of the program.
        let half = (&self.half, self.memory);
        if self.load(half::PINNED) == 0
            && (!self.in_ring() || unannounced::announce_last(self.id, half, self.fd))
        {
            self.store(half::REASON, PinReason::Wakeups as u64);
            self.store(half::PINNED, half::AT_REST);
            self.switch_to_kernel();
            counters::count_pin(PinReason::Wakeups);
        }
    }

    /// The outcome of a call that goes through the kernel as it is; `None` where the ring takes its
    /// bytes. `switch` tries to switch to the ring.
    pub fn kernel_route(&self, switch: impl FnOnce(&RingHalf) -> bool) -> Option<Outcome> {
        if self.is_sealed() {
            return Some(self.kernel_call());
        }
        let limit = CallLimit::new(self.fd, 0, Direction::Send);
        let LockResult::Held(_held) = lock::take(self.half.word(half::SEND_LOCK), || limit.ns())
        else {
            // The send answers for the lock.
            return None;
        };
        (!self.in_ring() && !switch(&self.half)).then(|| self.kernel_call())
    }

    /// Leaves the ring for one call of the program, as it is.
    pub fn send_by_kernel(&self) -> Outcome {
        if !self.is_sealed() {
            let limit = CallLimit::new(self.fd, 0, Direction::Send);
            let held = lock::take(self.half.word(half::SEND_LOCK), || limit.ns());
            if let (true, LockResult::Held(_)) = (self.in_ring(), &held) {
                self.switch_to_kernel();
            }
            return if self.in_ring() { disconnect(self.fd) } else { self.kernel_call() };
        }
        self.kernel_call()
    }

    /// The program's own call goes through the kernel. It counts as under way from now on: under
    /// the lock, where there is one.
    fn kernel_call(&self) -> Outcome {
        self.add(half::SENDING, 1);
        Outcome::Counted(KernelCall::of_pair(self.id, self.generation))
    }

    /// Asks the kernel for the peer where the receiver has made no progress for a while.
    #[inline]
    fn peer_state(&self) -> PeerState {
        let head = self.load(half::HEAD);
        let [last_head, stale, ends] = self.progress;
        let moved = last_head.swap(head, Ordering::Relaxed) != head;
        let seen = stale.load(Ordering::Relaxed);
        let now = seen_ends::count();
        let is_told = ends.load(Ordering::Relaxed) != now;
        if is_told {
            ends.store(now, Ordering::Relaxed);
        }
        if moved && seen != SUSPECT {
            stale.store(0, Ordering::Relaxed);
            if !is_told {
                return PeerState::Alive;
            }
        } else if seen != SUSPECT {
            stale.store(seen + 1, Ordering::Relaxed);
            if !self.is_unix && !is_told && !seen.is_multiple_of(STALE_SENDS) {
                return PeerState::Alive;
            }
        }
        let events = ready::poll_now(self.fd, libc::POLLRDHUP);
        if events & (libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP) != 0 {
            stale.store(SUSPECT, Ordering::Relaxed);
        }
        if events & (libc::POLLHUP | libc::POLLERR) != 0 {
            PeerState::Gone
        } else if events & libc::POLLRDHUP != 0 {
            self.ending_peer(is_told)
        } else {
            PeerState::Alive
        }
    }

    /// The peer sends no more. It may be gone with bytes of the ring that the kernel does not know:
    /// their wakeup byte gets the kernel's answer before another message.
    #[cold]
    fn ending_peer(&self, is_told: bool) -> PeerState {
        if !self.half.has_unsignalled() || unannounced::signal(&self.half, self.fd).is_none() {
            return PeerState::Ending;
        }
        let events = ready::poll_for(self.fd, 0, ANSWER_NS);
        if events & (libc::POLLHUP | libc::POLLERR) == 0 {
            PeerState::Ending
        } else if is_told && !self.is_unix && self.id.state().receives.tells_reset() {
            // The program knew of the end before this message. The kernel's own error, which this
            // one replaces, is that of a later message.
            let _ = socket::option(self.fd, libc::SOL_SOCKET, libc::SO_ERROR);
            PeerState::Reset
        } else {
            PeerState::Gone
        }
    }

    /// Whether a direction in the kernel tries its ring for a message: a receiver that polls needs
    /// no wakeup byte, and a large message gains by the ring all the same.
    #[inline]
    fn prefers_ring(&self, bytes: usize) -> bool {
        !self.by_message
            || bytes > SMALL_BYTES
            || !self.has_ring()
            || self.load(half::PINNED) != 0
            || self.receiver_polls()
    }

    /// Whether the kernel carries a message in place of its wakeup byte: the ring is empty, nothing
    /// lies in the kernel, and the receiver does not poll.
    #[inline]
    fn prefers_kernel(&self, ring: RingState, bytes: usize) -> bool {
        self.by_message
            && bytes <= SMALL_BYTES
            && ring.filled == 0
            && self.wakeups_in_kernel() == 0
            && NotificationSuppression::new(self.word(half::SUPPRESSION)).is_idle()
            && !self.receiver_polls()
    }

    /// Whether an event loop of the receiver polls the slot of this half.
    #[inline]
    fn receiver_polls(&self) -> bool {
        let slot = self.load(half::POLLER_SLOT);
        slot != 0 && self.peer_poller.is_awake(self.memory, slot)
    }

    fn put(&self, cursor: &mut IovCursor<'_>, flags: i32) -> Result<Put, Corrupt> {
        let (mut waited, mut rests) = (flags & libc::MSG_DONTWAIT != 0, false);
        let total = cursor.left();
        let cpu = u64::from(m3ipc_sys::current_cpu());
        self.half.word(half::SENDER_CPU).store(cpu, Ordering::Relaxed);
        loop {
            let ring = self.ring()?;
            // Later the ring has a part of the message.
            if !self.always_wake && cursor.left() == total && self.prefers_kernel(ring, total) {
                return Ok(Put::ByKernel);
            }
            let ring = self.extent.fit(&self.half, self.ring_bytes_max, ring, cursor.left());
            if !self.extent.reserve(&self.half, ring.size) {
                return Ok(Put::Full);
            }
            let most = (ring.size - ring.filled).min(CHUNK_BYTES);
            let bytes = self.half.write(ring, cursor, most);
            if bytes > 0 {
                match publish(self, ring.tail.wrapping_add(bytes as u64), self.always_wake) {
                    Ok(Published::Signalled) => counters::add(Counter::Wakeups, 1),
                    Ok(Published::Spared | Published::Offered) => {
                        counters::add(Counter::WakeupsSpared, 1)
                    }
                    Ok(Published::Full) => {}
                    Err(errno) => {
                        self.withdraw(ring, errno);
                        return Ok(Put::Refused(errno, bytes));
                    }
                }
                if let Some(share) = self.share {
                    let (wakeups, past) = (self.load(half::WAKEUPS), PastGains::of_process());
                    if total > SMALL_BYTES {
                        share.note_large(wakeups, past);
                    } else {
                        rests |= if self.is_one_way(share) {
                            share.note_one_way(wakeups, past)
                        } else {
                            share.note_message(wakeups, past)
                        };
                    }
                }
                if cursor.left() == 0 {
                    if rests {
                        self.rest();
                    }
                    return Ok(Put::All);
                }
                continue;
            }
            if waited || self.spin_ns == 0 || file::is_nonblocking(self.fd) {
                return Ok(Put::Full);
            }
            if !self.spin_for_room(ring) {
                waited = true;
            }
        }
    }

    /// Takes bytes back that a peer which is gone can no longer receive: they were never sent.
    #[cold]
    fn withdraw(&self, before: RingState, errno: Errno) {
        if matches!(errno, libc::EPIPE | libc::ECONNRESET)
            && self.load(half::HEAD).wrapping_sub(before.head) <= before.filled as u64
        {
            self.store(half::TAIL, before.tail);
        }
    }

    fn spin_for_room(&self, ring: RingState) -> bool {
        let enough = (ring.size / 4).max(1) as u64;
        let has_room = || self.load(half::HEAD).wrapping_sub(ring.head) >= enough;
        self.spin.spin(self.spin_ns, || false, has_room)
    }

    /// Sends the rest through the kernel, behind `sent` bytes of this call in the ring. The bytes
    /// that fit at once go while the lock is held: the bytes of another thread must not part a
    /// message that the kernel alone would have kept whole.
    fn send_rest(
        &self,
        held: Held<'_>,
        cursor: &mut IovCursor<'_>,
        flags: i32,
        sent: usize,
    ) -> Outcome {
        let mut done = sent;
        let mut copies = no_runs();
        let now = cursor.clone();
        let runs = now.remaining(&mut copies);
        let at_once = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // The next send reports an error.
        if let Ok(bytes) = socket::send(self.fd, &runs, at_once) {
            cursor.skip(bytes);
            done += bytes;
            counters::add(Counter::KernelBytes, bytes as u64);
            self.add(half::KERNEL, bytes as u64);
        }
        drop(held);
        if cursor.left() == 0 {
            KernelCall::of_pair(self.id, self.generation).end(Ok(0));
            return Outcome::Done(done);
        }
        self.send_through_kernel(cursor, flags, done)
    }

    /// Sends the rest through the kernel, behind `sent` bytes of this call. The caller has raised
    /// `SENDING` for it.
    fn send_through_kernel(&self, rest: &IovCursor<'_>, flags: i32, sent: usize) -> Outcome {
        let (mut cursor, mut done) = (rest.clone(), sent);
        let outcome = loop {
            let mut copies = no_runs();
            let now = cursor.clone();
            let runs = now.remaining(&mut copies);
            // The program learns of a signal by the next call: this one has sent bytes.
            match socket::send_sleeping(self.fd, &runs, flags | libc::MSG_NOSIGNAL) {
                Ok(bytes) => {
                    cursor.skip(bytes);
                    done += bytes;
                    let is_own = self.id.state().generation() == self.generation;
                    if bytes < runs.total() || cursor.left() == 0 || !is_own {
                        break Outcome::Done(done);
                    }
                }
                Err(_) => break Outcome::Done(done),
            }
        };
        // Another thread may have closed the socket meanwhile.
        KernelCall::of_pair(self.id, self.generation).end(Ok(done - sent));
        outcome
    }
}
