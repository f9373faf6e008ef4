//! The engine: what becomes of the bytes of one connection. The hooks call this module and nothing below it.
//!
//! ```text
//!   Talk ── pairs ── arena       this process's end; who shares memory with whom; the memory
//!    │        └ diag             who is at the other end
//!    ├ send ┐
//!    ├ receive ── way            bytes through a ring, tokens and overflow through the kernel
//!    └ spin   lock   lookout     looking before sleeping; locks that outlive their holders; event loops that come by themselves
//!          sight               what others may read of all this
//! ```

mod arena;
mod copy;
mod diag;
mod lock;
mod lookout;
mod pairs;
mod raw;
mod receive;
mod send;
pub mod sight;
mod spin;
mod talk;
mod way;
mod words;

use crate::count;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::iovec;
pub use lookout::{BIT_WORDS, Lookout};
#[doc(hidden)]
pub use lookout::{get_up, lie_down, take, tell};
use std::os::fd::RawFd;
pub use talk::{Talk, any_pairs, candidate};

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; so many bytes.
    Done(usize),
    /// It failed with this `errno`.
    Failed(i32),
    /// The caller is to make the real call with the same arguments.
    Kernel,
}

/// How a descriptor came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// `connect` (also one that is still in progress).
    Connected,
    /// `accept`, `accept4`.
    Accepted,
    /// `socketpair`.
    Paired,
    /// It was there: after `exec`, or received in a message.
    Found,
}

/// Why a socket stays in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pin {
    /// The policy says so.
    Policy = 1,
    /// A socket option that shared memory cannot mirror.
    Option,
    /// A flag of a call, such as `MSG_OOB`.
    Flag,
    /// Ancillary data on a Unix socket.
    Ancillary,
    /// The C library's buffered files.
    Stdio,
    /// The descriptor was given to another process.
    Passed,
    /// A program comes that does not have this library.
    Exec,
    /// `splice`, `tee`, `vmsplice`.
    Splice,
    /// Asynchronous I/O, io_uring.
    Asynchronous,
    /// The kernel refuses what the library needs.
    Refused,
    /// No memory, or no room in a table.
    Room,
    /// It ended its sending.
    Ended,
}

/// What tests and the policy may change; set once, before the first socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Size of each ring in bytes: a power of two, from 64 to 64 KiB.
    pub ring_bytes: u32,
    /// Data calls on a socket before it looks for its peer; 0 is at once.
    pub upgrade_after_calls: u32,
    /// Whether a token is sent for each publish.
    pub always_token: bool,
    /// The longest look for bytes before a call sleeps, in nanoseconds; 0 is none.
    pub spin_ns: u32,
    /// Whether both ends may lie in one process (for tests).
    pub same_process: bool,
    /// Whether anything is upgraded at all.
    pub on: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ring_bytes: 64 * 1024,
            upgrade_after_calls: 2,
            always_token: false,
            spin_ns: 50_000,
            same_process: false,
            on: true,
        }
    }
}

static RING_BYTES: AtomicU32 = AtomicU32::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);
static SPIN_NS: AtomicU32 = AtomicU32::new(0);
static SWITCHES: AtomicU32 = AtomicU32::new(0);

/// Settles how the engine works in this process. Before the first [`candidate`]; without it nothing is upgraded.
pub fn settle(settings: Settings) {
    arena::settle();
    lock::begin();
    let (least, most) = (words::RING_MIN as u64, words::RING_MAX as u64);
    let bytes = u64::from(settings.ring_bytes).clamp(least, most).next_power_of_two();
    RING_BYTES.store(u32::try_from(bytes).unwrap_or(64), Ordering::Relaxed);
    CALLS.store(settings.upgrade_after_calls, Ordering::Relaxed);
    SPIN_NS.store(settings.spin_ns, Ordering::Relaxed);
    let switches = u32::from(settings.always_token)
        | u32::from(settings.same_process) << 1
        | u32::from(settings.on) << 2;
    SWITCHES.store(switches, Ordering::Release);
}

/// A number that differs between a process and its children by fork; 0 where the kernel does not help.
#[must_use]
pub fn line() -> u32 {
    lock::line()
}

/// What was settled.
fn settings() -> Settings {
    let switches = SWITCHES.load(Ordering::Acquire);
    Settings {
        ring_bytes: RING_BYTES.load(Ordering::Relaxed),
        upgrade_after_calls: CALLS.load(Ordering::Relaxed),
        always_token: switches & 1 != 0,
        spin_ns: SPIN_NS.load(Ordering::Relaxed),
        same_process: switches & 2 != 0,
        on: switches & 4 != 0,
    }
}

/// Flags of a send that a ring can obey.
const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;
/// Flags of a receive that a ring can obey.
const RECEIVE_FLAGS: i32 = libc::MSG_DONTWAIT
    | libc::MSG_PEEK
    | libc::MSG_WAITALL
    | libc::MSG_TRUNC
    | libc::MSG_NOSIGNAL
    | libc::MSG_CMSG_CLOEXEC;

impl Talk {
    /// `send`, `write`, `writev`, `sendmsg` without ancillary data.
    pub fn send(&self, fd: RawFd, parts: &[iovec], flags: i32) -> Outcome {
        if flags & !SEND_FLAGS != 0 {
            self.pin(fd, Pin::Flag);
            return Outcome::Kernel;
        }
        match self.phase.load(Ordering::Acquire) {
            talk::JOINED => {}
            talk::FRESH if self.try_join(fd) => {}
            talk::FRESH => return self.plain(0, || raw::send_waiting(fd, parts, flags)),
            _ => return Outcome::Kernel,
        }
        let Some((arena, place)) = self.place() else { return Outcome::Kernel };
        let (way, now) = (self.way(arena, place, true), settings());
        let sender = send::Sender {
            fd,
            arena,
            spin: &self.spins[0],
            spin_ns: u64::from(now.spin_ns),
            always_token: now.always_token,
            is_unix: self.is_unix(),
            last: &self.last,
        };
        send::send(&way, &sender, parts, flags, |way| self.turn(fd, arena, place, way, &now))
    }

    /// `recv`, `read`, `readv`, `recvmsg`. `MSG_PEEK` with `MSG_WAITALL` gives what is there.
    pub fn receive(&self, fd: RawFd, parts: &[iovec], flags: i32) -> Outcome {
        if flags & !RECEIVE_FLAGS != 0 {
            self.pin(fd, Pin::Flag);
            return Outcome::Kernel;
        }
        match self.phase.load(Ordering::Acquire) {
            talk::JOINED => {}
            talk::FRESH if self.try_join(fd) => {}
            talk::FRESH => return self.plain(1, || raw::receive_waiting(fd, parts, flags)),
            _ => return Outcome::Kernel,
        }
        let Some((arena, place)) = self.place() else { return Outcome::Kernel };
        let way = self.way(arena, place, false);
        if self.has_company(arena, place) {
            self.attach(arena, place, &way);
        }
        if way.load(words::way::ATTACHED) != 1 && !way.has_ring() {
            return self.plain(1, || raw::receive_waiting(fd, parts, flags));
        }
        let receiver = receive::Receiver {
            fd,
            spin: &self.spins[1],
            spin_ns: u64::from(settings().spin_ns),
            sleeps: &self.sleeps,
            pending: &self.pending,
            wish: &self.wish,
        };
        // What is discarded is discarded on TCP alone.
        let flags = if self.is_unix() { flags & !libc::MSG_TRUNC } else { flags };
        let mut outcome = receive::receive(&way, &receiver, parts, flags);
        if outcome == Outcome::Done(0)
            && self.last[1].load(Ordering::Relaxed) != send::SUSPECT
            && way.load(words::way::REASON) != Pin::Ended as u64
            && receive::has_untold(&self.way(arena, place, true))
        {
            // It ended without having read what the kernel does not know of: that is no orderly end.
            outcome = Outcome::Failed(libc::ECONNRESET);
        }
        if matches!(outcome, Outcome::Done(0))
            || matches!(outcome, Outcome::Failed(errno) if !matches!(errno, libc::EAGAIN | libc::EINTR))
        {
            // The program knows of an end: what it sends now has to fail as the kernel has it.
            self.last[1].store(send::SUSPECT, Ordering::Relaxed);
        }
        outcome
    }

    /// The kernel's call, made here so that it is known to be under way: 0 is a send, 1 a receive.
    fn plain(&self, kind: usize, call: impl FnOnce() -> Result<usize, i32>) -> Outcome {
        let inside = &self.inside[kind & 1];
        inside.fetch_add(1, Ordering::AcqRel);
        let result = call();
        inside.fetch_sub(1, Ordering::AcqRel);
        result.map_or_else(Outcome::Failed, Outcome::Done)
    }

    /// The way that is received on, where it has a ring.
    fn receiving(&self) -> Option<way::Way> {
        if self.phase.load(Ordering::Acquire) != talk::JOINED {
            return None;
        }
        let (arena, place) = self.place()?;
        Some(self.way(arena, place, false)).filter(way::Way::has_ring)
    }

    /// Whether bytes lie in the ring now: to look before sleeping, never instead of the kernel's answer.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        self.receiving().is_some_and(|way| way.look().is_ok_and(|seen| seen.filled > 0))
    }

    /// Its bytes are looked for from this place of an epoll set of this process, whenever no thread of it sleeps: its sender sends
    /// no tokens then. Only where this process alone has the socket, and nobody waits for it in another way.
    pub fn look_out(&self, from: Lookout, place: usize) {
        let wish = from.cover(place);
        if self.wish.swap(wish, Ordering::SeqCst) == wish {
            return;
        }
        // Else the next receive covers it.
        if let Some(way) = self.receiving()
            && let Some(_held) = lock::try_take(way.word(words::way::RECEIVE_LOCK))
        {
            receive::cover(&way, &self.wish);
        }
    }

    /// Nobody looks for its bytes any more: what comes from now on has tokens. What came before may have none: whether there is
    /// any, [`has_bytes`](Self::has_bytes) says. Whether it was looked for.
    pub fn uncover(&self) -> bool {
        if self.wish.swap(0, Ordering::SeqCst) == 0 {
            return false;
        }
        if let Some(way) = self.receiving() {
            // Under the lock: no receive covers it anew. A handler that interrupted one cannot wait for it.
            let held = lock::take(way.word(words::way::RECEIVE_LOCK));
            receive::uncover(&way);
            drop(held);
        }
        true
    }

    /// Whether an epoll set looks for its bytes, or is about to.
    #[must_use]
    pub fn is_looked_for(&self) -> bool {
        self.wish.load(Ordering::Relaxed) != 0
    }

    /// Whether its sends are copies into the ring, so that it is writable.
    #[must_use]
    pub fn sends_in_ring(&self) -> bool {
        self.phase.load(Ordering::Acquire) == talk::JOINED
            && self.place().is_some_and(|(arena, place)| self.way(arena, place, true).in_ring())
    }

    /// Joins the pair that others know of, where there is one: of a descriptor that was there before this program, or came in a
    /// message.
    pub fn meet(&self, fd: RawFd) {
        if self.phase.load(Ordering::Acquire) == talk::FRESH {
            let _ = self.is_known(fd);
        }
    }

    /// Whether bytes lie in the ring that the kernel knows nothing of; `None` where somebody is about to say so.
    #[must_use]
    pub fn has_untold(&self) -> Option<bool> {
        self.receiving().map_or(Some(false), |way| receive::has_untold_now(&way))
    }

    /// Bytes that can be received, for `FIONREAD`; `None` where the kernel's answer is right.
    pub fn waiting(&self, fd: RawFd) -> Option<usize> {
        receive::waiting(&self.receiving()?, fd)
    }

    /// Stays in, or returns to, the kernel. `false` where bytes lie in the ring: they can still be received through
    /// this talk, but not by a program without it.
    pub fn pin(&self, fd: RawFd, reason: Pin) -> bool {
        match self.phase.load(Ordering::Acquire) {
            talk::JOINED => {}
            // After `exec` it may be in its rings.
            talk::FRESH if self.is_known(fd) => {}
            talk::FRESH => {
                let (from, to) = (talk::FRESH, talk::KERNEL);
                let _ = self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
                count::pinned(reason);
                return true;
            }
            _ => return true,
        }
        let Some((arena, place)) = self.place() else { return true };
        self.uncover();
        count::pinned(reason);
        let sending = self.way(arena, place, true);
        talk::pin_sending(&sending, reason);
        if sending.has_ring() && !self.is_unix() && sending.load(words::way::LATENCY[0]) == 0 {
            let _ = raw::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 0);
        }
        talk::pin_receiving(&self.way(arena, place, false), fd)
    }

    /// The program is about to shut down its sending: what it sends afterwards must fail as the kernel has it.
    pub fn end_sending(&self) {
        if self.phase.load(Ordering::Acquire) == talk::JOINED
            && let Some((arena, place)) = self.place()
        {
            talk::pin_sending(&self.way(arena, place, true), Pin::Ended);
        }
    }

    /// An epoll set has it edge-triggered: each publish is to be an edge.
    pub fn edge_triggered(&self, on: bool) {
        // Before the pair is there `join` tells it.
        self.edges.store(u32::from(on), Ordering::Release);
        if self.phase.load(Ordering::Acquire) == talk::JOINED
            && let Some((arena, place)) = self.place()
        {
            self.way(arena, place, false).store(words::way::EDGES, u64::from(on));
        }
    }

    /// This process is about to close its last descriptor of it: called before the real `close`. The talk may be given to
    /// another socket afterwards.
    pub fn forget(&self, fd: RawFd) {
        if self.phase.load(Ordering::Acquire) == talk::JOINED
            && let Some((arena, place)) = self.place()
        {
            // Then no other process has it.
            let alone = self.uncover();
            let way = self.way(arena, place, false);
            // Tokens that nobody took would turn an orderly end into a reset.
            if way.has_ring()
                && let Some(_held) = lock::try_take(way.word(words::way::RECEIVE_LOCK))
                && way.look().is_ok_and(|seen| seen.filled == 0)
            {
                let _ = receive::settle(&way, fd);
            } else if alone && fd >= 0 && !self.is_unix() && receive::has_untold(&way) {
                // The kernel resets a connection that is closed with unread bytes; of these it does not know.
                let _ = raw::set_option(
                    fd,
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    libc::linger { l_onoff: 1, l_linger: 0 },
                );
            }
            pairs::closed(arena, place);
        }
        self.free();
    }

    /// `TCP_NODELAY` and `TCP_CORK` of a socket whose bytes pass through a ring: set it where `set` is given; what `getsockopt` is
    /// to say. `None` where the kernel is to be asked.
    pub fn latency_option(&self, fd: RawFd, option: i32, set: Option<i32>) -> Option<i32> {
        let _ = fd;
        let which =
            [libc::TCP_NODELAY, libc::TCP_CORK].iter().position(|known| *known == option)?;
        if self.phase.load(Ordering::Acquire) != talk::JOINED || self.is_unix() {
            return None;
        }
        let (arena, place) = self.place()?;
        let way = self.way(arena, place, true);
        if !way.has_ring() || way.load(words::way::PINNED) != 0 {
            return None;
        }
        let word = words::way::LATENCY[which];
        if let Some(value) = set {
            way.store(word, u64::from(value != 0));
        }
        Some(i32::from(way.load(word) != 0))
    }
}
