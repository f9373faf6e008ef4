//! receive: notifications first, then messages in the order of their arrival.

use super::Endpoint;
use super::buffer::Buffer;
use super::call_stop::CallStop;
use super::daemon_limit::DaemonLimit;
use super::fast_payload::Nothing;
use super::fast_receive::LeftReceive;
use super::received::{Received, ReceivedKind, Source, is_empty};
use super::wait::WaitTarget;
use super::waiting_arrivals::NextArrival;
use crate::error::{Fail, ReceiveError};
use crate::observe;
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{ANY, Address, Code, Message, SYSTEM, Verb};
use m3ipc_link::{Arrival, FLAG_WOKEN, MessageKind, TakenMessage, WaitCall};

/// Takes that may fail, because the sender withdrew, before the call stops to try.
const LOST_TAKES_MAX: u32 = 32;

impl Endpoint {
    /// Waits for a message or a notification.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # client.notify(to)?;
    /// use m3ipc::Source;
    ///
    /// let message = server.receive(Source::Any)?;
    /// assert!(message.is_notification());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReceiveError`]. [`ReceiveError::BufferTooSmall`] if the message came with a payload, which
    /// only [`receive_bytes`](Self::receive_bytes) and [`receive_long`](Self::receive_long) take.
    /// After any other error nothing was taken.
    #[inline]
    pub fn receive(&mut self, source: impl Into<Source>) -> Result<Message, ReceiveError> {
        self.receive_timeout(source, Timeout::Never)
    }

    /// Takes a message or a notification if one is there. If the endpoint's
    /// [descriptor](Self::fd) is in use, it becomes readable when there is more.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{ReceiveError, Source};
    ///
    /// assert!(matches!(server.try_receive(Source::Any), Err(ReceiveError::WouldBlock(_))));
    /// client.notify(server.address())?;
    /// assert!(server.try_receive(Source::Any)?.is_notification());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none, and as [`receive`](Self::receive).
    pub fn try_receive(&mut self, source: impl Into<Source>) -> Result<Message, ReceiveError> {
        self.receive_timeout(source, Timeout::NoWait)
    }

    /// Waits for a message or a notification, within a time limit.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, client) = node.pair();
    /// use m3ipc::{ReceiveError, Source};
    /// use std::time::Duration;
    ///
    /// let none = server.receive_timeout(Source::Any, Duration::from_millis(1));
    /// assert!(matches!(none, Err(ReceiveError::TimedOut(_))));
    /// ```
    ///
    /// # Errors
    /// [`ReceiveError::TimedOut`], and as [`receive`](Self::receive).
    #[inline]
    pub fn receive_timeout(
        &mut self,
        source: impl Into<Source>,
        limit: impl Into<Timeout>,
    ) -> Result<Message, ReceiveError> {
        let (source, limit) = (source.into(), limit.into());
        let span = observe::call(
            "receive",
            self.membership.vm(),
            self.membership.address(),
            source.address(),
        );
        let fast = match source {
            Source::Any => self.receive_fast(limit, Nothing, |message| message),
            Source::From(source) => {
                self.receive_one_fast(source, limit, Nothing, |message| message)
            }
        };
        match fast {
            Ok(message) => {
                span.end_well();
                Ok(message)
            }
            Err(left) => {
                let received = self.receive_short(left, source, limit);
                span.end(&received);
                received
            }
        }
    }

    #[cold]
    pub(super) fn receive_short(
        &mut self,
        left: LeftReceive,
        source: Source,
        limit: Timeout,
    ) -> Result<Message, ReceiveError> {
        let received = self.end_receive(left, source, &mut Buffer::none(), limit)?;
        received.whole_in(0).map(|received| received.message)
    }

    /// Makes the part of a receive that the fast path has left over.
    pub(super) fn end_receive(
        &mut self,
        left: LeftReceive,
        source: Source,
        buffer: &mut Buffer<'_>,
        limit: Timeout,
    ) -> Result<Received, ReceiveError> {
        let begun = match left {
            LeftReceive::Call => Ok(()),
            // A call that waits ends by the end of its endpoint. A later call is of an unbound one.
            LeftReceive::Wait => self.receive_events_of_wait(source),
            LeftReceive::Signal if self.waiter.interruption().by_signal() => Err(Code::Intr.into()),
            LeftReceive::Signal => self.receive_events_of_wait(source),
        };
        let received = begun.and_then(|()| self.receive_from(source, buffer, limit.deadline()));
        // The part on the fast path may have waited and slept.
        self.inbox.set_waited(false);
        self.waiter.take_short_sleep();
        self.trace.done();
        received.map_err(|fail| ReceiveError::of(fail, source.address()))
    }

    /// Receives the events of a wait that an earlier look began. The death of the source ends it,
    /// even if another endpoint has the slot by now.
    pub(super) fn receive_events_of_wait(&mut self, source: Source) -> Result<(), Fail> {
        loop {
            self.receive_events()?;
            if let Source::From(address) = source
                && !self.inbox.has_kept(address)
                && let Some(index) = self.peers.find(address)
                && self.peers.get(index).admission().is_dead()
            {
                return Ok(self.peers.get(index).check(Code::SrcDied)?);
            }
            if !self.session.has_events() {
                return Ok(());
            }
        }
    }

    /// Waits for a message. Its payload goes to the front of `buffer`.
    ///
    /// [`receive_bytes`](Self::receive_bytes) takes payloads of any length.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     client.send_bytes(to, 7, &[1; 100], None).unwrap();
    /// #     client.send_bytes(to, 7, &[1; 100], None).unwrap();
    /// # });
    /// use m3ipc::{ReceiveError, Source};
    ///
    /// // A client sends 100 bytes twice.
    /// let mut buffer = [0; 64];
    /// let cut = server.receive_long(Source::Any, &mut buffer, None);
    /// assert!(matches!(cut, Err(ReceiveError::BufferTooSmall { needed_bytes: 100, .. })));
    /// let mut buffer = [0; 128];
    /// assert_eq!(server.receive_long(Source::Any, &mut buffer, None)?.bytes, 100);
    /// # thread.join().unwrap();
    /// # Ok::<(), m3ipc::ReceiveError>(())
    /// ```
    ///
    /// # Errors
    /// [`ReceiveError`]. [`ReceiveError::BufferTooSmall`] if the payload is longer than `buffer`:
    /// the message was taken, and only the front of its payload is here. After any other error
    /// nothing was taken.
    pub fn receive_long(
        &mut self,
        source: impl Into<Source>,
        buffer: &mut [u8],
        limit: impl Into<Timeout>,
    ) -> Result<Received, ReceiveError> {
        let received = self.receive_to(source.into(), &mut Buffer::Slice(buffer), limit.into())?;
        received.whole_in(buffer.len())
    }

    /// Receives as [`receive_long`](Self::receive_long); a payload that was cut is no error.
    ///
    /// # Errors
    /// [`ReceiveError`]; nothing was taken.
    #[doc(hidden)]
    pub fn receive_to(
        &mut self,
        source: Source,
        buffer: &mut Buffer<'_>,
        limit: Timeout,
    ) -> Result<Received, ReceiveError> {
        let span = observe::call(
            "receive",
            self.membership.vm(),
            self.membership.address(),
            source.address(),
        );
        let fast = match source {
            Source::Any => self.receive_fast(limit, &mut *buffer, |taken| taken),
            Source::From(source) => {
                self.receive_one_fast(source, limit, &mut *buffer, |taken| taken)
            }
        };
        let received = match fast {
            Ok((message, bytes)) => {
                let kind = self.latest_kind();
                Ok(Received {
                    message,
                    bytes,
                    is_request: kind == Some(ReceivedKind::Request),
                    is_notification: kind == Some(ReceivedKind::Notification),
                    died: None,
                })
            }
            Err(left) => self.end_receive(left, source, buffer, limit),
        };
        span.end(&received);
        received
    }

    /// Waits for a request (a message sent by `sendrec`) or a notification. Plain messages stay
    /// with their senders.
    ///
    /// The payload goes to the front of `buffer`.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.sendrec_bytes(to, 7, b"request", None));
    /// let mut buffer = [0; 100];
    /// let received = server.rcvrqst(&mut buffer, None)?;
    /// assert!(received.is_request && &buffer[..received.bytes] == b"request");
    /// server.reply(received.message.source, &m3ipc::Message::new(0))?;
    /// # thread.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`receive_long`](Self::receive_long).
    pub fn rcvrqst(
        &mut self,
        buffer: &mut [u8],
        limit: impl Into<Timeout>,
    ) -> Result<Received, ReceiveError> {
        self.rcvrqst_to(&mut Buffer::Slice(&mut *buffer), limit.into())?.whole_in(buffer.len())
    }

    /// Receives as [`rcvrqst`](Self::rcvrqst); a payload that was cut is no error.
    ///
    /// # Errors
    /// [`ReceiveError`]; nothing was taken.
    #[doc(hidden)]
    pub fn rcvrqst_to(
        &mut self,
        buffer: &mut Buffer<'_>,
        limit: Timeout,
    ) -> Result<Received, ReceiveError> {
        let deadline = limit.deadline();
        let received = self.enter(Verb::Rcvrqst).and_then(|()| {
            self.begin_look(deadline);
            self.receive_any(WaitCall::Rcvrqst, buffer, deadline, |arrival| {
                arrival.state.kind() == MessageKind::Request
            })
        });
        self.leave_receive(is_empty(&received));
        self.trace.done();
        received.map_err(|fail| ReceiveError::of(fail, ANY))
    }

    /// Makes every message pass the queue that orders senders by time, even from a sole sender. For
    /// measurements of the cost of that queue.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// server.order_always(true);
    /// client.notify(server.address())?;
    /// assert!(server.receive(m3ipc::Source::Any)?.is_notification());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn order_always(&mut self, always: bool) {
        self.inbox.order().set_always(always);
    }

    fn receive_from(
        &mut self,
        source: Source,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
    ) -> Result<Received, Fail> {
        if let Err(fail) = self.enter(Verb::Receive) {
            // The end of the endpoint may have ended the wait that the fast path began.
            let has_waited = self.inbox.has_waited();
            self.inbox.set_waited(false);
            return Err(self.membership.left().filter(|_| has_waited).map_or(fail, Fail::from));
        }
        self.begin_look(deadline);
        let received = match source {
            Source::Any => self.receive_any(WaitCall::Receive, buffer, deadline, |_arrival| true),
            Source::From(address) => self.receive_one(address, buffer, deadline),
        };
        self.leave_receive(is_empty(&received));
        received
    }

    fn begin_look(&mut self, deadline: Deadline) {
        self.payloads.begin(DaemonLimit::of(deadline));
        if deadline.no_wait {
            self.begin_receive();
        } else {
            self.disarm();
        }
    }

    fn receive_any(
        &mut self,
        verb: WaitCall,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
        wanted: impl Fn(&Arrival) -> bool + Copy,
    ) -> Result<Received, Fail> {
        let target = WaitTarget { verb, peer: ANY, index: None, posted: None, own_cell: false };
        let received =
            self.wait(target, deadline, |endpoint| Ok(endpoint.poll_any(&mut *buffer, wanted)?));
        match received {
            // Nothing is there: from now on the descriptor reports arrivals.
            Err(CallStop::Failed(fail)) if fail.code == Code::Again && self.arm() => {
                // Another member may have cleared the mark of a message.
                self.poll_all_if_due(m3ipc_sys::monotonic_ns());
                let late = self.poll_settled(|endpoint| endpoint.poll_any(&mut *buffer, wanted));
                late?.ok_or(fail)
            }
            other => Ok(other?),
        }
    }

    #[inline]
    fn poll_any(
        &mut self,
        buffer: &mut Buffer<'_>,
        wanted: impl Fn(&Arrival) -> bool + Copy,
    ) -> Result<Option<Received>, Fail> {
        // Events first: the flag is raised before the event is announced. All of them: a link
        // behind a death may have the notification of a lower slot.
        self.receive_events()?;
        while self.session.has_events() {
            self.receive_events()?;
        }
        self.run_timers();
        if self.session.page().flags() & FLAG_WOKEN != 0 && self.take_wakeup(wanted) {
            return Err(Code::WokenUp.into());
        }
        // A peer that died during the sleep leaves no mapping here.
        self.forget_dead();
        let found = match self.take_unordered(buffer, wanted) {
            Some(found) => found,
            None if self.payloads.has_failure() => Ok(None),
            None => self.take_in_order(buffer, wanted),
        };
        match found {
            Ok(None) => self.payloads.take_failure().map_or(Ok(None), Err),
            other => other,
        }
    }

    /// The common case without queue and clock: nothing is queued, no bit of the ready bitmap is
    /// set, and at most one hot link has a message. `None` in every other case.
    ///
    /// The next stamp of that sender is then bounded by an earlier time. With a false stamp it can
    /// pass the messages that came meanwhile, once.
    #[inline]
    fn take_unordered(
        &mut self,
        buffer: &mut Buffer<'_>,
        wanted: impl Fn(&Arrival) -> bool + Copy,
    ) -> Option<Result<Option<Received>, Fail>> {
        let ordinary = self.inbox.order().may_pass_queue()
            && self.inbox.is_empty()
            && !self.waiter.pages().any_ready();
        if !ordinary {
            self.inbox.order().note_look_at_queue();
            return None;
        }
        let (index, arrival) = match self.inbox.only_message(&mut self.peers) {
            Ok(Some(found)) if wanted(&found.1) => found,
            Ok(None) => return Some(Ok(None)),
            _ => return None,
        };
        m3ipc_sys::pause_point("server.before_take");
        let incoming = self.take_untimed(index, arrival, buffer).ok()??;
        m3ipc_sys::pause_point("server.taken");
        self.inbox.order().note_passing();
        Some(Ok(Some(self.delivered(index, &incoming))))
    }

    fn take_in_order(
        &mut self,
        buffer: &mut Buffer<'_>,
        wanted: impl Fn(&Arrival) -> bool + Copy,
    ) -> Result<Option<Received>, Fail> {
        self.collect();
        let overdue = self.inbox.overdue(&mut self.peers, wanted);
        let is_overdue = overdue.is_some();
        let next = overdue.or_else(|| self.inbox.next_notification(&mut self.peers));
        if let Some(next) = next
            && let Some(received) = self.take_notified(next)
        {
            self.inbox.note_delivery(is_overdue);
            return Ok(Some(received));
        }
        let mut overdue_message = match next {
            Some(NextArrival::Message(index)) => {
                self.inbox.message_of(&mut self.peers, index, wanted)
            }
            _ => None,
        };
        let mut lost_takes = 0;
        while lost_takes < LOST_TAKES_MAX
            && let Some((index, arrival)) =
                overdue_message.take().or_else(|| self.inbox.next_message(&mut self.peers, wanted))
        {
            m3ipc_sys::pause_point("server.before_take");
            if let Ok(Some(incoming)) = self.take(index, arrival, buffer) {
                m3ipc_sys::pause_point("server.taken");
                self.inbox.note_delivery(is_overdue);
                let statuses = self.waiter.pages().statuses();
                self.inbox.record_sender(&mut self.peers, index, statuses);
                return Ok(Some(self.delivered(index, &incoming)));
            }
            // The message was withdrawn, refused or left for a later call, or the peer broke the
            // rules. The messages of other peers come first.
            lost_takes += 1;
            self.peers.get_mut(index).marks().note_take(m3ipc_sys::ticks());
            self.inbox.poll_link(&mut self.peers, index);
            if self.payloads.has_failure() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Takes a remembered wakeup, unless it is the turn of an arrival that waits too long.
    #[cold]
    fn take_wakeup(&mut self, wanted: impl Fn(&Arrival) -> bool + Copy) -> bool {
        self.collect();
        let is_taken = self.inbox.overdue(&mut self.peers, wanted).is_none()
            && self.session.page().take_flag(FLAG_WOKEN);
        if is_taken {
            self.inbox.note_delivery(false);
        }
        is_taken
    }

    /// Polls the links that may have arrivals.
    #[inline]
    pub(super) fn collect(&mut self) {
        self.inbox.poll_hot(&mut self.peers);
        for ready_bitmap in self.waiter.pages().ready_bitmaps() {
            self.inbox.poll_ready(&mut self.peers, ready_bitmap);
        }
        if self.inbox.order().begin_full_poll() {
            self.inbox.poll_all(&mut self.peers);
        }
        self.inbox.settle(&mut self.peers);
    }

    fn receive_one(
        &mut self,
        source: Address,
        buffer: &mut Buffer<'_>,
        deadline: Deadline,
    ) -> Result<Received, Fail> {
        // A notification may come in the name of the source without a link.
        let src_died = |fail: Fail| match fail.code {
            Code::DstDied | Code::Migrate => Code::SrcDied.into(),
            _ => fail,
        };
        if let Some(message) = self.take_kept(source) {
            return Ok(message);
        }
        if source == SYSTEM
            && let Some(death) = self.inbox.take_death()
        {
            return Ok(death);
        }
        loop {
            let index = match self.contact(source, deadline) {
                // The source has not returned to this daemon yet; its first message rings the
                // doorbell.
                Err(fail) if fail.code == Code::Again && self.arm() => {
                    // The link may have come after the end of the wait for it.
                    let found = self.poll_settled(|endpoint| {
                        endpoint.receive_events()?;
                        let is_there = endpoint.peers.find(source).is_some()
                            || endpoint.inbox.has_kept(source);
                        Ok(is_there.then_some(()))
                    });
                    return match found? {
                        Some(()) => self.receive_one(source, buffer, deadline),
                        None => Err(fail),
                    };
                }
                other => other.map_err(src_died)?,
            };
            let target = WaitTarget {
                verb: WaitCall::Receive,
                peer: source,
                index: Some(index),
                posted: None,
                own_cell: false,
            };
            let received =
                self.wait(target, deadline, |endpoint| endpoint.poll_one(index, &mut *buffer));
            match received {
                // The peer never got that link, and there is a new link.
                Err(CallStop::Replaced) => {}
                Err(CallStop::Failed(fail)) if fail.code == Code::Again && self.arm() => {
                    let late = self.poll_settled(|endpoint| {
                        match endpoint.poll_one(index, &mut *buffer) {
                            Err(CallStop::Replaced) => Ok(Some(None)),
                            other => Ok(other?.map(Some)),
                        }
                    });
                    // A later link may have the message.
                    if let Some(received) = late?.ok_or(fail)? {
                        return Ok(received);
                    }
                }
                other => return Ok(other?),
            }
        }
    }

    fn poll_one(
        &mut self,
        index: u32,
        buffer: &mut Buffer<'_>,
    ) -> Result<Option<Received>, CallStop> {
        let peer = self.peers.get_mut(index);
        let address = peer.address();
        if peer.has_notification()
            && let Some(message) = self.take_notification(index)
        {
            return Ok(Some(message));
        }
        let peer = self.peers.get_mut(index);
        if let Some(arrival) = peer.poll().or_else(|| peer.poll_unasked_reply()) {
            let taken = self.take(index, arrival, buffer);
            // The failure itself ends this call.
            drop(self.payloads.take_failure());
            if let Some(incoming) = taken? {
                return Ok(Some(self.delivered(index, &incoming)));
            }
        }
        self.receive_events()?;
        if let Some(message) = self.take_kept(address) {
            return Ok(Some(message));
        }
        if address == SYSTEM
            && let Some(death) = self.inbox.take_death()
        {
            return Ok(Some(death));
        }
        self.peers.get(index).check(Code::SrcDied)?;
        Ok(None)
    }

    fn delivered(&self, index: u32, incoming: &TakenMessage) -> Received {
        let source = self.peers.get(index).address();
        Received {
            message: Message { source, m_type: incoming.m_type, payload: incoming.payload },
            bytes: incoming.long_bytes,
            is_request: incoming.kind == MessageKind::Request,
            is_notification: false,
            died: None,
        }
    }
}
