//! The endpoint of a process in its VM.
//!
//! ```text
//! Endpoint ── membership: VM, address, privileges     session: the daemon
//!     │       peers: links, by address and by index   inbox: what was found, and its order
//!     │
//!     ├ send  sendrec  reply  notify ── conversation: publish to one peer, wake it
//!     └ receive ─────────────────────── waiter: poll, yield, sleep
//! ```
//!
//! Each call first does the work that is possible at once. Only then it enters `wait` and records
//! what it waits for. The wait ends with its event, the death of the peer, the time limit, or a
//! signal. An outgoing message is then either withdrawn or known to be delivered.

mod accept;
mod admission;
mod area_upkeep;
mod areas;
mod ask;
mod attached_areas;
mod bind;
mod blocks;
mod buffer;
mod bytes;
mod call;
mod call_stop;
mod claims;
mod contact;
mod conversation;
mod copy;
mod daemon_limit;
mod daemon_session;
mod daemon_watch;
mod delivered;
mod delivery_order;
mod doorbell;
mod events;
mod failed_rings;
mod fast;
mod fast_calls;
mod fast_pauses;
mod fast_payload;
mod fast_receive;
mod fast_send;
mod fast_sleep;
mod halves;
mod handover;
mod held;
mod hot_set;
mod inbox;
mod inheritance;
mod interruption;
mod kept_notifications;
mod leaving;
mod membership;
mod migrate;
mod missing_links;
mod notify;
mod outgoing;
mod own_doorbell;
mod page_set;
mod payload;
mod payload_state;
mod peer;
mod peer_copies;
mod peers;
mod pending;
mod pending_send;
mod priority;
mod pulse;
mod queries;
#[cfg(feature = "tokio")]
mod questions;
mod queue_marks;
mod receive;
mod receive_bound;
mod receive_limit;
mod received;
mod reply;
mod reply_receive;
mod request_end;
mod retries;
mod return_state;
mod returning;
mod send;
mod sendrec;
mod settle;
mod stamp_cost;
mod stamps;
mod stand_in;
mod stand_in_payload;
mod take;
mod timer_list;
mod timers;
mod trace;
mod wait;
mod waiter;
mod waiting_arrivals;
mod wake_words;
mod watch_list;
mod watches;
mod withdrawal;

pub use blocks::Hold;
#[doc(hidden)]
pub use buffer::Buffer;
pub use call::Call;
pub use copy::{Audience, Grant, Lease, Location, Rights};
pub(crate) use copy::{CopyNews, PartyCopy, PartyStep};
pub use delivered::Delivered;
pub use halves::{UnfinishedReceive, UnfinishedRequest, UnfinishedSend};
pub use handover::GivenBlock;
pub use inheritance::Inheritance;
pub(crate) use outgoing::Beside;
pub use pending::PendingRequest;
pub use pending_send::PendingSend;
pub use queries::NAME_KEY;
#[cfg(feature = "tokio")]
pub(crate) use queries::attach_request;
#[cfg(feature = "tokio")]
pub(crate) use questions::{NameWait, Question};
pub use received::{Pulse, Received, ReceivedKind, Source};
pub use stamp_cost::{SLOTS_DEFAULT, StampCost, cost};
pub use stand_in::MessageRoom;
pub(crate) use stand_in::{Found, HeldMessages, StandInLook};
pub use stand_in_payload::COPIED_MAX_BYTES;
pub(crate) use stand_in_payload::Copied;
pub use timers::TimerId;
pub use withdrawal::Withdrawal;

use crate::error::Fail;
use crate::info::Identity;
use attached_areas::AttachedAreas;
use claims::Claims;
use conversation::Conversation;
use daemon_session::DaemonSession;
use fast_calls::FastCalls;
use inbox::Inbox;
use inheritance::Priorities;
use m3ipc_abi::{Address, Code, Verb};
use m3ipc_link::WaitStrategy;
use membership::Membership;
use peers::Peers;
use stamps::Moment;
use trace::EndpointTrace;
use waiter::Waiter;

pub(crate) use bind::{bind, bind_backup, bind_by, claim};
pub(crate) use interruption::Interruption;

/// A bound endpoint. A drop unbinds it.
///
/// One thread uses an endpoint at a time. The endpoint may move to another thread, and the thread
/// that bound it may end; only those of [`Vm::bind_thread`](crate::Vm::bind_thread) end with their
/// thread. A process may have several: see [`Vm::bind_additional`](crate::Vm::bind_additional).
///
/// ```
/// # let node = m3ipc::test::node();
/// let mut endpoint = node.vm().bind(1)?;
/// assert_eq!(endpoint.address().slot(), 1);
/// assert_eq!((endpoint.vm(), endpoint.vm_name()), (node.vm().id(), "test"));
/// let mut endpoint = std::thread::spawn(move || endpoint).join().unwrap();
/// assert!(endpoint.is_bound());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Endpoint {
    session: DaemonSession,
    membership: Membership,
    peers: Peers,
    inbox: Inbox,
    waiter: Waiter,
    fast: FastCalls,
    copies: copy::Copies,
    claims: Claims,
    areas: AttachedAreas,
    payloads: payload_state::Payloads,
    trace: EndpointTrace,
    priorities: Priorities,
}

impl Endpoint {
    /// The address of the endpoint in its VM. The example is at [`Endpoint`].
    #[must_use]
    pub fn address(&self) -> Address {
        self.membership.address()
    }

    /// The id of the VM. The example is at [`Endpoint`].
    #[must_use]
    pub fn vm(&self) -> i32 {
        self.membership.vm()
    }

    /// The name of the VM. The example is at [`Endpoint`].
    #[must_use]
    pub fn vm_name(&self) -> &str {
        self.membership.vm_name()
    }

    /// The wait strategy. The example is at [`set_strategy`](Self::set_strategy).
    #[must_use]
    pub fn strategy(&self) -> WaitStrategy {
        self.waiter.strategy()
    }

    /// Chooses the wait strategy.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, _client) = node.pair();
    /// use m3ipc::WaitStrategy;
    ///
    /// server.set_strategy(WaitStrategy::Block);
    /// assert_eq!(server.strategy(), WaitStrategy::Block);
    /// ```
    pub fn set_strategy(&mut self, strategy: WaitStrategy) {
        self.waiter.set_strategy(strategy);
    }

    /// Lets a hook decide which signals end a wait. Without one, each signal with a handler does.
    ///
    /// The hook is asked in the waiting thread: after a signal, and about once a second of sleep.
    /// `true` ends the call as a signal does. `false` lets it go on, with its time limit.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// static ENDS: AtomicBool = AtomicBool::new(true); // what a signal handler would set
    /// server.interrupt_by(|| ENDS.load(Ordering::Relaxed));
    /// let ended = server.receive(m3ipc::Source::Any);
    /// assert!(matches!(ended, Err(m3ipc::ReceiveError::Interrupted(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn interrupt_by(&mut self, hook: impl FnMut() -> bool + Send + Sync + 'static) {
        self.waiter.interruption().set(hook);
    }

    /// Switches stamping on or off while this endpoint is traced. For measurements that compare
    /// both.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// client.stamp_now(false);
    /// client.notify(server.address())?; // no record, also if a tracer is there
    /// client.stamp_now(true);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stamp_now(&mut self, stamps: bool) {
        if self.trace.switch(stamps) {
            self.fast.close();
        }
    }

    /// The identity of a living peer that has a link with this endpoint. The daemon vouches for
    /// user, group and process. The example is at [`latest_peer`](Self::latest_peer).
    #[must_use]
    pub fn peer(&self, address: Address) -> Option<Identity> {
        self.peers.find(address).map(|index| self.peers.get(index).identity())
    }

    /// The sender of the message or notification that was taken last, even if it is dead now. A
    /// notification in the name of another endpoint has process -1 and an unknown user and group.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// client.notify(server.address())?;
    /// server.receive(m3ipc::Source::Any)?;
    /// let sender = server.latest_peer().expect("something was taken");
    /// assert_eq!((sender.address, sender.pid), (client.address(), std::process::id() as i32));
    /// assert_eq!(server.peer(client.address()), Some(sender));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn latest_peer(&self) -> Option<Identity> {
        self.inbox.latest().map(|(sender, _)| sender)
    }

    /// Whether the endpoint is still bound: not unbound by another process, its VM not ended, and
    /// this process no child by fork. Costs two loads if the daemon has sent nothing. The example
    /// is at [`Endpoint`].
    #[must_use]
    #[inline]
    pub fn is_bound(&mut self) -> bool {
        if !self.membership.is_original() {
            return false;
        }
        let before = self.session.control().activity();
        self.receive_earlier_events();
        self.leave_other_call(before);
        !self.membership.has_left()
    }

    /// The conversation with the peer of this index.
    #[inline]
    fn conversation(&mut self, index: u32) -> Conversation<'_> {
        let own = self.membership.address();
        Conversation::new(self.peers.get_mut(index), &mut self.session, &mut self.trace, own)
    }

    /// An endpoint that never sleeps notices here that the daemon was killed.
    #[inline]
    fn check_daemon_at_times(&mut self) {
        if self.fast.count_slow() {
            self.reattach_soon();
            self.session.renew_missing_links();
        }
    }

    /// Begins a call: checks fork, bind and privileges.
    #[inline]
    fn enter(&mut self, verb: Verb) -> Result<(), Fail> {
        if self.membership.is_original() {
            self.trace.stamp(Moment::Begun);
            // Events may change the privileges. The end of the endpoint is checked in the next
            // statement.
            self.receive_earlier_events();
        }
        self.membership.check_bound()?;
        if self.claims.has_dropped() {
            self.clear_dropped_requests();
        }
        self.check_daemon_at_times();
        // A receive that does not wait may leave the endpoint armed.
        let is_denied = !self.membership.may(verb);
        if is_denied || !matches!(verb, Verb::Receive | Verb::Rcvrqst) {
            self.disarm();
        }
        if is_denied {
            return Err(Code::TrapDenied.into());
        }
        if self.priorities.inherits() {
            self.inherit();
        }
        Ok(())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // A child by fork has no mapping of the pages, and the endpoint belongs to its parent.
        if self.membership.is_original() && !self.membership.has_left() {
            self.end_inheritance();
            crate::observe::unbound(self.membership.vm(), self.membership.address());
            m3ipc_sys::pause_point("client.before_unbind");
            self.unbind_dropped();
        }
    }
}
