//! Channels of the kernel: pipes, FIFOs, sockets and POSIX message queues.

use std::ffi::CString;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat, open, unlink};
use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::Error;
use crate::raw::queues;
use crate::subject::Inherited;
use crate::unique;

/// Messages that a queue holds.
const QUEUE_DEPTH: i64 = 4;

/// One end of a channel.
pub struct Channel {
    /// The descriptor that is read.
    pub input: OwnedFd,
    /// The descriptor that is written.
    pub output: OwnedFd,
}

/// The ends of the client and of the server.
pub type Ends = (Channel, Channel);

impl Channel {
    /// The end from two inherited descriptors.
    pub fn from_inherited(mut inherited: Inherited) -> Result<Self, Error> {
        Ok(Self { input: inherited.take()?, output: inherited.take()? })
    }

    /// Both descriptors.
    pub fn into_inherited(self) -> Inherited {
        Inherited::fds(vec![self.input, self.output])
    }

    fn both_ways(fd: OwnedFd) -> Result<Self, Error> {
        Ok(Self { input: duplicate(&fd)?, output: fd })
    }
}

/// A second descriptor of the same file.
pub fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, Error> {
    fd.try_clone().map_err(Error::os("dup"))
}

/// Writes all bytes.
#[inline]
pub fn put_all(to: &OwnedFd, bytes: &[u8]) -> Result<(), Error> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(to, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(Error::PeerGone),
            Err(error) => return Err(Error::os("write")(error)),
        }
    }
    Ok(())
}

/// Reads until the buffer is full.
#[inline]
pub fn get_all(from: &OwnedFd, bytes: &mut [u8]) -> Result<(), Error> {
    let mut got = 0;
    while got < bytes.len() {
        match read(from, &mut bytes[got..]) {
            Ok(0) | Err(Errno::CONNRESET) => return Err(Error::PeerGone),
            Ok(length) => got += length,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Error::os("read")(error)),
        }
    }
    Ok(())
}

/// Two pipes, one per direction.
pub fn pipes() -> Result<Ends, Error> {
    crossed(|| pipe_with(PipeFlags::CLOEXEC).map_err(Error::os("pipe")))
}

/// Two FIFOs whose names are removed at once.
pub fn fifos() -> Result<Ends, Error> {
    crossed(|| {
        let (path, cloexec) = (unique::path("fifo"), OFlags::CLOEXEC);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .map_err(Error::os("mkfifo"))?;
        // A non-blocking reader opens without a writer; then the writer finds the reader.
        let reader = open(&path, OFlags::RDONLY | OFlags::NONBLOCK | cloexec, Mode::empty());
        let writer = open(&path, OFlags::WRONLY | cloexec, Mode::empty());
        unlink(&path).map_err(Error::os("unlink of a FIFO"))?;
        let reader = reader.map_err(Error::os("open of a FIFO for reading"))?;
        fcntl_setfl(&reader, OFlags::empty()).map_err(Error::os("set a FIFO to block"))?;
        Ok((reader, writer.map_err(Error::os("open of a FIFO for writing"))?))
    })
}

fn crossed(open: impl Fn() -> Result<(OwnedFd, OwnedFd), Error>) -> Result<Ends, Error> {
    let ((requests, request), (answers, answer)) = (open()?, open()?);
    let client = Channel { input: answers, output: request };
    Ok((client, Channel { input: requests, output: answer }))
}

/// A connected pair of Unix sockets of this type.
pub fn unix(socket_type: SocketType) -> Result<(OwnedFd, OwnedFd), Error> {
    socketpair(AddressFamily::UNIX, socket_type, SocketFlags::CLOEXEC, None)
        .map_err(Error::os("socketpair"))
}

/// A Unix stream, as a channel.
pub fn unix_stream() -> Result<Ends, Error> {
    let (client, server) = unix(SocketType::STREAM)?;
    Ok((Channel::both_ways(client)?, Channel::both_ways(server)?))
}

/// A Unix seqpacket connection, as a channel.
pub fn unix_seqpacket() -> Result<Ends, Error> {
    let (client, server) = unix(SocketType::SEQPACKET)?;
    Ok((Channel::both_ways(client)?, Channel::both_ways(server)?))
}

/// A listener on 127.0.0.1.
pub fn tcp_listener() -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| Error::Unavailable {
        why: format!("TCP cannot listen on 127.0.0.1: {error}"),
        next: "bring the loopback device up (ip link set lo up)",
    })
}

/// A connection to 127.0.0.1 with TCP_NODELAY on both sides.
pub fn tcp() -> Result<Ends, Error> {
    let listener = tcp_listener()?;
    let address = listener.local_addr().map_err(Error::os("getsockname"))?;
    let client = TcpStream::connect(address).map_err(Error::os("connect to 127.0.0.1"))?;
    let (server, _) = listener.accept().map_err(Error::os("accept on 127.0.0.1"))?;
    for side in [&client, &server] {
        side.set_nodelay(true).map_err(Error::os("set TCP_NODELAY"))?;
    }
    Ok((Channel::both_ways(client.into())?, Channel::both_ways(server.into())?))
}

/// Two POSIX queues for requests and answers of these sizes.
///
/// On Linux a queue is a descriptor, so processes inherit it.
pub fn posix_queues(request_bytes: usize, answer_bytes: usize) -> Result<Ends, Error> {
    let (requests, answers) = (posix_queue(request_bytes)?, posix_queue(answer_bytes)?);
    let client = Channel { input: duplicate(&answers)?, output: duplicate(&requests)? };
    Ok((client, Channel { input: requests, output: answers }))
}

fn posix_queue(bytes: usize) -> Result<OwnedFd, Error> {
    let name = CString::new(format!("/m3-bench-{}-{}", std::process::id(), unique::number()))
        .expect("a formatted number holds no zero byte");
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    queues::posix_create(&name, QUEUE_DEPTH, bytes).map_err(|error| match error.raw_os_error() {
        Some(
            libc::ENOSYS | libc::ENOSPC | libc::EMFILE | libc::EACCES | libc::EPERM | libc::EINVAL,
        ) => Error::Unavailable {
            why: format!("no POSIX message queue for messages of {bytes} bytes: {error}"),
            next: "see /proc/sys/fs/mqueue and ulimit -q",
        },
        _ => Error::Os { what: "mq_open", source: error },
    })
}

/// Receives one message of exactly this length; the buffer may be longer.
#[inline]
pub fn receive_exactly(from: &OwnedFd, buffer: &mut [u8], bytes: usize) -> Result<(), Error> {
    let length = queues::posix_receive(from, buffer).map_err(Error::os("mq_receive"))?;
    if length == bytes { Ok(()) } else { Err(wrong_length("mq_receive", length)) }
}

/// The error of a message of the wrong length.
#[cold]
pub fn wrong_length(call: &str, length: usize) -> Error {
    Error::Usage(format!("{call} gave {length} bytes"))
}
