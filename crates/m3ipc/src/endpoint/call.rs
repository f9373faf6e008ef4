//! Calls: a request of any size and its answer, as bytes.
//!
//! Up to [`PAYLOAD_BYTES`](crate::PAYLOAD_BYTES) bytes travel inside the message, up to
//! [`LONG_MAX_BYTES`](crate::LONG_MAX_BYTES) beside it in the link, and more in a block. The type
//! of a message says how many bytes are inside. A server of calls also answers requests of
//! [`sendrec_bytes`](super::Endpoint::sendrec_bytes), whose types are the caller's own.

use super::Endpoint;
use super::buffer::Buffer;
use super::delivered::Delivered;
use super::received::Source;
use crate::error::{ReceiveError, ReplyError, SendRecError};
use crate::info::Identity;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, Message, PAYLOAD_BYTES};

/// The type of a call whose bytes lie beside the message.
const BESIDE: i32 = 0x4D33_0000;
/// The type of a call with no bytes, all inside the message; one more for each byte.
const INSIDE: i32 = BESIDE + 1;

/// The type of the answer in place of one that is longer than the client takes. The message has
/// both lengths.
const TOO_LONG: i32 = BESIDE - 1;

/// The type of the answer in place of one that could not be sent. The message has the code.
const NOT_SENT: i32 = BESIDE - 2;

/// The message of these bytes, and what travels beside it.
fn packed(bytes: &[u8]) -> (Message, &[u8]) {
    match i32::try_from(bytes.len()) {
        Ok(length) if bytes.len() <= PAYLOAD_BYTES => {
            (Message::new(INSIDE + length).with_bytes(bytes), &[])
        }
        _ => (Message::new(BESIDE), bytes),
    }
}

/// The bytes inside a message; `None` if they are beside it.
fn inside(message: &Message) -> Option<&[u8]> {
    let length = usize::try_from(message.m_type.checked_sub(INSIDE)?).ok()?;
    message.payload.get(..length)
}

/// The answer in place of one that is too long.
fn too_long(bytes: usize, max_bytes: usize) -> Message {
    let mut message = Message::new(TOO_LONG);
    message.set_long(0, i64::try_from(bytes).unwrap_or(i64::MAX));
    message.set_long(1, i64::try_from(max_bytes).unwrap_or(i64::MAX));
    message
}

/// The answer in place of one that could not be sent.
fn not_sent(code: Code) -> Message {
    let mut message = Message::new(NOT_SENT);
    message.set_long(0, i64::from(code.number()));
    message
}

/// The error of a client whose answer could not be sent, as the server says.
fn unsent(answer: &Message) -> SendRecError {
    let peer = answer.source;
    let code = i32::try_from(answer.long(0)).ok().and_then(Code::from_number);
    let code = code.unwrap_or(Code::Unknown);
    let why = format!("endpoint {peer} took the request, and could not send its answer: {code}");
    SendRecError::AnswerLost { peer, why }
}

/// The error of a client whose answer is too long, as the server says.
fn lost(answer: &Message) -> SendRecError {
    let peer = answer.source;
    let [bytes, max_bytes] = [0, 1].map(|at| answer.long(at));
    let why = format!(
        "endpoint {} took the request, and its answer of {bytes} bytes is longer than this \
         endpoint takes ({max_bytes} bytes); raise the receive limit here",
        peer
    );
    SendRecError::AnswerLost { peer, why }
}

/// A request that [`Endpoint::serve`] hands to its function.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The client; its user and process are those that the daemon vouches for.
    pub client: Identity,
    /// The bytes of the request.
    pub bytes: &'a [u8],
}

impl Call<'_> {
    /// The bytes of a request that [`Endpoint::call`] made: inside its message or beside it. The
    /// example is at [`Endpoint::answer_call`].
    #[must_use]
    pub fn bytes_of<'a>(request: &'a Message, beside: &'a [u8]) -> &'a [u8] {
        inside(request).filter(|_| beside.is_empty()).unwrap_or(beside)
    }
}

impl Endpoint {
    /// Calls a server: sends bytes of any length, and waits for the bytes of the answer. The time
    /// limit is for both together.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// // The server:
    /// server.serve(|call| call.bytes.to_ascii_uppercase())
    /// # });
    /// // The client:
    /// assert_eq!(client.call(to, b"hello", None)?, b"HELLO");
    /// assert_eq!(client.call(to, &[b'x'; 1_000_000], None)?.len(), 1_000_000);
    /// # client.wakeup(to).ok();
    /// # thread.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendRecError`]; it tells whether the server took the request.
    pub fn call(
        &mut self,
        to: Address,
        bytes: &[u8],
        limit: impl Into<Timeout>,
    ) -> Result<Vec<u8>, SendRecError> {
        let mut answer = Vec::new();
        self.call_into(to, bytes, &mut answer, limit)?;
        Ok(answer)
    }

    /// The same call, with the answer in place of the content of `answer`, whose memory is used
    /// again.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || server.serve(|call| call.bytes.to_vec()));
    /// let mut answer = Vec::with_capacity(100);
    /// client.call_into(to, b"again", &mut answer, None)?;
    /// assert_eq!(answer, b"again");
    /// # client.wakeup(to).ok();
    /// # thread.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_into(
        &mut self,
        to: Address,
        bytes: &[u8],
        answer: &mut Vec<u8>,
        limit: impl Into<Timeout>,
    ) -> Result<(), SendRecError> {
        let (message, beside) = packed(bytes);
        let mut buffer = Buffer::of(&mut *answer);
        let (said, length) = self.request(to, &message, beside, &mut buffer, limit.into())?;
        answer.truncate(length);
        match said.m_type {
            TOO_LONG => return Err(lost(&said)),
            NOT_SENT => return Err(unsent(&said)),
            _ => {}
        }
        if let Some(bytes) = inside(&said).filter(|_| length == 0) {
            answer.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Serves calls: gives each request to `handler`, and the result to its client. Notifications
    /// and messages that await no answer are dropped. Returns after a
    /// [`wakeup`](Self::wakeup). The example is at [`call`](Self::call).
    ///
    /// # Errors
    /// [`ReceiveError`]: the endpoint is gone.
    pub fn serve<A: AsRef<[u8]>>(
        &mut self,
        mut handler: impl FnMut(Call<'_>) -> A,
    ) -> Result<(), ReceiveError> {
        let mut bytes = Vec::new();
        loop {
            let mut buffer = Buffer::of(&mut bytes);
            let received = match self.receive_to(Source::Any, &mut buffer, Timeout::Never) {
                Ok(received) if received.is_request => received,
                Ok(_) | Err(ReceiveError::Interrupted(_)) => continue,
                Err(ReceiveError::Woken(_)) => return Ok(()),
                Err(ReceiveError::System { .. }) if self.is_bound() => continue,
                Err(error) => return Err(error),
            };
            let Some(client) = self.latest_peer() else { continue };
            let bytes = Call::bytes_of(&received.message, &bytes[..received.bytes]);
            let call = Call { client, bytes };
            let answer = handler(call);
            // A client that gave up meanwhile needs no answer.
            let _ = self.answer_call(&received.message, answer.as_ref());
        }
    }

    /// Answers a call with bytes. Never waits. For servers that answer later than
    /// [`serve`](Self::serve) does.
    ///
    /// An answer that cannot be sent ends the call with the code [`AnswerLost`](Code::AnswerLost).
    /// A client of [`sendrec_bytes`](Self::sendrec_bytes) gets no bytes, and the cause as type: -73
    /// for an answer that is longer than the client takes.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.call(to, &[1; 100], None));
    /// let (request, bytes) = server.receive_bytes(m3ipc::Source::Any, None)?;
    /// let bytes = m3ipc::Call::bytes_of(&request.message, &bytes);
    /// server.answer_call(&request.message, &bytes[..3])?;
    /// # assert_eq!(thread.join().unwrap()?, [1; 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`reply_bytes`](Self::reply_bytes).
    pub fn answer_call(
        &mut self,
        request: &Message,
        bytes: &[u8],
    ) -> Result<Delivered, ReplyError> {
        // A client of `sendrec_bytes` looks for the answer beside the message.
        let is_call = request.m_type == BESIDE || inside(request).is_some();
        let (message, beside) = if is_call { packed(bytes) } else { (Message::new(0), bytes) };
        let replied = self.reply_long(request.source, &message, beside);
        if let Err(error) = &replied
            && self.owes_answer(request.source)
        {
            // The client must not wait for ever.
            let answer = match error {
                ReplyError::TooLong { bytes, max_bytes } if is_call => too_long(*bytes, *max_bytes),
                _ if is_call => not_sent(error.code()),
                _ => Message::new(error.code().number()),
            };
            let _ = self.reply(request.source, &answer);
        }
        replied
    }

    /// Whether this client awaits an answer of this endpoint.
    fn owes_answer(&self, client: Address) -> bool {
        let index = self.peers.find(client).filter(|_| self.membership.is_original());
        index.is_some_and(|index| self.peers.get(index).link().owes_answer())
    }
}
