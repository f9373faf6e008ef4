//! The state of a socket: what this process keeps for one open socket. The pair holds what all
//! processes of both ends share.
//!
//! | phase | meaning | data calls |
//! |---|---|---|
//! | FREE | no socket | none |
//! | UNSEEN | made by this process; the kernel was asked for nothing yet | counted; made by the caller |
//! | FRESH | the socket may get a pair | counted; made by the caller |
//! | JOINED | the socket has a pair | this library's |
//! | KERNEL | the socket never gets a pair, or never again | made by the caller |
//! | LEFT | the socket has a pair, and left its rings for good | made by the caller |
//!
//! Most connections end UNSEEN: their calls cost no system call beside the program's own.
//!
//! States lie in a table of the library's image. They take no allocation, and a child by fork has
//! its own copy.

mod kernel_call;

use super::armed_poller::PeerPoller;
use super::blocked::Refusals;
use super::bulk::BulkWindow;
use super::pairs::{self, PairEnd};
use super::receive::ReceiveMemory;
use super::ring_extent::RingExtent;
use super::ring_half::{Direction, RingHalf};
use super::seen_ends;
use super::used_states::{self, SOCKETS_MAX};
use super::wakeup_share::WakeupShare;
use crate::kernel::process;
use crate::memory::layout::half;
use crate::memory::lock::{self, Deadline};
use crate::memory::user_directory::UserDirectory;
use crate::memory::window::Window;
use crate::process::{forks, limits};
use crate::protocol::HalfView;
use crate::settings;
use crate::spin::CallSpin;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use m3ipc_sys::{relax, yield_cpu};

/// The phase of a socket.
pub mod phase {
    /// No socket.
    pub const FREE: u32 = 0;
    /// A socket that may get a pair.
    pub const FRESH: u32 = 1;
    /// A socket with a pair.
    pub const JOINED: u32 = 2;
    /// A socket that stays in the kernel.
    pub const KERNEL: u32 = 3;
    /// A socket that may get a pair, as far as is known without any question to the kernel.
    pub const UNSEEN: u32 = 4;
    /// A socket with a pair, whose bytes go through the kernel from now on.
    pub const LEFT: u32 = 5;
}

/// The state of one open socket in this process. Threads with sockets of their own share no line.
#[derive(Debug)]
#[repr(align(64))]
pub struct SocketState {
    phase: AtomicU32,
    is_unix: AtomicU32,
    /// The number of the use of this state: each socket that gets the state has another one.
    generation: AtomicU32,
    /// Threads that note the end of a call in the pair.
    ending: AtomicU32,
    pub(super) search: Search,
    /// Calls of this process that are in the kernel, past this library: sends, receives. The
    /// generation lies above the count.
    in_kernel: [AtomicU64; 2],
    /// The mapped pair of a JOINED socket, and the side of this end in it.
    pub(super) window: Window,
    side: AtomicU32,
    /// The user of the pair's directory.
    user: AtomicU32,
    /// The fork generation, plus one, in which a thread joins the socket; 0 is none.
    joining: AtomicU32,
    pub(super) peer_poller: PeerPoller,
    /// Whether an epoll set has the socket edge-triggered.
    edges: AtomicU32,
    /// The fork generation in which this process last announced its receives.
    pub(super) announced_in: AtomicU32,
    pub(super) first_switch: SwitchGaps,
    pub(super) send_spin: CallSpin,
    /// The memory of the ring that this end sends on.
    pub(super) extent: RingExtent,
    /// The overflows of that ring.
    pub(super) bulk: BulkWindow,
    /// The wakeup bytes of its messages.
    pub(super) share: WakeupShare,
    pub(super) send_refusals: Refusals,
    /// The head that the last send saw, the number of sends that saw the same head, and the ends
    /// that this process had seen.
    pub(super) progress: [AtomicU64; 3],
    pub(super) receives: ReceiveMemory,
    /// Not 0: see [`unannounced`](super::unannounced).
    pub(super) unannounced: AtomicU32,
    /// A descriptor of the socket, by which it sent last.
    pub(super) sending_fd: AtomicI32,
}

/// The search of a FRESH socket for its peer.
#[derive(Debug)]
pub struct Search {
    /// One more than the count of forks when this process made the socket; 0 where others may have
    /// it. See `is_sole`.
    pub made_at: AtomicU32,
    /// Data calls so far.
    pub calls: AtomicU32,
    /// The call that searches next.
    pub next: AtomicU32,
    /// Searches so far.
    pub searches: AtomicU32,
    /// The cookie; 0 before the kernel was asked.
    pub cookie: AtomicU64,
    /// Not 0: a receive of an UNSEEN socket had room for control data.
    pub had_control: AtomicU32,
}

impl Search {
    /// Whether a message took the socket to another process: this one makes no pair for it.
    pub fn is_passed_on(&self) -> bool {
        self.next.load(Ordering::Relaxed) == u32::MAX
    }
}

/// The gaps between attempts of the first switch to the ring, which ask the kernel.
#[derive(Debug)]
pub struct SwitchGaps {
    left: AtomicU32,
    gap: AtomicU32,
}

/// In place of the count of stale sends: the peer ended something, so each send asks the kernel.
pub(super) const SUSPECT: u64 = u64::MAX;

/// Sends between two attempts at most.
const GAP_MAX: u32 = 64;

impl SwitchGaps {
    /// Whether this send attempts the switch: the gaps double.
    pub fn is_due(&self) -> bool {
        if self.left.load(Ordering::Relaxed) > 0 {
            self.left.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let next = self.gap.load(Ordering::Relaxed);
        self.left.store(next.saturating_sub(1), Ordering::Relaxed);
        self.gap.store((next * 2).min(GAP_MAX), Ordering::Relaxed);
        true
    }
}

const fn word32() -> AtomicU32 {
    AtomicU32::new(0)
}

const fn word64() -> AtomicU64 {
    AtomicU64::new(0)
}

/// All zeros, so that the table takes no room in the library's file.
const fn empty() -> SocketState {
    SocketState {
        phase: word32(),
        is_unix: word32(),
        generation: word32(),
        ending: word32(),
        search: Search {
            made_at: word32(),
            calls: word32(),
            next: word32(),
            searches: word32(),
            cookie: word64(),
            had_control: word32(),
        },
        in_kernel: [const { word64() }; 2],
        window: Window::new(),
        side: word32(),
        user: word32(),
        joining: word32(),
        peer_poller: PeerPoller::new(),
        edges: word32(),
        announced_in: word32(),
        first_switch: SwitchGaps { left: word32(), gap: word32() },
        send_spin: CallSpin::new(),
        extent: RingExtent::new(),
        bulk: BulkWindow::new(),
        share: WakeupShare::new(),
        send_refusals: Refusals::new(),
        progress: [const { word64() }; 3],
        receives: ReceiveMemory::new(),
        unannounced: word32(),
        sending_fd: AtomicI32::new(0),
    }
}

static STATES: [SocketState; SOCKETS_MAX] = [const { empty() }; SOCKETS_MAX];
/// Whether any socket of this process ever had a pair.
static ANY_PAIRED: AtomicBool = AtomicBool::new(false);
/// Sockets of this process in phase JOINED.
static JOINED: AtomicU32 = AtomicU32::new(0);
/// One more than the highest state that was ever used.
static TOP: AtomicU32 = AtomicU32::new(0);

/// All states that were ever used.
pub(super) fn all() -> impl Iterator<Item = &'static SocketState> {
    STATES.iter().take(TOP.load(Ordering::Relaxed) as usize)
}

/// Whether any socket of this process ever had a pair, which it may still have.
#[must_use]
pub fn any_paired() -> bool {
    ANY_PAIRED.load(Ordering::Relaxed)
}

/// Whether a ring of this process can hold bytes: a socket has a pair and has not left its rings.
#[must_use]
pub fn any_joined() -> bool {
    JOINED.load(Ordering::Relaxed) != 0
}

/// The number of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketId(u32);

impl SocketId {
    /// The number as an integer below 2^16.
    #[must_use]
    pub fn number(self) -> u64 {
        u64::from(self.0)
    }

    /// The id of such an integer.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        u32::try_from(number).ok().filter(|at| (*at as usize) < SOCKETS_MAX).map(Self)
    }

    /// The state of this number.
    #[must_use]
    #[inline]
    pub fn state(self) -> &'static SocketState {
        &STATES[self.0 as usize % SOCKETS_MAX]
    }

    /// Claims a free state for a TCP or Unix stream socket; `None` where all are taken.
    #[must_use]
    pub fn claim(is_unix: bool) -> Option<Self> {
        Self::claim_in(phase::FRESH, is_unix)
    }

    /// Claims a free state for a socket that this process made, without any question to the
    /// kernel.
    #[must_use]
    pub fn claim_unseen() -> Option<Self> {
        Self::claim_in(phase::UNSEEN, false)
    }

    fn claim_in(first: u32, is_unix: bool) -> Option<Self> {
        let free = used_states::take(|at| {
            let (free, taken) = (phase::FREE, phase::KERNEL);
            let phase = &STATES[at].phase;
            phase.compare_exchange(free, taken, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        let id = u32::try_from(free).ok()?;
        if TOP.load(Ordering::Relaxed) <= id {
            TOP.fetch_max(id + 1, Ordering::Relaxed);
        }
        STATES[free].begin(first, is_unix);
        Some(Self(id))
    }
}

/// Bits of the count of calls, below the generation.
const GENERATION_SHIFT: u32 = 32;
const COUNT_MASK: u64 = (1 << GENERATION_SHIFT) - 1;

impl SocketState {
    fn begin(&self, first: u32, is_unix: bool) {
        // A thread may have joined the socket of before while another one closed it.
        if self.window.take_pair().is_some() {
            self.window.clear();
        }
        self.is_unix.store(u32::from(is_unix), Ordering::Relaxed);
        let zeros = [&self.search.calls, &self.search.searches, &self.edges, &self.announced_in];
        for word in zeros.into_iter().chain([&self.first_switch.left, &self.search.made_at]) {
            word.store(0, Ordering::Relaxed);
        }
        let generation = self.generation.load(Ordering::Relaxed);
        for calls in &self.in_kernel {
            calls.store(u64::from(generation) << GENERATION_SHIFT, Ordering::Relaxed);
        }
        self.first_switch.gap.store(1, Ordering::Relaxed);
        let upgrade_after = settings::current().upgrade_after_calls;
        self.search.next.store(upgrade_after, Ordering::Relaxed);
        self.search.cookie.store(0, Ordering::Relaxed);
        self.search.had_control.store(0, Ordering::Relaxed);
        self.progress[0].store(u64::MAX, Ordering::Relaxed);
        self.progress[1].store(0, Ordering::Relaxed);
        self.progress[2].store(seen_ends::count(), Ordering::Relaxed);
        self.joining.store(0, Ordering::Relaxed);
        self.extent.forget();
        self.bulk.reset();
        self.share.reset();
        self.peer_poller.reset();
        self.send_spin.reset();
        self.receives.reset();
        self.phase.store(first, Ordering::Release);
    }

    /// Frees the state for another socket, and takes its pair out of reach.
    pub(super) fn free(&self) {
        // Later calls of other threads find no pair.
        if self.phase.swap(phase::KERNEL, Ordering::AcqRel) == phase::JOINED {
            JOINED.fetch_sub(1, Ordering::Relaxed);
        }
        // From now on no call of this socket ends in the state: a next socket may have it.
        self.generation.fetch_add(1, Ordering::SeqCst);
        let until = if self.ending.load(Ordering::SeqCst) > 0 {
            Deadline::after(lock::SHORT_NS)
        } else {
            Deadline::PASSED
        };
        while self.ending.load(Ordering::SeqCst) > 0 && until.left_ns() > 0 {
            // A process that has limited its system calls may not yield.
            if limits::are_on() { relax() } else { yield_cpu() }
        }
        if let Some(memory) = self.window.take_pair() {
            for (side, word) in [(0, half::SEND_LOCK), (1, half::RECEIVE_LOCK)] {
                let own = self.side.load(Ordering::Relaxed) as usize;
                let half = RingHalf::new(memory, own ^ side);
                // Calls of other threads that found the pair before end first, if they end soon.
                lock::let_own_threads_end(half.lock(word));
            }
            self.window.clear();
        }
        self.extent.forget();
        self.phase.store(phase::FREE, Ordering::Release);
        used_states::give(self.number());
    }

    /// The place of this state in the table.
    fn number(&self) -> usize {
        let offset = core::ptr::from_ref(self).addr() - STATES.as_ptr().addr();
        offset / size_of::<Self>()
    }

    /// The phase, see [`phase`].
    #[inline]
    pub(super) fn phase(&self) -> u32 {
        self.phase.load(Ordering::Acquire)
    }

    /// A socket without a pair stays in the kernel from now on. Whether this call says so first.
    pub(super) fn stay_in_kernel(&self) -> bool {
        [phase::UNSEEN, phase::FRESH].into_iter().any(|from| self.advance(from, phase::KERNEL))
    }

    fn advance(&self, from: u32, to: u32) -> bool {
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The kernel says that an UNSEEN socket is a stream that may get a pair.
    pub(super) fn reveal(&self, is_unix: bool) {
        if self.phase() == phase::UNSEEN {
            self.is_unix.store(u32::from(is_unix), Ordering::Relaxed);
            self.advance(phase::UNSEEN, phase::FRESH);
        }
    }

    /// Counts a call of an UNSEEN socket.
    #[inline]
    pub(super) fn count_unseen(&self) {
        self.search.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the next call of an UNSEEN socket asks the kernel what it is: the connection lives
    /// long, or other processes may have it.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let is_old = || {
            let calls = self.search.calls.load(Ordering::Relaxed);
            calls >= self.search.next.load(Ordering::Relaxed)
        };
        self.phase() == phase::UNSEEN && (is_old() || !self.is_sole())
    }

    /// The socket has no peer yet: asks again after as many calls.
    pub(super) fn ask_later(&self) {
        let calls = self.search.calls.load(Ordering::Relaxed);
        self.search.next.store(calls.saturating_mul(2).max(calls + 1), Ordering::Relaxed);
    }

    pub(super) fn is_unix(&self) -> bool {
        self.is_unix.load(Ordering::Relaxed) != 0
    }

    /// The end of a JOINED socket; `None` where another thread closes the socket.
    #[inline]
    pub(super) fn end(&self) -> Option<PairEnd> {
        let memory = self.window.pair()?;
        Some(PairEnd { memory, side: self.side.load(Ordering::Relaxed) as usize & 1 })
    }

    /// The end of a socket in phase JOINED.
    #[inline]
    pub(super) fn joined_end(&self) -> Option<PairEnd> {
        if self.phase() == phase::JOINED { self.end() } else { None }
    }

    /// The end of a socket that has a pair, also where it left its rings.
    pub(super) fn paired_end(&self) -> Option<PairEnd> {
        if matches!(self.phase(), phase::JOINED | phase::LEFT) { self.end() } else { None }
    }

    /// A JOINED socket has left its rings for good.
    pub(super) fn leave(&self) -> bool {
        let leaves = self.advance(phase::JOINED, phase::LEFT);
        if leaves {
            JOINED.fetch_sub(1, Ordering::Relaxed);
        }
        leaves
    }

    /// Lets one thread at a time look for the pair; `None` where another thread does, or a signal
    /// handler interrupted one that does.
    pub(super) fn joining<T>(&self, search: impl FnOnce() -> T) -> Option<T> {
        let own = m3ipc_sys::fork_generation().wrapping_add(1);
        let seen = self.joining.load(Ordering::Relaxed);
        // A thread of the parent is none of this process.
        if seen == own
            || self
                .joining
                .compare_exchange(seen, own, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return None;
        }
        let found = (self.phase() == phase::FRESH).then(search);
        self.joining.store(0, Ordering::Release);
        found
    }

    /// Joins a pair that is mapped in the window of this socket, inside of
    /// [`joining`](Self::joining).
    pub(super) fn join(&self, directory: &UserDirectory, end: PairEnd) {
        ANY_PAIRED.store(true, Ordering::Relaxed);
        // Before the phase: nobody counts a socket down that is not counted yet.
        JOINED.fetch_add(1, Ordering::Relaxed);
        self.side.store(u32::try_from(end.side & 1).unwrap_or(0), Ordering::Relaxed);
        self.user.store(directory.user(), Ordering::Relaxed);
        self.window.set_pair(end.memory);
        if self.edges.load(Ordering::Acquire) != 0 {
            half_of(end, Direction::Receive).store(half::EDGES, 1);
        }
        pairs::note_joined(end);
        if !self.advance(phase::FRESH, phase::JOINED) {
            JOINED.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a program with the rights of this moment finds the pair: the process may have given
    /// up the rights with which it joined.
    pub(super) fn may_be_found_again(&self) -> bool {
        self.joined_end().is_none() || self.user.load(Ordering::Relaxed) == process::user()
    }

    /// Says whether an epoll set has the socket edge-triggered: each publish must be an edge then.
    pub fn set_edge_triggered(&self, on: bool) {
        // Before there is a pair, `join` passes it on.
        self.edges.store(u32::from(on), Ordering::Release);
        if let Some(end) = self.joined_end() {
            half_of(end, Direction::Receive).store(half::EDGES, u64::from(on));
        }
    }

    /// Notes that this process alone has the socket.
    pub fn note_made(&self) {
        self.search.made_at.store(forks::next(), Ordering::Relaxed);
    }

    /// Whether no other process can have this end: then its peer uses no ring before this process
    /// joins.
    pub(super) fn is_sole(&self) -> bool {
        self.search.made_at.load(Ordering::Relaxed) == forks::next()
    }

    /// Another process gets the socket, see [`Search::is_passed_on`].
    pub(super) fn pass_on(&self) {
        self.search.made_at.store(0, Ordering::Relaxed);
        self.search.next.store(u32::MAX, Ordering::Relaxed);
    }

    /// Whether a call of this process is in the kernel, past this library.
    pub(super) fn has_calls_in_kernel(&self, direction: Direction) -> bool {
        self.in_kernel[direction as usize].load(Ordering::Acquire) & COUNT_MASK != 0
    }

    /// The number of this use of the state.
    #[inline]
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }
}

/// The half that an end sends or receives on.
#[inline]
pub(super) fn half_of(end: PairEnd, direction: Direction) -> RingHalf {
    let side = match direction {
        Direction::Send => end.side,
        Direction::Receive => 1 - end.side,
    };
    RingHalf::new(end.memory, side)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::file::File;
    use crate::memory::layout::PAIR_BYTES;
    use crate::outcome::KernelCall;

    /// Keeps tests that claim states of the process apart: one of them claims all that are free.
    fn alone() -> std::sync::MutexGuard<'static, ()> {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[test]
    fn states_are_claimed_once_and_freed() {
        let _alone = alone();
        let one = SocketId::claim(true).unwrap();
        let other = SocketId::claim(false).unwrap();
        assert_ne!(one, other);
        assert!(one.state().is_unix() && !other.state().is_unix());
        assert_eq!(one.state().phase(), phase::FRESH);
        one.state().stay_in_kernel();
        assert_eq!(one.state().phase(), phase::KERNEL);
        assert!(one.state().joined_end().is_none());
        assert_eq!(SocketId::from_number(one.number()), Some(one));
        assert_eq!(SocketId::from_number(SOCKETS_MAX as u64), None);
        one.state().free();
        other.state().free();
    }

    #[test]
    fn a_call_that_ends_after_its_socket_changes_no_later_socket() {
        let _alone = alone();
        let id = SocketId::claim(true).unwrap();
        let late = KernelCall::begin(id, Direction::Send);
        let late_of_pair = KernelCall::of_pair(id, id.state().generation());
        id.state().free();
        // Another socket gets the same state, and has a pair.
        let claims: Vec<SocketId> = core::iter::from_fn(|| SocketId::claim(true))
            .take_while(|other| *other != id)
            .collect();
        claims.into_iter().for_each(|other| other.state().free());
        assert_eq!(id.state().phase(), phase::FRESH);
        let path = std::env::temp_dir().join(format!("m3-late-{}", std::process::id()));
        std::fs::write(&path, vec![0; PAIR_BYTES]).unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let file = File::open_unlinked(&name, true).unwrap();
        let memory = id.state().window.map_pair(&file).unwrap();
        id.state().window.set_pair(memory);
        let half = half_of(id.state().end().unwrap(), Direction::Send);
        half.store(half::SENDING, 1);

        let own = KernelCall::begin(id, Direction::Send);
        late.end(Ok(10));
        late_of_pair.end(Ok(10));
        assert!(id.state().has_calls_in_kernel(Direction::Send), "its own call is under way");
        assert_eq!((half.load(half::SENDING), half.load(half::KERNEL)), (1, 0));
        KernelCall::of_pair(id, id.state().generation()).end(Ok(7));
        own.end(Ok(7));
        assert!(!id.state().has_calls_in_kernel(Direction::Send));
        assert_eq!((half.load(half::SENDING), half.load(half::KERNEL)), (0, 7));
        id.state().free();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_gaps_between_attempts_double() {
        let gaps = SwitchGaps { left: word32(), gap: AtomicU32::new(1) };
        let due: Vec<usize> = (0..16).filter(|_| gaps.is_due()).collect();
        assert_eq!(due, [0, 1, 3, 7, 15]);
    }
}
