//! Clients: calls, typed or of bytes, with time limits, cancellation and repeats.

use crate::codec::{Codec, Postcard};
use crate::config::Config;
use crate::deadline::far_away;
use crate::driver::Driver;
use crate::error::{CallError, Fault, Reason};
use crate::room::Room;
use crate::state::{CallResult, Shared};
use crate::stream::StreamEnd;
use crate::stream_user::Stream;
use m3ipc::asynchronous::AsyncEndpoint;
use m3ipc::{Address, WaitError};
use serde::{Serialize, de::DeserializeOwned};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

/// A client of many servers on tokio. Clones share its endpoint, which ends with the last one.
///
/// Each call may be dropped at any time: that cancels its request, and no other. The example is at
/// the [crate](crate).
#[derive(Debug)]
pub struct Client<C: Codec = Postcard> {
    inner: Arc<Inner>,
    codec: PhantomData<fn() -> C>,
}

impl<C: Codec> Clone for Client<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), codec: PhantomData }
    }
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    config: Config,
    outstanding: Semaphore,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.changed.notify_one();
    }
}

/// A request under way. A drop gives it up.
struct InFlight<'a> {
    shared: &'a Shared,
    to: Address,
    number: u64,
    is_ended: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.shared.stop(self.to, self.number, Reason::Cancelled);
        }
    }
}

impl Client {
    /// Makes calls from an endpoint, in postcard.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time enabled.
    #[must_use]
    pub fn new(endpoint: AsyncEndpoint, config: Config) -> Self {
        let shared = Arc::new(Shared::default());
        Self::of(Driver::new(endpoint, Arc::clone(&shared), config, None), shared, config)
    }

    pub(crate) fn of(driver: Driver, shared: Arc<Shared>, config: Config) -> Self {
        tokio::spawn(driver.run());
        let outstanding = Semaphore::new(config.outstanding.min(Semaphore::MAX_PERMITS));
        Self { inner: Arc::new(Inner { shared, config, outstanding }), codec: PhantomData }
    }
}

impl<C: Codec> Client<C> {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    pub(crate) fn close(&self) {
        self.inner.shared.state().is_closed = true;
        self.inner.shared.changed.notify_one();
    }

    /// The same client with another format.
    #[must_use]
    pub fn with_codec<D: Codec>(&self) -> Client<D> {
        Client { inner: Arc::clone(&self.inner), codec: PhantomData }
    }

    /// Calls a server with a value, and waits for the value of the answer.
    ///
    /// Cancel-safe: a drop of the future cancels this request, and no other.
    ///
    /// # Errors
    /// [`CallError`]: its kind says whether the server took the request. An answer that is no
    /// `Rep` is [`CallError::Answered`].
    pub async fn call<Req: Serialize, Rep: DeserializeOwned>(
        &self,
        to: Address,
        request: &Req,
    ) -> Result<Rep, CallError> {
        self.call_until(to, request, None).await
    }

    /// The same call with a time limit, which the server learns.
    ///
    /// Cancel-safe: a drop of the future cancels this request, and no other.
    ///
    /// # Errors
    /// As [`call`](Self::call), and [`Reason::TimedOut`].
    pub async fn call_within<Req: Serialize, Rep: DeserializeOwned>(
        &self,
        to: Address,
        request: &Req,
        limit: Duration,
    ) -> Result<Rep, CallError> {
        self.call_until(to, request, Some(limit)).await
    }

    async fn call_until<Req: Serialize, Rep: DeserializeOwned>(
        &self,
        to: Address,
        request: &Req,
        limit: Option<Duration>,
    ) -> Result<Rep, CallError> {
        let bad = |why| CallError::NotTaken(Reason::BadRequest(why));
        let answer = self.call_bytes(to, C::encode(request).map_err(bad)?, limit).await?;
        let bad = |why| CallError::Answered(Fault::new(format!("not the expected answer: {why}")));
        C::decode(&answer).map_err(bad)
    }

    /// Calls a server with bytes. The example is at [`Server`](crate::Server).
    ///
    /// Cancel-safe: a drop of the future cancels this request, and no other.
    ///
    /// # Errors
    /// As [`call_within`](Self::call_within).
    pub async fn call_bytes(
        &self,
        to: Address,
        bytes: Vec<u8>,
        limit: Option<Duration>,
    ) -> CallResult {
        let Inner { shared, config, outstanding } = &*self.inner;
        check_length(config, &bytes)?;
        let now_ns = m3ipc_sys::monotonic_ns();
        let limit_ns = limit.map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
        let deadline_ns = limit_ns.map_or(0, |limit_ns| now_ns.saturating_add(limit_ns).max(1));
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let end = end.unwrap_or_else(far_away);
        let Ok(permit) = tokio::time::timeout_at(end, outstanding.acquire()).await else {
            return Err(CallError::NotTaken(Reason::TimedOut));
        };
        let Some((number, mut ended, _)) = shared.add(to, bytes, deadline_ns, false) else {
            return Err(CallError::NotTaken(Reason::Closed));
        };
        let mut in_flight = InFlight { shared, to, number, is_ended: false };
        let result = if limit.is_none() {
            (&mut ended).await
        } else {
            match tokio::time::timeout_at(end, &mut ended).await {
                Ok(result) => result,
                Err(_elapsed) => {
                    // The driver knows whether the request was taken.
                    shared.stop(to, number, Reason::TimedOut);
                    (&mut ended).await
                }
            }
        };
        in_flight.is_ended = true;
        drop(permit);
        // The driver ends each request before it ends, unless the runtime has dropped it.
        result.unwrap_or(Err(CallError::Taken(Reason::Closed)))
    }

    /// Begins a call with streams in both directions.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (one, two) = node.pair();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async move {
    /// # use m3ipc::asynchronous::AsyncEndpoint;
    /// # use m3ipc_calls::{Client, Config, Request, Server};
    /// # let to = one.address();
    /// let double = |mut request: Request| async move {
    ///     let mut count = 0_u64;
    ///     while let Some(piece) = request.next().await {
    ///         count += piece.len() as u64;
    ///         request.send(&piece.repeat(2)).await;
    ///     }
    ///     Ok(count.to_le_bytes().to_vec())
    /// };
    /// # let _server = Server::new(AsyncEndpoint::open(one).await?, Config::default(), double);
    /// # let client = Client::new(AsyncEndpoint::open(two).await?, Config::default());
    /// let mut call = client.open(to, Vec::new());
    /// call.send(b"ab").await;
    /// assert_eq!(call.next().await, Some(b"abab".to_vec()));
    /// call.finish();
    /// assert_eq!(call.answer().await?, 2_u64.to_le_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn open(&self, to: Address, bytes: Vec<u8>) -> OpenCall {
        let shared = Arc::clone(&self.inner.shared);
        let checked = check_length(&self.inner.config, &bytes);
        let added = checked.map(|()| shared.add(to, bytes, 0, true));
        let (number, ended, half) = match added {
            Ok(Some((number, ended, half))) => (number, Some(ended), half),
            Ok(None) => (u64::MAX, None, None),
            Err(error) => {
                let (end, ended) = oneshot::channel();
                // The other half is here.
                let _ = end.send(Err(error));
                (u64::MAX, Some(ended), None)
            }
        };
        // The stream of no request: its other end is gone.
        let half = half.unwrap_or_else(|| StreamEnd::pair(0, 0, Room::default()).1);
        let (epoch, is_asked, consumed) = (None, false, 0);
        let stream = Stream { shared, peer: to, number, half, epoch, is_asked, consumed };
        OpenCall { stream, ended, owner: Arc::clone(&self.inner) }
    }

    /// Waits until an endpoint has this name. Cancel-safe.
    ///
    /// # Errors
    /// As [`Endpoint::wait_name`](m3ipc::Endpoint::wait_name), without a time limit.
    pub async fn wait_name(&self, name: &str) -> Result<Address, WaitError> {
        let (end, found) = oneshot::channel();
        let gone = WaitError::Unbound(m3ipc::Code::NotBind);
        {
            let mut state = self.inner.shared.state();
            if state.is_closed {
                return Err(gone);
            }
            state.names.push((name.to_owned(), end));
        }
        self.inner.shared.changed.notify_one();
        found.await.unwrap_or(Err(gone))
    }

    /// Calls the server that has a name. Repeats a request that was *not taken*, at the server that
    /// has the name then; never one that may have been taken.
    ///
    /// Cancel-safe: a drop of the future cancels this request, and no other.
    ///
    /// # Errors
    /// That of the last attempt.
    pub async fn call_named<Req: Serialize, Rep: DeserializeOwned>(
        &self,
        name: &str,
        request: &Req,
        retry: Retry,
    ) -> Result<Rep, CallError> {
        let end = Instant::now().checked_add(retry.limit).unwrap_or_else(far_away);
        let mut pause = retry.pause;
        loop {
            let to = match tokio::time::timeout_at(end, self.wait_name(name)).await {
                Ok(Ok(to)) => to,
                Ok(Err(_)) => return Err(CallError::NotTaken(Reason::Closed)),
                Err(_elapsed) => return Err(CallError::NotTaken(Reason::TimedOut)),
            };
            let left = end.saturating_duration_since(Instant::now());
            match self.call_within(to, request, left).await {
                Err(CallError::NotTaken(reason)) if reason.is_passing() => {
                    if Instant::now() + pause >= end {
                        return Err(CallError::NotTaken(reason));
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(retry.pause * 64);
                }
                ended => return ended,
            }
        }
    }
}

fn check_length(config: &Config, bytes: &[u8]) -> Result<(), CallError> {
    let (length, limit) = (bytes.len(), config.max_body_bytes);
    if length <= limit {
        return Ok(());
    }
    let why = format!("{length} bytes are more than max_body_bytes ({limit})");
    Err(CallError::NotTaken(Reason::BadRequest(why)))
}

/// A call with streams. A drop cancels it. The example is at [`Client::open`].
#[derive(Debug)]
pub struct OpenCall {
    stream: Stream,
    ended: Option<oneshot::Receiver<CallResult>>,
    /// Keeps the endpoint.
    owner: Arc<Inner>,
}

impl OpenCall {
    /// Sends bytes of the client's stream, as fast as the handler asks for them. `false` after
    /// [`finish`](Self::finish), or if the call has ended: [`answer`](Self::answer) says how. A
    /// drop of the future leaves out the rest of the bytes.
    pub async fn send(&self, bytes: &[u8]) -> bool {
        self.stream.send(bytes).await
    }

    /// Ends the client's stream.
    pub fn finish(&self) {
        self.stream.finish();
    }

    /// The next piece of the server's stream; `None` after the last one, or if the call has ended.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.stream.next().await
    }

    /// Waits for the answer. A drop of the future cancels the call.
    ///
    /// # Errors
    /// As [`Client::call_bytes`].
    pub async fn answer(mut self) -> CallResult {
        self.finish();
        // The server may have more pieces than the caller read.
        while self.stream.next().await.is_some() {}
        match &mut self.ended {
            Some(ended) => ended.await.unwrap_or(Err(CallError::Taken(Reason::Closed))),
            None => Err(CallError::NotTaken(Reason::Closed)),
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        // Without effect on a request that has ended.
        let Stream { shared: _, peer, number, .. } = &self.stream;
        self.owner.shared.stop(*peer, *number, Reason::Cancelled);
    }
}

impl Reason {
    /// Whether another attempt may succeed.
    fn is_passing(&self) -> bool {
        matches!(self, Self::Died | Self::Moved | Self::Busy | Self::ShuttingDown)
    }
}

/// The limits of repeated attempts: see [`Client::call_named`].
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// The time of all attempts together.
    pub limit: Duration,
    /// The pause before the second attempt. It doubles up to 64 times.
    pub pause: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { limit: Duration::from_secs(30), pause: Duration::from_millis(1) }
    }
}
