//! The fast halves of the verbs, for the libraries of other languages.
//!
//! ```text
//! sendrec_fast_half ── the answer
//!        └─ UnfinishedRequest ── sendrec_slow_half ── the answer, or an error
//! ```
//!
//! A verb of the Rust API runs both halves. A library of another language has work of its own
//! around the slow half alone: the C library keeps `errno` over system calls, which a fast half
//! makes only without the C library. Each pair of halves does what the verb does, without spans of
//! the `tracing` crate.

use super::Endpoint;
use super::fast::LeftOver;
use super::fast_payload::Nothing;
use super::fast_receive::LeftReceive;
use super::fast_send::LeftSend;
use super::received::Source;
use crate::error::{ReceiveError, SendError, SendRecError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Message};

/// The rest of a [`sendrec`](Endpoint::sendrec) whose fast half has no answer.
#[derive(Debug)]
#[must_use = "the request may be posted, and only the slow half ends it"]
pub struct UnfinishedRequest(LeftOver);

impl UnfinishedRequest {
    /// Whether this is the whole call: nothing was posted.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.0, LeftOver::Call)
    }
}

/// The rest of a [`send`](Endpoint::send) whose fast half did not end it.
#[derive(Debug)]
#[must_use = "the message may be posted, and only the slow half ends the call"]
pub struct UnfinishedSend(LeftSend);

impl UnfinishedSend {
    /// Whether this is the whole call: nothing was posted.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.0, LeftSend::Call)
    }
}

/// The rest of a [`receive`](Endpoint::receive) whose fast half has no message.
#[derive(Debug)]
#[must_use = "the slow half ends the call"]
pub struct UnfinishedReceive(LeftReceive);

impl UnfinishedReceive {
    /// Whether this is the whole call: it has not waited.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0 == LeftReceive::Call
    }
}

impl Endpoint {
    /// The fast half of [`sendrec_timeout`](Self::sendrec_timeout). An answer goes to `deliver`.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve(server, |request| request);
    /// use m3ipc::{Message, Timeout};
    ///
    /// let (request, limit) = (Message::new(7), Timeout::Never);
    /// let answer = match client.sendrec_fast_half(to, &request, limit, |answer| answer) {
    ///     Ok(answer) => answer,
    ///     Err(rest) => client.sendrec_slow_half(rest, to, &request, limit)?,
    /// };
    /// assert_eq!(answer.m_type, 7);
    /// # Ok::<(), m3ipc::SendRecError>(())
    /// ```
    ///
    /// # Errors
    /// [`UnfinishedRequest`], for [`sendrec_slow_half`](Self::sendrec_slow_half) with the same
    /// arguments.
    #[inline(always)]
    pub fn sendrec_fast_half<T>(
        &mut self,
        to: Address,
        message: &Message,
        limit: Timeout,
        deliver: impl FnOnce(Message) -> T,
    ) -> Result<T, UnfinishedRequest> {
        self.sendrec_fast(to, (message, Nothing), limit, Nothing, deliver)
            .map_err(UnfinishedRequest)
    }

    /// The slow half of [`sendrec_timeout`](Self::sendrec_timeout). The example is at
    /// [`sendrec_fast_half`](Self::sendrec_fast_half).
    ///
    /// # Errors
    /// Those of [`sendrec_timeout`](Self::sendrec_timeout).
    #[cold]
    pub fn sendrec_slow_half(
        &mut self,
        rest: UnfinishedRequest,
        to: Address,
        message: &Message,
        limit: Timeout,
    ) -> Result<Message, SendRecError> {
        self.end_short_call(rest.0, to, message, limit)
    }

    /// The fast half of [`send_timeout`](Self::send_timeout).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || server.receive(m3ipc::Source::Any));
    /// use m3ipc::{Message, Timeout};
    ///
    /// let (message, limit) = (Message::new(7), Timeout::Never);
    /// if let Err(rest) = client.send_fast_half(to, &message, limit) {
    ///     client.send_slow_half(rest, to, &message, limit)?;
    /// }
    /// # assert_eq!(thread.join().unwrap()?.m_type, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`UnfinishedSend`], for [`send_slow_half`](Self::send_slow_half) with the same arguments.
    #[inline(always)]
    pub fn send_fast_half(
        &mut self,
        to: Address,
        message: &Message,
        limit: Timeout,
    ) -> Result<(), UnfinishedSend> {
        self.send_fast(to, (message, Nothing), limit).map_err(UnfinishedSend)
    }

    /// The slow half of [`send_timeout`](Self::send_timeout). The example is at
    /// [`send_fast_half`](Self::send_fast_half).
    ///
    /// # Errors
    /// Those of [`send_timeout`](Self::send_timeout).
    #[cold]
    pub fn send_slow_half(
        &mut self,
        rest: UnfinishedSend,
        to: Address,
        message: &Message,
        limit: Timeout,
    ) -> Result<(), SendError> {
        self.end_short_send(rest.0, to, message, limit)
    }

    /// The fast half of [`notify`](Self::notify). `false` if nothing was published: the whole call
    /// is left.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// if !client.notify_fast_half(server.address()) {
    ///     client.notify(server.address())?;
    /// }
    /// assert!(server.receive(client.address())?.is_notification());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[inline(always)]
    pub fn notify_fast_half(&mut self, to: Address) -> bool {
        self.notify_fast(to, 0)
    }

    /// The fast half of [`receive_timeout`](Self::receive_timeout). A message goes to `deliver`.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # client.notify(server.address())?;
    /// use m3ipc::{Source, Timeout};
    ///
    /// let (source, limit) = (Source::Any, Timeout::Never);
    /// let message = match server.receive_fast_half(source, limit, |message| message) {
    ///     Ok(message) => message,
    ///     Err(rest) => server.receive_slow_half(rest, source, limit)?,
    /// };
    /// assert!(message.is_notification());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`UnfinishedReceive`], for [`receive_slow_half`](Self::receive_slow_half) with the same
    /// source and limit. Nothing was taken.
    #[inline(always)]
    pub fn receive_fast_half<T>(
        &mut self,
        source: Source,
        limit: Timeout,
        deliver: impl FnOnce(Message) -> T,
    ) -> Result<T, UnfinishedReceive> {
        match source {
            Source::Any => self.receive_fast(limit, Nothing, deliver),
            Source::From(source) => self.receive_one_fast(source, limit, Nothing, deliver),
        }
        .map_err(UnfinishedReceive)
    }

    /// The slow half of [`receive_timeout`](Self::receive_timeout). The example is at
    /// [`receive_fast_half`](Self::receive_fast_half).
    ///
    /// # Errors
    /// Those of [`receive_timeout`](Self::receive_timeout).
    #[cold]
    pub fn receive_slow_half(
        &mut self,
        rest: UnfinishedReceive,
        source: Source,
        limit: Timeout,
    ) -> Result<Message, ReceiveError> {
        self.receive_short(rest.0, source, limit)
    }

    /// The fast half of [`reply`](Self::reply). `false` if nothing was answered: the whole call is
    /// left.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.sendrec(to, &m3ipc::Message::new(7)));
    /// use m3ipc::{Message, Source};
    ///
    /// let request = server.receive(Source::Any)?;
    /// if !server.reply_fast_half(request.source, &Message::new(8)) {
    ///     server.reply(request.source, &Message::new(8))?;
    /// }
    /// # assert_eq!(thread.join().unwrap()?.m_type, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[inline(always)]
    pub fn reply_fast_half(&mut self, to: Address, message: &Message) -> bool {
        self.reply_fast(to, message, Nothing)
    }
}
