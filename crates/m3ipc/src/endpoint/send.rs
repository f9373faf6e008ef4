//! send: post, wake, wait for the take; or withdraw.

use super::Endpoint;
use super::call_stop::CallStop;
use super::daemon_limit::DaemonLimit;
use super::fast_payload::{InLink, Nothing};
use super::fast_send::LeftSend;
use super::outgoing::Outgoing;
use super::peer::Peer;
use super::wait::WaitTarget;
use crate::error::{Fail, SendError};
use crate::observe;
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{ANY, Address, Code, Message, Verb};
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{AnswerOutcome, Counter, MessageKind, SlotState, WaitCall, WaitMode};

/// The time that an awake peer may take to find a message.
const AWAKE_GRACE_NS: u64 = 20_000;
/// The time that a sleeping peer may take to wake.
const ASLEEP_GRACE_NS: u64 = 10_000_000;

impl Endpoint {
    /// Sends a message and waits until the receiver takes it.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || server.receive(m3ipc::Source::Any));
    /// use m3ipc::Message;
    ///
    /// client.send(to, &Message::new(7).with_bytes(b"forty bytes travel inside the message"))?;
    /// # assert_eq!(thread.join().unwrap()?.m_type, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError`]. The receiver did not take the message, unless the code is
    /// [`Code::Unknown`]: the receiver is on another node, which did not say.
    #[inline]
    pub fn send(&mut self, to: Address, message: &Message) -> Result<(), SendError> {
        self.send_timeout(to, message, Timeout::Never)
    }

    /// Sends a message if the receiver waits for it now.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// use m3ipc::{Message, SendError};
    ///
    /// let sent = client.try_send(server.address(), &Message::new(7));
    /// assert!(matches!(sent, Err(SendError::WouldBlock(_))));
    /// ```
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] if it does not, and others.
    pub fn try_send(&mut self, to: Address, message: &Message) -> Result<(), SendError> {
        self.send_timeout(to, message, Timeout::NoWait)
    }

    /// Sends a message and waits until the receiver takes it, within a time limit.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// use m3ipc::{Message, SendError};
    /// use std::time::Duration;
    ///
    /// let limit = Duration::from_millis(1);
    /// let sent = client.send_timeout(server.address(), &Message::new(7), limit);
    /// assert!(matches!(sent, Err(SendError::TimedOut(_))));
    /// ```
    ///
    /// # Errors
    /// [`SendError::TimedOut`], and others.
    #[inline]
    pub fn send_timeout(
        &mut self,
        to: Address,
        message: &Message,
        limit: impl Into<Timeout>,
    ) -> Result<(), SendError> {
        let limit = limit.into();
        let span = observe::call("send", self.membership.vm(), self.membership.address(), to);
        let fast = self.send_once(to, message, limit);
        let sent = fast.or_else(|left| self.end_short_send(left, to, message, limit));
        span.end(&sent);
        sent
    }

    /// [`send_fast`](Self::send_fast), once in the code of a program.
    #[inline]
    fn send_once(
        &mut self,
        to: Address,
        message: &Message,
        limit: Timeout,
    ) -> Result<(), LeftSend> {
        self.send_fast(to, (message, Nothing), limit)
    }

    #[cold]
    pub(super) fn end_short_send(
        &mut self,
        left: LeftSend,
        to: Address,
        message: &Message,
        limit: Timeout,
    ) -> Result<(), SendError> {
        self.end_send(left, to, Outgoing::short(message), limit)
    }

    /// Makes the part of a send that the fast path has left over.
    fn end_send(
        &mut self,
        left: LeftSend,
        to: Address,
        outgoing: Outgoing<'_>,
        limit: Timeout,
    ) -> Result<(), SendError> {
        let deadline = limit.deadline();
        let sent = match left {
            LeftSend::Call => self.send_message(to, outgoing, deadline),
            LeftSend::Signal(index, posted) if self.waiter.interruption().by_signal() => {
                self.fast.close();
                self.finish_send(index, posted, Err(Code::Intr.into())).map_err(Fail::from)
            }
            LeftSend::Take(index, posted) | LeftSend::Signal(index, posted) => {
                self.end_fast_send((index, posted), to, outgoing, deadline)
            }
        };
        sent.map_err(|fail| SendError::of(fail, to))
    }

    /// Waits for the take of a message that the fast path has posted.
    fn end_fast_send(
        &mut self,
        (index, posted): (u32, SlotState),
        to: Address,
        outgoing: Outgoing<'_>,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        self.fast.close();
        self.payloads.begin(DaemonLimit::of(deadline));
        let waited = self.wait_taken(index, posted, deadline, deadline, WaitCall::Send);
        self.waiter.take_short_sleep();
        match self.finish_send(index, posted, waited) {
            Err(stop) if self.must_repeat(&stop, to) => self.send_message(to, outgoing, deadline),
            other => Ok(other?),
        }
    }

    /// Whether a message must be sent again: the peer never got that link, and there is a new link.
    fn must_repeat(&self, stop: &CallStop, to: Address) -> bool {
        matches!(stop, CallStop::Replaced) && !self.peers.took_on_replaced_link(to)
    }

    /// Sends a message with a payload beside it: up to [`LONG_MAX_BYTES`](crate::LONG_MAX_BYTES)
    /// bytes in the link, up to [`LARGE_MAX_BYTES`](crate::LARGE_MAX_BYTES) as a block.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || server.receive_bytes(m3ipc::Source::Any, None));
    /// use m3ipc::Message;
    ///
    /// let message = Message::new(7).with_bytes(b"40 bytes inside");
    /// client.send_long(to, &message, b"and more beside the message", None)?;
    /// # assert_eq!(thread.join().unwrap()?.1, b"and more beside the message");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::TooLong`], and others.
    pub fn send_long(
        &mut self,
        to: Address,
        message: &Message,
        long: &[u8],
        limit: impl Into<Timeout>,
    ) -> Result<(), SendError> {
        let Some(outgoing) = Outgoing::new(message, long) else {
            return Err(SendError::too_long(long.len()));
        };
        let limit = limit.into();
        let span = observe::call("send", self.membership.vm(), self.membership.address(), to);
        let fast = match InLink::new(long) {
            Some(beside) => self.send_fast(to, (message, beside), limit),
            None => Err(LeftSend::Call),
        };
        let sent = fast.or_else(|left| self.end_send(left, to, outgoing, limit));
        span.end(&sent);
        sent
    }

    pub(super) fn send_message(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
        deadline: Deadline,
    ) -> Result<(), Fail> {
        self.enter(Verb::Send)?;
        self.payloads.begin(DaemonLimit::of(deadline));
        loop {
            match self.send_to(to, outgoing, deadline) {
                Err(stop) if self.must_repeat(&stop, to) => {}
                other => return Ok(other?),
            }
        }
    }

    fn send_to(
        &mut self,
        to: Address,
        outgoing: Outgoing<'_>,
        deadline: Deadline,
    ) -> Result<(), CallStop> {
        let index = self.contact(to, deadline)?;
        self.peers.get(index).admit(MessageKind::Send, Code::DstDied)?;
        if outgoing.is_large() {
            return self.send_in_block(index, outgoing, |endpoint, outgoing| {
                endpoint.send_over(index, outgoing, deadline)
            });
        }
        self.send_over(index, outgoing, deadline)
    }

    #[inline]
    fn send_over(
        &mut self,
        index: u32,
        outgoing: Outgoing<'_>,
        deadline: Deadline,
    ) -> Result<(), CallStop> {
        // A peer that awaits an answer from here takes any message as the answer.
        if self.answer(index, MessageKind::Reply, outgoing)? == AnswerOutcome::Posted {
            return Ok(());
        }
        let grace_deadline = self.grace(index, deadline);
        let posted = self.post(index, MessageKind::Send, outgoing, deadline)?;
        let waited = self.wait_taken(index, posted, deadline, grace_deadline, WaitCall::Send);
        self.finish_send(index, posted, waited)
    }

    /// Posts a message once the slot is free, and wakes the peer. After the post the peer may take
    /// the message.
    pub(super) fn post(
        &mut self,
        index: u32,
        kind: MessageKind,
        outgoing: Outgoing<'_>,
        deadline: Deadline,
    ) -> Result<SlotState, CallStop> {
        self.wait_free(index, deadline)?;
        if self.payloads.has_open_answers() {
            self.settle_answers();
        }
        // Two endpoints that send to each other would wait for ever; the second one gets an error.
        if !deadline.no_wait && self.peers.get(index).sends_here() {
            return Err(Code::Locked.into());
        }
        self.trace.ready(None);
        let mut receiver = self.conversation(index);
        let posted = receiver.post((kind, m3ipc_sys::ticks()), outgoing, EndsWait::Receive, || {
            m3ipc_sys::pause_point("client.posted");
        });
        m3ipc_sys::pause_point("client.woken");
        receiver.trace_gave(outgoing);
        self.ring_again();
        Ok(posted)
    }

    /// Waits until the slot is free: it may still hold an answer of this endpoint.
    #[inline]
    fn wait_free(&mut self, index: u32, deadline: Deadline) -> Result<(), CallStop> {
        let mut receiver = self.conversation(index);
        if receiver.on_link(|link| link.is_free())? {
            return Ok(());
        }
        let peer = receiver.peer().address();
        let target = WaitTarget {
            verb: WaitCall::Send,
            peer,
            index: Some(index),
            posted: None,
            own_cell: true,
        };
        self.wait(target, deadline, |endpoint| {
            if endpoint.conversation(index).on_link(|link| link.is_free())? {
                return Ok(Some(()));
            }
            endpoint.receive_events()?;
            endpoint.peers.get(index).check(Code::DstDied)?;
            Ok(None)
        })
    }

    /// Waits until the message is taken. `grace_deadline` is the limit of a call without waiting.
    pub(super) fn wait_taken(
        &mut self,
        index: u32,
        posted: SlotState,
        deadline: Deadline,
        grace_deadline: Deadline,
        verb: WaitCall,
    ) -> Result<(), CallStop> {
        let peer = self.peers.get(index).address();
        // A call that only gives the peer time to wake is not blocked, and closes no circle.
        let verb = if deadline.no_wait { WaitCall::None } else { verb };
        let target =
            WaitTarget { verb, peer, index: Some(index), posted: Some(posted), own_cell: true };
        let taken = self.wait(target, grace_deadline, |endpoint| {
            if endpoint.conversation(index).on_link(|link| link.is_taken(posted))? {
                return Ok(Some(()));
            }
            endpoint.receive_events()?;
            endpoint.peers.get(index).check(Code::DstDied)?;
            endpoint.check_refusal(index, posted)?;
            endpoint.peers.get(index).check_crossing(posted, deadline)?;
            Ok(None)
        });
        match taken {
            Err(stop) if deadline.no_wait && stop.is(Code::TimedOut) => Err(Code::Again.into()),
            other => other,
        }
    }

    /// The time that a call without waiting gives a waiting peer. Ask before the post, which wakes
    /// the peer. An unused link may be an event of the peer that woke it just now.
    pub(super) fn grace(&self, index: u32, deadline: Deadline) -> Deadline {
        if !deadline.no_wait {
            return deadline;
        }
        let peer = self.peers.get(index);
        self.grace_of(peer, peer.link().is_unused())
    }

    /// The same time for an answer. A peer that waits for exactly this endpoint made the link
    /// itself.
    pub(super) fn grace_of_answer(&self, client: &Peer) -> Deadline {
        self.grace_of(client, false)
    }

    fn grace_of(&self, peer: &Peer, just_woken: bool) -> Deadline {
        let wakes = match peer.mode() {
            WaitMode::Awake => just_woken,
            WaitMode::OnLinks(source)
            | WaitMode::OnLinksForRaises(source)
            | WaitMode::AtDoorbell(source) => source == ANY || source == self.membership.address(),
            WaitMode::AtDoorbellForTakes => true,
        };
        let grace_ns = if wakes { ASLEEP_GRACE_NS } else { AWAKE_GRACE_NS };
        Deadline { at_ns: m3ipc_sys::monotonic_ns() + grace_ns, no_wait: false }
    }

    /// Ends a send: the message was taken, or it is withdrawn now, or it was taken after all.
    fn finish_send(
        &mut self,
        index: u32,
        posted: SlotState,
        waited: Result<(), CallStop>,
    ) -> Result<(), CallStop> {
        if let Err(stop) = waited {
            if matches!(stop, CallStop::Replaced) || stop.is(Code::PeerBroke) {
                return Err(stop);
            }
            if self.take_message_back(index, posted)? {
                return Err(stop);
            }
        }
        self.session.page().count(Counter::Sent);
        Ok(())
    }
}
