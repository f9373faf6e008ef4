//! The wires below the libraries: com-sockets, Unix streams, TCP over loopback.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use m3ipc_sockets::{AsyncListener, AsyncPoller, AsyncStream, Domain};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tonic::transport::server::Connected;

use crate::Failure;
use crate::stack::Place;

/// Connections of the waiting line.
const BACKLOG: u32 = 16;

/// A kind of stream.
pub trait Wire: Sized + 'static {
    /// A connection.
    type Line: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static;
    /// The ends of a server.
    type Listener: 'static;

    /// What both sides need.
    fn open(place: &Place) -> Result<Self, Failure>;
    /// A listener, and its address for clients.
    async fn listen(&self) -> Result<(Self::Listener, String), Failure>;
    /// The next connection.
    async fn accept(listener: &Self::Listener) -> io::Result<Self::Line>;
    /// A connection to a server.
    async fn connect(&self, at: &str) -> Result<Self::Line, Failure>;
}

/// Com-sockets, all in one poller.
pub struct Com {
    domain: Domain,
    poller: Rc<AsyncPoller>,
}

impl Wire for Com {
    type Line = AsyncStream;
    type Listener = (AsyncListener, Rc<AsyncPoller>);

    fn open(place: &Place) -> Result<Self, Failure> {
        let domain = Domain::join(&place.directory, &place.vm()?)?;
        Ok(Self { domain, poller: Rc::new(AsyncPoller::new()?) })
    }

    async fn listen(&self) -> Result<(Self::Listener, String), Failure> {
        let listener = self.domain.listen(0, BACKLOG)?;
        let at = listener.local_addr().to_string();
        Ok(((AsyncListener::new(listener)?, Rc::clone(&self.poller)), at))
    }

    async fn accept((listener, poller): &Self::Listener) -> io::Result<AsyncStream> {
        listener.accept_in(poller).await
    }

    async fn connect(&self, at: &str) -> Result<AsyncStream, Failure> {
        Ok(AsyncStream::new_in(&self.poller, self.domain.connect(at.parse()?)?)?)
    }
}

/// Unix streams.
pub struct Unix(PathBuf);

impl Wire for Unix {
    type Line = UnixStream;
    type Listener = UnixListener;

    fn open(place: &Place) -> Result<Self, Failure> {
        Ok(Self(place.directory.join(format!("stack-{}", std::process::id()))))
    }

    async fn listen(&self) -> Result<(UnixListener, String), Failure> {
        Ok((UnixListener::bind(&self.0)?, self.0.display().to_string()))
    }

    async fn accept(listener: &UnixListener) -> io::Result<UnixStream> {
        Ok(listener.accept().await?.0)
    }

    async fn connect(&self, at: &str) -> Result<UnixStream, Failure> {
        Ok(UnixStream::connect(at).await?)
    }
}

/// TCP over loopback.
pub struct Tcp;

impl Wire for Tcp {
    type Line = TcpStream;
    type Listener = TcpListener;

    fn open(_: &Place) -> Result<Self, Failure> {
        Ok(Self)
    }

    async fn listen(&self) -> Result<(TcpListener, String), Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?.to_string();
        Ok((listener, at))
    }

    async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn connect(&self, at: &str) -> Result<TcpStream, Failure> {
        let stream = TcpStream::connect(at).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
