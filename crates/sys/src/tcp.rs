//! What the kernel knows of a TCP connection.
//!
//! # Safety
//! `getsockopt` writes into a live local and gets its exact length.
#![allow(unsafe_code)]

use crate::errno::last_error;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use std::time::Duration;

/// The bytes of `struct tcp_info` up to `tcpi_rtt`, as of Linux 2.6.
const WORDS: usize = 18;
/// The place of `tcpi_rtt`: 8 bytes of small fields, then 15 words.
const ROUND_TRIP: usize = 17;

/// The time from a segment to its acknowledgement, as the kernel has smoothed it.
///
/// # Errors
/// `OPNOTSUPP` or `NOPROTOOPT` if this is no TCP socket.
///
/// # Source
/// tcp(7), `TCP_INFO`; `struct tcp_info` in linux/tcp.h
pub fn tcp_round_trip(socket: impl AsFd) -> Result<Duration, Errno> {
    let mut words = [0_u32; WORDS];
    let mut length: libc::socklen_t = 4 * 18;
    // SAFETY: `words` is live, `length` bytes long, and valid for any bits. The kernel writes no
    // more and returns the written length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(last_error());
    }
    if (length as usize) < 4 * WORDS {
        return Err(Errno::NOPROTOOPT);
    }
    Ok(Duration::from_micros(u64::from(words[ROUND_TRIP])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_that_has_carried_bytes_has_a_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let mut near = TcpStream::connect(address).expect("somebody listens");
        let (mut far, _) = listener.accept().expect("a connection waits");
        near.write_all(&[1]).expect("the socket has room");
        far.read_exact(&mut [0]).expect("a byte comes");
        let trip = tcp_round_trip(&near).expect("a TCP socket");
        // Loopback, in the kernel's microseconds: more than none, and below its first guess.
        assert!(trip > Duration::ZERO && trip < Duration::from_secs(1), "{trip:?}");
        let (other, _) = std::os::unix::net::UnixStream::pair().expect("two sockets");
        assert!(tcp_round_trip(other).is_err());
    }
}
