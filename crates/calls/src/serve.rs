//! Serving: handlers, the limit of their number, the state for each client.

use crate::codec::{Codec, Postcard};
use crate::config::Config;
use crate::deadline::far_away;
use crate::error::Fault;
use crate::room::Room;
use crate::state::{Answer, Begun, Refusal, Shared};
use crate::stream_user::Stream;
use m3ipc::{Address, Identity, Message};
use serde::{Serialize, de::DeserializeOwned};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

const TOO_LONG: &str = "the answer is longer than max_body_bytes";

/// The future of a handler.
type Handling = Pin<Box<dyn Future<Output = Result<Vec<u8>, Fault>> + Send>>;

/// A function that answers requests. Closures that return such futures are handlers. A drop of the
/// future, at any `await`, is the cancellation of the request. The example is at
/// [`Server`](crate::Server).
pub trait Handler: Send + Sync + 'static {
    /// Answers a request.
    fn handle(&self, request: Request) -> Handling;
}

impl<F, A> Handler for F
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Vec<u8>, Fault>> + Send + 'static,
{
    fn handle(&self, request: Request) -> Handling {
        Box::pin(self(request))
    }
}

/// A handler of typed requests, in postcard. The example is at the [crate](crate).
pub fn typed<Req, Rep, F, A>(handler: F) -> impl Handler
where
    Req: DeserializeOwned + Send + 'static,
    Rep: Serialize + Send + 'static,
    F: Fn(Req, Request) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Rep, Fault>> + Send + 'static,
{
    typed_with::<Postcard, _, _, _, _>(handler)
}

/// A handler of typed requests in another format.
pub fn typed_with<C, Req, Rep, F, A>(handler: F) -> impl Handler
where
    C: Codec,
    Req: DeserializeOwned + Send + 'static,
    Rep: Serialize + Send + 'static,
    F: Fn(Req, Request) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Rep, Fault>> + Send + 'static,
{
    move |request: Request| {
        let decoded = C::decode(&request.bytes);
        let answer = decoded.map(|decoded| handler(decoded, request));
        async move {
            let bad = |why| Fault::new(format!("not a request of this server: {why}"));
            C::encode(&answer.map_err(bad)?.await?).map_err(Fault::new)
        }
    }
}

/// A request in a handler.
#[derive(Debug)]
pub struct Request {
    /// The bytes of the request.
    pub bytes: Vec<u8>,
    client: Arc<PerClient>,
    deadline: Option<Instant>,
    stream: Option<Stream>,
}

impl Request {
    /// The client, as the daemon vouches for it.
    #[must_use]
    pub fn client(&self) -> Identity {
        self.client.identity
    }

    /// The end of the client's patience. The server drops the handler then.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The server's state for this client: the same value for each of its requests. It ends with
    /// the client and its last handler. The example is at [`Server`](crate::Server).
    #[must_use]
    pub fn state<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut states = self.client.states.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(T::default()) as Arc<dyn Any + Send + Sync>;
        let state = states.entry(TypeId::of::<T>()).or_insert_with(made);
        Arc::clone(state).downcast().expect("the entry is of the type in its key")
    }

    /// The next piece of the client's stream; `None` after the last one. The client sends as fast
    /// as the handler asks. Cancel-safe: a drop of the future loses no piece. The example is at
    /// [`Client::open`](crate::Client::open).
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        match &mut self.stream {
            Some(stream) => stream.next().await,
            None => None,
        }
    }

    /// Sends bytes to the client before the answer, as fast as the client asks for them. `false` if
    /// the request has ended, or its client takes the answer alone. A drop of the future leaves out
    /// the rest of the bytes. The example is at [`Client::open`](crate::Client::open).
    pub async fn send(&self, bytes: &[u8]) -> bool {
        match &self.stream {
            Some(stream) => stream.send(bytes).await,
            None => false,
        }
    }

    /// Waits for the end of the client. The server drops the handlers of a dead client; a task of
    /// its own may use this. Cancel-safe.
    pub fn client_ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.client.ended.subscribe();
        async move {
            // An error is the end of the server.
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }
}

#[derive(Debug)]
struct PerClient {
    identity: Identity,
    states: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    ended: watch::Sender<bool>,
    /// The share of the client in the handlers: others go on when its handlers wait for it.
    permits: Semaphore,
}

/// The serving part of an endpoint.
pub(crate) struct Serve {
    handler: Arc<dyn Handler>,
    permits: Arc<Semaphore>,
    /// Handlers of one client at a time.
    client_share: usize,
    clients: HashMap<i32, Arc<PerClient>>,
    max_body_bytes: usize,
    /// Handlers of requests of `Endpoint::call`, by the address of the client.
    plain: HashMap<i32, AbortHandle>,
}

impl Serve {
    pub(crate) fn new(handler: impl Handler, config: &Config) -> Self {
        let concurrency = config.concurrency.min(Semaphore::MAX_PERMITS);
        Self {
            handler: Arc::new(handler),
            permits: Arc::new(Semaphore::new(concurrency)),
            client_share: concurrency.div_ceil(2),
            clients: HashMap::new(),
            max_body_bytes: config.max_body_bytes,
            plain: HashMap::new(),
        }
    }

    fn client(&mut self, identity: Identity) -> Arc<PerClient> {
        let share = self.client_share;
        let client = self.clients.entry(identity.address.0).or_insert_with(|| {
            let (states, ended) = (Mutex::default(), watch::Sender::new(false));
            Arc::new(PerClient { identity, states, ended, permits: Semaphore::new(share) })
        });
        Arc::clone(client)
    }

    pub(crate) fn end_client(&mut self, address: i32) {
        if let Some(client) = self.clients.remove(&address) {
            client.ended.send_replace(true);
        }
        if let Some(plain) = self.plain.remove(&address) {
            plain.abort();
        }
    }

    /// Ends the handlers of all requests of `Endpoint::call`.
    pub(crate) fn end_plain(&mut self) {
        self.plain.drain().for_each(|(_, plain)| plain.abort());
    }

    /// Begins a request as soon as a permit is free.
    pub(crate) fn begin(&mut self, shared: &Arc<Shared>, client: Identity, begun: Begun) {
        let (from, epoch, number) = (client.address, begun.epoch, begun.number);
        let deadline = deadline_of(begun.deadline_ns);
        let room = begun.stream.room.clone();
        let stream = Stream {
            shared: Arc::clone(shared),
            peer: from,
            number,
            half: begun.stream,
            epoch: Some(epoch),
            is_asked: false,
            consumed: 0,
        };
        let client = self.client(client);
        let owner = Arc::clone(&client);
        let request = Request { bytes: begun.body, client, deadline, stream: Some(stream) };
        let (handler, permits) = (Arc::clone(&self.handler), Arc::clone(&self.permits));
        let max_body_bytes = self.max_body_bytes;
        let (has_begun, is_ended) = (false, false);
        let mut open =
            Open { shared: Arc::clone(shared), from, epoch, number, has_begun, is_ended };
        let task = tokio::spawn(async move {
            let end = deadline.unwrap_or_else(far_away);
            // The client's own permit first: a request that waits for it holds up no other client.
            let both = async {
                let own = owner.permits.acquire().await.ok()?;
                Some((own, permits.acquire().await.ok()?))
            };
            let Ok(Some((_own, permit))) = tokio::time::timeout_at(end, both).await else {
                open.end(Answer::Refused(Refusal::TimedOut), 0);
                return;
            };
            if deadline.is_some_and(|end| end <= Instant::now()) {
                open.end(Answer::Refused(Refusal::TimedOut), 0);
                return;
            }
            if !open.begin() {
                return;
            }
            let handled = tokio::time::timeout_at(end, handler.handle(request)).await;
            drop(permit);
            let fault = |text: &str| Err(Fault::new(text));
            let answer = match handled {
                Ok(Ok(bytes)) if bytes.len() > max_body_bytes => fault(TOO_LONG),
                Ok(answer) => answer,
                Err(_elapsed) => fault("the time limit of the request passed"),
            };
            open.answer(&room, &answer).await;
        });
        let mut state = shared.state();
        let peer = state.peer_of(from.0, epoch);
        if !peer.is_some_and(|peer| peer.set_abort(number, task.abort_handle())) {
            // The request was given up in the train that brought it, or has its answer.
            task.abort();
        }
    }

    /// Begins the request of a client that waits in `Endpoint::call` or `sendrec`.
    pub(crate) fn begin_plain(
        &mut self,
        shared: &Arc<Shared>,
        client: Identity,
        message: Message,
        bytes: Vec<u8>,
    ) {
        let key = shared.state().open_plain(message.source.0);
        let mut open = OpenPlain { shared: Arc::clone(shared), key, message, answer: None };
        if open.is_refused() {
            return;
        }
        let max_body_bytes = self.max_body_bytes;
        if bytes.len() > max_body_bytes {
            return open.fail("the request is longer than max_body_bytes");
        }
        let address = message.source.0;
        let client = self.client(client);
        let request = Request { bytes, client, deadline: None, stream: None };
        let (handler, permits) = (Arc::clone(&self.handler), Arc::clone(&self.permits));
        let task = tokio::spawn(async move {
            // Moves the whole, whose drop answers.
            let mut open = open;
            let _permit = permits.acquire_owned().await;
            if open.is_refused() {
                return;
            }
            match handler.handle(request).await {
                Ok(bytes) if bytes.len() > max_body_bytes => {
                    open.fail(TOO_LONG);
                }
                answer => open.answer = Some(answer),
            }
        });
        // A client waits for one request at a time: an earlier one has ended, or was given up.
        if let Some(earlier) = self.plain.insert(address, task.abort_handle()) {
            earlier.abort();
        }
    }
}

/// An open request. The end of its task without an answer is a failure as the answer, or a refusal
/// if its handler never began.
struct Open {
    shared: Arc<Shared>,
    from: Address,
    epoch: u64,
    number: u64,
    has_begun: bool,
    is_ended: bool,
}

impl Open {
    fn begin(&mut self) -> bool {
        let mut state = self.shared.state();
        let peer = state.peer_of(self.from.0, self.epoch);
        self.has_begun = peer.is_some_and(|peer| peer.begin(self.number));
        self.has_begun
    }

    /// Ends the request, when the client has room for its answer.
    async fn answer(mut self, room: &Room, answer: &Result<Vec<u8>, Fault>) {
        let (bytes, answer) = match answer {
            Ok(bytes) => (bytes.len(), Answer::Bytes(bytes)),
            Err(fault) => (fault.message.len(), Answer::Fault(&fault.message)),
        };
        match room.part(bytes).await {
            Some(part) => {
                if self.end(answer, part.cost()) {
                    part.keep();
                }
            }
            // The client has gone.
            None => self.is_ended = true,
        }
    }

    /// Queues the end. `false` if the request was given up.
    fn end(&mut self, answer: Answer<'_>, cost: usize) -> bool {
        self.is_ended = true;
        let mut state = self.shared.state();
        let peer = state.peer_of(self.from.0, self.epoch);
        let is_queued = peer.is_some_and(|peer| peer.answer(self.number, answer, cost));
        drop(state);
        if is_queued {
            self.shared.changed.notify_one();
        }
        is_queued
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let end = match self.has_begun {
            true => Answer::Fault("the handler of the request panicked or was stopped"),
            // The runtime ends.
            false => Answer::Refused(Refusal::ShuttingDown),
        };
        if !self.is_ended {
            self.end(end, 0);
        }
    }
}

struct OpenPlain {
    shared: Arc<Shared>,
    key: u64,
    message: Message,
    answer: Option<Result<Vec<u8>, Fault>>,
}

impl OpenPlain {
    fn fail(&mut self, why: &str) {
        self.answer = Some(Err(Fault::new(why)));
    }

    /// Refuses the request if the server shuts down.
    fn is_refused(&mut self) -> bool {
        let is_stopping = self.shared.state().is_stopping;
        if is_stopping {
            self.fail("the server shuts down");
        }
        is_stopping
    }
}

impl Drop for OpenPlain {
    fn drop(&mut self) {
        let gone = || Err(Fault::new("the handler of the request panicked or was stopped"));
        let answer = self.answer.take().unwrap_or_else(gone);
        self.shared.state().answer_plain(self.key, self.message, answer);
        self.shared.changed.notify_one();
    }
}

fn deadline_of(deadline_ns: u64) -> Option<Instant> {
    let left_ns = deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
    // A peer may say any number: far ahead is no deadline.
    (deadline_ns != 0)
        .then(|| Instant::now().checked_add(Duration::from_nanos(left_ns)).unwrap_or_else(far_away))
}
