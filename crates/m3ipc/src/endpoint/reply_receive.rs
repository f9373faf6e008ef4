//! `reply_receive`: the two calls of a server's loop in one.

use super::Endpoint;
use super::fast_payload::Nothing;
use super::fast_receive::LeftReceive;
use super::received::Source;
use crate::error::ReplyReceiveError;
use crate::observe;
use crate::timeout::Timeout;
use m3ipc_abi::{ANY, Address, Message};

impl Endpoint {
    /// Answers a request, then waits for the next message of any endpoint. The verb of a server's
    /// loop: it costs less than [`reply`](Self::reply) and [`receive`](Self::receive) apart.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     client.sendrec(to, &m3ipc::Message::new(1)).unwrap();
    /// #     client.send(to, &m3ipc::Message::new(99)).unwrap();
    /// # });
    /// use m3ipc::{Message, ReplyReceiveError, Source};
    ///
    /// let mut request = server.receive(Source::Any)?;
    /// while request.m_type != 99 {
    ///     let answer = Message::new(request.m_type + 1);
    ///     request = match server.reply_receive(request.source, &answer) {
    ///         // The client is gone; others are there.
    ///         Err(ReplyReceiveError::Reply(_)) => server.receive(Source::Any)?,
    ///         other => other?,
    ///     };
    /// }
    /// # thread.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReplyReceiveError::Reply`] if the answer was not given: nothing was received.
    /// [`ReplyReceiveError::Receive`] if the answer was given, and no message was received.
    #[inline]
    pub fn reply_receive(
        &mut self,
        to: Address,
        answer: &Message,
    ) -> Result<Message, ReplyReceiveError> {
        self.reply_receive_timeout(to, answer, Timeout::Never)
    }

    /// Answers a request, then waits for the next message of any endpoint within a time limit. An
    /// answer never waits.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.sendrec(to, &m3ipc::Message::new(7)));
    /// use m3ipc::{Message, ReplyReceiveError, Source, Timeout};
    ///
    /// let request = server.receive(Source::Any)?;
    /// let next = server.reply_receive_timeout(request.source, &Message::new(8), Timeout::NoWait);
    /// assert!(matches!(next, Err(ReplyReceiveError::Receive(_))), "nobody else asks");
    /// # assert_eq!(thread.join().unwrap()?.m_type, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`reply_receive`](Self::reply_receive).
    #[inline]
    pub fn reply_receive_timeout(
        &mut self,
        to: Address,
        answer: &Message,
        limit: impl Into<Timeout>,
    ) -> Result<Message, ReplyReceiveError> {
        let limit = limit.into();
        let span = observe::call("reply", self.membership.vm(), self.membership.address(), to);
        let is_ordinary = self.reply_fast(to, answer, Nothing);
        if is_ordinary {
            span.end_well();
        } else {
            let replied = self.reply_short(to, answer);
            span.end(&replied);
            replied.map_err(ReplyReceiveError::Reply)?;
        }
        let span = observe::call("receive", self.membership.vm(), self.membership.address(), ANY);
        let fast = if is_ordinary {
            self.receive_ordinary(limit, Nothing, |message| message)
        } else {
            Err(LeftReceive::Call)
        };
        match fast {
            Ok(message) => {
                span.end_well();
                Ok(message)
            }
            Err(left) => {
                let received = self.receive_short(left, Source::Any, limit);
                span.end(&received);
                received.map_err(ReplyReceiveError::Receive)
            }
        }
    }
}
