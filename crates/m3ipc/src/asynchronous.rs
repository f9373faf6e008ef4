//! Endpoints on tokio.
//!
//! There is no thread and no polling: the endpoint's descriptor is in tokio's own epoll set. Every
//! call is cancel-safe. A dropped receive has taken nothing. A dropped request is withdrawn, or its
//! answer is not awaited.
//!
//! A first contact with a peer asks the node daemon and blocks the thread meanwhile.

use crate::endpoint::{Endpoint, PendingRequest, Received, Source};
use crate::error::{NodeError, ReceiveError, SendRecError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Message};
use std::os::fd::{AsFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// An endpoint in a tokio runtime.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (server, client) = node.pair();
/// # let to = server.address();
/// # let thread = m3ipc::test::serve_bytes(server, |bytes| bytes.to_vec());
/// use m3ipc::asynchronous::AsyncEndpoint;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
/// # runtime.block_on(async move {
/// let mut client = AsyncEndpoint::new(client)?;
/// let (_answer, bytes) = client.sendrec_bytes(to, 7, b"echo".to_vec()).await?;
/// assert_eq!(bytes, b"echo");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AsyncEndpoint {
    endpoint: Endpoint,
    fd: AsyncFd<OwnedFd>,
}

impl AsyncEndpoint {
    /// Gives an endpoint to the runtime of the calling task. The example is at [`AsyncEndpoint`].
    ///
    /// # Errors
    /// [`NodeError::NoResources`] if no descriptor is left.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub fn new(mut endpoint: Endpoint) -> Result<Self, NodeError> {
        let failed = |cause: std::io::Error| NodeError::no_resources(&cause);
        let fd = endpoint.fd()?.as_fd().try_clone_to_owned().map_err(failed)?;
        // Deprecated for types whose descriptor can change; that of an OwnedFd cannot.
        #[allow(deprecated)]
        let fd = AsyncFd::with_interest(fd, tokio::io::Interest::READABLE).map_err(failed)?;
        Ok(Self { endpoint, fd })
    }

    /// The endpoint, for calls that never wait: reply, notify, `try_send`. The example is at
    /// [`receive`](Self::receive).
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The endpoint, taken out of the runtime. The example is at [`receive`](Self::receive).
    #[must_use]
    pub fn into_inner(self) -> Endpoint {
        self.endpoint
    }

    /// Waits for a message or a notification.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// use m3ipc::{Source, asynchronous::AsyncEndpoint};
    ///
    /// let mut server = AsyncEndpoint::new(server)?;
    /// client.notify(server.endpoint().address())?;
    /// let message = server.receive(Source::Any).await?;
    /// assert!(message.is_notification());
    /// let server = server.into_inner();
    /// # assert_eq!(server.address(), to);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::receive`].
    pub async fn receive(&mut self, source: impl Into<Source>) -> Result<Message, ReceiveError> {
        let (received, bytes) = self.receive_bytes(source).await?;
        if !bytes.is_empty() {
            return Err(ReceiveError::too_small(received.message, bytes.len(), 0));
        }
        Ok(received.message)
    }

    /// Waits for a message and takes its whole payload.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.sendrec_bytes(to, 7, b"async", None));
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// # let mut server = m3ipc::asynchronous::AsyncEndpoint::new(server)?;
    /// let (request, bytes) = server.receive_bytes(m3ipc::Source::Any).await?;
    /// server.endpoint().reply_bytes(request.message.source, 0, &bytes)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # assert_eq!(thread.join().unwrap()?.1, b"async");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::receive_bytes`].
    pub async fn receive_bytes(
        &mut self,
        source: impl Into<Source>,
    ) -> Result<(Received, Vec<u8>), ReceiveError> {
        let source = source.into();
        loop {
            match self.endpoint.receive_bytes(source, Timeout::NoWait) {
                Err(ReceiveError::WouldBlock(_)) => self.ready().await,
                other => return other,
            }
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve(server, |request| request);
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// # let mut client = m3ipc::asynchronous::AsyncEndpoint::new(client)?;
    /// let answer = client.sendrec(to, &m3ipc::Message::new(7)).await?;
    /// assert_eq!(answer.m_type, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::sendrec`].
    pub async fn sendrec(
        &mut self,
        to: Address,
        message: &Message,
    ) -> Result<Message, SendRecError> {
        let pending = self.endpoint.begin_request(to, message)?;
        let (answer, bytes) = self.finish(pending).await?;
        if !bytes.is_empty() {
            return Err(SendRecError::too_small(answer, bytes.len(), 0));
        }
        Ok(answer)
    }

    /// Sends a request of bytes and waits for the answer and its whole payload. The example is at
    /// [`AsyncEndpoint`].
    ///
    /// # Errors
    /// As [`Endpoint::sendrec_bytes`].
    pub async fn sendrec_bytes(
        &mut self,
        to: Address,
        m_type: i32,
        bytes: Vec<u8>,
    ) -> Result<(Message, Vec<u8>), SendRecError> {
        let pending = self.endpoint.begin_request_bytes(to, m_type, bytes)?;
        self.finish(pending).await
    }

    async fn finish(
        &mut self,
        pending: PendingRequest,
    ) -> Result<(Message, Vec<u8>), SendRecError> {
        let mut call = Call { owner: self, pending: Some(pending) };
        loop {
            if let Some(answer) = call.poll()? {
                return Ok(answer);
            }
            call.owner.ready().await;
        }
    }

    async fn ready(&self) {
        // The next poll of the endpoint drains the doorbell and the control connection.
        if let Ok(mut guard) = self.fd.readable().await {
            guard.clear_ready();
        }
    }
}

/// A request in progress. A drop gives the request up.
struct Call<'a> {
    owner: &'a mut AsyncEndpoint,
    pending: Option<PendingRequest>,
}

impl Call<'_> {
    fn poll(&mut self) -> Result<Option<(Message, Vec<u8>)>, SendRecError> {
        let Some(pending) = &mut self.pending else { return Ok(None) };
        let polled = self.owner.endpoint.poll_request_bytes(pending);
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
