//! The ends of a connection in a measured process.
//!
//! The kernel's sockets are used through the standard library, which makes the calls of the C
//! library: a preload library sees them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use m3ipc_sockets::{Direction, Domain, Listener, Stream};

use super::kinds::{BACKLOG, SocketKind};
use crate::error::Error;
use crate::subject::Inherited;
use crate::subjects::node::VmPeer;

/// Domains of the two sides, and the server's port.
const SERVER: u32 = 0;
const CLIENT: u32 = 1;
const PORT: u16 = 80;

/// One end of a connection.
pub enum Line {
    /// A com-socket.
    Com(Box<Stream>),
    /// A Unix stream.
    Unix(UnixStream),
    /// TCP.
    Tcp(TcpStream),
    /// Two pipes: the input, and the output until the end.
    Pipe(File, Option<File>),
}

/// A source of connections: an address to connect to, or a listener.
pub enum Port {
    /// Connects com-sockets.
    ToCom(Domain),
    /// Accepts com-sockets.
    Com(Listener),
    /// Connects Unix streams.
    ToUnix(SocketAddr),
    /// Accepts Unix streams.
    Unix(UnixListener),
    /// Connects by TCP.
    ToTcp(SocketAddrV4),
    /// Accepts TCP.
    Tcp(TcpListener),
}

impl Port {
    /// The server's listener.
    pub fn server(kind: SocketKind, mut inherited: Inherited) -> Result<Self, Error> {
        Ok(match kind {
            SocketKind::Unix | SocketKind::ShimUnix => Self::Unix(inherited.take()?.into()),
            SocketKind::Tcp | SocketKind::ShimTcp => Self::Tcp(inherited.take()?.into()),
            _ => {
                let listener = domain(&inherited, SERVER)?.listen(PORT, BACKLOG);
                Self::Com(listener.map_err(Error::of("listen at a port"))?)
            }
        })
    }

    /// The address for the client.
    pub fn client(kind: SocketKind, inherited: &Inherited) -> Result<Self, Error> {
        let name = inherited.name()?;
        Ok(match kind {
            SocketKind::Unix | SocketKind::ShimUnix => Self::ToUnix(
                SocketAddr::from_abstract_name(name).map_err(Error::os("name a socket"))?,
            ),
            SocketKind::Tcp | SocketKind::ShimTcp => {
                let wrong = |_| Error::Usage(format!("{name:?} is no address of TCP"));
                Self::ToTcp(name.parse().map_err(wrong)?)
            }
            _ => Self::ToCom(domain(inherited, CLIENT)?),
        })
    }

    /// The next connection.
    pub fn next(&self) -> Result<Line, Error> {
        let com = |stream| Line::Com(Box::new(stream));
        let line = match self {
            Self::ToCom(domain) => {
                let to = SocketAddrV4::new(domain.address_of(SERVER), PORT);
                return domain.connect(to).map(com).map_err(Error::of("connect a com-socket"));
            }
            Self::ToUnix(address) => UnixStream::connect_addr(address).map(Line::Unix),
            Self::ToTcp(address) => TcpStream::connect(address).map(Line::Tcp),
            Self::Com(listener) => listener.accept().map(|(stream, _)| com(stream)),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Line::Unix(stream)),
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Line::Tcp(stream)),
        };
        line.map_err(Error::os("connect, or accept a connection"))
    }

    /// The next connection, without Nagle's delay.
    pub fn next_without_delay(&self) -> Result<Line, Error> {
        let line = self.next()?;
        if let Line::Tcp(stream) = &line {
            stream.set_nodelay(true).map_err(Error::os("set TCP_NODELAY"))?;
        }
        Ok(line)
    }
}

fn domain(inherited: &Inherited, number: u32) -> Result<Domain, Error> {
    let peer = VmPeer::new(inherited)?;
    Domain::join_numbered(&peer.directory, &peer.vm, number).map_err(Error::of("join a domain"))
}

impl Line {
    /// The inherited end of two pipes.
    pub fn pipe(mut inherited: Inherited) -> Result<Self, Error> {
        Ok(Self::Pipe(inherited.take()?.into(), Some(inherited.take()?.into())))
    }

    /// Sends all bytes.
    #[inline]
    pub fn put(&self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Self::Com(stream) => (&mut &**stream).write_all(bytes),
            Self::Unix(stream) => (&mut &*stream).write_all(bytes),
            Self::Tcp(stream) => (&mut &*stream).write_all(bytes),
            Self::Pipe(_, Some(file)) => (&mut &*file).write_all(bytes),
            Self::Pipe(_, None) => Err(io::ErrorKind::BrokenPipe.into()),
        }
        .map_err(gone)
    }

    /// Receives at least one byte; none at the end of the stream.
    #[inline]
    pub fn get_some(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = match self {
                Self::Com(stream) => (&mut &**stream).read(bytes),
                Self::Unix(stream) => (&mut &*stream).read(bytes),
                Self::Tcp(stream) => (&mut &*stream).read(bytes),
                Self::Pipe(file, _) => (&mut &*file).read(bytes),
            };
            match got {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Receives until the buffer is full; `false` at an end before the first byte.
    #[inline]
    pub fn get(&self, bytes: &mut [u8]) -> Result<bool, Error> {
        let mut got = 0;
        while got < bytes.len() {
            match self.get_some(&mut bytes[got..]).map_err(gone)? {
                0 if got == 0 => return Ok(false),
                0 => return Err(Error::PeerGone),
                more => got += more,
            }
        }
        Ok(true)
    }

    /// Receives a full buffer.
    #[inline]
    pub fn get_all(&self, bytes: &mut [u8]) -> Result<(), Error> {
        if self.get(bytes)? { Ok(()) } else { Err(Error::PeerGone) }
    }

    /// Ends the outgoing stream.
    pub fn end(&mut self) -> Result<(), Error> {
        match self {
            Self::Com(stream) => stream.shutdown(Direction::Send).map_err(io::Error::from),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Pipe(_, file) => {
                drop(file.take());
                Ok(())
            }
        }
        .map_err(gone)
    }

    /// Lets calls fail instead of wait.
    pub fn set_nonblocking(&self) -> Result<(), Error> {
        match self {
            Self::Com(stream) => stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Pipe(..) => Ok(()),
        }
        .map_err(Error::os("make a socket non-blocking"))
    }

    /// Wakeups that this side sent, for com-sockets.
    pub fn wakeups(&self) -> Option<u64> {
        match self {
            Self::Com(stream) => Some(stream.wakeups().sent),
            _ => None,
        }
    }
}

/// Wakeups of several connections.
pub fn wakeups(lines: &[Line]) -> Option<u64> {
    let each: Vec<u64> = lines.iter().filter_map(Line::wakeups).collect();
    (!each.is_empty()).then(|| each.iter().sum())
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Com(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Pipe(file, _) => file.as_fd(),
        }
    }
}

/// Converts an error of a connection.
pub fn gone(error: io::Error) -> Error {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WriteZero};
    match error.kind() {
        BrokenPipe | ConnectionReset | UnexpectedEof | WriteZero => Error::PeerGone,
        _ => Error::os("read or write a connection")(error),
    }
}
