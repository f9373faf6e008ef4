//! Bytes and plain records of any length, delivered whole or not at all.
//!
//! The bytes travel beside the message: in the link up to
//! [`LONG_MAX_BYTES`](crate::LONG_MAX_BYTES), as a block up to
//! [`LARGE_MAX_BYTES`](crate::LARGE_MAX_BYTES). The 40 bytes inside the message stay zero.

use super::Endpoint;
use super::buffer::Buffer;
use super::delivered::Delivered;
use super::received::{Received, Source};
use crate::area::Plain;
use crate::error::{ReceiveError, ReplyError, SendError, SendRecError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Message};

impl Endpoint {
    /// Sends bytes under a message type and waits until the receiver takes them.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let sender = std::thread::spawn(move || {
    /// use m3ipc::Timeout;
    ///
    /// client.send_bytes(to, 7, &[1; 100_000], Timeout::Never)
    /// # });
    /// # let (received, bytes) = server.receive_bytes(m3ipc::Source::Any, m3ipc::Timeout::Never)?;
    /// # assert_eq!((received.message.m_type, bytes), (7, vec![1; 100_000]));
    /// # sender.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::TooLong`], and others.
    pub fn send_bytes(
        &mut self,
        to: Address,
        m_type: i32,
        bytes: &[u8],
        limit: impl Into<Timeout>,
    ) -> Result<(), SendError> {
        self.send_long(to, &Message::new(m_type), bytes, limit)
    }

    /// Waits for a message and takes its whole payload.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let sender = std::thread::spawn(move || {
    /// #     client.send_bytes(to, 7, b"a string of any length", m3ipc::Timeout::Never)
    /// # });
    /// use m3ipc::{Source, Timeout};
    ///
    /// let (received, bytes) = server.receive_bytes(Source::Any, Timeout::Never)?;
    /// assert_eq!(String::from_utf8(bytes)?, "a string of any length");
    /// # assert_eq!(received.bytes, 22);
    /// # sender.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReceiveError`]; nothing was taken. A payload above the [receive limit], or one for which
    /// this process has no memory or addresses, is an error of its sender alone.
    ///
    /// [receive limit]: Self::set_receive_limit
    pub fn receive_bytes(
        &mut self,
        source: impl Into<Source>,
        limit: impl Into<Timeout>,
    ) -> Result<(Received, Vec<u8>), ReceiveError> {
        let mut bytes = Vec::new();
        let received = self.receive_to(source.into(), &mut Buffer::of(&mut bytes), limit.into())?;
        bytes.truncate(received.bytes);
        Ok((received, bytes))
    }

    /// Sends a request of bytes and waits for the answer and its whole payload. The time limit is
    /// for both together.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve_bytes(server, |bytes| bytes.to_ascii_uppercase());
    /// use m3ipc::Timeout;
    ///
    /// let (_answer, bytes) = client.sendrec_bytes(to, 7, b"louder", Timeout::Never)?;
    /// assert_eq!(bytes, b"LOUDER");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendRecError`]; it tells whether the server took the request.
    pub fn sendrec_bytes(
        &mut self,
        to: Address,
        m_type: i32,
        bytes: &[u8],
        limit: impl Into<Timeout>,
    ) -> Result<(Message, Vec<u8>), SendRecError> {
        self.sendrec_long_bytes(to, &Message::new(m_type), bytes, limit)
    }

    /// Sends a request with a message and bytes, and waits for the answer and its whole payload.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve_bytes(server, |bytes| bytes.to_ascii_uppercase());
    /// use m3ipc::{Message, Timeout};
    ///
    /// let message = Message::new(7).with_bytes(b"short");
    /// let (_answer, bytes) = client.sendrec_long_bytes(to, &message, b"louder", Timeout::Never)?;
    /// assert_eq!(bytes, b"LOUDER");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`sendrec_bytes`](Self::sendrec_bytes).
    pub fn sendrec_long_bytes(
        &mut self,
        to: Address,
        message: &Message,
        bytes: &[u8],
        limit: impl Into<Timeout>,
    ) -> Result<(Message, Vec<u8>), SendRecError> {
        let mut answer_bytes = Vec::new();
        let mut buffer = Buffer::of(&mut answer_bytes);
        let (answer, length) = self.request(to, message, bytes, &mut buffer, limit.into())?;
        answer_bytes.truncate(length);
        Ok((answer, answer_bytes))
    }

    /// Answers with bytes. Never waits.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.sendrec_bytes(to, 7, b"ping", None));
    /// let (request, bytes) = server.receive_bytes(m3ipc::Source::Any, None)?;
    /// server.reply_bytes(request.message.source, 0, &bytes.repeat(2))?;
    /// # assert_eq!(thread.join().unwrap()?.1, b"pingping");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReplyError::TooLong`], and others.
    pub fn reply_bytes(
        &mut self,
        to: Address,
        m_type: i32,
        bytes: &[u8],
    ) -> Result<Delivered, ReplyError> {
        self.reply_long(to, &Message::new(m_type), bytes)
    }

    /// Sends a plain record and waits until the receiver takes it.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// client.send_record(to, 7, &[640_u32, 480], None)
    /// # });
    /// // The receiver:
    /// let (_, [width, height]) = server.receive_record::<[u32; 2]>(m3ipc::Source::Any, None)?;
    /// assert_eq!((width, height), (640, 480));
    /// # thread.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`send_bytes`](Self::send_bytes).
    pub fn send_record<T: Plain>(
        &mut self,
        to: Address,
        m_type: i32,
        record: &T,
        limit: impl Into<Timeout>,
    ) -> Result<(), SendError> {
        self.send_bytes(to, m_type, bytemuck::bytes_of(record), limit)
    }

    /// Waits for a plain record. Sender and receiver must agree on its layout. The example is at
    /// [`send_record`](Self::send_record).
    ///
    /// # Errors
    /// [`ReceiveError::WrongSize`] if the payload has another length than the record, and as
    /// [`receive_bytes`](Self::receive_bytes).
    pub fn receive_record<T: Plain>(
        &mut self,
        source: impl Into<Source>,
        limit: impl Into<Timeout>,
    ) -> Result<(Received, T), ReceiveError> {
        let mut record = T::zeroed();
        let mut buffer = Buffer::Slice(bytemuck::bytes_of_mut(&mut record));
        let received = self.receive_to(source.into(), &mut buffer, limit.into())?;
        if received.bytes != size_of::<T>() {
            let Received { message, bytes, .. } = received;
            return Err(ReceiveError::wrong_size(message, bytes, size_of::<T>()));
        }
        Ok((received, record))
    }

    /// Sends a plain record as a request and waits for a plain record as its answer. Both sides
    /// must agree on the layouts.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve_bytes(server, |bytes| {
    /// #     let [a, b]: [u32; 2] = bytemuck::pod_read_unaligned(bytes);
    /// #     u64::from(a + b).to_ne_bytes().to_vec()
    /// # });
    /// use m3ipc::Timeout;
    ///
    /// // `[u32; 2]` and `u64` are plain; for own structs derive `bytemuck::Pod`.
    /// let sum: u64 = client.sendrec_record(to, 7, &[20_u32, 22], Timeout::Never)?;
    /// assert_eq!(sum, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendRecError::WrongSize`] if the payload of the answer has another length than `Rep`, and
    /// as [`sendrec_bytes`](Self::sendrec_bytes).
    pub fn sendrec_record<Req: Plain, Rep: Plain>(
        &mut self,
        to: Address,
        m_type: i32,
        request: &Req,
        limit: impl Into<Timeout>,
    ) -> Result<Rep, SendRecError> {
        let mut record = Rep::zeroed();
        let (message, request) = (Message::new(m_type), bytemuck::bytes_of(request));
        let mut buffer = Buffer::Slice(bytemuck::bytes_of_mut(&mut record));
        let (answer, bytes) = self.request(to, &message, request, &mut buffer, limit.into())?;
        if bytes != size_of::<Rep>() {
            return Err(SendRecError::wrong_size(answer, bytes, size_of::<Rep>()));
        }
        Ok(record)
    }

    /// Answers with a plain record. Never waits.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.sendrec_record(to, 7, &20_u32, None));
    /// let (request, number) = server.receive_record::<u32>(m3ipc::Source::Any, None)?;
    /// server.reply_record(request.message.source, 0, &(u64::from(number) + 1))?;
    /// # let answer: u64 = thread.join().unwrap()?;
    /// # assert_eq!(answer, 21);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`reply_bytes`](Self::reply_bytes).
    pub fn reply_record<T: Plain>(
        &mut self,
        to: Address,
        m_type: i32,
        record: &T,
    ) -> Result<Delivered, ReplyError> {
        self.reply_bytes(to, m_type, bytemuck::bytes_of(record))
    }
}
