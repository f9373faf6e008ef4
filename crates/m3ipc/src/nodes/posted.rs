//! Messages of a remote endpoint that its stand-in posts to local ones.

use super::StandIn;
use crate::endpoint::{Beside, Endpoint, PendingRequest, PendingSend, Withdrawal};
use crate::error::{SendError, SendRecError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, Message};

/// A message of the remote endpoint that a local one has not taken, or not answered.
#[derive(Debug)]
pub enum Posted {
    /// It ends with the take.
    Send(PendingSend),
    /// It ends with the answer.
    Request(PendingRequest),
}

/// How a posted message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostedEnd {
    /// The receiver has taken it.
    Taken,
    /// The receiver has answered it.
    Answered(Message, Vec<u8>),
    /// The receiver has answered it with a block of this content.
    AnsweredByBlock(Message, Vec<u8>),
    /// The receiver has handed it to another server, for [`StandIn::relayed`] on the node of the
    /// sender.
    Relayed(Message, Vec<u8>),
    /// It failed, with a code of the contract.
    Failed(Code),
}

impl StandIn {
    /// Posts a message of the remote endpoint.
    ///
    /// # Errors
    /// The code of the failure; the receiver never gets the message.
    pub fn post(
        &mut self,
        to: Address,
        is_request: bool,
        message: &Message,
        bytes: Vec<u8>,
    ) -> Result<Posted, Code> {
        self.post_with(to, is_request, message, Beside::from(bytes))
    }

    /// The same for a message with a block of this content: the receiver gets a block of its own.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn post_block(
        &mut self,
        to: Address,
        is_request: bool,
        message: &Message,
        content: Vec<u8>,
    ) -> Result<Posted, Code> {
        self.post_with(to, is_request, message, Beside::block(content))
    }

    fn post_with(
        &mut self,
        to: Address,
        is_request: bool,
        message: &Message,
        beside: Beside,
    ) -> Result<Posted, Code> {
        if is_request {
            let posted = self.endpoint.begin_request_with(to, message, beside);
            posted.map(Posted::Request).map_err(|error: SendRecError| error.code())
        } else {
            let posted = self.endpoint.begin_send_with(to, message, beside);
            posted.map(Posted::Send).map_err(|error: SendError| error.code())
        }
    }

    /// The end of a posted message, if it has come.
    pub fn poll_posted(&mut self, posted: &mut Posted) -> Option<PostedEnd> {
        match posted {
            Posted::Send(send) => match self.endpoint.poll_send(send) {
                Ok(true) => Some(PostedEnd::Taken),
                Ok(false) => None,
                Err(error) => Some(PostedEnd::Failed(error.code())),
            },
            Posted::Request(request) => match self.endpoint.poll_request_bytes(request) {
                Ok(Some((answer, words))) if Endpoint::was_relayed(request) => {
                    Some(PostedEnd::Relayed(answer, words))
                }
                Ok(Some((answer, bytes))) if Endpoint::was_by_block(request) => {
                    Some(PostedEnd::AnsweredByBlock(answer, bytes))
                }
                Ok(Some((answer, bytes))) => Some(PostedEnd::Answered(answer, bytes)),
                Ok(None) => None,
                Err(error) => Some(PostedEnd::Failed(error.code())),
            },
        }
    }

    /// Whether a poll of a posted message may find something new; with `is_told`, its take is known
    /// already. A few loads, no system call.
    #[must_use]
    pub fn has_moved(&self, posted: &Posted, is_told: bool) -> bool {
        match posted {
            Posted::Send(send) => self.endpoint.has_moved(send.as_request(), is_told),
            Posted::Request(request) => self.endpoint.has_moved(request, is_told),
        }
    }

    /// Bytes of the payloads and blocks that the remote endpoint has at receivers here. What is
    /// free again counts no more.
    #[must_use]
    pub fn bytes_out(&mut self) -> u64 {
        self.endpoint.bytes_out()
    }

    /// Whether the receiver has taken a posted request.
    #[must_use]
    pub fn is_taken(&self, posted: &Posted) -> bool {
        match posted {
            Posted::Send(_) => false,
            Posted::Request(request) => self.endpoint.is_pending_taken(request),
        }
    }

    /// Frees the bytes of a posted request, whose receiver [has taken it](Self::is_taken).
    pub fn forget_bytes(&mut self, posted: &mut Posted) {
        if let Posted::Request(request) = posted {
            request.forget_bytes();
        }
    }

    /// Takes a posted message back. `false` if the receiver has taken it; the answer to a request
    /// is then not awaited any more.
    pub fn withdraw(&mut self, posted: Posted) -> bool {
        match posted {
            Posted::Send(send) => {
                self.endpoint.withdraw_timeout(&send, Timeout::NoWait) == Withdrawal::Withdrawn
            }
            Posted::Request(request) => self.endpoint.withdraw_request(&request),
        }
    }
}
