//! Endpoints on tokio.
//!
//! The endpoint's descriptor is in tokio's own epoll set. Before a task sleeps, it polls
//! for some microseconds while that pays, and lets other tasks run in between. Every call is
//! cancel-safe. A dropped receive has taken nothing. A dropped request is withdrawn, or its
//! answer is not awaited.
//!
//! First contacts, names, binds and [`AsyncEndpoint::open`] await the node daemon and block no
//! thread of the runtime. After a kill of the daemon, a thread of its own finds or starts the next
//! one; messages of existing links arrive meanwhile. That thread stays until the endpoint ends,
//! since its death tells the daemon of the death of the process.
//!
//! Four steps do wait in the thread of the runtime, until the daemon answers:
//! [`AsyncEndpoint::new`]; a notification to a peer without a link; a link for which this process
//! had no descriptor or no memory, once a second; and memory for a payload above
//! [`LONG_MAX_BYTES`](crate::LONG_MAX_BYTES), 0.1 s at most for each step with the daemon.

mod polling;
mod rounds;

pub use polling::NextStep;

use crate::endpoint::{
    Endpoint, NameWait, PendingRequest, PendingSend, Question, Received, Source,
};
use crate::error::{
    BindError, Fail, NameError, NodeError, ReceiveError, SendError, SendRecError, WaitError,
};
use m3ipc_abi::{Address, Message, NONE};
use m3ipc_wire::{Reply, Request};
use polling::Polling;
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
    polling: Polling,
}

impl AsyncEndpoint {
    /// Gives an endpoint to the runtime of the calling task. The example is at [`AsyncEndpoint`].
    ///
    /// The call asks the node daemon for the endpoint's descriptor, and waits for it in the thread;
    /// [`open`](Self::open) awaits it.
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
        endpoint.set_asynchronous(true);
        Ok(Self { endpoint, fd, polling: Polling::new() })
    }

    /// Gives an endpoint to the runtime of the calling task, as [`new`](Self::new) does. A thread
    /// for blocking work asks the node daemon, so that other tasks run. A drop of the future
    /// unbinds the endpoint.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, client) = node.pair();
    /// # let to = server.address();
    /// # let thread = m3ipc::test::serve_bytes(server, |bytes| bytes.to_vec());
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// use m3ipc::asynchronous::AsyncEndpoint;
    ///
    /// let mut client = AsyncEndpoint::open(client).await?;
    /// let (_answer, bytes) = client.sendrec_bytes(to, 7, b"echo".to_vec()).await?;
    /// assert_eq!(bytes, b"echo");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub async fn open(mut endpoint: Endpoint) -> Result<Self, NodeError> {
        let opened = tokio::task::spawn_blocking(move || {
            endpoint.fd()?;
            Ok::<_, NodeError>(endpoint)
        });
        match opened.await {
            // The endpoint has its descriptor, so this asks no daemon.
            Ok(endpoint) => Self::new(endpoint?),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// Binds an endpoint on a thread for blocking work, and gives it to the runtime of the calling
    /// task. A drop of the future unbinds the endpoint.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let vm = node.vm().clone();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// use m3ipc::asynchronous::AsyncEndpoint;
    ///
    /// let mut server = AsyncEndpoint::bind(move || vm.bind(1)).await?;
    /// server.name_attach("stock").await?;
    /// let address = server.endpoint().address();
    /// assert_eq!(server.name_locate("stock").await?, address);
    /// assert_eq!(server.wait_name("stock").await?, address);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `bind`; [`BindError::System`] if no descriptor is left.
    ///
    /// # Panics
    /// If `bind` panics, and outside a tokio runtime with I/O enabled.
    pub async fn bind(
        bind: impl FnOnce() -> Result<Endpoint, BindError> + Send + 'static,
    ) -> Result<Self, BindError> {
        let system =
            |error: &NodeError| BindError::System { code: error.code(), why: error.to_string() };
        let bound = tokio::task::spawn_blocking(move || {
            let mut endpoint = bind()?;
            endpoint.fd().map_err(|error| system(&error))?;
            Ok(endpoint)
        });
        match bound.await {
            Ok(endpoint) => Self::new(endpoint?).map_err(|error| system(&error)),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// The endpoint, for calls that never wait: reply, notify, `try_send`. The example is at
    /// [`receive`](Self::receive).
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The endpoint, taken out of the runtime. The example is at [`receive`](Self::receive).
    #[must_use]
    pub fn into_inner(mut self) -> Endpoint {
        self.endpoint.set_asynchronous(false);
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
    /// Cancel-safe: a dropped future has taken nothing.
    ///
    /// # Errors
    /// As [`Endpoint::receive`].
    pub async fn receive(&mut self, source: impl Into<Source>) -> Result<Message, ReceiveError> {
        let (received, _) = self.receive_bytes(source).await?;
        received.whole_in(0).map(|received| received.message)
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
    /// Cancel-safe: a dropped future has taken nothing.
    ///
    /// # Errors
    /// As [`Endpoint::receive_bytes`].
    pub async fn receive_bytes(
        &mut self,
        source: impl Into<Source>,
    ) -> Result<(Received, Vec<u8>), ReceiveError> {
        let source = source.into();
        let mut has_waited = false;
        loop {
            self.begin_round();
            let received = self.endpoint.receive_bytes_soon(source, has_waited);
            let found = !matches!(received, Err(ReceiveError::WouldBlock(_)));
            self.end_round(found);
            if found {
                return received;
            }
            self.pause().await;
            has_waited = true;
        }
    }

    /// Begins to send a message, as [`Endpoint::begin_send`] does, without a wait for the daemon.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, client) = node.pair();
    /// # let to = server.address();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// # let mut client = m3ipc::asynchronous::AsyncEndpoint::new(client)?;
    /// let pending = client.begin_send(to, &m3ipc::Message::new(7), b"later".to_vec())?;
    /// assert_eq!(client.endpoint().withdraw(&pending), m3ipc::Withdrawal::Withdrawn);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::begin_send`].
    pub fn begin_send(
        &mut self,
        to: Address,
        message: &Message,
        bytes: Vec<u8>,
    ) -> Result<PendingSend, SendError> {
        self.endpoint.begin_send_within(to, message, bytes, 0)
    }

    /// Takes a message with its whole payload, if one is there. `has_waited`: the last look found
    /// nothing, and [`ready`](Self::ready) came after it.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || client.send_bytes(to, 7, b"bytes", None));
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// # let mut server = m3ipc::asynchronous::AsyncEndpoint::new(server)?;
    /// let mut has_waited = false;
    /// let (_, bytes) = loop {
    ///     match server.try_receive_bytes(has_waited) {
    ///         Err(m3ipc::ReceiveError::WouldBlock(_)) => server.ready().await,
    ///         other => break other?,
    ///     }
    ///     has_waited = true;
    /// };
    /// assert_eq!(bytes, b"bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # thread.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReceiveError::WouldBlock`] if there is none, and as [`Endpoint::receive_bytes`].
    pub fn try_receive_bytes(
        &mut self,
        has_waited: bool,
    ) -> Result<(Received, Vec<u8>), ReceiveError> {
        self.endpoint.receive_bytes_soon(Source::Any, has_waited)
    }

    /// Begins a wait for a name: for event loops. The example is at
    /// [`poll_name`](Self::poll_name).
    #[must_use]
    pub fn begin_name(&self, name: &str) -> PendingName {
        PendingName { wait: NameWait::new(name), question: None }
    }

    /// The endpoint that has the name, if there is one by now.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, client) = node.pair();
    /// # let to = server.address();
    /// # server.name_attach("stock")?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// # let mut client = m3ipc::asynchronous::AsyncEndpoint::new(client)?;
    /// let mut name = client.begin_name("stock");
    /// let address = loop {
    ///     if let Some(address) = client.poll_name(&mut name)? {
    ///         break address;
    ///     }
    ///     client.ready().await;
    /// };
    /// assert_eq!(address, to);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::wait_name`], without a time limit.
    pub fn poll_name(&mut self, name: &mut PendingName) -> Result<Option<Address>, WaitError> {
        let polled = self.endpoint.poll_name_armed(&mut name.wait, &mut name.question);
        polled.map_err(|fail| WaitError::of(fail, NONE))
    }

    /// A number that changes whenever this endpoint reads something that the daemon sent. Each poll
    /// may read what an earlier poll looks for, and the descriptor is readable no more. So a
    /// program that polls for names beside others repeats its round while the number changes.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, client) = node.pair();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// # let mut client = m3ipc::asynchronous::AsyncEndpoint::new(client)?;
    /// let mut name = client.begin_name("stock");
    /// while client.poll_name(&mut name)?.is_none() {
    ///     let before = client.activity();
    ///     # // The daemon registers the wait, and then the name comes.
    ///     # let _ = server.name_attach("stock");
    ///     let _message = client.try_receive_bytes(false);
    ///     // The receive may have read the event of the name.
    ///     if client.activity() == before {
    ///         client.ready().await;
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn activity(&self) -> u64 {
        self.endpoint.daemon_activity()
    }

    /// Gives a wait for a name up.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (_server, client) = node.pair();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// # let mut client = m3ipc::asynchronous::AsyncEndpoint::new(client)?;
    /// let mut name = client.begin_name("nobody");
    /// assert_eq!(client.poll_name(&mut name)?, None);
    /// client.end_name(name);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn end_name(&mut self, name: PendingName) {
        if let Some(question) = name.question {
            self.endpoint.drop_question(question);
        }
        self.endpoint.drop_name_wait(&name.wait);
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
    /// Cancel-safe: a drop of the future withdraws the request. If it was taken, its answer is
    /// dropped.
    ///
    /// # Errors
    /// As [`Endpoint::sendrec`].
    pub async fn sendrec(
        &mut self,
        to: Address,
        message: &Message,
    ) -> Result<Message, SendRecError> {
        let pending = self.endpoint.begin_bytes(to, *message, Vec::new(), 0)?;
        let (answer, bytes) = self.finish(pending).await?;
        if !bytes.is_empty() {
            return Err(self.endpoint.cut_answer(answer, bytes.len(), 0));
        }
        Ok(answer)
    }

    /// Sends a request of bytes and waits for the answer and its whole payload. The example is at
    /// [`AsyncEndpoint`].
    ///
    /// Cancel-safe as [`sendrec`](Self::sendrec).
    ///
    /// # Errors
    /// As [`Endpoint::sendrec_bytes`].
    pub async fn sendrec_bytes(
        &mut self,
        to: Address,
        m_type: i32,
        bytes: Vec<u8>,
    ) -> Result<(Message, Vec<u8>), SendRecError> {
        let pending = self.endpoint.begin_bytes(to, Message::new(m_type), bytes, 0)?;
        self.finish(pending).await
    }

    /// Takes a name that is unique in the VM. The example is at [`bind`](Self::bind).
    ///
    /// Cancel-safe: after a drop of the future the endpoint may have the name.
    ///
    /// # Errors
    /// As [`Endpoint::name_attach`].
    pub async fn name_attach(&mut self, name: &str) -> Result<(), NameError> {
        self.ask(crate::endpoint::attach_request(name)).await?;
        Ok(())
    }

    /// The endpoint that has this name. The example is at [`bind`](Self::bind).
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// As [`Endpoint::name_locate`].
    pub async fn name_locate(&mut self, name: &str) -> Result<Address, NameError> {
        match self.ask(Request::NameLocate(name.to_owned())).await? {
            Reply::Number(address) => Ok(Address(address)),
            _ => Err(crate::control::unexpected().into()),
        }
    }

    /// Waits until an endpoint has this name. The example is at [`bind`](Self::bind).
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// As [`Endpoint::wait_name`], without a time limit.
    pub async fn wait_name(&mut self, name: &str) -> Result<Address, WaitError> {
        let mut asked = Asked { owner: self, question: None, wait: NameWait::new(name) };
        loop {
            let Asked { owner, question, wait } = &mut asked;
            let polled = owner.endpoint.poll_name_wait(wait, question);
            if let Some(address) = polled.map_err(|fail| WaitError::of(fail, NONE))? {
                return Ok(address);
            }
            asked.owner.ready().await;
        }
    }

    async fn ask(&mut self, request: Request) -> Result<Reply, Fail> {
        let mut asked = Asked { owner: self, question: None, wait: NameWait::default() };
        loop {
            let owner = &mut *asked.owner;
            if let Some(reply) = owner.endpoint.ask_soon(&mut asked.question, &request)? {
                return Ok(reply);
            }
            owner.ready().await;
        }
    }

    async fn finish(
        &mut self,
        mut pending: PendingRequest,
    ) -> Result<(Message, Vec<u8>), SendRecError> {
        // A drop of the future drops the request, which gives it up.
        loop {
            self.begin_round();
            let polled = self.endpoint.poll_request_bytes(&mut pending);
            self.end_round(!matches!(polled, Ok(None)));
            if let Some(answer) = polled? {
                return Ok(answer);
            }
            self.pause().await;
        }
    }

    /// Sends a message with a payload, and waits until the receiver takes it.
    ///
    /// Cancel-safe: a drop of the future withdraws the message, unless it was taken.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     let received = server.receive_bytes(m3ipc::Source::Any, None);
    /// #     received.map(|(_, bytes)| (bytes, server))
    /// # });
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async move {
    /// # let mut client = m3ipc::asynchronous::AsyncEndpoint::new(client)?;
    /// client.send(to, &m3ipc::Message::new(7), b"any length".to_vec()).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # assert_eq!(thread.join().unwrap()?.0, b"any length");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::begin_send`] and [`Endpoint::poll_send`].
    pub async fn send(
        &mut self,
        to: Address,
        message: &Message,
        bytes: Vec<u8>,
    ) -> Result<(), SendError> {
        let mut pending = self.begin_send(to, message, bytes)?;
        loop {
            self.begin_round();
            let polled = self.endpoint.poll_send(&mut pending);
            self.end_round(!matches!(polled, Ok(false)));
            if polled? {
                return Ok(());
            }
            self.pause().await;
        }
    }

    /// Waits until a poll of the endpoint may find something: for event loops over several pending
    /// messages. Poll first: the endpoint reports what comes after a poll that found nothing. Poll
    /// for names first, then for pending messages, then receive. The example is at
    /// [`try_receive_bytes`](Self::try_receive_bytes).
    ///
    /// Cancel-safe.
    pub fn ready(&self) -> impl Future<Output = ()> + Send {
        // The future holds the descriptor alone, so that tasks may move between threads.
        let fd = &self.fd;
        async move {
            // The next poll of the endpoint drains the doorbell and the control connection.
            if let Ok(mut guard) = fd.readable().await {
                guard.clear_ready();
            }
        }
    }
}

/// A wait for a name, in parts. Finish it with [`AsyncEndpoint::poll_name`], or give it up with
/// [`AsyncEndpoint::end_name`].
#[derive(Debug)]
pub struct PendingName {
    wait: NameWait,
    question: Option<Question>,
}

/// A question to the daemon. A drop gives it up.
struct Asked<'a> {
    owner: &'a mut AsyncEndpoint,
    question: Option<Question>,
    wait: NameWait,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            self.owner.endpoint.drop_question(question);
        }
        self.owner.endpoint.drop_name_wait(&self.wait);
    }
}
