//! What the kernel carries blocks through: pipes, sockets, message queues.

use std::ffi::CString;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};

use super::carried::{Carried, Line};
use crate::copy::Kind;
use crate::error::Error;
use crate::raw::{blocks, queues};

const EVERY: &[Kind] = &[Kind::Copy1, Kind::Copy2, Kind::Stream];

/// A pipe as most of them are.
const PIPE: Carried = Carried {
    name: "pipe",
    kinds: EVERY,
    most: any,
    lines: pipes,
    tell: put_all,
    put: put_all,
    get: get_all,
    lies: false,
};

/// Those that are measured.
pub const ALL: [Carried; 5] = [
    PIPE,
    // Pages that were given away must stay as they are until they are read, so the stream, which never asks, is out.
    Carried { name: "vmsplice", kinds: &[Kind::Copy1, Kind::Copy2], put: splice_all, ..PIPE },
    Carried { name: "unix-stream", lines: unix, ..PIPE },
    Carried { name: "tcp", lines: tcp, ..PIPE },
    Carried {
        name: "posix-mq",
        most: queue_limit,
        lines: queues_both_ways,
        tell: queue_put,
        put: queue_put,
        get: queue_get,
        ..PIPE
    },
];

/// A pipe whose destination spoils the last block, for the test of the check.
pub const PLANTED: Carried = Carried { name: "planted-copy", lies: true, ..PIPE };

/// Writes all of it.
///
/// # Errors
/// [`Error::PeerGone`] where nobody reads any more; what write(2) says.
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

/// Reads until it is full.
///
/// # Errors
/// [`Error::PeerGone`] at the end of what there is; what read(2) says.
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

fn splice_all(to: &OwnedFd, bytes: &[u8]) -> Result<(), Error> {
    match blocks::splice_to(to, bytes) {
        Ok(()) => Ok(()),
        Err(Errno::PIPE) => Err(Error::PeerGone),
        Err(error) => Err(Error::os("vmsplice")(error)),
    }
}

fn queue_put(to: &OwnedFd, bytes: &[u8]) -> Result<(), Error> {
    queues::posix_send(to, bytes).map_err(Error::os("mq_send"))
}

fn queue_get(from: &OwnedFd, bytes: &mut [u8]) -> Result<(), Error> {
    let length = queues::posix_receive(from, bytes).map_err(Error::os("mq_receive"))?;
    if length == bytes.len() {
        Ok(())
    } else {
        Err(Error::Usage(format!("mq_receive gave {length} bytes")))
    }
}

fn any() -> usize {
    usize::MAX
}

/// What the kernel lets a message have.
fn queue_limit() -> usize {
    let limit = std::fs::read_to_string("/proc/sys/fs/mqueue/msgsize_max").unwrap_or_default();
    limit.trim().parse().unwrap_or(8_192)
}

fn pipes(_: usize, _: usize) -> Result<(Line, Line), Error> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(Error::os("pipe"));
    let ((there_out, there_in), (back_out, back_in)) = (pipe()?, pipe()?);
    Ok((Line { input: back_out, output: there_in }, Line { input: there_out, output: back_in }))
}

fn unix(_: usize, _: usize) -> Result<(Line, Line), Error> {
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(Error::os("socketpair"))?;
    Ok((both_ways(here)?, both_ways(there)?))
}

fn tcp(_: usize, _: usize) -> Result<(Line, Line), Error> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| Error::Unavailable {
            why: format!("TCP cannot listen on 127.0.0.1: {error}"),
            next: "bring the loopback device up (ip link set lo up)",
        })?;
    let address = listener.local_addr().map_err(Error::os("getsockname"))?;
    let here = TcpStream::connect(address).map_err(Error::os("connect to 127.0.0.1"))?;
    let (there, _) = listener.accept().map_err(Error::os("accept on 127.0.0.1"))?;
    for side in [&here, &there] {
        side.set_nodelay(true).map_err(Error::os("set TCP_NODELAY"))?;
    }
    Ok((both_ways(here.into())?, both_ways(there.into())?))
}

fn both_ways(socket: OwnedFd) -> Result<Line, Error> {
    Ok(Line { input: socket.try_clone().map_err(Error::os("dup of a socket"))?, output: socket })
}

fn queues_both_ways(there_bytes: usize, back_bytes: usize) -> Result<(Line, Line), Error> {
    let (there, back) = (queue(there_bytes)?, queue(back_bytes)?);
    let again = |fd: &OwnedFd| fd.try_clone().map_err(Error::os("dup of a message queue"));
    Ok((Line { input: again(&back)?, output: again(&there)? }, Line { input: there, output: back }))
}

fn queue(bytes: usize) -> Result<OwnedFd, Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = CString::new(format!("/m3-bench-copy-{}-{number}", std::process::id()))
        .expect("a formatted number holds no zero byte");
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    queues::posix_create(&name, 4, bytes).map_err(|error| Error::Unavailable {
        why: format!(
            "the kernel gives no POSIX message queue for messages of {bytes} bytes: {error}"
        ),
        next: "look at /proc/sys/fs/mqueue and ulimit -q",
    })
}
