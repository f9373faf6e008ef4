//! Servers: an endpoint that answers requests, and its orderly shutdown.

use crate::client::Client;
use crate::config::Config;
use crate::driver::Driver;
use crate::serve::{Handler, Serve};
use crate::state::{Refusal, Shared};
use m3ipc::asynchronous::AsyncEndpoint;
use std::sync::Arc;
use std::time::Duration;

/// The time for the last answers and refusals, after that of the handlers.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// A server on tokio. A drop ends it and its endpoint at once; [`shutdown`](Self::shutdown) ends it
/// in order.
///
/// ```
/// # let node = m3ipc::test::node();
/// # let (one, two) = node.pair();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async move {
/// # use m3ipc::asynchronous::AsyncEndpoint;
/// use m3ipc_calls::{Client, Config, Request, Server};
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// # let to = one.address();
/// let count = |request: Request| async move {
///     let bytes = request.state::<AtomicU64>().fetch_add(request.bytes.len() as u64, Relaxed);
///     Ok(bytes.to_le_bytes().to_vec())
/// };
/// let server = Server::new(AsyncEndpoint::open(one).await?, Config::default(), count);
/// # let client = Client::new(AsyncEndpoint::open(two).await?, Config::default());
/// client.call_bytes(to, vec![0; 1_000_000], None).await?;
/// let before = client.call_bytes(to, Vec::new(), None).await?;
/// assert_eq!(before, 1_000_000_u64.to_le_bytes());
/// server.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    client: Client,
}

impl Server {
    /// Serves requests at an endpoint. Each handler runs as a task of the runtime. It also answers
    /// the clients of [`Endpoint::call`](m3ipc::Endpoint::call).
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time enabled.
    #[must_use]
    pub fn new(endpoint: AsyncEndpoint, config: Config, handler: impl Handler) -> Self {
        let serve = Serve::new(handler, &config);
        let shared = Arc::new(Shared::default());
        let driver = Driver::new(endpoint, Arc::clone(&shared), config, Some(serve));
        Self { client: Client::of(driver, shared, config) }
    }

    /// A client at the same endpoint, for calls of others. It ends with the server.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Waits until the server has ended: its VM has ended, or its endpoint was unbound. A process
    /// that serves and does nothing else then ends too. Cancel-safe.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (one, _two) = node.pair();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async move {
    /// # use m3ipc::{Node, asynchronous::AsyncEndpoint};
    /// # use m3ipc_calls::{Config, Request, Server};
    /// let echo = |request: Request| async { Ok(request.bytes) };
    /// let server = Server::new(AsyncEndpoint::open(one).await?, Config::default(), echo);
    /// # let vm = node.vm().id();
    /// # let mut other = Node::attach_at(node.directory())?;
    /// # let ends = tokio::task::spawn_blocking(move || other.vm_end(vm).is_ok());
    /// server.ended().await;
    /// # assert!(ends.await?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn ended(&self) {
        let shared = self.client.shared();
        loop {
            let served = shared.served.notified();
            if shared.state().is_closed {
                return;
            }
            served.await;
        }
    }

    /// Ends the server in order: refuses what has not begun (not taken), gives running handlers
    /// `grace`, and waits until their clients have taken the answers and the refusals, up to one
    /// second longer.
    ///
    /// A drop of the future ends the server at once.
    pub async fn shutdown(self, grace: Duration) {
        let shared = self.client.shared();
        {
            let mut state = shared.state();
            state.is_stopping = true;
            let peers = state.peers.values_mut();
            peers.for_each(|peer| peer.refuse_unbegun(Refusal::ShuttingDown));
        }
        shared.changed.notify_one();
        if tokio::time::timeout(grace, self.ended()).await.is_err() {
            shared.state().is_out_of_time = true;
            shared.changed.notify_one();
            let _ = tokio::time::timeout(LAST_ANSWERS, self.ended()).await;
        }
    }
}

impl Drop for Server {
    /// Ends the endpoint, also while clones of its client live.
    fn drop(&mut self) {
        self.client.close();
    }
}
