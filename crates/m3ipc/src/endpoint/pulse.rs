//! pulse: a notification with a code and a value, queued in the link up to a stated bound.
//!
//! A receiver finds a pulse where it finds a notification: one word counts both. So a receive makes
//! no further look, and a privilege to notify is a privilege to send pulses.

use super::Endpoint;
use super::daemon_limit::NO_WAIT_NS;
use super::received::{Pulse, ReceivedKind};
use super::stamps::Moment;
use crate::error::{Fail, PulseError};
use crate::observe;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, Message, Verb};
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{Counter, TraceWhat};

impl Endpoint {
    /// Sends a pulse. Never waits: the pulse stays in a queue until the receiver takes it.
    ///
    /// A receive takes the pulses of a sender in their order, one in each call, after its plain
    /// notifications and before its messages. [`latest_kind`](Self::latest_kind) then is
    /// [`ReceivedKind::Pulse`]. The message has the type [`PULSE_MESSAGE`](crate::PULSE_MESSAGE);
    /// its words 0 and 1 are the code and 1, and its long word 1 is the value.
    ///
    /// Up to [`PULSES_MAX`](crate::PULSES_MAX) pulses of a sender wait for a receiver. The next one
    /// is an error of its sender, and no queued pulse is lost. As notifications, pulses arrive also
    /// if their sender ends at once.
    ///
    /// On the way to an endpoint of another node, pulses keep their order, and wait on both nodes,
    /// up to [`PULSES_MAX`](crate::PULSES_MAX) on each. They end with the connection of the nodes,
    /// and may end with their sender.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// use m3ipc::{Pulse, ReceivedKind, Source};
    ///
    /// let pulse = Pulse { code: 7, value: 1 << 40 };
    /// client.pulse(server.address(), pulse)?;
    /// let message = server.receive(Source::Any)?;
    /// assert_eq!(message.source, client.address());
    /// assert_eq!(server.latest_kind(), Some(ReceivedKind::Pulse(pulse)));
    /// assert_eq!((message.word(0), message.long(1)), (7, 1 << 40));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PulseError`]. [`PulseError::NotQueued`] if the queue is full. After any error the receiver
    /// never gets this pulse.
    pub fn pulse(&mut self, to: Address, pulse: Pulse) -> Result<(), PulseError> {
        let span = observe::call("pulse", self.membership.vm(), self.membership.address(), to);
        let sent = self.send_pulse(to, pulse).map_err(|fail| PulseError::of(fail, to));
        span.end(&sent);
        sent
    }

    fn send_pulse(&mut self, to: Address, pulse: Pulse) -> Result<(), Fail> {
        self.enter(Verb::Notify)?;
        let index = self.contact(to, Timeout::NoWait.deadline())?;
        if self.queue_pulse(index, pulse)? { Ok(()) } else { Err(Code::Again.into()) }
    }

    /// Sends a pulse as soon as there is a link and room: `false` until then. A first contact gives
    /// a running daemon 0.1 s, once.
    pub(crate) fn send_pulse_soon(&mut self, to: Address, pulse: Pulse) -> Result<bool, Fail> {
        self.enter(Verb::Notify)?;
        match self.contact_soon(to, NO_WAIT_NS)? {
            Some(index) => self.queue_pulse(index, pulse),
            None => Ok(false),
        }
    }

    /// Queues a pulse; `false` if too many wait.
    fn queue_pulse(&mut self, index: u32, Pulse { code, value }: Pulse) -> Result<bool, Fail> {
        let peer = self.peers.get(index);
        peer.check(Code::DstDied)?;
        peer.admission().allow_notification()?;
        let mut receiver = self.conversation(index);
        receiver.trace().stamp(Moment::Ready);
        let is_queued = receiver.publish(|receiver| {
            if !receiver.link().send_pulse(code, value) {
                return (false, EndsWait::None);
            }
            receiver.trace().stamp(Moment::Published);
            (true, EndsWait::Receive)
        });
        if !is_queued {
            return Ok(false);
        }
        receiver.trace_gave_unnumbered(TraceWhat::Notify, 0);
        self.ring_again();
        self.session.page().count(Counter::Notified);
        Ok(true)
    }

    /// The number of pulses of this endpoint that wait for an endpoint; 0 without a link with it.
    /// Those that the node of the endpoint has queued do not count, if that is another one.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// client.pulse(to, m3ipc::Pulse { code: 7, value: 0 })?;
    /// assert_eq!(client.pending_pulses(to), 1);
    /// server.receive(m3ipc::Source::Any)?;
    /// assert_eq!(client.pending_pulses(to), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn pending_pulses(&self, to: Address) -> usize {
        let index = self.peers.find(to).filter(|_| self.membership.is_original());
        index.map_or(0, |index| self.peers.get(index).link().pending_pulses())
    }

    /// Takes the first pulse of a peer, if it has one.
    pub(super) fn take_pulse(&mut self, index: u32) -> Option<Message> {
        let peer = self.peers.get_mut(index);
        let (identity, (code, value)) = (peer.identity(), peer.link_mut().take_pulse()?);
        self.inbox.note_taken(identity, ReceivedKind::Pulse(Pulse { code, value }));
        Some(Message::pulse(identity.address, code, value, 1))
    }
}
