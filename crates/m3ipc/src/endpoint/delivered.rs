//! The fate of an answer.

use super::Endpoint;
use crate::error::{Fail, ReplyError};
use m3ipc_abi::{Address, Code};

/// Whether an answer was delivered. A client that gives up or ends is no error of its server, so a
/// server's loop goes on with `?`.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (mut server, mut client) = node.pair();
/// # let to = server.address();
/// use m3ipc::{Delivered, Message, ReplyError, Source, Timeout};
///
/// // The client waits for a millisecond alone.
/// # let thread = std::thread::spawn(move || {
/// let gave_up = client.sendrec_timeout(to, &Message::new(7), Timeout::NoWait);
/// # let limit = std::time::Duration::from_millis(1);
/// # let gave_up = gave_up.and_then(|_| client.sendrec_timeout(to, &Message::new(7), limit));
/// # client
/// # });
/// # let client = thread.join().unwrap();
/// let delivered = server.reply(client.address(), &Message::new(0))?;
/// assert_eq!(delivered, Delivered::No(ReplyError::NotWaiting(client.address())));
/// # Ok::<(), ReplyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The client has the answer, or takes it next.
    Yes,
    /// The client does not get it, for this reason: it gave up, ended, moved or broke the rules of
    /// its link, or its node cannot be reached.
    No(ReplyError),
}

impl Delivered {
    /// Whether the client gets the answer.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, client) = node.pair();
    /// let delivered = server.reply(client.address(), &m3ipc::Message::new(0))?;
    /// assert!(!delivered.is_yes(), "nobody has asked");
    /// # Ok::<(), m3ipc::ReplyError>(())
    /// ```
    #[must_use]
    pub fn is_yes(&self) -> bool {
        *self == Self::Yes
    }

    /// The reason as an error, for a caller that counts an answer without a client as one.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, client) = node.pair();
    /// use m3ipc::{Code, Delivered};
    ///
    /// let replied = server.reply(client.address(), &m3ipc::Message::new(0));
    /// let error = replied.and_then(Delivered::into_result).unwrap_err();
    /// assert_eq!(error.code(), Code::ProcSts);
    /// ```
    ///
    /// # Errors
    /// The reason why the client does not get the answer.
    pub fn into_result(self) -> Result<(), ReplyError> {
        match self {
            Self::Yes => Ok(()),
            Self::No(why) => Err(why),
        }
    }
}

impl Endpoint {
    /// The end of a reply to `to`. It is an error if the client is no cause of it.
    pub(super) fn end_reply(
        &self,
        replied: Result<(), Fail>,
        to: Address,
    ) -> Result<Delivered, ReplyError> {
        match replied.map_err(|fail| ReplyError::of(fail, to)) {
            Ok(()) => Ok(Delivered::Yes),
            Err(error) if is_of_client(&error) && to != self.membership.address() => {
                Ok(Delivered::No(error))
            }
            Err(error) => Err(error),
        }
    }
}

fn is_of_client(error: &ReplyError) -> bool {
    let client_has_ended = matches!(
        error,
        ReplyError::NotWaiting(_)
            | ReplyError::Died(_)
            | ReplyError::Moved(_)
            | ReplyError::Stale(_)
            | ReplyError::PeerBroke(_)
    );
    // A client that waits has a link with this endpoint; without one it cannot be reached.
    client_has_ended || error.code() == Code::NotConn
}
