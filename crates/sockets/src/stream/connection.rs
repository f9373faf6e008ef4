//! The state of a connection that both of its halves use.

use crate::member::DomainMember;
use crate::pair::{DirectionWords, Pair};
use crate::polled::{PolledConnection, Registration};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use m3ipc::Address;
use m3ipc_sys::{Direction, Errno, shut_down};
use m3ipc_wire::SockConnection;
use m3ipc_wire::sock::half;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The pause between two requests for the peer's pool, in ticks: some milliseconds.
const ASK_AGAIN_TICKS: u64 = 20_000_000;

/// The wakeup records of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeupCounts {
    /// Wakeup records that were sent.
    pub sent: u64,
    /// Sends that needed no wakeup record.
    pub suppressed: u64,
}

/// The state that both halves use.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) pair: Arc<Pair>,
    member: Arc<DomainMember>,
    info: SockConnection,
    /// What a poller of this process sees of the connection.
    polled: Arc<PolledConnection>,
    registration: Mutex<Option<Registration>>,
    nonblocking: AtomicBool,
    asked_ticks: AtomicU64,
    /// This side has ended its sending.
    send_ended: AtomicBool,
    /// The peer has ended a direction or the connection. Senders then ask the kernel at each call.
    suspect: AtomicBool,
    /// The endpoint of the peer process, or `NONE` while it is unknown.
    peer_endpoint: AtomicI32,
}

impl Connection {
    /// The state of a fresh connection; `out` is the direction in which this side sends, `back` the
    /// other one.
    pub(super) fn new(
        member: Arc<DomainMember>,
        pair: Arc<Pair>,
        socket: OwnedFd,
        info: SockConnection,
        out: DirectionWords,
        back: DirectionWords,
    ) -> Self {
        Self {
            socket,
            pair,
            member,
            info,
            polled: Arc::new(PolledConnection::new(out, back)),
            registration: Mutex::default(),
            nonblocking: AtomicBool::new(false),
            asked_ticks: AtomicU64::new(0),
            send_ended: AtomicBool::new(false),
            suspect: AtomicBool::new(false),
            peer_endpoint: AtomicI32::new(m3ipc::NONE.0),
        }
    }

    /// The daemon's record of the connection.
    pub(super) fn info(&self) -> &SockConnection {
        &self.info
    }

    /// Whether calls must not sleep.
    pub(super) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Sets whether calls must not sleep.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Errno> {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        m3ipc_sys::set_nonblocking(&self.socket, nonblocking)
    }

    /// Whether senders must ask the kernel at each call.
    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// Makes senders ask the kernel at each call.
    pub(super) fn mark_suspect(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// Whether this side has ended its sending.
    pub(super) fn has_send_ended(&self) -> bool {
        self.send_ended.load(Ordering::Acquire)
    }

    /// Shuts down one direction or both.
    pub(super) fn shut_down(&self, direction: Direction) -> Result<(), Errno> {
        if direction != Direction::Send {
            self.polled.publish_end();
        }
        shut_down(&self.socket, direction)?;
        if direction != Direction::Receive {
            self.send_ended.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The endpoint of the peer process where it is known.
    pub(super) fn peer_endpoint(&self) -> Option<Address> {
        let known = Address(self.peer_endpoint.load(Ordering::Relaxed));
        (known != m3ipc::NONE).then_some(known)
    }

    /// Remembers the endpoint of the peer process; `NONE` forgets it.
    pub(super) fn set_peer_endpoint(&self, endpoint: Address) {
        self.peer_endpoint.store(endpoint.0, Ordering::Relaxed);
    }

    /// Whether the peer says that it has taken everything from this side.
    ///
    /// The peer's unread bytes in its socket were then wakeup records only.
    pub(super) fn is_all_taken(&self) -> bool {
        let word = |at| self.polled.out.word(at).load(Ordering::Acquire);
        word(half::HEAD) == word(half::TAIL) && word(half::TAKEN) == word(half::GIVEN)
    }

    /// Maps the peer's pool where it is offered and not mapped yet.
    pub(super) fn map_peer_pool(&self) {
        if !self.pair.lacks_peer_pool() {
            return;
        }
        let (now, asked) = (m3ipc_sys::ticks(), self.asked_ticks.load(Ordering::Relaxed));
        if asked == 0 || now.wrapping_sub(asked) > ASK_AGAIN_TICKS {
            let again = self.member.map_peer_pool(&self.pair);
            self.asked_ticks.store(if again { 0 } else { now.max(1) }, Ordering::Relaxed);
        }
    }

    /// What a poller of this process sees of the connection.
    #[inline]
    pub(crate) fn polled(&self) -> &Arc<PolledConnection> {
        &self.polled
    }

    /// The poller in which this connection is, if it is in one.
    pub(crate) fn registration(&self) -> MutexGuard<'_, Option<Registration>> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another pair with the same peer.
    pub(super) fn sibling(&self, id: u64) -> Option<Arc<Pair>> {
        self.member.sibling(&self.pair, id)
    }

    /// Reports to the daemon that this side is closed.
    pub(super) fn report_closed(&self) {
        self.member.report_closed(&self.info);
    }
}
