//! `reply_receive`: the two calls of a server's loop in one.
//!
//! The answer goes first. If it fails, nothing is received: the next request stays with its sender.
//! A client that does not wait any more is no failure.

use super::Endpoint;
use super::buffer::Buffer;
use super::fast_payload::Nothing;
use super::fast_receive::LeftReceive;
use super::received::{Received, Source};
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
    /// use m3ipc::{Message, Source};
    ///
    /// let mut request = server.receive(Source::Any)?;
    /// while request.m_type != 99 {
    ///     let answer = Message::new(request.m_type + 1);
    ///     // A client that is gone ends nothing.
    ///     request = server.reply_receive(request.source, &answer)?;
    /// }
    /// # thread.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReplyReceiveError::Reply`] if the answer was not given: nothing was received.
    /// [`ReplyReceiveError::Receive`] if no message was received after the answer. An answer to a
    /// client that does not wait any more is not given, without an error: see
    /// [`Delivered`](crate::Delivered).
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

    /// Answers a request with bytes, then waits for the next message of any endpoint and takes its
    /// whole payload. The limit is for the next message: an answer never waits.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     let answer = client.sendrec_bytes(to, 1, b"louder", None).unwrap();
    /// #     client.send_bytes(to, 99, b"", None).unwrap();
    /// #     answer.1
    /// # });
    /// use m3ipc::Source;
    ///
    /// let (mut request, mut bytes) = server.receive_bytes(Source::Any, None)?;
    /// while request.message.m_type != 99 {
    ///     let (client, answer) = (request.message.source, bytes.to_ascii_uppercase());
    ///     (request, bytes) = server.reply_receive_bytes(client, 0, &answer, None)?;
    /// }
    /// # assert_eq!(thread.join().unwrap(), b"LOUDER");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`reply_receive`](Self::reply_receive). [`ReplyError::TooLong`] is one of the answer.
    ///
    /// [`ReplyError::TooLong`]: crate::ReplyError::TooLong
    pub fn reply_receive_bytes(
        &mut self,
        to: Address,
        m_type: i32,
        bytes: &[u8],
        limit: impl Into<Timeout>,
    ) -> Result<(Received, Vec<u8>), ReplyReceiveError> {
        self.reply_receive_long_bytes(to, &Message::new(m_type), bytes, limit)
    }

    /// Answers a request with a message and bytes, then waits for the next message of any endpoint
    /// and takes its whole payload.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     let answer = client.sendrec_bytes(to, 1, b"", None).unwrap();
    /// #     client.send_bytes(to, 2, &[7; 5_000], None).unwrap();
    /// #     answer
    /// # });
    /// use m3ipc::{Message, Source};
    ///
    /// let request = server.receive(Source::Any)?;
    /// let answer = Message::new(0).with_bytes(b"inside");
    /// let (_next, bytes) =
    ///     server.reply_receive_long_bytes(request.source, &answer, b"beside", None)?;
    /// assert_eq!(bytes, [7; 5_000]);
    /// # let wanted = (Message { source: to, ..answer }, b"beside".to_vec());
    /// # assert_eq!(thread.join().unwrap(), wanted);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`reply_receive_bytes`](Self::reply_receive_bytes).
    pub fn reply_receive_long_bytes(
        &mut self,
        to: Address,
        answer: &Message,
        long: &[u8],
        limit: impl Into<Timeout>,
    ) -> Result<(Received, Vec<u8>), ReplyReceiveError> {
        let mut bytes = Vec::new();
        let mut buffer = Buffer::of(&mut bytes);
        let received = self.reply_receive_to(to, (answer, long), &mut buffer, limit.into())?;
        bytes.truncate(received.bytes);
        Ok((received, bytes))
    }

    /// Answers a request with a message and bytes, then waits for the next message of any endpoint.
    /// Its payload goes to the front of `buffer`.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     client.sendrec_bytes(to, 1, b"", None).unwrap();
    /// #     client.send_bytes(to, 2, &[7; 100], None).unwrap();
    /// # });
    /// use m3ipc::{Message, ReceiveError, ReplyReceiveError, Source};
    ///
    /// let request = server.receive(Source::Any)?;
    /// let mut buffer = [0; 64];
    /// let next =
    ///     server.reply_receive_long(request.source, &Message::new(0), b"", &mut buffer, None);
    /// // The answer was given. The next message has 100 bytes, of which 64 are here.
    /// let Err(ReplyReceiveError::Receive(ReceiveError::BufferTooSmall { message, .. })) = next
    /// else {
    ///     panic!("{next:?}");
    /// };
    /// assert_eq!((message.m_type, buffer), (2, [7; 64]));
    /// # thread.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`reply_receive_bytes`](Self::reply_receive_bytes). The receive fails with
    /// [`ReceiveError::BufferTooSmall`] if the payload is longer than `buffer`: the message was
    /// taken, and the error has it. After any other error nothing was taken.
    ///
    /// [`ReceiveError::BufferTooSmall`]: crate::ReceiveError::BufferTooSmall
    pub fn reply_receive_long(
        &mut self,
        to: Address,
        answer: &Message,
        long: &[u8],
        buffer: &mut [u8],
        limit: impl Into<Timeout>,
    ) -> Result<Received, ReplyReceiveError> {
        let mut memory = Buffer::Slice(&mut *buffer);
        let received = self.reply_receive_to(to, (answer, long), &mut memory, limit.into())?;
        received.whole_in(buffer.len()).map_err(ReplyReceiveError::Receive)
    }

    /// As [`reply_receive_long`](Self::reply_receive_long); a payload that was cut is no error.
    ///
    /// # Errors
    /// [`ReplyReceiveError`]; nothing was taken.
    fn reply_receive_to(
        &mut self,
        to: Address,
        (answer, long): (&Message, &[u8]),
        buffer: &mut Buffer<'_>,
        limit: Timeout,
    ) -> Result<Received, ReplyReceiveError> {
        self.reply_long(to, answer, long).map_err(ReplyReceiveError::Reply)?;
        self.receive_to(Source::Any, buffer, limit).map_err(ReplyReceiveError::Receive)
    }
}
