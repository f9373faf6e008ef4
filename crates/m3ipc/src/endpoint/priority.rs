//! Priorities: what an endpoint claims for itself, and what it takes over from its clients.
//!
//! ```text
//!  client H (7) ── sendrec ──► server S ── sendrec ──► server T
//!                              claims max(own, H) = 7   orders S among its senders as 7
//! ```
//!
//! The priority lies in the status page, which the owner alone writes: an endpoint can lie about
//! itself only. A receiver orders what waits by it ([`super::inbox`]), and the fast path, which
//! sees no order because only one message waits, never reads it.
//!
//! An endpoint that inherits takes no call on the fast path. It looks at its clients when it
//! begins a call, takes a request or answers one, and while it awaits an answer. That wait wakes
//! for every client ([`WaitMode::OnLinksForRaises`](m3ipc_link::WaitMode)), so a priority passes
//! along a chain of waits.

use super::Endpoint;
use super::inheritance::{Inheritance, Inherited};
use crate::error::PriorityError;
use m3ipc_link::PRIORITY_MAX;
use m3ipc_link::waiting::EndsWait;
use m3ipc_sys::Scheduling;

impl Endpoint {
    /// Sets the priority of this endpoint, 0 to [`PRIORITY_MAX`]: its place among the senders that
    /// wait for a receiver. 0 is that of all other endpoints.
    ///
    /// A receiver takes the messages of the highest priority first, and messages of one priority in
    /// the order of their arrival. No sender can keep others out: an arrival is overdue after 32
    /// deliveries, or after as many as arrivals waited beside it if these were more. Every second
    /// delivery is then the oldest overdue arrival. So it comes at the latest with receive
    /// `32 + 4 n` from ANY if `n` arrivals waited. Notifications come before messages as always.
    /// Messages that this endpoint posted before keep their place.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let mut urgent = node.vm().bind_additional(Some(3))?;
    /// # let to = server.address();
    /// use m3ipc::{Message, Source};
    ///
    /// urgent.set_priority(7)?;
    /// let first = client.begin_send(to, &Message::new(1), Vec::new())?;
    /// let second = urgent.begin_send(to, &Message::new(2), Vec::new())?;
    /// assert_eq!(server.receive(Source::Any)?.m_type, 2);
    /// assert_eq!(server.receive(Source::Any)?.m_type, 1);
    /// # drop((first, second));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PriorityError::OutOfRange`], [`PriorityError::Unbound`].
    pub fn set_priority(&mut self, priority: u8) -> Result<(), PriorityError> {
        if priority > PRIORITY_MAX {
            return Err(PriorityError::OutOfRange(priority));
        }
        self.membership.check_bound().map_err(|_left| PriorityError::Unbound)?;
        self.priorities.set_own(priority);
        if self.priorities.inherits() {
            self.inherit();
        } else {
            self.claim_priority(priority);
        }
        Ok(())
    }

    /// The priority of this endpoint: what it has set, or what it took over if that is higher. The
    /// example is at [`set_inheritance`](Self::set_inheritance).
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.priorities.claimed()
    }

    /// Chooses what this endpoint takes over from clients whose requests it has not answered, or
    /// that wait for it. An endpoint that inherits takes none of its calls on the fast path.
    ///
    /// [`Inheritance::Thread`] is for the calling thread, which must make the calls of the endpoint
    /// from now on. The thread keeps its scheduling while that is the more urgent one, and gets it
    /// back after the answer. A child that it forks meanwhile has the scheduling of that moment.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{Inheritance, Message, Source};
    ///
    /// server.set_inheritance(Inheritance::Order)?;
    /// client.set_priority(7)?;
    /// # let thread = std::thread::spawn(move || client.sendrec(to, &Message::new(1)));
    /// let request = server.receive(Source::Any)?;
    /// assert_eq!(server.priority(), 7);
    /// server.reply(request.source, &Message::new(0))?;
    /// assert_eq!(server.priority(), 0);
    /// # thread.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PriorityError::NotPermitted`] if this thread may not run under SCHED_FIFO. The inheritance
    /// is then as before. [`PriorityError::Unbound`].
    pub fn set_inheritance(&mut self, inheritance: Inheritance) -> Result<(), PriorityError> {
        self.membership.check_bound().map_err(|_left| PriorityError::Unbound)?;
        let thread = match inheritance {
            Inheritance::Thread => Some(thread_that_may_rise()?),
            Inheritance::None | Inheritance::Order => None,
        };
        let clients = self.end_inheritance();
        if inheritance == Inheritance::None {
            self.claim_priority(self.priorities.own());
            return Ok(());
        }
        *self.priorities.inherited() = Some(Box::new(Inherited::new(clients, thread)));
        self.publish_thread(thread.map_or(0, |(tid, _)| tid.cast_unsigned()));
        self.fast.close();
        self.inherit();
        Ok(())
    }

    /// Gives the thread its scheduling back.
    pub(super) fn end_inheritance(&mut self) -> Vec<u32> {
        let Some(mut inherited) = self.priorities.inherited().take() else { return Vec::new() };
        self.publish_thread(0);
        inherited.schedule(0);
        std::mem::take(inherited.clients())
    }

    fn publish_thread(&self, tid: u32) {
        self.waiter.pages().statuses().for_each(|status| status.set_thread(tid));
    }

    /// Notes a request that was taken.
    #[cold]
    pub(super) fn note_client(&mut self, index: u32) {
        if let Some(inherited) = self.priorities.inherited()
            && !inherited.clients().contains(&index)
        {
            inherited.clients().push(index);
        }
    }

    /// Takes over the highest priority of a client, or gives it back. Whether it has risen.
    #[cold]
    pub(super) fn inherit(&mut self) -> bool {
        self.collect();
        let mut priority = self.priorities.own().max(self.inbox.highest_priority(&mut self.peers));
        let Some(inherited) = self.priorities.inherited() else { return false };
        let peers = &self.peers;
        inherited.clients().retain(|index| {
            let client = peers
                .find_index(*index)
                .filter(|client| !client.admission().is_closed() && client.link().owes_answer());
            priority = priority.max(client.map_or(0, |client| client.priority()));
            client.is_some()
        });
        inherited.schedule(priority);
        let has_risen = priority > self.priorities.claimed();
        self.claim_priority(priority);
        has_risen
    }

    /// The same while this endpoint awaits an answer of the peer of this index, which takes the
    /// priority over in turn.
    #[cold]
    pub(super) fn inherit_for(&mut self, index: u32) {
        if self.inherit() {
            if let Some(peer) = self.peers.find_index(index) {
                peer.mark_link_ready();
            }
            self.wake_if_ended(index, EndsWait::Receive);
        }
    }

    /// Lends the priority to the thread of a server, before this endpoint sleeps until its answer.
    #[cold]
    pub(super) fn lend_priority(&mut self, index: u32) {
        let Some(peer) = self.peers.find_index(index) else { return };
        let (tid, priority) = (peer.inheriting_thread(), self.priorities.claimed());
        let identity = peer.identity();
        let Ok(thread) = i32::try_from(tid) else { return };
        if priority == 0 || thread <= 0 || identity.uid != m3ipc_sys::user_id() {
            return;
        }
        // The peer may name a thread of its own process only.
        if Scheduling::of_thread(thread).is_ok_and(|now| now.level() < priority)
            && m3ipc_sys::has_thread(identity.pid, tid)
        {
            let _ = Scheduling::fifo(priority).apply_to(thread);
        }
    }

    fn claim_priority(&mut self, priority: u8) {
        if self.priorities.set_claimed(priority) {
            self.waiter.pages().statuses().for_each(|status| status.set_priority(priority));
        }
    }
}

/// The calling thread and its scheduling, if it may run under SCHED_FIFO and back.
fn thread_that_may_rise() -> Result<(i32, Scheduling), PriorityError> {
    let not_permitted = |_errno| PriorityError::NotPermitted;
    let before = Scheduling::of_thread(0).map_err(not_permitted)?;
    let raised = Scheduling::fifo(before.level().max(1)).apply_to(0);
    raised.and_then(|()| before.apply_to(0)).map_err(not_permitted)?;
    Ok((m3ipc_sys::known_thread_id(), before))
}
