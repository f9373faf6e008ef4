//! Streams and listeners on tokio: their descriptors are registered with the runtime, no thread is needed.

use crate::listener::Listener;
use crate::stream::{How, Stream};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use m3ipc_sys::{Direction, Errno};
use std::io;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const NOW: How = How { wait: false, peek: false };

/// A [`Stream`] for tasks.
#[derive(Debug)]
pub struct AsyncStream(AsyncFd<Stream>);

impl AsyncStream {
    /// Registers a stream with the runtime of the calling task.
    ///
    /// # Errors
    /// Of the registration.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new(stream: Stream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // Deprecated for types whose descriptor can change under it; a stream's cannot.
        #[allow(deprecated)]
        AsyncFd::new(stream).map(Self)
    }

    /// The stream: its addresses, options and counters.
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
        Poll::Ready(self.stream().end(Direction::Send).map_err(io::Error::from))
    }
}

/// A [`Listener`] for tasks.
#[derive(Debug)]
pub struct AsyncListener(AsyncFd<Listener>);

impl AsyncListener {
    /// Registers a listener with the runtime of the calling task.
    ///
    /// # Errors
    /// Of the registration.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new(listener: Listener) -> io::Result<Self> {
        listener.set_nonblocking(true);
        // As above: a listener keeps its epoll for as long as it lives.
        #[allow(deprecated)]
        AsyncFd::new(listener).map(Self)
    }

    /// Takes a connection.
    ///
    /// # Errors
    /// Of [`Listener::accept`].
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
