//! A message in parts, for event loops: begin, poll, give up.
//!
//! It is a pending request without an answer: the take ends it. It claims its peer as a request
//! does: see [`super::claims`].

use super::Endpoint;
use super::buffer::Buffer;
use super::claims::ClaimState;
use super::daemon_limit::NO_WAIT_NS;
use super::pending::PendingRequest;
use super::withdrawal::Withdrawal;
use crate::error::SendError;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, LARGE_MAX_BYTES, Message};
use m3ipc_link::MessageKind;

/// A message that the receiver has not taken yet.
///
/// Finish it with [`Endpoint::poll_send`]. A drop withdraws it, unless it was taken. A drop does
/// not wait: a message that is on its way to another node may still be taken there. It claims its
/// peer: until it ends, any other message of the same endpoint to that peer fails with
/// `RequestPending`. The example is at [`Endpoint::begin_send`].
#[derive(Debug)]
#[must_use = "a drop withdraws the message; finish it with poll_send"]
pub struct PendingSend(pub(super) PendingRequest);

impl PendingSend {
    /// The request without an answer that it is.
    pub(crate) fn as_request(&self) -> &PendingRequest {
        &self.0
    }
}

impl Endpoint {
    /// Begins to send a message with a payload, without waiting for the receiver. An empty payload
    /// is none. The steps are those of [`begin_request`](Self::begin_request).
    ///
    /// Two endpoints may send to each other in this way: neither waits, so neither call is a
    /// deadlock.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{Message, Source};
    ///
    /// let mut pending = client.begin_send(to, &Message::new(7), b"any length".to_vec())?;
    /// assert!(!client.poll_send(&mut pending)?, "the server has not received");
    /// let (received, bytes) = server.receive_bytes(Source::Any, None)?;
    /// assert_eq!((received.is_request, &bytes[..]), (false, &b"any length"[..]));
    /// assert!(client.poll_send(&mut pending)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::RequestPending`] if another message to this peer is pending,
    /// [`SendError::TooLong`], and others.
    pub fn begin_send(
        &mut self,
        to: Address,
        message: &Message,
        bytes: Vec<u8>,
    ) -> Result<PendingSend, SendError> {
        self.begin_send_within(to, message, bytes, NO_WAIT_NS)
    }

    /// Begins to send. A first contact gives a running daemon `give_ns`.
    pub(crate) fn begin_send_within(
        &mut self,
        to: Address,
        message: &Message,
        bytes: Vec<u8>,
        give_ns: u64,
    ) -> Result<PendingSend, SendError> {
        if bytes.len() > LARGE_MAX_BYTES {
            return Err(SendError::too_long(bytes.len()));
        }
        self.begin(MessageKind::Send, to, *message, bytes.into(), give_ns)
            .map(PendingSend)
            .map_err(|fail| SendError::of(fail, to))
    }

    /// Whether the receiver has taken the message. If not, the endpoint's [descriptor](Self::fd),
    /// if it is in use, becomes readable when there is more to see. The example is at
    /// [`begin_send`](Self::begin_send).
    ///
    /// # Errors
    /// [`SendError`]; the receiver does not take the message after this. It has not taken it if the
    /// error is [`SendError::Died`], [`SendError::Stale`], [`SendError::TooLong`] or has the code
    /// `NoPayload`. After other errors, such as [`SendError::Unbound`], [`SendError::PeerBroke`]
    /// and those with the code `Unknown`, it may have taken it.
    pub fn poll_send(&mut self, pending: &mut PendingSend) -> Result<bool, SendError> {
        let to = pending.0.to;
        let polled = self.poll_pending(&mut pending.0);
        polled.map(|end| end.is_some()).map_err(|fail| SendError::of(fail, to))
    }

    /// Gives a message up, and says what became of it. The end of a message to another node is
    /// awaited up to 1.5 seconds: [`withdraw_timeout`](Self::withdraw_timeout) has another limit.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{Message, Source, Withdrawal};
    ///
    /// let pending = client.begin_send(to, &Message::new(7), Vec::new())?;
    /// assert_eq!(client.withdraw(&pending), Withdrawal::Withdrawn);
    /// assert!(server.try_receive(Source::Any).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn withdraw(&mut self, pending: &PendingSend) -> Withdrawal {
        self.withdraw_timeout(pending, Timeout::Never)
    }

    /// Gives a message up, within a time limit and 1.5 seconds at most. Only another node takes
    /// time for its answer; without it the result is [`Withdrawal::Unknown`].
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{Message, Source, Timeout, Withdrawal};
    ///
    /// let pending = client.begin_send(to, &Message::new(7), Vec::new())?;
    /// server.receive(Source::Any)?;
    /// assert_eq!(client.withdraw_timeout(&pending, Timeout::NoWait), Withdrawal::Taken);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn withdraw_timeout(
        &mut self,
        pending: &PendingSend,
        limit: impl Into<Timeout>,
    ) -> Withdrawal {
        let pending = &pending.0;
        if self.membership.check_bound().is_err() {
            return pending.claim.end_unbound();
        }
        self.disarm();
        let withdrawn = match pending.claim.begin_settling() {
            // An event that comes while a proxy holds the message must not settle it.
            Some(message) => {
                let back = self.take_held_back(message.index, &message.canceller, limit.into());
                let withdrawn = back.map_or(Withdrawal::Unknown, Withdrawal::of);
                let is_withdrawn = withdrawn == Withdrawal::Withdrawn;
                self.clear_request(pending.to, message, is_withdrawn, &mut Buffer::none());
                pending.claim.set(ClaimState::Ended);
                withdrawn
            }
            None => match pending.claim.set(ClaimState::Ended) {
                ClaimState::Unposted => Withdrawal::Withdrawn,
                ClaimState::Settled(Ok(_), _) => Withdrawal::Taken,
                ClaimState::Settled(Err(fail), _) => Withdrawal::of_failed(fail.delivery()),
                _ => Withdrawal::Unknown,
            },
        };
        self.end_claim(pending.to, &pending.claim);
        withdrawn
    }
}
