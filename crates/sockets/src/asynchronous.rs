//! Streams and listeners on tokio. The runtime polls their descriptors; no thread is needed.

use crate::listener::Listener;
use crate::stream::{ReceiveOptions, Stream};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use m3ipc_sys::{Direction, Errno};
use std::io;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const NOW: ReceiveOptions = ReceiveOptions { wait: false, peek: false };

/// A [`Stream`] for tokio tasks.
#[derive(Debug)]
pub struct AsyncStream(AsyncFd<Stream>);

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
        AsyncFd::new(stream).map(Self)
    }

    /// The stream, with its addresses, options and counters.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.0.get_ref()
    }
}

impl AsyncRead for AsyncStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            match guard.get_inner().receive(into.initialize_unfilled(), NOW) {
                Ok(count) => {
                    into.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }
}

impl AsyncWrite for AsyncStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            match guard.get_inner().send(bytes, false) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream().shutdown(Direction::Send).map_err(io::Error::from))
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
        loop {
            let mut guard = self.0.readable().await?;
            match guard.get_inner().accept() {
                Ok((stream, _)) => return AsyncStream::new(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) => return Err(error),
            }
        }
    }
}
