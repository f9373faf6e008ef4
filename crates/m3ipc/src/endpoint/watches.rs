//! Watches: notifications of the deaths of peers.
//!
//! The daemon reports the death of an endpoint to each peer that has a link with it. A watched
//! death becomes a notification of SYSTEM. It comes after all of the dead endpoint: its last
//! notifications come first, and no message of a dead peer is taken.

use super::Endpoint;
use super::received::ReceivedKind;
use crate::error::WatchError;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code};

impl Endpoint {
    /// Watches an endpoint: after its last message, a receive from ANY or from
    /// [`SYSTEM`](crate::SYSTEM) delivers a notification of SYSTEM that reports its death, unbind
    /// or exec. [`Received::died`](crate::Received::died) names the endpoint.
    ///
    /// In the message, the second word is the endpoint, and the first is the code
    /// [`SrcDied`](crate::Code::SrcDied). The watch ends with the death.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let worker = node.vm().bind_additional(Some(3))?;
    /// # let address = worker.address();
    /// use m3ipc::{SYSTEM, Source};
    ///
    /// server.watch(address)?;
    /// drop(worker);
    /// let mut buffer = [0; 100];
    /// let received = server.receive_long(Source::Any, &mut buffer, None)?;
    /// assert_eq!((received.message.source, received.died), (SYSTEM, Some(address)));
    /// assert_eq!(received.message.word(1), address.0);
    /// assert!(server.watch(address).is_err(), "the endpoint is gone");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WatchError`]; nothing is watched. [`WatchError::Died`] if the endpoint is gone already.
    pub fn watch(&mut self, peer: Address) -> Result<(), WatchError> {
        let watched = self.membership.check_bound().and_then(|()| {
            self.disarm();
            self.receive_earlier_events();
            let index = self.contact(peer, Timeout::Never.deadline())?;
            if self.peers.get(index).admission().is_dead() {
                Err(Code::DstDied.into())
            } else {
                Ok(())
            }
        });
        watched.map_err(|fail| WatchError::of(fail, peer))?;
        self.inbox.watches().add(peer);
        Ok(())
    }

    /// Watches each endpoint that has or gets a link with this one: each that exchanges a message
    /// or a notification with it. See [`watch`](Self::watch).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, client) = node.pair();
    /// # let mut client = node.vm().bind_additional(Some(3))?;
    /// use m3ipc::{ReceivedKind, Source};
    ///
    /// server.watch_all(true);
    /// let address = client.address();
    /// client.notify(server.address())?;
    /// drop(client);
    /// assert_eq!(server.receive(Source::Any)?.source, address);
    /// server.receive(Source::Any)?;
    /// assert_eq!(server.latest_kind(), Some(ReceivedKind::Death(address)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch_all(&mut self, on: bool) {
        self.inbox.watches().watch_all(on);
    }

    /// Ends the watch of an endpoint. A death that was found before is still delivered.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, client) = node.pair();
    /// server.watch(client.address())?;
    /// server.unwatch(client.address());
    /// # Ok::<(), m3ipc::WatchError>(())
    /// ```
    pub fn unwatch(&mut self, peer: Address) {
        self.inbox.watches().remove(peer);
    }

    /// The kind of what this endpoint took last. A message may have the type of a notification;
    /// its kind tells them apart.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{Message, ReceivedKind, Source};
    ///
    /// # let thread = std::thread::spawn(move || {
    /// // A client sends a message with the type of its notifications.
    /// let forged = Message::new(Message::notification_type(client.address().slot()));
    /// client.send(to, &forged)
    /// # });
    /// # let mut take = || -> Result<(), m3ipc::ReceiveError> {
    /// let message = server.receive(Source::Any)?;
    /// assert!(message.is_notification(), "by its type");
    /// assert_eq!(server.latest_kind(), Some(ReceivedKind::Message));
    /// # Ok(())
    /// # };
    /// # take()?;
    /// # thread.join().unwrap()
    /// # .map_err(Box::<dyn std::error::Error>::from)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn latest_kind(&self) -> Option<ReceivedKind> {
        self.inbox.latest().map(|(_, kind)| kind)
    }
}
