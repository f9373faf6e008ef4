//! The receive limit of an endpoint and of its peers: see [`ReceiveLimit`].

use super::Endpoint;
use super::payload::refused;
use super::receive_limit::ReceiveLimit;
use crate::error::Fail;
use m3ipc_abi::Address;

impl Endpoint {
    /// Sets the longest payload that this endpoint takes, of messages and of answers, in bytes.
    ///
    /// The limit before is [`RECEIVE_LIMIT_BYTES`](crate::RECEIVE_LIMIT_BYTES). Values below
    /// [`LONG_MAX_BYTES`](crate::LONG_MAX_BYTES) count as that, values above
    /// [`LARGE_MAX_BYTES`](crate::LARGE_MAX_BYTES) as that. A sender with a longer payload gets
    /// [`SendError::TooLong`](crate::SendError::TooLong) (-73) with both lengths, and this endpoint
    /// sees nothing of it. A server whose answer is longer gets the same and has not answered: its
    /// client waits for another answer. Blocks have no limit: they are mapped, not copied.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::SendError;
    ///
    /// server.set_receive_limit(4096);
    /// let sent = client.send_bytes(to, 7, &[0; 5000], None);
    /// assert_eq!(sent, Err(SendError::TooLong { bytes: 5000, max_bytes: 4096 }));
    /// ```
    pub fn set_receive_limit(&mut self, bytes: usize) {
        let limit = ReceiveLimit::of(bytes);
        self.payloads.set_receive_limit(limit);
        if !self.membership.is_original() {
            return;
        }
        for status in self.waiter.pages().statuses() {
            status.set_receive_limit(limit.bytes());
        }
    }

    /// The longest payload that this endpoint takes, in bytes.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, _client) = node.pair();
    /// assert_eq!(server.receive_limit(), m3ipc::RECEIVE_LIMIT_BYTES);
    /// server.set_receive_limit(1);
    /// assert_eq!(server.receive_limit(), m3ipc::LONG_MAX_BYTES);
    /// ```
    #[must_use]
    pub fn receive_limit(&self) -> usize {
        self.payloads.receive_limit().bytes()
    }

    /// Fails if a payload is longer than the peer says it takes.
    pub(super) fn check_limit_of(&self, index: u32, bytes: usize) -> Result<(), Fail> {
        ReceiveLimit::of(self.peers.get(index).receive_limit()).check(bytes as u64)
    }

    /// The failure of a sender whose payload of `bytes` bytes was refused: it is longer than the
    /// peer takes now, or the peer has no memory for it.
    #[cold]
    pub(super) fn refusal_by(&self, peer: Address, bytes: usize) -> Fail {
        let index = self.peers.find(peer);
        let fits = index.map_or(Ok(()), |index| self.check_limit_of(index, bytes));
        fits.err().unwrap_or_else(|| refused(peer))
    }
}
