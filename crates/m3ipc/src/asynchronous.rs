//! Endpoints on tokio: `receive().await` and `sendrec().await`.
//!
//! No thread and no polling: the endpoint's descriptor stands in tokio's own
//! epoll. Both calls are cancel-safe: a receive that is dropped has taken
//! nothing, a request that is dropped is withdrawn or its answer given up.

use crate::endpoint::{Endpoint, PendingRequest, Source};
use crate::error::{NodeError, ReceiveError, SendRecError};
use m3ipc_abi::{Address, Code, Message};
use std::os::fd::{AsFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// An endpoint that tokio waits for.
#[derive(Debug)]
pub struct AsyncEndpoint {
    endpoint: Endpoint,
    fd: AsyncFd<OwnedFd>,
}

impl AsyncEndpoint {
    /// Gives an endpoint to the runtime of the calling task.
    ///
    /// # Errors
    /// [`NodeError`] where no more descriptors can be had.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub fn new(mut endpoint: Endpoint) -> Result<Self, NodeError> {
        let failed =
            |cause: std::io::Error| NodeError { code: Code::NoMem, why: cause.to_string() };
        let fd = endpoint.fd()?.as_fd().try_clone_to_owned().map_err(failed)?;
        // Deprecated for types whose descriptor can change under it; an OwnedFd's cannot.
        #[allow(deprecated)]
        let fd = AsyncFd::with_interest(fd, tokio::io::Interest::READABLE).map_err(failed)?;
        Ok(Self { endpoint, fd })
    }

    /// The endpoint, for calls that do not wait: reply, notify, `try_send`.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The endpoint, taken back from the runtime.
    #[must_use]
    pub fn into_inner(self) -> Endpoint {
        self.endpoint
    }

    /// Waits for a message or notification.
    ///
    /// # Errors
    /// [`ReceiveError`]
    pub async fn receive(&mut self, source: impl Into<Source>) -> Result<Message, ReceiveError> {
        let source = source.into();
        loop {
            match self.endpoint.try_receive(source) {
                Err(ReceiveError::WouldBlock(_)) => self.ready().await,
                other => return other,
            }
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`SendRecError`]
    pub async fn sendrec(
        &mut self,
        to: Address,
        message: &Message,
    ) -> Result<Message, SendRecError> {
        let pending = self.endpoint.begin_request(to, message)?;
        let mut call = Call { owner: self, pending: Some(pending) };
        loop {
            if let Some(answer) = call.poll()? {
                return Ok(answer);
            }
            call.owner.ready().await;
        }
    }

    async fn ready(&self) {
        // The endpoint empties what stands behind the descriptor when it looks next.
        if let Ok(mut guard) = self.fd.readable().await {
            guard.clear_ready();
        }
    }
}

/// A request under way; dropped with it, it is given up.
struct Call<'a> {
    owner: &'a mut AsyncEndpoint,
    pending: Option<PendingRequest>,
}

impl Call<'_> {
    fn poll(&mut self) -> Result<Option<Message>, SendRecError> {
        let Some(pending) = &mut self.pending else { return Ok(None) };
        let polled = self.owner.endpoint.poll_request(pending);
        if !matches!(polled, Ok(None)) {
            self.pending = None;
        }
        polled
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.owner.endpoint.abandon(&pending);
        }
    }
}
