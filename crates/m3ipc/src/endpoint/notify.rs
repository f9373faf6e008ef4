//! notify: one bit per source. Never waits; repeated notifications coalesce.

use super::Endpoint;
use super::stamps::Moment;
use crate::error::{Fail, NotifyError};
use crate::observe;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, Verb};
use m3ipc_link::waiting::EndsWait;
use m3ipc_link::{Counter, TraceWhat};
use m3ipc_wire::Request;

impl Endpoint {
    /// Notifies an endpoint. The notification stays until the endpoint receives it.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// client.notify(server.address())?;
    /// client.notify(server.address())?;
    /// let message = server.receive(client.address()).unwrap();
    /// assert!(message.is_notification());
    /// assert!(server.try_receive(client.address()).is_err(), "the two became one");
    /// # Ok::<(), m3ipc::NotifyError>(())
    /// ```
    ///
    /// # Errors
    /// [`NotifyError`].
    #[inline]
    pub fn notify(&mut self, to: Address) -> Result<(), NotifyError> {
        self.notify_set(to, 0)
    }

    /// Notifies an endpoint with a set of bits, which join the bits not yet received. The receiver
    /// gets the bits if this endpoint is HARDWARE or SYSTEM.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// client.notify_set(to, 0b01)?;
    /// client.notify_set(to, 0b10)?;
    /// assert!(!client.is_notification_taken(to));
    /// assert!(server.receive(client.address())?.is_notification());
    /// assert!(client.is_notification_taken(to));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NotifyError`].
    pub fn notify_set(&mut self, to: Address, bits: u64) -> Result<(), NotifyError> {
        let span = observe::call("notify", self.membership.vm(), self.membership.address(), to);
        let notified = if self.notify_fast(to, bits) { Ok(()) } else { self.notify_slow(to, bits) };
        span.end(&notified);
        notified
    }

    #[cold]
    fn notify_slow(&mut self, to: Address, bits: u64) -> Result<(), NotifyError> {
        self.notify_bits(to, bits).map_err(|fail| NotifyError::of(fail, to))
    }

    fn notify_bits(&mut self, to: Address, bits: u64) -> Result<(), Fail> {
        self.enter(Verb::Notify)?;
        let index = loop {
            match self.contact(to, Timeout::NoWait.deadline()) {
                Err(fail) if fail.code == Code::Again => {}
                other => break other?,
            }
            // The peer has not returned to this daemon yet; the daemon keeps the notification.
            let request = Request::Notify { destination: to.0, bits };
            match self.ask_daemon(&request) {
                Err(fail) if fail.code == Code::Again => {}
                other => return other.map(|_| self.session.page().count(Counter::Notified)),
            }
        };
        let peer = self.peers.get(index);
        peer.check(Code::DstDied)?;
        peer.admission().allow_notification()?;
        let mut receiver = self.conversation(index);
        receiver.trace().stamp(Moment::Ready);
        receiver.publish(|receiver| {
            receiver.link().notify(bits);
            receiver.trace().stamp(Moment::Published);
            ((), EndsWait::Receive)
        });
        receiver.trace_gave_unnumbered(TraceWhat::Notify, 0);
        self.ring_again();
        self.session.page().count(Counter::Notified);
        Ok(())
    }

    /// Whether an endpoint has received the notification of this endpoint. False if there was none,
    /// or the daemon still keeps it for an endpoint that has not returned. The example is at
    /// [`notify_set`](Self::notify_set).
    #[must_use]
    pub fn is_notification_taken(&self, by: Address) -> bool {
        let index = self.peers.find(by).filter(|_| self.membership.is_original());
        index.is_some_and(|index| self.peers.get(index).link().is_notification_taken())
    }

    /// Notifies in the name of another endpoint (`src_notify`). Only the owner of the VM may.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// // A notification as if from the clock:
    /// client.notify_for(m3ipc::CLOCK, to)?;
    /// assert_eq!(server.receive(m3ipc::Source::Any)?.source, m3ipc::CLOCK);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NotifyError`].
    pub fn notify_for(&mut self, source: Address, to: Address) -> Result<(), NotifyError> {
        self.notify_for_with(source, to, 0)
    }

    /// Notifies in the name of another endpoint or in its own, with an argument (`ntfy_value`). The
    /// bits of arguments that the receiver has not taken yet join. Only the owner of the VM may
    /// name another endpoint.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// client.notify_for_with(client.address(), to, 7)?;
    /// let notified = server.receive(m3ipc::Source::Any)?;
    /// assert_eq!((notified.source, notified.word(1)), (client.address(), 7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NotifyError`].
    pub fn notify_for_with(
        &mut self,
        source: Address,
        to: Address,
        argument: u64,
    ) -> Result<(), NotifyError> {
        let (vm, bits) = (self.membership.vm(), argument);
        let request = Request::NotifyFor { vm, source: source.0, destination: to.0, bits };
        self.ask_daemon(&request).map(drop).map_err(|fail| NotifyError::of(fail, to))
    }
}
