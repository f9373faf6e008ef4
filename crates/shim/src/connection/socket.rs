//! A socket of the program: its descriptor and its state.
//!
//! A hook resolves a descriptor once and passes the socket forward. Every call here either does the
//! work, or answers [`Outcome::Kernel`]: the caller then makes the real call.

mod kept;
mod leave;
mod no_gain;
mod past_ring;

use super::address::SocketName;
use super::armed_poller::ArmedPoller;
use super::receive::{ReceiveHalf, ReceiveOptions, receive};
use super::rest;
use super::ring_half::Direction;
use super::send::Sender;
use super::socket_state::{SocketId, SocketState, half_of, phase};
use super::upgrade;
use crate::buffers::{Buffers, IovCursor};
use crate::kernel::process::pause_us;
use crate::kernel::{ready, socket};
use crate::memory::layout::half;
use crate::memory::lock::{self, Deadline};
use crate::outcome::{KernelCall, Outcome};
use crate::pin::PinReason;
use crate::process::limits;
use crate::protocol::HalfView;
use crate::protocol::settle::{
    arm, disarm, disarm_at_once, has_unsignalled_at_once, has_unsignalled_now,
};
use crate::settings::Settings;
use crate::{connection::pairs, settings};
use core::sync::atomic::Ordering;
use std::os::fd::RawFd;

/// The wait for the other end in this process, with the test switch for one process.
const JOIN_ROUNDS: u32 = 50;
const JOIN_ROUND_US: i64 = 200;
/// Flags of a send that a ring can obey.
const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;
/// Flags of a receive that a ring can obey.
const RECEIVE_FLAGS: i32 = libc::MSG_DONTWAIT
    | libc::MSG_PEEK
    | libc::MSG_WAITALL
    | libc::MSG_TRUNC
    | libc::MSG_NOSIGNAL
    | libc::MSG_CMSG_CLOEXEC;

/// Flags that no receive from a stream heeds: names that `<sys/socket.h>` has for sends, and for
/// other sockets.
const IGNORED_FLAGS: i32 = libc::MSG_DONTROUTE
    | libc::MSG_CTRUNC
    | 0x10 // MSG_PROXY
    | libc::MSG_EOR
    | libc::MSG_FIN
    | libc::MSG_SYN
    | libc::MSG_CONFIRM
    | libc::MSG_RST
    | libc::MSG_MORE
    | libc::MSG_WAITFORONE
    | 0x4_0000 // MSG_BATCH
    | libc::MSG_ZEROCOPY
    | libc::MSG_FASTOPEN;

/// A socket that has, or may get, a pair.
#[derive(Clone, Copy, Debug)]
pub struct Socket {
    fd: RawFd,
    id: SocketId,
    state: &'static SocketState,
    /// The use of the state when a call resolved the descriptor.
    generation: u32,
}

impl Socket {
    /// The socket of a descriptor that the table knows.
    #[must_use]
    #[inline]
    pub fn new(fd: RawFd, id: SocketId) -> Self {
        let state = id.state();
        Self { fd, id, state, generation: state.generation() }
    }

    /// A new state for a descriptor; `None` where the descriptor is no TCP or Unix stream socket,
    /// or nothing is upgraded.
    #[must_use]
    pub fn open(fd: RawFd) -> Option<Self> {
        let is_unix = Self::kind_of(fd)?;
        SocketId::claim(is_unix).map(|id| Self::new(fd, id))
    }

    /// A new state for a descriptor that this process made, without any question to the kernel;
    /// `None` where nothing is upgraded, or each socket at once.
    #[must_use]
    pub fn open_unseen(fd: RawFd) -> Option<Self> {
        let now = settings::current();
        if !now.on || now.upgrade_after_calls == 0 {
            return None;
        }
        let id = SocketId::claim_unseen()?;
        id.state().note_made();
        Some(Self::new(fd, id))
    }

    /// Whether a stream that may get a pair is a Unix socket; `None` for all other descriptors.
    #[must_use]
    pub fn kind_of(fd: RawFd) -> Option<bool> {
        let option = |name| socket::option(fd, libc::SOL_SOCKET, name);
        if !settings::current().on || option(libc::SO_TYPE) != Ok(libc::SOCK_STREAM) {
            return None;
        }
        match option(libc::SO_DOMAIN).ok()? {
            libc::AF_UNIX => Some(true),
            libc::AF_INET | libc::AF_INET6
                if option(libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP) =>
            {
                Some(false)
            }
            _ => None,
        }
    }

    /// Whether the next call of an UNSEEN socket must ask the kernel what the socket is.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.state.is_due()
    }

    /// The answer to that question: a stream that may get a pair.
    pub fn reveal(&self, is_unix: bool) {
        self.state.reveal(is_unix);
    }

    /// The same: not connected yet.
    pub fn ask_later(&self) {
        self.state.ask_later();
    }

    /// The same: the socket stays in the kernel. Whether this call says so first.
    pub fn stay_in_kernel(&self) -> bool {
        self.state.stay_in_kernel()
    }

    /// Whether a receive had room for control data before the kernel was asked what the socket is.
    #[must_use]
    pub fn had_control(&self) -> bool {
        self.state.search.had_control.load(Ordering::Relaxed) != 0
    }

    /// The descriptor.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// The number of the state.
    #[must_use]
    pub fn id(&self) -> SocketId {
        self.id
    }

    /// Whether two descriptors stand for the same state.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// Whether this is a Unix socket.
    #[must_use]
    pub fn is_unix(&self) -> bool {
        if self.state.phase() == phase::UNSEEN {
            return socket::option(self.fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Ok(libc::AF_UNIX);
        }
        self.state.is_unix()
    }

    /// `send`, `write`, `writev`, and `sendmsg` without ancillary data.
    pub fn send(&self, buffers: Option<Buffers<'_>>, flags: i32) -> Outcome {
        let state = self.state;
        if limits::are_on() {
            return Outcome::Kernel;
        }
        // A confirmation concerns datagrams alone.
        if flags & !(SEND_FLAGS | libc::MSG_CONFIRM) != 0 {
            self.pin(PinReason::Flag);
            return Outcome::Kernel;
        }
        let Some(buffers) = buffers.and_then(Buffers::all_addressed) else {
            return self.send_by_kernel();
        };
        if flags & !SEND_FLAGS != 0 {
            self.pin(PinReason::Flag);
            return Outcome::Kernel;
        }
        match state.phase() {
            phase::JOINED => {}
            phase::UNSEEN => return self.unseen(Direction::Send),
            phase::FRESH if upgrade::try_join(state, self.fd) => {}
            phase::FRESH => return self.through_kernel(Direction::Send),
            _ => return Outcome::Kernel,
        }
        let Some(end) = state.end() else { return Outcome::Kernel };
        if self.leaves_for_good(end) {
            return Outcome::Kernel;
        }
        if rest::begin_send(state, &half_of(end, Direction::Send)) {
            return Outcome::Counted(KernelCall::of_pair(self.id, self.generation));
        }
        self.answer_at_once(end);
        let now = settings::current();
        if now.same_process {
            self.attach_at_once(end);
        }
        self.sender(end, &now)
            .send(&buffers, flags, |half| upgrade::switch_to_ring(state, self.fd, end, half, &now))
    }

    /// A send that the kernel refuses, or of which it takes a part: the ring knows no such call.
    #[cold]
    fn send_by_kernel(&self) -> Outcome {
        let Some(end) = self.state.joined_end() else { return Outcome::Kernel };
        self.sender(end, &settings::current()).send_by_kernel()
    }

    /// Joins the pair before the first data call (for tests whose connections carry few messages).
    /// `waits` gives the other end, in another thread of this process, 10 ms to do the same.
    pub fn join_at_once(&self, waits: bool) {
        let state = self.state;
        let mut rounds = if waits { JOIN_ROUNDS } else { 0 };
        loop {
            // A Unix socket finds its peer only after the accept.
            let is_joined = match state.phase() {
                phase::JOINED => true,
                phase::FRESH => upgrade::try_join(state, self.fd),
                _ => return,
            };
            if let Some(end) = state.end().filter(|_| is_joined) {
                self.attach_at_once(end);
                if half_of(end, Direction::Send).load(half::ATTACHED) != 0 {
                    return;
                }
            }
            if rounds == 0 {
                return;
            }
            rounds -= 1;
            pause_us(JOIN_ROUND_US);
        }
    }

    /// Announces the receives of this end before the first of them.
    fn attach_at_once(&self, end: pairs::PairEnd) {
        if pairs::peer_joined(end) {
            upgrade::attach(self.state, end, &half_of(end, Direction::Receive));
        }
    }

    /// A peer that sends through its ring acknowledges nothing for a while, and TCP holds small
    /// segments back until then: this end sends at once from now on.
    #[inline]
    fn answer_at_once(&self, end: pairs::PairEnd) {
        let half = half_of(end, Direction::Send);
        if !self.state.is_unix()
            && half.load(half::AT_ONCE) == 0
            && half.load(half::PINNED) == 0
            && half_of(end, Direction::Receive).has_ring()
        {
            let _ = upgrade::send_at_once(self.fd, &half);
        }
    }

    fn sender(&self, end: pairs::PairEnd, now: &Settings) -> Sender<'_> {
        let state = self.state;
        Sender {
            fd: self.fd,
            id: self.id,
            generation: self.generation,
            half: half_of(end, Direction::Send),
            memory: end.memory,
            peer_poller: &state.peer_poller,
            spin: &state.send_spin,
            extent: &state.extent,
            bulk: now.pins_bulk.then_some(&state.bulk),
            by_message: now.by_message && !now.always_wake,
            share: (now.rests && !now.always_wake).then_some(&state.share),
            ring_bytes_max: now.ring_bytes as usize,
            refusals: &state.send_refusals,
            spin_ns: u64::from(now.spin_ns),
            always_wake: now.always_wake,
            is_unix: state.is_unix(),
            progress: &state.progress,
        }
    }

    /// The outcome of a send, of whatever kind, that the kernel makes as it is; `None` where the
    /// bytes go through the ring.
    #[must_use]
    pub fn kernel_route_of_send(&self) -> Option<Outcome> {
        let state = self.state;
        if limits::are_on() {
            return Some(Outcome::Kernel);
        }
        match state.phase() {
            phase::JOINED => {}
            phase::UNSEEN => return Some(self.unseen(Direction::Send)),
            phase::FRESH if upgrade::try_join(state, self.fd) => {}
            phase::FRESH => return Some(self.through_kernel(Direction::Send)),
            _ => return Some(Outcome::Kernel),
        }
        let Some(end) = state.end() else { return Some(Outcome::Kernel) };
        self.answer_at_once(end);
        let now = settings::current();
        self.sender(end, &now)
            .kernel_route(|half| upgrade::switch_to_ring(state, self.fd, end, half, &now))
    }

    /// The same for a receive.
    #[must_use]
    pub fn kernel_route_of_receive(&self) -> Option<Outcome> {
        let state = self.state;
        if limits::are_on() {
            return (!self.has_bytes()).then_some(Outcome::Kernel);
        }
        match state.phase() {
            phase::JOINED => {}
            phase::UNSEEN => return Some(self.unseen(Direction::Receive)),
            phase::FRESH if upgrade::try_join(state, self.fd) => {}
            phase::FRESH => return Some(self.through_kernel(Direction::Receive)),
            _ => return Some(Outcome::Kernel),
        }
        let Some(end) = state.end() else { return Some(Outcome::Kernel) };
        let half = half_of(end, Direction::Receive);
        if pairs::peer_joined(end) {
            upgrade::attach(state, end, &half);
        }
        let is_unused =
            half.is_sealed_unused() || (half.load(half::ATTACHED) != 1 && !half.has_ring());
        (is_unused || self.has_left_ring(end, &half))
            .then(|| self.through_kernel(Direction::Receive))
    }

    /// The flags of a receive that change what it does. A Unix socket has no error queue.
    fn heeded(&self, flags: i32) -> i32 {
        let flags = flags & !IGNORED_FLAGS;
        if flags & libc::MSG_ERRQUEUE != 0 && self.is_unix() {
            flags & !libc::MSG_ERRQUEUE
        } else {
            flags
        }
    }

    /// `recv`, `read`, `readv`, `recvmsg`. `MSG_PEEK` with `MSG_WAITALL` returns what is there.
    pub fn receive(&self, buffers: Option<Buffers<'_>>, flags: i32) -> Outcome {
        let flags = self.heeded(flags);
        // The error queue is no part of the stream.
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Outcome::Kernel;
        }
        let are_limited = limits::are_on();
        if !are_limited && flags & !RECEIVE_FLAGS != 0 {
            self.pin(PinReason::Flag);
            return Outcome::Kernel;
        }
        let Some(served) = self.served(buffers, flags) else { return self.receive_none(buffers) };
        if are_limited {
            return self.receive_left(&served, flags);
        }
        // A peek takes no bytes, which the end of the call would count.
        let options = self.receive_options(flags);
        if flags & libc::MSG_PEEK == 0
            && let Some(end) = self.state.joined_end()
            && self.begin_receive(end, options)
        {
            return Outcome::Counted(KernelCall::past_ring(self.id, self.generation));
        }
        if let Some(outcome) = self.kernel_route_of_receive() {
            return outcome;
        }
        self.receive_at(IovCursor::new(&served), options)
    }

    /// Receives into the bytes that the cursor has left.
    fn receive_at(&self, cursor: IovCursor<'_>, options: ReceiveOptions) -> Outcome {
        let state = self.state;
        let Some(end) = state.end() else { return Outcome::Kernel };
        let half = half_of(end, Direction::Receive);
        // TCP alone discards the bytes; a Unix stream ignores the flag.
        let flags = options.flags & if state.is_unix() { !libc::MSG_TRUNC } else { !0 };
        let options = ReceiveOptions { flags, ..options };
        let from = ReceiveHalf { half, fd: self.fd, end };
        let outcome = receive(from, &state.receives, cursor, options, &|| self.is_own());
        self.after_receive(outcome, &half, end)
    }

    /// `recvmsg`. `has_control` says that the program gave room for ancillary data.
    pub fn receive_message(
        &self,
        buffers: Option<Buffers<'_>>,
        flags: i32,
        has_control: bool,
    ) -> Outcome {
        let flags = self.heeded(flags);
        let is_plain = flags & !RECEIVE_FLAGS == 0 && !limits::are_on();
        if has_control && self.state.phase() == phase::UNSEEN {
            self.state.search.had_control.store(1, Ordering::Relaxed);
        }
        if !has_control || !is_plain || !self.may_get_control() {
            return self.receive(buffers, flags);
        }
        // Descriptors may arrive. The kernel alone passes them on, behind the bytes of the ring.
        if self.leave_for_control() {
            let kept = self.state.receives.take_error();
            return kept.map_or(Outcome::Kernel, Outcome::Failed);
        }
        // The socket is pinned: no byte follows those that lie in the ring now.
        let left = self.receive_half().and_then(|half| half.ring().ok());
        match (self.served(buffers, flags), left) {
            (Some(served), Some(ring)) if ring.filled > 0 => {
                let options = self.receive_options(flags);
                self.receive_at(IovCursor::new(&served).limited(ring.filled), options)
            }
            (Some(_), Some(_)) => self.receive_message(buffers, flags, has_control),
            _ => Outcome::Kernel,
        }
    }

    /// Whether a message that took the last bytes of the ring may go on in the kernel, with
    /// ancillary data. `waits` says that the call waits for all its bytes; another one
    /// asks only for bytes that lie there, so that an error stays for the next call.
    #[must_use]
    pub fn goes_on_in_kernel(&self, waits: bool) -> bool {
        let has_bytes_only = || {
            let now = ready::poll_now(self.fd, libc::POLLIN);
            now & (libc::POLLIN | libc::POLLERR) == libc::POLLIN
        };
        self.may_get_control()
            && !limits::are_on()
            && self.leave_for_control()
            && (waits || has_bytes_only())
    }

    /// Whether control data may come with bytes: always on a Unix socket. A TCP socket has it after
    /// an option, which made it leave its ring.
    fn may_get_control(&self) -> bool {
        let has_left = |half: ReceiveHalf| half.load(half::ATTACHED) > 1;
        self.state.is_unix() || self.receive_half().is_some_and(has_left)
    }

    /// Leaves the ring for a receive with room for control data. `false` where bytes lie in it.
    fn leave_for_control(&self) -> bool {
        if self.state.is_unix() {
            return self.pin(PinReason::Ancillary);
        }
        self.receive_half().is_none_or(upgrade::pin_receiving)
    }

    /// The peer's name, as `recvfrom` reports it: a TCP socket reports none.
    #[must_use]
    pub fn peer_name(&self) -> Option<SocketName> {
        self.state.is_unix().then(|| SocketName::ask(self.fd, socket::NameOf::Peer)).flatten()
    }

    /// The program's own call, of a socket of which the kernel was asked for nothing.
    fn unseen(&self, direction: Direction) -> Outcome {
        self.state.count_unseen();
        self.through_kernel(direction)
    }

    /// The program's own call, of a socket that has no ring yet.
    fn through_kernel(&self, direction: Direction) -> Outcome {
        Outcome::Counted(KernelCall::begin(self.id, direction))
    }

    /// The half that this end receives on, where it has a ring.
    fn receive_half(&self) -> Option<ReceiveHalf> {
        let end = self.state.joined_end()?;
        let half = half_of(end, Direction::Receive);
        half.has_ring().then_some(ReceiveHalf { half, fd: self.fd, end })
    }

    /// Whether bytes lie in the ring now: a reason to poll, never an answer in place of the
    /// kernel's.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        self.receive_half().is_some_and(|half| half.ring().is_ok_and(|ring| ring.filled > 0))
    }

    /// The moment at which the peer last marked the slot of the socket, in nanoseconds.
    #[must_use]
    pub fn marked_at_ns(&self) -> u64 {
        self.receive_half().map_or(0, |half| half.load(half::STAMP))
    }

    /// Bytes that can be received, for `FIONREAD`; `None` where the kernel's answer is right.
    #[must_use]
    pub fn readable_bytes(&self) -> Option<usize> {
        self.receive_half()?.readable_bytes()
    }

    /// Whether bytes lie in the ring that the kernel does not know; `None` while a sender
    /// publishes.
    #[must_use]
    pub fn has_unsignalled(&self) -> Option<bool> {
        self.receive_half().map_or(Some(false), |half| has_unsignalled_now(&half))
    }

    /// The same without waiting for the sender.
    #[must_use]
    pub fn has_unsignalled_at_once(&self) -> Option<bool> {
        self.receive_half().map_or(Some(false), |half| has_unsignalled_at_once(&half))
    }

    /// Whether sends are copies into the ring, so that the socket is writable.
    #[must_use]
    pub fn sends_in_ring(&self) -> bool {
        self.state.joined_end().is_some_and(|end| half_of(end, Direction::Send).in_ring())
    }

    /// Joins the pair that other processes know, for a descriptor that this program inherited or
    /// received in a message.
    pub fn join_known(&self) {
        if self.state.phase() == phase::FRESH {
            let _ = upgrade::join_known(self.state, self.fd);
        }
    }

    /// Arms the socket with a slot of this process's poller: senders send no wakeup byte while no
    /// thread sleeps in it. The caller makes sure that this process alone has the socket, and waits
    /// for it in this one set.
    pub fn arm(&self, poller: ArmedPoller, slot: usize) {
        let wanted = poller.slot_word(slot);
        if self.state.receives.wanted_slot.swap(wanted, Ordering::SeqCst) == wanted {
            return;
        }
        // Otherwise the next receive arms the half.
        if let Some(half) = self.receive_half()
            && let Some(_held) = lock::try_take(half.half.lock(half::RECEIVE_LOCK))
        {
            arm(&half, self.state.receives.wanted_slot.load(Ordering::SeqCst));
        }
    }

    /// Disarms the socket: later bytes have wakeup bytes. Earlier bytes may have none, see
    /// [`has_unsignalled`](Self::has_unsignalled). Whether the socket was armed. After the deadline
    /// the call waits for no other thread: a hostile peer may keep the locks of many sockets.
    pub fn disarm(&self, until: Deadline) -> bool {
        if self.state.receives.wanted_slot.swap(0, Ordering::SeqCst) == 0 {
            return false;
        }
        let Some(half) = self.receive_half() else { return true };
        // Under the lock no receive arms the half again. A signal handler that interrupted a
        // receive of its own thread cannot wait for the lock.
        let word = half.half.lock(half::RECEIVE_LOCK);
        if until.left_ns() == 0 {
            let held = lock::try_take(word);
            disarm_at_once(&half);
            drop(held);
        } else {
            let held = lock::take(word, || until.left_ns());
            disarm(&half);
            drop(held);
        }
        true
    }

    /// Whether a poller is armed for the socket, or will be at its next receive.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.state.receives.wanted_slot.load(Ordering::Relaxed) != 0
    }

    /// Says whether an epoll set has the socket edge-triggered.
    pub fn set_edge_triggered(&self, on: bool) {
        self.state.set_edge_triggered(on);
    }
}
