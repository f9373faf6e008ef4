//! Streams and listeners on tokio. The runtime polls their descriptors; no thread is needed.
//!
//! A stream of an [`AsyncPoller`] is not awaited by the runtime but by a poller of com-sockets,
//! which a task polls. While tasks are busy, bytes come without a wakeup record and without a call
//! of the kernel. When the poller sleeps, the runtime awaits the poller's descriptor.

use crate::listener::Listener;
use crate::polled::PollEvent;
use crate::poller::Poller;
use crate::stream::{ReceiveOptions, Stream};
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use m3ipc_sys::{Direction, Errno, Interest, Mode};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const NOW: ReceiveOptions = ReceiveOptions { wait: false, peek: false };

/// Polls in one turn of the task of an [`AsyncPoller`], while other tasks may run between turns.
const POLLS_OF_TURN: u32 = 32;
/// Turns without an event before the poller sleeps.
const IDLE_TURNS: u32 = 16;

/// A [`Stream`] for tokio tasks.
#[derive(Debug)]
pub struct AsyncStream(Awaited);

#[derive(Debug)]
enum Awaited {
    ByRuntime(AsyncFd<Stream>),
    ByPoller(PolledStream),
}

impl AsyncStream {
    /// Registers a stream with the runtime of the calling task, and makes it non-blocking.
    ///
    /// # Errors
    /// Those of the runtime's registration.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn new(stream: Stream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // Deprecated for types whose descriptor may change. The descriptor of a stream never
        // changes.
        #[allow(deprecated)]
        let registered = AsyncFd::new(stream)?;
        Ok(Self(Awaited::ByRuntime(registered)))
    }

    /// Adds a stream to a poller, and makes it non-blocking.
    ///
    /// # Errors
    /// Those of [`Poller::add`].
    pub fn new_in(poller: &AsyncPoller, stream: Stream) -> io::Result<Self> {
        Ok(Self(Awaited::ByPoller(PolledStream::new(Arc::clone(&poller.0), stream)?)))
    }

    /// The stream, with its addresses, options and counters.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        match &self.0 {
            Awaited::ByRuntime(registered) => registered.get_ref(),
            Awaited::ByPoller(polled) => &polled.stream,
        }
    }

    /// Calls `act` until it is done, or not again before the stream is ready.
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        writes: bool,
        mut act: impl FnMut(&Stream) -> Result<T, Errno>,
    ) -> Poll<io::Result<T>> {
        match &self.0 {
            Awaited::ByRuntime(registered) => loop {
                let mut guard = if writes {
                    ready!(registered.poll_write_ready(cx))?
                } else {
                    ready!(registered.poll_read_ready(cx))?
                };
                match act(guard.get_inner()) {
                    Err(Errno::AGAIN) => guard.clear_ready(),
                    done => return Poll::Ready(done.map_err(io::Error::from)),
                }
            },
            Awaited::ByPoller(polled) => polled.poll(cx, writes, act),
        }
    }
}

impl AsyncRead for AsyncStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = into.initialize_unfilled();
        let count = ready!(self.poll(cx, false, |stream| stream.receive(room, NOW)))?;
        into.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AsyncStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, true, |stream| stream.send(bytes, false))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream().shutdown(Direction::Send).map_err(io::Error::from))
    }
}

/// A poller of com-sockets in a tokio runtime: see [`AsyncStream::new_in`].
///
/// A task polls while there are events, and some microseconds longer. Then the runtime awaits the
/// poller's descriptor. The task ends with the poller and its last stream.
#[derive(Debug)]
pub struct AsyncPoller(Arc<PollerTask>);

/// The task of a poller, for the poller and its streams. Ends it on drop.
#[derive(Debug)]
struct PollerTask {
    shared: Arc<PollerOfTasks>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct PollerOfTasks {
    poller: Poller,
    streams: Mutex<HashMap<u64, Arc<Readiness>>>,
    next: AtomicU64,
    /// The poller has failed, and tells of no more events.
    has_failed: AtomicBool,
}

/// The poller as the runtime registers it.
#[derive(Debug)]
struct PollerFd(Arc<PollerOfTasks>);

impl AsRawFd for PollerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.poller.as_raw_fd()
    }
}

/// The wakers of the tasks of one stream, to read and to write.
#[derive(Debug, Default)]
struct Readiness([Mutex<Option<Waker>>; 2]);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncPoller {
    /// A poller whose task runs in the runtime of the calling task, until the poller and its last
    /// stream are dropped.
    ///
    /// # Errors
    /// Those of [`Poller::new`] and of the runtime's registration.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn new() -> io::Result<Self> {
        let shared = Arc::new(PollerOfTasks {
            poller: Poller::new()?,
            streams: Mutex::default(),
            next: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
        });
        #[allow(deprecated)]
        let registered =
            AsyncFd::with_interest(PollerFd(Arc::clone(&shared)), tokio::io::Interest::READABLE)?;
        let driven = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            if drive(registered).await.is_err() {
                driven.fail();
            }
        });
        Ok(Self(Arc::new(PollerTask { shared, task })))
    }
}

impl Drop for PollerTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Polls, and wakes the tasks of ready streams.
async fn drive(registered: AsyncFd<PollerFd>) -> io::Result<()> {
    let shared = Arc::clone(&registered.get_ref().0);
    let (mut events, mut idle) = (Vec::new(), 0);
    loop {
        for _ in 0..POLLS_OF_TURN {
            shared.poller.poll(&mut events)?;
            if !events.is_empty() {
                break;
            }
            m3ipc_sys::relax();
        }
        if events.is_empty() {
            idle += 1;
            if idle < IDLE_TURNS {
                tokio::task::yield_now().await;
                continue;
            }
            // The runtime awaits edges: first take all that the kernel has.
            let may_sleep = shared.poller.prepare_sleep()?;
            shared.poller.wait(&mut events, Some(Duration::ZERO))?;
            if may_sleep && events.is_empty() {
                registered.readable().await?.clear_ready();
            }
        }
        idle = 0;
        for event in events.drain(..) {
            shared.wake(&event);
        }
        tokio::task::yield_now().await;
    }
}

impl PollerOfTasks {
    /// Ends the waits of all streams.
    fn fail(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
        let all: Vec<_> = lock(&self.streams).values().map(Arc::clone).collect();
        for waker in all.iter().flat_map(|readiness| &readiness.0) {
            let waker = lock(waker).take();
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes the tasks of a ready stream.
    fn wake(&self, event: &PollEvent) {
        let readiness = lock(&self.streams).get(&event.token).map(Arc::clone);
        let Some(readiness) = readiness else { return };
        let ready = [event.readable || event.hung_up, event.writable || event.hung_up];
        for (waker, _) in readiness.0.iter().zip(ready).filter(|(_, ready)| *ready) {
            // Taken first: the task may lock it at once.
            let waker = lock(waker).take();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// A stream in an [`AsyncPoller`].
#[derive(Debug)]
struct PolledStream {
    /// Its task polls as long as one of its streams lives.
    poller: Arc<PollerTask>,
    stream: Stream,
    readiness: Arc<Readiness>,
    token: u64,
}

impl PolledStream {
    fn new(poller: Arc<PollerTask>, stream: Stream) -> io::Result<Self> {
        let shared = &poller.shared;
        let token = shared.next.fetch_add(1, Ordering::Relaxed);
        let readiness = Arc::new(Readiness::default());
        lock(&shared.streams).insert(token, Arc::clone(&readiness));
        let polled = Self { poller, stream, readiness, token };
        // Edges: a task that does not read must not keep the poller awake.
        polled.poller.shared.poller.add(
            &polled.stream,
            token,
            Interest::ReadOrWrite,
            Mode::Edge,
        )?;
        Ok(polled)
    }

    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        writes: bool,
        mut act: impl FnMut(&Stream) -> Result<T, Errno>,
    ) -> Poll<io::Result<T>> {
        match act(&self.stream) {
            Err(Errno::AGAIN) => {}
            done => return Poll::Ready(done.map_err(io::Error::from)),
        }
        *lock(&self.readiness.0[usize::from(writes)]) = Some(cx.waker().clone());
        // An event between the first attempt and the waker woke nobody.
        match act(&self.stream) {
            Err(Errno::AGAIN) if self.poller.shared.has_failed.load(Ordering::SeqCst) => {
                Poll::Ready(Err(io::Error::other("the poller of the stream has failed")))
            }
            Err(Errno::AGAIN) => Poll::Pending,
            done => Poll::Ready(done.map_err(io::Error::from)),
        }
    }
}

impl Drop for PolledStream {
    fn drop(&mut self) {
        // A child by fork may find the lock held for ever.
        if self.stream.check_process().is_ok() {
            lock(&self.poller.shared.streams).remove(&self.token);
        }
    }
}

/// A [`Listener`] for tokio tasks.
#[derive(Debug)]
pub struct AsyncListener(AsyncFd<Listener>);

impl AsyncListener {
    /// Registers a listener with the runtime of the calling task, and makes it non-blocking.
    ///
    /// # Errors
    /// Those of the runtime's registration.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn new(listener: Listener) -> io::Result<Self> {
        listener.set_nonblocking(true);
        // As above: a listener keeps one epoll descriptor for its whole life.
        #[allow(deprecated)]
        AsyncFd::new(listener).map(Self)
    }

    /// Accepts a connection. Cancel safe: a dropped call accepts nothing.
    ///
    /// # Errors
    /// Those of [`Listener::accept`].
    pub async fn accept(&self) -> io::Result<AsyncStream> {
        AsyncStream::new(self.accept_stream().await?)
    }

    /// Accepts a connection into a poller. Cancel safe.
    ///
    /// # Errors
    /// Those of [`Listener::accept`] and of [`AsyncStream::new_in`].
    pub async fn accept_in(&self, poller: &AsyncPoller) -> io::Result<AsyncStream> {
        AsyncStream::new_in(poller, self.accept_stream().await?)
    }

    async fn accept_stream(&self) -> io::Result<Stream> {
        loop {
            let mut guard = self.0.readable().await?;
            match guard.get_inner().accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) => return Err(error),
            }
        }
    }
}
