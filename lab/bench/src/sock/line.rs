//! The ends of a connection in a measured process, whatever it is made of.
//!
//! The kernel's are used through the standard library, which makes the C library's calls: a library that is loaded in front of that
//! sees them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use m3ipc_sockets::{Domain, Listener, Stream};

use super::way::{BACKLOG, Way};
use crate::error::Error;
use crate::mechanism::Inherited;
use crate::ours::{Place, told};

/// Domains of the two sides, and the server's port.
const SERVER: u32 = 0;
const CLIENT: u32 = 1;
const PORT: u16 = 80;

/// One end.
pub enum Line {
    /// Of a com-socket.
    Com(Box<Stream>),
    /// Of a Unix stream.
    Unix(UnixStream),
    /// Of TCP.
    Tcp(TcpStream),
    /// Of two pipes: what is read from, and what is written to until the end.
    Pipe(File, Option<File>),
}

/// Where lines begin: what connects, or what takes connections.
pub enum Port {
    /// Connects com-sockets.
    ToCom(Domain),
    /// Takes com-sockets.
    Com(Listener),
    /// Connects Unix streams.
    ToUnix(SocketAddr),
    /// Takes Unix streams.
    Unix(UnixListener),
    /// Connects by TCP.
    ToTcp(SocketAddrV4),
    /// Takes what connects by TCP.
    Tcp(TcpListener),
}

impl Port {
    /// The server's.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn server(way: Way, mut inherited: Inherited) -> Result<Self, Error> {
        Ok(match way {
            Way::Unix | Way::ShimUnix => Self::Unix(inherited.take()?.into()),
            Way::Tcp | Way::ShimTcp => Self::Tcp(inherited.take()?.into()),
            _ => Self::Com(
                domain(&inherited, SERVER)?
                    .listen(PORT, BACKLOG)
                    .map_err(told("listen at a port"))?,
            ),
        })
    }

    /// The client's.
    ///
    /// # Errors
    /// As of the server's.
    pub fn client(way: Way, inherited: &Inherited) -> Result<Self, Error> {
        let name = inherited.names.first().ok_or(Error::PeerGone)?;
        Ok(match way {
            Way::Unix | Way::ShimUnix => Self::ToUnix(
                SocketAddr::from_abstract_name(name).map_err(Error::os("name a socket"))?,
            ),
            Way::Tcp | Way::ShimTcp => {
                let wrong = |_| Error::Usage(format!("{name:?} is no address of TCP"));
                Self::ToTcp(name.parse().map_err(wrong)?)
            }
            _ => Self::ToCom(domain(inherited, CLIENT)?),
        })
    }

    /// The next connection.
    ///
    /// # Errors
    /// What connect(2) or accept(2) says.
    pub fn next(&self) -> Result<Line, Error> {
        let line = match self {
            Self::ToCom(domain) => {
                let to = SocketAddrV4::new(domain.address_of(SERVER), PORT);
                return domain
                    .connect(to)
                    .map(|stream| Line::Com(Box::new(stream)))
                    .map_err(told("connect a com-socket"));
            }
            Self::ToUnix(address) => UnixStream::connect_addr(address).map(Line::Unix),
            Self::ToTcp(address) => TcpStream::connect(address).map(Line::Tcp),
            Self::Com(listener) => listener.accept().map(|(stream, _)| Line::Com(Box::new(stream))),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Line::Unix(stream)),
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Line::Tcp(stream)),
        };
        line.map_err(Error::os("connect, or accept a connection"))
    }
}

fn domain(inherited: &Inherited, number: u32) -> Result<Domain, Error> {
    let place = Place::new(inherited)?;
    Domain::join_numbered(&place.directory, &place.vm, number).map_err(told("join a domain"))
}

impl Line {
    /// The inherited end of two pipes.
    ///
    /// # Errors
    /// Where too few descriptors were passed.
    pub fn pipe(mut inherited: Inherited) -> Result<Self, Error> {
        Ok(Self::Pipe(inherited.take()?.into(), Some(inherited.take()?.into())))
    }

    /// Lets small messages go at once, where that must be said.
    ///
    /// # Errors
    /// What setsockopt(2) says.
    pub fn without_delay(self) -> Result<Self, Error> {
        if let Self::Tcp(stream) = &self {
            stream.set_nodelay(true).map_err(Error::os("set TCP_NODELAY"))?;
        }
        Ok(self)
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// [`Error::PeerGone`], what write(2) says.
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

    /// Receives what there is, at least a byte; none at the end.
    ///
    /// # Errors
    /// What read(2) says, also that there is nothing where it does not wait.
    #[inline]
    pub fn some(&self, bytes: &mut [u8]) -> io::Result<usize> {
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

    /// Receives until it is full; `false` where the end came before the first byte.
    ///
    /// # Errors
    /// [`Error::PeerGone`] at an end within, what read(2) says.
    #[inline]
    pub fn get(&self, bytes: &mut [u8]) -> Result<bool, Error> {
        let mut got = 0;
        while got < bytes.len() {
            match self.some(&mut bytes[got..]).map_err(gone)? {
                0 if got == 0 => return Ok(false),
                0 => return Err(Error::PeerGone),
                more => got += more,
            }
        }
        Ok(true)
    }

    /// Sends no more.
    ///
    /// # Errors
    /// What shutdown(2) says.
    pub fn end(&mut self) -> Result<(), Error> {
        match self {
            Self::Com(stream) => {
                stream.shutdown(m3ipc_sockets::Direction::Send).map_err(io::Error::from)
            }
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Pipe(_, file) => {
                drop(file.take());
                Ok(())
            }
        }
        .map_err(gone)
    }

    /// Whether calls fail rather than wait.
    ///
    /// # Errors
    /// What ioctl(2) says.
    pub fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Error> {
        match self {
            Self::Com(stream) => stream.set_nonblocking(nonblocking),
            Self::Unix(stream) => stream.set_nonblocking(nonblocking),
            Self::Tcp(stream) => stream.set_nonblocking(nonblocking),
            Self::Pipe(..) => Ok(()),
        }
        .map_err(Error::os("set a socket to wait or not"))
    }

    /// Bells that this side has rung, where there are any.
    #[must_use]
    pub fn bells(&self) -> Option<u64> {
        match self {
            Self::Com(stream) => Some(stream.wakeups().sent),
            _ => None,
        }
    }
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

/// An error of a connection as one of a measurement.
pub fn gone(error: io::Error) -> Error {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WriteZero};
    match error.kind() {
        BrokenPipe | ConnectionReset | UnexpectedEof | WriteZero => Error::PeerGone,
        _ => Error::os("read or write a connection")(error),
    }
}
